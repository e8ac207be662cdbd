//! `minitill player erase` (contract 13.7): what told of the person is gone, and the money is as it was.

use domain::ids::{CreditRef, OpenId, UnionId};
use domain::login::Player;
use domain::operation::app::AppCommand;
use domain::operation::wallet::Credit;
use domain::operator::{Operator, OperatorKind};
use domain::wallet::DeveloperTexts;
use serde_json::json;
use store::{Archive, ArchiveError, ArchiveProgress};

use crate::admin::Caller;
use crate::archive::{Folder, day};
use crate::audit::REHASH;
use crate::game::Game;
use crate::support::program::Program;
use crate::support::{Answer, AppKind, NOW, PAGE, Request, TestApp, TestTill, operator, until};

/// The player who is erased. No other text of the till has it.
const PLAYER: &str = "Erase-me_7c1fQ";

/// The tables whose rows have a text, with their bytes as text too.
const EVERY_ROW: &str = "
    CREATE FUNCTION every_row() RETURNS SETOF text LANGUAGE plpgsql AS $$
        DECLARE t text;
        BEGIN
            FOR t IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
                     WHERE schemaname NOT IN ('pg_catalog', 'information_schema')
                         AND schemaname NOT LIKE 'pg_temp%' LOOP
                RETURN QUERY EXECUTE format('SELECT %L || '': '' || r::text FROM %s r', t, t);
            END LOOP;
        END
    $$";

/// The rows that have one of these texts, also as bytes.
async fn rows_with(till: &TestTill, texts: &[&str]) -> Vec<String> {
    let texts: Vec<String> = texts.iter().flat_map(|text| [(*text).to_owned(), hex::encode(text)]).collect();
    sqlx::query_scalar(
        "SELECT r FROM every_row() r WHERE EXISTS (SELECT 1 FROM unnest($1) t WHERE strpos(r, t) > 0)",
    )
    .bind(texts)
    .fetch_all(&till.sql)
    .await
    .unwrap()
}

/// All that counts: every entry with its number, its amounts and its hash, and every balance.
async fn money(till: &TestTill) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT ROW(app_no, wallet_no, seq, kind, reference, free_change, charge_change, free_balance, charge_balance,
             remaining, of_biz_no, item_id, pay_priority, at, chain_hash)::text FROM ledger_entries
         UNION ALL SELECT ROW(app_no, wallet_no, seq, kind, reference, free_change, charge_change, remaining, of_biz_no,
             item_id, at)::text FROM archived_entries
         UNION ALL SELECT ROW(app_no, wallet_no, free_balance, charge_balance, entry_count, chain_hash)::text FROM wallets
         ORDER BY 1",
    )
    .fetch_all(&till.sql)
    .await
    .unwrap()
}

async fn pay(till: &TestTill, app: &TestApp, player: &str, number: &str) {
    let (user_ip, zone_id, text) = if player == PLAYER {
        ("203.0.113.77", "7_role9913", "call me Ishmael")
    } else {
        ("203.0.113.5", "7_role5", "call the other")
    };
    let game = Game::new(app, player, number, 2)
        .with("pay_priority", 1)
        .with("user_ip", user_ip)
        .with("zone_id", zone_id)
        .with_texts(text);
    let answer = game.send(till).await;
    assert_eq!(answer.code(), 1, "{}", answer.body);
}

async fn credit(till: &TestTill, app: &TestApp, (player, free): (&str, i64), reference: &str, note: &str) {
    let (open_id, reference) = (OpenId::parse(player).unwrap(), CreditRef::parse(reference).unwrap());
    let credit = Credit { open_id, free, charge: 0, reference, note: note.to_owned(), create: true };
    till.store.change_wallet(&operator(), &app.id, credit).await.unwrap();
}

async fn report(till: &TestTill, app: &TestApp, player: &str, order: &str, status: i16) {
    let answer = send_report(till, app, player, order, status).await;
    assert_eq!(answer.json()["result"], 1, "{}", answer.body);
}

async fn send_report(till: &TestTill, app: &TestApp, player: &str, order: &str, status: i16) -> Answer {
    let img_id = till.image(app).await;
    let path = format!("/openapi/mp/developer/order/v1/report?app_id={}&access_token={}", app.id, app.token);
    let report = json!({
        "out_biz_order_no": order, "out_order_no": format!("{order}-pay"), "open_id": player,
        "order_create_time": NOW - 1000, "order_status": status, "order_path": PAGE, "product_cover_img_id": img_id,
    });
    till.send(Request::post(&path).body(report.to_string())).await
}

