//! Pages of players: both purses, the ledger, and the ledger as a file.

use domain::console_user::Role;
use domain::ids::{CreditRef, OpenId, PackageVersion, PagePath};
use domain::login::Player;
use domain::operation::app::AppCommand;
use domain::operation::wallet::Credit;
use store::{HistoryCursor, HistoryFilter, HistoryLine};

use super::reading::{content, link_called, rows};
use crate::game::Game;
use crate::support::{Answer, TestApp, TestTill, operator};
use crate::workbook::{XLSX, sheet_lines};

const PLAYER: &str = "/console/apps/a1/players/o1";
/// What developers and operators write, hostile.
const HOSTILE: &str = "<script>alert('x')</script>\"&";
/// The same in CSV.
const QUOTED: &str = "\"<script>alert('x')</script>\"\"&\"";
/// What a game of these tests buys, as a page has it.
const SWORD: &str = "Sword &#38; shield = 100%";
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

/// Issues a login code for the player: a change by an operator that is no ledger entry.
async fn login_code(till: &TestTill, app: &TestApp) {
    let player = Player { open_id: OpenId::parse("o1").unwrap(), union_id: None };
    till.command(app, AppCommand::IssueLoginCode(player)).await;
}

/// The address of a link to a file.
fn link_called_download(page: &Answer, text: &str) -> String {
    let (before, _) = page.body.split_once(&format!("\" download>{text}</a>")).unwrap();
    let (_, address) = before.rsplit_once("href=\"").unwrap();
    address.replace("&#38;", "&").replace("&amp;", "&")
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
    // Rule 8.6.58: the first page tells how many hits there are, or that there are more.
    assert!(content(&exact).contains("Hits: 2 ") && content(&first).contains("Hits: more than 50 "));
    let more = link_called(&first, "More players").unwrap();
    let second = viewer.get(&more).await;
    assert_eq!(rows(&second.body).first().unwrap()[0], "o50");
    assert_eq!((rows(&second.body).len(), link_called(&second, "More players")), (10, None));
    assert!(!content(&second).contains("Hits"));
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
            cells.iter().enumerate().filter(|(at, _)| *at != 0).map(|(_, text)| text.as_str()).collect()
        })
        .collect();
    let bought = format!("exchange {HARMLESS}");
    assert_eq!(
        without_time,
        [
            vec![bought.as_str(), "B1", "\u{2212}100", "\u{2212}450", "0", "1_050", "2"],
            vec!["credit", "start-o1 log", "+100", "+1_500", "100", "1_500", "1"],
        ]
    );
    assert!(shown.iter().all(|cells| cells[0].len() == 19), "{shown:?}");
    let admins = till.browser(Role::Admin).await.get(PLAYER).await;
    for change in ["credit", "debit"] {
        let link = format!("{}{} this player", change[..1].to_uppercase(), &change[1..]);
        assert_eq!(link_called(&page, &link), None, "a viewer cannot");
        assert_eq!(link_called(&admins, &link), Some(format!("{PLAYER}/{change}")));
    }
}

/// Rule: another app's player is "not found", as one that nobody knows.
#[tokio::test(flavor = "multi_thread")]
async fn another_apps_player_is_not_found() {
    let till = TestTill::start().await;
    spender(&till).await;
    till.app("b1").await;
    let admin = till.browser(Role::Admin).await;
    for player in ["b1/players/o1", "none/players/o1", "a1/players/o2", "a1/players/o%3Cb%3E"] {
        for page in ["", "/ledger.csv", "/debit"] {
            let answer = admin.get(&format!("/console/apps/{player}{page}")).await;
            assert_eq!(answer.status, 404, "{player}{page}");
            assert!(answer.body.contains("has no player") && !answer.body.contains("<b>"), "{}", answer.body);
        }
        let fields = [("gifted", "5"), ("reference", "r"), ("reason", "x")];
        let answer = admin.post(&format!("/console/apps/{player}/credit"), &fields).await;
        let is_id = !player.contains('%');
        assert_eq!(answer.status, if is_id { 404 } else { 400 }, "{player}");
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
        till.store.change_wallet(&operator(), &app.id, credit).await.unwrap();
    }
    let viewer = till.browser(Role::Viewer).await;
    let entries = |page: &Answer| -> Vec<String> {
        rows(&page.body).into_iter().map(|cells| cells[7].clone()).collect()
    };
    let credits = viewer.get(&format!("{PLAYER}?kind=credit")).await;
    let older = viewer.get(&link_called(&credits, "Older lines").unwrap()).await;
    let all: Vec<String> = entries(&credits).into_iter().chain(entries(&older)).collect();
    let expected: Vec<String> =
        (1..=62).rev().filter(|seq| *seq != 2).map(|seq: i64| seq.to_string()).collect();
    assert_eq!(all, expected);
    assert_eq!(link_called(&older, "Older lines"), None);
    assert_eq!(link_called(&older, "Newest lines").as_deref(), Some(PLAYER));
    assert_eq!(entries(&viewer.get(&format!("{PLAYER}?number=r%267")).await), ["10"]);
    assert_eq!(entries(&viewer.get(&format!("{PLAYER}?number=B1")).await), ["2"]);
    let none = viewer.get(&format!("{PLAYER}?to=2020-01-01&number=%3Cb%3E")).await;
    assert!(none.body.contains("Nothing matches.") && none.body.contains("value=\"&#60;b&#62;\""));
    assert_eq!(viewer.get(&format!("{PLAYER}?from=yesterday")).await.status, 400);
    assert_eq!(viewer.get(&format!("{PLAYER}?kind=gift")).await.status, 400);
}

