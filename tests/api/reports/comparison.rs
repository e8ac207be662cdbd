//! `POST /admin/v1/reports/reconcile` (contract 13.5.7 to 13.5.10).

use std::fmt::Write as _;
use std::time::Duration;

use domain::console_user::Role;
use domain::rights::{Apps, Rights};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::reconcile::thousands;
use super::{three_months, till};
use crate::admin::{Caller, assert_answer, assert_problem};
use crate::support::{Answer, Request, TestTill};

/// Sends files with the key of somebody of finance.
struct Books<'a> {
    till: &'a TestTill,
    caller: Caller<'a>,
}

impl<'a> Books<'a> {
    async fn of(till: &'a TestTill) -> Self {
        Self { till, caller: Caller::new(till, "books", Role::Finance).await }
    }

    fn request(&self, query: &str, file: impl Into<Vec<u8>>) -> Request {
        let request = self.caller.request("POST", &format!("/reports/reconcile?{query}"));
        request.header("content-type", "text/csv; charset=utf-8").body(file)
    }

    async fn compare(&self, query: &str, file: impl Into<Vec<u8>>) -> Answer {
        self.request(query, file).send(self.till.operator_address).await
    }
}

/// What is answered where all members of the lists are there.
fn found(matched: u32, ours: &[&str], theirs: &[&str], differs: &Value, differing: u32) -> Value {
    let numbers =
        |numbers: &[&str]| -> Value { numbers.iter().map(|biz_no| json!({"biz_no": biz_no})).collect() };
    json!({
        "ties": ours.is_empty() && theirs.is_empty() && differing == 0,
        "matched": matched, "only_here_count": ours.len(), "only_there_count": theirs.len(),
        "differs_count": differing, "complete": true, "only_here": numbers(ours),
        "only_there": numbers(theirs), "differs": differs, "compared_columns": ["biz_no"], "ignored_columns": [], "without_number": 0,
        "of_other_periods": 0,
    })
}

/// Rules 13.5.1 and 13.5.7: a file that ties, and one with a difference of each kind, under names of theirs.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_compared_by_its_own_names() {
    let (till, _, _) = three_months("compared").await;
    let books = Books::of(&till).await;
    let lines_before = till.number("SELECT count(*) FROM operator_log").await;
    let same =
        "biz_no,open_id,kind,charge_change\ng1,o1,present,0\nb1,o1,exchange,-4500\nb1c,o1,cancel,500\n";
    let answer = books.compare("app_id=a1", same).await;
    let mut expected = found(3, &[], &[], &json!([]), 0);
    expected["compared_columns"] = json!(["biz_no", "open_id", "kind", "charge_change"]);
    assert_answer(&answer, 200, &expected);
    let theirs = "\u{feff}order=no, coins ,shop,kind\r\ng1,0,x,present\r\nb1,-4501,x,\"present\"\r\n\r\nz1,5,x,\r\n\
                  g1,0,x,present\r\n,5,x,\r\n";
    let answer = books
        .compare("app_id=a1&biz_no_column=order%3Dno&charge_change_column=coins&kind_column=", theirs)
        .await;
    let differs = json!([
        {"biz_no": "b1", "field": "charge_change", "here": "-4500", "there": "-4501"},
        {"biz_no": "b1", "field": "kind", "here": "exchange", "there": "present"},
        {"biz_no": "g1", "field": "lines", "here": "1", "there": "2"},
    ]);
    let mut expected = found(0, &["b1c"], &["z1"], &differs, 2);
    expected["compared_columns"] = json!(["biz_no", "charge_change", "kind"]);
    expected["ignored_columns"] = json!(["shop"]);
    expected["without_number"] = json!(1);
    assert_answer(&answer, 200, &expected);
    let query = "app_id=a1&by=ref&ref_column=number&amount_column=coins";
    let answer = books.compare(query, "number,coins\nr1,10001\ntake,12\n").await;
    let differs = json!([{"ref": "take", "field": "amount", "here": "11", "there": "12"}]);
    let ours = ["after", "before", "c1", "give", "i1", "i2", "p1", "p2"].map(|number| json!({"ref": number}));
    let mut expected = found(1, &[], &[], &differs, 1);
    expected["only_here_count"] = json!(8);
    expected["only_here"] = json!(ours);
    expected["compared_columns"] = json!(["ref", "amount"]);
    assert_answer(&answer, 200, &expected);
    assert_eq!(till.number("SELECT count(*) FROM operator_log").await, lines_before, "it only reads");
}

