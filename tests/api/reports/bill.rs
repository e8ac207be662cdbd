//! `minitill report bill` (contract 13.4).

use std::fs;
use std::time::Duration;

use domain::console_user::Role;
use domain::rights::{Apps, Rights};
use minitill::config::Config;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Folder, three_months, till};
use crate::admin::Caller;
use crate::support::program::Program;
use crate::support::{Answer, TestTill, fresh_database, until};
use crate::workbook::{XLSX, sheet_lines, sheets};

const MARCH: [&str; 7] = ["report", "bill", "a1", "--month", "2026-03", "--time-zone", "Europe/Berlin"];

const BILL: &str = "\
at,open_id,seq,kind,biz_no,ref,free_change,charge_change,free_balance,charge_balance,zone_id,product_name
2026-02-28T23:00:00Z,o1,2,credit,,r1,1,10000,1001,12000,,
2026-03-29T12:00:00.5Z,o1,3,credit,,i1,20,100,1021,12100,,
2026-03-29T12:00:00.5Z,o1,4,credit,,p1,4000,7,5021,12107,,
2026-03-29T12:00:00.5Z,o1,5,credit,,p2,50000,0,55021,12107,,
2026-03-29T12:00:00.5Z,o1,6,present,g1,,7000000,0,7055021,12107,z1_r1,
2026-03-29T12:00:00.5Z,o1,7,exchange,b1,,0,-4500,7055021,7607,z1_r1,\"'=1+1;\"\"a\"\", b\n'c\"
2026-03-29T12:00:00.5Z,o1,8,cancel,b1c,,0,500,7055021,8107,z1_r1,
2026-03-29T12:00:00.5Z,o1,9,cancel,,give,0,30,7055021,8137,,
2026-03-29T12:00:00.5Z,o2,1,credit,,i2,300,0,300,0,,
2026-03-29T12:00:00.5Z,o3,1,credit,,c1,600000,3,600000,3,,
2026-03-31T21:59:59.999999Z,o1,10,debit,,take,-2,-9,7055019,8128,,
sum,,11,,,,7654319,6131,,,,
";

/// Rule 13.4.1 to 13.4.3: a line for each entry, in the order of time, and the sums.
#[tokio::test(flavor = "multi_thread")]
async fn a_bill_has_each_entry_and_the_sums() {
    let (_till, _, program) = three_months("bill").await;
    let printed = program.run(&MARCH);
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), BILL);
    assert!(printed.status.success() && printed.stderr.is_empty());
    let day = program.run(&["report", "bill", "a1", "--day", "2026-02-28"]);
    let one_day = "2026-02-28T22:59:59.999999Z,o1,1,credit,,before,1000,2000,1000,2000,,\n\
        2026-02-28T23:00:00Z,o1,2,credit,,r1,1,10000,1001,12000,,\nsum,,2,,,,1001,12000,,,,\n";
    let heading = BILL.split_inclusive('\n').next().unwrap();
    assert_eq!(String::from_utf8(day.stdout).unwrap(), format!("{heading}{one_day}"));
    let none = program.run(&["report", "bill", "a1", "--day", "2026-02-27"]);
    assert_eq!(String::from_utf8(none.stdout).unwrap(), format!("{heading}sum,,0,,,,0,0,,,,\n"));
}

