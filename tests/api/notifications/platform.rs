//! The platform's format (contract 12.3.5, 12.3.6 and 12.4.1).

use std::time::Duration;

use domain::event::EventType;
use domain::operation::app::{AppCommand, NewAppSecret};
use domain::receiver::ReceiverFormat;
use md5::{Digest as _, Md5};

use super::{Scene, all_events};
use crate::support::program::Program;
use crate::support::receiver::{Notification, Receiver, Reply};

fn kwaisign(notification: &Notification, app_secret: &str) -> String {
    hex::encode(Md5::digest(format!("{}{app_secret}", notification.body)))
}

/// Rules 12.3.5 and 12.3.6: the exact request.
#[tokio::test(flavor = "multi_thread")]
async fn the_request_byte_for_byte() {
    let receiver = Receiver::taking_by_id().await;
    let scene = Scene::new(&[&receiver]).await;
    let added = scene.add_like(&receiver, ReceiverFormat::Platform, &[EventType::ExchangeSucceeded]).await;
    scene.pay("b1").await;
    let [notification] = receiver.until_received(1).await.try_into().unwrap();
    let id = all_events(&scene.till).await[1].id;
    let millis = scene
        .till
        .number("SELECT floor(extract(epoch FROM at) * 1000)::bigint FROM ledger_entries WHERE seq = 2")
        .await;
    let items = r#"[{\"product_id\":1,\"product_num\":2,\"product_type\":0}]"#;
    let body = format!(
        r#"{{"data":{{"open_id":"o1","zone_id":"z1_r1","seq":2,"biz_no":"b1","amount":1,"free_change":0,"charge_change":-1,"free_balance":40,"charge_balance":9999,"product_name":"Sword & shield = 100%","product_info":"{items}","product_desc":"remark","extension":""}},"biz_type":"exchange.succeeded","message_id":"{id}","app_id":"a1","timestamp":{millis}}}"#
    );
    assert_eq!(notification.body, body);
    crate::openapi::assert_webhook("exchange.succeeded", 1, &notification.json());
    let head = format!(
        "POST /notify?k=v HTTP/1.1\r\nhost: {}\r\nuser-agent: minitill/{}\r\ncontent-type: application/json\r\n\
         kwaisign: {}\r\ncontent-length: {}\r\n\r\n",
        receiver.address,
        env!("CARGO_PKG_VERSION"),
        kwaisign(&notification, &scene.app.secret),
        body.len()
    );
    assert_eq!(notification.head, head);
    scene.until(&added, "it is taken", |shown| shown.receiver.taken == 1).await;
}

/// Rule 12.3.6: the newest app secret signs.
#[tokio::test(flavor = "multi_thread")]
async fn the_newest_app_secret_signs() {
    let receiver = Receiver::taking_by_id().await;
    let scene = Scene::new(&[&receiver]).await;
    scene.add_like(&receiver, ReceiverFormat::Platform, &[]).await;
    scene.pay("b1").await;
    receiver.until_received(1).await;
    let rotated = scene.till.command(&scene.app, AppCommand::RotateSecret(None)).await;
    let newest = NewAppSecret::try_from(rotated).unwrap().app_secret;
    assert_ne!(newest, scene.app.secret);
    scene.pay("b2").await;
    let came = receiver.until_received(2).await;
    for (notification, secret) in came.iter().zip([&scene.app.secret, &newest]) {
        assert_eq!(notification.header("kwaisign"), kwaisign(notification, secret));
    }
}

/// Rule 12.4.1: any 2xx with result 1 and the id of the event takes it, and nothing else does.
#[tokio::test(flavor = "multi_thread")]
async fn taken_is_what_names_its_id() {
    const NOT_TAKEN: usize = 7;
    let receiver = Receiver::answering(|notification, before| {
        let id = notification.id();
        let right = format!(r#"{{"result":1,"message_id":"{id}"}}"#);
        match before {
            0 => Reply::status(200),
            1 => Reply::status(204),
            2 => Reply::status(200).body("SUCCESS"),
            3 => Reply::status(200).body(format!(r#"{{"result":0,"message_id":"{id}"}}"#)),
            4 => Reply::status(200).body(format!(r#"{{"result":1,"message_id":"{id}0"}}"#)),
            5 => Reply::status(200).body(r#"{"result":1}"#),
            6 => Reply::status(500).body(right),
            // Of a long answer the beginning is kept alone (rule 12.4.8).
            _ => Reply::status(202).body(format!("{}{right}", " ".repeat(5_000))),
        }
    })
    .await;
    let scene = Scene::retrying(&[&receiver], &[Duration::from_millis(1); NOT_TAKEN]).await;
    let added = scene.add_like(&receiver, ReceiverFormat::Platform, &[]).await;
    scene.pay("b1").await;
    scene.until(&added, "it is taken", |shown| shown.receiver.taken == 1).await;
    let came = receiver.received();
    assert_eq!(came.len(), NOT_TAKEN + 1);
    assert!(came.iter().all(|notification| notification.body == came[0].body));
    let tries = scene.shown(&added).await.tries;
    assert_eq!(tries[0].error, None);
    assert_eq!(tries[1].error.as_deref(), Some("expected 2xx, got 500"));
    for refused in &tries[2..] {
        assert_eq!(refused.error.as_deref(), Some("expected {\"result\":1} with this message_id"));
    }
}

/// Rule 12.2.12: a receiver of the platform format has no secret of its own.
#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_secret_but_the_apps() {
    let receiver = Receiver::taking_by_id().await;
    let scene = Scene::new(&[&receiver]).await;
    let program = Program::on(&scene.till.database_url)
        .with("MINITILL_NOTIFY__ALLOW_NETWORKS", "127.0.0.1/32")
        .with("MINITILL_NOTIFY__PORTS", &receiver.address.port().to_string());
    let add = ["receiver", "add", "a1", &receiver.url("/"), "--format", "platform"];
    let added = program.json(&add);
    assert_eq!((added["format"].as_str(), added.get("secret")), (Some("platform"), None), "{added}");
    let told = program.run(&add);
    assert!(!String::from_utf8(told.stdout).unwrap().contains("whsec_"));
    let id = added["receiver_id"].as_str().unwrap();
    let refused = program.complaint(&["receiver", "rotate-secret", "a1", id]);
    let words = "a receiver of the platform format has no secret of its own: the app secret signs";
    assert!(refused.contains(words), "{refused}");
}
