//! `minitill reconcile` (contract 13.5).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Folder, date, play, three_months, till};
use crate::admin::Caller;
use crate::game::Game;
use crate::support::TestTill;
use crate::support::program::Program;
use crate::topups::{app, order, payment, tell};
use crate::workbook::sheets;

fn bill(program: &Program, more: &[&str]) -> String {
    let output = program.run(&[&["report", "bill", "a1"], more].concat());
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// What it finds, with the exit code that fits, and what it says besides.
fn reconcile(program: &Program, arguments: &[&str]) -> (Value, String) {
    let output = program.run(&[&["reconcile", "a1"], arguments, &["--json"]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    let lists = ["only_here", "only_there", "differs"].map(|name| found[name].as_array().unwrap().len());
    let expected = i32::from(lists.iter().any(|length| *length > 0));
    assert_eq!(output.status.code(), Some(expected), "{found}");
    (found, said)
}

/// The first sheet of a workbook as spreadsheets save it: texts as they are, times as they are shown.
fn saved(book: &[u8]) -> String {
    let (_, rows) = sheets(book).swap_remove(0);
    let mut csv = csv::WriterBuilder::new().from_writer("\u{feff}".as_bytes().to_vec());
    for mut row in rows {
        row.resize(12, String::new());
        csv.write_record(row.iter().map(|cell| cell.trim_start_matches(['#']))).unwrap();
    }
    String::from_utf8(csv.into_inner().unwrap()).unwrap().replace("\n@2", "\n2")
}

/// The headings of a workbook of the Chinese console.
const CHINESE: &str = "时间 (Europe/Berlin),玩家,流水,种类,订单号,凭证号,赠送币变动,充值币变动,赠送币余额,充值币余额,区服与角色,道具";

fn same(matched: u32) -> Value {
    json!({"matched": matched, "only_here": [], "only_there": [], "differs": []})
}

/// Rule 13.5.1: our own bill has no difference, for programs and for spreadsheets, archived or not.
#[tokio::test(flavor = "multi_thread")]
async fn our_own_bill_has_no_difference() {
    let (till, app, program) = three_months("round-trip").await;
    let names = [
        "@SUM(A1)",
        "-1",
        "+1;=2",
        "\t=1",
        "\r=1",
        "'=1",
        "a\\N\\t",
        "\u{5e01}\u{1f4b0}",
        " blank ",
        "=\"x\"\r\n",
    ];
    for (place, name) in names.into_iter().enumerate() {
        play(&till, Game::new(&app, "o1", &format!("q{place}"), 1).with("product_name", name)).await;
        date(&till, &format!("q{place}"), "2026-03-10T00:00:00.000120Z").await;
    }
    let folder = Folder::new("reconcile-own");
    let march = ["--month", "2026-03", "--time-zone", "Europe/Berlin"];
    let own = folder.write("own.csv", bill(&program, &march));
    let excel = saved(&program.run(&[&["report", "bill", "a1", "--excel"], &march[..]].concat()).stdout);
    let chinese = excel.replacen(&excel[..excel.find('\n').unwrap()], CHINESE, 1);
    let (excel, chinese) = (folder.write("excel.csv", excel), folder.write("chinese.csv", chinese));
    let windows =
        folder.write("windows.csv", bill(&program, &march).replace("Z,o", "Z , o").replace(" , o", ",o"));
    // A workbook has its sums on another sheet.
    for (file, without) in [(&own, 9), (&excel, 8), (&chinese, 8), (&windows, 9)] {
        let (found, said) = reconcile(&program, &[&[file.as_str()], &march[..]].concat());
        assert_eq!(found, same(13));
        assert_eq!(said, format!("minitill: {without} lines without a biz_no are not compared\n"));
        // All exchanges, presents and games' cancels are in March.
        assert_eq!(reconcile(&program, &[file]).0, same(13));
    }
    let people = program.run(&["reconcile", "a1", &own]);
    let printed = String::from_utf8(people.stdout).unwrap();
    assert_eq!(printed, "13 matched, 0 only here, 0 only there, 0 differ\n");
    till.execute(crate::audit::REHASH).await;
    till.execute("DELETE FROM wallet_outbox").await;
    till.execute(
        "SELECT rehash(wallet_no, max(seq)) FROM ledger_entries WHERE seq IS NOT NULL GROUP BY wallet_no",
    )
    .await;
    program.json(&["archive", "--before", "2026-03-31T21:00", "--to", folder.path()]);
    assert_eq!(reconcile(&program, &[&own]).0, same(13));
}

/// Rules 13.5.1 and 13.5.2: by ref, what operators did is compared, and `amount` has no sign.
#[tokio::test(flavor = "multi_thread")]
async fn credits_and_debits_are_compared_by_ref() {
    let (till, _, program) = three_months("by-ref").await;
    let folder = Folder::new("reconcile-by-ref");
    let amounts = folder.write("amounts.csv", "biz_no,amount\ng1,7000000\nb1,4500\nb1c,500\n");
    assert_eq!(reconcile(&program, &[&amounts]).0, same(3));
    let theirs = "number,coins,biz_no\nbefore,3000,b1\nr1,10001,\ni1,120,\ni2,300,\np1,4007,\np2,50000,\nc1,600003,\n\
                  give,30,\ntake,12,\nzz,5,\n,7,\n";
    let theirs = folder.write("theirs.csv", theirs);
    let by_ref = [theirs.as_str(), "--by", "ref", "--map", "number=ref", "--map", "coins=amount"];
    let (found, said) = reconcile(&program, &by_ref);
    let wanted = json!({
        "matched": 8, "only_here": [{"ref": "after"}], "only_there": [{"ref": "zz"}],
        "differs": [{"ref": "take", "field": "amount", "here": "11", "there": "12"}],
    });
    assert_eq!(found, wanted);
    assert_eq!(said, "minitill: 1 lines without a ref are not compared\n");
    let printed = program.run(&[&["reconcile", "a1"], &by_ref[..]].concat()).stdout;
    let lines = "only here\tafter\nonly there\tzz\ndiffers\ttake\tamount\t11\t12\n\
                 8 matched, 1 only here, 1 only there, 1 differ\n";
    assert_eq!(String::from_utf8(printed).unwrap(), lines);
    // Our own bill has no difference, though a ref looks like a formula there.
    program.json(&["wallet", "credit", "a1", "o1", "--free", "1", "--ref", "=x;-y"]);
    date(&till, "!=x;-y", "2026-03-10T00:00:00Z").await;
    let march = ["--month", "2026-03", "--time-zone", "Europe/Berlin"];
    let own = bill(&program, &march);
    assert!(own.contains("'=x;'-y"), "{own}");
    let own = folder.write("own.csv", own);
    let (found, said) = reconcile(&program, &[&[own.as_str(), "--by", "ref"], &march[..]].concat());
    assert_eq!(found, same(9));
    assert_eq!(said, "minitill: 4 lines without a ref are not compared\n");
    let none = program.complaint(&["reconcile", "a1", &amounts, "--by", "ref"]);
    let expected = "there is no column ref; name it with --map NAME=ref; there are biz_no, amount\n";
    assert_eq!(none, format!("minitill: {amounts}: {expected}"));
}

/// Rules 8.3.8, 13.4.1 and 13.5.1: the bill has the payment of a top-up, a refund and a settlement under `ref`. It has
/// no difference from itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_bill_with_payments_has_no_difference_from_itself() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let program = Program::on(&till.database_url);
    let admin = Caller::admin(&till).await;
    order(&till, &app, "t1").await;
    assert_eq!(tell(&admin, &payment("pi_1", "t1")).await.status, 200);
    play(&till, Game::new(&app, "o1", "b1", 206)).await;
    let refund = json!({"refund_id": "re_1", "amount": 600, "reason": "r", "shortfall": "record"});
    let refunded = admin.send("POST", "/apps/a1/topups/stripe/pi_1/refunds", None, &refund).await;
    assert_eq!(refunded.status, 200, "{}", refunded.body);
    order(&till, &app, "t2").await;
    assert_eq!(tell(&admin, &payment("pi_2", "t2")).await.status, 200);
    program.json(&["wallet", "credit", "a1", "o1", "--free", "1", "--ref", "gift1"]);

    till.execute("UPDATE ledger_entries SET at = '2026-03-10T00:00:00Z'").await;
    let own = bill(&program, &["--month", "2026-03"]);
    let mut lines = csv::Reader::from_reader(own.as_bytes());
    let lines = lines.records().map(Result::unwrap).filter(|line| &line[1] == "o1");
    let shown: Vec<[String; 3]> = lines.map(|line| [3, 4, 5].map(|place| line[place].to_owned())).collect();
    let expected = [
        ["topup", "", "stripe/pi_1"],
        ["exchange", "b1", ""],
        ["refund", "", "stripe/pi_1/re_1"],
        ["topup", "", "stripe/pi_2"],
        ["settlement", "", "stripe/pi_2"],
        ["credit", "", "gift1"],
    ];
    // The first credit is that of the player's first coins.
    assert_eq!(shown[1..], expected.map(|line| line.map(str::to_owned)));
    let folder = Folder::new("reconcile-payments");
    let own = folder.write("own.csv", own);
    assert_eq!(reconcile(&program, &[&own]).0, same(1));
    assert_eq!(reconcile(&program, &[&own, "--by", "ref"]).0, same(6));
    // Without the kinds, refs are those of operators.
    let credits = folder.write("credits.csv", "ref;amount\ngift1;2\n");
    let found = reconcile(&program, &[&credits, "--by", "ref"]).0;
    let differs = json!([{"ref": "gift1", "field": "amount", "here": "1", "there": "2"}]);
    assert_eq!((&found["differs"], &found["only_there"]), (&differs, &json!([])));
}

/// Rules 8.3.14 and 13.5.6: semicolons or tabs may separate the cells. What stands before the heading does not count, and a
/// heading in another encoding is refused.
#[tokio::test(flavor = "multi_thread")]
async fn the_heading_tells_what_separates_the_cells() {
    let (_till, _, program) = three_months("separators").await;
    let folder = Folder::new("reconcile-separators");
    for text in [
        "biz_no;amount\ng1;7000000\nb1;4500\nb1c;500\n",
        "biz_no\tamount\ng1\t7000000\nb1\t4500\nb1c\t500\n",
        "\u{feff}sep=;\r\nbiz_no;amount\r\ng1;7000000\r\nb1;4500\r\nb1c;500\r\n",
        "\u{feff}#bill\n\n# of: a, b, c\nbiz_no;amount\ng1;7000000\nb1;4500\nb1c;500\n#end\n#3, 4\n",
        "#;biz_no;amount\n1;g1;7000000\n2;b1;=\"4500\"\n3;b1c;500.00\n",
    ] {
        assert_eq!(reconcile(&program, &[&folder.write("theirs.csv", text)]).0, same(3), "{text}");
    }
    let gbk = folder.write("gbk.csv", b"\xb6\xa9\xb5\xa5,amount\nb1,4500\n");
    let complaint = program.complaint(&["reconcile", "a1", &gbk, "--map", "\u{8ba2}\u{5355}=biz_no"]);
    assert_eq!(
        complaint,
        format!("minitill: {gbk}: expected UTF-8 text; in a spreadsheet, save it as CSV UTF-8\n")
    );
}

/// Thousands of exchanges of one player, each a line of the bill.
pub(super) async fn thousands(till: &TestTill) {
    till.execute(
        "INSERT INTO items (app_no, item_id, product_name, product_info, product_desc)
         SELECT app_no, sha256('=1'), '=1;\"a\", b', '[]', '' FROM apps;
         INSERT INTO ledger_entries (app_no, wallet_no, seq, kind, reference, free_change, charge_change, free_balance,
             charge_balance, chain_hash, at, item_id, zone_id)
         SELECT app_no, wallet_no, 1 + n, 'exchange', 'x' || n, 0, -1, 0, 9000 - n, sha256(''),
             timestamptz '2026-03-05 00:00:00Z' + n * interval '1.000001 s', sha256('=1'), '1_1'
         FROM wallets CROSS JOIN generate_series(1, 5000) n;
         UPDATE wallets SET charge_balance = 4000, entry_count = 5001",
    )
    .await;
}

/// Rule 13.5.2: a hundred seeded differences of each kind are named, and no other.
#[tokio::test(flavor = "multi_thread")]
async fn every_seeded_difference_is_named_and_no_other() {
    let (till, app, program) = till().await;
    till.player(&app, "o1", 0, 9000).await;
    thousands(&till).await;
    let own = bill(&program, &["--month", "2026-03"]);
    let (mut theirs, mut expected) = (String::new(), Vec::new());
    let (mut here_alone, mut only_there) = (BTreeSet::new(), BTreeSet::new());
    for line in own.lines() {
        let number = line.split(',').nth(4).and_then(|number| number.strip_prefix('x'));
        let number: u32 = number.and_then(|number| number.parse().ok()).unwrap_or_default();
        let changed = match number % 50 {
            7 => {
                here_alone.insert(format!("x{number}"));
                continue;
            }
            11 => {
                only_there.insert(format!("y{number}"));
                writeln!(theirs, "{}", line.replace(&format!(",x{number},"), &format!(",y{number},")))
                    .unwrap();
                line.to_owned()
            }
            13 => {
                expected.push((number, "charge_change", "-1".to_owned(), "-2".to_owned()));
                line.replace(",0,-1,", ",0,-2,")
            }
            17 => {
                expected.push((number, "product_name", "=1;\"a\", b".to_owned(), "'=2;\"a\", b".to_owned()));
                line.replace("'=1", "'=2")
            }
            19 => {
                let at = line.split(',').next().unwrap();
                let there = at.replace("2026-03-05", "2026-03-06");
                expected.push((number, "at", at.to_owned(), there.clone()));
                line.replace(at, &there)
            }
            _ => line.to_owned(),
        };
        writeln!(theirs, "{changed}").unwrap();
    }
    assert_eq!((here_alone.len(), only_there.len(), expected.len()), (100, 100, 300));
    let folder = Folder::new("reconcile-seeded");
    let file = folder.write("their.csv", theirs);
    let numbers = |numbers: &BTreeSet<String>| -> Value {
        numbers.iter().map(|biz_no| json!({"biz_no": biz_no})).collect()
    };
    expected.sort_by_key(|(number, ..)| format!("x{number}"));
    let differs: Value = expected
        .iter()
        .map(|(number, field, here, there)| {
            json!({"biz_no": format!("x{number}"), "field": field, "here": here, "there": there})
        })
        .collect();
    let wanted = json!({
        "matched": 4600, "only_here": numbers(&here_alone), "only_there": numbers(&only_there), "differs": differs,
    });
    assert_eq!(reconcile(&program, &[&file]).0, wanted);
    assert_eq!(reconcile(&program, &[&file, "--month", "2026-03"]).0, wanted);
}

/// Rule 13.5.3 to 13.5.5: their names, a part of the columns, numbers that are there twice, other periods.
#[tokio::test(flavor = "multi_thread")]
async fn their_names_are_mapped_and_what_is_there_twice_differs() {
    let (_till, _, program) = three_months("mapped").await;
    let folder = Folder::new("reconcile-mapped");
    let lines = "\u{feff}\"order=no\", player ,coins,kind,note\r\n g1 ,o1,+7000000,present,\"a, \"\"b\"\"\"\r\n\
        b1,o2,0,exchange,\r\nb1c,o1,0,cancel,\r\n\r\nb1c,o9,0,cancel,\r\n,o1,5,credit,\r\n";
    let file = folder.write("their.csv", lines);
    let map = ["--map", "order=no=biz_no", "--map", "player=open_id", "--map", "coins=free_change"];
    let (found, said) = reconcile(&program, &[&[file.as_str()], &map[..]].concat());
    let expected = json!({
        "matched": 1, "only_here": [], "only_there": [],
        "differs": [
            {"biz_no": "b1", "field": "open_id", "here": "o1", "there": "o2"},
            {"biz_no": "b1c", "field": "lines", "here": "1", "there": "2"},
        ],
    });
    assert_eq!(found, expected);
    let words = "minitill: columns that are not here are ignored: note\n\
        minitill: 1 lines without a biz_no are not compared\n";
    assert_eq!(said, words);
    let people = program.run(&[&["reconcile", "a1", &file], &map[..]].concat());
    let printed = "differs\tb1\topen_id\to1\to2\ndiffers\tb1c\tlines\t1\t2\n\
        1 matched, 0 only here, 0 only there, 2 differ\n";
    assert_eq!(
        (people.status.code(), String::from_utf8(people.stdout).unwrap().as_str()),
        (Some(1), printed)
    );
    // All of them are of the 29th here.
    let numbers = folder.write("numbers.csv", "biz_no\ng1\nb1\nz1\n");
    let (found, said) = reconcile(&program, &[&numbers, "--day", "2026-03-28"]);
    assert_eq!(
        found,
        json!({"matched": 0, "only_here": [], "only_there": [{"biz_no": "z1"}], "differs": []})
    );
    assert_eq!(said, "minitill: not compared, because they are of another period here: 2\n");
    let (found, _) = reconcile(&program, &[&numbers, "--day", "2026-03-29"]);
    let expected = json!({
        "matched": 2, "only_here": [{"biz_no": "b1c"}], "only_there": [{"biz_no": "z1"}], "differs": [],
    });
    assert_eq!(found, expected);
}

/// Rules 8.3.14 and 13.3.1: a quote without its pair would take lines for a cell, so that payments were missing. A day that
/// never was would tie.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_quote_and_a_skipped_day_are_refused() {
    let (_till, _, program) = till().await;
    let folder = Folder::new("reconcile-quotes");
    let long_remark = format!("biz_no,product_name\nb1,x\n# a\n\n# {}\n", "x".repeat(100_000));
    for (text, words) in [
        (
            "biz_no,product_name\nb1,x\n\nb2,\"x\nb3,x\n",
            "line 4: a cell opens with a quote that nothing closes",
        ),
        ("biz_no,product_name\nb1,\"x\nb2,x\nb3,\"y\"\n", "line 2: a quoted cell has text behind its quote"),
        ("biz_no,\"note\nb1,x\n", "line 1: a cell opens with a quote that nothing closes"),
        ("# a\r\n\r\nbiz_no,\"note\r\nb1,x\r\n", "line 3: a cell opens with a quote that nothing closes"),
        (
            "# a\r\nsep=;\r\n\r\nbiz_no;\"note\r\nb1;x\r\n",
            "line 4: a cell opens with a quote that nothing closes",
        ),
        (
            "biz_no,product_name\nb1,x\n# a\n# \"b\n#,\"c\n",
            "line 5: a cell opens with a quote that nothing closes",
        ),
        (
            "biz_no,product_name\nb1,\"x\"\u{a0}\n",
            "line 2: a quoted cell has text behind its quote: the unseen character U+00A0",
        ),
        (long_remark.as_str(), "line 5: expected at most 65536 bytes; is a quotation mark without its pair?"),
    ] {
        let file = folder.write("their.csv", text);
        assert_eq!(program.complaint(&["reconcile", "a1", &file]), format!("minitill: {file}: {words}\n"));
    }
    let file = folder.write("their.csv", "biz_no\n");
    let skipped = ["reconcile", "a1", &file, "--day", "2011-12-30", "--time-zone", "Pacific/Apia"];
    let words = "minitill: --day: there is no 2011-12-30 in Pacific/Apia: its clocks skipped it\n";
    assert_eq!(program.complaint(&skipped), words);
}

/// Rule 13.5.6: a file that cannot be compared is refused, and the line is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_compared_is_refused() {
    let (_till, _, program) = till().await;
    let folder = Folder::new("reconcile-refused");
    let long = format!("biz_no,kind\nb1,\"{}", "x\n".repeat(100_000));
    for (text, map, words) in [
        (
            &b"order,kind\nb1,exchange\n"[..],
            None,
            "there is no column biz_no; name it with --map NAME=biz_no; there are order, kind",
        ),
        (
            b"",
            None,
            "there is no column biz_no; name it with --map NAME=biz_no; there are none: the heading is empty",
        ),
        (b"biz_no,kind\n", Some("order=biz_no"), "--map: there is no column order; there are biz_no, kind"),
        (b"biz_no,kind,kind\n", None, "two columns are kind"),
        (b"biz_no,kind\nb1,exchange\n\nb2\n", None, "line 4: expected 2 columns, got 1"),
        (b"sep=;\nbiz_no;kind\nb1\n", None, "line 3: expected 2 columns, got 1"),
        (b"#x\n\nsep=,\nbiz_no,kind\nb1\n", None, "line 5: expected 2 columns, got 1"),
        (b"biz_no,kind\nb1,exchange\n#x\nb2,exchange\n", None, "line 3: expected 2 columns, got 1"),
        (
            b"biz_no,kind\n2.02611E+22,exchange\n",
            None,
            "line 2: biz_no: expected the digits of a number, got \"2.02611E+22\", which a spreadsheet has shortened",
        ),
        (
            b"biz_no,kind\n#N/A,exchange\n",
            None,
            "line 2: biz_no: expected a value, got \"#N/A\", which is an error of a spreadsheet",
        ),
        (b"b\0i\0z\0_\0n\0o\0\n\0", None, "it is text in UTF-16: save it as CSV in UTF-8"),
        (
            b"biz_no,kind\nb1,exchange\nb2,\xff\n",
            None,
            "line 3: expected UTF-8; in a spreadsheet, save it as CSV UTF-8",
        ),
        (b"biz_no,kind\nb1,\0\n", None, "line 2: expected a text without zero bytes"),
        (
            long.as_bytes(),
            None,
            "line 2: expected at most 65536 bytes; is a quotation mark without its pair?",
        ),
    ] {
        let file = folder.write("their.csv", text);
        let map = map.map_or(Vec::new(), |map| vec!["--map", map]);
        let complaint = program.complaint(&[&["reconcile", "a1", &file], &map[..]].concat());
        assert_eq!(complaint, format!("minitill: {file}: {words}\n"));
    }
    let missing = folder.file("missing.csv");
    assert_eq!(
        program.complaint(&["reconcile", "a1", &missing]),
        format!("minitill: {missing}: No such file or directory (os error 2)\n")
    );
    assert_eq!(
        program.complaint(&["reconcile", "a1", folder.path()]),
        format!("minitill: {}: it is a folder\n", folder.path())
    );
    let file = folder.write("their.csv", "biz_no\nb1\n");
    let unknown = "minitill: there is no app a9; to list all apps, run `minitill app list`\n";
    assert_eq!(program.complaint(&["reconcile", "a9", &file]), unknown);
    let usage = program.run(&["reconcile", "a1", &file, "--map", "order=number"]);
    let words = String::from_utf8(usage.stderr).unwrap();
    assert!(
        usage.status.code() == Some(2) && words.contains("expected at, open_id, seq, kind, biz_no"),
        "{words}"
    );
}

/// Rule 13.5.5: a time zone without a day or a month is wrong usage.
#[test]
fn a_time_zone_needs_a_period() {
    let program = Program::on("postgres:///none");
    let output = program.run(&["reconcile", "a1", "x.csv", "--time-zone", "Asia/Shanghai"]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.starts_with(
            "error: the following required arguments were not provided:\n  <--day <DAY>|--month <MONTH>>\n"
        ),
        "{told}"
    );
}