/// All that is recorded of a player is one list, the newest first, whatever it is. Each line has its kind and its
/// number, a refusal its code in words and how often.
#[tokio::test(flavor = "multi_thread")]
async fn everything_about_a_player_is_one_list_in_the_order_of_time() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    for (number, amount, times) in [("B2", 9000, 3), ("B1", 551, 1)] {
        for _ in 0..times {
            assert_ne!(Game::new(&app, "o1", number, amount).send(&till).await.code(), 1);
        }
    }
    till.store.write_refusals().await.unwrap();
    login_code(&till, &app).await;
    till.execute(
        "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
                order_path, product_cover_img_id, event_count) VALUES
                ('a1', 'order_0001', 'paid_0001', 'o1', 1700000000000, 1, 'p', 'x', 1),
                ('a1', 'order_0002', 'paid_0002', 'o2', 1700000000000, 1, 'p', 'x', 1);
         INSERT INTO order_payments (app_id, out_order_no, out_biz_order_no) VALUES ('a1', 'paid_0001', 'order_0001');
         UPDATE ledger_entries SET at = '2026-11-20T12:00:00Z' WHERE seq = 1;
         UPDATE ledger_entries SET at = '2026-11-20T12:00:03Z' WHERE seq = 2;
         UPDATE operator_log SET at = '2026-11-20T12:00:00Z' WHERE action = 'wallet.credit';
         UPDATE operator_log SET at = '2026-11-20T12:00:01Z' WHERE action = 'login_code.issue'",
    )
    .await;
    let viewer = till.browser(Role::Viewer).await;
    let of = async |query: &str| {
        let page = viewer.get(&format!("{PLAYER}{query}")).await;
        assert_eq!(page.status, 200, "{}", page.body);
        let cells = rows(&page.body).into_iter();
        (cells.map(|cells| cells[1..3].join(" | ")).collect::<Vec<_>>(), page)
    };
    let (all, page) = of("").await;
    let asked = |amount| format!("asked for: {amount} for {SWORD}; gifted + charged: 0 + 1_050");
    let conflict = "refused exchange: biz_no already used with other content 10000602, 1 time; ";
    let conflict = format!("{conflict}{} | B1", asked("551"));
    let poor = format!("refused exchange: insufficient balance 10000601, 3 times; {} | B2", asked("9_000"));
    let mut newest = all[..2].to_vec();
    newest.sort();
    assert_eq!(newest, [conflict.as_str(), poor.as_str()]);
    let bought = format!("exchange {HARMLESS} | B1");
    let (issued, credited) = ("operator login_code. issue by tests | log", "credit | start-o1 log");
    let rest = [bought.as_str(), issued, credited, "order Pending payment | order_0001"];
    assert_eq!(all[2..], rest);
    for link in ["/console/apps/a1/exchanges/B2", "/console/apps/a1/orders/order_0001"] {
        assert!(page.body.contains(&format!("href=\"{link}\"")), "{link}");
    }
    for (query, expected) in [
        ("?kind=refusal&number=B2", vec![poor.as_str()]),
        ("?kind=order", vec![rest[3]]),
        ("?kind=change", vec![rest[1]]),
        ("?kind=credit", vec![rest[2]]),
        ("?number=B1", vec![conflict.as_str(), rest[0]]),
        ("?number=paid_0001", vec![rest[3]]),
        ("?from=2026-11-20T12:00:01&to=2026-11-20T12:00:03", vec![rest[1]]),
        ("?to=2026-11-20T12:00:01", vec![rest[2], rest[3]]),
    ] {
        assert_eq!(of(query).await.0, expected, "{query}");
    }
    // The pages are the whole list, wherever they are cut.
    let (app_id, open_id) = (&app.id, OpenId::parse("o1").unwrap());
    for limit in 1..=7 {
        let (mut whole, mut after) = (Vec::new(), None);
        loop {
            let filter = HistoryFilter::default();
            let page = till.store.history((app_id, &open_id), &filter, after.as_ref(), limit).await.unwrap();
            whole.extend(page.items.iter().map(HistoryLine::at));
            let Some(next) = page.next else { break };
            assert_eq!(page.items.len(), limit as usize);
            after = Some(HistoryCursor::parse(&next.to_string()).unwrap());
        }
        assert_eq!(whole.len(), 6, "{limit}");
        assert!(whole.is_sorted_by(|newer, older| newer >= older), "{limit}: {whole:?}");
    }
}

