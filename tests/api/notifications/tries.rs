//! Tries (contract 12.4): which answer accepts an event, when it is tried again, and what is kept of tries.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use domain::event::EventType;
use domain::receiver::{ReceiverFormat, ReceiverState};
use futures_util::future::join_all;

use super::{MOMENT, Scene, add, all_events, id, until};
use crate::game::Game;
use crate::support::Request;
use crate::support::receiver::{Notification, Receiver, Reply};

const MILLISECOND: Duration = Duration::from_millis(1);

fn same(came: &[Notification]) {
    for notification in came {
        assert_eq!((notification.id(), &notification.body), (came[0].id(), &came[0].body));
    }
}

/// Rules 12.4.1, 12.4.2 and 12.1.10: after each failure the event is tried again until any 2xx. It has the same id and
/// the same bytes, and comes not before its delay.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_tried_again_after_each_delay_until_it_is_taken() {
    let delays = [Duration::from_millis(50), Duration::from_millis(600), MILLISECOND];
    let receiver = Receiver::answering(|_, before| Reply::status([500, 404, 199 + 200, 299][before])).await;
    let scene = Scene::retrying(&[&receiver], &delays).await;
    let added = scene.add(&receiver).await;
    scene.pay("b1").await;
    scene.until(&added, "it is taken", |shown| shown.receiver.taken == 1).await;
    let came = receiver.received();
    same(&came);
    assert_eq!(came.len(), 4);
    for (pair, delay) in came.windows(2).zip(delays) {
        assert!(pair[1].at - pair[0].at >= delay, "{:?} before {delay:?}", pair[1].at - pair[0].at);
    }
    let shown = scene.shown(&added).await;
    assert_eq!((shown.waiting, shown.failed), (0, 0));
    assert_eq!(shown.receiver.state, ReceiverState::Active);
    let statuses: Vec<_> = shown.tries.iter().map(|tried| tried.status.unwrap()).collect();
    assert_eq!(statuses, [299, 399, 404, 500], "newest first");
    assert_eq!((shown.receiver.last_status, shown.receiver.failing_since), (Some(399), None));
}

/// Rule 12.4.3: `Retry-After` is the least wait, here longer than the delay.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_receiver_asks_to_wait_is_waited() {
    let receiver = Receiver::answering(|_, before| match before {
        0 => Reply::status(503).header("retry-after", "1"),
        _ => Reply::taken(),
    })
    .await;
    let scene = Scene::retrying(&[&receiver], &[MILLISECOND]).await;
    scene.add(&receiver).await;
    scene.pay("b1").await;
    let came = receiver.until_received(2).await;
    same(&came);
    assert!(came[1].at - came[0].at >= Duration::from_secs(1));
}

/// Rule 12.4.4: nothing is sent to where a redirect leads, and it does not take the event.
#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed() {
    let elsewhere = Receiver::taking().await;
    let location = elsewhere.url("/");
    let receiver = Receiver::answering(move |_, before| match before {
        0 => Reply::status(308).header("location", &location),
        1 => Reply::status(302).header("location", &location),
        _ => Reply::taken(),
    })
    .await;
    let scene = Scene::retrying(&[&receiver, &elsewhere], &[MILLISECOND; 3]).await;
    let added = scene.add(&receiver).await;
    scene.pay("b1").await;
    scene.until(&added, "it is taken", |shown| shown.receiver.taken == 1).await;
    same(&receiver.received());
    let errors: Vec<_> = scene.shown(&added).await.tries.into_iter().map(|tried| tried.error).collect();
    let expected = [None, Some("expected 2xx, got 302".to_owned()), Some("expected 2xx, got 308".to_owned())];
    assert_eq!(errors, expected);
    assert_eq!(elsewhere.connections(), 0);
}

