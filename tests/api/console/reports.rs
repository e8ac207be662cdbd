//! The reports of an app, and the close of a period (rules 8.6.30 to 8.6.32).

mod other_books;

use std::time::Duration;

use domain::console_user::Role;
use domain::rights::{Apps, Rights};
use sha2::{Digest as _, Sha256};

use super::accessible::faults;
use super::reading::{content, link_called, rows, value_of};
use crate::game::Game;
use crate::sales::till;
use crate::support::console::Browser;
use crate::support::{Answer, Request, TestTill};
use crate::workbook::{XLSX, sheet_lines};

/// Moves everything in the ledger to another time.
fn moved(by: &str) -> String {
    format!("UPDATE ledger_entries SET at = at + interval '{by}' WHERE kind <> 'credit'")
}

fn has(page: &Answer, facts: &[&str]) {
    let shown = content(page);
    for fact in facts {
        assert!(shown.contains(fact), "{fact}\nin {shown}");
    }
}

/// The labels of the pictures.
fn pictures(page: &Answer) -> Vec<String> {
    let labels = page.body.split("class=\"bars\" role=\"group\" aria-label=\"").skip(1);
    labels.map(|rest| rest.split('"').next().unwrap().replace('\u{202f}', "_")).collect()
}

/// Rule 8.6.31: every table with its sums, every picture with its words, the comparison, and what a viewer may read.
#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_shown_in_pictures_and_tables_with_sums() {
    let (till, app) = till().await;
    for (number, player) in [("R1", "o1"), ("R2", "o1"), ("R2", "o1"), ("R3", "o2")] {
        let game = Game::new(&app, player, number, 9_999).send(&till).await;
        assert_eq!(game.code(), 10_000_601, "{}", game.body);
    }
    till.store.write_refusals().await.unwrap();
    till.execute("UPDATE exchange_refusals SET last_at = now(), first_at = now() - interval '1 day'").await;
    let viewer = till.browser(Role::Finance).await;
    let page = viewer.get("/console/reports?app_id=a1&from=2026-10-20").await;
    assert_eq!((page.status, faults(&page.body)), (200, Vec::new()));
    let heads = "Exchanges Gifted taken Charged taken Gifted given back Charged given back Net";
    has(
        &page,
        &[
            &format!(
                "Day {heads} 2026-10-20 3 100 90 0 0 190 2026-10-21 0 0 0 80 40 \u{2212}120 Sum 3 100 90 80 40 70"
            ),
            &format!("Item {heads} Sword 2 100 70 80 40 50 Shield 1 0 20 0 0 20 Sum 3 100 90 80 40 70"),
            &format!("Zone {heads} z1 2 100 50 80 30 40 z2 1 0 40 0 10 30 Sum 3 100 90 80 40 70"),
            &format!("Platform {heads} android 2 100 70 80 40 50 ios 1 0 20 0 0 20 Sum 3 100 90 80 40 70"),
            "Code Meaning Count Numbers Players 10000601 insufficient balance 4 3 2 Sum 4",
            // Beside the bars.
            "Sword Sword: 100 gifted and 70 charged coins, exchanges: 2 170",
        ],
    );
    assert_eq!(
        pictures(&page),
        [
            "Coins taken by item. The most for Sword: 100 gifted and 70 charged coins, exchanges: 2.",
            "Coins taken by zone. The most for z1: 100 gifted and 50 charged coins, exchanges: 2.",
            "Coins taken by platform. The most for android: 100 gifted and 70 charged coins, exchanges: 2.",
            "Refusals by code. The most of 10000601 insufficient balance: 4.",
        ]
    );
    for day in ["z1", "Sword"] {
        assert!(page.body.contains(&format!("<title>{day}: 100 gifted")), "{day}");
    }
    // Two players have bought something. What they gave is less what they got back.
    has(
        &page,
        &[
            "Taken less given back 70 Paying players 2 Coins per paying player 35.0",
            "the first sales are of the hour that begins at 2026-10-20 16:00:00",
        ],
    );
    bars_over_time_lead_to_what_they_count(&viewer, &page).await;
    // A day earlier there was more to take, and nothing to give back.
    till.execute("UPDATE ledger_entries SET at = '2026-10-01T00:00:00Z' WHERE kind = 'credit'").await;
    let page = viewer.get("/console/reports?app_id=a1&from=2026-10-21&to=2026-10-22").await;
    has(
        &page,
        &[
            "Compared with the period before: 2026-10-20 00:00:00 to 2026-10-21 00:00:00",
            "Exchanges 0 none, before: 3 Gifted coins taken 0 none, before: 100",
            "Coins given back 120 before: none Taken less given back \u{2212}120 before: 190",
            "Paying players 0 none, before: 2 Coins per paying player \u{2013} before: 95.0",
            "Coins taken by hour",
            "There were no refusals.",
        ],
    );
    has(&viewer.get("/console/reports").await, &["All apps From", "Coins taken by app"]);
    assert_eq!(viewer.get("/console/reports?app_id=a9").await.status, 404);
    let wrong = viewer.get("/console/reports?app_id=a1&from=2026-10-21&to=2026-10-21").await;
    assert_eq!(wrong.status, 400);
    has(
        &wrong,
        &["Expected a moment after the beginning, got &#34;2026-10-21&#34;.", "Nothing was searched."],
    );
    let wrong = viewer.get("/console/reports?app_id=a1&period=soon").await;
    assert_eq!(wrong.status, 400);
}

