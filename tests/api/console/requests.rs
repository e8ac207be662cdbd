//! Large changes wait for a second person (contract 8.6.40): one admin asks, another one confirms or refuses.

use domain::console_user::Role;
use domain::ids::{AppId, CreditRef, OpenId};
use domain::operation::app::AppCommand;
use serde_json::{Value, json};

use super::reading::{content, link_called, rows, value_of};
use super::wallet_changes::spender;
use crate::support::console::HOSTILE;
use crate::support::{Answer, TestTill, operator};

const PLAYER: &str = "/console/apps/a1/players/o1";
const CONFIRM: &str = "/console/apps/a1/request/confirm";
const REFUSE: &str = "/console/apps/a1/request/refuse";
const REQUEST: &str = "/console/apps/a1/request?ref=case-1";
const CREDIT: [(&str, &str); 4] =
    [("gifted", "600"), ("charged", "401"), ("reference", "case-1"), ("reason", "a long outage")];

async fn till() -> TestTill {
    let till = TestTill::start_with(|config| config.console.second_person_above = 1000).await;
    spender(&till).await;
    till
}

fn leads_to(answer: &Answer) -> (u16, Option<&str>) {
    (answer.status, answer.header("location"))
}

/// The lines of the operator's log about requests and wallets by the console: action, operator, state after it.
async fn lines(till: &TestTill) -> Vec<(String, String, Option<Value>)> {
    let lines = "SELECT action, operator, after FROM operator_log
                 WHERE operator_kind = 'console' AND action ~ '^(wallet|change_request)' ORDER BY seq";
    sqlx::query_as(lines).fetch_all(&till.sql).await.unwrap()
}

async fn name_of(browser: &crate::support::console::Browser<'_>) -> String {
    let page = browser.get("/console").await;
    let (_, rest) = page.body.split_once("<a href=\"/console/account\">").unwrap();
    rest.split('<').next().unwrap().to_owned()
}

/// A change above the limit is asked for, and nothing changes. Asked for again, it is the same request.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_credit_waits() {
    let till = till().await;
    let (alice, bob) = (till.browser(Role::Admin).await, till.browser(Role::Admin).await);
    let path = format!("{PLAYER}/credit");
    let check = alice.post(&format!("{path}/check"), &CREDIT).await;
    assert_eq!(rows(&check.body)[0], ["Gifted", "0", "+600", "600"]);
    assert!(content(&check).contains(
        "A second person must confirm this change. It waits for seven days at most. Ask a second person"
    ));
    // Asked again, with the same content, it is the same request.
    for _ in 0..2 {
        assert_eq!(leads_to(&alice.post(&path, &CREDIT).await), (303, Some(REQUEST)));
    }
    assert_eq!(leads_to(&bob.post(&path, &CREDIT).await), (303, Some(REQUEST)));
    let shown = content(&bob.post(&format!("{path}/check"), &CREDIT).await);
    assert!(shown.starts_with("Somebody has asked for this change already: case-1 ."), "{shown}");
    let other = CREDIT.map(|(name, value)| (name, if value == "600" { "601" } else { value }));
    let taken = "The ref case-1 was used for another player or with other amounts.";
    for page in [path.clone(), format!("{path}/check")] {
        let refused = alice.post(&page, &other).await;
        assert!(refused.status == 400 && refused.body.contains(taken), "{}", refused.body);
    }
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries WHERE reference = '!case-1'").await, 0);
    // The page of the player tells of it.
    let (asker, page) = (name_of(&alice).await, content(&bob.get(PLAYER).await));
    let words =
        format!("A change of 1_001 coins, which {asker} asked for, waits for a second person: case-1");
    assert!(page.contains(&words), "{page}");
    till.assert_audit_clean().await;
}