/// The entries of March as a workbook of Berlin has them.
const ROWS: [&str; 11] = [
    "@2026-03-01 00:00:00\to1\t#2\tcredit\t\tr1\t#1\t#10000\t#1001\t#12000",
    "@2026-03-29 14:00:00\to1\t#3\tcredit\t\ti1\t#20\t#100\t#1021\t#12100",
    "@2026-03-29 14:00:00\to1\t#4\tcredit\t\tp1\t#4000\t#7\t#5021\t#12107",
    "@2026-03-29 14:00:00\to1\t#5\tcredit\t\tp2\t#50000\t#0\t#55021\t#12107",
    "@2026-03-29 14:00:00\to1\t#6\tpresent\tg1\t\t#7000000\t#0\t#7055021\t#12107\tz1_r1",
    "@2026-03-29 14:00:00\to1\t#7\texchange\tb1\t\t#0\t#-4500\t#7055021\t#7607\tz1_r1\t=1+1;\"a\", b\n'c",
    "@2026-03-29 14:00:00\to1\t#8\tcancel\tb1c\t\t#0\t#500\t#7055021\t#8107\tz1_r1",
    "@2026-03-29 14:00:00\to1\t#9\tcancel\t\tgive\t#0\t#30\t#7055021\t#8137",
    "@2026-03-29 14:00:00\to2\t#1\tcredit\t\ti2\t#300\t#0\t#300\t#0",
    "@2026-03-29 14:00:00\to3\t#1\tcredit\t\tc1\t#600000\t#3\t#600000\t#3",
    // The last second of the month stays in it.
    "@2026-03-31 23:59:59\to1\t#10\tdebit\t\ttake\t#-2\t#-9\t#7055019\t#8128",
];
const SUMS: [&str; 4] = [
    "@2026-03-01\t#1\t#1\t#10000\t#0\t#0\t#0\t#0\t#0\t#0",
    "@2026-03-29\t#9\t#7654320\t#-3860\t#1\t#0\t#4500\t#0\t#530\t#3970",
    "@2026-03-31\t#1\t#-2\t#-9\t#0\t#0\t#0\t#0\t#0\t#0",
    "Total\t#11\t#7654319\t#6131\t#1\t#0\t#4500\t#0\t#530\t#3970",
];

/// Rules 13.8.4 and 13.8.5: a workbook has text cells, times of its zone, and sums by day that are those of revenue.
#[tokio::test(flavor = "multi_thread")]
async fn a_bill_for_a_spreadsheet_is_a_workbook_of_its_time_zone() {
    let (_till, _, program) = three_months("excel").await;
    let folder = Folder::new("bill-excel");
    let file = folder.file("march.xlsx");
    let told = program.json(&[&MARCH[..], &["--excel", "--out", &file]].concat());
    assert_eq!(told, json!({"file": file, "entries": 11, "free_change": 7_654_319, "charge_change": 6131}));
    let book = fs::read(&file).unwrap();
    let sheets = sheets(&book);
    assert_eq!(sheets.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["Entries", "Sums"]);
    let headings = sheets.iter().map(|(_, rows)| rows[0].join("\t")).collect::<Vec<_>>();
    assert_eq!(
        headings,
        [
            "Time (Europe/Berlin)\tPlayer\tEntry\tKind\tOrder number\tRef\tGifted change\tCharged change\t\
             Gifted balance\tCharged balance\tZone and role\tItem",
            "Day (Europe/Berlin)\tEntries\tGifted change\tCharged change\tExchanges\tGifted coins taken\t\
             Charged coins taken\tGifted coins given back\tCharged coins given back\tNet",
        ]
    );
    assert_eq!(
        (sheet_lines(&book, "Entries"), sheet_lines(&book, "Sums")),
        (ROWS.map(str::to_owned).to_vec(), SUMS.map(str::to_owned).to_vec())
    );
    let revenue = ["report", "revenue", "a1", "--month", "2026-03", "--time-zone", "Europe/Berlin"];
    let rows = program.json(&revenue)["rows"].clone();
    let by_day = json!([{"day": "2026-03-29", "count": 1, "free_taken": 0, "charge_taken": 4500, "free_given_back": 0,
        "charge_given_back": 530, "net": 3970}]);
    assert_eq!(rows, by_day);
    let printed = program.run(&[&revenue[..], &["--format", "xlsx"]].concat()).stdout;
    assert_eq!(sheet_lines(&printed, "Revenue"), ["@2026-03-29\t#1\t#0\t#4500\t#0\t#530\t#3970"]);
    let total = "@2026-03-01 00:00:00\t@2026-04-01 00:00:00\t#1\t#0\t#4500\t#0\t#530\t#3970";
    assert_eq!(sheet_lines(&printed, "Sums"), [total]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing unfinished is left");
}

/// Rules 13.4.4, 13.8.1 and 13.8.2: the formats of a bill, and the spans that it may be of.
#[tokio::test(flavor = "multi_thread")]
async fn a_bill_has_four_formats() {
    let (_till, _, program) = three_months("formats").await;
    let last = ["report", "bill", "a1", "--since", "2026-04-01", "--time-zone", "Europe/Berlin"];
    let printed = |more: &[&str]| String::from_utf8(program.run(&[&last[..], more].concat()).stdout).unwrap();
    let entry = r#"{"at":"2026-03-31T22:00:00Z","open_id":"o1","seq":11,"kind":"credit","biz_no":null,"ref":"after","free_change":5,"charge_change":5,"free_balance":7055024,"charge_balance":8133,"zone_id":null,"product_name":null}"#;
    assert_eq!(printed(&["--format", "jsonl"]), format!("{entry}\n"));
    let object =
        format!("{{\"app_id\":\"a1\",\"entries\":[{entry}],\"free_change\":5,\"charge_change\":5}}\n");
    assert_eq!((printed(&["--json"]), printed(&["--format", "json"])), (object.clone(), object));
    assert_eq!(
        printed(&["--format", "table"]),
        "at\topen_id\tseq\tkind\tbiz_no\tref\tfree_change\tcharge_change\tfree_balance\tcharge_balance\tzone_id\tproduct_name\n\
         2026-03-31T22:00:00Z\to1\t11\tcredit\t\tafter\t5\t5\t7055024\t8133\t\t\nsum\t\t1\t\t\t\t5\t5\t\t\t\t\n"
    );
    let march = ["--since", "2026-03-01", "--until", "2026-04-01", "--time-zone", "Europe/Berlin"];
    let printed = program.run(&[&["report", "bill", "a1"], &march[..]].concat());
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), BILL);
}

