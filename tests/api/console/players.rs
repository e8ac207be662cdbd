//! Pages of players: both purses, the ledger, the ledger as a file, and credits.

use domain::console_user::Role;
use domain::ids::{CreditRef, OpenId};
use store::Credit;

use crate::game::Game;
use crate::support::console::Browser;
use crate::support::{Answer, TestApp, TestTill, operator};

const PLAYER: &str = "/console/apps/a1/players/o1";
/// What developers and operators write, hostile.
const HOSTILE: &str = "<script>alert('x')</script>\"&";
/// The same in CSV.
const QUOTED: &str = "\"<script>alert('x')</script>\"\"&\"";
/// How it must stand in a page.
const HARMLESS: &str = "&#60;script&#62;alert(&#39;x&#39;)&#60;/script&#62;&#34;&#38;";

/// A player with 100 gifted and 1 500 charged coins, who has spent 550 on something hostile.
async fn spender(till: &TestTill) -> TestApp {
    let app = till.app("a1").await;
    till.player(&app, "o1", 100, 1500).await;
    let game = Game::new(&app, "o1", "B1", 550).with("pay_priority", 1).with("product_name", HOSTILE);
    assert_eq!(game.send(till).await.code(), 1);
    app
}

/// The cells of a table's rows, as text.
fn rows(body: &str) -> Vec<Vec<String>> {
    let rows = body.split("<tr>").skip(2);
    let text = |cell: &str| {
        let (_, inner) = cell.split_once('>').unwrap_or_default();
        let mut text = String::new();
        let mut is_inside = true;
        for character in inner.chars() {
            match character {
                '<' => is_inside = false,
                '>' => is_inside = true,
                _ if is_inside => text.push(character),
                _ => {}
            }
        }
        text.replace('\u{202f}', "_").trim().to_owned()
    };
    let cells = |row: &str| -> Vec<String> {
        let row = row.split("</tr>").next().unwrap_or_default();
        row.split("</t")
            .filter(|cell| cell.contains("<t"))
            .map(|cell| {
                let at = cell.find("<t").unwrap_or_default();
                text(&cell[at..])
            })
            .collect()
    };
    rows.map(cells).collect()
}

/// The address of a link to a file.
fn link_called_download(page: &Answer, text: &str) -> String {
    let (before, _) = page.body.split_once(&format!("\" download>{text}</a>")).unwrap();
    let (_, address) = before.rsplit_once("href=\"").unwrap();
    address.replace("&#38;", "&").replace("&amp;", "&")
}

fn link_called(page: &Answer, text: &str) -> Option<String> {
    let (before, _) = page.body.split_once(&format!("\">{text}</a>"))?;
    let (_, address) = before.rsplit_once("href=\"").unwrap();
    Some(address.replace("&#38;", "&").replace("&amp;", "&"))
}

#[tokio::test(flavor = "multi_thread")]
async fn players_are_searched_page_by_page() {
    let till = TestTill::start().await;
    let (a, b) = (till.app("a1").await, till.app("b1").await);
    for place in 0..60 {
        till.player(&a, &format!("o{place:02}"), place, 1000).await;
    }
    till.player(&b, "o00", 5, 5).await;
    let viewer = till.browser(Role::Viewer).await;
    let form = viewer.get("/console/players").await;
    assert!(form.body.contains("<option value=\"b1\">") && !form.body.contains("<table"));
    let exact = viewer.get("/console/players?open_id=o00&app_id=").await;
    assert_eq!(rows(&exact.body), [["o00", "a1", "0", "1_000", "1"], ["o00", "b1", "5", "5", "1"]]);
    assert!(exact.body.contains("href=\"/console/apps/b1/players/o00\""));
    let first = viewer.get("/console/players?open_id=o&app_id=a1").await;
    assert_eq!(rows(&first.body).len(), 50);
    let more = link_called(&first, "More players").unwrap();
    let second = viewer.get(&more).await;
    assert_eq!(rows(&second.body).first().unwrap()[0], "o50");
    assert_eq!((rows(&second.body).len(), link_called(&second, "More players")), (10, None));
    let none = viewer.get("/console/players?open_id=nobody").await;
    assert!(none.body.contains("No player matches."), "{}", none.body);
    let bad = viewer.get("/console/players?open_id=a%20b").await;
    assert_eq!(bad.status, 400);
    assert!(bad.body.contains("Expected 1 to 64 of 0-9A-Za-z_-, got"), "{}", bad.body);
}

