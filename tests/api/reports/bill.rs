//! `minitill report bill` (contract 13.4).

use std::fs;

use serde_json::json;

use super::{Folder, three_months};
use crate::support::fresh_database;
use crate::support::program::Program;

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

/// Rule 13.4.4: a spreadsheet gets a byte-order mark and times that it reads.
#[tokio::test(flavor = "multi_thread")]
async fn a_bill_for_a_spreadsheet_has_a_mark_and_plain_times() {
    let (_till, _, program) = three_months("excel").await;
    let folder = Folder::new("bill-excel");
    let file = folder.file("march.csv");
    let told = program.json(&[&MARCH[..], &["--excel", "--out", &file]].concat());
    assert_eq!(told, json!({"file": file, "entries": 11, "free_change": 7_654_319, "charge_change": 6131}));
    let plain = BILL
        .replace("T23:00:00Z", " 23:00:00")
        .replace("T12:00:00.5Z", " 12:00:00")
        .replace("T21:59:59.999999Z", " 21:59:59");
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("\u{feff}{plain}"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing unfinished is left");
}

/// Rule 13.4.5: an archive changes no byte of a bill.
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
    let json = "{\"error\":\"the bill is CSV: with --json, write it with --out FILE\"}\n";
    assert_eq!(program.complaint(&[&asked[..], &["--json"]].concat()), json);
    let nowhere = folder.file("no/x.csv");
    let told = format!("minitill: {nowhere}: No such file or directory (os error 2)\n");
    assert_eq!(program.complaint(&[&asked[..], &["--out", &nowhere]].concat()), told);
    let full = program.complaint(&[&asked[..], &["--out", folder.path()]].concat());
    assert_eq!(full, format!("minitill: {}: Is a directory (os error 21)\n", folder.path()));
}