/// Rule 12.4.8: the 20 newest tries are kept, with 4,096 bytes of each answer.
#[tokio::test(flavor = "multi_thread")]
async fn the_newest_tries_are_kept_with_the_beginning_of_their_answers() {
    let receiver = Receiver::answering(|_, _| {
        Reply::status(200).body([&[b'x'; 4094][..], &[0, 0xff], &[b'y'; 5000]].concat())
    })
    .await;
    let scene = Scene::new(&[&receiver]).await;
    let added = scene.add(&receiver).await;
    let numbers: Vec<String> = (0..25).map(|number| format!("b{number}")).collect();
    for number in &numbers {
        scene.pay(number).await;
        receiver.until(number, |came| came.iter().any(|one| one.data("biz_no") == *number)).await;
    }
    let events = all_events(&scene.till).await;
    let newest: BTreeSet<String> =
        events[events.len() - 20..].iter().map(|event| event.id.as_text()).collect();
    scene
        .until(&added, "the last tries are noted", |shown| {
            shown.tries.iter().map(|tried| tried.event_id.clone()).collect::<BTreeSet<_>>() == newest
        })
        .await;
    let tries = scene.shown(&added).await.tries;
    assert_eq!(tries.len(), 20);
    assert_eq!(tries[0].event_id, events.last().unwrap().id.as_text(), "newest first");
    for tried in tries {
        assert_eq!((tried.status, tried.error), (Some(200), None));
        // What is no text of the database is replaced.
        assert_eq!(tried.body, format!("{}\u{fffd}\u{fffd}", "x".repeat(4094)));
    }
}

/// Rule 12.4.11: a receiver that does not answer and one that is away hold up no exchange and no other receiver. No more
/// than `notify.parallel_max` are under way to one.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_and_a_dead_receiver_hold_up_nobody() {
    let slow = Receiver::answering(|_, _| Reply::taken().held()).await;
    let quick = Receiver::taking().await;
    let scene = Scene::new(&[&slow, &quick]).await;
    // Nobody listens at this address.
    let dead = SocketAddr::from(([127, 0, 0, 77], quick.address.port()));
    let standard = ReceiverFormat::Standard;
    let dead = add(&scene.till, &scene.app, &format!("http://{dead}/"), standard, &[]).await;
    scene.add(&slow).await;
    scene.add(&quick).await;
    let numbers: BTreeSet<String> = (0..40).map(|number| format!("b{number}")).collect();
    // All at once: what is held is given up after a while.
    join_all(numbers.iter().map(|number| scene.pay(number))).await;
    let of = |came: &[Notification]| came.iter().map(|one| one.data("biz_no")).collect::<Vec<_>>();
    let came = quick.until_received(40).await;
    assert_eq!(of(&came).len(), 40);
    assert_eq!(of(&came).into_iter().collect::<BTreeSet<_>>(), numbers);
    slow.until_received(16).await;
    tokio::time::sleep(MOMENT).await;
    assert_eq!(slow.received().len(), 16);
    scene.until(&dead, "the dead one fails", |shown| shown.receiver.state == ReceiverState::Failing).await;
    assert_eq!(scene.shown(&dead).await.tries[0].error.as_deref(), Some("connect_failed"));
    slow.release();
    let came = slow.until_received(40).await;
    assert_eq!(of(&came).into_iter().collect::<BTreeSet<_>>(), numbers);
    scene.pay("last").await;
    slow.until_received(41).await;
}

