//! `minitill topup expect`: payments compared with a provider's settlement file (contract 19.7).

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::admin::Caller;
use crate::support::TestTill;
use crate::support::program::Program;
use crate::topups::{app, keep_unmatched, order, payment, tell};

/// A file that is removed.
struct SettlementFile(PathBuf);

impl SettlementFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("minitill-settlement-{name}-{}", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }

    /// What the command prints about it, with the exit code and what it complains.
    fn expect(&self, program: &Program, more: &[&str]) -> (Option<i32>, String, String) {
        let output = program.run(&[&["topup", "expect", "a1", self.0.to_str().unwrap()], more].concat());
        let [out, complaint] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), out, complaint.replace(self.0.to_str().unwrap(), "FILE"))
    }

    fn json(&self, program: &Program, more: &[&str]) -> (Option<i32>, Value) {
        let (code, out, complaint) = self.expect(program, &[more, &["--json"]].concat());
        (code, serde_json::from_str(&out).unwrap_or_else(|_| panic!("{complaint}")))
    }
}

impl Drop for SettlementFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A till with a payment `pi_1` of the order `t1`, and `pi_2` of a product.
async fn till() -> (TestTill, Program) {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let caller = Caller::admin(&till).await;
    order(&till, &app, "t1").await;
    assert_eq!(tell(&caller, &payment("pi_1", "t1")).await.status, 200);
    let mut second = payment("pi_2", "");
    (second["open_id"], second["product_id"]) = (json!("o2"), json!("gems6"));
    second.as_object_mut().unwrap().remove("biz_no");
    (second["amount"], second["paid_at"]) = (json!(60), json!("2026-11-22T08:00:00Z"));
    assert_eq!(tell(&caller, &second).await.status, 200);
    keep_unmatched(&till, &app, "wechat", "42").await;
    order(&till, &app, "t2").await;
    let program = Program::on(&till.database_url);
    (till, program)
}

/// Rules 19.7.1 to 19.7.4: what is only here, only there or differs is named, by the meaning of each column.
#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_file_is_compared_with_the_payments_of_its_provider() {
    let (_till, program) = till().await;
    // Backticks before values, money in units, a currency in small letters, cells without a value, a column of the provider, and another column.
    let text = "id,total,currency,biz_no,product_id,paid_at,status\n\
        `pi_1,`6.00,`cny,`t1,`,`2026-11-21 08:00:00,`ok\n pi_2 ,0.6,CNY,,gems6,,ok\n";
    let map = ["--provider", "stripe", "--map", "id=provider_order_id", "--map", "total=money"];
    let same = SettlementFile::new("same", text);
    let nothing = json!({"only_here": [], "only_there": [], "differs": [], "matched": 2});
    assert_eq!(same.json(&program, &map), (Some(0), nothing));
    let ignored = "columns that are not here are ignored: status";
    let (code, out, complaint) = same.expect(&program, &map);
    assert_eq!((code, out.as_str()), (Some(0), "2 matched, 0 only here, 0 only there, 0 differ\n"));
    assert!(complaint.contains(ignored), "{complaint}");

    let differing = "provider,provider_order_id,currency,amount,biz_no,open_id\n\
        stripe,pi_1,USD,601,t2,o9\nstripe,pi_3,CNY,600,t2,\nstripe,pi_1,CNY,600,t1,\n";
    let differing = SettlementFile::new("differing", differing);
    let difference = |field: &str, here: &str, there: &str| json!({"ref": "stripe/pi_1", "field": field, "here": here, "there": there});
    let found = json!({
        "only_here": [{"ref": "stripe/pi_2"}],
        "only_there": [{"ref": "stripe/pi_3"}],
        "differs": [
            difference("lines", "1", "2"), difference("currency", "CNY", "USD"), difference("amount", "600", "601"),
            difference("biz_no", "t1", "t2"),
        ],
        "matched": 0,
    });
    assert_eq!(differing.json(&program, &[]), (Some(1), found));

    let day = SettlementFile::new("day", "provider,provider_order_id,amount\nstripe,pi_1,600\n");
    let one = "1 matched, 0 only here, 0 only there, 0 differ\n".to_owned();
    let (code, out, _) = day.expect(&program, &["--day", "2026-11-21"]);
    assert_eq!((code, out), (Some(0), one));
    let (code, out, complaint) = day.expect(&program, &["--day", "2026-11-22"]);
    let other = "only here\tstripe/pi_2\n0 matched, 1 only here, 0 only there, 0 differ\n";
    assert_eq!((code, out.as_str()), (Some(1), other));
    assert!(complaint.contains("not compared, because they are of another period here: 1"), "{complaint}");

    let (code, _, complaint) = same.expect(&program, &["--map", "id=provider_order_id"]);
    let lacks = "FILE: there is no column provider; name it with --map NAME=provider; there are id, total, \
        currency, biz_no, product_id, paid_at, status";
    assert!(code == Some(1) && complaint.contains(lacks), "{complaint}");
}

