//! Pauses and removals (contract 12.2.10, 12.2.11 and 12.4.5).

use domain::operation::receiver::{AddedReceiver, ReceiverCommand, ReceiverReport};
use domain::receiver::ReceiverState;

use super::{MOMENT, Scene, id, until};
use crate::support::Request;
use crate::support::receiver::{Notification, Receiver, Reply};

/// The state after a command.
async fn state(
    scene: &Scene,
    added: &AddedReceiver,
    command: fn(domain::receiver::ReceiverId) -> ReceiverCommand,
) -> (ReceiverState, Option<String>) {
    match scene.change(command(id(added).clone())).await {
        ReceiverReport::Changed(receiver) => (receiver.state, receiver.paused_by),
        report => panic!("{report:?}"),
    }
}

fn numbers(came: &[Notification]) -> Vec<String> {
    came.iter().map(|one| one.data("biz_no")).collect()
}

/// Waits until all others would have got what waits.
async fn others_have(other: &Receiver, count: usize) {
    other.until_received(count).await;
    tokio::time::sleep(MOMENT).await;
}

/// Rule 12.2.10: from the pause on nothing is sent, however much was sent just before; after the end of the pause it is.
#[tokio::test(flavor = "multi_thread")]
async fn what_happens_during_a_pause_waits_and_is_sent_at_its_end() {
    let (receiver, other) = (Receiver::taking().await, Receiver::taking().await);
    let scene = Scene::new(&[&receiver, &other]).await;
    let added = scene.add(&receiver).await;
    scene.add(&other).await;
    scene.pay("b1").await;
    receiver.until_received(1).await;
    let by_operator = (ReceiverState::Paused, Some("operator".to_owned()));
    assert_eq!(state(&scene, &added, ReceiverCommand::Pause).await, by_operator);
    for number in ["b2", "b3"] {
        scene.pay(number).await;
    }
    others_have(&other, 3).await;
    assert_eq!(numbers(&receiver.received()), ["b1"]);
    scene.until(&added, "two wait", |shown| shown.waiting == 2).await;
    assert!(scene.shown(&added).await.oldest_waiting_at.is_some());
    assert_eq!(state(&scene, &added, ReceiverCommand::Pause).await, by_operator, "a second pause");
    assert_eq!(state(&scene, &added, ReceiverCommand::Resume).await, (ReceiverState::Active, None));
    let mut came = numbers(&receiver.until_received(3).await);
    came.sort_unstable();
    assert_eq!(came, ["b1", "b2", "b3"]);
    scene.until(&added, "nothing waits", |shown| shown.waiting == 0).await;
    assert_eq!(receiver.received().len(), 3);
}

/// Rule 12.2.10: an event that waits for another try waits for the end of the pause, and is due then.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_holds_up_tries_and_its_end_makes_them_due() {
    let receiver = Receiver::answering(|_, _| Reply::status(500)).await;
    let scene = Scene::new(&[&receiver]).await;
    let added = scene.add(&receiver).await;
    scene.pay("b1").await;
    scene.until(&added, "it waits for another try", |shown| !shown.tries.is_empty()).await;
    state(&scene, &added, ReceiverCommand::Pause).await;
    receiver.answers(|_, _| Reply::taken());
    scene.till.execute("UPDATE deliveries SET next_at = now()").await;
    tokio::time::sleep(2 * MOMENT).await;
    assert_eq!(receiver.received().len(), 1);
    scene.till.execute("UPDATE deliveries SET next_at = now() + interval '1 hour'").await;
    state(&scene, &added, ReceiverCommand::Resume).await;
    let came = receiver.until_received(2).await;
    assert_eq!((came[1].id(), &came[1].body), (came[0].id(), &came[0].body));
    scene.until(&added, "it is taken", |shown| shown.receiver.taken == 1).await;
}

