//! The comparison with other books (rules 8.6.43 and 13.5.10).

use std::fmt::Write as _;
use std::time::Duration;

use domain::console_user::Role;
use domain::ids::AppId;
use domain::rights::{Apps, Rights};

use super::super::accessible::faults;
use super::super::reading::{content, link_called, value_of};
use super::has;
use crate::sales::{till, till_with};
use crate::support::console::{Browser, ESCAPED, HOSTILE, ORIGIN};
use crate::support::{Answer, Request};

const PATH: &str = "/console/reports/reconcile";

/// The form with a file as a browser sends it: the fields in their order, and then the file.
async fn send(browser: &Browser<'_>, fields: &[(&str, &str)], file: &str) -> Answer {
    let csrf = browser.csrf_token().await;
    send_with(browser, &csrf, fields, file).await
}

async fn send_with(browser: &Browser<'_>, csrf: &str, fields: &[(&str, &str)], file: &str) -> Answer {
    browser.send(form(csrf, fields, file)).await
}

fn form(csrf: &str, fields: &[(&str, &str)], file: &str) -> Request {
    let fields = [("csrf", csrf)].into_iter().chain(fields.iter().copied());
    let mut parts: Vec<(String, &[u8])> = fields
        .map(|(name, value)| (format!("content-disposition: form-data; name=\"{name}\""), value.as_bytes()))
        .collect();
    let head =
        "content-disposition: form-data; name=\"file\"; filename=\"their.csv\"\r\ncontent-type: text/csv";
    parts.push((head.to_owned(), file.as_bytes()));
    let parts: Vec<(&str, &[u8])> = parts.iter().map(|(head, bytes)| (head.as_str(), *bytes)).collect();
    Request::post(PATH).header("origin", ORIGIN).multipart(&parts)
}

/// Rule 8.6.43: a file that ties, and one that does not, with the lists and their links.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_compared_in_a_browser() {
    let (till, _) = till().await;
    let finance = till.browser(Role::Finance).await;
    let reports = finance.get("/console/reports?app_id=a1").await;
    let closed = finance.get("/console/reports/statement?app_id=a1&month=2026-03").await;
    let of_month = finance.get(&link_called(&closed, "Compare with other books").unwrap()).await;
    assert!(of_month.body.contains("name=\"month\" type=\"month\" value=\"2026-03\""), "{}", of_month.body);
    let page = finance.get(&link_called(&reports, "Compare with other books").unwrap()).await;
    assert_eq!(
        (page.status, faults(&page.body), value_of(&page, "app_id").as_str()),
        (200, Vec::new(), "a1")
    );
    assert!(page.body.contains(&format!("action=\"{PATH}\" enctype=\"multipart/form-data\"")));
    let names: Vec<&str> =
        page.body.split(" name=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let own = names.iter().skip_while(|name| **name != "app_id").copied().collect::<Vec<_>>();
    assert_eq!(own.last(), Some(&"file"), "what stands before the file is judged before it comes: {names:?}");
    // What the ledger has.
    let rows: Vec<(String, String, i64)> = sqlx::query_as(
        "SELECT reference, kind, charge_change FROM ledger_entries JOIN apps USING (app_no)
         WHERE app_id = 'a1' AND reference !~ '^!' ORDER BY 1",
    )
    .fetch_all(&till.sql)
    .await
    .unwrap();
    assert!(rows.len() > 2, "{rows:?}");
    let mut same = "order,kind,coins\r\n".to_owned();
    for (number, kind, charge) in &rows {
        writeln!(same, "{number},{kind},{charge}\r").unwrap();
    }
    let columns = [("app_id", "a1"), ("biz_no_column", "order"), ("charge_change_column", "coins")];
    let page = send(&finance, &columns, &same).await;
    assert_eq!((page.status, faults(&page.body)), (200, Vec::new()));
    assert!(page.body.contains("<span class=\"tag good\">Everything ties</span>"), "{}", page.body);
    let facts = format!(
        "Matched {} Only in the ledger 0 Only in the file 0 Differ 0 Columns that were compared:",
        rows.len()
    );
    has(&page, &[&format!("{facts} Order number Kind Charged coins")]);
    assert_eq!(value_of(&page, "biz_no_column"), "order", "the form has what was typed");
    let (first, second) = (&rows[0], &rows[1]);
    let theirs = format!("order,coins,shop\r\n{},77,x\r\n{HOSTILE},1,x\r\n,5,x\r\n", second.0);
    let page = send(&finance, &columns, &theirs).await;
    assert_eq!((page.status, faults(&page.body)), (200, Vec::new()));
    assert!(page.body.contains("<span class=\"tag bad\">Does not tie</span>"));
    has(
        &page,
        &[
            &format!("Matched 0 Only in the ledger {} Only in the file 1 Differ 1 Columns", rows.len() - 1),
            "Lines without an order number, which were not compared: 1",
            "Columns of the file that were not compared: shop",
            &format!("Order number Field Here There {} Charged coins {} 77", second.0, second.2),
        ],
    );
    for number in [&first.0, &second.0] {
        assert!(page.body.contains(&format!("href=\"/console/apps/a1/exchanges/{number}\"")), "{number}");
    }
    assert!(page.body.contains(ESCAPED) && !page.body.contains(HOSTILE));
    assert!(page.body.contains("href=\"/console/exchanges?app_id=a1&amp;number=%3Cimg%20src%3Dx"));
    let refs = "SELECT count(*) FROM ledger_entries JOIN apps USING (app_no) WHERE app_id = 'a1' AND reference ~ '^!'";
    let refs = till.number(refs).await;
    let columns = [("app_id", "a1"), ("by", "ref"), ("ref_column", "order")];
    let page = send(&finance, &columns, "order,amount\r\nnope,1\r\n").await;
    assert_eq!((page.status, faults(&page.body)), (200, Vec::new()));
    let facts = format!(
        "Matched 0 Only in the ledger {refs} Only in the file 1 Differ 0 Columns that were compared:"
    );
    has(&page, &[&format!("{facts} Reference Amount")]);
    assert!(page.body.contains("href=\"/console/exchanges?app_id=a1&amp;number=nope\""));
}

