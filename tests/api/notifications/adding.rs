//! Receivers that are added (contract 12.2.1, 12.2.8 and 12.2.9), tests (12.4.12), and what none may reach (12.4.10).

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::event::{EventId, EventType};
use domain::operation::receiver::{ReceiverCommand, Resend, too_many_receivers, unknown_receiver};
use domain::receiver::{RECEIVERS_MAX, ReceiverFormat, TimeBounds};
use futures_util::future::join_all;
use serde_json::json;
use store::OperationError;
use tokio::task::JoinSet;

use super::standard::signature;
use super::{Scene, Sending, add, all_events, credit, id, new_receiver, pay, quiet_till};
use crate::admin::Caller;
use crate::game::Game;
use crate::hostile_urls::{HOSTILE, inside};
use crate::support::receiver::{Receiver, Reply};
use crate::support::{TestTill, operator};

/// Rule 12.2.1: a receiver of some types gets those alone, and one without types gets all.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_is_told_of_its_types() {
    let (some, all) = (Receiver::taking().await, Receiver::taking().await);
    let scene = Scene::new(&[&some, &all]).await;
    let types = &[EventType::PresentSucceeded, EventType::WalletCredited];
    let added = scene.add_like(&some, ReceiverFormat::Standard, types).await;
    let of_all = scene.add(&all).await;
    for number in 0..3 {
        scene.pay(&format!("b{number}")).await;
        let present = Game::present(&scene.app, "o1", &format!("p{number}"), 1).send(&scene.till).await;
        assert_eq!(present.code(), 1, "{}", present.body);
    }
    credit(&scene.till, &scene.app, "c1", 1, 1).await;
    assert_eq!(all.until_received(7).await.len(), 7);
    let came = some.until_received(4).await;
    let of: BTreeSet<String> =
        came.iter().map(|one| one.json()["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(of, BTreeSet::from(["present.succeeded".to_owned(), "wallet.credited".to_owned()]));
    for (added, taken) in [(&added, 4), (&of_all, 7)] {
        scene.until(added, "all is taken", |shown| (shown.receiver.taken, shown.waiting) == (taken, 0)).await;
    }
    assert_eq!((some.received().len(), all.received().len()), (4, 7));
}

/// Rule 12.2.9: what happened before it was added is not sent, although it had no number yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_receiver_gets_what_happens_after_it_was_added() {
    let receiver = Receiver::taking().await;
    let (till, app) = quiet_till(&[&receiver], |_| {}).await;
    for number in ["b1", "b2"] {
        pay(&till, &app, number).await;
    }
    assert_eq!(till.number("SELECT count(*) FROM events").await, 0);
    add(&till, &app, &receiver.url("/"), ReceiverFormat::Standard, &[]).await;
    for number in ["b3", "b4"] {
        pay(&till, &app, number).await;
    }
    let _sending = Sending::of(&till);
    let mut numbers: Vec<_> = receiver.until_received(2).await.iter().map(|one| one.data("biz_no")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, ["b3", "b4"]);
    pay(&till, &app, "b5").await;
    assert_eq!(receiver.until_received(3).await.len(), 3);
}

/// Rule 12.2.1: the sixth receiver is refused, also of those that are added at once; another app has its own five.
#[tokio::test(flavor = "multi_thread")]
async fn an_app_has_at_most_five_receivers() {
    let (till, app) = quiet_till(&[], |config| config.database.connections = 8).await;
    let other = till.app("a2").await;
    let command = || new_receiver("http://203.0.113.1/", ReceiverFormat::Standard, &[]);
    let adding = (0..8).map(|_| {
        let (store, command) = (till.store.clone(), command());
        let app_id = app.id.clone();
        async move { store.change_receivers(&operator(), &app_id, command, None).await }
    });
    let added = join_all(adding).await;
    let (done, refused): (Vec<_>, Vec<_>) = added.into_iter().partition(Result::is_ok);
    assert_eq!((i64::try_from(done.len()), refused.len()), (Ok(RECEIVERS_MAX), 3));
    for refusal in refused {
        assert_eq!(refusal.unwrap_err(), OperationError::Refused(too_many_receivers()));
    }
    let receivers = till.store.receivers(&app.id).await.unwrap();
    super::change(&till, &app.id, ReceiverCommand::Remove(receivers[0].receiver_id.clone())).await;
    super::change(&till, &app.id, command()).await;
    super::change(&till, &other.id, command()).await;
    assert_eq!(till.number("SELECT count(*) FROM receivers").await, 6);
}

