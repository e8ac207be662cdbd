//! The command line (contract 8): names, exit codes and what each command does.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::program::Program;
use crate::support::{Request, TestTill, committed, empty_database, fresh_database, until};
use crate::workbook::sheet_lines;

async fn program() -> (Program, String) {
    let url = fresh_database().await.url;
    (Program::on(&url), url)
}

/// A file of one test's own.
fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("minitill-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_created_once_listed_shown_suspended_and_resumed() {
    let (program, _) = program().await;
    let made = program.json(&[
        "app",
        "create",
        "a1",
        "--name",
        "Game",
        "--category",
        "local_life",
        "--scope",
        "epay",
        "--sandbox",
        "--preorder-check",
    ]);
    assert_eq!(keys(&made), ["app_id", "app_secret", "pay_key"]);
    assert_eq!(made["app_id"], "a1");
    assert_eq!(program.complaint(&["app", "create", "a1"]), "minitill: there is an app a1 already\n");
    program.json(&["app", "create", "a2"]);
    let listed = program.json(&["app", "list"]);
    assert_eq!(listed["apps"].as_array().unwrap().len(), 2);
    let shown = program.json(&["app", "show", "a1"]);
    for (key, value) in [
        ("app_id", json!("a1")),
        ("name", json!("Game")),
        ("category", json!("local_life")),
        ("scopes", json!(["epay"])),
        ("sandbox", json!(true)),
        ("preorder_check", json!(true)),
        ("suspended", json!(false)),
    ] {
        assert_eq!(shown[key], value, "{key}");
    }
    let text = String::from_utf8(program.run(&["app", "show", "a1"]).stdout).unwrap();
    assert!(
        !text.contains(made["pay_key"].as_str().unwrap())
            && !text.contains(made["app_secret"].as_str().unwrap())
    );
    program.json(&["app", "suspend", "a1"]);
    assert_eq!(program.json(&["app", "show", "a1"])["suspended"], true);
    program.json(&["app", "resume", "a1"]);
    assert_eq!(program.json(&["app", "show", "a1"])["suspended"], false);
    let unknown = "minitill: there is no app a9; to list all apps, run `minitill app list`\n";
    for arguments in [
        &["app", "show", "a9"][..],
        &["app", "suspend", "a9"],
        &["app", "resume", "a9"],
        &["app", "rotate-pay-key", "a9"],
        &["app", "rotate-secret", "a9"],
        &["app", "publish", "a9", "--version", "1", "--path", "p"],
        &["app", "limit", "a9"],
        &["app", "poi", "add", "a9", "p1"],
        &["app", "preorder", "add", "a9", "order1"],
        &["token", "issue", "a9"],
        &["token", "revoke", "a9", "--all"],
        &["login-code", "issue", "a9", "o1"],
        &["user", "add", "a9", "o1"],
        &["wallet", "credit", "a9", "o1", "--free", "1", "--ref", "r1"],
    ] {
        assert_eq!(program.complaint(arguments), unknown, "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_rotate_pages_are_published_and_limits_are_set() {
    let (program, _) = program().await;
    let made = program.json(&["app", "create", "a1"]);
    let rotated = program.json(&["app", "rotate-pay-key", "a1"]);
    assert_eq!(keys(&rotated), ["app_id", "pay_key"]);
    assert_ne!(rotated["pay_key"], made["pay_key"]);
    let rotated = program.json(&["app", "rotate-secret", "a1"]);
    assert_eq!(keys(&rotated), ["app_id", "app_secret"]);
    assert_ne!(rotated["app_secret"], made["app_secret"]);
    for (version, page) in [("1.0", "pages/a"), ("1.1", "/pages/b"), ("1.0", "pages/c")] {
        program.json(&["app", "publish", "a1", "--version", version, "--path", page, "--path", "pages/x"]);
        let shown = program.json(&["app", "show", "a1"]);
        assert_eq!(shown["package_version"], version);
        assert_eq!(shown["pages"], json!([page.trim_start_matches('/'), "pages/x"]));
    }
    program.json(&["app", "limit", "a1", "--uploads-per-second", "5", "--tokens-per-second", "0"]);
    let limits = json!({"exchanges_per_second": null, "reads_per_second": null, "reports_per_second": null, "uploads_per_second": 5, "tokens_per_second": 0, "logins_per_second": null, "image_bytes_per_day": null, "image_bytes_max": null, "images_per_day": null, "images_max": null});
    assert_eq!(program.json(&["app", "show", "a1"])["limits"], limits);
    program.json(&["app", "poi", "add", "a1", "p1", "p2"]);
    program.json(&["app", "poi", "add", "a1", "p2"]);
    program.json(&["app", "preorder", "add", "a1", "order_1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_lives_as_long_as_was_asked_for() {
    let (program, url) = program().await;
    program.json(&["app", "create", "a1"]);
    let issued = program.json(&["token", "issue", "a1", "--ttl", "90m"]);
    assert_eq!(keys(&issued), ["access_token", "app_id", "expires_at"]);
    assert_eq!(issued["access_token"].as_str().unwrap().len(), 64);
    let till = TestTill::start_on(url, |_| {}).await;
    let minutes = "SELECT round(extract(epoch FROM expires_at - issued_at) / 60)::bigint FROM access_tokens";
    assert_eq!(till.number(minutes).await, 90);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_code_is_issued_and_logs_its_player_in() {
    let (program, url) = program().await;
    let made = program.json(&["app", "create", "a1"]);
    let issued = program.json(&["login-code", "issue", "a1", "o1", "--union-id", "u1"]);
    assert_eq!(keys(&issued), ["app_id", "expires_at", "js_code"]);
    let code = issued["js_code"].as_str().unwrap();
    assert_eq!(code.len(), 64);
    let server = program.serve(None).await;
    let secret = made["app_secret"].as_str().unwrap();
    let path = format!("/oauth2/mp/code2session?app_id=a1&app_secret={secret}&js_code={code}");
    let session = Request::get(&path).send(server.address).await.json();
    assert_eq!((&session["open_id"], &session["union_id"]), (&json!("o1"), &json!("u1")));
    server.terminate();
    for wrong in [&["o.1"][..], &["o1", "--union-id", "u 1"], &["o1", "--union-id", ""], &[]] {
        let arguments = [&["login-code", "issue", "a1"], wrong].concat();
        assert_eq!(program.run(&arguments).status.code(), Some(2), "{arguments:?}");
    }
    let till = TestTill::start_on(url, |_| {}).await;
    assert_eq!(till.number("SELECT count(*) FROM login_codes").await, 0);
}

/// Contract 9.9.1: what an operator changes acts on every running instance within 5 seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_ends_on_a_running_server() {
    let (program, _) = program().await;
    program.json(&["app", "create", "a1"]);
    let issue = || program.json(&["token", "issue", "a1"])["access_token"].as_str().unwrap().to_owned();
    let tokens = [issue(), issue(), issue()];
    let server = program.serve(None).await;
    let said = async |token: &str| {
        let path = format!("/openapi/mp/developer/order/v1/report?app_id=a1&access_token={token}");
        Request::post(&path).send(server.address).await.message()
    };
    let (known, revoked) = (
        "app_id: the app lacks the scope epay; to give it, run: minitill app change a1 --add-scope epay",
        "access_token: expected a token of this app from /oauth2/access_token",
    );
    for token in &tokens {
        assert_eq!(said(token).await, known);
    }
    assert_eq!(program.json(&["token", "revoke", "a1", "--token", &tokens[0]])["revoked"], 1);
    let mut piped = program.command(&["token", "revoke", "a1", "--token", "-"]);
    let mut piped =
        piped.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut piped.stdin.take().unwrap(), format!("{}\n", tokens[1]).as_bytes())
        .unwrap();
    assert!(piped.wait().unwrap().success());
    let is_refused =
        async |token: &str| until("the token is refused", async || said(token).await == revoked).await;
    is_refused(&tokens[0]).await;
    is_refused(&tokens[1]).await;
    assert_eq!(said(&tokens[2]).await, known, "the others live on");
    let again = program.complaint(&["token", "revoke", "a1", "--token", &tokens[0]]);
    assert_eq!(again, "minitill: there is no such token of the app a1\n");
    assert_eq!(program.json(&["token", "revoke", "a1", "--all"])["revoked"], 1);
    is_refused(&tokens[2]).await;
    let log = program.json(&["operator-log", "--limit", "1"]);
    assert_eq!(
        (&log["lines"][0]["action"], &log["lines"][0]["after"]),
        (&json!("token.revoke"), &json!({"revoked": 1}))
    );
    server.terminate();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credit_is_made_once_for_each_ref() {
    let (program, url) = program().await;
    program.json(&["app", "create", "a1"]);
    program.json(&["user", "add", "a1", "o1", "o2"]);
    program.json(&["user", "add", "a1", "o2", "o3"]);
    let empty = json!({"app_id": "a1", "open_id": "o2", "free_balance": 0, "charge_balance": 0, "entries": 0, "frozen": false, "frozen_until": null});
    assert_eq!(program.json(&["wallet", "show", "a1", "o2"]), empty);
    let credit =
        ["wallet", "credit", "a1", "o1", "--free", "5", "--charge", "7", "--ref", "r1", "--note", "welcome"];
    let done =
        |replayed: bool| json!({"ref": "r1", "free_balance": 5, "charge_balance": 7, "replayed": replayed});
    assert_eq!(program.json(&credit), done(false));
    program.json(&["wallet", "credit", "a1", "o1", "--free", "1", "--ref", "r2"]);
    assert_eq!(program.json(&credit), done(true));
    let conflict = "minitill: the ref r1 was used for another player or with other amounts\n";
    assert_eq!(
        program.complaint(&["wallet", "credit", "a1", "o1", "--free", "6", "--charge", "7", "--ref", "r1"]),
        conflict
    );
    assert_eq!(
        program.complaint(&["wallet", "credit", "a1", "o2", "--free", "5", "--charge", "7", "--ref", "r1"]),
        conflict
    );
    // A refused command registers nobody.
    let typo = ["wallet", "credit", "a1", "typo", "--free", "5", "--charge", "7", "--ref", "r1", "--create"];
    assert_eq!(program.complaint(&typo), conflict);
    let unknown = "minitill: there is no player typo of an app a1; a login makes a player known, and so do \
                   `minitill user add a1` and --create\n";
    assert_eq!(program.complaint(&typo[..typo.len() - 1]), conflict, "the ref is looked up first");
    let other = ["wallet", "credit", "a1", "typo", "--free", "5", "--ref", "r9"];
    assert_eq!(program.complaint(&other), unknown);
    assert_eq!(program.complaint(&["wallet", "show", "a1", "typo"]), unknown);
    let nothing = "minitill: --free and --charge: expected 1 or more in one of them, got 0 and 0\n";
    assert_eq!(program.complaint(&["wallet", "credit", "a1", "o1", "--free", "0", "--ref", "r9"]), nothing);
    // A player is registered where that is asked for; a balance never overflows.
    let new = ["wallet", "credit", "a1", "new", "--charge", "9223372036854775807", "--ref", "r3", "--create"];
    program.json(&new);
    let overflow = "minitill: a balance would be more than 9223372036854775807\n";
    assert_eq!(
        program.complaint(&["wallet", "credit", "a1", "new", "--charge", "1", "--ref", "r4"]),
        overflow
    );
    // Rule 8.3.17: what looks like the same ref credits nobody again.
    for reference in [" r2", "r2\u{200b}", "r\u{ad}2"] {
        let again = ["wallet", "credit", "a1", "o1", "--free", "1", "--ref", reference];
        assert_eq!(program.run(&again).status.code(), Some(2), "{reference:?}");
    }
    assert_eq!(program.json(&["wallet", "show", "a1", "o1"])["free_balance"], 6);
    TestTill::start_on(url, |_| {}).await.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_is_the_whole_ledger_oldest_first_in_three_formats() {
    let (program, _) = program().await;
    program.json(&["app", "create", "a1"]);
    program.json(&["user", "add", "a1", "o1"]);
    for (amount, reference) in [("5", "r,1"), ("6", "r2")] {
        program.json(&["wallet", "credit", "a1", "o1", "--free", amount, "--ref", reference]);
    }
    let stated = program.json(&["wallet", "statement", "a1", "o1"]);
    assert_eq!((&stated["app_id"], &stated["open_id"]), (&json!("a1"), &json!("o1")));
    let mut entries = stated["entries"].as_array().unwrap().clone();
    for entry in &mut entries {
        let at = entry.as_object_mut().unwrap().remove("at").unwrap();
        assert!(at.as_str().unwrap().ends_with('Z'), "{at}");
    }
    assert_eq!(
        entries,
        [
            json!({"seq": 1, "kind": "credit", "biz_no": null, "ref": "r,1", "free_change": 5, "charge_change": 0, "free_balance": 5, "charge_balance": 0}),
            json!({"seq": 2, "kind": "credit", "biz_no": null, "ref": "r2", "free_change": 6, "charge_change": 0, "free_balance": 11, "charge_balance": 0}),
        ]
    );
    let printed = |format: &str| {
        String::from_utf8(program.run(&["wallet", "statement", "a1", "o1", "--format", format]).stdout)
            .unwrap()
    };
    let csv = printed("csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(
        lines[0],
        "seq,kind,biz_no,ref,free_change,charge_change,free_balance,charge_balance,at,product_name,note,operator"
    );
    assert!(lines[1].starts_with("1,credit,,\"r,1\",5,0,5,0,20") && lines.len() == 3, "{csv}");
    let excel = program.run(&["wallet", "statement", "a1", "o1", "--excel"]).stdout;
    assert!(sheet_lines(&excel, "Entries")[0].contains("\t#1\tcredit\t\tr,1\t#5\t#0\t#5\t#0"));
    let none = program.run(&["wallet", "statement", "a1", "o1", "--csv", "--until", "2026-01-01"]).stdout;
    assert_eq!(String::from_utf8(none).unwrap().lines().count(), 1);
    let jsonl = printed("jsonl");
    assert_eq!(serde_json::from_str::<Value>(jsonl.lines().nth(1).unwrap()).unwrap()["ref"], "r2");
    let table = printed("table");
    assert!(table.lines().nth(2).unwrap().starts_with("2\tcredit\tr2\t6\t0\t11\t0\t20"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_may_be_repeated_and_a_line_at_fault_leaves_nothing_half_done() {
    let (program, url) = program().await;
    program.json(&["app", "create", "a1"]);
    let lines: String =
        (0..200).map(|index| format!("o{},1,2,r{index}\n", index % 50)).collect::<Vec<_>>().concat();
    let good = file("good.csv", &format!("open_id,free,charge,ref\n{lines}"));
    let without = program.complaint(&["wallet", "import", "a1", good.to_str().unwrap()]);
    let unknown = "minitill: line 2: there is no player o0 of an app a1; a login makes a player known, and so do \
                   `minitill user add a1` and --create\n";
    assert!(without.starts_with(unknown), "{without}");
    assert!(without.ends_with("minitill: nothing was credited: 200 of 200 lines cannot be\n"), "{without}");
    assert_eq!(without.lines().count(), 201);
    let import =
        |path: &PathBuf| program.json(&["wallet", "import", "a1", path.to_str().unwrap(), "--create"]);
    let of = |credited: u32, replayed: u32| {
        json!({
            "app_id": "a1", "rows": 200, "credited": credited, "replayed": replayed, "refused": 0,
            "free": credited, "charge": 2 * credited,
        })
    };
    let would = ["wallet", "import", "a1", good.to_str().unwrap(), "--create", "--dry-run"];
    assert_eq!(program.json(&would), of(200, 0));
    program.complaint(&["wallet", "show", "a1", "o7"]);
    assert_eq!(import(&good), of(200, 0));
    assert_eq!(program.json(&would), of(0, 200));
    assert_eq!(import(&good), of(0, 200));
    assert_eq!(program.json(&["wallet", "show", "a1", "o7"])["charge_balance"], 8);
    for (text, complaint) in [
        (
            "open_id,free\n",
            "there is no column ref, and no --ref-prefix; expected a heading of open_id, free",
        ),
        ("open_id|free|charge|ref\n", "free, charge and ref, got open_id|free|charge|ref"),
        ("open_id,ref\n", "there is no column free or charge; expected a heading"),
        ("open_id,free,ref,free\n", "free, charge and ref, got open_id,free,ref,free"),
        // A known player before the unknown one gets nothing either.
        (
            "open_id,free,charge,ref\no7,1,2,x1\n\nnew,1,2,x2\n",
            "line 4: there is no player new of an app a1; a login",
        ),
    ] {
        let bad = file("bad.csv", text);
        let said = program.complaint(&["wallet", "import", "a1", bad.to_str().unwrap()]);
        assert!(said.contains(complaint), "{said}");
        std::fs::remove_file(bad).unwrap();
    }
    program.complaint(&["wallet", "show", "a1", "new"]);
    assert_eq!(program.json(&["wallet", "show", "a1", "o7"])["charge_balance"], 8);
    std::fs::remove_file(good).unwrap();
    TestTill::start_on(url, |_| {}).await.assert_audit_clean().await;
}

/// Rules 8.3.5 and 8.3.6: a byte-order mark and rows of empty cells do not count. Each wrong line is named at once, by the file and by
/// the ledger, with the column, what came and what was expected.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_names_every_wrong_line_before_the_first_credit() {
    let (program, url) = program().await;
    program.json(&["app", "create", "a1"]);
    program.json(&["user", "add", "a1", "o1", "o2"]);
    let most = i64::MAX.to_string();
    program.json(&["wallet", "credit", "a1", "o1", "--free", "5", "--ref", "r1"]);
    let text = format!(
        "\u{feff}open_id,free,charge,ref\n,,,\no1,0x10,+5,x1\no1,5,0,r1\n\n o2 , 1 ,2,r1\no2,\"1,000\",2,\nn w,01,-1,x3\n\
         o2,0,0,x4\no2,1,x5\n , \no9,1,1,x6\no2,1,1,x7\no2,2,1,x7\no1,{most},0,x8\no2,1.0,,x9\n"
    );
    let bad = file("wrong-lines.csv", &text);
    let path = bad.to_str().unwrap();
    let amount = format!("expected an integer from 0 to {most}");
    let player = "there is no player o9 of an app a1; a login makes a player known, and so do `minitill user add a1` \
                  and --create";
    let reference = "expected 1 to 128 bytes without control characters";
    let lines = [
        format!("line 3: free: {amount}, got \"0x10\"; charge: {amount}, got \"+5\""),
        "line 6: the ref r1 was used for another player or with other amounts".to_owned(),
        format!("line 7: free: {amount}, got \"1,000\"; ref: {reference}, got \"\""),
        format!(
            "line 8: open_id: expected 1 to 64 of 0-9A-Za-z_-, got \"n w\"; free: {amount}, got \"01\"; \
             charge: {amount}, got \"-1\""
        ),
        "line 9: free and charge: expected 1 or more in one of them, got 0 and 0".to_owned(),
        "line 10: expected 4 columns, got 3".to_owned(),
        format!("line 12: {player}"),
        "line 14: the ref x7 was used for another player or with other amounts".to_owned(),
        "line 15: a balance would be more than 9223372036854775807".to_owned(),
        format!("line 16: free: {amount}, got \"1.0\"; charge: {amount}, got \"\""),
    ];
    let summary = "nothing was credited: 10 of 12 lines cannot be";
    let said = lines.iter().map(|line| format!("minitill: {line}\n")).collect::<Vec<_>>().concat();
    for more in [&["--note", "n"][..], &["--dry-run"]] {
        let complaint = program.complaint(&[&["wallet", "import", "a1", path], more].concat());
        assert_eq!(complaint, format!("{said}minitill: {summary}\n"));
    }
    let error = program.complaint(&["wallet", "import", "a1", path, "--json"]);
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(error, json!({"error": format!("{summary}\n{}", lines.join("\n"))}));
    // What only the ledger refuses is counted by --dry-run.
    let text = "ref,open_id,charge\nr1,o1,5\nr2,o2,7\nr2,o2,7\n";
    std::fs::write(&bad, text).unwrap();
    let output = program.run(&["wallet", "import", "a1", path, "--dry-run", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let refused = "the ref r1 was used for another player or with other amounts";
    let counts = json!({"app_id": "a1", "rows": 3, "credited": 1, "replayed": 1, "refused": 1,
        "free": 0, "charge": 7, "lines": [{"line": 2, "error": refused}]});
    assert_eq!(found, counts);
    assert_eq!(program.json(&["wallet", "show", "a1", "o2"])["entries"], 0);
    std::fs::remove_file(bad).unwrap();
    TestTill::start_on(url, |_| {}).await.assert_audit_clean().await;
}

/// Rules 8.3.14 and 8.3.16: what a spreadsheet put around an id makes no other one. A ref with it is refused, and so is a
/// number that it has shortened.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_spreadsheet_made_of_a_list_credits_nobody_twice() {
    let (program, url) = program().await;
    program.json(&["app", "create", "a1"]);
    program.json(&["user", "add", "a1", "o1"]);
    let list = file("spreadsheet.csv", "open_id,free,ref\no1,5,gift1\n");
    let import = || {
        let found = program.json(&["wallet", "import", "a1", list.to_str().unwrap()]);
        (found["credited"].clone(), found["replayed"].clone())
    };
    assert_eq!(import(), (json!(1), json!(0)));
    for line in ["\u{feff}o1;5;gift1", "'o1;5;gift1", "\"o1\u{200b}\";5;=\"gift1\""] {
        std::fs::write(&list, format!("open_id;free;ref\n{line}\n")).unwrap();
        assert_eq!(import(), (json!(0), json!(1)), "{line:?}");
    }
    let lines = "o1,5,gift1\no1,5,1.79603E+12\n4.20001E+27,5,x\no1,5,'gift1\no1,5,gift1\u{200b}\n\
                 o1,5,#REF!\no1,6,#REF!\n";
    std::fs::write(&list, format!("open_id,free,ref\n{lines}")).unwrap();
    let short = |line: u32, column: &str, got: &str| {
        let expected = "expected the digits of a number";
        format!(
            "minitill: line {line}: {column}: {expected}, got {got:?}, which a spreadsheet has shortened\n"
        )
    };
    let complaint = program.complaint(&["wallet", "import", "a1", list.to_str().unwrap()]);
    let around = "minitill: line 5: ref: expected no apostrophe before it, got \"'gift1\"\n\
                  minitill: line 6: ref: expected no blank or unseen character around it, got \"gift1\\u{200b}\"\n";
    let cell_error = |line: u32| {
        let expected = "expected a value, got \"#REF!\", which is an error of a spreadsheet";
        format!("minitill: line {line}: ref: {expected}\n")
    };
    let short = [short(3, "ref", "1.79603E+12"), short(4, "open_id", "4.20001E+27")].concat();
    let lines = [short, around.to_owned(), cell_error(7), cell_error(8)];
    let lines = lines.concat();
    assert_eq!(complaint, format!("{lines}minitill: nothing was credited: 6 of 7 lines cannot be\n"));
    assert_eq!(program.json(&["wallet", "show", "a1", "o1"])["free_balance"], 5);
    std::fs::remove_file(list).unwrap();
    TestTill::start_on(url, |_| {}).await.assert_audit_clean().await;
}

/// Rule 8.3.13: what is refused although it could be done before leaves the others alone.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_tells_what_was_refused_meanwhile() {
    let (program, url) = program().await;
    let till = TestTill::start_on(url, |_| {}).await;
    program.json(&["app", "create", "a1"]);
    program.json(&["user", "add", "a1", "o1", "o2", "o3"]);
    program.json(&["wallet", "credit", "a1", "o3", "--free", "1", "--ref", "r3"]);
    let list = file("meanwhile.csv", "open_id,free,charge,ref\no1,1,0,r1\no2,1,0,r2\no3,1,0,r3\n");
    let mut holder = till.sql.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM wallets WHERE open_id = 'o1' FOR UPDATE").execute(&mut *holder).await.unwrap();
    let import = ["wallet", "import", "a1", list.to_str().unwrap(), "--note", "fair", "--json"];
    let mut command = program.command(&import);
    let output = std::thread::spawn(move || command.output().unwrap());
    till.until_locked_out(1).await;
    program.json(&["wallet", "credit", "a1", "o3", "--free", "1", "--ref", "r2"]);
    holder.rollback().await.unwrap();
    let output = output.join().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let refused = "the ref r2 was used for another player or with other amounts";
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let counts = json!({"app_id": "a1", "rows": 3, "credited": 1, "replayed": 1, "refused": 1,
        "free": 1, "charge": 0, "lines": [{"line": 3, "error": refused}]});
    assert_eq!(found, counts);
    assert_eq!(program.json(&["wallet", "show", "a1", "o2"])["entries"], 0);
    let statement = program.run(&["wallet", "statement", "a1", "o1", "--csv"]).stdout;
    assert!(String::from_utf8(statement).unwrap().contains(",fair,"), "the ledger has the note");
    std::fs::remove_file(list).unwrap();
    till.assert_audit_clean().await;
}

/// Rule 8.3.5: a gift to a list of players has one amount for all, and a ref for each player.
#[tokio::test(flavor = "multi_thread")]
async fn a_gift_to_a_list_credits_each_player_once() {
    let (program, url) = program().await;
    program.json(&["app", "create", "a1"]);
    let players = (0..2000).map(|index| format!("p{index}\n")).collect::<Vec<_>>().concat();
    let list = file("gift.csv", &format!("open_id\n{players}p7\n"));
    let gift = [
        "wallet",
        "import",
        "a1",
        list.to_str().unwrap(),
        "--free",
        "30",
        "--ref-prefix",
        "fair",
        "--create",
    ];
    let of = |credited: u32, replayed: u32| {
        json!({
            "app_id": "a1", "rows": 2001, "credited": credited, "replayed": replayed, "refused": 0,
            "free": 30 * credited, "charge": 0,
        })
    };
    assert_eq!(program.json(&[&gift[..], &["--dry-run"]].concat()), of(2000, 1));
    // Nothing was credited before: the last line repeats another.
    let told = program.run(&[&gift[..], &["--dry-run"]].concat()).stdout;
    let words = "a1: 2001 lines, 2000 would be credited (60000 gifted and 0 charged coins), 1 are credited already or repeat \
         another line, 0 refused\n";
    assert_eq!(String::from_utf8(told).unwrap(), words);
    assert_eq!(program.json(&gift), of(2000, 1));
    assert_eq!(program.json(&gift), of(0, 2001));
    let shown = program.json(&["wallet", "show", "a1", "p7"]);
    assert_eq!((&shown["free_balance"], &shown["entries"]), (&json!(30), &json!(1)));
    let statement = program.json(&["wallet", "statement", "a1", "p7"]);
    assert_eq!(statement["entries"][0]["ref"], "fair-p7");
    let twice = program.complaint(&[&gift[..], &["--charge", "1"]].concat());
    assert!(twice.ends_with("minitill: nothing was credited: 2001 of 2001 lines cannot be\n"), "{twice}");
    std::fs::write(&list, "open_id,free\np1,5\n").unwrap();
    let both = program.complaint(&gift);
    assert!(both.ends_with(": the column free and --free name the same twice\n"), "{both}");
    std::fs::remove_file(list).unwrap();
    TestTill::start_on(url, |_| {}).await.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_gives_the_vectors_of_the_contract_without_a_database() {
    let program = Program::on("postgres://nobody@127.0.0.1:1/none");
    let key = "B7Y0c6E5bCKMEQOsvCExziNhq16ObGqh";
    let signed = program.json(&[
        "sign",
        "--key",
        key,
        "zone_id=fu001_role001",
        "os=android",
        "buy_quantity=100",
        "currency_type=CNY",
        "extension={}",
        "third_party_trade_no=123456",
        "access_token=not signed",
        "empty=",
    ]);
    assert_eq!(keys(&signed), ["body", "sign", "string_to_sign"]);
    assert_eq!(signed["sign"], "c16908b30bf05f54f7aa89326308fa9ed9c98c96d6aa58be682a3b75e4f2a907");
    assert_eq!(
        signed["string_to_sign"],
        "buy_quantity=100&currency_type=CNY&extension={}&os=android&third_party_trade_no=123456&zone_id=fu001_role001"
    );
    // The guides show it in this order: each follows from the one before.
    let shown = program.run(&["sign", "--key", key, "os=android"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    let names: Vec<_> = shown.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["string_to_sign", "sign", "body"]);
    let file = std::env::temp_dir().join(format!("minitill-pay-key-{}", std::process::id()));
    std::fs::write(&file, format!("{key}\n")).unwrap();
    let of_file = program.json(&["sign", "--key-file", file.to_str().unwrap(), "zone_id=1", "os=android"]);
    assert_eq!(of_file, program.json(&["sign", "--key", key, "zone_id=1", "os=android"]));
    std::fs::remove_file(&file).unwrap();
    let gone = program.complaint(&["sign", "--key-file", "/nowhere", "os=android"]);
    assert!(gone.starts_with("minitill: --key-file: cannot read /nowhere: No such file"), "{gone}");
    let form = "app_id=kwaiApp001&buy_quantity=99&currency_type=USD&extension=%7B%7D&open_id=open001&os=android\
                &third_party_trade_no=third001&user_ip=127.0.0.1&zone_id=server1_role1";
    let signed = program.json(&["sign", "--key", key, "--form", form]);
    assert_eq!(signed["sign"], "d8e898cc271725ea93b38801418759ffb0a36b2a16a5078dc08e8fc13890758a");
    assert_eq!(
        signed["body"],
        format!("{form}&sign=d8e898cc271725ea93b38801418759ffb0a36b2a16a5078dc08e8fc13890758a")
    );
    // Rule 2.10.4: line ends behind a form do not count.
    assert_eq!(program.json(&["sign", "--key", key, "--form", &format!("{form}\r\n")]), signed);
    let complaint = program.complaint(&["sign", "--key", key, "--form", "{\"a\":1}"]);
    let expected = "--form: body: expected a form (application/x-www-form-urlencoded), got JSON";
    assert_eq!(complaint, format!("minitill: {expected}\n"));
}

/// Rule 2.11.2: a file with more than the key, or with something else, signs nothing.
#[test]
fn a_file_with_more_than_the_key_is_refused() {
    let program = Program::on("postgres://nobody@127.0.0.1:1/none");
    let key = "B7Y0c6E5bCKMEQOsvCExziNhq16ObGqh";
    let file = std::env::temp_dir().join(format!("minitill-more-than-a-key-{}", std::process::id()));
    for (held, wrong) in [
        (String::new(), "the key is empty"),
        ("\r\n".to_owned(), "the key is empty"),
        (format!("\u{feff}{key}\n"), "the key has a zero-width character around it; use the key alone"),
        (format!("{key}\u{200b}"), "the key has a zero-width character around it; use the key alone"),
        (format!("{key} "), "the key has a blank around it; use the key alone"),
        (format!("\u{a0}{key}"), "the key has a blank around it; use the key alone"),
        (format!("\"{key}\"\n"), "the key has quotes around it; use the key alone"),
        (format!("PAY_KEY={key}\n"), "the key has a name before it: send the value alone"),
        ("YOUR_PAY_KEY\n".to_owned(), "the key is a placeholder, which nothing replaced"),
    ] {
        std::fs::write(&file, &held).unwrap();
        let complaint = program.complaint(&["sign", "--key-file", file.to_str().unwrap(), "os=android"]);
        assert_eq!(complaint, format!("minitill: --key-file: {wrong}\n"), "{held:?}");
    }
    let utf16: Vec<u8> = key.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (held, wrong) in [
        (utf16.clone(), "expected UTF-8 text, got UTF-16"),
        ([&b"\xff\xfe"[..], &utf16].concat(), "expected UTF-8 text, got UTF-16"),
        (b"k\xff".to_vec(), "expected UTF-8 text"),
    ] {
        std::fs::write(&file, &held).unwrap();
        let complaint = program.complaint(&["sign", "--key-file", file.to_str().unwrap(), "os=android"]);
        let expected = format!("minitill: --key-file: cannot read {}: {wrong}\n", file.display());
        assert_eq!(complaint, expected, "{held:?}");
    }
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_2_and_what_is_wrong_is_said() {
    let program = Program::on("postgres://nobody@127.0.0.1:1/none");
    for arguments in [
        &["nonsense"][..],
        &["app", "create"],
        &["app", "create", "a b"],
        &["app", "create", "a1", "--scope", "other"],
        &["wallet", "credit", "a1", "o1", "--free", "-1", "--ref", "r"],
        &["wallet", "credit", "a1", "o1", "--free", "1"],
        &["app", "publish", "a1", "--version", "1"],
        &["app", "publish", "a1", "--version", " 9", "--path", "pages/a"],
        &["app", "publish", "a1", "--version", "9", "--path", "pages/a "],
        &["app", "publish", "a1", "--version", "9", "--path", "pages/a,pages/b"],
        &["app", "poi", "add", "a1", "p1", "\u{feff}p2"],
        &["wallet", "freeze", "a1", "o1", "--reason", " "],
        &["wallet", "debit", "a1", "o1", "--free", "1", "--ref", "r "],
        &["token", "issue", "a1", "--ttl", "soon"],
        &["token", "issue", "a1", "--ttl", "0s"],
        &["token", "issue", "a1", "--ttl", "100000d"],
        &["wallet", "credit", "a1", "o1", "--charge", "01", "--ref", "r"],
        &["wallet", "credit", "a1", "o1", "--charge", "+1", "--ref", "r"],
        &["wallet", "debit", "a1", "o1", "--free", "01", "--ref", "r"],
        &["wallet", "import", "a1", "/nowhere", "--free", "01"],
        &["token", "revoke", "a1"],
        &["token", "revoke", "a1", "--all", "--token", "t"],
        &["sign", "--key", "k"],
        &["sign", "os=android"],
        &["sign", "--key", "k", "--key-file", "f", "os=android"],
    ] {
        assert_eq!(program.run(arguments).status.code(), Some(2), "{arguments:?}");
    }
    let coins = program.run(&["wallet", "credit", "a1", "o1", "--charge", "1.0", "--ref", "r"]);
    let told = "error: invalid value '1.0' for '--charge <CHARGE>': expected an integer from 0 to 9223372036854775807";
    assert!(coins.stderr.starts_with(told.as_bytes()), "{}", String::from_utf8_lossy(&coins.stderr));
    let nothing = program.run(&["sign", "--key", "k"]);
    let told = String::from_utf8_lossy(&nothing.stderr);
    let missing = told.lines().nth(1).unwrap_or_default();
    assert!(missing.contains("--form <FORM>") && missing.contains("FIELD=VALUE"), "{told}");
    let both = program.run(&["sign", "--key", "k", "--form", "a=1", "os=android"]);
    assert_eq!(both.status.code(), Some(2), "{}", String::from_utf8_lossy(&both.stderr));
    let lifetime = program.run(&["token", "issue", "a1", "--ttl", "0s"]);
    let told = "error: invalid value '0s' for '--ttl <TTL>': expected a lifetime from 1s to 366d";
    assert!(lifetime.stderr.starts_with(told.as_bytes()), "{}", String::from_utf8_lossy(&lifetime.stderr));
    let setting = program.clone().with("MINITILL_PUBLIC__PORT", "1").complaint(&["app", "list"]);
    assert_eq!(setting, "minitill: unknown setting public.port (variable MINITILL_PUBLIC__PORT)\n");
    let url = program.with("DATABASE_URL", "mysql://x:secret@y").complaint(&["app", "list"]);
    assert!(url.contains("database.url: expected postgres://") && !url.contains("secret"), "{url}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_url_commands_say_that_migrations_are_due_and_migrate_applies_them() {
    let program = Program::on(&empty_database("empty").await);
    let due = "minitill: the database does not have the schema of this program; run `minitill migrate`\n";
    assert_eq!(program.complaint(&["app", "list"]), due);
    // Several at once do not trip over each other.
    let quiet =
        || program.command(&["migrate", "--json"]).stdout(std::process::Stdio::null()).spawn().unwrap();
    let several: Vec<_> = (0..4).map(|_| quiet()).collect();
    for mut one in several {
        assert!(one.wait().unwrap().success());
    }
    assert_eq!(program.json(&["migrate"]), json!({"pending": 0, "distributed": []}));
    assert_eq!(program.json(&["app", "list"]), json!({"apps": []}));
}

/// Contract 9.3.2: a role that may not migrate is told who can, and a start does not wait for that.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_not_create_tables_is_told_who_migrates() {
    let owner = TestTill::start().await;
    owner.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC").await;
    let on = |url: &str| {
        // A till of the developer may listen on the usual ports.
        Program::on(url)
            .with("MINITILL_PUBLIC__LISTEN", "127.0.0.1:0")
            .with("MINITILL_OPS__LISTEN", "127.0.0.1:0")
    };
    let without_rights = on(&owner.url_of_role("").await);
    let unread = "minitill: this role may not read the tables: run rights.sql as the role that owns them \
                  (42501: permission denied for table _sqlx_migrations)\n";
    for command in [&["app", "list"][..], &["migrate"], &["serve"]] {
        assert_eq!(without_rights.complaint(command), unread, "{command:?}");
    }
    let server = on(&owner.url_of_role(&committed("deploy/rights.sql")).await);
    assert_eq!(server.json(&["migrate"]), json!({"pending": 0, "distributed": []}));
    owner.execute("DELETE FROM _sqlx_migrations WHERE version = 1").await;
    let due = "minitill: a migration is due, and this role may not create tables: \
               run `minitill migrate` as the role that owns the tables\n";
    for command in [&["app", "list"][..], &["migrate"], &["serve"]] {
        assert_eq!(server.complaint(command), due, "{command:?}");
    }
}

/// Contract 9.3.4: instances can be upgraded one by one.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_ahead_of_the_program_is_accepted_and_one_that_differs_is_refused() {
    let url = empty_database("ahead").await;
    let program = Program::on(&url);
    assert_eq!(program.json(&["migrate"]), json!({"pending": 0, "distributed": []}));
    let sql = sqlx::PgPool::connect(&url).await.unwrap();
    let ahead = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 VALUES (99, 'of a newer program', true, '\\x00', 0)";
    sqlx::raw_sql(ahead).execute(&sql).await.unwrap();
    assert_eq!(program.json(&["migrate"]), json!({"pending": 0, "distributed": []}));
    assert_eq!(program.json(&["app", "list"]), json!({"apps": []}));
    let server = program.serve(None).await;
    assert_eq!(Request::get("/readyz").send(server.operator_address).await.status, 200);
    // A newer migration does not stand in for one of this program's.
    sqlx::raw_sql("DELETE FROM _sqlx_migrations WHERE version = 1").execute(&sql).await.unwrap();
    assert_eq!(Request::get("/readyz").send(server.operator_address).await.status, 503);
    // A schema that another migration of the same number made is not this program's.
    sqlx::raw_sql("UPDATE _sqlx_migrations SET version = 1 WHERE version = 99").execute(&sql).await.unwrap();
    let complaint = program.complaint(&["migrate"]);
    assert!(complaint.contains("migration 1 was previously applied but has been modified"), "{complaint}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_may_start_at_once_on_an_empty_database() {
    let program = Program::on(&empty_database("both").await);
    let (first, second) = tokio::join!(program.serve(None), program.serve(None));
    for server in [&first, &second] {
        assert_eq!(Request::get("/readyz").send(server.operator_address).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_key_that_does_not_fit_is_refused_in_words() {
    let (program, _) = program().await;
    program.json(&["app", "create", "a1"]);
    let other = program.clone().with("MINITILL_SECRETS__MASTER_KEY", &"22".repeat(32));
    let refused = "minitill: the master key does not fit this database: its apps were encrypted with another one \
                   (key from secrets.master_key)\n";
    assert_eq!(other.complaint(&["app", "list"]), refused);
    // A till of the developer may listen on the usual ports.
    let free =
        other.with("MINITILL_PUBLIC__LISTEN", "127.0.0.1:0").with("MINITILL_OPS__LISTEN", "127.0.0.1:0");
    assert_eq!(free.complaint(&["serve"]), refused);
    let malformed = program.clone().with("MINITILL_SECRETS__MASTER_KEY", "xyz").complaint(&["app", "list"]);
    assert_eq!(malformed, "minitill: secrets.master_key: expected 64 hexadecimal digits\n");
    let nowhere = std::env::temp_dir().join(format!("minitill-no-key-{}", std::process::id()));
    let missing = program
        .with("MINITILL_SECRETS__MASTER_KEY", "")
        .with("MINITILL_SECRETS__MASTER_KEY_FILE", nowhere.to_str().unwrap())
        .complaint(&["app", "list"]);
    assert!(
        missing.starts_with(&format!(
            "minitill: there is no master key at {}, but the database has apps",
            nowhere.display()
        )),
        "{missing}"
    );
    assert!(!nowhere.exists());
}

/// Rule (contract 8.4.3): the demonstration finds the running server by the file that it left in the
/// data folder. The file of a killed server does not mislead it.
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_demonstration_succeed_as_printed() {
    let (program, url) = program().await;
    let folder = std::env::temp_dir().join(format!("minitill-demo-{}", std::process::id()));
    let program = program.with("MINITILL_DATABASE__DATA_DIR", folder.to_str().unwrap());
    let server = program.serve(None).await;
    for _ in 0..2 {
        let made = program.json(&["demo"]);
        let run = |name: &str| {
            let command = made["commands"][name].as_str().unwrap();
            let output = std::process::Command::new("sh").arg("-c").arg(command).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let first = run("exchange");
        assert!(first.contains(r#"{"code":1,"msg":"SUCCESS","data":{"bizNo":"demo"#), "{first}");
        assert!(!first.to_ascii_lowercase().contains("idempotent-replayed"));
        assert!(run("exchange").to_ascii_lowercase().contains("idempotent-replayed: true"));
        assert_eq!(run("report").trim(), r#"{"result":1,"error_msg":"success"}"#);
        let uploaded =
            format!(r#"{{"result":1,"error_msg":"success","data":{{"imgId":{}}}}}"#, made["img_id"]);
        assert_eq!(run("upload_with_file").trim(), uploaded);
        assert_eq!(run("upload_with_url").trim(), uploaded);
        let login = run("login");
        let known = r#"{"result":1,"error_msg":"success","open_id":"sandbox-alice","session_key":""#;
        assert!(login.starts_with(known), "{login}");
    }
    let of_server = folder.join(format!("server-127.0.0.1-{}.json", server.operator_address.port()));
    let left = std::fs::read(&of_server).unwrap();
    let second = program.serve(None).await;
    server.terminate();
    assert!(!of_server.exists());
    let status = program.json(&["status"]);
    assert_eq!(status["operator"], format!("http://{}", second.operator_address), "it still runs");
    second.terminate();
    std::fs::write(&of_server, left).unwrap();
    let elsewhere = program.with("MINITILL_PUBLIC__LISTEN", "127.0.0.1:4711").json(&["demo"]);
    assert!(elsewhere["commands"]["exchange"].as_str().unwrap().contains("http://127.0.0.1:4711/api/"));
    std::fs::remove_dir_all(folder).unwrap();
    TestTill::start_on(url, |_| {}).await.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_holds_a_line_for_each_refusal_and_no_secret() {
    let (program, _) = program().await;
    let made = program.json(&["app", "create", "a1", "--sandbox"]);
    let token = program.json(&["token", "issue", "a1"])["access_token"].as_str().unwrap().to_owned();
    let log = file("log.jsonl", "");
    for filter in ["info,sqlx=warn", "trace"] {
        let server = program
            .clone()
            .with("MINITILL_LOG__FORMAT", "json")
            .with("MINITILL_LOG__FILTER", filter)
            .serve(Some(log.clone()))
            .await;
        let body = format!(
            "access_token={token}&app_id=a1&sign=5ec7e7516&user_ip=203.0.113.77&open_id=private-body"
        );
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let request = Request::post("/api/kpay/minigame/pay")
            .header("x-request-id", "my-id")
            .header("traceparent", trace)
            .body(body);
        assert_eq!(request.send(server.address).await.code(), 100_200_114);
        let query = format!(
            "/oauth2/access_token?app_id=a1&app_secret={}&grant_type=client_credentials",
            made["app_secret"].as_str().unwrap()
        );
        assert_eq!(Request::get(&query).send(server.address).await.code(), 1);
        Request::get(&format!("/made-up-path/{token}?access_token={token}")).send(server.address).await;
        assert_eq!(Request::new(&token, "/api/kpay/minigame/pay").send(server.address).await.status, 405);
        server.terminate();
        let text = std::fs::read_to_string(&log).unwrap();
        for secret in [
            token.as_str(),
            "5ec7e7516",
            "203.0.113.77",
            "private-body",
            made["app_secret"].as_str().unwrap(),
            made["pay_key"].as_str().unwrap(),
        ] {
            assert!(!text.contains(secret), "{secret} in the log at {filter}");
        }
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let refused =
            lines.iter().find(|line| line["message"] == "refused" && line["code"] == 100_200_114).unwrap();
        assert_eq!(refused["endpoint"], "/api/{payment_segment}/minigame/pay");
        assert_eq!(refused["span"]["request_id"], "my-id");
        assert_eq!(refused["span"]["app_id"], "a1");
        assert_eq!(refused["span"]["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
        let unknown =
            lines.iter().find(|line| line["message"] == "refused" && line["status"] == 404).unwrap();
        assert_eq!(unknown["path"], format!("/made-up-path/{}...", &token[..4]), "contract 2.2.6");
        let made_up = lines.iter().find(|line| line["status"] == 405).unwrap();
        assert_eq!(made_up["method"], "other", "contract 9.7.9");
        let answered = lines.iter().any(|line| line["message"] == "answered");
        assert_eq!(answered, filter == "trace", "successes are logged at debug");
    }
    std::fs::remove_file(log).unwrap();
}

/// Contract 2.8: a key or a password appears in no error, also where its own line cannot be read.
#[tokio::test(flavor = "multi_thread")]
async fn a_slip_in_a_settings_file_is_placed_but_not_shown() {
    let program = Program::on("postgres://nobody@localhost/none");
    for (text, line) in [
        ("[secrets]\nmaster_key = \"planted-secret\n", 2),
        ("[secrets]\nmaster_key = planted-secret\n", 2),
        ("[database]\n# a comment\nurl = 'postgres://m:planted-secret@h/d\" \n", 3),
        ("[database]\nurl = \"a\"\nurl = \"planted-secret\"\n", 3),
    ] {
        let file = file("slip.toml", text);
        let path = file.to_str().unwrap();
        let complaint = program.complaint(&["app", "list", "--config", path]);
        assert!(complaint.starts_with(&format!("minitill: {path}, line {line}: ")), "{complaint}");
        assert!(!complaint.contains("planted-secret"), "{complaint}");
        std::fs::remove_file(&file).unwrap();
    }
    let digits = file("digits.toml", "[image_judge]\nsecret = 1234567890123456\n");
    let complaint = program.complaint(&["app", "list", "--config", digits.to_str().unwrap()]);
    assert!(complaint.contains("secret") && complaint.contains("expected a text in quotes"), "{complaint}");
    assert!(!complaint.contains("123456"), "{complaint}");
    std::fs::remove_file(&digits).unwrap();
}

#[test]
fn the_committed_page_of_commands_is_what_the_program_prints() {
    let program = Program::on("postgres://nowhere");
    let printed = String::from_utf8(program.run(&["help-page"]).stdout).unwrap();
    assert_eq!(committed("docs/cli.md"), printed, "run: cargo xtask generate");
    // Completions of every shell know the commands.
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = String::from_utf8(program.run(&["completions", shell]).stdout).unwrap();
        assert!(script.contains("operator-log"), "{shell}: {script}");
    }
}
