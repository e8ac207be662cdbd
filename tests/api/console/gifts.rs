//! Gifts: credits of a list (rule 8.6.52), their preview, their start, a second person, and the file of their result.

use std::fmt::Write as _;

use domain::console_user::Role;
use domain::ids::{AppId, CreditRef, OpenId};
use domain::operator::{Operator, OperatorKind};
use store::OperationError;

use super::accessible::faults;
use super::reading::{content, rows};
use crate::support::console::{Browser, ESCAPED, HOSTILE, ORIGIN};
use crate::support::{Answer, Request, TestApp, TestTill, until};
use crate::workbook::sheet_lines;

const FORM: &str = "/console/gifts";

async fn till_above(second_person_above: u64) -> (TestTill, TestApp) {
    let till = TestTill::start_with(|config| config.console.second_person_above = second_person_above).await;
    let app = till.app("a1").await;
    for player in ["o1", "o2", "o3"] {
        till.player(&app, player, 10, 0).await;
    }
    (till, app)
}

async fn send(browser: &Browser<'_>, fields: &[(&str, &str)]) -> Answer {
    let fields: Vec<_> =
        [("app_id", "a1"), ("reason", "outage")].into_iter().chain(fields.iter().copied()).collect();
    browser.post(FORM, &fields).await
}

/// The page of the gift to which the form leads.
async fn drafted(browser: &Browser<'_>, fields: &[(&str, &str)]) -> String {
    let sent = send(browser, fields).await;
    assert_eq!(sent.status, 303, "{}", sent.body);
    sent.header("location").unwrap().to_owned()
}

async fn start(browser: &Browser<'_>, path: &str) {
    let started = browser.post(&format!("{path}/start"), &[]).await;
    assert_eq!((started.status, started.header("location")), (303, Some(path)), "{}", started.body);
}

async fn text(till: &TestTill, statement: &'static str) -> String {
    sqlx::query_scalar(statement).fetch_one(&till.sql).await.unwrap()
}

/// Credits all that was started, as the job of a server does.
async fn work(till: &TestTill) {
    while till.store.credit_gift_lines().await.unwrap() {}
}