/// Rule 8.6.43: a list has its first 100 members, and its count is of all. A period is in the console's time zone.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_a_hundred_members_and_a_period_its_numbers() {
    let (till, _) = till().await;
    let finance = till.browser(Role::Finance).await;
    let many: String = (0..150).fold("biz_no\n".to_owned(), |mut lines, number| {
        writeln!(lines, "y{number:03}").unwrap();
        lines
    });
    let page = send(&finance, &[("app_id", "a1"), ("month", "2020-01"), ("day", "")], &many).await;
    has(
        &page,
        &[
            "Result a1 2020-01",
            "Matched 0 Only in the ledger 0 Only in the file 150 Differ 0",
            "A list shows the first 100. The command minitill reconcile prints all.",
        ],
    );
    assert!(page.body.contains(">y099</a>") && !page.body.contains(">y100</a>"));
}

/// Rule 8.6.43: what is wrong stands at its field, and nothing is compared.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_file_stands_at_its_field() {
    let (till, _) = till().await;
    let finance = till.browser(Role::Finance).await;
    let wrong_at = |page: &Answer, field: &str| {
        let (_, rest) = page.body.split_once(&format!("<span class=\"wrong\" id=\"{field}_wrong\">"))?;
        rest.split("</span>").next().map(str::to_owned)
    };
    for (more, file, field, words) in [
        (
            ("kind_column", ""),
            "biz_no,kind\nb1,exchange\nb2\n",
            "file",
            "Expected a file that can be compared: line 3: expected 2 columns, got 1.",
        ),
        (
            ("kind_column", ""),
            "order,kind\nb1,exchange\n",
            "biz_no_column",
            "Expected the name of a column of the file: there is no column biz_no; there are order, kind.",
        ),
        (
            ("kind_column", "art"),
            "biz_no,kind\nb1,exchange\n",
            "kind_column",
            "Expected the name of a column of the file: there is no column art; there are biz_no, kind.",
        ),
        (("kind_column", ""), "", "file", "Expected a file with the names of its columns in the first line."),
        (("month", "x"), "biz_no\n", "month", "Expected a month such as 2026-10, got &#34;x&#34;."),
    ] {
        let page = send(&finance, &[("app_id", "a1"), more], file).await;
        assert_eq!((page.status, faults(&page.body)), (400, Vec::new()), "{file}");
        assert_eq!(wrong_at(&page, field).as_deref(), Some(words), "{file}");
        has(&page, &["Nothing was compared. Correct the field that is marked, and choose the file again."]);
    }
    // A form of another kind has no file.
    let page = finance.post(PATH, &[("app_id", "a1")]).await;
    assert_eq!(
        wrong_at(&page, "file").unwrap(),
        "Expected a file with the names of its columns in the first line."
    );
    assert_eq!(send(&finance, &[("app_id", "a9")], "biz_no\n").await.status, 404);
    // It is refused by its announced length, before it comes.
    let csrf = finance.csrf_token().await;
    let cookie = format!("minitill_console={}", finance.token);
    let request = form(&csrf, &[("app_id", "a1")], "biz_no\n").header("cookie", &cookie).bytes();
    let request = String::from_utf8(request).unwrap();
    let length = request.split("content-length: ").nth(1).unwrap().split('\r').next().unwrap();
    let (announced, larger) = (format!("content-length: {length}"), "content-length: 268600000");
    let page =
        crate::support::raw(till.operator_address, request.replace(&announced, larger).as_bytes()).await;
    assert_eq!(page.status, 400);
    assert_eq!(wrong_at(&page, "file").unwrap(), "Expected a file of at most 256 MiB.");
}