/// Purses hold up to `i64::MAX` each, so a change of both can be more than one number takes.
#[tokio::test(flavor = "multi_thread")]
async fn a_player_with_full_purses_has_a_page() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", i64::MAX, i64::MAX).await;
    let page = till.browser(Role::Viewer).await.get(PLAYER).await;
    assert_eq!(page.status, 200);
    let full = "9\u{202f}223\u{202f}372\u{202f}036\u{202f}854\u{202f}775\u{202f}807";
    assert_eq!(page.body.matches(&format!(">+{full}<")).count(), 2, "{}", page.body);
}

/// Lines of one moment stay in one order, whichever of them ends a page.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_ends_between_lines_of_one_moment_and_none_is_lost() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    for place in 0..5 {
        assert_ne!(Game::new(&app, "o1", &format!("B1{place}"), 9000).send(&till).await.code(), 1);
        login_code(&till, &app).await;
    }
    // A version with the text of the open_id is no change to the player.
    let (version, page) = (PackageVersion::parse("o1").unwrap(), PagePath::parse("pages/a").unwrap());
    till.command(&app, AppCommand::Publish(version, vec![page])).await;
    till.store.write_refusals().await.unwrap();
    let orders = "INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status,
            order_path, product_cover_img_id, event_count)
        SELECT 'a1', 'order_000' || n, 'paid_000' || n, 'o1', 1700000000000, 1, 'p', 'x', 1
        FROM generate_series(1, 5) n";
    till.execute(orders).await;
    let moment = "'2023-11-14T22:13:20Z'";
    for (table, column) in [("ledger_entries", "at"), ("operator_log", "at")] {
        till.execute(&format!("UPDATE {table} SET {column} = {moment}")).await;
    }
    // A refusal is shown for 30 days only, so these are later.
    till.execute("UPDATE exchange_refusals SET last_at = now()").await;
    let open_id = OpenId::parse("o1").unwrap();
    let of = async |after: Option<&HistoryCursor>, limit| {
        till.store.history((&app.id, &open_id), &HistoryFilter::default(), after, limit).await.unwrap()
    };
    let all = of(None, 100).await.items;
    assert_eq!(all.len(), 17);
    for limit in 1..17 {
        let (mut whole, mut after) = (Vec::new(), None);
        loop {
            let page = of(after.as_ref(), limit).await;
            whole.extend(page.items);
            let Some(next) = page.next else { break };
            after = Some(HistoryCursor::parse(&next.to_string()).unwrap());
        }
        assert_eq!(whole, all, "{limit}");
    }
}