/// Rules 13.5.6 and 19.7.4: remarks around the lines do not count. Money is shown alike for both, and what is none is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_file_with_remarks_and_wrong_money_is_compared() {
    let (_till, program) = till().await;
    let text = "#\u{652f}\u{4ed8}\u{5b9d}\n#account: [1]\nid,total,currency\n\
        `pi_1\t,\"6,00\",CNY\n'pi_2,=\"0.60\",cny\n#end\n#payments: 2, refunds: 0\n";
    let file = SettlementFile::new("remarks", text);
    let map = ["--provider", "stripe", "--map", "id=provider_order_id", "--map", "total=money"];
    let (code, out, complaint) = file.expect(&program, &map);
    let differs =
        "differs\tstripe/pi_1\tmoney\t6.00 CNY\t6,00\n1 matched, 0 only here, 0 only there, 1 differ\n";
    assert_eq!((code, out.as_str()), (Some(1), differs));
    let fault = "stripe/pi_1: money: expected money in units of the currency, such as 6.00, got \"6,00\"";
    assert_eq!(complaint, format!("minitill: {fault}\n"));
}

/// Rules 19.7.5 and 19.7.6: with `--apply`, what is only there is entered as by the admin API, once; what fits nothing remains.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_only_in_a_settlement_file_is_entered_once() {
    let (till, program) = till().await;
    let text = "id,total,currency,biz_no,open_id,product_id,paid_at,fee\n\
        pi_1,6.00,CNY,t1,,,2026-11-21 08:00:00,\npi_2,0.60,CNY,,o2,gems6,2026-11-22 08:00:00,\n\
        pi_3,6.00,cny,t2,,,2026-11-21 08:00:00,4\npi_4,6.00,CNY,t9,,,2026-11-21 08:00:00,\n";
    let file = SettlementFile::new("apply", text);
    let map = ["--provider", "stripe", "--map", "id=provider_order_id", "--map", "total=money"];
    let apply = [&map[..], &["--apply", "--time-zone", "Asia/Shanghai"]].concat();
    let found = json!({
        "entered": [
            {"ref": "stripe/pi_3", "state": "paid"},
            {"ref": "stripe/pi_4", "state": "unmatched", "reason": "unknown_order"},
        ],
        "other_app": [], "only_here": [], "differs": [], "matched": 2,
    });
    assert_eq!(file.json(&program, &apply), (Some(1), found));
    let shown = program.json(&["topup", "show", "a1", "stripe", "pi_3"]);
    assert_eq!(
        (&shown["state"], &shown["biz_no"], &shown["amount"]),
        (&json!("paid"), &json!("t2"), &json!(600))
    );
    assert_eq!((&shown["paid_at"], &shown["fee"]), (&json!("2026-11-21T00:00:00Z"), &json!(4)));
    let coins = "SELECT charge_balance FROM wallets WHERE open_id = 'o1'";
    assert_eq!(till.number(coins).await, 100 + 60 + 60);

    let nothing = json!({"entered": [], "other_app": [], "only_here": [], "differs": [], "matched": 4});
    assert_eq!(file.json(&program, &apply), (Some(0), nothing));
    let (_, out, _) = file.expect(&program, &apply);
    assert_eq!(out, "4 matched, 0 only here, 0 differ\n");
    assert_eq!(till.number(coins).await, 100 + 60 + 60);
}

