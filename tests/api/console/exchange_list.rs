//! The list of exchanges, presents and cancels (rule 8.6.33).

use domain::console_user::Role;

use super::reading::{content, link_called};
use crate::sales::{till, till_with};
use crate::support::TestTill;
use crate::support::console::Browser;
use crate::workbook::sheet_lines;

/// The numbers of the list, in its order.
fn numbers(body: &str) -> Vec<String> {
    let rows = body.split("<th scope=\"row\" data-label=\"biz_no or ref\"><a class=\"id\" title=\"").skip(1);
    rows.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

/// Rule 8.6.33: each kind as it is shown, the sums of the page and of all, and the file.
#[tokio::test(flavor = "multi_thread")]
async fn the_list_has_sums_and_is_a_file() {
    let (till, _) = till().await;
    let viewer = till.browser(Role::Viewer).await;
    let page = viewer.get("/console/exchanges?app_id=a1").await;
    let shown = content(&page);
    for fact in [
        "Newest first. A cancel has the zone and the item of its exchange. Time biz_no or ref Kind Player Zone Item Gifted \
         change Charged change 2026-10-21 16:00:00 back-1 cancel of B3 o2 z2_r1 Sword 0 +10 2026-10-21 15:59:59 C1 cancel of \
         B1 o1 z1_r1 Sword +80 +30 2026-10-20 18:20:00 B3 exchange o2 z2_r1 Sword 0 \u{2212}40 2026-10-20 16:30:00 P1 \
         present o1 z1_r1 +5 0 2026-10-20 16:30:00 B2 exchange o2 z1_r_2 Shield 0 \u{2212}20 2026-10-20 16:29:59 B1 exchange \
         o1 z1_r1 Sword \u{2212}100 \u{2212}30",
        "Sums Of Kind Count Gifted change Charged change This page Exchanges 3 \u{2212}100 \u{2212}90 This page Presents 1 \
         +5 0 This page Cancels 2 +80 +40 All that match Exchanges 3 \u{2212}100 \u{2212}90 All that match Cancels +80 +40",
    ] {
        assert!(shown.contains(fact), "{fact}\nin {shown}");
    }
    for link in ["/console/apps/a1/exchanges/B1", "/console/apps/a1/players/o1?number=P1"] {
        assert!(page.body.contains(&format!("href=\"{link}\"")), "{link}");
    }
    let file = viewer.get("/console/exchanges.csv?app_id=a1&kind=cancel").await;
    let expected = "time,app_id,kind,biz_no,ref,pay_biz_no,open_id,zone_id,product_name,free_change,charge_change\n\
                    2026-10-21T16:00:00Z,a1,cancel,,back-1,B3,o2,z2_r1,Sword,0,10\n\
                    2026-10-21T15:59:59Z,a1,cancel,C1,,B1,o1,z1_r1,Sword,80,30\n";
    assert_eq!((file.status, file.body.as_str()), (200, expected));
    assert_eq!(file.header("content-disposition"), Some("attachment; filename=\"exchanges.csv\""));
    assert!(shown.contains("This page: CSV Excel"), "{shown}");
    let book = viewer.get("/console/exchanges.xlsx?app_id=a1&kind=cancel").await;
    assert_eq!(sheet_lines(&book.bytes, "Sums of this page"), ["#2\t#80\t#40"]);
    assert_eq!(link_called(&page, "CSV"), None, "the link downloads");
    assert!(page.body.contains(
        "href=\"/console/exchanges.csv?app_id=a1\" aria-label=\"This page as CSV\" download>CSV</a>"
    ));
}

/// The tag of a field of date and time, behind its name.
fn field(body: &str, name: &str) -> String {
    let (_, rest) = body.split_once(&format!("<input id=\"{name}\" name=\"{name}\" ")).expect("the field");
    rest.split('>').next().unwrap().to_owned()
}

/// Rule 8.6.30: fields show the times of a link by the clock of the page, and the next search has the same times.
#[tokio::test(flavor = "multi_thread")]
async fn fields_show_the_times_of_a_link() {
    let (till, _) = till_with(|config| config.console.time_zone = "Europe/Berlin".parse().unwrap()).await;
    let admin = till.browser(Role::Admin).await;
    for (path, name, shown) in [
        ("exchanges?from=2026-11-30T19:02:22Z", "from", "2026-11-30T20:02:22"),
        ("reports?from=2026-10-20T16:30:00Z", "from", "2026-10-20T18:30:00"),
        ("health?at=2026-11-30T19:00:00Z", "at", "2026-11-30T20:00:00"),
        ("log?from=2026-11-30T19:01:30.875Z", "from", "2026-11-30T20:01:30.875"),
        ("exchanges?from=2026-11-30", "from", "2026-11-30T00:00:00"),
        ("exchanges", "from", ""),
    ] {
        let page = admin.get(&format!("/console/{path}")).await;
        let expected = format!("type=\"datetime-local\" step=\"any\" value=\"{shown}\"");
        assert_eq!((page.status, field(&page.body, name)), (200, expected), "{path}");
    }
    let unused = admin.get("/console/reports/unused?app_id=a1&at=2026-10-20T12:00:00Z").await;
    let expected =
        "type=\"datetime-local\" step=\"any\" value=\"2026-10-20T14:00:00\" aria-describedby=\"at_hint\"";
    assert_eq!(field(&unused.body, "at"), expected);
    // The clock shows 2:30 twice, and the first would be read.
    let twice = admin.get("/console/exchanges?from=2026-10-25T01:30:00Z").await;
    assert_eq!(field(&twice.body, "from"), "type=\"text\" value=\"2026-10-25T01:30:00Z\"");
    let wrong = admin.get("/console/exchanges?from=soon").await;
    let shown = field(&wrong.body, "from");
    assert!(wrong.status == 400 && shown.starts_with("type=\"text\" value=\"soon\" aria-invalid"), "{shown}");
    for times in [
        "from=2026-10-20T16:30:00Z&to=2026-10-20T18:20:00Z",
        "from=2026-10-20T18:30:00&to=2026-10-20T20:20:00",
    ] {
        let page = admin.get(&format!("/console/exchanges?app_id=a1&{times}")).await;
        assert_eq!(numbers(&page.body), ["P1", "B2"], "{times}");
    }
}

/// Each filter that is not acceptable, on the page and in the file.
async fn wrong_filters_are_named(viewer: &Browser<'_>) {
    for (query, told) in [
        ("rows=7", "Expected 50, 100 or 200, got &#34;7&#34;."),
        ("zone=_b", "Expected a zone without an underscore, or a whole zone_id"),
        ("kind=credit", "Expected exchange, present, cancel or refused"),
        ("kind=refused&code=601", "Expected a code of a refusal, such as 10000601, got &#34;601&#34;."),
        ("kind=refused&zone=z1", "Expected nothing, because refusals have no zone, got &#34;z1&#34;."),
        ("kind=refused&product_name=Sword", "Expected nothing, because refusals are not searched by item"),
        ("code=10000601", "Expected a code with the kind Refused alone"),
        ("period=soon", "Nothing was searched."),
    ] {
        let page = viewer.get(&format!("/console/exchanges?app_id=a1&{query}")).await;
        assert!(page.status == 400 && content(&page).contains(told), "{query}: {}", content(&page));
        assert_eq!(viewer.get(&format!("/console/exchanges.csv?app_id=a1&{query}")).await.status, 400);
    }
}

/// Rule 8.6.33: every filter, with the sums of all that match, and pages that neither skip nor repeat.
#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_filtered_and_has_pages() {
    let (till, _) = till().await;
    let viewer = till.browser(Role::Viewer).await;
    for (query, expected, sums) in [
        ("kind=exchange", vec!["B3", "B2", "B1"], Some("All that match Exchanges 3 \u{2212}100 \u{2212}90")),
        ("kind=present", vec!["P1"], None),
        (
            "zone=z2",
            vec!["back-1", "B3"],
            Some("All that match Exchanges 1 0 \u{2212}40 All that match Cancels 0 +10"),
        ),
        (
            "product_name=Shield",
            vec!["B2"],
            Some("All that match Exchanges 1 0 \u{2212}20 All that match Cancels 0 0"),
        ),
        (
            "product_name=Sword&zone=z1&from=2026-10-21&to=2026-10-22",
            vec!["C1"],
            Some("All that match Exchanges 0 0 0 All that match Cancels +80 +30"),
        ),
        ("open_id=o2", vec!["back-1", "B3", "B2"], None),
        ("period=today", vec![], None),
    ] {
        let page = viewer.get(&format!("/console/exchanges?app_id=a1&{query}")).await;
        let shown = content(&page);
        assert_eq!(
            (page.status, numbers(&page.body)),
            (200, expected.into_iter().map(str::to_owned).collect()),
            "{query}"
        );
        match sums {
            Some(sums) => assert!(shown.contains(sums), "{query}: {shown}"),
            None => assert!(!shown.contains("All that match"), "{query}: {shown}"),
        }
    }
    // All apps at once, which have no sums of all.
    let page = viewer.get("/console/exchanges").await;
    assert!(
        numbers(&page.body).len() == 7 && content(&page).contains("choose an app and no player"),
        "{}",
        page.body
    );
    // A phone shows the app, too.
    assert!(page.body.contains("<td data-label=\"App\">"), "{}", page.body);
    wrong_filters_are_named(&viewer).await;
    assert_eq!(viewer.get("/console/exchanges?after=1.x").await.status, 400);
    many(&till).await;
    let (mut seen, mut address) =
        (Vec::new(), "/console/exchanges?app_id=a1&kind=exchange&rows=100".to_owned());
    for turn in 0.. {
        assert!(turn < 4, "the pages end");
        let page = viewer.get(&address).await;
        seen.extend(numbers(&page.body));
        let file = viewer.get(&address.replace("exchanges?", "exchanges.csv?")).await;
        assert_eq!(file.body.lines().count() - 1, numbers(&page.body).len(), "the file is what is shown");
        assert_eq!(turn > 0, page.body.contains(">Newest entries</a>"));
        assert_eq!(turn == 0, content(&page).contains("All that match"), "the sums of all are made once");
        let Some((before, _)) = page.body.split_once("\" rel=\"next\">Older entries</a>") else { break };
        address = before.rsplit("href=\"").next().unwrap().replace("&#38;", "&");
    }
    let mut once = seen.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!((seen.len(), once.len()), (233, 233));
}