/// A player of whom there is something in every table, with others beside. Half of the entries are archived. The receiver
/// answers what it was sent.
async fn stage(name: &str) -> (TestTill, TestApp, Program, Folder) {
    let till = TestTill::start().await;
    till.execute(EVERY_ROW).await;
    till.execute(REHASH).await;
    let app = till.app_like("a1", AppKind { scopes: &domain::app::Scope::ALL, ..AppKind::default() }).await;
    let both = [PLAYER, "other"].map(|player| OpenId::parse(player).unwrap());
    till.command(&app, AppCommand::AddUsers(both.into())).await;
    for (player, free) in [(PLAYER, 100), ("other", 50)] {
        credit(&till, &app, (player, free), &format!("start-{free}"), "").await;
        pay(&till, &app, player, &format!("b{free}")).await;
        let closed = Game::query(&app, player, &format!("x{free}")).with("close", 1).send(&till).await;
        assert_eq!(closed.code(), 1);
    }
    crate::archive::age(&till, 240).await;
    let program = Program::on(&till.database_url);
    let folder = Folder::new(name);
    program.json(&["receiver", "add", "a1", "https://game.example/told"]);
    program.json(&["archive", "--before", &day(&till).await, "--to", folder.path()]);
    for (player, free) in [(PLAYER, 100), ("other", 50)] {
        pay(&till, &app, player, &format!("c{free}")).await;
        report(&till, &app, player, &format!("order-{free}"), 1).await;
        report(&till, &app, player, &format!("order-{free}"), 2).await;
        assert_ne!(Game::new(&app, player, &format!("no{free}"), 99_999).send(&till).await.code(), 1);
        let union_id = UnionId::parse(&format!("person-{free}")).unwrap();
        let login = Player { open_id: OpenId::parse(player).unwrap(), union_id: Some(union_id) };
        till.command(&app, AppCommand::IssueLoginCode(login)).await;
        till.command(&app, AppCommand::AddUsers(vec![OpenId::parse(&format!("{player}2")).unwrap()])).await;
    }
    till.store.write_refusals().await.unwrap();
    credit(&till, &app, (PLAYER, 1), "r1", "the phone number is 555").await;
    credit(&till, &app, ("other", 1), "r2", "not for Erase-me_7c1fQ, for other").await;
    let csv = folder.file("credits.csv");
    std::fs::write(&csv, format!("open_id,free,charge,ref\n{PLAYER},1,0,i1\nother,1,0,i2\n")).unwrap();
    program.json(&["wallet", "import", "a1", &csv]);
    till.execute(&format!(
        "UPDATE receivers SET paused_at = now(), paused_by = 'receiver', last_error = 'it said {PLAYER}',
             tries = '[{{\"answer\": \"no {PLAYER}!\"}}]';
         INSERT INTO deliveries (app_id, receiver_id, event_no, event_id, event_at, type, state, tries, error)
         SELECT 'a1', receiver_id, 1, 'evt', now(), 'exchange.succeeded', 'failed', 9, 'it said {PLAYER}' FROM receivers"
    ))
    .await;
    let open_id = OpenId::parse(PLAYER).unwrap();
    let (reference, note) = (CreditRef::parse("large").unwrap(), format!("gift for {PLAYER}"));
    let large = Credit { open_id: open_id.clone(), free: 5, charge: 0, reference, note, create: false };
    till.store.ask_for_change(&operator(), &app.id, &open_id, large.into()).await.unwrap();
    till.store.number_events(None).await.unwrap();
    (till, app, program, folder)
}

/// What tells of the person, in the rows before the erasure.
const PERSONAL: [&str; 8] = [
    PLAYER,
    "203.0.113.77",
    "role9913",
    "Ishmael",
    "person-100",
    "phone number",
    "gift for",
    "order-100-pay",
];