/// Rule 13.5.5: only what happened in the period is compared, by the clock of its zone.
#[tokio::test(flavor = "multi_thread")]
async fn a_period_is_compared_alone() {
    let (till, _, _) = three_months("compared-period").await;
    let books = Books::of(&till).await;
    let numbers = "biz_no\ng1\nb1\nz1\n";
    let mut of_others = found(0, &[], &["z1"], &json!([]), 0);
    of_others["of_other_periods"] = json!(2);
    let own = found(2, &["b1c"], &["z1"], &json!([]), 0);
    for (query, expected) in [
        ("month=2026-02", &of_others),
        ("day=2026-03-28", &of_others),
        ("day=2026-03-29", &own),
        ("month=2026-03&time_zone=europe/berlin", &own),
        // It is noon in London, and the next day there.
        ("day=2026-03-30&time_zone=Pacific/Kiritimati", &own),
        ("day=2026-03-29&time_zone=Pacific/Kiritimati", &of_others),
    ] {
        let answer = books.compare(&format!("app_id=a1&{query}"), numbers).await;
        assert_eq!((answer.status, &answer.json()), (200, expected), "{query}");
    }
}

/// Rule 13.5.7: a list ends after 1,000 members or 1 MiB, and the counts are of all.
#[tokio::test(flavor = "multi_thread")]
async fn lists_are_bounded_and_counts_are_not() {
    let (till, app, _) = till().await;
    till.player(&app, "o1", 0, 9000).await;
    thousands(&till).await;
    let books = Books::of(&till).await;
    let mut theirs = "biz_no,charge_change\n".to_owned();
    for number in 1..=1200 {
        writeln!(theirs, "x{number:},-2\ny{number:04},-1").unwrap();
    }
    for number in 1201..=2000 {
        writeln!(theirs, "x{number},-1\ny{number},-1").unwrap();
    }
    let found = books.compare("app_id=a1", theirs.clone()).await.json();
    let counts = ["matched", "only_here_count", "only_there_count", "differs_count", "complete", "ties"];
    let counts = counts.map(|name| found[name].clone());
    assert_eq!(counts, [json!(800), json!(3000), json!(2000), json!(1200), json!(false), json!(false)]);
    for (list, first, last) in
        [("only_here", "x2001", "x3000"), ("only_there", "y0001", "y1000"), ("differs", "x1", "x818")]
    {
        let list = found[list].as_array().unwrap();
        assert_eq!(
            (list.len(), &list[0]["biz_no"], &list[999]["biz_no"]),
            (1000, &json!(first), &json!(last))
        );
    }
    // Sixteen such names are not 1 MiB, and seventeen are.
    let long: String = (10..30).fold("biz_no,product_name\n".to_owned(), |mut lines, number| {
        writeln!(lines, "x{number},{}", "n".repeat(62_000)).unwrap();
        lines
    });
    let found = books.compare("app_id=a1", long).await.json();
    assert_eq!(found["differs"].as_array().unwrap().len(), 16);
    assert_eq!((&found["differs_count"], &found["complete"]), (&json!(20), &json!(false)));
}

/// Rules 13.5.6 and 13.5.9: what cannot be compared is refused in the words of the command, and its field is named.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_compared_is_refused() {
    let (till, ..) = till().await;
    let books = Books::of(&till).await;
    let long = format!("biz_no,kind\nb1,\"{}", "x\n".repeat(100_000));
    let number = format!("biz_no\n{}\n", "b".repeat(513));
    for (query, file, field, detail) in [
        ("", &b"order,kind\nb1,x\n"[..], "biz_no_column", "there is no column biz_no; there are order, kind"),
        ("", b"", "biz_no_column", "there is no column biz_no; there are none: the heading is empty"),
        (
            "&biz_no_column=order",
            b",,\n",
            "biz_no_column",
            "there is no column order; there are none: the heading is empty",
        ),
        (
            "&biz_no_column=order",
            b"biz_no,kind\n",
            "biz_no_column",
            "there is no column order; there are biz_no, kind",
        ),
        ("&by=ref", b"biz_no,kind\n", "ref_column", "there is no column ref; there are biz_no, kind"),
        ("&by=x", b"biz_no\n", "by", "expected biz_no or ref, got \"x\""),
        ("&at_column=when", b"biz_no,kind\n", "at_column", "there is no column when; there are biz_no, kind"),
        ("", b"biz_no,kind,kind\n", "body", "two columns are kind"),
        ("", b"biz_no,kind\nb1,exchange\n\nb2\n", "body", "line 4: expected 2 columns, got 1"),
        (
            "",
            b"biz_no,kind\nb1,exchange\nb2,\xff\n",
            "body",
            "line 3: expected UTF-8; in a spreadsheet, save it as CSV UTF-8",
        ),
        ("", b"biz_no,kind\nb1,\0\n", "body", "line 2: expected a text without zero bytes"),
        ("", number.as_bytes(), "body", "line 2: biz_no: expected at most 512 bytes"),
        (
            "",
            long.as_bytes(),
            "body",
            "line 2: expected at most 65536 bytes; is a quotation mark without its pair?",
        ),
        ("&month=2026-03&day=2026-03-01", b"biz_no\n", "month", "expected a month or a day, got both"),
        ("&month=2026-3", b"biz_no\n", "month", "expected a month such as 2026-10, got \"2026-3\""),
        (
            "&day=2011-12-30&time_zone=Pacific/Apia",
            b"biz_no\n",
            "day",
            "there is no 2011-12-30 in Pacific/Apia: its clocks skipped it",
        ),
        ("&time_zone=UTC", b"biz_no\n", "time_zone", "expected a month or a day beside it, got none"),
    ] {
        let answer = books.compare(&format!("app_id=a1{query}"), file).await;
        assert_problem(&answer, 422, "invalid-field", &format!("wrong: {field}"));
        assert_eq!(answer.json()["errors"], json!([{"field": field, "detail": detail}]));
    }
    let request = books.caller.request("POST", "/reports/reconcile?app_id=a1").body("biz_no\n");
    let answer = request.clone().send(till.operator_address).await;
    assert_problem(&answer, 415, "unsupported-media-type", "content-type: expected text/csv");
    let answer = request.header("content-type", "application/json").send(till.operator_address).await;
    assert_problem(&answer, 415, "unsupported-media-type", "content-type: expected text/csv");
    assert_problem(&books.compare("app_id=a9", "biz_no\n").await, 404, "not-found", "there is no app a9");
    // A body that ends early is not a shorter file.
    let cut = books.request("app_id=a1", "biz_no\nb1\n").bytes();
    let mut stream = TcpStream::connect(till.operator_address).await.unwrap();
    stream.write_all(&cut[..cut.len() - 1]).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received).await;
    assert!(!String::from_utf8_lossy(&received).starts_with("HTTP/1.1 200"), "{received:?}");
}