/// Rules 8.6.33 and 13.1.11: the kind *Refused*, where the counts of the reports lead, as a list and as a file.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_is_listed() {
    let (till, _) = till().await;
    let viewer = till.browser(Role::Viewer).await;
    till.execute(
        "INSERT INTO exchange_refusals VALUES
         ('a1', 'R1', 'o1', 10000601, 'exchange', '2026-10-20 08:00Z', now(), 3, 'r1', 60, '=Sword', 5, 7),
         ('a1', 'R2', 'o9', 10000423, 'present', '2026-10-20 08:00Z', now() - interval '1 hour', 1, 'r2', 9, NULL, NULL, NULL)",
    )
    .await;
    let reports = till.browser(Role::Finance).await.get("/console/reports?app_id=a1&from=2026-10-20").await;
    let link = reports
        .body
        .split("<a href=\"/console/exchanges?kind=refused")
        .nth(1)
        .expect("a count leads to the list");
    let link =
        format!("/console/exchanges?kind=refused{}", link.split('"').next().unwrap().replace("&#38;", "&"));
    assert!(link.contains("app_id=a1&code=10000"), "{link}");
    let page = viewer.get("/console/exchanges?kind=refused&app_id=a1").await;
    let shown = content(&page);
    for fact in [
        "R1 exchange insufficient balance 10000601 3 a1 o1 60 for =Sword 5 + 7 ",
        "R2 present illegal open id 10000423 1 a1 o9 9 ",
    ] {
        assert!(shown.contains(fact), "{fact}\nin {shown}");
    }
    assert!(page.body.contains("href=\"/console/apps/a1/exchanges/R1\""));
    let number = content(&viewer.get("/console/apps/a1/exchanges/R1").await);
    let row = " r1 exchange insufficient balance 10000601 60 for =Sword 5 + 7 3 times 2026-10-20 08:00:00 o1";
    assert!(number.ends_with(row), "{number}");
    let of_code = viewer.get("/console/exchanges?kind=refused&code=10000423").await;
    // A phone leaves the app out where it is the same in each row.
    assert!(page.body.contains("<td class=\"less\" data-label=\"App\">"), "{}", page.body);
    assert!(of_code.body.contains("<td data-label=\"App\">"), "{}", of_code.body);
    let of_code = content(&of_code);
    assert!(of_code.contains("R2 present") && !of_code.contains("R1 exchange"), "{of_code}");
    let file = viewer.get("/console/exchanges.csv?kind=refused&open_id=o1").await;
    assert_eq!(file.header("content-disposition"), Some("attachment; filename=\"refusals.csv\""));
    let (heading, row) = file.body.trim_end().split_once('\n').unwrap();
    assert_eq!(
        heading,
        "last_at,first_at,app_id,kind,code,count,biz_no,open_id,amount,product_name,free_balance,charge_balance,request_id"
    );
    let row = row.split_once(',').unwrap().1;
    assert_eq!(row, "2026-10-20T08:00:00Z,a1,exchange,10000601,3,R1,o1,60,'=Sword,5,7,r1");
    let file = viewer.get("/console/exchanges.xlsx?kind=refused&open_id=o1").await;
    assert_eq!(file.header("content-disposition"), Some("attachment; filename=\"refusals.xlsx\""));
    let [row] = &sheet_lines(&file.bytes, "Refusals")[..] else { panic!("one refusal") };
    let cells = row.split_once('\t').unwrap().1;
    assert_eq!(cells, "a1\texchange\t#10000601\t#3\tR1\to1\t=Sword\t#60\t#5\t#7");
}