/// Rule 19.7.7: one merchant account may serve several apps, and a payment that another one has is not credited again.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_of_another_app_is_not_entered() {
    let (till, program) = till().await;
    till.app("a2").await;
    till.execute(
        "INSERT INTO topup_payments (app_no, provider, provider_order_id, currency, amount, biz_no, paid_at, created_at,
             state, reason, note, told_by)
         SELECT app_no, 'stripe', 'pi_3', 'CNY', 600, 't2', now(), now(), 'unmatched', 'unknown_order', '', 'api_key backend'
         FROM apps WHERE app_id = 'a2'",
    )
    .await;
    let text = "provider_order_id,currency,amount,biz_no,paid_at\npi_1,CNY,600,t1,2026-11-21T08:00:00Z\n\
        pi_2,CNY,60,,2026-11-22T08:00:00Z\npi_3,CNY,600,t2,2026-11-21T08:00:00Z\n";
    let file = SettlementFile::new("other-app", text);
    let apply = ["--provider", "stripe", "--apply"];
    let found = json!({
        "entered": [], "other_app": [{"ref": "stripe/pi_3", "app_id": "a2"}],
        "only_here": [], "differs": [], "matched": 2,
    });
    assert_eq!(file.json(&program, &apply), (Some(1), found));
    let (_, out, _) = file.expect(&program, &apply);
    assert_eq!(out, "other app\tstripe/pi_3\ta2\n2 matched, 0 only here, 1 of other apps, 0 differ\n");
    assert_eq!(till.number("SELECT charge_balance FROM wallets WHERE open_id = 'o1'").await, 100 + 60);
    let shown = program.run(&["topup", "show", "a1", "stripe", "pi_3"]);
    assert!(!shown.status.success(), "the app has no such payment");
}

/// Rule 19.3.9: the payments as CSV, all of them, with money in units and what was refunded.
#[tokio::test(flavor = "multi_thread")]
async fn payments_are_written_as_csv() {
    let (till, program) = till().await;
    till.execute("UPDATE topup_payments SET fee = 4 WHERE provider_order_id = 'pi_1'").await;
    till.execute("UPDATE topup_payments SET note = '=1+1' WHERE provider_order_id = 'pi_2'").await;
    let back = ["topup", "refund", "a1", "stripe", "pi_1", "--refund-id", "re_1", "--amount", "305"];
    assert!(program.run(&[&back[..], &["--reason", "r"]].concat()).status.success());
    let listed = program.run(&["topup", "list", "a1", "--csv"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let lines: Vec<&str> = listed.lines().collect();
    let heading = "provider,provider_order_id,state,reason,currency,money,fee,refunded,paid_at,created_at,credited_at,\
        biz_no,open_id,product_id,charge,bonus,note";
    assert_eq!((lines.len(), lines[0]), (4, heading));
    for (id, before, behind) in [
        ("pi_1", "stripe,pi_1,paid,,CNY,6.00,0.04,3.05,2026-11-21T08:00:00Z,", ",t1,o1,gems60,60,6,"),
        ("pi_2", "stripe,pi_2,paid,,CNY,0.60,,0.00,2026-11-22T08:00:00Z,", ",,o2,gems6,6,0,'=1+1"),
        ("42", "wechat,42,unmatched,unknown_order,CNY,6.00,,0.00,", ",,,,"),
    ] {
        let line = lines.iter().find(|line| line.contains(&format!(",{id},"))).unwrap();
        assert!(line.starts_with(before) && line.ends_with(behind), "{line}");
    }
    let file = SettlementFile::new("list", "");
    let path = file.0.to_str().unwrap();
    let made = program.json(&["topup", "list", "a1", "--csv", "--out", path, "--limit", "2"]);
    assert_eq!(made, json!({"file": path, "payments": 2}));
    assert_eq!(fs::read_to_string(path).unwrap(), format!("{}\n", lines[..3].join("\n")));
    let both = program.run(&["topup", "list", "a1", "--csv", "--json"]);
    let complaint = String::from_utf8(both.stderr).unwrap();
    assert!(both.status.code() == Some(1) && both.stdout.is_empty(), "{complaint}");
    assert!(complaint.contains("CSV is no JSON: with --json, write it with --out FILE"), "{complaint}");
}

/// Rule 19.7.2: a file without a column of the currency is compared and entered in the currency that the command names.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_names_the_currency_of_a_file_without_it() {
    let (_till, program) = till().await;
    let text = "provider_order_id,money,biz_no,paid_at\npi_1,6.00,t1,2026-11-21T08:00:00Z\n\
        pi_2,0.60,,2026-11-22T08:00:00Z\npi_3,6.00,t2,2026-11-21T08:00:00Z\n";
    let file = SettlementFile::new("no-currency", text);
    let of = |currency| ["--provider", "stripe", "--currency", currency];
    let (_, found) = file.json(&program, &of("USD"));
    let differs = |of: &str| json!({"ref": of, "field": "currency", "here": "CNY", "there": "USD"});
    assert_eq!(found["differs"], json!([differs("stripe/pi_1"), differs("stripe/pi_2")]));
    let (code, found) = file.json(&program, &[&of("CNY")[..], &["--apply"]].concat());
    assert_eq!((code, &found["entered"]), (Some(0), &json!([{"ref": "stripe/pi_3", "state": "paid"}])));
    let shown = program.json(&["topup", "show", "a1", "stripe", "pi_3"]);
    assert_eq!((&shown["currency"], &shown["amount"]), (&json!("CNY"), &json!(600)));
    let told = SettlementFile::new("own-currency", "provider_order_id,currency,money\npi_1,CNY,6.00\n");
    for (more, text) in [
        (&[][..], "FILE: two columns are currency"),
        (&["--map", "cur=currency"][..], "--currency: expected none beside --map of a column currency"),
    ] {
        let (code, out, complaint) = told.expect(&program, &[&of("CNY")[..], more].concat());
        assert!(code == Some(1) && out.is_empty() && complaint.contains(text), "{complaint}");
    }
}

/// Rules 8.3.14, 8.3.16 and 19.7.2: semicolons separate cells, too, and an id that a spreadsheet has shortened is refused.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_a_spreadsheet_has_shortened_is_refused() {
    let (_till, program) = till().await;
    let text = "provider_order_id;amount\npi_1;600\n4.20001E+27;600\n";
    let file = SettlementFile::new("shortened", text);
    let (code, out, complaint) = file.expect(&program, &["--provider", "stripe"]);
    let fault = "expected the digits of a number, got \"4.20001E+27\", which a spreadsheet has shortened";
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert_eq!(complaint, format!("minitill: FILE: line 3: provider_order_id: {fault}\n"));
}

