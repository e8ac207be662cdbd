//! The language of refusals (contract 14.1): that of the app, once it is known. Codes are the same.

use std::time::Duration;

use domain::app_settings::{AppChange, AppLimitsChange, ScopeSteps};
use domain::language::Language;
use domain::operation::app::AppCommand;
use domain::per_second::PerSecond;
use serde_json::json;

use crate::game::Game;
use crate::support::{AppKind, PAGE, Request, TestApp, TestTill, encoded};

async fn chinese_app(till: &TestTill, id: &str) -> TestApp {
    let app = till.app_like(id, AppKind { language: Language::Zh, ..AppKind::default() }).await;
    till.player(&app, "o1", 0, 10).await;
    app
}

fn report(app: &TestApp, body: &serde_json::Value) -> Request {
    let path = format!(
        "/openapi/mp/developer/order/v1/report?app_id={}&access_token={}",
        app.id,
        encoded(&app.token)
    );
    Request::post(&path).body(body.to_string())
}

/// Rule 14.1.1, on both envelopes: refusals of the tables, of fields, of conflicts and of limits.
#[tokio::test(flavor = "multi_thread")]
async fn the_texts_of_an_app_are_in_its_language() {
    let till = TestTill::start().await;
    let app = chinese_app(&till, "a1").await;
    let game = |number: &str, amount: i64| Game::new(&app, "o1", number, amount);
    let refused = async |game: Game, code: u64, message: &str| {
        game.send(&till).await.assert_refused(code, message);
    };
    refused(game("B1", 11), 10_000_601, "amount：余额不足；data 中有现有余额").await;
    refused(game("B1", 0), 10_000_200, "amount：应为 1 到 1000000000000 的整数，收到 \"0\"").await;
    refused(game("B1", 5).without("zone_id"), 10_000_200, "zone_id 缺失").await;
    refused(game("B1", 5).with("pay_priority", "7"), 10_000_200, "pay_priority：应为 0、1 或空，收到 \"7\"")
        .await;
    let items = r#"[{"product_id":1,"product_num":0,"product_type":0}]"#;
    let shown = format!("{items:?}");
    refused(
        game("B1", 5).with("product_info", items),
        10_000_200,
        &format!("product_info：应为符合接口定义的道具对象（[0]：product_num：应为不小于 1 的整数，收到 0），收到 {shown}"),
    )
    .await;
    assert_eq!(game("B1", 5).send(&till).await.code(), 1);
    refused(
        game("B1", 6),
        10_000_602,
        "biz_no：B1 已用于其他内容；新请求需使用新单号，且会再次执行：请先查询",
    )
    .await;
    let stranger = Game::new(&app, "o9", "B2", 5);
    let known =
        "open_id：应为该应用的玩家；玩家登录后即被登记，运营人员也可用 `minitill user add` 登记，收到 \"o9\"";
    refused(stranger, 10_000_423, known).await;
    let two_players = "e&open_id=o9&os=android&product_desc=d";
    let (first, last) =
        ("不会被当作其他签名字段的文本（&open_id=、&os=、&product_desc=）", format!("{two_players:?}"));
    let ambiguous = game("B2", 5).with("extension", two_players);
    refused(ambiguous, 10_000_200, &format!("extension：应为{first}，收到 {last}")).await;
    let signature = "sign：签名不匹配；应为以支付密钥对签名字段（name=value，按字段名排序，以 & 连接）计算的 HMAC-SHA256 十六进制值";
    refused(game("B2", 5).keyed("wrong"), 100_200_114, signature).await;

    let mut body = json!({
        "out_biz_order_no": "order_0001", "out_order_no": "payment_01", "open_id": "o1",
        "order_create_time": 1_700_000_000_000_i64, "order_status": 1, "order_path": PAGE,
        "product_cover_img_id": "0".repeat(48),
    });
    let answer = till.send(report(&app, &body)).await;
    let unknown = format!("product_cover_img_id：\"{}\" 在此不存在，请重新上传图片", "0".repeat(48));
    answer.assert_refused(10_000_417, &unknown);
    body["order_path"] = json!("pages/order/detial");
    let nearest = format!(
        "order_path：应为最新发布的代码包中的页面，收到 \"pages/order/detial\"；最接近的页面是 \"{PAGE}\""
    );
    till.send(report(&app, &body)).await.assert_refused(10_001_007, &nearest);
    body["order_status"] = json!({"a": 1});
    let status = "order_status：应为状态码：1 到 6 或 10 到 15，收到对象";
    till.send(report(&app, &body)).await.assert_refused(10_000_200, status);

    let limits =
        AppLimitsChange { reports_per_second: Some(PerSecond::new(1)), ..AppLimitsChange::default() };
    till.command(&app, AppCommand::Limit(limits)).await;
    till.clock.advance(Duration::from_secs(3));
    let mut last = till.send(report(&app, &body)).await;
    while last.code() != 10_000_305 {
        last = till.send(report(&app, &body)).await;
    }
    last.assert_refused(10_000_305, "频率限制：本应用每秒至多 1 次订单上报；请按 Retry-After 等待");
}

/// Rule 14.1.2: English before the app is known, and for whom nothing is told of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_english_until_the_app_is_known() {
    let till = TestTill::start().await;
    let app = chinese_app(&till, "a1").await;
    let with = |app_id: &str, token: &str| {
        let path = format!("/openapi/mp/developer/order/v1/report?app_id={app_id}&access_token={token}");
        till.send(Request::post(&path).body("{}"))
    };
    with("a9", &app.token).await.assert_refused(
        100_200_102,
        "app_id: unknown app \"a9\"; use the id that the operator of this till gave you",
    );
    with("a1", "").await.assert_refused(100_200_102, "access_token is empty; /oauth2/access_token gives one");
    with("a1", "wrong")
        .await
        .assert_refused(100_200_102, "access_token：应为该应用从 /oauth2/access_token 获取的令牌");
    let secret = |app_id: &str, secret: &str, grant: &str| {
        let path = format!("/oauth2/access_token?app_id={app_id}&app_secret={secret}&grant_type={grant}");
        till.send(Request::get(&path))
    };
    for app_id in ["a1", "a9"] {
        let answer = secret(app_id, "wrong", "client_credentials").await;
        let text = format!(
            "app_id or app_secret is wrong; use those that the operator of this till gave you; app_id \"{app_id}\" came"
        );
        answer.assert_refused(100_200_101, &text);
    }
    let grant = "grant_type: expected client_credentials, got \"x\"";
    secret("a1", &app.secret, "x").await.assert_refused(100_200_100, grant);
    till.execute("UPDATE apps SET suspended_at = now()").await;
    till.clock.advance(Duration::from_secs(3));
    let suspended = secret("a1", &app.secret, "client_credentials").await;
    suspended.assert_refused(100_200_102, "app_id：应用已停用，请联系运营人员恢复");
}

/// Rule 14.1.1: the setting counts on every server within five seconds, and codes do not depend on it.
#[tokio::test(flavor = "multi_thread")]
async fn an_app_changes_its_language() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let wrong = async || till.send(report(&app, &json!({}))).await;
    wrong().await.assert_refused(10_000_200, "out_biz_order_no is missing");
    for (language, text) in
        [(Language::Zh, "out_biz_order_no 缺失"), (Language::En, "out_biz_order_no is missing")]
    {
        let change = AppChange { language: Some(language), ..AppChange::default() };
        till.command(&app, AppCommand::Change(change, ScopeSteps::default())).await;
        till.clock.advance(Duration::from_secs(5));
        wrong().await.assert_refused(10_000_200, text);
    }
}