/// The main facts: both purses, and every entry with its time, number, changes and balances.
#[tokio::test(flavor = "multi_thread")]
async fn a_players_page_shows_both_purses_and_every_entry() {
    let till = TestTill::start().await;
    spender(&till).await;
    let page = till.browser(Role::Viewer).await.get(PLAYER).await;
    assert_eq!(page.status, 200);
    for fact in [
        "<h2 id=\"gifted\">Gifted balance</h2>\n<p class=\"big\">0</p>",
        "100 in, 100 out",
        "<p class=\"big\">1\u{202f}050</p>",
        "1\u{202f}500 in, 450 out",
        "first on ",
        "href=\"/console/apps/a1/exchanges/B1\"",
    ] {
        assert!(page.body.contains(fact), "{fact} in {}", page.body);
    }
    let shown: Vec<Vec<String>> = rows(&page.body);
    let without_time: Vec<Vec<&str>> = shown
        .iter()
        .map(|cells| {
            cells.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, text)| text.as_str()).collect()
        })
        .collect();
    let bought = format!("exchange {HARMLESS}");
    assert_eq!(
        without_time,
        [
            vec!["2", bought.as_str(), "B1", "\u{2212}100", "\u{2212}450", "0", "1_050"],
            vec!["1", "credit", "start-o1 log", "+100", "+1_500", "100", "1_500"],
        ]
    );
    assert!(shown.iter().all(|cells| cells[1].len() == 19), "{shown:?}");
    assert!(!page.body.contains("Credit this player"), "a viewer cannot");
    assert!(till.browser(Role::Admin).await.get(PLAYER).await.body.contains("Credit this player"));
}

/// Rule: another app's player is "not found", as one that nobody knows.
#[tokio::test(flavor = "multi_thread")]
async fn another_apps_player_is_not_found() {
    let till = TestTill::start().await;
    spender(&till).await;
    till.app("b1").await;
    let admin = till.browser(Role::Admin).await;
    for player in ["b1/players/o1", "none/players/o1", "a1/players/o2", "a1/players/o%3Cb%3E"] {
        for page in ["", "/ledger.csv"] {
            let answer = admin.get(&format!("/console/apps/{player}{page}")).await;
            assert_eq!(answer.status, 404, "{player}{page}");
            assert!(answer.body.contains("has no player") && !answer.body.contains("<b>"), "{}", answer.body);
        }
        let fields = [("gifted", "5"), ("reference", "r"), ("reason", "x")];
        let answer = admin.post(&format!("/console/apps/{player}/credit"), &fields).await;
        let is_app = !player.starts_with("none");
        assert_eq!(answer.status, if is_app { 400 } else { 404 }, "{player}");
    }
    let none = admin.get("/console/apps/none/players/o1/credit").await;
    assert!(none.status == 404 && none.body.contains("There is no app none."), "{}", none.body);
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries WHERE reference = '!r'").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_is_filtered_and_goes_on_page_by_page() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    for place in 0..60 {
        let credit = Credit {
            open_id: OpenId::parse("o1").unwrap(),
            free: 1,
            charge: 0,
            reference: CreditRef::parse(&format!("r&{place}")).unwrap(),
            note: String::new(),
            create: true,
        };
        till.store.credit(&operator(), &app.id, credit).await.unwrap();
    }
    let viewer = till.browser(Role::Viewer).await;
    let entries = |page: &Answer| -> Vec<String> {
        rows(&page.body).into_iter().map(|cells| cells[0].clone()).collect()
    };
    let credits = viewer.get(&format!("{PLAYER}?kind=credit")).await;
    let older = viewer.get(&link_called(&credits, "Older entries").unwrap()).await;
    let all: Vec<String> = entries(&credits).into_iter().chain(entries(&older)).collect();
    let expected: Vec<String> =
        (1..=62).rev().filter(|seq| *seq != 2).map(|seq: i64| seq.to_string()).collect();
    assert_eq!(all, expected);
    assert_eq!(link_called(&older, "Older entries"), None);
    assert_eq!(link_called(&older, "Newest entries").as_deref(), Some(PLAYER));
    assert_eq!(entries(&viewer.get(&format!("{PLAYER}?number=r%267")).await), ["10"]);
    assert_eq!(entries(&viewer.get(&format!("{PLAYER}?number=B1")).await), ["2"]);
    let none = viewer.get(&format!("{PLAYER}?to=2020-01-01&number=%3Cb%3E")).await;
    assert!(none.body.contains("No entry matches.") && none.body.contains("value=\"&#60;b&#62;\""));
    assert_eq!(viewer.get(&format!("{PLAYER}?from=yesterday")).await.status, 400);
    assert_eq!(viewer.get(&format!("{PLAYER}?kind=gift")).await.status, 400);
}

