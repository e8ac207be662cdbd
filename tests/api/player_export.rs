//! `minitill player export` (contract 13.6): a zip with all that the till holds about a player, and nothing of others.

use std::fs::File;
use std::io::{Cursor, Read as _};
use std::os::unix::fs::PermissionsExt as _;

use domain::ids::{CreditRef, OpenId, PackageVersion};
use domain::login::Player;
use domain::operation::app::AppCommand;
use domain::wallet::DeveloperTexts;
use serde_json::{Value, json};
use zip::ZipArchive;

use crate::archive::{Folder, day, old_till};
use crate::game::Game;
use crate::support::program::Program;
use crate::support::{TestTill, operator};

/// The kinds of rows, each with the number of them that the player of the test has.
const ROWS: [(&str, u64); 15] = [
    ("wallet", 1),
    ("ledger_entries", 6),
    ("refusals", 1),
    ("replays", 1),
    ("shipments", 1),
    ("orders", 1),
    ("order_events", 2),
    ("order_payments", 2),
    ("login_codes", 1),
    ("topup_payments", 0),
    ("topup_refunds", 0),
    ("events", 3),
    ("change_requests", 1),
    ("gift_lines", 1),
    ("operator_log", 3),
];

/// Rows of the player `o1` and of the player `other` in tables that no call of this test fills.
const PLANTED: &str = "
    INSERT INTO orders (app_id, out_biz_order_no, out_order_no, open_id, order_create_time, order_status, order_path,
        product_cover_img_id, product_city, event_count)
    VALUES ('a1', 'order_0001', 'paid_0002', 'o1', 1700000000000, 2, 'p', 'x', '=1+1', 2),
        ('a1', 'order_0009', 'paid_0009', 'other', 1700000000000, 1, 'p', 'x', NULL, 1);
    INSERT INTO order_payments (app_id, out_order_no, out_biz_order_no)
    VALUES ('a1', 'paid_0001', 'order_0001'), ('a1', 'paid_0002', 'order_0001'), ('a1', 'paid_0009', 'order_0009');
    INSERT INTO order_events (app_id, out_biz_order_no, seq, order_status, report)
    VALUES ('a1', 'order_0001', 1, 1, '{}'), ('a1', 'order_0001', 2, 2, '{\"open_id\": \"o1\"}'),
        ('a1', 'order_0009', 1, 1, '{}');
    INSERT INTO exchange_replays VALUES ('a1', 'b1', 2, now(), now()), ('a1', 'b9', 2, now(), now());
    INSERT INTO sandbox_shipments (app_id, biz_no, shipments) VALUES ('a1', 'b1', 2), ('a1', 'b9', 2);
    INSERT INTO console_requests (app_id, ref, kind, open_id, free, charge, create_wallet, reason, asked_by)
    VALUES ('a1', 'large', 'credit', 'o1', 5, 0, false, 'gift', 'alice'),
        ('a1', 'large9', 'credit', 'other', 5, 0, false, 'gift', 'alice');
    INSERT INTO gifts (app_id, gift, line_count, free, charge, replayed, create_wallets, reason)
    VALUES ('a1', 'gift-1', 2, 5, 0, 0, false, 'late');
    INSERT INTO gift_lines (app_id, gift, line, open_id, free, charge, ref, makes_known)
    VALUES ('a1', 'gift-1', 1, 'o1', 5, 0, 'p-o1', false), ('a1', 'gift-1', 2, 'other', 5, 0, 'p-other', false);
    DELETE FROM wallet_outbox; DELETE FROM outbox; DELETE FROM events;
    INSERT INTO events (app_id, last_no, at, count, type, row_id, keys)
    SELECT 'a1', 2, '2026-11-20T12:00:00Z', 2, 'wallet.credited', decode(repeat('ab', 16), 'hex'),
        (SELECT int8send(wallet_no) FROM wallets WHERE open_id = 'other') || int8send(1)
            || (SELECT int8send(wallet_no) FROM wallets WHERE open_id = 'o1') || int8send(1);
    INSERT INTO events (app_id, last_no, at, count, type, row_id, keys)
    VALUES ('a1', 5, '2026-11-20T12:00:01Z', 3, 'order.changed', decode(repeat('cd', 16), 'hex'),
        int8send(1) || '\\x0a' || 'order_0001'::bytea || int8send(1) || '\\x0a' || 'order_0009'::bytea
            || int8send(2) || '\\x0a' || 'order_0001'::bytea)";

fn texts(mut zip: ZipArchive<impl std::io::Read + std::io::Seek>) -> Files {
    let count = zip.len();
    let read = |place: usize| {
        let mut file = zip.by_index(place).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        (file.name().unwrap().into_owned(), text)
    };
    (0..count).map(read).collect()
}