/// Rule: a list is shown before it is made, with whom it registers and what it adds up to, and made once.
#[tokio::test(flavor = "multi_thread")]
async fn a_gift_is_shown_made_once_and_told_line_by_line() {
    let (till, app) = till_above(0).await;
    let admin = till.browser(Role::Admin).await;
    let form = admin.get("/console/gifts?app_id=a1").await;
    assert_eq!((form.status, faults(&form.body)), (200, Vec::new()));
    let fields =
        [("list", "o1\r\no2\r\n\r\no9\r\no1"), ("gifted", "50"), ("prefix", "fair"), ("create", "yes")];
    let path = drafted(&admin, &fields).await;
    assert_eq!(drafted(&admin, &fields).await, path, "the same list is the same gift");
    let page = admin.get(&path).await;
    let shown = content(&page);
    assert_eq!((page.status, faults(&page.body)), (200, Vec::new()));
    for words in [
        "This is a preview. Nothing has changed yet.",
        "Lines 4 , of which 1 were credited before or repeat another line",
        "Gifted coins in all 150",
        "Players whom the gift registers 1 : o9",
        "Reason outage",
        "Credit all lines now",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(page.body.contains("Gift to a list of 4 lines"), "{}", page.body);
    assert_eq!(rows(&page.body)[0], ["1", "o1", "50", "0", "fair-o1"]);
    assert_eq!(till.purses(&app, "o1").await, (10, 0, 1));
    // Nothing is made before somebody starts it.
    work(&till).await;
    assert_eq!(till.purses(&app, "o1").await, (10, 0, 1));

    start(&admin, &path).await;
    work(&till).await;
    start(&admin, &path).await;
    work(&till).await;
    let purses = |player: &'static str| till.purses(&app, player);
    assert_eq!(
        (purses("o1").await, purses("o2").await, purses("o9").await),
        ((60, 0, 2), (60, 0, 2), (50, 0, 1))
    );
    let done = admin.get(&path).await;
    assert!(content(&done).contains("Every line was carried out"), "{}", done.body);
    assert_eq!(rows(&done.body)[..2], [["Credited", "3"], ["Credited before", "1"]]);
    let file = admin.get(&format!("{path}/result.csv")).await;
    let expected = "line,open_id,free,charge,ref,outcome\n1,o1,50,0,fair-o1,credited\n2,o2,50,0,fair-o2,credited\n\
                    3,o9,50,0,fair-o9,credited\n4,o1,50,0,fair-o1,replayed\n";
    assert_eq!(file.whole(), expected);
    let book = admin.get(&format!("{path}/result.xlsx")).await;
    assert_eq!(
        sheet_lines(&book.bytes, "Lines"),
        [
            "#1\to1\t#50\t#0\tfair-o1\tcredited",
            "#2\to2\t#50\t#0\tfair-o2\tcredited",
            "#3\to9\t#50\t#0\tfair-o9\tcredited",
            "#4\to1\t#50\t#0\tfair-o1\treplayed",
        ]
    );
    let sums = ["credited\t#3\t#150\t#0", "replayed\t#1\t#50\t#0"];
    assert_eq!(sheet_lines(&book.bytes, "Sums"), sums);
    // A new list with the same beginning of the refs credits nobody again, and tells so.
    let again = drafted(&admin, &[("list", "o1\no3"), ("gifted", "50"), ("prefix", "fair")]).await;
    assert!(
        content(&admin.get(&again).await)
            .contains("Lines 2 , of which 1 were credited before or repeat another line")
    );
    let one = drafted(&admin, &[("list", "o1"), ("gifted", "1"), ("prefix", "one")]).await;
    assert!(admin.get(&one).await.body.contains("<title>Gift to a list of 1 line "));
    let log = "SELECT string_agg(action || ' ' || coalesce(after ->> 'credited', after ->> 'lines'), ', ' ORDER BY seq)
               FROM operator_log WHERE action IN ('gift.start', 'wallet.credits')";
    assert_eq!(text(&till, log).await, "gift.start 4, wallet.credits 3");
    till.assert_audit_clean().await;
}

/// Rules 8.6.52 and 13.7.4: a gift whose reason named an erased player is not the one that was shown. It is started once its list
/// was sent again.
#[tokio::test(flavor = "multi_thread")]
async fn a_gift_whose_reason_named_an_erased_player_is_sent_again() {
    let (till, app) = till_above(0).await;
    let admin = till.browser(Role::Admin).await;
    let fields = [("list", "o1"), ("gifted", "5"), ("prefix", "fair")];
    let path = drafted(&admin, &fields).await;
    till.player(&app, "outage", 0, 1).await;
    let named = OpenId::parse("outage").unwrap();
    till.store
        .erase_player(&Operator::new(OperatorKind::Console, "alice").unwrap(), &app.id, &named)
        .await
        .unwrap();
    let refused = admin.post(&format!("{path}/start"), &[]).await;
    assert!(content(&refused).contains("is not the one that was shown"), "{}", refused.body);
    assert_eq!(drafted(&admin, &fields).await, path);
    start(&admin, &path).await;
    work(&till).await;
    assert_eq!(till.purses(&app, "o1").await, (15, 0, 2));
}

/// Rule: nothing of a list with a wrong line is kept, and each such line is named, in both languages.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_with_wrong_lines_names_each_of_them() {
    let (till, _) = till_above(0).await;
    let admin = till.browser(Role::Admin).await;
    let list = "open_id\tfree\no1\t5\no9\t5\no2\t+5\no3\t0\n";
    let refused = send(&admin, &[("list", list), ("prefix", "p")]).await;
    assert_eq!((refused.status, faults(&refused.body)), (400, Vec::new()));
    assert_eq!(
        rows(&refused.body),
        [
            ["3", "there is no player o9 of an app a1"],
            ["4", "free: expected an integer from 0 to 9223372036854775807, got &#34;+5&#34;"],
            ["5", "free and charge: expected 1 or more in one of them, got 0 and 0"],
        ]
    );
    assert!(refused.body.contains("o1\t5"), "what was typed is kept");
    let csrf = admin.csrf_token().await;
    let chinese = Request::post(FORM).header("origin", ORIGIN).header("accept-language", "zh").body(
        crate::support::form(&[
            ("csrf", csrf.as_str()),
            ("app_id", "a1"),
            ("reason", "r"),
            ("list", "o9"),
            ("gifted", "1"),
            ("prefix", "p"),
        ]),
    );
    let chinese = admin.send(chinese).await;
    assert!(chinese.body.contains("应用 a1 没有玩家 o9"), "{}", chinese.body);
    for (fields, words) in [
        (&[("list", ""), ("gifted", "1")][..], "Expected a list, typed here or as a file."),
        (&[("list", "o1"), ("prefix", "p")][..], "there is no column free or charge"),
        (
            &[("list", "o1"), ("gifted", "1")][..],
            "there is no column ref, and no Beginning of the references",
        ),
        (
            &[("list", "open_id,colour\no1,red"), ("gifted", "1")][..],
            "expected a heading of open_id, free, charge and ref, got open_id,colour",
        ),
        (
            &[("list", "open_id,free\no1,1"), ("gifted", "1"), ("prefix", "p")][..],
            "the column free and Gifted coins for each name the same twice",
        ),
        (
            &[("list", "o1"), ("gifted", "x"), ("prefix", "p")][..],
            "expected an integer from 0 to 9223372036854775807",
        ),
    ] {
        let refused = send(&admin, fields).await;
        let said = refused.body.replace("&#34;", "\"").to_lowercase();
        assert!(refused.status == 400 && said.contains(&words.to_lowercase()), "{words}: {}", refused.body);
    }
    let missing = admin.post(FORM, &[("list", "o1")]).await;
    assert_eq!((missing.status, missing.body.matches("Is missing.").count()), (400, 2), "{}", missing.body);
    let unknown = admin
        .post(FORM, &[("app_id", "a9"), ("reason", "r"), ("list", "o1"), ("gifted", "1"), ("prefix", "p")])
        .await;
    assert!(unknown.status == 404, "{}", unknown.body);
    assert_eq!(till.number("SELECT count(*) FROM gifts").await, 0);
    // A text of somebody else is a text.
    let hostile = admin
        .post(
            FORM,
            &[("app_id", "a1"), ("reason", HOSTILE), ("list", HOSTILE), ("gifted", "1"), ("prefix", "p")],
        )
        .await;
    assert!(hostile.body.contains(ESCAPED) && !hostile.body.contains("<img"), "{}", hostile.body);
}

