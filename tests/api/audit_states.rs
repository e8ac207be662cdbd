//! The audit compares users, API keys, apps, receivers and requests with the operator's log (contract 8.5.8). It finds
//! by name each change that the role of the servers made without a line.

use domain::console_user::{ConsoleUserName, PasswordHash, Role};
use domain::ids::{ApiKeyName, CreditRef, OpenId, Reason, WebUrl};
use domain::operation::app::AppCommand;
use domain::operation::freeze::FreezeCommand;
use domain::operation::key::{ApiKeyCommand, NewApiKey};
use domain::operation::receiver::{NewReceiver, ReceiverCommand, ReceiverReport};
use domain::operation::topup::ProviderCommand;
use domain::operation::user::{NewSecondFactor, UserCommand};
use domain::operation::wallet::Credit;
use domain::receiver::{ReceiverFormat, ReceiverId};
use domain::secret::Secret;
use domain::topup::{CallbackFormat, CallbackSecret, PaymentProvider};
use sqlx::PgPool;
use store::secrets::token_hash;

use crate::game::Game;
use crate::support::program::Program;
use crate::support::{MASTER_KEY, TestApp, TestTill, committed, operator};

const USER: &str = "user against the operator log";
const KEY: &str = "API key against the operator log";
const APP: &str = "app against the operator log";
const RECEIVER: &str = "receiver against the operator log";
const REQUEST: &str = "request against the operator log";
const PROVIDER: &str = "payment provider against the operator log";
const FREEZE: &str = "frozen wallet against the operator log";