/// Rule 13.4.6: an archive changes no byte of a bill.
#[tokio::test(flavor = "multi_thread")]
async fn a_bill_of_an_archived_period_is_the_same() {
    let (till, _, program) = three_months("bill-archive").await;
    till.execute(crate::audit::REHASH).await;
    till.execute("DELETE FROM wallet_outbox").await;
    till.execute(
        "SELECT rehash(wallet_no, max(seq)) FROM ledger_entries WHERE seq IS NOT NULL GROUP BY wallet_no",
    )
    .await;
    let folder = Folder::new("bill-archived");
    program.json(&["archive", "--before", "2026-03-01", "--to", folder.path()]);
    program.json(&["archive", "--before", "2026-03-31T21:00", "--to", folder.path()]);
    assert_eq!(till.number("SELECT count(*) FROM archived_entries").await, 11);
    assert_eq!(String::from_utf8(program.run(&MARCH).stdout).unwrap(), BILL);
}

/// Rule 13.4.6: balances of archived entries are sums of the wallets that the bill names. The view reads no other wallet.
#[tokio::test(flavor = "multi_thread")]
async fn a_bill_sums_the_archived_entries_of_its_wallets_alone() {
    let till = TestTill::start().await;
    let plan: Vec<String> = sqlx::query_scalar(
        "EXPLAIN (COSTS OFF) SELECT free_balance FROM bill_lines
         WHERE app_no = 1 AND at >= now() AND (NOT is_archived OR wallet_no = ANY ('{7,8}'))",
    )
    .fetch_all(&till.sql)
    .await
    .unwrap();
    let plan = plan.join("\n");
    let (_, read) = plan.split_once("WindowAgg").expect("the view makes sums");
    assert!(read.contains("wallet_no = ANY"), "{plan}");
}

/// Rule 8.1: what cannot be written is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_bill_that_cannot_be_written_is_refused() {
    let program = Program::on(&fresh_database().await.url);
    let folder = Folder::new("bill-refused");
    let asked = ["report", "bill", "a9", "--day", "2026-03-01"];
    let unknown = "minitill: there is no app a9; to list all apps, run `minitill app list`\n";
    assert_eq!(program.complaint(&asked), unknown);
    assert_eq!(program.complaint(&[&asked[..], &["--out", &folder.file("x.csv")]].concat()), unknown);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    program.json(&["app", "create", "a9"]);
    let json = "{\"error\":\"a workbook is no JSON: with --json, write it with --out FILE\"}\n";
    assert_eq!(program.complaint(&[&asked[..], &["--excel", "--json"]].concat()), json);
    let skipped = ["report", "bill", "a9", "--day", "2011-12-30", "--time-zone", "Pacific/Apia"];
    let words = "minitill: --day: there is no 2011-12-30 in Pacific/Apia: its clocks skipped it\n";
    assert_eq!(program.complaint(&skipped), words);
    let output = program.run(&["report", "bill", "a1"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && told.contains("--day"), "{told}");
    let nowhere = folder.file("no/x.csv");
    let told = format!("minitill: {nowhere}: No such file or directory (os error 2)\n");
    assert_eq!(program.complaint(&[&asked[..], &["--out", &nowhere]].concat()), told);
    let full = program.complaint(&[&asked[..], &["--out", folder.path()]].concat());
    assert_eq!(full, format!("minitill: {}: Is a directory (os error 21)\n", folder.path()));
}