/// Rule: a list is of at most 100,000 lines and 8 MiB, and the line is named in which it is too long.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_too_long_is_refused_with_its_line() {
    let (till, _) = till_above(0).await;
    let admin = till.browser(Role::Admin).await;
    let many = (0..=100_000).fold("open_id\n".to_owned(), |mut list, number| {
        writeln!(list, "o{number}").unwrap();
        list
    });
    let fields = [("list", many.as_str()), ("gifted", "1"), ("prefix", "p"), ("create", "yes")];
    let refused = send(&admin, &fields).await;
    let words = "a list has at most 100000 lines of credits, and line 100002 is one too many";
    assert!(refused.status == 400 && refused.body.contains(words), "{}", &refused.body[..2000]);
    let csrf = admin.csrf_token().await;
    let long = "x".repeat(1024) + "\n";
    let file = long.repeat(8 * 1024);
    let parts =
        [("csrf", csrf.as_str()), ("app_id", "a1"), ("reason", "r"), ("gifted", "1"), ("prefix", "p")];
    let heads: Vec<(String, &[u8])> = parts
        .iter()
        .map(|(name, value)| (format!("content-disposition: form-data; name=\"{name}\""), value.as_bytes()))
        .chain([(
            "content-disposition: form-data; name=\"file\"; filename=\"l.csv\"".to_owned(),
            file.as_bytes(),
        )])
        .collect();
    let parts: Vec<(&str, &[u8])> = heads.iter().map(|(head, bytes)| (head.as_str(), *bytes)).collect();
    let refused = admin.send(Request::post(FORM).header("origin", ORIGIN).multipart(&parts)).await;
    let words = "Expected at most 8 MiB, which end in line 8185.";
    assert!(refused.status == 400 && refused.body.contains(words), "{}", refused.body);
    // What is far above it is not read to its end.
    let larger = long.repeat(32 * 1024);
    let mut too_large = parts.clone();
    too_large.last_mut().unwrap().1 = larger.as_bytes();
    let refused = admin.send(Request::post(FORM).header("origin", ORIGIN).multipart(&too_large)).await;
    let words = "expected at most 8388608 bytes";
    assert!(refused.status == 413 && refused.body.contains(words), "{}", refused.body);
    let short: Vec<(&str, &[u8])> = parts
        .iter()
        .map(|(head, bytes)| {
            if head.contains("filename") {
                (*head, &b"open_id,charge,ref\no2,7,r7\n"[..])
            } else {
                (*head, *bytes)
            }
        })
        .filter(|(head, _)| !head.contains("\"gifted\""))
        .collect();
    let kept = admin.send(Request::post(FORM).header("origin", ORIGIN).multipart(&short)).await;
    assert_eq!(kept.status, 303, "a file with refs of its own needs no beginning: {}", kept.body);
    let page = admin.get(kept.header("location").unwrap()).await;
    assert_eq!(rows(&page.body)[0], ["1", "o2", "0", "7", "r7"]);
}

