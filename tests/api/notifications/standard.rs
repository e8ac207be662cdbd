//! The standard format (contract 12.1.2 to 12.1.8, 12.3.1 to 12.3.4), byte for byte.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::ids::ImgId;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Scene, all_events, credit, debit, give_back, report};
use crate::game::Game;
use crate::openapi::assert_webhook;
use crate::support::receiver::{Notification, Receiver};
use crate::support::{NOW, PAGE, PICTURE, TestApp, TestTill, operator};

/// The signature of a notification by the text of the standard, without its library.
pub(super) fn signature(secret: &str, notification: &Notification) -> String {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    assert_eq!(key.len(), 32);
    let (id, timestamp) = (notification.header("webhook-id"), notification.header("webhook-timestamp"));
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{timestamp}.{}", notification.body).as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// A time that a statement gives, as RFC 3339.
pub(super) async fn moment(till: &TestTill, statement: &str) -> String {
    let at: OffsetDateTime =
        sqlx::query_scalar(sqlx::AssertSqlSafe(statement)).fetch_one(&till.sql).await.unwrap();
    at.format(&Rfc3339).unwrap()
}

/// One change of each kind. Gives the image of the order, which is blocked in the end.
async fn change_all(till: &TestTill, app: &TestApp) -> ImgId {
    credit(till, app, "c1", 5, 7).await;
    let exchange = Game::new(app, "o1", "b1", 60).with("pay_priority", 1).with("extension", "x \"1\"");
    let calls = [exchange, Game::present(app, "o1", "p1", 10), Game::cancel(app, "o1", "k1", "b1", 20)];
    for call in calls {
        let answer = call.send(till).await;
        assert_eq!(answer.code(), 1, "{}", answer.body);
    }
    debit(till, app, "d1", 1, 2).await;
    give_back(till, app, "b1", 10, "g1", "sorry").await;
    let img_id = till.image(app).await;
    for status in [1, 2] {
        assert_eq!(report(till, app, "order-1", status, &img_id).await.code(), 1);
    }
    till.store
        .change_blocks(&operator(), crate::support::block(&store::BlobHash::of(PICTURE), "r"))
        .await
        .unwrap();
    img_id
}

/// What is told of these changes: type, the statement that gives the time, and data.
fn expected(img_id: &ImgId) -> [(&'static str, String, String); 9] {
    let entry = |seq: i64| format!("SELECT at FROM ledger_entries WHERE seq = {seq}");
    let order = |seq: i64| format!("SELECT at FROM order_events WHERE seq = {seq}");
    let items = r#"[{\"product_id\":1,\"product_num\":2,\"product_type\":0}]"#;
    let of_order = |status: i16, seq: i64| {
        format!(
            r#"{{"out_biz_order_no":"order-1","out_order_no":"order-1-pay","open_id":"o1","order_status":{status},"order_create_time":{},"order_path":"{PAGE}","product_cover_img_id":"{img_id}","seq":{seq}}}"#,
            NOW - 1000
        )
    };
    [
        (
            "wallet.credited",
            entry(2),
            r#"{"open_id":"o1","seq":2,"ref":"c1","free_change":5,"charge_change":7,"free_balance":45,"charge_balance":10007}"#.to_owned(),
        ),
        (
            "exchange.succeeded",
            entry(3),
            format!(
                r#"{{"open_id":"o1","zone_id":"z1_r1","seq":3,"biz_no":"b1","amount":60,"free_change":-45,"charge_change":-15,"free_balance":0,"charge_balance":9992,"product_name":"Sword & shield = 100%","product_info":"{items}","product_desc":"remark","extension":"x \"1\""}}"#
            ),
        ),
        (
            "present.succeeded",
            entry(4),
            r#"{"open_id":"o1","zone_id":"z1_r1","seq":4,"biz_no":"p1","amount":10,"free_change":10,"charge_change":0,"free_balance":10,"charge_balance":9992,"product_desc":"remark","extension":""}"#.to_owned(),
        ),
        (
            "cancel.succeeded",
            entry(5),
            r#"{"open_id":"o1","zone_id":"z1_r1","seq":5,"biz_no":"k1","amount":20,"free_change":5,"charge_change":15,"free_balance":15,"charge_balance":10007,"product_desc":"remark","extension":"","pay_biz_no":"b1","remaining":40}"#.to_owned(),
        ),
        (
            "wallet.debited",
            entry(6),
            r#"{"open_id":"o1","seq":6,"ref":"d1","free_change":-1,"charge_change":-2,"free_balance":14,"charge_balance":10005}"#.to_owned(),
        ),
        (
            "cancel.succeeded",
            entry(7),
            r#"{"open_id":"o1","zone_id":"","seq":7,"biz_no":"g1","amount":10,"free_change":10,"charge_change":0,"free_balance":24,"charge_balance":10005,"product_desc":"sorry","extension":"","pay_biz_no":"b1","remaining":30}"#.to_owned(),
        ),
        ("order.changed", order(1), of_order(1, 1)),
        ("order.changed", order(2), of_order(2, 2)),
        (
            "image.blocked",
            "SELECT blocked_at FROM picture_blocks".to_owned(),
            format!(r#"{{"img_id":"{img_id}"}}"#),
        ),
    ]
}

/// Rules 12.1.2 to 12.1.8, 12.1.11 and 12.3.1 to 12.3.3: one change of each kind, and the exact requests that tell of them.
#[tokio::test(flavor = "multi_thread")]
async fn the_events_byte_for_byte() {
    let receiver = Receiver::taking().await;
    let scene = Scene::new(&[&receiver]).await;
    let added = scene.add(&receiver).await;
    let (till, app) = (&scene.till, &scene.app);
    let expected = expected(&change_all(till, app).await);
    let came = receiver.until_received(expected.len()).await;
    assert_eq!(came.len(), expected.len());
    // The first event is the credit before the receiver was added.
    let events = all_events(till).await.split_off(1);
    assert_eq!(events.len(), expected.len());
    for (event, (of, at, data)) in events.iter().zip(expected) {
        let id = event.id.as_text();
        let notification = came.iter().find(|notification| notification.id() == id).expect(of);
        let at = moment(till, &at).await;
        let body = format!(r#"{{"type":"{of}","timestamp":"{at}","app_id":"a1","data":{data}}}"#);
        assert_eq!(notification.body, body);
        assert_webhook(of, 0, &notification.json());
        let head = format!(
            "POST /notify?k=v HTTP/1.1\r\nhost: {}\r\nuser-agent: minitill/{}\r\ncontent-type: application/json\r\n\
             webhook-id: {id}\r\nwebhook-timestamp: {}\r\nwebhook-signature: {}\r\ncontent-length: {}\r\n\r\n",
            receiver.address,
            env!("CARGO_PKG_VERSION"),
            NOW / 1000,
            signature(added.secret.as_deref().unwrap(), notification),
            body.len()
        );
        assert_eq!(notification.head, head);
        assert!(id.len() == 40 && id.starts_with("evt_"), "{id}");
        for secret in ["203.0.113.9", &app.secret, &app.pay_key, &app.token, added.secret.as_deref().unwrap()]
        {
            assert!(!notification.body.contains(secret) && !notification.head.contains(secret));
        }
    }
}

/// Rule 12.3.2: `webhook-timestamp` is the time of the try, and `timestamp` that of the change.
#[tokio::test(flavor = "multi_thread")]
async fn each_try_has_its_own_time_and_signature() {
    use crate::support::receiver::Reply;
    use std::time::Duration;

    let receiver = Receiver::answering(|_, before| Reply::status(if before == 0 { 500 } else { 200 })).await;
    let scene = Scene::retrying(&[&receiver], &[Duration::from_secs(1)]).await;
    let added = scene.add(&receiver).await;
    scene.pay("b1").await;
    receiver.until_received(1).await;
    scene.till.clock.advance(Duration::from_mins(2));
    let [first, second] = receiver.until_received(2).await.try_into().unwrap();
    assert_eq!((first.id(), &first.body), (second.id(), &second.body));
    for (notification, at) in [(first, NOW / 1000), (second, NOW / 1000 + 120)] {
        assert_eq!(notification.header("webhook-timestamp"), at.to_string());
        assert_eq!(
            notification.header("webhook-signature"),
            signature(added.secret.as_deref().unwrap(), &notification)
        );
    }
}