/// What comes with a bill over HTTP.
fn headers(answer: &Answer) -> [Option<&str>; 2] {
    ["content-type", "content-disposition"].map(|name| answer.header(name))
}

fn named(name: &str) -> [Option<&str>; 2] {
    [Some("text/csv; charset=utf-8"), Some(name)]
}

/// Rule 13.4.7: the admin API and the console give the bytes of the command, as a file with a name.
#[tokio::test(flavor = "multi_thread")]
async fn a_bill_has_the_same_bytes_everywhere() {
    let (till, _, program) = three_months("faces").await;
    let caller = Caller::new(&till, "books", Role::Finance).await;
    for (query, arguments, name) in [
        (
            "month=2026-03&time_zone=europe/berlin",
            &MARCH[3..],
            "attachment; filename=\"bill-a1-2026-03.csv\"",
        ),
        (
            "day=2026-02-28&excel=false",
            &["--day", "2026-02-28"],
            "attachment; filename=\"bill-a1-2026-02-28.csv\"",
        ),
    ] {
        let printed = program.run(&[&["report", "bill", "a1"], arguments].concat());
        let answer = caller.get(&format!("/reports/bill?app_id=a1&{query}")).await;
        assert_eq!((answer.status, headers(&answer)), (200, named(name)), "{query}");
        assert_eq!(answer.whole().into_bytes(), printed.stdout, "{query}");
    }
    let march = caller.get("/reports/bill?app_id=a1&month=2026-03&time_zone=Europe/Berlin").await;
    assert_eq!(march.whole(), BILL);
    let workbook = |name| [Some(XLSX), Some(name)];
    let name = "attachment; filename=\"bill-a1-2026-03.xlsx\"";
    for query in ["format=xlsx", "excel=true", "format=xlsx&excel=false"] {
        let query = format!("/reports/bill?app_id=a1&month=2026-03&time_zone=Europe/Berlin&{query}");
        let answer = caller.get(&query).await;
        assert_eq!((answer.status, headers(&answer)), (200, workbook(name)), "{query}");
        assert_eq!(sheet_lines(&answer.complete_bytes().unwrap(), "Entries"), ROWS, "{query}");
    }
    // Times of the console are in UTC here.
    let browser = till.browser(Role::Finance).await;
    let printed = program.run(&["report", "bill", "a1", "--month", "2026-03"]);
    let answer = browser.get("/console/reports/bill.csv?app_id=a1&month=2026-03").await;
    let csv = "attachment; filename=\"bill-a1-2026-03.csv\"";
    assert_eq!((answer.status, headers(&answer)), (200, named(csv)));
    assert_eq!(answer.whole().into_bytes(), printed.stdout);
    let answer = browser.get("/console/reports/bill.xlsx?app_id=a1&month=2026-03&day=2026-02-28").await;
    let name = "attachment; filename=\"bill-a1-2026-02-28.xlsx\"";
    assert_eq!((answer.status, headers(&answer)), (200, workbook(name)));
    let day = sheet_lines(&answer.complete_bytes().unwrap(), "Sums");
    assert_eq!(day[0], "@2026-02-28\t#2\t#1001\t#12000\t#0\t#0\t#0\t#0\t#0\t#0");
}