/// Rule 13.1: a number that was only refused has a page. So has a player whom the app does not know. The search
/// leads to both at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_was_only_refused_is_found_and_shown() {
    let till = TestTill::start().await;
    let app = spender(&till).await;
    for (player, number) in [("o1", "B2"), ("o1", "B2"), ("ghost", "B3")] {
        assert_ne!(Game::new(&app, player, number, 9000).send(&till).await.code(), 1);
    }
    assert_ne!(Game::new(&app, "o1", "B1", 1).send(&till).await.code(), 1);
    till.store.write_refusals().await.unwrap();
    let viewer = till.browser(Role::Viewer).await;
    for (text, place) in [
        ("B2", "/console/apps/a1/exchanges/B2"),
        ("B3", "/console/apps/a1/exchanges/B3"),
        ("B1", "/console/apps/a1/exchanges/B1"),
        ("ghost", "/console/apps/a1/players/ghost"),
    ] {
        let found = viewer.get(&format!("/console/search?q={text}")).await;
        assert_eq!((found.status, found.header("location")), (303, Some(place)), "{text}");
    }
    let page = viewer.get("/console/apps/a1/exchanges/B2").await;
    assert_eq!(page.status, 200);
    let shown = content(&page);
    let lead = "App: a1 Nothing was deducted under this number, and it is free: the game may send the same request again.";
    assert!(shown.starts_with(lead), "{shown}");
    let cells = &rows(&page.body)[0];
    let asked = format!("9_000 for {SWORD}");
    let expected = ["exchange insufficient balance", "10000601", &asked, "0 + 1_050", "2 times"];
    assert_eq!(cells[1..6], expected);
    assert_eq!(cells[7], "o1");
    let bought = viewer.get("/console/apps/a1/exchanges/B1").await;
    assert!(content(&bought).contains("exchange biz_no already used with other content 10000602"));
    let ghost = viewer.get("/console/apps/a1/players/ghost").await;
    assert!(
        ghost.status == 200 && ghost.body.contains("The app does not know this player"),
        "{}",
        ghost.body
    );
    let cells = &rows(&ghost.body)[0];
    let told = "refused exchange: illegal open id 10000423, 1 time; asked for: ";
    assert!(cells[1].starts_with(told) && !cells[1].contains("gifted"), "{}", cells[1]);
    assert_eq!(cells[2], "B3");
    assert_eq!(link_called(&ghost, "B3").as_deref(), Some("/console/apps/a1/exchanges/B3"));
    let closed = Game::query(&app, "o1", "B2").with("close", 1).send(&till).await;
    let shown = content(&viewer.get("/console/apps/a1/exchanges/B2").await);
    assert!(shown.contains("a query of the game closed it"), "{closed:?}: {shown}");
    let present = viewer.get("/console/exchanges?number=B3").await;
    assert!(present.body.contains("<h2>Refused numbers</h2>"), "{}", present.body);
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
    till.store.change_wallet(&operator(), &app.id, credit).await.unwrap();
    till.execute("UPDATE ledger_entries SET at = '2026-11-21T17:40:12.5Z'; UPDATE operator_log SET at = '2026-11-21T17:40:12.5Z'").await;
    let file = till.browser(Role::Viewer).await.get(&format!("{PLAYER}/ledger.csv")).await;
    assert_eq!(file.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!(file.header("content-disposition"), Some("attachment; filename=\"ledger-a1-o1.csv\""));
    assert_eq!(file.header("cache-control"), Some("no-store"));
    assert_eq!(
        file.whole(),
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
    assert_eq!(excel, format!("{PLAYER}/ledger.xlsx?kind=exchange"));
    let file = till.browser(Role::Viewer).await.get(&excel).await;
    assert_eq!(file.header("content-type"), Some(XLSX));
    assert_eq!(file.header("content-disposition"), Some("attachment; filename=\"ledger-a1-o1.xlsx\""));
    let rows = sheet_lines(&file.complete_bytes().unwrap(), "Entries");
    assert_eq!(rows.len(), 1);
    let start = "@2026-11-21 17:40:12\t#2\texchange\tB1\t\t#-100\t#-450\t#0\t#1050\t";
    assert!(rows[0].starts_with(start), "{}", rows[0]);
    let file = till.browser(Role::Viewer).await.get(&format!("{PLAYER}/ledger.xlsx")).await;
    let rows = sheet_lines(&file.complete_bytes().unwrap(), "Entries");
    let last =
        "@2026-11-21 17:40:12\t#3\tcredit\t\t=HYPERLINK(\"x\",1);-1;a=b\t#7\t#0\t#7\t#1050\t\t@note\ttests";
    assert_eq!(rows[2], last);
    let wrong = till.browser(Role::Viewer).await.get(&format!("{PLAYER}/ledger.csv?from=soon")).await;
    assert_eq!(wrong.status, 400);
}