/// Everybody of the app sees it, and who asked cannot confirm it. It is made once, and the log has each step.
#[tokio::test(flavor = "multi_thread")]
async fn another_admin_confirms_a_large_credit_once() {
    let till = till().await;
    let (alice, bob, viewer) =
        (till.browser(Role::Admin).await, till.browser(Role::Admin).await, till.browser(Role::Viewer).await);
    let path = format!("{PLAYER}/credit");
    alice.post(&path, &CREDIT).await;
    let list = viewer.get("/console/requests").await;
    let row = &rows(&list.body)[0];
    let asker = name_of(&alice).await;
    assert_eq!(row[..4], ["case-1", "credit 1_001", "a1", "o1"]);
    assert!(row[4].starts_with(&format!("{asker} 20")) && row[5] == "a long outage", "{row:?}");
    assert!(list.body.contains("Requests <span class=\"tag wait\">1</span></a>"), "{}", list.body);
    assert!(!viewer.get(REQUEST).await.body.contains("Confirm the change"));
    let own = alice.get(REQUEST).await;
    assert!(!own.body.contains("Confirm the change") && own.body.contains("Withdraw the request"));
    let refused = alice.post(CONFIRM, &[("ref", "case-1")]).await;
    let words = "You asked for this change yourself, and another admin must confirm it.";
    assert!(refused.status == 400 && refused.body.contains(words), "{}", refused.body);
    let none = bob.post(CONFIRM, &[("ref", "case-9")]).await;
    let words = "There is no request case-9 of an app a1.";
    assert!(none.status == 404 && none.body.contains(words), "{}", none.body);

    let page = bob.get(REQUEST).await;
    assert_eq!(value_of(&page, "ref"), "case-1");
    let shown = content(&page);
    assert!(
        shown.contains(&format!("An admin who is not {asker} must confirm this change before")),
        "{shown}"
    );
    assert!(
        shown.contains(
            "Change credit Gifted 600 Charged 401 App a1 Player o1 Balance now 0 gifted, 1_050 charged"
        ),
        "{shown}"
    );
    let done = bob.post(CONFIRM, &[("ref", "case-1")]).await;
    let place = format!("{PLAYER}?changed=case-1");
    assert_eq!(leads_to(&done), (303, Some(place.as_str())));
    assert!(
        bob.get(&place)
            .await
            .body
            .contains("Credited 600 gifted and 401 charged coins with the reference case-1")
    );
    // What has ended ends once.
    for page in [CONFIRM, REFUSE] {
        assert_eq!(leads_to(&bob.post(page, &[("ref", "case-1")]).await), (303, Some(REQUEST)));
    }
    assert!(content(&alice.get(REQUEST).await).starts_with("confirmed The change was made."));
    assert_eq!(leads_to(&alice.post(&path, &CREDIT).await), (303, Some(REQUEST)));
    let confirmer = name_of(&bob).await;
    let state = |state: &str| json!({"ref": "case-1", "kind": "credit", "state": state, "asked_by": asker, "free": 600, "charge": 401});
    assert_eq!(
        lines(&till).await,
        [
            ("change_request.ask".to_owned(), asker.clone(), Some(state("waiting"))),
            (
                "wallet.credit".to_owned(),
                confirmer.clone(),
                Some(json!({"free_balance": 600, "charge_balance": 1451, "ref": "case-1"}))
            ),
            ("change_request.confirm".to_owned(), confirmer, Some(state("confirmed"))),
        ]
    );
    let list = viewer.get("/console/requests").await;
    assert!(!list.body.contains("tag wait") && list.body.contains("<h2>Ended</h2>"), "{}", list.body);
    let history = content(&viewer.get(&format!("{PLAYER}?number=case-1")).await);
    assert!(
        history.contains("change_request. confirm") && history.contains("change_request. ask"),
        "{history}"
    );
    till.assert_audit_clean().await;
}

/// Debits and cancels wait too; a change of the limit itself does not, and without a limit none does.
#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_larger_than_the_limit_waits() {
    let till = TestTill::start_with(|config| config.console.second_person_above = 500).await;
    let app = spender(&till).await;
    let bob = till.browser(Role::Admin).await;
    for (path, large, small, place) in [
        (format!("{PLAYER}/debit"), ("charged", "501"), ("charged", "500"), PLAYER),
        (
            "/console/apps/a1/exchanges/B1/give-back".to_owned(),
            ("amount", "501"),
            ("amount", "49"),
            "/console/apps/a1/exchanges/B1",
        ),
    ] {
        // What one person moves in 24 hours counts together.
        let alice = till.browser(Role::Admin).await;
        let fields = |amount, reference| [amount, ("reference", reference), ("reason", "x")];
        let (one, other) = (format!("{}-large", large.0), format!("{}-small", small.0));
        let asked = alice.post(&path, &fields(large, one.as_str())).await;
        let request = format!("/console/apps/a1/request?ref={one}");
        assert_eq!(leads_to(&asked), (303, Some(request.as_str())));
        let made = alice.post(&path, &fields(small, other.as_str())).await;
        assert_eq!(leads_to(&made), (303, Some(format!("{place}?changed={other}").as_str())));
        let done = bob.post(CONFIRM, &[("ref", one.as_str())]).await;
        assert_eq!(leads_to(&done), (303, Some(format!("{place}?changed={one}").as_str())));
    }
    assert_eq!(till.purses(&app, "o1").await.2, 6);
    // What the till refuses is not asked for.
    let alice = till.browser(Role::Admin).await;
    let poor = [("charged", "99999"), ("reference", "poor"), ("reason", "x")];
    assert_eq!(alice.post(&format!("{PLAYER}/debit"), &poor).await.status, 400);
    assert_eq!(till.number("SELECT count(*) FROM console_requests").await, 2);
    till.assert_audit_clean().await;

    let free = TestTill::start().await;
    spender(&free).await;
    let admin = free.browser(Role::Admin).await;
    let made = admin.post(&format!("{PLAYER}/credit"), &CREDIT).await;
    assert_eq!(leads_to(&made), (303, Some(format!("{PLAYER}?changed=case-1").as_str())));
    assert!(admin.get("/console/requests").await.body.contains("No change needs a second person"));
}