/// The bars are data of the page. A day, a zone and an item lead to the list of their exchanges alone.
async fn bars_over_time_lead_to_what_they_count(viewer: &Browser<'_>, page: &Answer) {
    for data in [
        "\"class\":\"\",\"values\":[100.0,0.0,0.0",
        "\"class\":\"second\",\"values\":[90.0,0.0,0.0",
        "\"link\":\"/console/exchanges?app_id=a1&kind=exchange&from={from}&to={to}\"",
        "\"labels\":[\"2026-10-20\",\"2026-10-21\",",
    ] {
        let data = data.replace('&', "&#38;").replace('"', "&#34;");
        assert!(page.body.contains(&data), "{data}\n{}", page.body);
    }
    for (name, numbers) in [
        ("2026-10-20", &["B3", "B2", "B1"][..]),
        ("z1", &["B2", "B1"]),
        ("Sword", &["B3", "B1"]),
        ("ios", &["B2"]),
    ] {
        let address = link_called(page, name).unwrap_or_else(|| panic!("no link {name}"));
        let list = viewer.get(&address).await;
        let shown: Vec<String> = rows(&list.body).into_iter().filter_map(|row| row.get(1).cloned()).collect();
        // Then come the sums of the list.
        assert_eq!(shown[..numbers.len()], *numbers, "{address}\n{}", content(&list));
        assert_eq!(shown[numbers.len()], "Kind", "{address}");
    }
}

/// Rule 8.6.31: over some apps, of a zone that was pasted with a role, and of a part of an item's name.
#[tokio::test(flavor = "multi_thread")]
async fn reports_are_over_apps_and_filtered() {
    let (till, _) = till().await;
    till.execute(
        "UPDATE ledger_entries SET at = '2026-10-20T20:00:00Z' WHERE reference = 'B1' AND free_change = 0",
    )
    .await;
    let finance = till.browser(Role::Finance).await;
    let of = |query: &str| format!("/console/reports?from=2026-10-20&to=2026-10-23&{query}");
    let both = finance.get(&of("apps=a1+a2")).await;
    let heads = "Exchanges Gifted taken Charged taken Gifted given back Charged given back Net";
    has(
        &both,
        &[
            "Apps a1, a2",
            "Paying players 3",
            &format!("App {heads} a1 3 100 90 80 40 70 a2 1 0 7 0 0 7 Sum 4 100 97 80 40 77"),
        ],
    );
    assert_eq!(faults(&both.body), Vec::<String>::new());
    let one = finance.get(&of("app_id=a1&zone=z1_r1&item=wOR")).await;
    has(
        &one,
        &[
            "Filter (5)",
            "App a1, zone z1, items with wOR in their names",
            &format!("Item {heads} Sword 1 100 30 80 30 20 Sum 1 100 30 80 30 20"),
            "Paying players 1 Coins per paying player 20.0",
            "Of all zones, items and platforms.",
        ],
    );
    has(
        &finance.get(&of("app_id=a1&product_name=Swor")).await,
        &["item Swor", "There were no exchanges and no cancels."],
    );
    // Up to two days there are hours.
    let hours = finance.get("/console/reports?app_id=a1&from=2026-10-20&to=2026-10-22").await;
    has(&hours, &[&format!("Hour {heads} 2026-10-20 16:00 2 100 50"), "2026-10-20 18:00 1 0 40"]);
    has(
        &finance.get("/console/reports?app_id=a1&from=2026-07-01&to=2026-10-23").await,
        &[&format!("Week from {heads} 2026-10-19 3 100 90 80 40 70")],
    );
    let own = till.browser_of(Rights { role: Role::Finance, apps: Apps::parse("a1").unwrap() }).await;
    assert_eq!(own.get(&of("apps=a2")).await.status, 404);
    assert_eq!(own.get(&of("apps=a1+a2")).await.status, 404);
    assert_eq!(own.get("/console/reports/revenue.csv?group=app_id&apps=a2").await.status, 404);
    let file = own.get("/console/reports/revenue.csv?group=app_id&from=2026-10-20&to=2026-10-23").await;
    assert!(file.body.contains("\na1,3,") && !file.body.contains("a2"), "{}", file.body);
}