/// The file's exact bytes; what a spreadsheet would calculate is text.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_is_a_file_for_spreadsheets() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    let credit = Credit {
        open_id: OpenId::parse("o1").unwrap(),
        free: 7,
        charge: 0,
        reference: CreditRef::parse("=HYPERLINK(\"x\",1);-1;a=b").unwrap(),
        note: "@note".to_owned(),
        create: true,
    };
    till.store.credit(&operator(), &app.id, credit).await.unwrap();
    till.execute("UPDATE ledger_entries SET at = '2026-11-21T17:40:12.5Z'; UPDATE operator_log SET at = '2026-11-21T17:40:12.5Z'").await;
    let file = till.browser(Role::Viewer).await.get(&format!("{PLAYER}/ledger.csv")).await;
    assert_eq!(file.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!(file.header("content-disposition"), Some("attachment; filename=\"ledger-a1-o1.csv\""));
    assert_eq!(file.header("cache-control"), Some("no-store"));
    assert_eq!(
        whole(&file),
        format!(
            "seq,kind,biz_no,ref,free_change,charge_change,free_balance,charge_balance,at,product_name,note,operator\n\
             1,credit,,start-o1,100,1500,100,1500,2026-11-21T17:40:12.5Z,,,tests\n\
             2,exchange,B1,,-100,-450,0,1050,2026-11-21T17:40:12.5Z,{QUOTED},,\n\
             3,credit,,\"'=HYPERLINK(\"\"x\"\",1);'-1;a=b\",7,0,7,1050,2026-11-21T17:40:12.5Z,,'@note,tests\n"
        )
    );
    // The file follows the filter of its page, whose links lead to it.
    let page = till.browser(Role::Viewer).await.get(&format!("{PLAYER}?kind=exchange&after=3")).await;
    let plain = link_called_download(&page, "Download the ledger (CSV)");
    assert_eq!(plain, format!("{PLAYER}/ledger.csv?kind=exchange"));
    let excel = link_called_download(&page, "For Excel");
    assert_eq!(excel, format!("{PLAYER}/ledger.csv?kind=exchange&excel=yes"));
    let file = whole(&till.browser(Role::Viewer).await.get(&excel).await);
    let (heading, lines) = file.split_once('\n').unwrap();
    assert!(heading.starts_with("\u{feff}seq,"), "{heading}");
    assert_eq!(lines, format!("2,exchange,B1,,-100,-450,0,1050,2026-11-21 17:40:12,{QUOTED},,\n"));
    let wrong = till.browser(Role::Viewer).await.get(&format!("{PLAYER}/ledger.csv?from=soon")).await;
    assert_eq!(wrong.status, 400);
}