/// Two admins confirm at the same moment: the change is made once. So is a confirmation beside a refusal.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_ends_once_however_many_end_it_at_once() {
    let till = till().await;
    let alice = till.browser(Role::Admin).await;
    let mut admins = Vec::new();
    for _ in 0..4 {
        admins.push(till.browser(Role::Admin).await);
    }
    for round in 0..6 {
        let reference = format!("race-{round}");
        let fields =
            CREDIT.map(|(name, value)| (name, if value == "case-1" { reference.as_str() } else { value }));
        assert_eq!(alice.post(&format!("{PLAYER}/credit"), &fields).await.status, 303);
        let field = [("ref", reference.as_str())];
        let refuses = if round % 2 == 0 { CONFIRM } else { REFUSE };
        let [a, b, c, d] = admins.as_slice() else { unreachable!() };
        let ends = tokio::join!(
            a.post(CONFIRM, &field),
            b.post(CONFIRM, &field),
            c.post(refuses, &field),
            d.post(CONFIRM, &field)
        );
        for end in [ends.0, ends.1, ends.2, ends.3] {
            assert_eq!(end.status, 303, "{}", end.body);
        }
        let made = format!("SELECT count(*) FROM ledger_entries WHERE reference = '!{reference}'");
        let state = format!(
            "SELECT count(*) FROM console_requests WHERE ref = '{reference}' AND state = 'confirmed'"
        );
        let told = format!(
            "SELECT count(*) FROM operator_log WHERE action = 'change_request.confirm' AND after ->> 'ref' = '{reference}'"
        );
        let ended = format!(
            "SELECT count(*) FROM operator_log WHERE action IN ('change_request.confirm', 'change_request.refuse')
             AND after ->> 'ref' = '{reference}'"
        );
        let made = till.number(&made).await;
        assert_eq!((till.number(&state).await, till.number(&told).await), (made, made), "round {round}");
        assert_eq!(till.number(&ended).await, 1, "round {round}");
        assert!(refuses == REFUSE || made == 1, "round {round}");
    }
    till.assert_audit_clean().await;
}

/// A change that the till refuses when it is confirmed waits on; a refused and an old request change nothing for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_refused_or_old_changes_nothing() {
    let till = till().await;
    let (alice, bob) = (till.browser(Role::Admin).await, till.browser(Role::Admin).await);
    let debit = [("charged", "1050"), ("reference", "case-1"), ("reason", "x")];
    assert_eq!(alice.post(&format!("{PLAYER}/debit"), &debit).await.status, 303);
    let part = [("charged", "1"), ("reference", "part"), ("reason", "x")];
    assert_eq!(alice.post(&format!("{PLAYER}/debit"), &part).await.status, 303);
    let poor = bob.post(CONFIRM, &[("ref", "case-1")]).await;
    let words = "The player has 0 gifted and 1049 charged coins.";
    assert!(poor.status == 400 && poor.body.contains(words), "{}", poor.body);
    assert!(content(&bob.get(REQUEST).await).starts_with("waiting "), "it waits on");
    till.execute("UPDATE console_requests SET asked_at = asked_at - interval '7 days'").await;
    assert_eq!(leads_to(&bob.post(CONFIRM, &[("ref", "case-1")]).await), (303, Some(REQUEST)));
    let old = bob.get(REQUEST).await;
    assert!(content(&old).starts_with("ended Nobody confirmed the change in time."), "{}", content(&old));
    assert!(!old.body.contains("Confirm the change") && !old.body.contains("tag wait\">1"));
    assert_eq!(leads_to(&alice.post(&format!("{PLAYER}/debit"), &debit).await), (303, Some(REQUEST)));

    assert_eq!(
        alice
            .post(
                &format!("{PLAYER}/credit"),
                &CREDIT.map(|(name, value)| (name, if value == "case-1" { "case-2" } else { value }))
            )
            .await
            .status,
        303
    );
    let request = "/console/apps/a1/request?ref=case-2";
    assert_eq!(leads_to(&bob.post(REFUSE, &[("ref", "case-2")]).await), (303, Some(request)));
    let shown = bob.get(request).await;
    assert!(content(&shown).starts_with("refused The change was refused."), "{}", content(&shown));
    assert_eq!(link_called(&shown, "Back to the player").as_deref(), Some(PLAYER));
    assert_eq!(leads_to(&bob.post(CONFIRM, &[("ref", "case-2")]).await), (303, Some(request)));
    assert_eq!(
        till.number("SELECT count(*) FROM ledger_entries WHERE reference IN ('!case-1', '!case-2')").await,
        0
    );
    let last = lines(&till).await.pop().unwrap();
    assert_eq!((last.0.as_str(), last.1), ("change_request.refuse", name_of(&bob).await));
    // As it was: the audit names a time that somebody has changed.
    till.execute("UPDATE console_requests SET asked_at = asked_at + interval '7 days' WHERE ref = 'case-1'")
        .await;
    till.assert_audit_clean().await;
}