/// Rules 8.6.43 and 13.3.1: a day that the clocks skip is refused at its field, in the words of a statement.
#[tokio::test(flavor = "multi_thread")]
async fn a_day_that_the_clocks_skip_is_refused_at_its_field() {
    let (till, _) = till_with(|config| config.console.time_zone = "Pacific/Apia".parse().unwrap()).await;
    let finance = till.browser(Role::Finance).await;
    let statement = finance.get("/console/reports/statement?app_id=a1&day=2011-12-30").await;
    let compared = send(&finance, &[("app_id", "a1"), ("day", "2011-12-30")], "biz_no\n").await;
    let wrong = "<span class=\"wrong\" id=\"day_wrong\">Expected a period that has ended: there is no 2011-12-30 in \
                 Pacific/Apia: its clocks skipped it, got &#34;2011-12-30&#34;.</span>";
    for page in [statement, compared] {
        assert_eq!((page.status, faults(&page.body)), (400, Vec::new()));
        assert!(page.body.contains(wrong), "{}", page.body);
    }
}

/// Rules 8.6.37 and 13.5.10: a form of another session, another app and a third file are refused.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_send_a_file_is_refused() {
    let (till, _) = till_with(|config| config.database.acquire_timeout = Duration::from_secs(3)).await;
    let finance = till.browser(Role::Finance).await;
    let foreign = send_with(&finance, &"0".repeat(64), &[("app_id", "a1")], "biz_no\n").await;
    assert!(foreign.status == 403 && foreign.body.contains("Not from this console"), "{}", foreign.body);
    // The token behind the file is none.
    let csrf = finance.csrf_token().await;
    let parts: [(&str, &[u8]); 2] = [
        ("content-disposition: form-data; name=\"file\"; filename=\"a.csv\"", b"biz_no\n"),
        ("content-disposition: form-data; name=\"csrf\"", csrf.as_bytes()),
    ];
    let late = finance.send(Request::post(PATH).header("origin", ORIGIN).multipart(&parts)).await;
    assert!(late.status == 403 && late.body.contains("Not from this console"), "{}", late.body);
    till.app("b1").await;
    let of_b1 = Rights { role: Role::Finance, apps: Apps::parse("b1").unwrap() };
    let other = till.browser_of(of_b1).await;
    assert_eq!(send(&other, &[("app_id", "a1")], "biz_no\n").await.status, 404);
    assert_eq!(send(&other, &[("app_id", "b1")], "biz_no\n").await.status, 200);
    let _permit = till.store.comparison_permit(&AppId::parse("a1").unwrap()).await.unwrap();
    let busy = send(&finance, &[("app_id", "a1")], "biz_no\n").await;
    assert_eq!(busy.status, 503);
    assert!(content(&busy).contains("Other files are being compared at the moment."), "{}", busy.body);
}