/// The pieces of a chunked body, put together.
fn whole(answer: &Answer) -> String {
    if answer.header("transfer-encoding").is_none() {
        return answer.body.clone();
    }
    let (mut rest, mut whole) = (answer.body.as_str(), String::new());
    while let Some((length, behind)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return whole;
        }
        whole.push_str(&behind[..length]);
        rest = &behind[length + 2..];
    }
    panic!("the body has no end: {:?}", answer.body);
}

/// Form, check, credit: nothing is done before the last step, and pressing twice credits once and says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_credit_is_shown_before_it_is_made_and_made_once() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    let admin = till.browser(Role::Admin).await;
    let form = admin.get(&format!("{PLAYER}/credit")).await;
    let reference = value_of(&form, "reference");
    assert!(reference.starts_with("console-") && reference.len() == 24, "{reference}");
    assert_ne!(value_of(&admin.get(&format!("{PLAYER}/credit")).await, "reference"), reference);
    let fields =
        [("gifted", "1000"), ("charged", ""), ("reference", reference.as_str()), ("reason", HOSTILE)];
    let check = admin.post(&format!("{PLAYER}/credit/check"), &fields).await;
    assert_eq!(rows(&check.body), [["Gifted", "0", "+1_000", "1_000"], ["Charged", "1_050", "+0", "1_050"]]);
    assert!(check.body.contains("Nothing has changed yet.") && check.body.contains(HARMLESS));
    assert_eq!(till.purses(&app, "o1").await, (0, 1050, 2));
    let again: Vec<(&str, String)> =
        ["gifted", "charged", "reference"].map(|name| (name, value_of(&check, name))).into();
    assert_eq!(again, [("gifted", "1000".into()), ("charged", "0".into()), ("reference", reference.clone())]);

    let sent = admin.post(&format!("{PLAYER}/credit"), &fields).await;
    let expected = format!("{PLAYER}?credited={reference}");
    assert_eq!((sent.status, sent.header("location")), (303, Some(expected.as_str())));
    assert_eq!(till.purses(&app, "o1").await, (1000, 1050, 3));
    let done = admin.get(&expected).await;
    let notice =
        format!("Credited 1\u{202f}000 gifted and 0 charged coins with the reference {reference} (entry 3).");
    assert!(done.body.contains(&notice), "{}", done.body);
    assert!(
        done.body.contains(HARMLESS) && !done.body.contains("<script"),
        "the reason stands in the ledger"
    );

    let pressed_again = admin.post(&format!("{PLAYER}/credit"), &fields).await;
    let again = format!("{expected}&again=1");
    assert_eq!((pressed_again.status, pressed_again.header("location")), (303, Some(again.as_str())));
    assert_eq!(till.purses(&app, "o1").await, (1000, 1050, 3));
    assert!(admin.get(&again).await.body.contains("Nothing was credited now. The reference"));
    let check = admin.post(&format!("{PLAYER}/credit/check"), &fields).await;
    assert!(
        check.body.contains("This credit was already made at") && !check.body.contains("o1 now</button>")
    );
    assert_eq!(till.number("SELECT count(*) FROM operator_log WHERE action = 'wallet.credit'").await, 2);
    let line =
        "SELECT count(*) FROM operator_log WHERE action = 'wallet.credit' AND operator_kind = 'console'";
    assert_eq!(till.number(line).await, 1);
    till.assert_audit_clean().await;
}

