//! Changes of apps: what changes them, and their state then. One rotation of a key is one, however often
//! it is asked for.

use std::time::Duration;

use domain::app::{AppChange, AppLimits, AppLimitsChange, AppSettings, Category, Scope, ScopeSteps};
use domain::ids::{AppId, AppName, BizNo, CreditRef, OrderNo, PackageVersion, PagePath, PoiId, Reason};
use domain::language::Language;
use domain::operation::app::{AppCommand, keys_changed, no_longer_sandbox};
use domain::operation::unknown_app;
use domain::operation::wallet::GiveBack;
use domain::per_second::PerSecond;
use domain::quota::Quota;
use domain::wallet::Amount;
use serde_json::json;
use store::{OperationError, OperatorLogFilter, OperatorLogLine};

use crate::game::Game;
use crate::sales::ARCHIVE;
use crate::support::program::Program;
use crate::support::{AppKind, TestTill, fresh_database, operator};

async fn last_line(till: &TestTill) -> OperatorLogLine {
    till.store.operator_log(&OperatorLogFilter::default(), 1).await.unwrap().pop().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_change_together_or_alone_and_each_change_leaves_one_line() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let all = AppChange {
        name: Some(AppName::parse("<b>Game</b>").unwrap()),
        category: Some(Category::LocalLife),
        scopes: Some(Vec::new()),
        sandbox: Some(true),
        preorder_check: Some(true),
        language: Some(Language::Zh),
    };
    let because = operator().because(&Reason::parse("asked for by mail").unwrap());
    till.store
        .carry_out(&because, &app.id, AppCommand::Change(all.clone(), ScopeSteps::default()))
        .await
        .unwrap();
    let detail = till.store.app_detail(&app.id).await.unwrap().unwrap();
    let summary = &detail.summary;
    assert_eq!(
        (summary.settings.name.as_str(), summary.settings.category.as_str()),
        ("<b>Game</b>", "local_life")
    );
    assert!(
        summary.settings.scopes.is_empty() && summary.settings.sandbox && summary.settings.preorder_check
    );
    let line = last_line(&till).await;
    // Every column of the settings is written and read.
    assert_eq!(summary.settings, AppSettings::default().changed(&all));
    let limit = |number| Some(PerSecond::new(number));
    let quota = |number| Some(Quota::parse(number).ok());
    let limits = AppLimitsChange {
        exchanges_per_second: limit(1),
        reads_per_second: limit(10),
        reports_per_second: limit(2),
        uploads_per_second: limit(3),
        tokens_per_second: limit(4),
        logins_per_second: limit(5),
        image_bytes_per_day: quota("6"),
        image_bytes_max: quota("7"),
        images_per_day: quota("8"),
        images_max: quota("9"),
    };
    till.command(&app, AppCommand::Limit(limits.clone())).await;
    let now = till.store.app_detail(&app.id).await.unwrap().unwrap().summary;
    assert_eq!((now.limits, now.settings), (AppLimits::default().changed(&limits), summary.settings.clone()));
    assert_eq!((line.action.as_str(), line.note.as_str()), ("app.change", "asked for by mail"));
    let before = json!({"name": "", "category": "general", "scopes": ["epay"], "sandbox": false, "preorder_check": false, "language": "en"});
    let after = json!({"name": "<b>Game</b>", "category": "local_life", "scopes": [], "sandbox": true, "preorder_check": true, "language": "zh"});
    assert_eq!((line.before, line.after), (Some(before), Some(after)));

    // The same again, and nothing at all, leave no line; an app that is not there is not made.
    let lines = "SELECT count(*) FROM operator_log";
    let count = till.number(lines).await;
    till.command(&app, AppCommand::Change(all, ScopeSteps::default())).await;
    till.command(&app, AppCommand::Change(AppChange::default(), ScopeSteps::default())).await;
    let nobody = AppId::parse("a9").unwrap();
    let unknown = || OperationError::Refused(unknown_app(&nobody));
    let change = AppCommand::Change(AppChange::default(), ScopeSteps::default());
    assert_eq!(till.store.carry_out(&operator(), &nobody, change).await.unwrap_err(), unknown());
    assert_eq!(till.number(lines).await, count);

    let alone = AppChange { sandbox: Some(false), ..AppChange::default() };
    till.command(&app, AppCommand::Change(alone, ScopeSteps::default())).await;
    let summary = till.store.app_detail(&app.id).await.unwrap().unwrap().summary;
    assert!(
        !summary.settings.sandbox
            && summary.settings.preorder_check
            && summary.settings.name.as_str() == "<b>Game</b>"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_changes_an_app_and_shows_it() {
    let program = Program::on(&fresh_database().await.url);
    program.json(&["app", "create", "a1", "--scope", "epay"]);
    let changed =
        program.json(&["app", "change", "a1", "--name", "Game", "--no-scopes", "--sandbox", "true"]);
    assert_eq!(
        (&changed["name"], &changed["scopes"], &changed["sandbox"], &changed["preorder_check"]),
        (&json!("Game"), &json!([]), &json!(true), &json!(false))
    );
    let changed = program.json(&["app", "change", "a1", "--scope", "epay", "--category", "local_life"]);
    assert_eq!(
        (&changed["name"], &changed["scopes"], &changed["category"]),
        (&json!("Game"), &json!(["epay"]), &json!("local_life"))
    );
    assert!(program.complaint(&["app", "change", "a9", "--sandbox", "true"]).contains("a9"));
    assert_eq!(
        program.run(&["app", "change", "a1", "--scope", "epay", "--no-scopes"]).status.code(),
        Some(2)
    );
    assert_eq!(program.run(&["app", "change", "a1", "--name", "a\nb"]).status.code(), Some(2));
}

/// Contract 8.2.7: one scope more or less, whatever the others are.
#[tokio::test(flavor = "multi_thread")]
async fn scopes_are_added_and_taken_away_one_by_one() {
    let program = Program::on(&fresh_database().await.url);
    program.json(&["app", "create", "a1", "--scope", "epay"]);
    let change = |flags: &[&str]| program.json(&[&["app", "change", "a1"], flags].concat())["scopes"].clone();
    assert_eq!(change(&["--add-scope", "cancel", "--add-scope", "epay"]), json!(["epay", "cancel"]));
    assert_eq!(change(&["--remove-scope", "epay", "--add-scope", "present"]), json!(["present", "cancel"]));
    assert_eq!(change(&["--remove-scope", "epay"]), json!(["present", "cancel"]));
    let refused = |flags: &[&str]| {
        let output = program.run(&[&["app", "change", "a1"], flags].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    for all in [&["--scope", "epay"][..], &["--no-scopes"]] {
        for one in ["--add-scope", "--remove-scope"] {
            let told = refused(&[&[one, "epay"], all].concat());
            assert!(told.contains(one) && told.contains(all[0]), "{told}");
        }
    }
    let told = refused(&["--add-scope", "epay", "--remove-scope", "epay"]);
    assert!(
        told.contains("remove_scopes: expected scopes that are not in add_scopes, got \"epay\""),
        "{told}"
    );
    assert_eq!(change(&[]), json!(["present", "cancel"]), "what is refused changes nothing");
}

/// Contract 8.2.7: of changes at once none takes back what another gave.
#[tokio::test(flavor = "multi_thread")]
async fn scopes_that_are_added_at_once_are_all_there() {
    let till = TestTill::start().await;
    let app = till.app_like("a1", AppKind { scopes: &[], ..AppKind::default() }).await;
    for _ in 0..10 {
        let add = |scope| {
            let steps = ScopeSteps { add: vec![scope], remove: Vec::new() };
            till.command(&app, AppCommand::Change(AppChange::default(), steps))
        };
        tokio::join!(add(Scope::Epay), add(Scope::Present), add(Scope::Cancel), add(Scope::Topup));
        let settings = till.store.app_detail(&app.id).await.unwrap().unwrap().summary.settings;
        assert_eq!(settings.scopes, Scope::ALL);
        let none = AppChange { scopes: Some(Vec::new()), ..AppChange::default() };
        till.command(&app, AppCommand::Change(none, ScopeSteps::default())).await;
    }
}

/// Contract 8.2.8: what sells is no place for tests, also after the exchange was archived or given back.
#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_has_an_exchange_does_not_become_a_sandbox() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let is = async |sandbox| {
        let change = AppChange { sandbox: Some(sandbox), ..AppChange::default() };
        let command = AppCommand::Change(change, ScopeSteps::default());
        till.store.carry_out(&operator(), &app.id, command).await
    };
    is(true).await.unwrap();
    assert_eq!(Game::new(&app, "o1", "B1", 7).send(&till).await.code(), 1);
    // A sandbox with exchanges may stay one, and goes live once.
    let change = AppChange { name: Some(AppName::parse("Game").unwrap()), ..AppChange::default() };
    till.command(&app, AppCommand::Change(change, ScopeSteps::default())).await;
    till.execute(
        "INSERT INTO sandbox_faults (app_id, target, fault, delay_ms, times)
         VALUES ('a1', 'exchange', 'lost', 0, 3), ('a2', 'exchange', 'lost', 0, 3)",
    )
    .await;
    is(false).await.unwrap();
    let faults = "SELECT string_agg(app_id, ',') FROM sandbox_faults";
    let left: Option<String> = sqlx::query_scalar(faults).fetch_one(&till.sql).await.unwrap();
    assert_eq!(left.as_deref(), Some("a2"), "faults end at a change, and those of others go on");
    let give_back = GiveBack {
        biz_no: BizNo::parse("B1").unwrap(),
        amount: Amount::parse("7").unwrap(),
        reference: CreditRef::parse("r1").unwrap(),
        note: String::new(),
    };
    till.store.change_wallet(&operator(), &app.id, give_back).await.unwrap();
    for archived in [false, true] {
        if archived {
            till.execute(ARCHIVE).await;
        }
        let refused = is(true).await.unwrap_err();
        assert_eq!(refused, OperationError::Refused(no_longer_sandbox("a1")), "archived: {archived}");
    }
    let program = Program::on(&till.database_url);
    let told = "the app a1 has exchanges, so it cannot become a sandbox; make another app for tests";
    assert!(program.complaint(&["app", "change", "a1", "--sandbox", "true"]).contains(told));
    let other = till.app("a3").await;
    till.player(&other, "o1", 0, 100).await;
    let change = AppChange { sandbox: Some(true), ..AppChange::default() };
    till.command(&other, AppCommand::Change(change, ScopeSteps::default())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_shows_what_belongs_to_it_and_no_secret() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let other = till.app("a2").await;
    for poi_id in ["p2", "p1"] {
        till.command(&app, AppCommand::AddPois(vec![PoiId::parse(poi_id).unwrap()])).await;
    }
    till.command(&app, AppCommand::AddPreorders(vec![OrderNo::parse("order_1").unwrap()])).await;
    let version = PackageVersion::parse("2").unwrap();
    till.command(&app, AppCommand::Publish(version.clone(), vec![PagePath::parse("pages/new").unwrap()]))
        .await;
    till.rotate_pay_key(&app).await;
    till.rotate_pay_key(&app).await;
    till.store.issue_token(&app.id, Duration::from_mins(1)).await.unwrap();
    till.clock.advance(Duration::from_secs(61));

    let detail = till.store.app_detail(&app.id).await.unwrap().unwrap();
    assert_eq!((detail.pois, detail.preorders, detail.valid_tokens), (2, 1, 1));
    assert_eq!(detail.poi_ids, ["p1", "p2"]);
    let keys: Vec<_> = detail.keys.iter().map(|key| (key.kind.as_str(), key.generation, key.valid)).collect();
    let pay_keys = [("pay_key", 3, true), ("pay_key", 2, true), ("pay_key", 1, false)];
    assert_eq!(keys, [&pay_keys[..], &[("app_secret", 1, true)]].concat());
    let packages: Vec<&str> = detail.packages.iter().map(|package| package.version.as_str()).collect();
    assert_eq!(packages, ["2", "1"]);
    let shown = serde_json::to_string(&detail).unwrap();
    for secret in [&app.secret, &app.pay_key, &app.token] {
        assert!(!shown.contains(secret.as_str()));
    }
    let other = till.store.app_detail(&other.id).await.unwrap().unwrap();
    assert_eq!((other.pois, other.preorders, other.valid_tokens, other.packages.len()), (0, 0, 1, 1));
    assert!(till.store.app_detail(&AppId::parse("a9").unwrap()).await.unwrap().is_none());
}

/// Whoever asks again with what they saw before the first rotation retires no key that is in use.
#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_that_is_asked_for_twice_is_made_once() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let operator = operator();
    let rotate = || till.store.carry_out(&operator, &app.id, AppCommand::RotatePayKey(Some(1)));
    let both = tokio::join!(rotate(), rotate());
    assert_eq!([both.0, both.1].iter().filter(|made| made.is_ok()).count(), 1);
    let changed = || OperationError::Refused(keys_changed(&app.id));
    assert_eq!(rotate().await.unwrap_err(), changed());
    assert_eq!(till.number("SELECT count(*) FROM pay_keys WHERE app_id = 'a1'").await, 2);

    let rotate = || AppCommand::RotateSecret(Some(1));
    till.store.carry_out(&operator, &app.id, rotate()).await.unwrap();
    assert_eq!(till.store.carry_out(&operator, &app.id, rotate()).await.unwrap_err(), changed());
    assert_eq!(till.number("SELECT secret_generation::bigint FROM apps WHERE app_id = 'a1'").await, 2);
    let nobody = AppId::parse("a9").unwrap();
    let unknown = || OperationError::Refused(unknown_app(&nobody));
    for command in [AppCommand::RotatePayKey(Some(1)), rotate()] {
        assert_eq!(till.store.carry_out(&operator, &nobody, command).await.unwrap_err(), unknown());
    }
}

/// Every app gets a number of its own, whoever else makes one at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn apps_that_are_made_at_once_have_numbers_of_their_own() {
    let till = TestTill::start().await;
    let mut making = tokio::task::JoinSet::new();
    for index in 0..12 {
        let store = till.store.clone();
        making.spawn(async move {
            let app_id = AppId::parse(&format!("a{index}")).unwrap();
            store.carry_out(&operator(), &app_id, AppCommand::Create(AppSettings::default())).await.map(drop)
        });
    }
    assert!(making.join_all().await.iter().all(Result::is_ok));
    assert_eq!(till.number("SELECT count(DISTINCT app_no) FROM apps").await, 12);
}