/// Contract 13.7.1 to 13.7.6: nothing of the person is left in any row. The money is the same to the byte, the audit is
/// clean, and the other player has all that was there.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_an_erased_player_is_left_but_the_money() {
    let (till, app, program, folder) = stage("erasure").await;
    let checkpoint = folder.file("before.checkpoint");
    program.json(&["audit", "--checkpoint", &checkpoint]);
    for text in PERSONAL {
        assert!(!rows_with(&till, &[text]).await.is_empty(), "{text} was not there");
    }
    let (before, others) = (money(&till).await, rows_with(&till, &["other", "order-50", "person-50"]).await);
    let statement = ["report", "revenue", "a1", "--since", "2020-01-01", "--group", "zone"];
    let revenue = program.json(&statement);

    let erased = program.json(&["player", "erase", "a1", PLAYER]);
    let pseudonym = erased["pseudonym"].as_str().unwrap().to_owned();
    assert!(pseudonym.starts_with("erased-") && pseudonym.len() == 27, "{pseudonym}");
    assert_eq!(
        erased["rows"],
        json!({ "wallet": 1, "ledger_entries": 3, "archived_entries": 2, "refusals": 1, "login_codes": 1, "orders": 1,
            "topup_payments": 0, "change_requests": 1, "operator_log": 7 })
    );
    assert_eq!(erased["archive_files"].as_array().unwrap().len(), 1);

    assert_eq!(rows_with(&till, &PERSONAL[1..]).await, Vec::<String>::new());
    // Another player's name only begins with the same.
    let left = rows_with(&till, &[PLAYER]).await;
    assert!(left.iter().all(|row| !row.replace(&format!("{PLAYER}2"), "").contains(PLAYER)), "{left:#?}");
    let others_now = rows_with(&till, &["other", "order-50", "person-50"]).await;
    let of_both = |row: &&String| !others_now.contains(row) && !row.contains(PLAYER);
    assert_eq!(others.iter().find(of_both), None, "the other player's");
    assert_eq!(money(&till).await, before);
    assert_eq!(program.json(&statement), revenue, "sums by zone");
    till.assert_audit_clean().await;
    assert_eq!(program.json(&["audit", "--since", &checkpoint])["clean"], true);
    program.json(&["archive", "verify", erased["archive_files"][0].as_str().unwrap()]);

    // The log: who and when, and what else it tells of the player.
    let lines = program.json(&["operator-log", "--app", "a1", "--subject", &pseudonym])["lines"].clone();
    let told =
        |name: &str| lines.as_array().unwrap().iter().map(|line| line[name].clone()).collect::<Vec<_>>();
    assert_eq!(
        json!(told("action")),
        json!([
            "user.add",
            "wallet.credit",
            "login_code.issue",
            "wallet.credit",
            "wallet.credits",
            "change_request.ask",
            "change_request.refuse",
            "player.erase"
        ])
    );
    assert_eq!(told("note")[1..], ["", "", "", "", "", "the player was erased", ""]);
    // Nobody confirms a change of an erased player.
    let ended = "SELECT count(*) FROM console_requests WHERE ref = 'large' AND state = 'refused'";
    assert_eq!(till.number(ended).await, 1);
    assert_eq!(lines[3]["after"]["ref"], "r1");
    assert_eq!(lines[7]["after"]["rows"], erased["rows"]);
    let noted = "SELECT note FROM operator_log WHERE subject = 'other' AND after ->> 'ref' = 'r2'";
    let noted: String = sqlx::query_scalar(noted).fetch_one(&till.sql).await.unwrap();
    assert_eq!(noted, format!("not for {pseudonym}, for other"));

    // The player is unknown, and a number is not used twice, whoever sends it.
    let refused = program.complaint(&["player", "erase", "a1", PLAYER]);
    assert_eq!(refused, format!("minitill: nothing is recorded of a player {PLAYER} of an app a1\n"));
    let unknown = format!(
        "open_id: expected a player of this app; a login makes a player known, and so does the operator's `minitill user add`, \
         got \"{PLAYER}\""
    );
    Game::new(&app, PLAYER, "new", 1).send(&till).await.assert_refused(10_000_423, &unknown);
    till.command(&app, AppCommand::AddUsers(vec![OpenId::parse(PLAYER).unwrap()])).await;
    credit(&till, &app, (PLAYER, 9), "r3", "").await;
    for number in ["b100", "c100", "x100"] {
        let again = Game::new(&app, PLAYER, number, 2).with("pay_priority", 1).send(&till).await;
        assert_ne!(again.code(), 1, "{number}: {}", again.body);
    }
    assert_eq!(till.purses(&app, PLAYER).await, (9, 0, 1));
    till.assert_audit_clean().await;
}

/// Contract 13.7.7: entries that come back from an archive come without the texts, and the next archive has none.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_archive_brings_no_text_back() {
    let (till, _, program, folder) = stage("erasure-restored").await;
    let erased = program.json(&["player", "erase", "a1", PLAYER]);
    let file = erased["archive_files"][0].as_str().unwrap();
    program.json(&["archive", "restore", file]);
    std::fs::remove_file(file).unwrap();
    for text in ["203.0.113.77", "role9913", "Ishmael", "phone number"] {
        assert_eq!(rows_with(&till, &[text]).await, Vec::<String>::new());
    }
    till.assert_audit_clean().await;
    program.json(&["archive", "--before", &day(&till).await, "--to", folder.path()]);
    let file = program.json(&["archive", "list"])["archives"][0]["file"].as_str().unwrap().to_owned();
    let mut text = String::new();
    let file = std::fs::File::open(file).unwrap();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
    assert!(text.contains("erased-") && text.contains("role5"), "{text}");
    assert!(!text.contains(PLAYER) && !text.contains("Ishmael"), "{text}");
}