/// The change, both lines of the log and the end of the request are one transaction. When one cannot be written, none is,
/// and the request can be confirmed later: once.
#[tokio::test(flavor = "multi_thread")]
async fn a_confirmation_is_whole_or_nothing() {
    let till = till().await;
    let (alice, bob) = (till.browser(Role::Admin).await, till.browser(Role::Admin).await);
    assert_eq!(alice.post(&format!("{PLAYER}/credit"), &CREDIT).await.status, 303);
    let state =
        "SELECT string_agg(state, '') || (SELECT count(*) FROM ledger_entries WHERE reference = '!case-1')
                     || (SELECT count(*) FROM operator_log WHERE after ->> 'ref' = 'case-1')
                     || (SELECT max(entry_count) FROM wallets) FROM console_requests";
    let told = async || sqlx::query_scalar::<_, String>(state).fetch_one(&till.sql).await.unwrap();
    assert_eq!(told().await, "waiting012");
    // The last thing that is written.
    till.execute("ALTER TABLE operator_log ADD CONSTRAINT broken CHECK (action <> 'change_request.confirm')")
        .await;
    assert_eq!(bob.post(CONFIRM, &[("ref", "case-1")]).await.status, 500);
    assert_eq!(told().await, "waiting012");
    // The first one.
    till.execute(
        "ALTER TABLE operator_log DROP CONSTRAINT broken;
         ALTER TABLE console_requests ADD CONSTRAINT broken CHECK (state <> 'confirmed')",
    )
    .await;
    assert_eq!(bob.post(CONFIRM, &[("ref", "case-1")]).await.status, 500);
    assert_eq!(told().await, "waiting012");
    till.execute("ALTER TABLE console_requests DROP CONSTRAINT broken").await;
    for _ in 0..2 {
        assert_eq!(bob.post(CONFIRM, &[("ref", "case-1")]).await.status, 303);
        assert_eq!(told().await, "confirmed133");
    }
    till.assert_audit_clean().await;
}

/// A change that somebody made by another way meanwhile is not made again. One with the same ref and other content stops
/// the confirmation, and no form takes the ref for another change.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_made_meanwhile_is_not_made_again() {
    let till = till().await;
    let app = AppId::parse("a1").unwrap();
    let (alice, bob) = (till.browser(Role::Admin).await, till.browser(Role::Admin).await);
    let credit = async |reference: &str, free: i64| {
        let credit = domain::operation::wallet::Credit {
            open_id: OpenId::parse("o1").unwrap(),
            free,
            charge: 401,
            reference: CreditRef::parse(reference).unwrap(),
            note: String::new(),
            create: false,
        };
        till.store.change_wallet(&operator(), &app, credit).await.unwrap()
    };
    let fields =
        |reference| CREDIT.map(|(name, value)| (name, if value == "case-1" { reference } else { value }));
    for reference in ["case-1", "case-2"] {
        assert_eq!(alice.post(&format!("{PLAYER}/credit"), &fields(reference)).await.status, 303);
    }
    let small = [("gifted", "1"), ("reference", "case-1"), ("reason", "x")];
    let taken = alice.post(&format!("{PLAYER}/credit"), &small).await;
    assert!(taken.status == 400 && taken.body.contains("was used for another player"), "{}", taken.body);
    credit("case-1", 600).await;
    credit("case-2", 1).await;
    let done = bob.post(CONFIRM, &[("ref", "case-1")]).await;
    assert_eq!(leads_to(&done), (303, Some(format!("{PLAYER}?changed=case-1").as_str())));
    let refused = bob.post(CONFIRM, &[("ref", "case-2")]).await;
    assert!(
        refused.status == 400 && refused.body.contains("was used for another player"),
        "{}",
        refused.body
    );
    assert_eq!(till.number("SELECT free_balance FROM wallets WHERE open_id = 'o1'").await, 601);
    let states = "SELECT string_agg(state, ' ' ORDER BY ref) FROM console_requests";
    let states: String = sqlx::query_scalar(states).fetch_one(&till.sql).await.unwrap();
    assert_eq!(states, "confirmed waiting");
    till.assert_audit_clean().await;
}

