//! The exchange (contract 3).

use std::time::Duration;

use domain::operation::app::AppCommand;
use domain::signature::{Mistake, PayKey};
use domain::wallet::DeveloperTexts;
use md5::{Digest as _, Md5};

use crate::game::{BAD_SIGNATURE, DIAGNOSED, Game, ITEMS, PATH};
use crate::support::{AppKind, NOW, Request, TestTill, form};

/// A refused exchange records nothing: purses, ledger and numbers are as they were.
async fn assert_untouched(till: &TestTill) {
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries WHERE kind <> 'credit'").await, 0);
    till.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_answers_the_balances_right_after_it() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 30, 50).await;
    let answer = Game::new(&app, "o1", "b1", 60).send(&till).await;
    answer.assert_body(
        r#"{"code":1,"msg":"SUCCESS","data":{"bizNo":"b1","freeBalance":20,"chargeBalance":0}}"#,
    );
    assert_eq!(answer.header("idempotent-replayed"), None);
    assert_eq!(till.purses(&app, "o1").await, (20, 0, 2));
    let entry = "SELECT count(*) FROM ledger_entries WHERE seq = 2 AND kind = 'exchange' AND reference = 'b1' \
                 AND free_change = -10 AND charge_change = -50 AND free_balance = 20 AND charge_balance = 0";
    assert_eq!(till.number(entry).await, 1);
    till.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gifted_first_takes_the_gifted_purse_and_the_other_pays_the_rest() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 30, 50).await;
    let data = |number: &str, free: i64, charge: i64| {
        format!(
            r#"{{"code":1,"msg":"SUCCESS","data":{{"bizNo":"{number}","freeBalance":{free},"chargeBalance":{charge}}}}}"#
        )
    };
    let game = |number: &str, amount: i64, priority: &str| {
        Game::new(&app, "o1", number, amount).with("pay_priority", priority)
    };
    game("b1", 10, "1").send(&till).await.assert_body(&data("b1", 20, 50));
    game("b2", 10, "0").send(&till).await.assert_body(&data("b2", 20, 40));
    game("b3", 10, "").send(&till).await.assert_body(&data("b3", 20, 30));
    game("b4", 25, "1").send(&till).await.assert_body(&data("b4", 0, 25));
    game("b5", 25, "1").send(&till).await.assert_body(&data("b5", 0, 0));
    till.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_pay_priority_takes_the_setting() {
    let till = TestTill::start_with(|config| {
        config.exchange.pay_priority_default = domain::wallet::PayPriority::GiftedFirst;
    })
    .await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 30, 50).await;
    Game::new(&app, "o1", "b1", 40).send(&till).await;
    assert_eq!(till.purses(&app, "o1").await, (0, 40, 2));
    // The effective priority is the content: saying it is the same request.
    let again = Game::new(&app, "o1", "b1", 40).with("pay_priority", 1).send(&till).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    Game::new(&app, "o1", "b1", 40).with("pay_priority", 0).send(&till).await.assert_refused(
        10_000_602,
        "biz_no: b1 was used for other content; a new request needs a new number, and is carried out again: ask with a query first",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_is_answered_with_the_original_data_whatever_the_wallet_holds_now() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let game = Game::new(&app, "o1", "b1", 60);
    let first = game.send(&till).await;
    Game::new(&app, "o1", "b2", 40).send(&till).await;
    assert_eq!(till.purses(&app, "o1").await, (0, 0, 3));
    let (token, _) = till.store.issue_token(&app.id, Duration::from_mins(1)).await.unwrap().unwrap();
    let changed = game
        .clone()
        .with("ts", NOW - 1)
        .with("user_ip", "::1")
        .with("os", "ios")
        .with("access_token", token)
        .with_texts("");
    for repeat in [game, changed] {
        let answer = repeat.send(&till).await;
        assert_eq!(answer.body, first.body);
        assert_eq!(answer.header("idempotent-replayed"), Some("true"));
    }
    assert_eq!(till.purses(&app, "o1").await, (0, 0, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_with_other_content_is_refused_field_by_field() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    till.player(&app, "o2", 0, 100).await;
    let game = Game::new(&app, "o1", "b1", 10);
    game.send(&till).await;
    let fields = [
        ("open_id", "o2"),
        ("zone_id", "z1_r2"),
        ("amount", "11"),
        ("pay_priority", "1"),
        ("product_name", "other"),
        ("product_info", r#"[ {"product_id":1,"product_num":2,"product_type":0}]"#),
        ("product_desc", "other"),
    ];
    for (field, value) in fields.into_iter().chain(DeveloperTexts::NAMES.map(|name| (name, "other"))) {
        let answer = game.clone().with(field, value).send(&till).await;
        answer.assert_refused(
            10_000_602,
            "biz_no: b1 was used for other content; a new request needs a new number, and is carried out again: ask with a query first",
        );
    }
    assert_eq!(till.purses(&app, "o1").await, (0, 90, 2));
    assert_eq!(till.purses(&app, "o2").await, (0, 100, 1));
}

/// A row from before the column of a text has NULL: its exchange had no such text.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_from_before_a_text_of_the_developer_is_replayed_without_it() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let game = Game::new(&app, "o1", "b1", 10);
    let first = game.send(&till).await;
    for name in DeveloperTexts::NAMES {
        till.execute(&format!("UPDATE ledger_entries SET {name} = NULL WHERE reference = 'b1'")).await;
        let again = game.send(&till).await;
        assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &first.body));
        assert_eq!(game.clone().with(name, "other").send(&till).await.code(), 10_000_602);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_expires_after_48_hours_of_database_time_and_never_deducts_again() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let game = Game::new(&app, "o1", "b1", 10);
    game.send(&till).await;
    till.execute("UPDATE ledger_entries SET at = now() - interval '47 hours 59 minutes'").await;
    assert_eq!(game.send(&till).await.header("idempotent-replayed"), Some("true"));
    till.execute("UPDATE ledger_entries SET at = now() - interval '48 hours'").await;
    for late in [game.clone(), game.with("amount", "11")] {
        let answer = late.send(&till).await;
        answer.assert_refused(
            10_000_603,
            "biz_no: b1 was used more than 48 hours ago; a new request needs a new number, and is carried out again: ask with a query first",
        );
    }
    assert_eq!(till.purses(&app, "o1").await, (0, 90, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_belongs_to_its_app_and_a_refusal_leaves_it_free() {
    let till = TestTill::start().await;
    let (one, two) = (till.app("a1").await, till.app("a2").await);
    till.player(&one, "o1", 0, 5).await;
    till.player(&two, "o1", 0, 50).await;
    Game::new(&one, "o1", "b1", 10)
        .send(&till)
        .await
        .assert_refused(10_000_601, "amount: the balance does not cover it; data has what is there");
    assert_untouched(&till).await;
    assert_eq!(Game::new(&one, "o1", "b1", 5).send(&till).await.code(), 1);
    assert_eq!(Game::new(&two, "o1", "b1", 10).send(&till).await.code(), 1);
    assert_eq!(till.purses(&two, "o1").await, (0, 40, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn both_purses_together_must_cover_the_amount() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 40, 60).await;
    for priority in ["0", "1"] {
        let answer = Game::new(&app, "o1", "b1", 101).with("pay_priority", priority).send(&till).await;
        answer.assert_body(
            r#"{"code":10000601,"msg":"amount: the balance does not cover it; data has what is there","data":{"freeBalance":40,"chargeBalance":60}}"#,
        );
    }
    assert_eq!(till.purses(&app, "o1").await, (40, 60, 1));
    assert_untouched(&till).await;
}

/// Rule (contract 3.1.5): JSON is no form, and the answer says so.
#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_sent_as_json_is_told_that_a_form_is_expected() {
    let till = TestTill::start().await;
    till.app("a1").await;
    for body in [r#"{"app_id":"a1"}"#, "\r\n [1]", "{"] {
        let request = Request::post(PATH).header("content-type", "application/x-www-form-urlencoded");
        let text = "body: expected a form (application/x-www-form-urlencoded), got JSON";
        till.send(request.body(body)).await.assert_refused(10_000_200, text);
    }
    // Rule 2.10.3: what Java and Python print of a map is no JSON.
    for body in ["{open_id=player-1, app_id=a1}", "{'app_id': 'a1'}"] {
        let text = "body: expected a form (application/x-www-form-urlencoded), got plain text";
        till.send(Request::post(PATH).body(body)).await.assert_refused(10_000_200, text);
    }
    assert_untouched(&till).await;
}

/// Rule (contract 3.1.6): a required field that came in the query alone is named as such, with the code
/// of an absent one. That comes before the check of the signature.
#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_came_in_the_query_is_told_so() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let game = Game::new(&app, "o1", "b1", 10);
    let whole = Request::post(&format!("{PATH}?{}", game.body()));
    let text = |field: &str| format!("{field}: expected in the form, it came in the query");
    till.send(whole).await.assert_refused(100_200_102, &text("app_id"));
    for (field, code) in [
        ("app_id", 100_200_102),
        ("access_token", 100_200_102),
        ("sign", 100_200_114),
        ("open_id", 10_000_200),
        ("zone_id", 10_000_200),
        ("os", 10_000_200),
        ("ts", 10_000_200),
        ("user_ip", 10_000_200),
        ("amount", 10_000_200),
        ("biz_no", 10_000_200),
        ("product_name", 10_000_200),
        ("product_info", 10_000_200),
        ("product_desc", 10_000_200),
    ] {
        let body = game.body();
        let rest: Vec<&str> = body.split('&').filter(|pair| pair.split('=').next() != Some(field)).collect();
        let misplaced = Request::post(&format!("{PATH}?{field}=x")).body(rest.join("&"));
        till.send(misplaced).await.assert_refused(code, &text(field));
    }
    assert_untouched(&till).await;
    // What the form has counts, and an optional field of the query is ignored.
    let both = Request::post(&format!("{PATH}?amount=1&pay_priority=1&extension=x")).body(game.body());
    assert_eq!(till.send(both).await.code(), 1);
    assert_eq!(till.purses(&app, "o1").await, (0, 90, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_id_that_is_malformed_or_unknown_is_10000423() {
    let till = TestTill::start().await;
    let (app, other) = (till.app("a1").await, till.app("a2").await);
    till.player(&other, "theirs", 0, 100).await;
    for unknown in ["nobody", "theirs"] {
        let answer = Game::new(&app, unknown, "b1", 10).send(&till).await;
        let text = format!(
            "open_id: expected a player of this app; a login makes a player known, and so does the operator's `minitill user \
             add`, got \"{unknown}\""
        );
        answer.assert_refused(10_000_423, &text);
    }
    let answer = Game::new(&app, "o.1", "b1", 10).send(&till).await;
    answer.assert_refused(10_000_423, "open_id: expected 1 to 64 of 0-9A-Za-z_-, got \"o.1\"");
    assert_untouched(&till).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ts_must_be_inside_the_window_unless_the_number_was_used() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    for (outside, distance) in [
        (NOW + 360_000, "360.0 s ahead of"),
        (NOW + 300_001, "300.0 s ahead of"),
        (NOW - 172_800_001, "172800.0 s behind"),
    ] {
        let message = format!(
            "ts: expected at most 5m ahead of and 48h behind now, which is {NOW}; it is {distance} this server's clock"
        );
        let answer = Game::new(&app, "o1", "b1", 1).with("ts", outside).send(&till).await;
        answer.assert_refused(10_000_604, &message);
        // The window comes before the wallet.
        let answer = Game::new(&app, "nobody", "b1", 1).with("ts", outside).send(&till).await;
        answer.assert_refused(10_000_604, &message);
    }
    assert_untouched(&till).await;
    for (number, inside) in [("b1", NOW + 300_000), ("b2", NOW - 172_800_000), ("b3", NOW / 1000)] {
        assert_eq!(
            Game::new(&app, "o1", number, 1).with("ts", inside).send(&till).await.code(),
            1,
            "{inside}"
        );
    }
    let old = Game::new(&app, "o1", "b1", 1).with("ts", NOW - 200_000_000).send(&till).await;
    assert_eq!((old.code(), old.header("idempotent-replayed")), (1, Some("true")));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_that_is_required_is_named_when_it_is_absent_or_empty() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let game = Game::new(&app, "o1", "b1", 10);
    for field in [
        "open_id",
        "zone_id",
        "os",
        "ts",
        "user_ip",
        "amount",
        "biz_no",
        "product_name",
        "product_info",
        "product_desc",
    ] {
        let (absent, empty) = (game.clone().without(field), game.clone().with(field, ""));
        absent.send(&till).await.assert_refused(10_000_200, &format!("{field} is missing"));
        empty.send(&till).await.assert_refused(10_000_200, &format!("{field} is empty"));
    }
    for (field, step) in [("app_id", ""), ("access_token", "; /oauth2/access_token gives one")] {
        let (absent, empty) = (game.clone().without(field), game.clone().with(field, ""));
        absent.send(&till).await.assert_refused(100_200_102, &format!("{field} is missing{step}"));
        empty.send(&till).await.assert_refused(100_200_102, &format!("{field} is empty{step}"));
    }
    game.clone()
        .with("sign", "")
        .send(&till)
        .await
        .assert_refused(100_200_114, &BAD_SIGNATURE.replace(": the signature does not match", " is empty"));
    let unsigned = game.body().split("&sign=").next().unwrap().to_owned();
    till.send(Request::post(PATH).body(unsigned))
        .await
        .assert_refused(100_200_114, &BAD_SIGNATURE.replace(": the signature does not match", " is missing"));
    assert_untouched(&till).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_field_is_refused_by_its_own_rule() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let zone = "<zone>_<role>, at most 128 bytes, without &, = and control characters";
    let ts = "13 digits of milliseconds or 10 digits of seconds";
    let amount = "an integer from 1 to 1000000000000";
    let long = |length: usize| "a".repeat(length);
    let cut = format!("\"{}\"...", long(64));
    let cases: Vec<(&'static str, String, String)> = vec![
        ("zone_id", "z1".into(), format!("expected {zone}, got \"z1\"")),
        ("zone_id", "_r".into(), format!("expected {zone}, got \"_r\"")),
        ("zone_id", "z_".into(), format!("expected {zone}, got \"z_\"")),
        ("zone_id", "z_r&amount=1".into(), format!("expected {zone}, got \"z_r&amount=1\"")),
        ("zone_id", "z_r=".into(), format!("expected {zone}, got \"z_r=\"")),
        ("zone_id", "z_\tr".into(), format!("expected {zone}, got \"z_\\tr\"")),
        ("zone_id", format!("z_{}", long(127)), format!("expected {zone}, got \"z_{}\"...", long(62))),
        ("os", "i os".into(), "expected 1 to 32 of 0-9A-Za-z._-, got \"i os\"".into()),
        ("os", long(33), format!("expected 1 to 32 of 0-9A-Za-z._-, got \"{}\"", long(33))),
        ("ts", "12345".into(), format!("expected {ts}, got \"12345\"")),
        ("ts", "-180000000000".into(), format!("expected {ts}, got \"-180000000000\"")),
        // The player's address is repeated nowhere.
        ("user_ip", "1.2.3".into(), "expected an IPv4 or IPv6 address".into()),
        ("user_ip", "1.2.3.4&x=1".into(), "expected an IPv4 or IPv6 address".into()),
        ("user_ip", "203.0.113.7:80".into(), "expected an IPv4 or IPv6 address; it has a port".into()),
        ("amount", "0".into(), format!("expected {amount}, got \"0\"")),
        ("amount", "-5".into(), format!("expected {amount}, got \"-5\"")),
        ("amount", "+5".into(), format!("expected {amount}, got \"+5\"")),
        ("amount", "05".into(), format!("expected {amount}, got \"05\"")),
        ("amount", "5.0".into(), format!("expected {amount}, got \"5.0\"")),
        ("amount", "1e3".into(), format!("expected {amount}, got \"1e3\"")),
        ("amount", "1000000000001".into(), format!("expected {amount}, got \"1000000000001\"")),
        ("pay_priority", "2".into(), "expected 0, 1 or empty, got \"2\"".into()),
        ("biz_no", "b_1".into(), "expected 1 to 63 of 0-9A-Za-z, got \"b_1\"".into()),
        ("biz_no", long(64), format!("expected 1 to 63 of 0-9A-Za-z, got \"{}\"", long(64))),
        ("product_name", long(513), format!("expected 1 to 512 bytes, got {cut}")),
        ("product_desc", long(513), format!("expected 1 to 512 bytes, got {cut}")),
        (
            "product_info",
            "{}".into(),
            "expected the JSON text of an array of 1 to 100 item objects, got \"{}\"".into(),
        ),
        (
            "product_info",
            "[]".into(),
            "expected an array of 1 to 100 item objects, not of 0, got \"[]\"".into(),
        ),
        (
            "product_info",
            r#"[{"product_id":1,"product_num":1,"product_type":1}]"#.into(),
            "expected item objects as the interface defines them ([0]: product_start_time is missing), \
             got \"[{\\\"product_id\\\":1,\\\"product_num\\\":1,\\\"product_type\\\":1}]\""
                .into(),
        ),
        ("extension", long(4097), format!("expected at most 4096 bytes, got {cut}")),
    ];
    for (field, value, message) in cases {
        let answer = Game::new(&app, "o1", "b1", 10).with(field, &value).send(&till).await;
        answer.assert_refused(10_000_200, &format!("{field}: {message}"));
    }
    assert_untouched(&till).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_of_everything_is_accepted() {
    let till = TestTill::start().await;
    let app = till.app(&"a".repeat(64)).await;
    let open_id = "o".repeat(64);
    till.player(&app, &open_id, i64::MAX, i64::MAX).await;
    let item = r#"{"product_id":9223372036854775807,"product_num":"1","product_type":1,"product_start_time":1,"product_period":2,"x":[]}"#;
    let items = format!("[{}]", vec![item; 100].join(","));
    let answer = Game::new(&app, &open_id, &"b".repeat(63), 1_000_000_000_000)
        .with("zone_id", format!("z_{}", "r".repeat(126)))
        .with("os", "x".repeat(32))
        .with("product_name", "名".repeat(170))
        .with("product_desc", "\n".repeat(512))
        .with("product_info", items)
        .with("extension", "&=".repeat(2048))
        .send(&till)
        .await;
    assert_eq!(answer.code(), 1, "{}", answer.body);
    assert_eq!(till.purses(&app, &open_id).await, (i64::MAX, i64::MAX - 1_000_000_000_000, 2));
    till.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_access_token_is_checked_before_the_signature_and_the_signature_before_the_fields() {
    let till = TestTill::start().await;
    let (app, other) = (till.app("a1").await, till.app("a2").await);
    till.player(&app, "o1", 0, 100).await;
    let broken = Game::new(&app, "o1", "b_1", 10).with("sign", "00");
    let of_other = broken.clone().with("access_token", &other.token);
    of_other
        .send(&till)
        .await
        .assert_refused(100_200_102, "access_token: expected a token of this app from /oauth2/access_token");
    let unknown = broken.clone().with("access_token", "never issued");
    unknown
        .send(&till)
        .await
        .assert_refused(100_200_102, "access_token: expected a token of this app from /oauth2/access_token");
    for unknown in ["nobody", "a&1"] {
        let text =
            format!("app_id: unknown app \"{unknown}\"; use the id that the operator of this till gave you");
        let unknown = broken.clone().with("app_id", unknown);
        unknown.send(&till).await.assert_refused(100_200_102, &text);
    }
    broken.send(&till).await.assert_refused(100_200_114, BAD_SIGNATURE);
    let (short, _) = till.store.issue_token(&app.id, Duration::from_secs(10)).await.unwrap().unwrap();
    till.clock.advance(Duration::from_secs(10));
    let expired = Game::new(&app, "o1", "b1", 10).with("access_token", short);
    expired
        .send(&till)
        .await
        .assert_refused(100_200_102, "access_token: expired, get a new one from /oauth2/access_token");
    till.command(&app, AppCommand::Suspend(true)).await;
    till.clock.advance(Duration::from_secs(3));
    let game = Game::new(&app, "o1", "b1", 10);
    game.send(&till).await.assert_refused(
        100_200_102,
        "app_id: the app is suspended; ask the operator of this till to resume it",
    );
    assert_untouched(&till).await;
    till.command(&app, AppCommand::Suspend(false)).await;
    till.clock.advance(Duration::from_secs(3));
    assert_eq!(game.send(&till).await.code(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_pay_keys_are_live_and_a_third_rotation_retires_the_first() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let second = till.rotate_pay_key(&app).await;
    till.clock.advance(Duration::from_secs(3));
    for (number, key) in [("b1", &app.pay_key), ("b2", &second)] {
        assert_eq!(Game::new(&app, "o1", number, 1).keyed(key).send(&till).await.code(), 1);
    }
    let third = till.rotate_pay_key(&app).await;
    till.clock.advance(Duration::from_secs(3));
    for (number, key) in [("b3", &second), ("b4", &third)] {
        assert_eq!(Game::new(&app, "o1", number, 1).keyed(key).send(&till).await.code(), 1);
    }
    let retired = Game::new(&app, "o1", "b5", 1).send(&till).await;
    // A live app is told only that it does not match.
    retired.assert_body(&format!(r#"{{"code":100200114,"msg":"{BAD_SIGNATURE}"}}"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_app_is_told_the_string_and_the_mistake() {
    let till = TestTill::start().await;
    let app = till.app_like("a1", AppKind { sandbox: true, ..AppKind::default() }).await;
    for _ in 0..2 {
        till.rotate_pay_key(&app).await;
    }
    let live = till.rotate_pay_key(&app).await;
    till.player(&app, "o1", 0, 100).await;
    let game = Game::new(&app, "o1", "b1", 10)
        .with("extension", "")
        .with("product_name", "Sword and shield")
        .keyed(&live);
    let string = game.string_to_sign();
    let sign = |text: &str| PayKey::new(live.clone()).sign(text);
    let sent: String = form_order(&game.body());
    let upper = upper_names(&string);
    let cases = [
        (
            sign(
                &string
                    .replace("Sword and shield", "Sword%20and%20shield")
                    .replace(ITEMS, &crate::support::encoded(ITEMS).replace("%5F", "_")),
            ),
            "values were URL-encoded before signing; sign them as they are",
        ),
        (
            sign(&string.replace("&open_id", "&extension=&open_id")),
            "empty fields were kept; leave them out of the string",
        ),
        (
            sign(&format!("access_token={}&{string}", app.token)),
            "access_token was included; it is not signed",
        ),
        (sign(&sent), "the fields were not sorted; join them in ASCII order of their names"),
        (sign(&upper), "the field names were in upper case; sign them as they are sent"),
        (
            PayKey::new(string.clone()).sign(&live),
            "key and message were swapped; the pay key is the HMAC key",
        ),
        (
            PayKey::new(app.secret.clone()).sign(&string),
            "the app secret was used as the key; sign with the pay key",
        ),
        (PayKey::new(app.pay_key.clone()).sign(&string), "the pay key is retired; sign with the current one"),
        (
            hex::encode(Md5::digest(format!("{string}{}", app.secret))),
            "MD5 with the app secret appended was used; exchanges are signed with HMAC-SHA256 and the pay key",
        ),
    ];
    let other = PayKey::new(till.app("a2").await.pay_key).sign(&string);
    let another = Mistake::AnotherAppsKey.english();
    let cases = cases.into_iter().chain([(other, &*another)]);
    for (sign, mistake) in cases {
        // An app has five diagnoses a second.
        till.clock.advance(Duration::from_secs(1));
        let answer = game.clone().with("sign", sign).send(&till).await;
        let expected = serde_json::json!({
            "code": 100_200_114,
            "msg": DIAGNOSED,
            "data": { "string_to_sign": string, "bytes": string.len(), "mistake": mistake },
        });
        assert_eq!(answer.json(), expected);
        for secret in [&app.secret, &app.pay_key, &live, &PayKey::new(live.clone()).sign(&string)] {
            assert!(!answer.body.contains(secret.as_str()), "never a key, never the right signature");
        }
    }
    let answer = game.clone().with("sign", "00".repeat(32)).send(&till).await;
    assert_eq!(answer.json()["data"], serde_json::json!({ "string_to_sign": string, "bytes": string.len() }));
    assert_untouched(&till).await;
    assert_eq!(game.send(&till).await.code(), 1);
}

/// Rule 3.7.2: a right signature that is written wrong, a string with the separators of a page, and a placeholder.
#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_app_is_told_what_its_signature_was_made_into() {
    let till = TestTill::start().await;
    let app = till.app_like("a1", AppKind { sandbox: true, ..AppKind::default() }).await;
    till.player(&app, "o1", 0, 100).await;
    let game = Game::new(&app, "o1", "b1", 10);
    let string = game.string_to_sign();
    let key = PayKey::new(app.pay_key.clone());
    for (sign, mistake) in [
        (
            format!("0{}", key.sign(&string)),
            "the signature is right but written wrong: it is printed as a big integer; write two digits for each byte",
        ),
        (
            format!("{}&", key.sign(&string)),
            "the signature is right but written wrong: a separator, as &, is around it; leave it out",
        ),
        (
            format!("\u{feff}{}", key.sign(&string)),
            "the signature is right but written wrong: an unseen character is around it; leave it out",
        ),
        (
            // The value with a sign of its own stays as it is.
            key.sign(&string.replace('&', "&amp;").replace("&amp; shield", "& shield")),
            "the fields were joined in another way; join name=value with &",
        ),
        (
            key.sign(&format!("{string}&access_token={}", app.token)),
            "access_token was included; it is not signed",
        ),
        (
            "{sign}".to_owned(),
            "the signature is a placeholder, which nothing replaced; send the HMAC-SHA256 with the pay key, in hexadecimal",
        ),
    ] {
        // An app has five diagnoses a second.
        till.clock.advance(Duration::from_secs(1));
        let answer = game.clone().with("sign", sign).send(&till).await;
        assert_eq!(answer.code(), 100_200_114, "{}", answer.body);
        let expected =
            serde_json::json!({ "string_to_sign": string, "bytes": string.len(), "mistake": mistake });
        assert_eq!(answer.json()["data"], expected);
    }
    assert_untouched(&till).await;
}

/// The signed fields in the order of the table of contract 3.1, as a server that does not sort would join them.
fn form_order(body: &str) -> String {
    let fields: std::collections::HashMap<String, String> = body
        .split('&')
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| {
            (name.to_owned(), percent_encoding::percent_decode_str(value).decode_utf8().unwrap().into_owned())
        })
        .collect();
    let present = domain::wallet::WalletCall::Exchange.signed_fields().names.iter().filter_map(|name| {
        fields.get(*name).filter(|value| !value.is_empty()).map(|value| format!("{name}={value}"))
    });
    present.collect::<Vec<_>>().join("&")
}

fn upper_names(string: &str) -> String {
    let upper = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap();
        format!("{}={value}", name.to_uppercase())
    };
    string.split('&').map(upper).collect::<Vec<_>>().join("&")
}

#[tokio::test(flavor = "multi_thread")]
async fn either_case_of_hexadecimal_and_a_sign_encoded_twice_are_accepted() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let signed = |number: &str| {
        let game = Game::new(&app, "o1", number, 1);
        let sign = PayKey::new(app.pay_key.clone()).sign(&game.string_to_sign());
        (game, sign)
    };
    let (game, sign) = signed("b1");
    assert_eq!(game.with("sign", sign.to_uppercase()).send(&till).await.code(), 1);
    let (game, sign) = signed("b2");
    let twice = sign.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat();
    assert_eq!(game.with("sign", twice).send(&till).await.code(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_field_does_not_match_its_signature() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let game = Game::new(&app, "o1", "b1", 10).with("pay_priority", 0).with("extension", "e");
    let sign = PayKey::new(app.pay_key.clone()).sign(&game.string_to_sign());
    for (field, value) in [
        ("open_id", "o2"),
        ("zone_id", "z_x"),
        ("os", "ios"),
        ("ts", "1800000000001"),
        ("user_ip", "1.1.1.1"),
        ("amount", "11"),
        ("pay_priority", "1"),
        ("biz_no", "b2"),
        ("product_name", "x"),
        ("product_info", "[]"),
        ("product_desc", "x"),
        ("extension", "x"),
        ("extension", ""),
        ("pay_priority", ""),
    ] {
        let answer = game.clone().with("sign", &sign).with(field, value).send(&till).await;
        answer.assert_refused(100_200_114, BAD_SIGNATURE);
    }
    assert_untouched(&till).await;
    // What is not signed may change; unknown fields are ignored.
    let answer = game.with("sign", sign).with("unknown", "1").send(&till).await;
    assert_eq!(answer.code(), 1);
}

/// The string to sign does not escape: with these texts one signature would fit two players.
#[tokio::test(flavor = "multi_thread")]
async fn one_signature_does_not_fit_two_players() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "poor", 0, 100).await;
    till.player(&app, "rich", 0, 100).await;
    let game = |open_id: &str, extension: &str, description: &str| {
        Game::new(&app, open_id, "b1", 10).with("extension", extension).with("product_desc", description)
    };
    let poor = game("poor", "e", "d&open_id=rich&os=android&product_desc=d");
    let rich = game("rich", "e&open_id=poor&os=android&product_desc=d", "d");
    assert_eq!(poor.string_to_sign(), rich.string_to_sign());
    for game in [poor, rich] {
        let answer = game.send(&till).await;
        assert_eq!(answer.code(), 10_000_200);
        assert!(
            answer
                .message()
                .starts_with("extension: expected texts that cannot be taken for other signed fields")
        );
    }
    assert_untouched(&till).await;
    // A query string of the developer's own is fine.
    let answer = game("poor", "a=1&os=x&open_id=poor&ts=5", "d").send(&till).await;
    assert_eq!(answer.code(), 1, "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_with_a_field_twice_or_text_that_is_not_utf8_is_refused_unread() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let body = Game::new(&app, "o1", "b1", 10).body();
    for (more, message) in [
        ("amount=10", "amount: expected once, given twice"),
        ("unknown=1&unknown=2", "unknown: expected once, given twice"),
        ("x=%FF", "x: expected UTF-8 text"),
        ("%FF=x", "a field name: expected UTF-8 text"),
        ("x=a%00b", "x: expected text without NUL characters"),
    ] {
        let answer = till.send(Request::post(PATH).body(format!("{body}&{more}"))).await;
        answer.assert_refused(10_000_200, message);
    }
    let twice = Request::post(&format!("{PATH}?x=1&x=2")).body(body.clone());
    till.send(twice).await.assert_refused(10_000_200, "x: expected once, given twice");
    let many = form(&(0..260).map(|_| ("", "")).collect::<Vec<_>>());
    till.send(Request::post(PATH).body(many))
        .await
        .assert_refused(10_000_200, "a field without a name: expected once, given twice");
    let many = (0..300).map(|index| format!("f{index}=1&")).collect::<Vec<_>>().concat();
    till.send(Request::post(PATH).body(many)).await.assert_refused(10_000_200, "expected at most 256 fields");
    assert_untouched(&till).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_segment_any_content_type_and_runs_of_slashes_lead_here() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    for (number, path, content_type) in [
        ("b1", "/api/kpay/minigame/pay", "text/plain"),
        ("b2", "/api/any-segment/minigame/pay", "application/json"),
        ("b3", "//api///x/minigame//pay", "application/x-www-form-urlencoded; charset=UTF-8"),
        ("b4", "/api/kpay/minigame/pay?ignored=1", ""),
    ] {
        let body = Game::new(&app, "o1", number, 1).body();
        let answer = till.send(Request::post(path).header("content-type", content_type).body(body)).await;
        assert_eq!(answer.code(), 1, "{path}");
    }
}