/// Rules 12.6.1, 12.6.4 and 12.6.5: after ten failures in a row new events wait; when the receiver takes one, all are due
/// at once.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_receiver_that_was_away_is_sent_when_it_is_back() {
    let receiver = Receiver::answering(|_, _| Reply::status(500)).await;
    let scene = Scene::new(&[&receiver]).await;
    let added = scene.add(&receiver).await;
    for number in 0..10 {
        scene.pay(&format!("b{number}")).await;
        receiver.until_received(number + 1).await;
    }
    scene.until(&added, "all have failed once", |shown| shown.tries.len() == 10).await;
    for number in 10..15 {
        scene.pay(&format!("b{number}")).await;
    }
    scene.until(&added, "the later ones wait", |shown| shown.waiting == 15).await;
    tokio::time::sleep(MOMENT).await;
    assert_eq!(receiver.received().len(), 10, "a receiver that is away gets no new events");
    receiver.answers(|_, _| Reply::taken());
    let first = domain::event::EventId::parse(&receiver.received()[0].id()).unwrap();
    let resend = domain::operation::receiver::Resend::One(first);
    scene.change(domain::operation::receiver::ReceiverCommand::Resend(id(&added).clone(), resend)).await;
    scene.until(&added, "nothing waits", |shown| shown.waiting == 0 && shown.receiver.taken == 15).await;
    let ids: BTreeSet<String> = receiver.received().iter().map(Notification::id).collect();
    assert_eq!((ids.len(), receiver.received().len()), (15, 25));
    assert_eq!(scene.shown(&added).await.receiver.state, ReceiverState::Active);
}

/// Rule 12.4.13: the metrics tell of receivers that fail, and of each try.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_tell_of_failures() {
    let receiver = Receiver::answering(|_, before| Reply::status(if before == 0 { 200 } else { 500 })).await;
    let scene = Scene::retrying(&[&receiver], &[]).await;
    scene.add(&receiver).await;
    for number in ["b1", "b2"] {
        scene.pay(number).await;
        receiver.until(number, |came| came.iter().any(|one| one.data("biz_no") == number)).await;
    }
    let mut metrics = String::new();
    until("the metrics tell of it", async || {
        metrics = Request::get("/metrics").send(scene.till.operator_address).await.body;
        metrics.contains("\nminitill_receivers_failing 1\n")
    })
    .await;
    for line in [
        "minitill_notify_tries_total{outcome=\"taken\"} 1",
        "minitill_notify_tries_total{outcome=\"not_taken\"} 1",
        "minitill_notify_failed_total 1",
        "minitill_notify_first_try_delay_seconds_count 2",
        "minitill_receivers_paused 0",
    ] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line} is not in {metrics}");
    }
    let answer = Game::new(&scene.app, "o1", "b3", 1).send(&scene.till).await;
    assert_eq!(answer.code(), 1);
}

/// Rule 12.2.1: a receiver of some types is not held up by many events of other types, nor by one that its transaction
/// wrote late.
#[tokio::test(flavor = "multi_thread")]
async fn many_events_of_other_types_are_passed_over_at_once() {
    let receiver = Receiver::taking().await;
    let (till, app) = super::quiet_till(&[&receiver], |_| {}).await;
    let types = [EventType::WalletDebited];
    super::add(&till, &app, &receiver.url("/"), ReceiverFormat::Standard, &types).await;
    super::all_events(&till).await;
    till.execute(
        "WITH made AS (
             INSERT INTO events (app_id, last_no, at, count, type, row_id, keys)
             SELECT 'a1', h.last_no + n, now(), 1, 'wallet.credited', decode(lpad(to_hex(n), 32, '0'), 'hex'),
                 (SELECT keys FROM events LIMIT 1)
             FROM event_head h, generate_series(1, 50000) n RETURNING last_no)
         UPDATE event_head SET last_no = (SELECT max(last_no) FROM made)",
    )
    .await;
    super::debit(&till, &app, "d1", 1, 0).await;
    let _sending = super::Sending::of(&till);
    assert_eq!(receiver.until_received(1).await[0].data("ref"), "d1");
    // As of a transaction that took an hour. Most looks at the outbox do not go so far back.
    till.execute(
        "INSERT INTO wallet_outbox (app_no, row_id, at, type, count, keys)
         SELECT 1, decode('000000000001', 'hex') || substring(row_id FROM 7), at, type, count, keys
         FROM events WHERE type = 'wallet.debited'",
    )
    .await;
    assert_eq!(receiver.until_received(2).await[1].data("ref"), "d1");
}