/// Rule 13.4.7: what cannot be asked is refused, and nobody reads the bill of another app.
#[tokio::test(flavor = "multi_thread")]
async fn a_bill_that_cannot_be_asked_is_refused() {
    let (till, _, _) = three_months("unasked").await;
    till.app("a2").await;
    let caller = Caller::new(&till, "books", Role::Finance).await;
    for (query, field, detail) in [
        ("app_id=a1", "month", "expected a month or a day, got none"),
        ("app_id=a1&month=2026-03&day=2026-03-01", "month", "expected a month or a day, got both"),
        ("app_id=a1&day=2026-02-29", "day", "expected a day such as 2026-10-31, got \"2026-02-29\""),
        (
            "app_id=a1&month=2026-03&time_zone=Mars",
            "time_zone",
            "expected the IANA name of a time zone, such as UTC or Asia/Shanghai, got \"Mars\"",
        ),
        (
            "app_id=a1&day=2011-12-30&time_zone=Pacific/Apia",
            "day",
            "there is no 2011-12-30 in Pacific/Apia: its clocks skipped it",
        ),
        ("app_id=a1&month=2026-03&excel=yes", "excel", "expected true or false, got \"yes\""),
        ("month=2026-03", "app_id", "is missing"),
    ] {
        let answer = caller.get(&format!("/reports/bill?{query}")).await;
        let errors = json!([{"field": field, "detail": detail}]);
        assert_eq!((answer.status, &answer.json()["errors"]), (422, &errors), "{query}");
    }
    let unknown = caller.get("/reports/bill?app_id=a9&month=2026-03").await;
    assert_eq!((unknown.status, &unknown.json()["detail"]), (404, &json!("there is no app a9")));
    let other = Rights { role: Role::Finance, apps: Apps::parse("a2").unwrap() };
    let caller = Caller::of(&till, "other", other.clone()).await;
    let hidden = caller.get("/reports/bill?app_id=a1&month=2026-03").await;
    assert_eq!((hidden.status, &hidden.json()["detail"]), (404, &json!("there is no app a1")));
    let viewer = Caller::new(&till, "viewer", Role::Viewer).await;
    assert_eq!(viewer.get("/reports/bill?app_id=a1&month=2026-03").await.status, 403);
    let path = "/console/reports/bill.csv?app_id=a1&month=2026-03";
    let browser = till.browser_of(other).await;
    let hidden = browser.get(path).await;
    assert!(hidden.status == 404 && hidden.body.contains("There is no app a1."), "{}", hidden.body);
    assert_eq!(till.browser(Role::Viewer).await.get(path).await.status, 403);
    let browser = till.browser(Role::Finance).await;
    for (query, status) in [
        ("app_id=a1", 400),
        ("app_id=a1&month=x", 400),
        ("app_id=a1&day=2026-02-29", 400),
        ("month=2026-03", 400),
        ("app_id=a9&month=2026-03", 404),
    ] {
        assert_eq!(
            browser.get(&format!("/console/reports/bill.csv?{query}")).await.status,
            status,
            "{query}"
        );
    }
}

/// Adds entries of a day, more than lie on the way to a reader who does not read: 15 MB of CSV.
async fn add_many(till: &TestTill) {
    till.execute(
        "INSERT INTO ledger_entries (app_no, wallet_no, seq, kind, reference, free_change, charge_change,
             free_balance, charge_balance, chain_hash, at)
         SELECT app_no, wallet_no, g, 'exchange', 'n' || g, 0, 0, 10, 0, sha256(''), '2026-03-01T00:00:00Z'
         FROM players, generate_series(2, 200000) g",
    )
    .await;
}

const MANY: &str = "/reports/bill?app_id=a1&day=2026-03-01";

/// A caller who has asked for the bill, and has read where it begins.
async fn begin(caller: &Caller<'_>, till: &TestTill) -> TcpStream {
    begin_of(caller, till, "a1").await
}

/// The same of another app.
async fn begin_of(caller: &Caller<'_>, till: &TestTill, app: &str) -> TcpStream {
    let mut stream = TcpStream::connect(till.operator_address).await.unwrap();
    let path = MANY.replace("a1", app);
    stream.write_all(&caller.request("GET", &path).bytes()).await.unwrap();
    let mut head = [0; 15];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    stream
}

