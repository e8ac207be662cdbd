//! Several servers on one database (contract 12.1.10 and 12.4.9): leases, their ends, and servers that are killed.

use std::collections::BTreeMap;

use domain::event::EventType;
use domain::receiver::ReceiverFormat;
use store::{NotTaken, TriesNote};
use time::OffsetDateTime;

use super::{MOMENT, Scene, Sending, add, all_events, pay, quiet_till, reaching, until};
use crate::game::Game;
use crate::support::TestTill;
use crate::support::program::{Program, ServerProcess};
use crate::support::receiver::{Notification, Receiver, Reply};

/// How often each number came.
fn counts(came: &[Notification]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for notification in came {
        *counts.entry(notification.data("biz_no")).or_default() += 1;
    }
    counts
}

/// With two servers that are not killed, each receiver gets each event exactly once.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_send_each_event_once() {
    const EACH: usize = 60;
    let receivers = [Receiver::taking().await, Receiver::taking().await];
    let all: Vec<&Receiver> = receivers.iter().collect();
    let scene = Scene::new(&all).await;
    let other = TestTill::start_on(scene.till.database_url.clone(), reaching(&all)).await;
    let _sending = Sending::of(&other);
    let mut added = Vec::new();
    for receiver in &receivers {
        added.push(scene.add(receiver).await);
    }
    for number in 0..EACH {
        pay(&scene.till, &scene.app, &format!("a{number}")).await;
        pay(&other, &scene.app, &format!("b{number}")).await;
    }
    for (receiver, added) in receivers.iter().zip(&added) {
        receiver.until_received(2 * EACH).await;
        let all = i64::try_from(2 * EACH).unwrap();
        scene.until(added, "all is taken", |shown| (shown.receiver.taken, shown.waiting) == (all, 0)).await;
        let counts = counts(&receiver.received());
        assert_eq!(counts.len(), 2 * EACH);
        assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    }
}

/// Whoever has lost its lease writes nothing more, nor does it end or renew the lease of the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_writes_nothing() {
    let (till, app) = quiet_till(&[], |_| {}).await;
    let added = add(&till, &app, "http://203.0.113.1/", ReceiverFormat::Standard, &[]).await;
    let id = &added.receiver.receiver_id;
    pay(&till, &app, "b1").await;
    let event = all_events(&till).await.pop().unwrap();
    let (store, first, second) = (&till.store, [1; 16], [2; 16]);
    let before: OffsetDateTime = sqlx::query_scalar("SELECT now()").fetch_one(&till.sql).await.unwrap();
    let (mut leased, waiting) = store.lease_receivers(&first, 9).await.unwrap();
    let leased = leased.pop().unwrap();
    assert_eq!(waiting, 0);
    let lasts = "SELECT leased_until - now() <= interval '10 s' AND leased_until - $1 >= interval '10 s' FROM receivers";
    assert!(sqlx::query_scalar::<_, bool>(lasts).bind(before).fetch_one(&till.sql).await.unwrap());
    assert!(store.lease_receivers(&second, 9).await.unwrap().0.is_empty(), "it is taken");
    till.execute("UPDATE receivers SET leased_until = now()").await;
    assert_eq!(store.lease_receivers(&second, 0).await.unwrap().1, 1, "one waits");
    assert_eq!(store.lease_receivers(&second, 9).await.unwrap().0.len(), 1);
    let note = || TriesNote {
        through_no: event.no,
        taken: 1,
        not_taken: vec![NotTaken {
            event_no: event.no,
            due_at: None,
            event_id: event.id.as_text(),
            event_at: OffsetDateTime::UNIX_EPOCH,
            event_type: EventType::ExchangeSucceeded,
            tries: 1,
            next_in: None,
            asked: None,
            status: Some(500),
            error: "no".to_owned(),
        }],
        last_was_taken: Some(false),
        pauses: true,
        ..TriesNote::default()
    };
    let rows = "SELECT concat(r, (SELECT count(*) FROM deliveries)) FROM (SELECT r.* FROM receivers r) r";
    let read = async || sqlx::query_scalar::<_, String>(rows).fetch_one(&till.sql).await.unwrap();
    let before = read().await;
    assert!(!store.note_tries(&first, &leased, note()).await.unwrap());
    assert!(store.renew_lease(&first, &app.id, id).await.unwrap().is_none());
    assert!(store.leased_receiver(&first, &app.id, id).await.unwrap().is_none());
    store.end_lease(&first, &app.id, id).await.unwrap();
    assert_eq!(read().await, before);
    assert!(store.renew_lease(&second, &app.id, id).await.unwrap().is_some());
    assert!(store.note_tries(&second, &leased, note()).await.unwrap());
    let shown = store.receiver(&app.id, id).await.unwrap().unwrap();
    assert_eq!((shown.receiver.taken, shown.failed, shown.receiver.last_status), (1, 1, Some(500)));
    assert!(store.leased_receiver(&second, &app.id, id).await.unwrap().is_none(), "it is paused");
}