/// The same as workbooks, in the language of the page.
async fn tables_are_workbooks(viewer: &Browser<'_>, of: &str) {
    let zh = |target: String| Request::get(&target).header("accept-language", "zh");
    for (file, sheet, rows) in [
        (
            "revenue.xlsx?group=zone",
            "营收",
            &[
                "-1\t#1\t#0\t#3\t#0\t#0\t#3",
                "z1\t#2\t#100\t#50\t#80\t#30\t#40",
                "z2\t#1\t#0\t#40\t#0\t#10\t#30",
            ][..],
        ),
        ("revenue.xlsx?group=day", "合计", &["@2026-10-20 00:00:00\t\t#4\t#100\t#93\t#80\t#40\t#73"]),
        ("refusals.xlsx?x=", "合计", &["#12"]),
    ] {
        let answer = viewer.send(zh(format!("/console/reports/{file}&{of}"))).await;
        assert_eq!(answer.header("content-type"), Some(XLSX));
        assert_eq!(sheet_lines(&answer.bytes, sheet), rows, "{file}");
    }
}

/// Rule 8.6.31: each table as CSV, with the bytes of the command behind a byte-order mark.
#[tokio::test(flavor = "multi_thread")]
async fn every_table_is_a_file() {
    let (till, app) = till().await;
    let game = Game::new(&app, "o2", "B9", 3).with("zone_id", "-1_r").with("product_name", "=1+1,\"x\"");
    assert_eq!(game.send(&till).await.code(), 1);
    till.execute("UPDATE ledger_entries SET at = '2026-10-20T17:00:00Z' WHERE reference = 'B9'").await;
    till.execute(
        "INSERT INTO exchange_refusals (app_id, biz_no, open_id, code, kind, first_at, last_at, count, request_id)
         VALUES ('a1', 'R1', 'o1', 10000601, 'exchange', now(), now(), 5, 'x'),
             ('a1', 'R1', 'o2', 10000602, 'exchange', now(), now(), 7, 'x'),
             ('a2', 'R1', 'o2', 10000602, 'exchange', now(), now(), 9, 'x')",
    )
    .await;
    let viewer = till.browser(Role::Finance).await;
    let sums = "count,free_taken,charge_taken,free_given_back,charge_given_back,net";
    let of = "app_id=a1&from=2026-10-20";
    for (file, name, expected) in [
        (
            "revenue.csv?group=day",
            "revenue-day-a1-2026-10-20.csv",
            format!(
                "day,{sums}\n2026-10-20,4,100,93,0,0,193\n2026-10-21,0,0,0,80,40,-120\ntotal,4,100,93,80,40,73\n"
            ),
        ),
        (
            "revenue.csv?group=zone",
            "revenue-zone-a1-2026-10-20.csv",
            format!(
                "zone,{sums}\n'-1,1,0,3,0,0,3\nz1,2,100,50,80,30,40\nz2,1,0,40,0,10,30\ntotal,4,100,93,80,40,73\n"
            ),
        ),
        (
            "revenue.csv?group=day,product_name",
            "revenue-day-product_name-a1-2026-10-20.csv",
            format!(
                "day,product_name,{sums}\n2026-10-20,\"'=1+1,\"\"x\"\"\",1,0,3,0,0,3\n2026-10-20,Shield,1,0,20,0,0,20\n\
                 2026-10-20,Sword,2,100,70,0,0,170\n2026-10-21,Sword,0,0,0,80,40,-120\ntotal,,4,100,93,80,40,73\n"
            ),
        ),
        (
            "refusals.csv?x=",
            "refusals-a1-2026-10-20.csv",
            "code,count,numbers,players\n10000602,7,1,1\n10000601,5,1,1\ntotal,12,,\n".to_owned(),
        ),
    ] {
        let answer = viewer.get(&format!("/console/reports/{file}&{of}")).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, expected.as_str()), "{file}");
        assert_eq!(answer.header("content-type"), Some("text/csv; charset=utf-8"));
        let disposition = format!("attachment; filename=\"{name}\"");
        assert_eq!(answer.header("content-disposition"), Some(disposition.as_str()));
    }
    tables_are_workbooks(&viewer, of).await;
    for (wrong, status) in [
        ("revenue.csv?app_id=a1", 400),
        ("revenue.csv?app_id=a1&group=x", 400),
        ("revenue.csv?app_id=a9&group=day", 404),
    ] {
        assert_eq!(viewer.get(&format!("/console/reports/{wrong}")).await.status, status, "{wrong}");
    }
}