/// Rule 8.6.33: where the sums of all take longer than a statement may, the list is there without them.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_does_not_fail_with_its_sums() {
    let (till, _) = till_with(|config| {
        config.database.statement_timeout = std::time::Duration::from_secs(2);
    })
    .await;
    let viewer = till.browser(Role::Viewer).await;
    let mut busy = till.sql.begin().await.unwrap();
    sqlx::query("LOCK TABLE sales_hours IN ACCESS EXCLUSIVE MODE").execute(&mut *busy).await.unwrap();
    let page = viewer.get("/console/exchanges?app_id=a1").await;
    busy.rollback().await.unwrap();
    let shown = content(&page);
    assert!(page.status == 200 && numbers(&page.body).len() == 6, "{shown}");
    assert!(shown.contains("The sums of all that match take too long. Choose a shorter time."), "{shown}");
}

/// 230 more exchanges.
async fn many(till: &TestTill) {
    till.execute(
        "INSERT INTO ledger_entries (app_no, wallet_no, seq, at, free_change, charge_change, free_balance, charge_balance,
             kind, reference, chain_hash, item_id, zone_id)
         SELECT e.app_no, e.wallet_no, 100 + n, e.at + n * interval '1 second', 0, -1, 0, 0, 'exchange', 'M' || n, sha256(''),
             e.item_id, e.zone_id
         FROM ledger_entries e, generate_series(1, 230) n WHERE e.reference = 'B3'",
    )
    .await;
}