/// Contract 13.7.4 and 13.7.9: texts that a game can fill go from items, sums and the log, and the audit still knows the items.
/// What stays is printed with its reason, and nothing else stays.
#[tokio::test(flavor = "multi_thread")]
async fn texts_of_products_go_and_what_is_left_is_told() {
    let till = TestTill::start().await;
    till.execute(EVERY_ROW).await;
    let app = till.app("a1").await;
    let program = Program::on(&till.database_url);
    till.player(&app, PLAYER, 0, 100).await;
    till.player(&app, "other", 0, 100).await;
    let gift = |player: &str, number: &str| {
        let name = format!("Gift of {PLAYER}");
        Game::new(&app, player, number, 7)
            .with("product_name", name)
            .with("product_desc", format!("{PLAYER}: hi"))
    };
    let answers = [gift("other", "g1").send(&till).await, gift(PLAYER, "g2").send(&till).await];
    assert!(answers.iter().all(|answer| answer.code() == 1), "{}", answers[0].body);
    // What a refused exchange of another player wanted to buy.
    assert_eq!(gift("other", "g9").with("amount", 999).send(&till).await.code(), 10_000_601);
    till.store.write_refusals().await.unwrap();
    till.store.number_events(None).await.unwrap();
    till.store.roll_up_sales().await.unwrap();
    let named = format!("{PLAYER}.csv");
    let (folder, note) = (Folder::new("erasure-left"), format!("as {PLAYER} asked"));
    std::fs::create_dir_all(folder.path()).unwrap();
    std::fs::write(folder.file(&named), format!("open_id,free,charge,ref\nother,1,0,{PLAYER}\n")).unwrap();
    program.json(&["wallet", "import", "a1", &folder.file(&named)]);
    program.json(&["receiver", "add", "a1", &format!("https://game.example/{PLAYER}")]);
    let open_id = OpenId::parse("other").unwrap();
    let reference = CreditRef::parse("large").unwrap();
    let large = Credit { open_id: open_id.clone(), free: 5, charge: 0, reference, note, create: false };
    till.store.ask_for_change(&operator(), &app.id, &open_id, large.into()).await.unwrap();
    // Another app has a player of the same name.
    let namesake = till.app("a2").await;
    till.player(&namesake, PLAYER, 0, 1).await;
    let checkpoint = folder.file("before.checkpoint");
    program.json(&["audit", "--checkpoint", &checkpoint]);
    let by_product = ["report", "revenue", "a1", "--since", "2020-01-01", "--group", "zone"];
    let revenue = program.json(&by_product);

    let output = program.run(&["player", "erase", "a1", PLAYER, "--json"]);
    let erased: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(erased["rows"]["items"], 1);
    let what_set = "in a number or a longer name, or what an operator set";
    let number = "a number that a game or an operator chose";
    assert_eq!(
        erased["left"],
        json!([
            { "column": "ledger_entries.reference", "rows": 2, "why": number },
            { "column": "operator_log.after", "rows": 2, "why": what_set },
            { "column": "operator_log.credits", "rows": 1, "why": what_set },
            { "column": "operator_log.state", "rows": 1, "why": what_set },
            { "column": "receivers.url", "rows": 1, "why": "the URL of a receiver" },
        ])
    );
    let left = rows_with(&till, &[PLAYER]).await;
    // The two refs, the receiver, three lines of the log, and the namesake with its entry and its line.
    assert_eq!(left.len(), 2 + 1 + 3 + 3, "{left:#?}");
    till.assert_audit_clean().await;
    assert_eq!(program.json(&["audit", "--since", &checkpoint])["clean"], true);
    assert_eq!(program.json(&by_product), revenue);
    let check = till.store.check_roll_up(&app.id).await.unwrap();
    assert_eq!(json!(check)["ties"], true, "{}", json!(check));
    // A repeat with the texts of then is still the same exchange.
    assert_eq!(gift("other", "g1").send(&till).await.body, answers[0].body);
    assert_eq!(gift("other", "g3").send(&till).await.code(), 1);
    assert_eq!(till.number("SELECT count(*) FROM items WHERE product_desc LIKE 'erased-%: hi'").await, 1);
    let refused = "SELECT count(*) FROM exchange_refusals WHERE product_name LIKE 'Gift of erased-%'";
    assert_eq!(till.number(refused).await, 1);
    // Other texts than those of the erasure are found.
    till.execute("UPDATE items SET product_desc = 'mine'").await;
    let found = till.audit(None).await;
    let found: Vec<_> = found.findings.iter().map(|found| found.detail.as_str()).collect();
    assert!(found.len() == 1 && found[0].ends_with("its texts are not those of its id"), "{found:?}");
}

/// Contract 13.7.9: a zone and a key of a request are told that have the player as a part of a word.
#[tokio::test(flavor = "multi_thread")]
async fn a_player_in_a_longer_word_is_told() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, PLAYER, 0, 100).await;
    till.player(&app, "other", 0, 100).await;
    let zone = format!("z{PLAYER}_r1");
    assert_eq!(Game::new(&app, "other", "b1", 1).with("zone_id", zone).send(&till).await.code(), 1);
    till.execute(&format!(
        "INSERT INTO api_requests (api_key, idempotency_key, content_sha256, attempt, answer)
         VALUES ('shop', '{PLAYER}_2026', '', '', '')"
    ))
    .await;
    let open_id = OpenId::parse(PLAYER).unwrap();
    let erased = till.store.erase_player(&operator(), &app.id, &open_id).await.unwrap();
    let left = json!(erased.left);
    for told in [
        json!({ "column": "api_requests.idempotency_key", "rows": 1,
            "why": "a key of a request of the admin API, which goes after a day" }),
        json!({ "column": "ledger_entries.zone_id", "rows": 1, "why": "a zone of the game's server" }),
    ] {
        assert!(left.as_array().unwrap().contains(&told), "{told} is not in {left}");
    }
}