/// Rules 8.6.36 and 8.6.37: only who reads reports compares, and only their own apps.
#[tokio::test(flavor = "multi_thread")]
async fn another_app_and_another_role_are_refused() {
    let (till, ..) = till().await;
    till.app("b1").await;
    let rights = Rights { role: Role::Finance, apps: Apps::parse("b1").unwrap() };
    let of_b1 = Books { till: &till, caller: Caller::of(&till, "of-b1", rights).await };
    assert_problem(&of_b1.compare("app_id=a1", "biz_no\n").await, 404, "not-found", "there is no app a1");
    assert_answer(&of_b1.compare("app_id=b1", "biz_no\n").await, 200, &found(0, &[], &[], &json!([]), 0));
    let support = Books { till: &till, caller: Caller::new(&till, "support", Role::Support).await };
    let answer = support.compare("app_id=a1", "biz_no\n").await;
    let detail = "the API key support has the role support, which may not make this call";
    assert_problem(&answer, 403, "forbidden", detail);
}

/// Rule 13.5.10: a file is 256 MiB at most, and a process takes two of them at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn large_files_are_refused_and_slow_ones_give_up_their_place() {
    let (till, ..) = till().await;
    let books = Books::of(&till).await;
    let announced = |bytes: u32| {
        let request = String::from_utf8(books.request("app_id=a1", "").bytes()).unwrap();
        request.replace("content-length: 0", &format!("content-length: {bytes}"))
    };
    let send = async |text: &str| {
        let mut stream = TcpStream::connect(till.operator_address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    };
    let answer = async |mut stream: TcpStream| {
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.unwrap();
        Answer::parse(&received)
    };
    let larger = answer(send(&announced(256 * 1024 * 1024 + 1)).await).await;
    assert_problem(&larger, 413, "content-too-large", "body: expected at most 268435456 bytes");
    // One that is on its way: the server has asked for its body. It comes slowly, so the next one of the app has its place.
    let begun = async |bytes: u32| {
        let request = announced(bytes).replacen("\r\n", "\r\nexpect: 100-continue\r\n", 1);
        let (mut stream, mut answer) = (send(&request).await, [0; 25]);
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream
    };
    let mut quick = begun(10).await;
    quick.write_all(b"biz_no\nz1\n").await.unwrap();
    assert_eq!(answer(quick).await.json()["only_there_count"], 1);
    let slow = begun(10).await;
    assert_eq!(books.compare("app_id=a1", "biz_no\n").await.status, 200);
    let detail = "the database is away or too busy; nothing is known to be done";
    assert_problem(&answer(slow).await, 503, "unavailable", detail);
}

/// Rule 13.5.10: a second file of an app waits, and is refused when the first one takes long. Statements have permits of their
/// own.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_file_of_an_app_is_refused() {
    let till = TestTill::start_with(|config| config.database.acquire_timeout = Duration::from_secs(3)).await;
    let apps = [till.app("a1").await, till.app("a2").await];
    let books = Books::of(&till).await;
    let _permit = till.store.comparison_permit(&apps[0].id).await.unwrap();
    let refused = books.compare("app_id=a1", "biz_no\n").await;
    let detail = "the database is away or too busy; nothing is known to be done";
    assert_problem(&refused, 503, "unavailable", detail);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(books.compare("app_id=a2", "biz_no\n").await.status, 200);
    assert_eq!(books.caller.get("/reports/statement?app_id=a1&month=2026-03").await.status, 200);
}