/// A row of JSON as it stands in CSV.
fn cells(row: &Value, columns: &csv::StringRecord) -> Vec<String> {
    let cell = |column: &str| match &row[column] {
        Value::Null => String::new(),
        Value::String(text) if text.starts_with('=') => format!("'{text}"),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    columns.iter().map(cell).collect()
}

/// A till with the player `o1`, of whom it has each kind of rows, and others with the same. The folder holds an archive.
async fn stage(name: &str) -> (TestTill, Program, Folder) {
    let (till, app, program) = old_till().await;
    let folder = Folder::new(name);
    program.json(&["archive", "--before", &day(&till).await, "--to", folder.path()]);
    till.player(&app, "other", 3, 0).await;
    assert_eq!(
        Game::new(&app, "o1", "b2", 10).with_texts("mine").with("pay_priority", 0).send(&till).await.code(),
        1
    );
    for player in ["o1", "other"] {
        assert_ne!(Game::new(&app, player, &format!("no{player}"), 99_999).send(&till).await.code(), 1);
        let player = Player { open_id: OpenId::parse(player).unwrap(), union_id: None };
        till.command(&app, AppCommand::IssueLoginCode(player)).await;
    }
    till.store.write_refusals().await.unwrap();
    let both = ["o1", "other", "third"].map(|player| OpenId::parse(player).unwrap());
    till.execute("DELETE FROM wallets WHERE open_id = 'third'").await;
    till.command(&app, AppCommand::AddUsers(both.into())).await;
    till.execute(
        "UPDATE operator_log SET after = '{\"open_ids\": [\"o1\", \"other\", \"third\"]}' WHERE after ? 'open_ids'
             AND after -> 'open_ids' ? 'third'",
    )
    .await;
    // The open_id as the ref of somebody else's credit, and as the version of a package.
    let credit = domain::operation::wallet::Credit {
        open_id: OpenId::parse("other").unwrap(),
        free: 1,
        charge: 0,
        reference: CreditRef::parse("o1").unwrap(),
        note: String::new(),
        create: false,
    };
    till.store.change_wallet(&operator(), &app.id, credit).await.unwrap();
    let version = PackageVersion::parse("o1").unwrap();
    till.command(&app, AppCommand::Publish(version, Vec::new())).await;
    till.execute(PLANTED).await;
    (till, program, folder)
}

type Files = Vec<(String, String)>;

fn text<'a>(files: &'a Files, name: &str) -> &'a str {
    &files.iter().find(|(known, _)| known == name).unwrap().1
}

fn list(files: &Files, name: &str) -> Vec<Value> {
    serde_json::from_str(text(files, &format!("{name}.json"))).unwrap()
}

fn actions(files: &Files) -> Vec<String> {
    list(files, "operator_log").iter().map(|line| line["action"].as_str().unwrap().to_owned()).collect()
}

/// Rules 13.6.1 and 13.6.4: JSON and CSV have the same rows.
fn assert_each_list_is_there_twice(files: &Files) {
    for (name, rows) in ROWS {
        assert!(text(files, "README.txt").contains(&format!("\n{name}\n    ")), "{name}");
        let json = list(files, name);
        assert_eq!(json.len() as u64, rows, "{name}: {json:?}");
        let mut csv = csv::Reader::from_reader(text(files, &format!("{name}.csv")).as_bytes());
        let columns = csv.headers().unwrap().clone();
        let mut keys = json.iter().flat_map(|row| row.as_object().unwrap().keys());
        assert!(keys.all(|key| columns.iter().any(|column| column == key)), "{name}");
        let lines: Vec<Vec<String>> =
            csv.records().map(|line| line.unwrap().iter().map(str::to_owned).collect()).collect();
        let shown: Vec<Vec<String>> = json.iter().map(|row| cells(row, &columns)).collect();
        assert_eq!(lines, shown, "{name}");
    }
}

fn assert_facts(files: &Files) {
    let ledger = list(files, "ledger_entries");
    let facts: Vec<Value> = ledger
        .iter()
        .map(|row| {
            json!([row["seq"], row["kind"], row["free_balance"], row["charge_balance"], row["is_archived"]])
        })
        .collect();
    assert_eq!(
        facts,
        [
            json!([1, "credit", 40, 100, true]),
            json!([2, "exchange", 0, 80, true]),
            json!([3, "cancel", 10, 100, true]),
            json!([4, "present", 15, 100, true]),
            json!([5, "exchange", 15, 90, false]),
            json!([null, "closed", 0, 0, true]),
        ]
    );
    assert_eq!(ledger[4]["biz_no"], "b2");
    for name in DeveloperTexts::NAMES {
        // Of an archived entry the file has them.
        assert_eq!((&ledger[4][name], &ledger[1][name]), (&json!("mine"), &Value::Null), "{name}");
    }
    let (credited, changed) = ("ab".repeat(16), "cd".repeat(16));
    assert_eq!(
        list(files, "events"),
        [
            json!({"no": 2, "id": format!("evt_{credited}0001"), "type": "wallet.credited", "entry_seq": 1,
                "at": "2026-11-20T12:00:00Z"}),
            json!({"no": 3, "id": format!("evt_{changed}0000"), "type": "order.changed", "order_seq": 1,
                "out_biz_order_no": "order_0001", "at": "2026-11-20T12:00:01Z"}),
            json!({"no": 5, "id": format!("evt_{changed}0002"), "type": "order.changed", "order_seq": 2,
                "out_biz_order_no": "order_0001", "at": "2026-11-20T12:00:01Z"}),
        ]
    );
    assert!(text(files, "orders.csv").contains(",'=1+1,"), "{}", text(files, "orders.csv"));
    assert_eq!(actions(files), ["wallet.credit", "login_code.issue", "user.add"]);
    assert_eq!(list(files, "operator_log")[2]["after"], json!({"open_ids": ["o1"]}));
}