/// Contract 13.7.9: the search at the end comes after the transactions, so nobody waits for it. A player of the same name
/// who comes before it is told.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_the_search_at_the_end() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, PLAYER, 0, 100).await;
    // The search reads this table, and nothing else of an erasure does.
    let mut busy = till.sql.begin().await.unwrap();
    sqlx::query("LOCK TABLE pois IN ACCESS EXCLUSIVE MODE").execute(&mut *busy).await.unwrap();
    let (app_id, open_id, who) = (app.id.clone(), OpenId::parse(PLAYER).unwrap(), operator());
    let meanwhile = async {
        let is_known = format!("SELECT count(*) FROM wallets WHERE open_id = '{PLAYER}'");
        let mut turns = 0;
        while till.number(&is_known).await > 0 && turns < 1_000 {
            turns += 1;
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let is_erased = turns < 1_000;
        if is_erased {
            sqlx::query(
                "INSERT INTO wallets (app_no, wallet_no, open_id) SELECT app_no, 7, $1 FROM apps WHERE app_id = 'a1'",
            )
            .bind(PLAYER)
            .execute(&till.sql)
            .await
            .unwrap();
        }
        busy.rollback().await.unwrap();
        is_erased
    };
    let (erased, is_erased) = tokio::join!(till.store.erase_player(&who, &app_id, &open_id), meanwhile);
    assert!(is_erased, "the erasure waits for its search");
    let told = json!({ "column": "wallets.open_id", "rows": 1, "why": "of a new player of this name, or of a call that was under way: look at these rows" });
    let left = json!(erased.unwrap().left);
    assert!(left.as_array().unwrap().contains(&told), "{left}");
}

/// Contract 13.7.9: the erasure stands where a table cannot be searched, and names the table.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_cannot_be_searched_is_told() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, PLAYER, 0, 100).await;
    // PostgreSQL cannot show the value of a word that its list has lost.
    till.execute(
        "CREATE TYPE damaged_word AS ENUM ('a');
         CREATE TABLE damaged (words damaged_word[]);
         INSERT INTO damaged VALUES ('{a}');
         DELETE FROM pg_enum WHERE enumtypid = 'damaged_word'::regtype",
    )
    .await;
    let open_id = OpenId::parse(PLAYER).unwrap();
    let erased = till.store.erase_player(&operator(), &app.id, &open_id).await.unwrap();
    let why = "not searched to the end: it took too long, or the database was away";
    let told = json!({ "column": "damaged.*", "rows": 0, "why": why });
    let left = json!(erased.left);
    assert!(left.as_array().unwrap().contains(&told), "{left}");
    assert_eq!(till.number(&format!("SELECT count(*) FROM wallets WHERE open_id = '{PLAYER}'")).await, 0);
}

/// Contract 13.7.4: texts of the developer in the entries of others name the pseudonym.
#[tokio::test(flavor = "multi_thread")]
async fn texts_of_others_name_the_pseudonym() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, PLAYER, 0, 100).await;
    till.player(&app, "other", 0, 100).await;
    let told = Game::new(&app, "other", "b1", 1).with_texts(&format!("for {PLAYER}")).send(&till).await;
    assert_eq!(told.code(), 1, "{}", told.body);
    let open_id = OpenId::parse(PLAYER).unwrap();
    till.store.erase_player(&operator(), &app.id, &open_id).await.unwrap();
    for name in DeveloperTexts::NAMES {
        let told = format!("reference = 'b1' AND {name} ~ '^for erased-[0-9a-f]+$'");
        let entries = till.number(&format!("SELECT count(*) FROM ledger_entries WHERE {told}")).await;
        assert_eq!(entries, 1, "{name}");
    }
}

/// Contract 13.7.4: of two erasures at once, neither leaves or restores the name that the other one replaces.
#[tokio::test(flavor = "multi_thread")]
async fn erasures_at_once_replace_both_names() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    for name in ["first", "second", "other"] {
        till.player(&app, name, 0, 100).await;
    }
    let open_id = OpenId::parse("other").unwrap();
    let (reference, note) = (CreditRef::parse("large").unwrap(), "for first and second".to_owned());
    let large = Credit { open_id: open_id.clone(), free: 5, charge: 0, reference, note, create: false };
    till.store.ask_for_change(&operator(), &app.id, &open_id, large.into()).await.unwrap();
    let mut head = till.sql.begin().await.unwrap();
    sqlx::query("SELECT seq FROM operator_log_head FOR UPDATE").execute(&mut *head).await.unwrap();
    let (who, first, second) =
        (operator(), OpenId::parse("first").unwrap(), OpenId::parse("second").unwrap());
    let going_on = async {
        till.until_locked_out(2).await;
        head.rollback().await.unwrap();
    };
    let (first, second, ()) = tokio::join!(
        till.store.erase_player(&who, &app.id, &first),
        till.store.erase_player(&who, &app.id, &second),
        going_on
    );
    let (first, second) = (first.unwrap().pseudonym, second.unwrap().pseudonym);
    let replaced = format!("SELECT count(*) FROM console_requests WHERE reason = 'for {first} and {second}'");
    assert_eq!(till.number(&replaced).await, 1);
    till.assert_audit_clean().await;
}

/// An app whose two players have old entries, and which has no archive.
async fn old_entries() -> (TestTill, TestApp) {
    let till = TestTill::start().await;
    till.execute(REHASH).await;
    let app = till.app("a1").await;
    for (player, number) in [(PLAYER, "b1"), ("other", "b2")] {
        credit(&till, &app, (player, 100), number, &format!("a gift for {PLAYER}")).await;
        pay(&till, &app, player, number).await;
    }
    crate::archive::age(&till, 240).await;
    (till, app)
}