/// Rules 8.6.30, 8.6.31 and 8.6.42: two clicks from the first page lead to revenue by day and item of the last month.
/// Three by the navigation do too. It is 8 o'clock on 15 January 2027.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_month_is_two_clicks_away() {
    let (till, _) = till().await;
    till.execute(&moved("60 days")).await;
    till.execute("UPDATE ledger_entries SET at = '2026-10-01T00:00:00Z' WHERE kind = 'credit'").await;
    let viewer = till.browser(Role::Finance).await;
    let follow = async |page: &Answer, text: &str| {
        let address = link_called(page, text).unwrap_or_else(|| panic!("no {text} in {}", page.body));
        viewer.get(&address).await
    };
    let first = viewer.get("/console").await;
    let page = follow(&follow(&first, "Reports").await, "Last month").await;
    let same = follow(&first, "Revenue of last month").await;
    assert_eq!(content(&page), content(&same));
    let other = till.browser(Role::Viewer).await.get("/console").await;
    assert_eq!(link_called(&other, "Revenue of last month"), None, "a viewer reads no revenue");
    has(
        &page,
        &["From 2026-12-01 00:00:00 to 2027-01-01 00:00:00", "2026-11-01 00:00:00 to 2026-12-01 00:00:00"],
    );
    assert!(page.body.contains("aria-current=\"true\">Last month</a>"));
    assert_eq!(value_of(&page, "period"), "last_month");
    let csv = viewer.get("/console/reports/revenue.csv?period=last_month&group=day,product_name").await;
    let file = page.body.split("download>Download revenue by day and item (CSV)").next().unwrap();
    let file = file.rsplit("href=\"").next().unwrap().split('"').next().unwrap().replace("&#38;", "&");
    let file = viewer.get(&file).await;
    assert_eq!((file.status, &file.body), (200, &csv.body));
    let first = file.body.lines().nth(1);
    assert_eq!(first, Some("2026-12-19,Shield,1,0,20,0,0,20"));
    // Today and the part of yesterday before 8 o'clock.
    till.execute(&moved("26 days")).await;
    let today = viewer.get("/console/reports?app_id=a1&period=today").await;
    has(&today, &["Compared with the period before: 2027-01-14 00:00:00 to 2027-01-14 08:00:00"]);
    has(&today, &["Coins given back 120 before: none"]);
    let yesterday = viewer.get("/console/reports?app_id=a1&period=yesterday").await;
    has(&yesterday, &["Exchanges 3 before: none Gifted coins taken 100 before: none"]);
    // A day without an exchange has a place in the picture.
    let week = viewer.get("/console/reports?app_id=a1&period=7_days").await;
    assert!(week.body.contains("&#34;2027-01-13&#34;,&#34;2027-01-14&#34;,"), "{}", week.body);
    assert!(week.body.contains("0.0,0.0,100.0,0.0]"), "{}", week.body);
}

/// Rule 8.6.59: a page whose report takes long tells that it is being made, loads itself again, and then shows it. Each user
/// has a report of its own, and four at most are made for one.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_does_not_wait_for_a_report_that_takes_long() {
    // How long a report waits for its turn, once.
    let till = TestTill::start_with(|config| config.database.acquire_timeout = Duration::from_secs(1)).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let finance = till.browser(Role::Finance).await;
    for (path, shown) in [
        ("/console/reports/statement?app_id=a1&month=2026-03", "Ties to the ledger"),
        ("/console/reports/unused?app_id=a1", "Without a price"),
    ] {
        let mut lock = till.sql.begin().await.unwrap();
        sqlx::raw_sql("LOCK TABLE ledger_entries IN ACCESS EXCLUSIVE MODE")
            .execute(&mut *lock)
            .await
            .unwrap();
        for _ in 0..3 {
            let waiting = finance.send(Request::get(path)).await;
            has(&waiting, &["The figures appear here as soon as they are there.", "press Show again"]);
            assert!(waiting.body.contains("<body data-refresh=\"1\""), "{}", waiting.body);
            assert!(!waiting.body.contains(shown), "{}", waiting.body);
        }
        till.until_locked_out(1).await;
        // Others of the app wait for their turn, for as long as it takes.
        let other = till.browser(Role::Admin).await;
        has(&other.send(Request::get(path)).await, &["The figures appear here as soon as they are there."]);
        tokio::time::sleep(Duration::from_secs(2)).await;
        has(&other.send(Request::get(path)).await, &["The figures appear here as soon as they are there."]);
        // Four at most of a user.
        for day in 11..=13 {
            let more =
                format!("{}&at=2026-11-{day}", path.replace("month=2026-03", &format!("day=2026-03-{day}")));
            assert_eq!(finance.send(Request::get(&more)).await.status, 200);
        }
        let fifth = format!("{}&at=2026-11-14", path.replace("month=2026-03", "day=2026-03-14"));
        assert_eq!(finance.send(Request::get(&fifth)).await.status, 503);
        lock.rollback().await.unwrap();
        let made = finance.get(path).await;
        // The answer may be lost on its way, so the page can get the same again, of the same moment.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(finance.send(Request::get(path)).await.body, made.body);
        for made in [made, other.get(path).await] {
            has(&made, &[shown]);
            assert!(!made.body.contains("data-refresh") && !made.body.contains("awaited"), "{}", made.body);
        }
    }
}