/// Rule 8.6.40 on the total: a total above the limit waits for a second person, who starts it. A gift that was started
/// counts before its lines are made.
#[tokio::test(flavor = "multi_thread")]
async fn a_gift_above_the_limit_in_all_waits_for_a_second_person() {
    let (till, app) = till_above(100).await;
    let (alice, bob) = (till.browser(Role::Admin).await, till.browser(Role::Admin).await);
    let of = |amount: &'static str, prefix: &'static str| {
        [("list", "o1\no2\no3"), ("charged", amount), ("prefix", prefix)]
    };
    let large = drafted(&alice, &of("34", "p")).await;
    assert!(content(&alice.get(&large).await).contains("A second person must confirm this change."));
    for _ in 0..2 {
        start(&alice, &large).await;
    }
    work(&till).await;
    assert_eq!(till.purses(&app, "o1").await, (10, 0, 1));
    let name = large.rsplit('/').next().unwrap().to_owned();
    let own = alice.get(&large).await.body;
    assert!(own.contains("Withdraw the request") && !own.contains("Confirm the change"), "{own}");
    let refused = alice.post("/console/apps/a1/request/confirm", &[("ref", &name)]).await;
    assert!(
        refused.status == 400 && refused.body.contains("You asked for this change yourself"),
        "{}",
        refused.body
    );
    let list = bob.get("/console/requests").await;
    assert!(list.body.contains(&format!("href=\"{large}\"")) && content(&list).contains("Gifts to lists"));
    assert!(!content(&list).contains("No change is waiting for a second person."), "{}", content(&list));
    let led = bob.get(&format!("/console/apps/a1/request?ref={name}")).await;
    assert_eq!((led.status, led.header("location")), (303, Some(large.as_str())));
    let confirmed = bob.post("/console/apps/a1/request/confirm", &[("ref", &name)]).await;
    assert_eq!(
        (confirmed.status, confirmed.header("location")),
        (303, Some(large.as_str())),
        "{}",
        confirmed.body
    );
    work(&till).await;
    assert_eq!(till.purses(&app, "o1").await, (10, 34, 2));
    // What two people agreed to counts for neither. 99 coins alone are within the limit, also before they are made; 3 more are not.
    let small = drafted(&alice, &of("33", "q")).await;
    start(&alice, &small).await;
    let more = drafted(&alice, &of("1", "r")).await;
    assert!(content(&alice.get(&more).await).contains("A second person must confirm this change."));
    start(&alice, &more).await;
    work(&till).await;
    assert_eq!(till.purses(&app, "o1").await, (10, 67, 3));
    assert_eq!(till.number("SELECT count(*) FROM console_requests WHERE state = 'waiting'").await, 1);
    let within = [("gifted", "1"), ("reference", "c0"), ("reason", "x")];
    let made = alice.post("/console/apps/a1/players/o2/credit", &within).await;
    assert_eq!(
        made.header("location"),
        Some("/console/apps/a1/players/o2?changed=c0"),
        "99 and 1 are not above 100"
    );
    let credit = [("gifted", "2"), ("reference", "c1"), ("reason", "x")];
    let asked = alice.post("/console/apps/a1/players/o1/credit", &credit).await;
    assert_eq!(asked.header("location"), Some("/console/apps/a1/request?ref=c1"), "99 and 2 are above 100");
    // The store looks once more, for what was started since the page was asked.
    let hasty = Operator::new(OperatorKind::Console, "hasty").unwrap().alone_up_to(101);
    let app_id = AppId::parse("a1").unwrap();
    let late = drafted(&alice, &of("34", "s")).await;
    let late = CreditRef::parse(late.rsplit('/').next().unwrap()).unwrap();
    let started = till.store.start_gift(&hasty, &app_id, &late).await;
    assert!(matches!(started, Err(OperationError::Refused(_))), "{started:?}");
    assert!(till.store.gift(&app_id, &late).await.unwrap().unwrap().started_at.is_none());
    till.assert_audit_clean().await;
}

