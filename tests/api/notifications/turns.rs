//! Places of receivers are shared in turns (contract 12.4.14).

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::receiver::ReceiverFormat;
use futures_util::future::join_all;
use guarded_fetch::bulkhead::Bulkhead;

use super::{Sending, add, id, pay, quiet_till};
use crate::support::receiver::{Receiver, Reply};
use crate::support::{AppKind, TestApp, TestTill};

/// An app with a player, and a receiver of all events at this address.
async fn app_with(till: &TestTill, app: &str, receiver: &Receiver) -> TestApp {
    let app = till.app_like(app, AppKind::default()).await;
    till.player(&app, "o1", 0, 10_000).await;
    add(till, &app, &receiver.url("/"), ReceiverFormat::Standard, &[]).await;
    app
}

/// Rule: a receiver that holds a place while its tries wait for an answer gives it up to another. Its tries go on, none is
/// sent twice, and what was not tried comes later.
#[tokio::test(flavor = "multi_thread")]
async fn slow_receivers_give_up_their_places_and_lose_nothing() {
    let slow = Receiver::answering(|_, _| Reply::taken().held()).await;
    let quick = Receiver::taking().await;
    let (till, app) = quiet_till(&[&slow, &quick], |_| {}).await;
    let added = add(&till, &app, &slow.url("/"), ReceiverFormat::Standard, &[]).await;
    let second = app_with(&till, "a2", &slow).await;
    let third = app_with(&till, "a3", &quick).await;
    let places = Arc::new(Bulkhead::new(2, 1));
    let _sending = Sending::in_places(&till, Arc::clone(&places));
    let numbers: Vec<String> = (0..20).map(|number| format!("b{number}")).collect();
    for app in [&app, &second] {
        join_all(numbers.iter().map(|number| pay(&till, app, number))).await;
    }
    slow.until_received(32).await;
    assert_eq!(places.in_use(), 2);
    pay(&till, &third, "b1").await;
    quick.until_received(1).await;
    let shown = till.store.receiver(&app.id, id(&added)).await.unwrap().unwrap();
    assert!(shown.tries.is_empty(), "the tries of the slow ones are under way: {:?}", shown.tries);
    assert_eq!(slow.received().len(), 32);
    slow.release();
    let came = slow.until_received(40).await;
    let mut counts = BTreeMap::new();
    for one in &came {
        *counts.entry((one.json()["app_id"].to_string(), one.data("biz_no"))).or_insert(0) += 1;
    }
    assert_eq!((counts.len(), counts.values().max()), (40, Some(&1)));
}

/// Rule: with one place for many receivers that always have something to get, each has its turn.
#[tokio::test(flavor = "multi_thread")]
async fn each_receiver_has_its_turn() {
    let receivers = [Receiver::taking().await, Receiver::taking().await, Receiver::taking().await];
    let (till, _) = quiet_till(&receivers.each_ref(), |config| {
        config.notify.per_second_max = 1.try_into().unwrap();
    })
    .await;
    let mut apps = Vec::new();
    for (name, receiver) in ["b1", "b2", "b3"].into_iter().zip(&receivers) {
        apps.push(app_with(&till, name, receiver).await);
    }
    for app in &apps {
        let till = &till;
        join_all((0..100).map(|number| async move { pay(till, app, &format!("n{number}")).await })).await;
    }
    let _sending = Sending::in_places(&till, Arc::new(Bulkhead::new(1, 1)));
    for receiver in &receivers {
        receiver.until_received(2).await;
        // None has come to its end: there is more for each.
        assert!(receiver.received().len() < 100);
    }
}