/// What another app has is as if it did not exist.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_of_another_app_does_not_exist() {
    let receiver = Receiver::taking().await;
    let scene = Scene::new(&[&receiver]).await;
    let added = scene.add(&receiver).await;
    let (store, other) = (&scene.till.store, scene.till.app("a2").await.id);
    let event = all_events(&scene.till).await[0].id;
    let of = || id(&added).clone();
    for command in [
        ReceiverCommand::Pause(of()),
        ReceiverCommand::Resume(of()),
        ReceiverCommand::RotateSecret(of()),
        ReceiverCommand::Resend(of(), Resend::One(event)),
        ReceiverCommand::Resend(of(), Resend::Failed(TimeBounds::default())),
        ReceiverCommand::Remove(of()),
    ] {
        let refused = store.change_receivers(&operator(), &other, command.clone(), None).await;
        let unknown = OperationError::Refused(unknown_receiver(&other, of()));
        assert_eq!(refused.unwrap_err(), unknown, "{command:?}");
    }
    assert!(store.receiver(&other, &of()).await.unwrap().is_none());
    assert!(store.failed_events(&other, &of(), TimeBounds::default(), 0, 9).await.unwrap().is_none());
    assert!(store.receiver_to_test(&other, &of()).await.unwrap().is_none());
    assert!(store.event_key(&other, event).await.unwrap().is_none());
    assert_eq!(store.receivers(&other).await.unwrap(), []);
    scene.till.player(&scene.till.app("a3").await, "o1", 1, 1).await;
    scene.pay("b1").await;
    let came = receiver.until_received(1).await;
    assert_eq!((came.len(), came[0].json()["app_id"].clone()), (1, json!("a1")));
}

/// Rule 12.4.12: the exact request of a test. It is tried once, whatever is answered, shown among the tries, and not in
/// the feed.
#[tokio::test(flavor = "multi_thread")]
async fn a_test_is_marked_and_tried_once() {
    let receiver = Receiver::answering(|_, before| match before {
        0 => Reply::status(200).body("thanks"),
        _ => Reply::status(410).body("gone"),
    })
    .await;
    let scene = Scene::retrying(&[&receiver], &[Duration::from_millis(1); 3]).await;
    let added = scene.add(&receiver).await;
    let caller = Caller::admin(&scene.till).await;
    let path = format!("/apps/a1/receivers/{}/tests", id(&added));
    let mut ids = Vec::new();
    for (taken, status, error, body) in
        [(true, 200, json!(null), "thanks"), (false, 410, json!("expected 2xx, got 410"), "gone")]
    {
        let answer = caller.send("POST", &path, None, &json!({})).await;
        let mut told = answer.json();
        ids.push(told["event_id"].take().as_str().unwrap_or_else(|| panic!("{}", answer.body)).to_owned());
        let expected =
            json!({ "event_id": null, "taken": taken, "status": status, "error": error, "body": body });
        assert_eq!(told, expected);
    }
    assert!(ids[0] != ids[1] && ids.iter().all(|id| EventId::parse(id).is_ok()), "{ids:?}");
    // The till's clock stands at this time.
    let expected = r#"{"type":"exchange.succeeded","timestamp":"2027-01-15T08:00:00Z","app_id":"a1","is_mock":true,"data":{"open_id":"player-1","zone_id":"zone1_role1","seq":2,"biz_no":"order1001","amount":60,"free_change":-40,"charge_change":-20,"free_balance":0,"charge_balance":80,"product_name":"Double-up card","product_info":"[{\"product_id\":1001,\"product_num\":1,\"product_type\":0}]","product_desc":"For one match","extension":""}}"#;
    for (notification, id) in receiver.received().iter().zip(&ids) {
        assert_eq!((notification.body.as_str(), &notification.id()), (expected, id));
        assert_eq!(
            notification.header("webhook-signature"),
            signature(added.secret.as_deref().unwrap(), notification)
        );
    }
    let shown = scene.shown(&added).await;
    let tried: Vec<_> = shown.tries.iter().rev().map(|tried| tried.event_id.clone()).collect();
    assert_eq!((tried, shown.waiting, shown.failed), (ids, 0, 0));
    assert_eq!(shown.receiver.paused_by, None, "a test pauses nothing");
    scene.pay("b1").await;
    receiver.until_received(3).await;
    assert_eq!(all_events(&scene.till).await.len(), 2);
}