/// Rule: what is confirmed is what was shown. A list that somebody changed in the database is not started.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_was_changed_afterwards_is_not_started() {
    let (till, app) = till_above(0).await;
    let admin = till.browser(Role::Admin).await;
    let path = drafted(&admin, &[("list", "o1\no2"), ("gifted", "1"), ("prefix", "p")]).await;
    till.execute("UPDATE gift_lines SET free = 1000 WHERE line = 2").await;
    let refused = admin.post(&format!("{path}/start"), &[]).await;
    assert!(
        refused.status == 400 && refused.body.contains("is not the one that was shown"),
        "{}",
        refused.body
    );
    let app_id = AppId::parse("a1").unwrap();
    let name = CreditRef::parse(path.rsplit('/').next().unwrap()).unwrap();
    assert!(till.store.gift(&app_id, &name).await.unwrap().unwrap().started_at.is_none());
    // Sent again, it is as it was typed.
    assert_eq!(drafted(&admin, &[("list", "o1\no2"), ("gifted", "1"), ("prefix", "p")]).await, path);
    start(&admin, &path).await;
    work(&till).await;
    assert_eq!(till.purses(&app, "o2").await, (11, 0, 2));
}

/// Rule: a line that is refused when its turn comes leaves the others alone, and the result tells it.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_is_refused_meanwhile_leaves_the_others_alone() {
    let (till, app) = till_above(0).await;
    let admin = till.browser(Role::Admin).await;
    let path = drafted(&admin, &[("list", "o1\no2\no3"), ("gifted", "1"), ("prefix", "p")]).await;
    let credit = [("gifted", "5"), ("reference", "p-o2"), ("reason", "x")];
    assert_eq!(admin.post("/console/apps/a1/players/o1/credit", &credit).await.status, 303);
    start(&admin, &path).await;
    work(&till).await;
    let page = admin.get(&path).await;
    let expected = [["Credited", "2"], ["Refused: the reference was used for something else", "1"]];
    assert_eq!(rows(&page.body)[..2], expected);
    assert_eq!((till.purses(&app, "o2").await, till.purses(&app, "o3").await), ((10, 0, 1), (11, 0, 2)));
    till.assert_audit_clean().await;
}