/// Rule 8.3.2: a credit makes a player known only with the box, which stands there for nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_box_must_be_ticked_to_credit_an_unknown_player() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    let admin = till.browser(Role::Admin).await;
    let search = "/console/players?app_id=a1&open_id=new";
    let link = link_called(&admin.get(search).await, "Credit the unknown player new").unwrap();
    assert_eq!(link, "/console/apps/a1/players/new/credit");
    let viewers = till.browser(Role::Viewer).await.get(search).await;
    assert_eq!(link_called(&viewers, "Credit the unknown player new"), None);
    let tick = r#"name="create" type="checkbox" value="yes" required"#;
    assert!(admin.get(&link).await.body.contains(tick));
    assert!(!admin.get(&format!("{PLAYER}/credit")).await.body.contains(tick));

    let fields = [("gifted", "5"), ("reference", "case-1"), ("reason", "sorry"), ("create", "yes")];
    for page in ["/check", ""] {
        let refused = admin.post(&format!("{link}{page}"), &fields[..3]).await;
        assert_eq!(refused.status, 400);
        let words =
            "The app a1 has no player new. A login makes a player known, and so does the box of this form.";
        assert!(refused.body.contains(words), "{}", refused.body);
    }
    assert_eq!(till.number("SELECT count(*) FROM wallets").await, 1);
    let check = admin.post(&format!("{link}/check"), &fields).await;
    assert_eq!((check.status, value_of(&check, "create").as_str()), (200, "yes"));
    assert_eq!(till.number("SELECT count(*) FROM wallets").await, 1);
    assert_eq!(admin.post(&link, &fields).await.status, 303);
    assert_eq!(till.purses(&app, "new").await, (5, 0, 1));
    till.assert_audit_clean().await;
}

/// What a credit cannot be: nothing is done, and the page says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_credit_that_cannot_be_made_is_refused_in_words() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    till.player(&app, "o2", 0, 0).await;
    let admin = till.browser(Role::Admin).await;
    let good = [("gifted", "5"), ("charged", ""), ("reference", "case-1"), ("reason", "sorry")];
    assert_eq!(admin.post(&format!("{PLAYER}/credit"), &good).await.status, 303);
    let with = |name: &'static str, value: &'static str| {
        good.map(|(known, text)| (known, if known == name { value } else { text }))
    };
    for (fields, words) in [
        (with("gifted", "0"), "Both are empty or 0."),
        (with("gifted", ""), "Both are empty or 0."),
        (with("gifted", "-5"), "gifted: expected a whole number of coins"),
        (with("gifted", "1.5"), "gifted: expected a whole number of coins"),
        (with("charged", "1 000"), "charged: expected a whole number of coins"),
        (with("gifted", "9223372036854775808"), "gifted: expected a whole number of coins"),
        (with("gifted", "6"), "case-1 was used for another player or with other amounts"),
        (with("reference", ""), "reference: expected 1 to 128 bytes"),
        (with("reason", ""), "reason: expected a reason of 1 to 500 characters"),
    ] {
        for page in ["credit/check", "credit"] {
            let answer = admin.post(&format!("{PLAYER}/{page}"), &fields).await;
            assert_eq!(answer.status, 400, "{fields:?}");
            assert!(answer.body.contains(words), "{fields:?}: {}", answer.body);
        }
    }
    let too_much = [("gifted", "9223372036854775807"), ("reference", "case-2"), ("reason", "sorry")];
    for page in ["credit/check", "credit"] {
        let answer = admin.post(&format!("{PLAYER}/{page}"), &too_much).await;
        assert_eq!(answer.status, 400);
        assert!(answer.body.contains("A balance would be more than 9223372036854775807."));
    }
    let other_player = admin.post("/console/apps/a1/players/o2/credit", &good).await;
    assert!(other_player.body.contains("case-1 was used for another player or with other amounts"));
    assert_eq!(till.purses(&app, "o1").await, (5, 1050, 3));
    assert_eq!(till.purses(&app, "o2").await, (0, 0, 1));
}

/// A notice cannot be made up by an address: only what the store holds of this player is said.
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_is_not_made_up_by_an_address() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    till.player(&app, "o2", 0, 0).await;
    let viewer: Browser<'_> = till.browser(Role::Viewer).await;
    for query in ["credited=none", "credited=start-o2", "credited=%3Cb%3E&again=1"] {
        let page = viewer.get(&format!("{PLAYER}?{query}")).await;
        assert!(page.status == 200 && !page.body.contains("role=\"status\""), "{query}");
    }
}

/// The value of a form's field.
fn value_of(page: &Answer, name: &str) -> String {
    let (_, rest) = page.body.split_once(&format!("name=\"{name}\" value=\"")).expect("the field");
    rest.split('"').next().unwrap().to_owned()
}