/// Rules 13.6.1 to 13.6.4, and 13.6.7.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_has_each_row_of_the_player_and_none_of_others() {
    let (till, program, folder) = stage("export").await;
    let path = folder.file("o1.zip");
    let told = program.json(&["player", "export", "a1", "o1", "--out", &path]);
    let counts: serde_json::Map<String, Value> =
        ROWS.iter().map(|(name, rows)| ((*name).to_owned(), json!(rows))).collect();
    assert_eq!(told, json!({ "file": path, "rows": counts }));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let files = texts(ZipArchive::new(File::open(&path).unwrap()).unwrap());
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let expected: Vec<String> = ["README.txt".to_owned()]
        .into_iter()
        .chain(ROWS.iter().flat_map(|(name, _)| [format!("{name}.json"), format!("{name}.csv")]))
        .collect();
    assert_eq!(names, expected);
    for (name, text) in &files {
        for alien in ["other", "third", "order_0009", "paid_0009", "large9"] {
            assert!(!text.contains(alien) || name == "README.txt", "{name} has {alien}: {text}");
        }
    }
    assert_each_list_is_there_twice(&files);
    assert_facts(&files);

    // An export is in the log, and in the next export.
    let noted = sqlx::query_as::<_, (String, String, String, Option<Value>)>(
        "SELECT operator_kind, app_id, subject, after FROM operator_log WHERE action = 'player.export'",
    );
    let noted = noted.fetch_all(&till.sql).await.unwrap();
    assert_eq!(noted, [("command_line".to_owned(), "a1".to_owned(), "o1".to_owned(), None)]);

    // The same to standard output, with the same rows but for the lines of the exports.
    let streamed = program.run(&["player", "export", "a1", "o1"]);
    assert!(streamed.status.success());
    let streamed = texts(ZipArchive::new(Cursor::new(streamed.stdout)).unwrap());
    let but_for_the_log = |files: &Files| -> Files {
        files[1..].iter().filter(|(name, _)| !name.starts_with("operator_log")).cloned().collect()
    };
    assert_eq!(but_for_the_log(&streamed), but_for_the_log(&files));
    assert_eq!(actions(&streamed), ["wallet.credit", "login_code.issue", "user.add", "player.export"]);
}

/// Rule 13.6.6.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_replaces_no_file_and_only_its_owner_may_read_it() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 1, 2).await;
    let program = Program::on(&till.database_url);
    let folder = Folder::new("export-over-a-file");
    std::fs::create_dir_all(folder.path()).unwrap();
    let path = folder.file("o1.zip");
    let export = ["player", "export", "a1", "o1", "--out", &path];
    program.json(&export);
    // A file that is there stays as it is.
    let before = std::fs::read(&path).unwrap();
    let refused = program.complaint(&export);
    assert_eq!(refused, format!("minitill: {path} is there already, and is not replaced\n"));
    assert!(
        std::fs::read(&path).unwrap() == before && !std::fs::exists(format!("{path}.unfinished")).unwrap()
    );
    // What a killed command left under the other name, for all to read, is neither kept nor used.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(format!("{path}.unfinished"), "left").unwrap();
    program.json(&export);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(ZipArchive::new(File::open(&path).unwrap()).is_ok());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no other name is left");
}

/// Rule 13.6.5.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_player_has_no_export_and_one_who_was_only_refused_has() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    assert_ne!(Game::new(&app, "ghost", "b1", 5).send(&till).await.code(), 1);
    till.store.write_refusals().await.unwrap();
    let program = Program::on(&till.database_url);
    let folder = Folder::new("export-of-nobody");
    std::fs::create_dir_all(folder.path()).unwrap();
    let path = folder.file("none.zip");
    for (app, player) in [("a1", "nobody"), ("a9", "ghost")] {
        let refused = program.complaint(&["player", "export", app, player, "--out", &path]);
        assert_eq!(refused, format!("minitill: nothing is recorded of a player {player} of an app {app}\n"));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    assert_eq!(till.number("SELECT count(*) FROM operator_log WHERE action = 'player.export'").await, 0);
    let told = program.json(&["player", "export", "a1", "ghost", "--out", &path]);
    assert_eq!((&told["rows"]["refusals"], &told["rows"]["wallet"]), (&json!(1), &json!(0)));
    let refused = program.run(&["player", "export", "a1", "ghost", "--json"]);
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && told.contains("with --json, write it with --out FILE"), "{told}");
}