/// Nothing is locked after the head of the operator's log, so a piece of a gift has marked its lines before.
#[tokio::test(flavor = "multi_thread")]
async fn a_piece_of_a_gift_marks_its_lines_before_the_log() {
    let (till, _) = till_above(0).await;
    let admin = till.browser(Role::Admin).await;
    let path = drafted(&admin, &[("list", "o1\no1"), ("gifted", "5"), ("prefix", "fair")]).await;
    start(&admin, &path).await;
    let mut head = till.sql.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM operator_log_head FOR UPDATE").execute(&mut *head).await.unwrap();
    let store = till.store.clone();
    let piece = tokio::spawn(async move { store.credit_gift_lines().await });
    till.until_locked_out(1).await;
    let mut other = till.sql.begin().await.unwrap();
    // The second line is a replay of the first.
    let unmarked = "SELECT line FROM gift_lines WHERE line = 2 FOR UPDATE SKIP LOCKED";
    assert_eq!(sqlx::query_scalar::<_, i32>(unmarked).fetch_optional(&mut *other).await.unwrap(), None);
    other.rollback().await.unwrap();
    head.rollback().await.unwrap();
    assert!(piece.await.unwrap().unwrap());
    till.assert_audit_clean().await;
}

/// Rule: the job of a running server makes a gift that was started, and those without a right see none of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_makes_a_gift_by_itself() {
    let (till, app) = till_above(0).await;
    let admin = till.browser(Role::Admin).await;
    let path = drafted(&admin, &[("list", "o1"), ("gifted", "7"), ("prefix", "p")]).await;
    start(&admin, &path).await;
    let program = crate::support::program::Program::on(&till.database_url);
    let server = program.serve(None).await;
    until("the gift is made", async || till.purses(&app, "o1").await == (17, 0, 2)).await;
    server.terminate();
    let viewer = till.browser(Role::Viewer).await;
    for page in [FORM, path.as_str()] {
        assert_eq!(viewer.get(page).await.status, 403, "{page}");
    }
    assert!(!viewer.get("/console/players").await.body.contains("/console/gifts"));
}

/// Rule 13.7: the erasure of a player takes their lines out of gifts, and the export has them before.
#[tokio::test(flavor = "multi_thread")]
async fn an_erased_player_is_in_no_gift() {
    let (till, app) = till_above(0).await;
    let admin = till.browser(Role::Admin).await;
    let path = drafted(&admin, &[("list", "o1\no2"), ("gifted", "1"), ("prefix", "p")]).await;
    let o1 = domain::ids::OpenId::parse("o1").unwrap();
    let erased = till.store.erase_player(&crate::support::operator(), &app.id, &o1).await.unwrap();
    assert_eq!(erased.rows.get("gift_lines"), Some(&1));
    assert_eq!(text(&till, "SELECT string_agg(open_id, ',') FROM gift_lines").await, "o2");
    assert_eq!(admin.post(&format!("{path}/start"), &[]).await.status, 400, "it is no longer what was shown");
}

/// Rule: gifts that nobody started go after a day, but not while a request of them waits, and those that ended after 30 days.
#[tokio::test(flavor = "multi_thread")]
async fn old_gifts_are_forgotten() {
    let (till, _) = till_above(5).await;
    let admin = till.browser(Role::Admin).await;
    let draft = drafted(&admin, &[("list", "o1"), ("gifted", "1"), ("prefix", "p")]).await;
    let waiting = drafted(&admin, &[("list", "o1"), ("gifted", "6"), ("prefix", "q")]).await;
    start(&admin, &waiting).await;
    let ended = drafted(&admin, &[("list", "o1"), ("gifted", "2"), ("prefix", "r")]).await;
    start(&admin, &ended).await;
    work(&till).await;
    till.execute("UPDATE gifts SET made_at = made_at - interval '25 hours'").await;
    assert_eq!(till.store.forget_old_gifts().await.unwrap(), 1);
    assert_eq!(admin.get(&draft).await.status, 404);
    assert_eq!((admin.get(&waiting).await.status, admin.get(&ended).await.status), (200, 200));
    till.execute("UPDATE gifts SET ended_at = ended_at - interval '31 days' WHERE ended_at IS NOT NULL")
        .await;
    assert_eq!(till.store.forget_old_gifts().await.unwrap(), 1);
}