/// Rule 8.6.32: a month is closed. Its document is the same bytes as a file, and the page leads to its bill. A month
/// that cannot be closed is refused with the reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_month_is_closed_with_its_document() {
    let (till, _) = till().await;
    till.execute(&moved("-210 days")).await;
    till.execute("UPDATE ledger_entries SET at = '2026-03-01T00:00:00Z' WHERE kind = 'credit'").await;
    let viewer = till.browser(Role::Finance).await;
    let form = link_called(&viewer.get("/console/reports").await, "Close a day or a month").unwrap();
    let form = viewer.get(&form).await;
    assert_eq!((value_of(&form, "app_id").as_str(), form.status), ("a1", 200));
    assert!(form.body.contains("name=\"month\" type=\"month\" value=\"2026-12\""), "{}", form.body);
    let page = viewer.get("/console/reports/statement?app_id=a1&month=2026-03&day=").await;
    has(
        &page,
        &[
            "Statement of 2026-03 a1 Ties to the ledger From 2026-03-01 00:00:00 to 2026-04-01 00:00:00 , 2 wallets",
            "Coins Gifted Charged Opening balance 0 0 Credits by command 100 2_000",
            "Top-ups 0 0 Presents 5 0 Exchanges \u{2212}100 \u{2212}90 Cancels 80 40 Debits 0 0 Refunds 0 0 Settlements of debt 0 0 Closing balance 85 1_950",
            "is only here, only there, or differs. Compare with other books",
        ],
    );
    for name in ["bill.csv", "bill.xlsx", "statement.xlsx"] {
        let bill = format!("href=\"/console/reports/{name}?app_id=a1&#38;month=2026-03\" download>");
        assert!(page.body.contains(&bill), "{bill} in {}", page.body);
    }
    let file = viewer.get("/console/reports/statement.txt?app_id=a1&month=2026-03").await;
    let (text, last) = file.body.trim_end().rsplit_once('\n').unwrap();
    let sha256 = hex::encode(Sha256::digest(format!("{text}\n")));
    assert_eq!(last, format!("sha256: {sha256}"));
    assert!(
        page.body.contains(&format!("<dd><code class=\"id\" title=\"{sha256}\">{sha256}</code></dd>"))
            && page.body.contains(file.body.trim_end())
    );
    let disposition = "attachment; filename=\"statement-a1-2026-03.txt\"";
    assert_eq!(file.header("content-disposition"), Some(disposition));
    assert!(page.body.contains("href=\"/console/reports/statement.txt?app_id=a1&#38;month=2026-03\""));
    for (query, told) in [
        ("day=2999-01-01", "2999-01-01 has not ended in UTC: it ends at 2999-01-02 00:00:00"),
        ("month=x", "Expected a month such as 2026-10, got &#34;x&#34;."),
    ] {
        let wrong = viewer.get(&format!("/console/reports/statement?app_id=a1&{query}")).await;
        assert_eq!(wrong.status, 400, "{query}");
        has(&wrong, &[told, "There is no statement."]);
        let file = viewer.get(&format!("/console/reports/statement.txt?app_id=a1&{query}")).await;
        assert_eq!(file.status, 400, "{query}");
    }
    assert_eq!(viewer.get("/console/reports/statement?app_id=a9&month=2026-03").await.status, 404);
    assert_eq!(viewer.get("/console/reports/statement.txt?app_id=a1").await.status, 400);
}