/// A request that ends by its time while somebody confirms it: the time counts at which its row was locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_time_ends_during_the_confirmation_is_not_made() {
    let till = till().await;
    let (alice, bob) = (till.browser(Role::Admin).await, till.browser(Role::Admin).await);
    assert_eq!(alice.post(&format!("{PLAYER}/credit"), &CREDIT).await.status, 303);
    let mut other = till.sql.begin().await.unwrap();
    let old = "UPDATE console_requests SET asked_at = now() - interval '7 days'";
    sqlx::query(old).execute(&mut *other).await.unwrap();
    let confirm = bob.post(CONFIRM, &[("ref", "case-1")]);
    let end = async {
        till.until_locked_out(1).await;
        other.commit().await.unwrap();
    };
    let (confirmed, ()) = tokio::join!(confirm, end);
    assert_eq!(leads_to(&confirmed), (303, Some(REQUEST)));
    assert!(content(&bob.get(REQUEST).await).starts_with("ended "), "it has ended");
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries WHERE reference = '!case-1'").await, 0);
}

/// A request may register a player, of an app that is suspended meanwhile: as a credit does.
#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_credit_is_that_of_one_person() {
    let till = till().await;
    let (alice, bob) = (till.browser(Role::Admin).await, till.browser(Role::Admin).await);
    let path = "/console/apps/a1/players/newcomer/credit";
    let refused = alice.post(path, &CREDIT).await;
    assert!(
        refused.status == 404 && refused.body.contains("There is no player newcomer of an app a1."),
        "{}",
        refused.body
    );
    let fields: Vec<_> = CREDIT.into_iter().chain([("create", "yes")]).collect();
    assert_eq!(alice.post(path, &fields).await.status, 303);
    assert_eq!(till.number("SELECT count(*) FROM wallets WHERE open_id = 'newcomer'").await, 0);
    assert!(content(&bob.get(REQUEST).await).contains("Player newcomer (this credit registers the player)"));
    let app_id = AppId::parse("a1").unwrap();
    till.store.carry_out(&operator(), &app_id, AppCommand::Suspend(true)).await.unwrap();
    assert_eq!(bob.post(CONFIRM, &[("ref", "case-1")]).await.status, 303);
    assert_eq!(till.number("SELECT free_balance FROM wallets WHERE open_id = 'newcomer'").await, 600);
    till.assert_audit_clean().await;
}

/// A ref may have any character: it stands in addresses and in pages as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_ref_of_any_characters_is_confirmed() {
    let till = till().await;
    let (alice, bob) = (till.browser(Role::Admin).await, till.browser(Role::Admin).await);
    for reference in ["..", "a/b?c=d&e#f%2F+ g", HOSTILE] {
        let fields = CREDIT.map(|(name, value)| (name, if value == "case-1" { reference } else { value }));
        let asked = alice.post(&format!("{PLAYER}/credit"), &fields).await;
        let page = bob.get(asked.header("location").unwrap()).await;
        assert!(
            content(&page).starts_with("waiting Nothing has changed yet.") && !page.body.contains("<img")
        );
        let done = bob.post(CONFIRM, &[("ref", reference)]).await;
        assert_eq!(done.status, 303);
        let page = bob.get(done.header("location").unwrap()).await;
        assert!(page.body.contains("Credited 600 gifted") && !page.body.contains("<img"), "{}", page.body);
        assert_eq!(bob.get("/console/requests").await.status, 200);
    }
}