/// Changes that the role of the servers may make: the statement, the kind of the finding, its subject, and the beginning of
/// its detail. `RECEIVER` is the id of the receiver.
const CHANGES: &[(&str, &str, &str, &str)] = &[
    ("UPDATE console_users SET role = 'admin' WHERE name = 'viewer'", USER, "viewer", r#"role: line 3 tells "viewer"; there is "admin""#),
    ("UPDATE console_users SET apps = '{a1}' WHERE name = 'viewer'", USER, "viewer", r#"apps: line 3 tells []; there is ["a1"]"#),
    ("UPDATE console_users SET password = 'mine' WHERE name = 'alice'", USER, "alice", "password: line 5 tells \""),
    ("UPDATE console_users SET totp_secret = NULL WHERE name = 'alice'", USER, "alice", "second factor sealed: line 5 tells \""),
    ("UPDATE console_users SET totp_secret = '\\x00' WHERE name = 'alice'", USER, "alice", "second factor sealed: line 5 tells \""),
    ("UPDATE console_users SET totp_secret = '\\x00' WHERE name = 'viewer'", USER, "viewer", "second factor sealed: line 3 tells null; there is \""),
    ("INSERT INTO console_recovery_codes VALUES ('alice', sha256('mine'))", USER, "alice", "recovery codes: line 5 tells [\""),
    ("UPDATE console_users SET oidc_issuer = 'https://id.example', oidc_subject = 'me' WHERE name = 'viewer'", USER, "viewer", r#"oidc issuer: line 3 tells null; there is "https://id.example""#),
    ("UPDATE console_users SET created_at = created_at - interval '1 day' WHERE name = 'viewer'", USER, "viewer", "created at: line 3 tells "),
    ("INSERT INTO console_users (name, role, password) VALUES ('mallory', 'admin', 'mine')", USER, "mallory", "there is one; no line tells of it"),
    ("DELETE FROM console_users WHERE name = 'viewer'", USER, "viewer", "there is none; line 3 tells of one"),
    ("INSERT INTO console_users (name, role, password) VALUES ('gone', 'admin', 'mine')", USER, "gone", "there is one; line 7 tells that it was removed"),
    ("UPDATE api_keys SET role = 'admin' WHERE name = 'reader'", KEY, "reader", r#"role: line 8 tells "viewer"; there is "admin""#),
    ("UPDATE api_keys SET key_sha256 = sha256('mine') WHERE name = 'reader'", KEY, "reader", "key: line 8 tells \""),
    ("UPDATE api_keys SET revoked_at = NULL WHERE name = 'old'", KEY, "old", "revoked: line 10 tells true; there is false"),
    ("INSERT INTO api_keys (name, role, key_sha256) VALUES ('mine', 'admin', sha256('mine'))", KEY, "mine", "there is one; no line tells of it"),
    ("DELETE FROM api_keys WHERE name = 'old'", KEY, "old", "there is none; line 10 tells of one"),
    ("UPDATE apps SET suspended_at = NULL WHERE app_id = 'a1'", APP, "a1", "suspended: line 12 tells true; there is false"),
    ("UPDATE apps SET scopes = '{payment}' WHERE app_id = 'a1'", APP, "a1", "scopes: line 12 tells "),
    ("UPDATE apps SET sandbox = true WHERE app_id = 'a1'", APP, "a1", "sandbox: line 12 tells false; there is true"),
    ("UPDATE apps SET images_max = 9 WHERE app_id = 'a1'", APP, "a1", "images max: line 12 tells null; there is 9"),
    ("UPDATE apps SET app_secret = '\\x00' WHERE app_id = 'a1'", APP, "a1", "app secret sealed: line 12 tells \""),
    ("UPDATE pay_keys SET pay_key = '\\x00' WHERE app_id = 'a1'", APP, "a1", "pay keys sealed: line 12 tells [\""),
    ("INSERT INTO pay_keys (app_id, generation, pay_key) VALUES ('a1', 9, '\\x00')", APP, "a1", "pay keys sealed: line 12 tells [\""),
    ("INSERT INTO apps (app_id, app_no, app_secret) VALUES ('mine', 99, '\\x00')", APP, "mine", "there is one; no line tells of it"),
    ("UPDATE receivers SET url = 'https://mine.example/'", RECEIVER, "RECEIVER", r#"url: line 14 tells "https://game.example/1"; there is "https://mine.example/""#),
    ("UPDATE receivers SET types = '{exchange.succeeded}'", RECEIVER, "RECEIVER", "events: line 14 tells []"),
    ("UPDATE receivers SET secret = '\\x00'", RECEIVER, "RECEIVER", "secret sealed: line 14 tells \""),
    ("UPDATE receivers SET paused_by = NULL, paused_at = NULL", RECEIVER, "RECEIVER", "paused by operator: line 14 tells true; there is false"),
    ("DELETE FROM receivers", RECEIVER, "RECEIVER", "there is none; line 14 tells of one"),
    ("UPDATE topup_providers SET format = 'standard'", PROVIDER, "pay", r#"format: line 24 tells "stripe"; there is "standard""#),
    ("UPDATE topup_providers SET secret = '\\x00'", PROVIDER, "pay", "secret sealed: line 24 tells \""),
    ("UPDATE topup_providers SET former_secret = '\\x00', former_until = now()", PROVIDER, "pay", "former secret sealed: line 24 tells null; there is \""),
    ("INSERT INTO topup_providers (app_id, provider, format, secret) VALUES ('a1', 'mine', 'stripe', '\\x00')", PROVIDER, "mine", "there is one; no line tells of it"),
    ("DELETE FROM topup_providers", PROVIDER, "pay", "there is none; line 24 tells of one"),
    ("UPDATE console_requests SET charge = 9 WHERE ref = 'w1'", REQUEST, "w1", "charge: line 15 tells 0; there is 9"),
    ("UPDATE console_requests SET open_id = 'o9' WHERE ref = 'w1'", REQUEST, "w1", r#"open id: line 15 tells "o1"; there is "o9""#),
    ("UPDATE console_requests SET asked_by = 'viewer' WHERE ref = 'w1'", REQUEST, "w1", r#"asked by: line 15 tells "tests"; there is "viewer""#),
    ("UPDATE console_requests SET reason = 'yes' WHERE ref = 'w1'", REQUEST, "w1", r#"reason: line 15 tells "late"; there is "yes""#),
    ("UPDATE console_requests SET asked_at = now() + interval '9 days' WHERE ref = 'w1'", REQUEST, "w1", "asked at: line 15 tells "),
    ("UPDATE console_requests SET state = 'waiting', ended_by = NULL, ended_at = NULL WHERE ref = 'f1'", REQUEST, "f1", r#"state: line 17 tells "refused"; there is "waiting""#),
    ("DELETE FROM console_requests WHERE ref = 'w1'", REQUEST, "w1", "there is none; line 15 tells of one"),
    (
        "INSERT INTO console_requests (app_id, ref, kind, open_id, free, charge, create_wallet, reason, asked_by)
         VALUES ('a1', 'mine', 'credit', 'o1', 9, 0, false, '', 'alice')",
        REQUEST,
        "mine",
        "there is one; no line tells of it",
    ),
];

/// The same of frozen wallets.
const FREEZES: &[(&str, &str, &str, &str)] = &[
    (
        "UPDATE wallets SET frozen_until = NULL WHERE open_id = 'o1'",
        FREEZE,
        "o1",
        "there is none; line 19 tells of one",
    ),
    (
        "UPDATE wallets SET frozen_until = now() WHERE open_id = 'o1'",
        FREEZE,
        "o1",
        "frozen until: line 19 tells null; there is ",
    ),
    (
        "UPDATE wallets SET frozen_until = 'infinity' WHERE open_id = 'o2'",
        FREEZE,
        "o2",
        "there is one; line 22 tells that it was removed",
    ),
    (
        "UPDATE wallets SET frozen_until = 'infinity' WHERE open_id = 'o3'",
        FREEZE,
        "o3",
        "there is one; no line tells of it",
    ),
];

/// The tables that the changes are made to.
const TABLES: [&str; 9] = [
    "wallets",
    "console_users",
    "console_recovery_codes",
    "api_keys",
    "apps",
    "pay_keys",
    "receivers",
    "topup_providers",
    "console_requests",
];

async fn user(till: &TestTill, name: &str, command: UserCommand) {
    let name = ConsoleUserName::parse(name).unwrap();
    till.store.change_console_user(&operator(), &name, command).await.unwrap();
}

async fn receiver(till: &TestTill, app: &TestApp, command: ReceiverCommand) -> ReceiverReport {
    till.store.change_receivers(&operator(), &app.id, command, None).await.unwrap()
}

async fn ask(till: &TestTill, app: &TestApp, reference: &str) {
    let (open_id, reference) = (OpenId::parse("o1").unwrap(), CreditRef::parse(reference).unwrap());
    let credit = Credit {
        open_id: open_id.clone(),
        free: 5,
        charge: 0,
        reference,
        note: "late".to_owned(),
        create: false,
    };
    till.store.ask_for_change(&operator(), &app.id, &open_id, credit.into()).await.unwrap();
}

/// The lines are: 1 and 2 are the app and its package, 3 is the viewer, 4 and 5 are alice. 6 and 7 are a user who is
/// gone. 8 to 10 are the keys, 11 and 12 the app again, 13 and 14 the receiver, and 15 to 17 the requests. 18 to 23
/// are the players, of whom o1 is frozen and o2 was, and 24 is the payment provider.
async fn stage() -> (TestTill, TestApp, ReceiverId) {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let password = || PasswordHash::kept("none fits".to_owned());
    user(&till, "viewer", UserCommand::Add(Role::Viewer.into(), password())).await;
    user(&till, "alice", UserCommand::Add(Role::Admin.into(), password())).await;
    let codes = ["one", "two"].map(token_hash);
    let secret = Secret::new("JBSWY3DPEHPK3PXP".to_owned());
    let factor = NewSecondFactor { secret, step: 1, recovery_codes: codes.to_vec(), session: [0; 32] };
    user(&till, "alice", UserCommand::SecondFactor(factor)).await;
    user(&till, "gone", UserCommand::Add(Role::Viewer.into(), password())).await;
    user(&till, "gone", UserCommand::Remove).await;
    for name in ["reader", "old"] {
        let command =
            ApiKeyCommand::Create(NewApiKey::new(ApiKeyName::parse(name).unwrap(), Role::Viewer.into()));
        till.store.change_api_keys(&operator(), command).await.unwrap();
    }
    let revoke = ApiKeyCommand::Revoke(ApiKeyName::parse("old").unwrap());
    till.store.change_api_keys(&operator(), revoke).await.unwrap();
    till.command(&app, AppCommand::RotatePayKey(None)).await;
    till.command(&app, AppCommand::Suspend(true)).await;
    let url = WebUrl::parse("https://game.example/1").unwrap();
    let new = NewReceiver { url, events: Vec::new(), format: ReceiverFormat::Standard };
    let ReceiverReport::Added(added) = receiver(&till, &app, ReceiverCommand::Add(new)).await else {
        panic!("no receiver is added");
    };
    let id = added.receiver.receiver_id.clone();
    receiver(&till, &app, ReceiverCommand::Pause(id.clone())).await;
    ask(&till, &app, "w1").await;
    ask(&till, &app, "f1").await;
    let refused = CreditRef::parse("f1").unwrap();
    assert!(till.store.refuse_change(&operator(), "a1", &refused).await.unwrap());
    let reason = || Reason::parse("stolen account").unwrap();
    for player in ["o1", "o2", "o3"] {
        till.command(&app, AppCommand::AddUsers(vec![OpenId::parse(player).unwrap()])).await;
        let freeze = FreezeCommand::Freeze { reason: reason(), until: None };
        let ends = [freeze, FreezeCommand::Thaw { reason: None }];
        let count = match player {
            "o1" => 1,
            "o2" => 2,
            _ => 0,
        };
        for command in ends.into_iter().take(count) {
            let open_id = OpenId::parse(player).unwrap();
            till.store.freeze_wallet(&operator(), &app.id, &open_id, command).await.unwrap();
        }
    }
    let (provider, format) = (PaymentProvider::parse("pay").unwrap(), CallbackFormat::Stripe);
    let secret = CallbackSecret::parse(format, "whsec_of_a_provider").unwrap();
    let command = ProviderCommand::Set(format, secret);
    till.store.change_topup_provider(&operator(), &app.id, &provider, command).await.unwrap();
    (till, app, id)
}

/// A session of a role that has the rights of `deploy/rights.sql` and no other.
async fn servers_role(till: &TestTill) -> PgPool {
    PgPool::connect(&till.url_of_role(&committed("deploy/rights.sql")).await).await.unwrap()
}

/// Each change is found alone, by what it is, and by what was told of it. Then all is as it was.
#[tokio::test(flavor = "multi_thread")]
async fn each_change_by_the_role_of_the_servers_is_named() {
    let (till, _, receiver) = stage().await;
    till.assert_audit_clean().await;
    let role = servers_role(&till).await;
    for table in TABLES {
        till.execute(&format!(
            "CREATE SCHEMA IF NOT EXISTS kept; CREATE TABLE kept.{table} AS TABLE {table}"
        ))
        .await;
    }
    for (change, check, subject, detail) in CHANGES.iter().chain(FREEZES) {
        sqlx::raw_sql(*change).execute(&role).await.unwrap();
        let report = till.audit(None).await;
        let findings = serde_json::to_value(&report.findings).unwrap();
        let subject = subject.replace("RECEIVER", receiver.as_str());
        let is_named = findings.as_array().unwrap().iter().any(|found| {
            found["check"] == *check
                && found["subject"] == subject.as_str()
                && found["detail"].as_str().unwrap().starts_with(detail)
        });
        assert!(is_named, "{change}: {findings:#}");
        for table in TABLES {
            till.execute(&format!("TRUNCATE {table}; INSERT INTO {table} TABLE kept.{table}")).await;
        }
    }
    till.assert_audit_clean().await;
}

/// What the servers do by themselves is no difference: they use up recovery codes, and pause a receiver that fails. A used
/// code that is put back is none of theirs.
#[tokio::test(flavor = "multi_thread")]
async fn what_servers_do_is_no_difference() {
    let (till, app, receiver_id) = stage().await;
    let alice = ConsoleUserName::parse("alice").unwrap();
    assert!(till.store.use_recovery_code(&alice, token_hash("one")).await.unwrap());
    assert!(till.store.use_second_factor_step(&alice, 9).await.unwrap());
    receiver(&till, &app, ReceiverCommand::Resume(receiver_id)).await;
    till.execute("UPDATE receivers SET paused_by = 'receiver', paused_at = now(), taken = 9, tries = '[1]'")
        .await;
    till.assert_audit_clean().await;
    let key = ApiKeyName::parse("reader").unwrap();
    till.store.change_api_keys(&operator(), ApiKeyCommand::Revoke(key)).await.unwrap();
    till.command(&app, AppCommand::Suspend(false)).await;
    till.command(&app, AppCommand::RotateSecret(None)).await;
    let program = Program::on(&till.database_url);
    program.json(&["app", "change", "a1", "--name", "Other"]);
    program.json(&["app", "limit", "a1", "--images-max", "9"]);
    till.assert_audit_clean().await;
}

/// Lines of former versions have no state. They are compared by what they have.
#[tokio::test(flavor = "multi_thread")]
async fn lines_of_former_versions_are_compared_by_what_they_have() {
    let (till, _, _) = stage().await;
    till.execute("UPDATE operator_log SET state = NULL").await;
    let states = async || {
        let findings = serde_json::to_value(&till.audit(None).await.findings).unwrap();
        let of_state = |found: &&serde_json::Value| {
            found["check"].as_str().unwrap().contains("against the operator log")
        };
        findings
            .as_array()
            .unwrap()
            .iter()
            .filter(of_state)
            .map(|found| found["detail"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(states().await, Vec::<serde_json::Value>::new());
    till.execute(
        "UPDATE console_users SET role = 'finance' WHERE name = 'viewer'; UPDATE api_keys SET apps = '{a1}' WHERE name = 'reader';
         UPDATE apps SET language = 'zh'; UPDATE receivers SET format = 'platform'; UPDATE console_requests SET free = 7 WHERE ref = 'w1'",
    )
    .await;
    assert_eq!(states().await.len(), 5);
}

/// A rotation of the master key encrypts all secrets again, and writes no line for each. Until the next line, only
/// their presence is compared.
#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_of_the_master_key_is_no_difference() {
    let (till, _, _) = stage().await;
    let keys = format!("{},{MASTER_KEY}", "2".repeat(64));
    let program = Program::on(&till.database_url).with("MINITILL_SECRETS__MASTER_KEY", &keys);
    program.json(&["master-key", "rotate"]);
    assert_eq!(program.json(&["audit"])["clean"], true);
    till.execute("UPDATE console_users SET totp_secret = NULL WHERE name = 'alice'").await;
    let report = till.audit(None).await;
    let details: Vec<_> = report.findings.iter().map(|found| found.detail.as_str()).collect();
    assert_eq!(details, ["second factor sealed: line 5 tells true; there is null"]);
}

/// What the role of the servers may do to events: the statement, the subject of the finding, and its detail.
const CHANGED_EVENTS: &[(&str, &str, &str)] = &[
    ("DELETE FROM events WHERE last_no = 2", "events", "number 2 is missing"),
    ("DELETE FROM events WHERE last_no = 2", "o1", "entry 2 has no event"),
    ("DELETE FROM events WHERE last_no <= 2", "events", "numbers 1 to 2 are missing"),
    ("DELETE FROM events WHERE last_no = 4", "events", "number 4 is missing"),
    ("DELETE FROM events", "events", "numbers 1 to 4 are missing"),
    ("UPDATE event_head SET last_no = 3", "events", "numbers 4 to 4 are there twice"),
    (
        "UPDATE events e SET keys = (SELECT keys FROM events WHERE last_no = 2) WHERE last_no = 3",
        "event 3",
        "exchange.succeeded: it tells of entry 2 of wallet WALLET, which is none of its own",
    ),
    (
        "UPDATE events e SET keys = (SELECT keys FROM events WHERE last_no = 2) WHERE last_no = 3",
        "o1",
        "entry 3 has no event",
    ),
    ("UPDATE events SET type = 'present.succeeded' WHERE last_no = 3", "o1", "entry 3 has no event"),
    ("UPDATE events SET app_id = 'a2' WHERE last_no = 3", "o1", "entry 3 has no event"),
    (
        "INSERT INTO events SELECT app_id, 5, at, count, type, '\\x01', keys FROM events WHERE last_no = 2;
         UPDATE event_head SET last_no = 5",
        "event 5",
        "exchange.succeeded: it tells of entry 2 of wallet WALLET, which is none of its own",
    ),
    ("DELETE FROM wallet_outbox", "o1", "entry 5 has no event"),
    (
        "INSERT INTO wallet_outbox (app_no, row_id, type, count, keys, at) SELECT app_no, '\\x01', type, count, keys, at FROM wallet_outbox",
        "an event without a number",
        "exchange.succeeded: it tells of entry 5 of wallet WALLET, which is none of its own",
    ),
];

/// Contract 8.5.10: events are compared with the ledger, and their numbers with the head.
#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_the_events_is_named() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.app("a2").await;
    till.player(&app, "o1", 40, 100).await;
    for number in ["b1", "b2", "b3"] {
        pay(&till, &app, number).await;
    }
    till.store.number_events(None).await.unwrap();
    pay(&till, &app, "b4").await;
    till.assert_audit_clean().await;
    let wallet = till.number("SELECT wallet_no FROM wallets WHERE open_id = 'o1'").await.to_string();
    let role = servers_role(&till).await;
    let tables = ["events", "event_head", "wallet_outbox"];
    for table in tables {
        till.execute(&format!(
            "CREATE SCHEMA IF NOT EXISTS kept; CREATE TABLE kept.{table} AS TABLE {table}"
        ))
        .await;
    }
    for (change, subject, detail) in CHANGED_EVENTS {
        sqlx::raw_sql(*change).execute(&role).await.unwrap();
        let report = till.audit(None).await;
        let found = report.findings.iter().any(|found| {
            (found.subject.as_str(), found.detail.as_str())
                == (*subject, detail.replace("WALLET", &wallet).as_str())
        });
        assert!(found, "{change}: {:#?}", report.findings);
        for table in tables {
            till.execute(&format!("TRUNCATE {table}; INSERT INTO {table} TABLE kept.{table}")).await;
        }
    }
    // Events that have left for good are no difference.
    till.execute("DELETE FROM events WHERE last_no <= 2; UPDATE event_head SET removed_no = 2").await;
    till.assert_audit_clean().await;
    till.execute("DELETE FROM events; UPDATE event_head SET removed_no = 4").await;
    till.assert_audit_clean().await;
}

async fn pay(till: &TestTill, app: &TestApp, number: &str) {
    assert_eq!(Game::new(app, "o1", number, 1).send(till).await.code(), 1);
}