/// Rule 12.4.5: 410 pauses the receiver, and a metric shows it. The event that was answered 410 is sent at the end of
/// the pause, although this was its last try.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_410_pauses_and_loses_nothing() {
    let receiver = Receiver::answering(|_, _| Reply::status(410)).await;
    let other = Receiver::taking().await;
    let scene = Scene::retrying(&[&receiver, &other], &[]).await;
    let added = scene.add(&receiver).await;
    scene.pay("b1").await;
    scene.until(&added, "it is paused", |shown| shown.receiver.state == ReceiverState::Paused).await;
    let shown = scene.shown(&added).await;
    assert_eq!((shown.receiver.paused_by.as_deref(), shown.waiting, shown.failed), (Some("receiver"), 1, 0));
    assert_eq!(shown.tries[0].status, Some(410));
    scene.add(&other).await;
    scene.pay("b2").await;
    others_have(&other, 1).await;
    assert_eq!(numbers(&receiver.received()), ["b1"]);
    until("a metric tells it", async || {
        let metrics = Request::get("/metrics").send(scene.till.operator_address).await.body;
        metrics.contains("\nminitill_receivers_paused 1\n")
    })
    .await;
    receiver.answers(|_, _| Reply::taken());
    state(&scene, &added, ReceiverCommand::Resume).await;
    let came = receiver.until_received(3).await;
    let mut each = numbers(&came);
    each.sort_unstable();
    assert_eq!(each, ["b1", "b1", "b2"]);
    let of_first: Vec<_> = came.iter().filter(|one| one.data("biz_no") == "b1").collect();
    assert_eq!((of_first[0].id(), &of_first[0].body), (of_first[1].id(), &of_first[1].body));
    scene.until(&added, "nothing waits", |shown| (shown.waiting, shown.receiver.taken) == (0, 2)).await;
}

/// Rule 12.2.11: nothing more is sent to a receiver that was removed, neither what waits for a try nor what happens later.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_was_removed_gets_nothing_more() {
    let receiver = Receiver::answering(|_, _| Reply::status(500)).await;
    let other = Receiver::taking().await;
    let scene = Scene::new(&[&receiver, &other]).await;
    let added = scene.add(&receiver).await;
    scene.add(&other).await;
    scene.pay("b1").await;
    scene.until(&added, "it waits for another try", |shown| !shown.tries.is_empty()).await;
    let report = scene.change(ReceiverCommand::Remove(id(&added).clone())).await;
    assert!(matches!(report, ReceiverReport::Removed(removed) if removed.removed));
    scene.pay("b2").await;
    others_have(&other, 2).await;
    assert_eq!(numbers(&receiver.received()), ["b1"]);
    assert!(scene.till.store.receiver(&scene.app.id, id(&added)).await.unwrap().is_none());
    assert_eq!(scene.till.number("SELECT count(*) FROM deliveries").await, 0);
}

/// Rule 12.6.2: while a receiver is away, one event is tried for the first time each 30 seconds. Each time it is
/// another one, although the receiver accepts none of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_away_is_tried_now_and_then() {
    let receiver = Receiver::answering(|_, _| Reply::status(500)).await;
    let scene = Scene::retrying(&[&receiver], &[]).await;
    let added = scene.add(&receiver).await;
    let at = |failing_since: &str, last_failed_at: &str| {
        format!(
            "UPDATE receivers SET failing_since = now() - interval '{failing_since}', \
             last_failed_at = now() - interval '{last_failed_at}'"
        )
    };
    scene.till.execute(&at("2 hours", "0 seconds")).await;
    for number in ["b1", "b2", "b3"] {
        scene.pay(number).await;
    }
    tokio::time::sleep(MOMENT).await;
    assert_eq!(receiver.received().len(), 0, "it has just failed");
    for (count, number) in ["b1", "b2"].into_iter().enumerate() {
        scene.till.execute(&at("2 hours", "31 seconds")).await;
        scene
            .until(&added, "one more has failed", |shown| shown.failed == if count == 0 { 1 } else { 2 })
            .await;
        tokio::time::sleep(MOMENT).await;
        let came = receiver.received();
        assert_eq!((came.len(), came[count].data("biz_no").as_str()), (count + 1, number));
        // It takes no place of others meanwhile.
        assert_eq!(scene.till.number("SELECT count(*) FROM receivers WHERE lease IS NOT NULL").await, 0);
    }
    receiver.answers(|_, _| Reply::taken());
    scene.till.execute(&at("2 hours", "31 seconds")).await;
    scene.pay("b4").await;
    receiver.until_received(4).await;
    scene
        .until(&added, "all others are taken", |shown| (shown.waiting, shown.receiver.taken) == (0, 2))
        .await;
}
