//! Events that failed, and events that are sent again (contract 12.4.6 and 12.4.7).

use std::time::Duration;

use domain::event::{EventId, EventType};
use domain::operation::OperationRefusal;
use domain::operation::receiver::{AddedReceiver, ReceiverCommand, ReceiverReport, Resend, unknown_event};
use domain::receiver::{ReceiverFormat, TimeBounds};
use store::{DueDelivery, Event, FailedEvent, NotTaken, Refusable, TriesNote};
use time::OffsetDateTime;

use super::{Scene, add, all_events, id, pay, quiet_till};
use crate::support::receiver::{Notification, Receiver, Reply};
use crate::support::{operator, until};

const EVER: TimeBounds = TimeBounds { since: None, until: None };

async fn failed(scene: &Scene, added: &AddedReceiver, span: TimeBounds) -> Vec<FailedEvent> {
    scene.till.store.failed_events(&scene.app.id, id(added), span, 0, 100).await.unwrap().unwrap()
}

async fn resend(scene: &Scene, added: &AddedReceiver, which: Resend) -> u64 {
    match scene.change(ReceiverCommand::Resend(id(added).clone(), which)).await {
        ReceiverReport::Resent(resent) => resent.resent,
        report => panic!("{report:?}"),
    }
}

async fn refusal(scene: &Scene, added: &AddedReceiver, event_id: EventId) -> OperationRefusal {
    let command = ReceiverCommand::Resend(id(added).clone(), Resend::One(event_id));
    match scene.till.store.change_receivers(&operator(), &scene.app.id, command, None).await {
        Err(Refusable::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// Three events that failed after two tries each: ids, and times of their changes.
async fn three_failed(scene: &Scene, added: &AddedReceiver) -> Vec<(EventId, OffsetDateTime)> {
    for number in ["b1", "b2", "b3"] {
        scene.pay(number).await;
    }
    scene.until(added, "all have failed", |shown| shown.failed == 3).await;
    all_events(&scene.till).await[1..].iter().map(|event| (event.id, event.at)).collect()
}

/// Rule 12.4.6: after the last try an event has failed, and is listed with what was wrong.
#[tokio::test(flavor = "multi_thread")]
async fn after_the_last_try_an_event_has_failed_and_is_listed() {
    let receiver = Receiver::answering(|_, _| Reply::status(503).body("no")).await;
    let scene = Scene::retrying(&[&receiver], &[Duration::from_millis(1)]).await;
    let added = scene.add(&receiver).await;
    let events = three_failed(&scene, &added).await;
    let listed = failed(&scene, &added, EVER).await;
    let of = |listed: &[FailedEvent]| listed.iter().map(|event| event.event_id.clone()).collect::<Vec<_>>();
    assert_eq!(of(&listed), events.iter().map(|(id, _)| id.as_text()).collect::<Vec<_>>(), "oldest first");
    for event in &listed {
        assert_eq!((event.event_type.as_str(), event.tries), ("exchange.succeeded", 2));
        assert_eq!((event.status, event.error.as_deref()), (Some(503), Some("expected 2xx, got 503")));
        assert!(event.last_at.is_some());
    }
    // `since` is in, `until` is out.
    let (since, until) = (Some(events[1].1), Some(events[2].1));
    for (span, expected) in [
        (TimeBounds { since, until }, &listed[1..2]),
        (TimeBounds { since, until: None }, &listed[1..]),
        (TimeBounds { since: None, until }, &listed[..2]),
    ] {
        assert_eq!(failed(&scene, &added, span).await, expected);
    }
    assert_eq!(receiver.received().len(), 6, "none is tried a third time");
    assert_eq!(scene.shown(&added).await.waiting, 0);
}

/// Rule 12.4.7: one event, then those of a span of time, then all. The ids and the bytes stay the same.
#[tokio::test(flavor = "multi_thread")]
async fn failed_events_are_sent_again_one_by_one_or_by_a_span_of_time() {
    let receiver = Receiver::answering(|_, _| Reply::status(500)).await;
    let scene = Scene::retrying(&[&receiver], &[Duration::from_millis(1)]).await;
    let added = scene.add(&receiver).await;
    let events = three_failed(&scene, &added).await;
    let before = receiver.received();
    receiver.answers(|_, _| Reply::taken());
    assert_eq!(resend(&scene, &added, Resend::One(events[0].0)).await, 1);
    scene.until(&added, "one is taken", |shown| (shown.failed, shown.receiver.taken) == (2, 1)).await;
    let span = TimeBounds { since: Some(events[1].1), until: Some(events[2].1) };
    assert_eq!(resend(&scene, &added, Resend::Failed(span)).await, 1);
    scene.until(&added, "two are taken", |shown| (shown.failed, shown.receiver.taken) == (1, 2)).await;
    assert_eq!(resend(&scene, &added, Resend::Failed(EVER)).await, 1);
    scene.until(&added, "all are taken", |shown| (shown.failed, shown.receiver.taken) == (0, 3)).await;
    assert_eq!(resend(&scene, &added, Resend::Failed(EVER)).await, 0);
    let came = receiver.received();
    let again = &came[before.len()..];
    for (notification, (id, _)) in again.iter().zip(&events) {
        let first = before.iter().find(|first| first.id() == id.as_text()).unwrap();
        assert_eq!((notification.id(), &notification.body), (first.id(), &first.body));
    }
    assert_eq!(again.len(), 3);
    assert_eq!(failed(&scene, &added, EVER).await, []);
}

/// Rule 12.4.7: the schedule of an event that is sent again begins anew.
#[tokio::test(flavor = "multi_thread")]
async fn the_schedule_of_an_event_that_is_sent_again_begins_anew() {
    let receiver = Receiver::answering(|_, _| Reply::status(500)).await;
    let scene = Scene::retrying(&[&receiver], &[Duration::from_millis(1)]).await;
    let added = scene.add(&receiver).await;
    scene.pay("b1").await;
    scene.until(&added, "it has failed", |shown| shown.failed == 1).await;
    assert_eq!(resend(&scene, &added, Resend::Failed(EVER)).await, 1);
    receiver.until_received(4).await;
    scene.until(&added, "it has failed again", |shown| (shown.failed, shown.waiting) == (1, 0)).await;
    assert_eq!(failed(&scene, &added, EVER).await[0].tries, 2);
    assert_eq!(receiver.received().len(), 4);
}

/// Rule 12.4.7: whatever becomes of a try that is under way, an event is sent again.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_sent_again_whatever_becomes_of_a_try_under_way() {
    for of_second in [500, 204] {
        let receiver = Receiver::answering(move |_, before| match before {
            0 => Reply::status(500),
            1 => Reply::status(of_second).held(),
            _ => Reply::taken(),
        })
        .await;
        let delays = [Duration::from_millis(1), Duration::from_mins(10)];
        let scene = Scene::retrying(&[&receiver], &delays).await;
        let added = scene.add(&receiver).await;
        scene.pay("b1").await;
        let came = receiver.until_received(2).await;
        let event_id = EventId::parse(&came[1].id()).unwrap();
        assert_eq!(resend(&scene, &added, Resend::One(event_id)).await, 1);
        receiver.release();
        let came = receiver.until_received(3).await;
        assert_eq!((came[2].id(), &came[2].body), (came[1].id(), &came[1].body));
        scene.until(&added, "nothing waits", |shown| (shown.waiting, shown.failed) == (0, 0)).await;
    }
}

/// Rule 12.4.7: what a resend sets stays when tries end that began before, one of the feed too.
#[tokio::test(flavor = "multi_thread")]
async fn tries_that_began_before_a_resend_do_not_change_its_schedule() {
    let (till, app) = quiet_till(&[], |_| {}).await;
    let added = add(&till, &app, "http://203.0.113.1/", ReceiverFormat::Standard, &[]).await;
    pay(&till, &app, "b1").await;
    let event = all_events(&till).await.pop().unwrap();
    let (store, lease) = (&till.store, [1; 16]);
    let leased = store.lease_receivers(&lease, 9).await.unwrap().0.pop().unwrap();
    let not_taken = |due_at: Option<OffsetDateTime>, next_in: Duration| NotTaken {
        event_no: event.no,
        due_at,
        event_id: event.id.as_text(),
        event_at: event.at,
        event_type: event.event_type,
        tries: 1,
        next_in: Some(next_in),
        asked: None,
        status: Some(500),
        error: "no".to_owned(),
    };
    let note = async |not_taken: Vec<NotTaken>, taken_again: Vec<DueDelivery>| {
        let note = TriesNote { through_no: event.no, not_taken, taken_again, ..TriesNote::default() };
        assert!(store.note_tries(&lease, &leased, note).await.unwrap());
    };
    let due = async || store.due_deliveries(&leased, &[], 9).await.unwrap();
    note(vec![not_taken(None, Duration::ZERO)], vec![]).await;
    let first = due().await[0];
    assert_eq!(first.tries, 1);
    super::change(&till, &app.id, ReceiverCommand::Resend(id(&added).clone(), Resend::One(event.id))).await;
    let anew = due().await;
    assert_eq!((anew.len(), anew[0].tries), (1, 0));
    let later = Duration::from_mins(10);
    for (failed, taken) in [
        (vec![not_taken(None, later)], vec![]),
        (vec![not_taken(Some(first.due_at), later)], vec![]),
        (vec![], vec![first]),
    ] {
        note(failed, taken).await;
        assert_eq!(due().await, anew);
    }
    note(vec![], anew).await;
    assert_eq!(due().await, []);
}

/// Rule 12.4.7: any event of the app whose type the receiver gets. That includes one that was accepted and one from
/// before the receiver was added.
#[tokio::test(flavor = "multi_thread")]
async fn any_event_of_the_app_can_be_sent_again() {
    let receiver = Receiver::taking().await;
    let scene = Scene::new(&[&receiver]).await;
    scene.pay("b0").await;
    let exchanges = &[EventType::ExchangeSucceeded];
    let added = scene.add_like(&receiver, ReceiverFormat::Standard, exchanges).await;
    scene.pay("b1").await;
    scene.until(&added, "it is taken", |shown| shown.receiver.taken == 1).await;
    let events = all_events(&scene.till).await;
    for (event, number, count) in [(&events[2], "b1", 2), (&events[1], "b0", 3)] {
        assert_eq!(resend(&scene, &added, Resend::One(event.id)).await, 1);
        let came = receiver.until_received(count).await;
        let last = &came[count - 1];
        assert_eq!((last.id(), last.data("biz_no").as_str()), (event.id.as_text(), number));
    }
    scene.until(&added, "all are taken", |shown| shown.receiver.taken == 3).await;
    let of_other_type = events[0].id;
    let mut unknown = events[1].id;
    unknown.place = 7;
    let elsewhere = scene.till.app("a2").await;
    scene.till.player(&elsewhere, "o1", 1, 1).await;
    let is_other = |event: &Event| event.app_id == elsewhere.id;
    until("its event has a number", async || all_events(&scene.till).await.last().is_some_and(is_other))
        .await;
    let of_other_app = all_events(&scene.till).await.pop().unwrap().id;
    for event_id in [of_other_type, unknown, of_other_app] {
        assert_eq!(refusal(&scene, &added, event_id).await, unknown_event(event_id));
    }
    assert_eq!(receiver.received().len(), 3);
}

/// With one connection in the pool a command does not wait for itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_needs_one_connection() {
    let receiver = Receiver::taking().await;
    let (till, app) = quiet_till(&[&receiver], |config| config.database.connections = 1).await;
    let added = super::add(&till, &app, &receiver.url("/"), ReceiverFormat::Standard, &[]).await;
    let event_id = all_events(&till).await[0].id;
    let command = ReceiverCommand::Resend(id(&added).clone(), Resend::One(event_id));
    super::change(&till, &app.id, command).await;
    let _sending = super::Sending::of(&till);
    let ids: Vec<_> = receiver.until_received(1).await.iter().map(Notification::id).collect();
    assert_eq!(ids, [event_id.as_text()]);
}