/// Moves what is older than four days into a folder.
async fn archive(till: &TestTill, app: &TestApp, folder: &Folder) -> Result<Vec<Archive>, ArchiveError> {
    let before = time::OffsetDateTime::now_utc() - time::Duration::days(4);
    let progress: ArchiveProgress = Box::new(|_, _| ());
    till.store.archive(&operator(), &app.id, before, folder.path().as_ref(), &progress).await
}

/// Contract 13.7.7: an archive does not begin with a file that was written before an erasure, and the file goes.
#[tokio::test(flavor = "multi_thread")]
async fn an_archive_whose_file_has_an_erased_player_does_not_begin() {
    let ((till, app), folder) = (old_entries().await, Folder::new("erasure-beside-archive"));
    let mut begin = till.sql.begin().await.unwrap();
    sqlx::query("LOCK TABLE archives IN SHARE MODE").execute(&mut *begin).await.unwrap();
    let erasing = async {
        till.until_locked_out(1).await;
        let open_id = OpenId::parse(PLAYER).unwrap();
        let erased = till.store.erase_player(&operator(), &app.id, &open_id).await.unwrap();
        begin.rollback().await.unwrap();
        erased
    };
    let (archived, erased) = tokio::join!(archive(&till, &app, &folder), erasing);
    assert_eq!(
        archived.unwrap_err().to_string(),
        "a player of the app a1 was erased while the file was written; nothing was moved, run this one again"
    );
    assert_eq!(erased.archive_files, Vec::<String>::new());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let written = archive(&till, &app, &folder).await.unwrap();
    till.store.verify_archive(written[0].file.as_ref()).await.unwrap();
    till.assert_audit_clean().await;
}

/// Contract 13.7.8: an erasure that found no archive is not carried out beside the first one.
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_beside_the_first_archive_knows_it() {
    let ((till, app), folder) = (old_entries().await, Folder::new("archive-beside-erasure"));
    let mut wallet = till.sql.begin().await.unwrap();
    let lock = sqlx::query("SELECT 1 FROM wallets WHERE open_id = $1 FOR UPDATE").bind(PLAYER);
    lock.execute(&mut *wallet).await.unwrap();
    let archiving = async {
        till.until_locked_out(1).await;
        let beginning = async {
            until("the archive begins", async || till.number("SELECT count(*) FROM archives").await == 1)
                .await;
            wallet.rollback().await.unwrap();
        };
        tokio::join!(archive(&till, &app, &folder), beginning).0
    };
    let (who, open_id) = (operator(), OpenId::parse(PLAYER).unwrap());
    let (erased, archived) = tokio::join!(till.store.erase_player(&who, &app.id, &open_id), archiving);
    let written = archived.unwrap();
    match erased {
        Ok(erased) => assert_eq!(erased.archive_files, [written[0].file.clone()]),
        Err(refused) => {
            assert!(format!("{refused:?}").contains("are moving to or from an archive"), "{refused:?}");
        }
    }
    till.assert_audit_clean().await;
}

/// Contract 13.7.4: what an operator set stays where a player has its name. So the audit knows the requests of an operator by
/// whose name a player is erased.
#[tokio::test(flavor = "multi_thread")]
async fn a_player_named_like_an_operator_takes_no_request_along() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    for name in ["alice", "credit", "other"] {
        till.player(&app, name, 0, 100).await;
    }
    let alice = Operator::new(OperatorKind::Console, "alice").unwrap();
    let open_id = OpenId::parse("other").unwrap();
    let (reference, note) = (CreditRef::parse("large").unwrap(), "alice asked".to_owned());
    let large = Credit { open_id: open_id.clone(), free: 5, charge: 0, reference, note, create: false };
    till.store.ask_for_change(&alice, &app.id, &open_id, large.into()).await.unwrap();
    for name in ["alice", "credit"] {
        till.store.erase_player(&operator(), &app.id, &OpenId::parse(name).unwrap()).await.unwrap();
    }
    till.assert_audit_clean().await;
    let kept = "state ->> 'asked_by' = 'alice' AND state ->> 'kind' = 'credit' AND state ->> 'reason' ~ '^erased-.* asked$'";
    assert_eq!(till.number(&format!("SELECT count(*) FROM operator_log WHERE {kept}")).await, 1);
}

