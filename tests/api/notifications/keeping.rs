//! Retention of events (contract 12.1.12 and 12.4.6).

use std::time::Duration;

use domain::operation::receiver::ReceiverCommand;
use domain::receiver::ReceiverFormat;
use store::{EventCursor, EventFilter, EventPage};

use super::{Scene, Sending, add, all_events, id, pay, quiet_till};
use crate::support::TestTill;
use crate::support::receiver::{Receiver, Reply};

const KEPT: Duration = Duration::from_hours(30 * 24);

async fn remove(till: &TestTill) -> u64 {
    let events = till.store.remove_old_events(KEPT).await.unwrap();
    events + till.store.remove_old_deliveries(KEPT).await.unwrap()
}

/// Makes these events older than they are kept.
async fn age(till: &TestTill, which: &str) {
    till.execute(&format!("UPDATE events SET at = at - interval '31 days' WHERE {which}")).await;
}

async fn page(till: &TestTill, after: EventCursor) -> EventPage {
    till.store.event_page(after, &EventFilter::default(), 1).await.unwrap()
}

async fn numbers(till: &TestTill) -> Vec<i64> {
    all_events(till).await.iter().map(|event| event.no).collect()
}

/// Rule 12.1.12: events go by their age, and the feed tells whoever has missed some.
#[tokio::test(flavor = "multi_thread")]
async fn old_events_go_and_the_feed_tells() {
    let (till, app) = quiet_till(&[], |_| {}).await;
    for number in ["b1", "b2", "b3"] {
        pay(&till, &app, number).await;
    }
    assert_eq!(numbers(&till).await, [1, 2, 3, 4]);
    let EventPage::Events(_, first) = page(&till, EventCursor::START).await else { panic!() };
    let EventPage::Events(_, second) = page(&till, first).await else { panic!() };
    assert_eq!(remove(&till).await, 0, "none is old");
    age(&till, "last_no <= 2").await;
    assert_eq!(remove(&till).await, 2);
    assert_eq!(numbers(&till).await, [3, 4]);
    assert_eq!(page(&till, first).await, EventPage::Removed);
    assert!(matches!(page(&till, second).await, EventPage::Events(events, _) if events[0].no == 3));
    age(&till, "true").await;
    assert_eq!(remove(&till).await, 2);
    let EventPage::Events(events, newest) = page(&till, EventCursor::START).await else { panic!() };
    assert_eq!((events, page(&till, second).await), (vec![], EventPage::Removed));
    pay(&till, &app, "b4").await;
    assert_eq!(numbers(&till).await, [5], "numbers go on");
    assert!(matches!(page(&till, newest).await, EventPage::Events(events, _) if events[0].no == 5));
}

/// Rule 12.1.12: what a receiver has not been sent, what waits for another try, and what has failed stays, and no more.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_receiver_waits_for_stays() {
    let receiver = Receiver::answering(|_, _| Reply::status(500)).await;
    let (till, app) = quiet_till(&[&receiver], |_| {}).await;
    let added = add(&till, &app, &receiver.url("/"), ReceiverFormat::Standard, &[]).await;
    // An app without receivers needs nothing.
    let other = till.app("a2").await;
    till.player(&other, "o1", 1, 1).await;
    super::change(&till, &app.id, ReceiverCommand::Pause(id(&added).clone())).await;
    for number in ["b1", "b2"] {
        pay(&till, &app, number).await;
    }
    assert_eq!(numbers(&till).await, [1, 2, 3, 4]);
    age(&till, "true").await;
    assert_eq!(remove(&till).await, 2);
    assert_eq!(numbers(&till).await, [3, 4], "they wait for their first try");
    super::change(&till, &app.id, ReceiverCommand::Resume(id(&added).clone())).await;
    let sending = Sending::of(&till);
    let until_waiting = async |waiting| {
        super::until("both were tried", async || {
            let shown = till.store.receiver(&app.id, id(&added)).await.unwrap().unwrap();
            (shown.waiting, shown.tries.len()) == (waiting, 2)
        })
        .await;
    };
    until_waiting(2).await;
    drop(sending);
    assert_eq!((remove(&till).await, numbers(&till).await), (0, vec![3, 4]), "they wait for another try");
    till.execute("UPDATE deliveries SET state = 'failed', next_at = NULL").await;
    assert_eq!((remove(&till).await, numbers(&till).await), (0, vec![3, 4]), "they have failed just now");
    till.execute("UPDATE deliveries SET state = 'taken' WHERE event_no = 3").await;
    assert_eq!((remove(&till).await, numbers(&till).await), (1, vec![4]), "it was taken");
    till.execute("UPDATE deliveries SET last_at = last_at - interval '31 days'").await;
    // The rows of both deliveries go, and with them the reason to keep the event.
    assert_eq!((remove(&till).await, numbers(&till).await), (2, vec![4]));
    assert_eq!((remove(&till).await, numbers(&till).await), (1, vec![]));
}

/// The removal goes through many events in steps, past those that are kept.
#[tokio::test(flavor = "multi_thread")]
async fn many_old_events_go_in_steps() {
    let receiver = Receiver::answering(|_, _| Reply::status(500)).await;
    let scene = Scene::new(&[&receiver]).await;
    let added = scene.add(&receiver).await;
    scene.pay("b1").await;
    scene.until(&added, "it waits for another try", |shown| !shown.tries.is_empty()).await;
    let till = &scene.till;
    // The credit has number 1, and b1 has number 2.
    till.execute(
        "INSERT INTO events SELECT app_id, no, at, 1, type, sha256(no::text::bytea), keys FROM events e, \
             generate_series(3, 12002) no WHERE last_no = 2; \
         UPDATE event_head SET last_no = 12002; UPDATE receivers SET through_no = 12002",
    )
    .await;
    age(till, "last_no <= 11000").await;
    assert_eq!(remove(till).await, 10_999);
    let left = "SELECT count(*) FROM events WHERE last_no IN (2, 11001, 12002)";
    assert_eq!((till.number("SELECT count(*) FROM events").await, till.number(left).await), (1003, 3));
    assert_eq!(till.store.event_head().await.unwrap().removed_no, 11_000);
}