/// Rule 19.7.5: a line that is no payment is named with its field, and nothing is entered.
#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_file_with_a_wrong_line_enters_nothing() {
    let (till, program) = till().await;
    let text = "provider,provider_order_id,currency,money,biz_no,paid_at\n\
        stripe,pi_3,CNY,6.00,t2,2026-11-21T08:00:00Z\nstripe,pi_4,CNY,6.001,t2,2026-11-21T08:00:00Z\n\
        stripe,pi_5,CNY,6.00,,2026-11-21T08:00:00Z\nstripe,pi_6,CNY,6.00,t2,soon\nStripe,pi_7,CNY,6.00,t2,\n\
        stripe,pi_8,CNY,6.00,t2,2026-11-21\nstripe,pi_8,CNY,6.00,t2,2026-11-21\n";
    let file = SettlementFile::new("wrong", text);
    let (code, out, complaint) = file.expect(&program, &["--apply"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    for line in [
        "Stripe/pi_7: provider: expected 1 to 32 of 0-9a-z_-, got \"Stripe\"",
        "stripe/pi_4: money: expected money in units of the currency, such as 6.00, got \"6.001\"",
        "stripe/pi_5: biz_no is missing; without it, expected open_id and product_id",
        "stripe/pi_6: paid_at: expected a date and time such as 2026-11-21 or 2026-11-21T08:00, got \"soon\"",
        "stripe/pi_8: provider_order_id: expected a line for each payment, got \"2 lines\"",
        "payments that cannot be entered: 5; nothing was entered",
    ] {
        assert!(complaint.contains(line), "{line}\n{complaint}");
    }
    assert!(!complaint.contains("stripe/pi_3"), "{complaint}");
    assert_eq!(till.number("SELECT count(*) FROM topup_payments").await, 3);
}

/// Rule 19.7.5: a file that tells the money in both forms is entered where both agree.
#[tokio::test(flavor = "multi_thread")]
async fn money_of_a_settlement_file_that_disagrees_with_its_amount_enters_nothing() {
    let (till, program) = till().await;
    let header = "provider,provider_order_id,currency,amount,money,biz_no,paid_at";
    let line = "CNY,600,6.00,t2,2026-11-21T08:00:00Z";
    let wrong = "CNY,60,6.00,t2,2026-11-21T08:00:00Z";
    let file =
        SettlementFile::new("twice-wrong", &format!("{header}\nstripe,pi_3,{line}\nstripe,pi_4,{wrong}\n"));
    let (code, _, complaint) = file.expect(&program, &["--apply"]);
    let text = "stripe/pi_4: amount: expected the same money as in money, got \"60\"";
    assert!(code == Some(1) && complaint.contains(text), "{complaint}");
    assert_eq!(till.number("SELECT count(*) FROM topup_payments").await, 3);

    let file = SettlementFile::new("twice", &format!("{header}\nstripe,pi_3,{line}\n"));
    let (_, found) = file.json(&program, &["--apply"]);
    assert_eq!(found["entered"], json!([{"ref": "stripe/pi_3", "state": "paid"}]));
    let shown = program.json(&["topup", "show", "a1", "stripe", "pi_3"]);
    assert_eq!(shown["amount"], json!(600));
}