/// Contract 13.7.4: sums and moments in the operator's log stay, because the till reads them again.
#[tokio::test(flavor = "multi_thread")]
async fn a_player_named_like_a_sum_takes_none_along() {
    let till = TestTill::start_with(|config| config.console.second_person_above = 100).await;
    let app = till.app("a1").await;
    till.player(&app, "other", 0, 100).await;
    let admin = Caller::admin(&till).await;
    let credit =
        |reference: &str| json!({ "credits": [{ "open_id": "other", "free": 5, "ref": reference }] });
    let path = "/apps/a1/credits:batch";
    assert_eq!(admin.send("POST", path, None, &credit("c1")).await.status, 200);
    let log = "operator_log WHERE action = 'wallet.credits'";
    let minute = till.number(&format!("SELECT substr(after ->> 'at', 15, 2)::bigint FROM {log}")).await;
    for name in ["0".to_owned(), format!("{minute:02}")] {
        till.player(&app, &name, 0, 100).await;
        till.store.erase_player(&operator(), &app.id, &OpenId::parse(&name).unwrap()).await.unwrap();
    }
    assert_eq!(admin.send("POST", path, None, &credit("c2")).await.status, 200);
    let read = "SELECT count(*) FROM operator_log WHERE (after ->> 'at')::timestamptz < clock_timestamp()";
    assert_eq!(till.number(&format!("{read} AND action = 'wallet.credits'")).await, 2);
    till.assert_audit_clean().await;
}

/// Contract 13.7.2: an exchange that is under way either is made before the erasure, or finds no such player. It brings no
/// text back.
#[tokio::test(flavor = "multi_thread")]
async fn exchanges_under_way_bring_no_text_back() {
    let till = std::sync::Arc::new(TestTill::start().await);
    till.execute(EVERY_ROW).await;
    let app = till.app("a1").await;
    for round in 0..5 {
        // More than they can spend until then.
        credit(&till, &app, (PLAYER, 1_000_000), &format!("r{round}"), "").await;
        let callers = (0..8).map(|caller| {
            let (till, app) = (std::sync::Arc::clone(&till), app.clone());
            tokio::spawn(async move {
                let mut turn = 0;
                loop {
                    turn += 1;
                    let game = Game::new(&app, PLAYER, &format!("n{round}x{caller}x{turn}"), 1)
                        .with_texts("call me Ishmael");
                    let answer = game.send(&till).await;
                    if answer.code() != 1 {
                        break answer.code();
                    }
                }
            })
        });
        let callers: Vec<_> = callers.collect();
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        let (app_id, open_id) = (app.id.clone(), OpenId::parse(PLAYER).unwrap());
        till.store.erase_player(&operator(), &app_id, &open_id).await.unwrap();
        for caller in callers {
            assert_eq!(caller.await.unwrap(), 10_000_423);
        }
        assert_eq!(rows_with(&till, &["Ishmael"]).await, Vec::<String>::new());
        till.assert_audit_clean().await;
    }
}

/// Contract 13.7.3: what changes no wallet may be written by a transaction that began before the erasure and ends after it.
#[tokio::test(flavor = "multi_thread")]
async fn orders_under_way_bring_no_text_back() {
    let till = TestTill::start().await;
    till.execute(EVERY_ROW).await;
    let app = till.app("a1").await;
    credit(&till, &app, (PLAYER, 100), "r1", "").await;
    pay(&till, &app, PLAYER, "n1").await;
    report(&till, &app, PLAYER, "order-1", 1).await;
    let mut late = till.sql.begin().await.unwrap();
    for statement in [
        "INSERT INTO orders SELECT (jsonb_populate_record(o, '{\"out_biz_order_no\": \"order-2\"}')).* FROM orders o",
        "INSERT INTO ledger_entries SELECT (jsonb_populate_record(
             e, '{\"reference\": \"t1\", \"kind\": \"topup_order\", \"seq\": null, \"chain_hash\": null}')).*
         FROM ledger_entries e WHERE reference = 'n1'",
    ] {
        sqlx::query(statement).execute(&mut *late).await.unwrap();
    }
    let (app_id, open_id, who) = (app.id.clone(), OpenId::parse(PLAYER).unwrap(), operator());
    let ending = async {
        let is_known = format!("SELECT count(*) FROM wallets WHERE open_id = '{PLAYER}'");
        while till.number(&is_known).await > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        late.commit().await.unwrap();
    };
    let (erased, ()) = tokio::join!(till.store.erase_player(&who, &app_id, &open_id), ending);
    assert_eq!(erased.unwrap().rows["orders"], 1);
    assert_eq!(
        rows_with(&till, &[PLAYER, "Ishmael", "203.0.113.77", "role9913"]).await,
        Vec::<String>::new()
    );
    assert_eq!(till.number("SELECT count(*) FROM orders").await, 0);
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries WHERE kind = 'topup_order'").await, 1);
}

/// Contract 13.7.2: a refusal that was noted before the erasure and is written after it goes too. One that names the player
/// in what somebody else wanted to buy names the pseudonym. What is refused afterwards is a new player's.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_that_are_not_written_yet_go_too() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    for (player, number) in [(PLAYER, "late1"), ("other", "late2")] {
        till.player(&app, player, 0, 1).await;
        let wanted = Game::new(&app, player, number, 99);
        let refused = wanted.with("product_name", format!("Gift of {PLAYER}")).send(&till).await;
        assert_eq!(refused.code(), 10_000_601, "{}", refused.body);
    }
    till.store.erase_player(&operator(), &app.id, &OpenId::parse(PLAYER).unwrap()).await.unwrap();
    till.store.write_refusals().await.unwrap();
    let of_player = format!("SELECT count(*) FROM exchange_refusals WHERE open_id = '{PLAYER}'");
    assert_eq!(till.number(&of_player).await, 0);
    let of_other = "SELECT count(*) FROM exchange_refusals WHERE open_id = 'other' AND product_name LIKE 'Gift of erased-%'";
    assert_eq!(till.number(of_other).await, 1);
    assert_eq!(Game::new(&app, PLAYER, "new", 1).send(&till).await.code(), 10_000_423);
    till.store.write_refusals().await.unwrap();
    assert_eq!(till.number(&of_player).await, 1);
}