/// Rule 12.4.12: in the platform's format, and of the first type that the receiver is told of.
#[tokio::test(flavor = "multi_thread")]
async fn a_test_in_the_platforms_format() {
    let receiver = Receiver::taking_by_id().await;
    let (till, app) = quiet_till(&[&receiver], |_| {}).await;
    let types = &[EventType::ImageBlocked, EventType::OrderChanged];
    let added = add(&till, &app, &receiver.url("/"), ReceiverFormat::Platform, types).await;
    let to_test = till.store.receiver_to_test(&app.id, id(&added)).await.unwrap().unwrap();
    let tried = till.till.notifier.send_test(&to_test).await;
    assert_eq!(tried.error, None);
    let img_id = "0f".repeat(24);
    let expected = format!(
        r#"{{"data":{{"img_id":"{img_id}"}},"biz_type":"image.blocked","is_mock":true,"message_id":"{}","app_id":"a1","timestamp":1800000000000}}"#,
        tried.event_id
    );
    assert_eq!(receiver.received()[0].body, expected);
}

/// Rules 12.2.8 and 12.4.10: a hostile URL is refused when the receiver is added, or fails with a cause before anything is
/// sent. No connection is made.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_to_a_hostile_url() {
    let (port, connections) = inside().await;
    let till = TestTill::start_with(|config| config.notify.ports = vec![port]).await;
    let app = till.app("a1").await;
    let added = add(&till, &app, "http://203.0.113.1/", ReceiverFormat::Standard, &[]).await;
    let receiver = till.store.receiver_to_test(&app.id, id(&added)).await.unwrap().unwrap();
    let urls: Vec<String> = serde_json::from_str(HOSTILE).unwrap();
    assert!(urls.len() >= 150, "{}", urls.len());
    let (mut tries, mut refused) = (JoinSet::new(), 0);
    for url in urls {
        let url = url.replace("{port}", &port.to_string());
        if till.till.notifier.read_url(&url).is_err() {
            refused += 1;
        }
        // What was refused is tried, too: a receiver may be older than a setting.
        let (sender, receiver) = (till.till.notifier.clone(), receiver.clone());
        tries.spawn(async move {
            let attempt = sender.send_test(&store::LeasedReceiver { url: url.clone(), ..receiver }).await;
            (url, attempt)
        });
    }
    let known = [
        "url_unreadable",
        "url_too_long",
        "scheme_not_allowed",
        "user_info_in_url",
        "port_not_allowed",
        "not_reachable",
    ];
    let mut by_address = 0;
    for (url, attempt) in tries.join_all().await {
        let error = attempt.error.unwrap_or_else(|| panic!("{url:?} took it"));
        assert!(known.contains(&error.as_str()), "{url:?}: {error}");
        assert_eq!((attempt.status, attempt.body.as_str()), (None, ""), "{url:?}");
        by_address += usize::from(error == "not_reachable");
    }
    assert!(refused > 20 && by_address > 100, "{refused} {by_address}");
    assert_eq!(connections.load(Ordering::SeqCst), 0);
    // The listener counts: without the guard there would have been connections.
    drop(tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    super::until("it counts", async || connections.load(Ordering::SeqCst) == 1).await;
}