/// A lease that ran out under a server, as when the database was away, goes to one task alone. That may be another task
/// of the same server. No event after that is sent twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ran_out_does_not_double_what_is_sent() {
    let receiver = Receiver::taking().await;
    let scene = Scene::new(&[&receiver]).await;
    let added = scene.add(&receiver).await;
    scene.pay("b0").await;
    scene.until(&added, "it is taken", |shown| shown.receiver.taken == 1).await;
    // Something waits, so that another task takes the lease.
    scene.till.execute("UPDATE receivers SET leased_until = now() - interval '1 s'").await;
    scene.pay("b1").await;
    let is_leased = "SELECT count(*) FROM receivers WHERE leased_until > now()";
    until("a task has the lease", async || scene.till.number(is_leased).await == 1).await;
    for number in 2..12 {
        scene.pay(&format!("b{number}")).await;
        receiver.until(&format!("b{number}"), |came| counts(came).len() == number + 1).await;
    }
    tokio::time::sleep(MOMENT).await;
    let mut counts = counts(&receiver.received());
    assert!(counts.remove("b1").is_some_and(|count| count <= 2), "both may have begun to send it");
    assert_eq!(counts.len(), 11);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

fn program(till: &TestTill, receiver: &Receiver) -> Program {
    Program::on(&till.database_url)
        .with("MINITILL_NOTIFY__ALLOW_NETWORKS", "127.0.0.1/32")
        .with("MINITILL_NOTIFY__PORTS", &receiver.address.port().to_string())
}

async fn pay_at(server: &ServerProcess, scene: (&TestTill, &crate::support::TestApp), biz_no: &str) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let game = Game::new(scene.1, "o1", biz_no, 1).with("ts", now);
    let answer = game.request().send(server.address).await;
    assert_eq!(answer.code(), 1, "{}", answer.body);
}

/// A server is killed while events are under way, wait, and have no number yet. None stays unsent: another server
/// takes over when the lease of 10 seconds has ended. What is sent twice has the same id and the same bytes.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_leaves_nothing_unsent() {
    const ALL: usize = 40;
    let receiver = Receiver::answering(|_, before| match before {
        0..5 => Reply::taken(),
        _ => Reply::taken().held(),
    })
    .await;
    let (till, app) = quiet_till(&[&receiver], |_| {}).await;
    let added = add(&till, &app, &receiver.url("/"), ReceiverFormat::Standard, &[]).await;
    let shown = async || till.store.receiver(&app.id, &added.receiver.receiver_id).await.unwrap().unwrap();
    let server = program(&till, &receiver).serve(None).await;
    for number in 0..ALL {
        if number == ALL - 5 {
            receiver.until_received(5 + 16).await;
            until("five are taken", async || shown().await.receiver.taken == 5).await;
            // What became of the others is written several times meanwhile.
            tokio::time::sleep(MOMENT).await;
        }
        pay_at(&server, (&till, &app), &format!("b{number:02}")).await;
    }
    server.kill();
    receiver.answers(|_, _| Reply::taken());
    let lasts =
        "SELECT count(*) FROM receivers WHERE lease IS NOT NULL AND leased_until <= now() + interval '10 s'";
    assert_eq!(till.number(lasts).await, 1);
    // As if the test had waited for it.
    till.execute("UPDATE receivers SET leased_until = now()").await;
    let _server = program(&till, &receiver).serve(None).await;
    let came = receiver.until("all come", |came| counts(came).len() == ALL).await;
    for notification in &came {
        let first = came.iter().find(|first| first.id() == notification.id()).unwrap();
        assert_eq!(first.body, notification.body);
    }
    until("nothing waits", async || shown().await.waiting == 0).await;
    assert_eq!(till.number("SELECT count(*) FROM wallet_outbox").await, 0);
    let mut ids: Vec<_> = came.iter().map(Notification::id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), ALL);
}