/// Contract 13.7.8: nobody to erase, and entries that are on their way.
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_that_is_refused_changes_nothing() {
    let (till, _, program, _folder) = stage("erasure-refused").await;
    for (app, player) in [("a1", "nobody"), ("a9", PLAYER)] {
        let refused = program.complaint(&["player", "erase", app, player]);
        assert_eq!(refused, format!("minitill: nothing is recorded of a player {player} of an app {app}\n"));
    }
    till.execute("UPDATE archives SET state = 'moving', digest = NULL").await;
    let before = rows_with(&till, &[PLAYER]).await;
    let refused = program.complaint(&["player", "erase", "a1", PLAYER]);
    assert_eq!(
        refused,
        "minitill: entries of the app a1 are moving to or from an archive; nothing was erased, try again when that has ended\n"
    );
    assert_eq!(rows_with(&till, &[PLAYER]).await, before);
    let erasures = "SELECT count(*) FROM operator_log WHERE action = 'player.erase'";
    assert_eq!(till.number(erasures).await, 0);
    till.execute("UPDATE archives SET state = 'kept', digest = (SELECT digest FROM archived_digests)").await;
    // One who was only refused is known.
    till.execute("UPDATE exchange_refusals SET open_id = 'ghost' WHERE open_id = 'other'").await;
    let erased = program.json(&["player", "erase", "a1", "ghost"]);
    assert_eq!((&erased["rows"]["refusals"], erased["rows"].get("wallet")), (&json!(1), None));
}

/// Contract 13.7.12: nobody is registered under the form of a pseudonym, and games and developers find no erased player.
#[tokio::test(flavor = "multi_thread")]
async fn a_pseudonym_is_no_player() {
    const NEW: &str = "erased-0123456789abcdef0123";
    const TOLD: &str = "expected another open_id: the form erased-... is kept for erased players";
    let till = TestTill::start().await;
    let app = till.app_like("a1", AppKind { scopes: &domain::app::Scope::ALL, ..AppKind::default() }).await;
    till.player(&app, PLAYER, 40, 100).await;
    let (program, folder) = (Program::on(&till.database_url), Folder::new("pseudonyms"));
    std::fs::create_dir_all(folder.path()).unwrap();
    let erased = program.json(&["player", "erase", "a1", PLAYER]);
    let pseudonym = erased["pseudonym"].as_str().unwrap();
    for call in [
        Game::new(&app, pseudonym, "b1", 1),
        Game::present(&app, pseudonym, "b2", 1),
        Game::balance(&app, pseudonym),
        Game::query(&app, pseudonym, "b3").with("close", 1),
    ] {
        let answer = call.send(&till).await;
        assert_eq!(answer.code(), 10_000_423, "{}", answer.body);
    }
    let answer = send_report(&till, &app, pseudonym, "order-1", 1).await;
    assert_eq!(answer.json()["result"], 10_000_423, "{}", answer.body);
    assert_eq!(till.purses(&app, pseudonym).await, (40, 100, 1));

    let csv = folder.file("credits.csv");
    std::fs::write(&csv, format!("open_id,free,charge,ref\n{NEW},1,0,i1\n")).unwrap();
    for arguments in [
        &["user", "add", "a1", NEW][..],
        &["login-code", "issue", "a1", NEW],
        &["wallet", "credit", "a1", NEW, "--free", "1", "--ref", "r1", "--create"],
        &["wallet", "import", "a1", &csv, "--create"],
    ] {
        let refused = program.run(arguments);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(TOLD), "{arguments:?}: {said}");
    }
    let admin = Caller::admin(&till).await;
    let (credit, credits) =
        (json!({"open_id": NEW, "free": 1, "ref": "g1"}), format!("wallets/{NEW}/credits"));
    for (path, field, body) in [
        ("users", "open_ids[0]", json!({"open_ids": [NEW]})),
        ("login-codes", "open_id", json!({"open_id": NEW})),
        (credits.as_str(), "open_id", json!({"free": 1, "ref": "r1", "create": true})),
        ("credits:batch", "credits[0].open_id", json!({"create": true, "credits": [credit]})),
    ] {
        let key = (path != "credits:batch").then_some("k1");
        let answer = admin.send("POST", &format!("/apps/a1/{path}"), key, &body).await;
        let errors = json!([{"field": field, "detail": format!("{TOLD}, got \"{NEW}\"")}]);
        assert_eq!((answer.status, &answer.json()["errors"]), (422, &errors), "{path}: {}", answer.body);
    }
    assert_eq!(till.number("SELECT count(*) FROM wallets").await, 1);
    till.assert_audit_clean().await;
}