/// A till that waits so long for its readers, with more places for a key than bills at once.
async fn slow_readers(write_timeout: Duration) -> TestTill {
    let slow = |config: &mut Config| {
        config.http.write_timeout = write_timeout;
        config.database.connections = 16;
    };
    TestTill::start_with(slow).await
}

/// Rule 13.3.8: readers who read no further lose their places to those who wait, of their own app or of another. Their files
/// have no end.
#[tokio::test(flavor = "multi_thread")]
async fn slow_readers_of_bills_give_up_their_places() {
    let till = slow_readers(Duration::from_hours(1)).await;
    for (app, player) in [("a1", "o1"), ("a2", "o2"), ("a3", "o3")] {
        till.player(&till.app(app).await, player, 10, 0).await;
    }
    add_many(&till).await;
    let caller = Caller::admin(&till).await;
    let first = begin_of(&caller, &till, "a1").await;
    let second = begin_of(&caller, &till, "a2").await;
    let whole = |answer: Answer| answer.whole().ends_with("\nsum,,199999,,,,0,0,,,,\n");
    assert!(whole(caller.get("/reports/bill?app_id=a3&day=2026-03-01").await), "another app has a place");
    assert!(whole(caller.get(MANY).await), "the app itself has its place again");
    let mut ended = 0;
    for mut slow in [first, second] {
        let mut bytes = Vec::new();
        let is_cut = slow.read_to_end(&mut bytes).await.is_err() || !bytes.ends_with(b"0\r\n\r\n");
        ended += u32::from(is_cut);
    }
    assert!(ended >= 1);
}

/// Rule 13.3.8: who does not read a bill is dropped, and makes room.
#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_read_a_bill_makes_room() {
    let till = slow_readers(Duration::from_secs(4)).await;
    till.player(&till.app("a1").await, "o1", 10, 0).await;
    add_many(&till).await;
    let caller = Caller::admin(&till).await;
    let _first = begin(&caller, &till).await;
    let _second = begin(&caller, &till).await;
    let mut answer = caller.get(MANY).await;
    until("there is room", async || {
        if answer.status == 503 {
            answer = caller.get(MANY).await;
        }
        answer.status != 503
    })
    .await;
    let bill = answer.whole();
    assert_eq!(bill.lines().count(), 200_001);
    assert!(bill.ends_with("\nsum,,199999,,,,0,0,,,,\n"));
}

/// Rule 13.4.7: a bill that fails on the way is cut off.
#[tokio::test(flavor = "multi_thread")]
async fn a_bill_that_fails_has_no_end() {
    let (till, app, _) = till().await;
    till.player(&app, "o1", 10, 0).await;
    add_many(&till).await;
    let caller = Caller::admin(&till).await;
    let mut stream = begin(&caller, &till).await;
    let ended = till
        .number(
            "WITH making AS MATERIALIZED (SELECT pid FROM pg_stat_activity WHERE datname = current_database()
                 AND query LIKE '%FROM bill_lines%' AND pid <> pg_backend_pid())
             SELECT count(pg_terminate_backend(pid)) FROM making",
        )
        .await;
    assert_eq!(ended, 1);
    let mut rest = Vec::new();
    // The end may be a reset.
    let _ = stream.read_to_end(&mut rest).await;
    let answer = Answer::parse(&[b"HTTP/1.1 200 OK", rest.as_slice()].concat());
    assert!(
        answer.bytes.len() > 64 * 1024 && !answer.body.contains("\nsum,"),
        "{} bytes",
        answer.bytes.len()
    );
    assert!(answer.complete().is_none(), "the last chunk has come");
}

/// Rule 13.4.7: what fails before the first piece is told by a status.
#[tokio::test(flavor = "multi_thread")]
async fn a_bill_that_does_not_begin_is_a_fault() {
    let (till, _, program) = till().await;
    till.execute("ALTER VIEW bill_lines RENAME TO gone").await;
    let answer = Caller::admin(&till).await.get(MANY).await;
    assert_eq!((answer.status, &answer.json()["status"]), (500, &Value::from(500)));
    let complaint = program.complaint(&["report", "bill", "a1", "--day", "2026-03-01"]);
    assert!(complaint.contains("bill_lines"), "{complaint}");
}
