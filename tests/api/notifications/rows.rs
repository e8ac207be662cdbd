//! Many events of one transaction, which share rows of the outbox: each is told by itself.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use domain::event::{EventId, EventType};
use domain::ids::CreditRef;
use domain::operation::receiver::{ReceiverCommand, Resend};
use domain::operation::wallet::Credit;
use domain::receiver::ReceiverFormat;
use serde_json::Map;
use store::{CreditsSource, EventCursor, EventFilter, EventPage};

use super::{Scene, all_events, id, open_id};
use crate::support::operator;
use crate::support::receiver::{Receiver, Reply};

const CREDITS: usize = 600;

/// Credits one coin 600 times in one transaction.
async fn credit_many(scene: &Scene) {
    let credits = (0..CREDITS).map(|number| Credit {
        open_id: open_id(),
        free: 1,
        charge: 0,
        reference: CreditRef::parse(&format!("c{number}")).unwrap(),
        note: String::new(),
        create: false,
    });
    let source = CreditsSource { subject: "tests".to_owned(), facts: Map::new(), note: String::new() };
    let app_id = &scene.app.id;
    scene.till.store.credit_many(&operator(), app_id, source, credits.collect()).await.unwrap();
}

/// A row holds 512 events at most. Receivers and feed get each of 600 once. A try that is repeated, and one that an
/// operator asks for, report the same entry as before.
#[tokio::test(flavor = "multi_thread")]
async fn events_that_share_a_row_are_told_one_by_one() {
    let refused = Mutex::new(BTreeSet::from(["c3", "c300", "c599"].map(str::to_owned)));
    let receiver = Receiver::answering(move |notification, _| {
        let is_first_try = refused.lock().unwrap().remove(&notification.data("ref"));
        if is_first_try { Reply::status(500) } else { Reply::taken() }
    })
    .await;
    let scene = Scene::retrying(&[&receiver], &[Duration::from_millis(1)]).await;
    let added = scene.add_like(&receiver, ReceiverFormat::Standard, &[EventType::WalletCredited]).await;
    credit_many(&scene).await;
    scene.until(&added, "all are taken", |shown| (shown.receiver.taken, shown.waiting) == (600, 0)).await;
    assert_eq!(scene.till.number("SELECT max(count)::bigint FROM events").await, 512);
    let came = receiver.received();
    assert_eq!(came.len(), CREDITS + 3);
    let told: BTreeSet<_> = came.iter().map(|one| (one.id(), one.data("ref"), one.body.clone())).collect();
    assert_eq!(told.len(), CREDITS, "each try of an event is the same");

    // Pages that end within a row.
    let (mut found, mut cursor) = (Vec::new(), EventCursor::START);
    while found.len() < CREDITS + 1 {
        let page = scene.till.store.event_page(cursor, &EventFilter::default(), 7).await.unwrap();
        let EventPage::Events(events, next) = page else { panic!("{page:?}") };
        assert!(!events.is_empty() && events.len() <= 7);
        found.extend(events);
        // As a caller gets it and gives it back.
        cursor = EventCursor::parse(&next.to_string()).unwrap();
    }
    assert_eq!(found, all_events(&scene.till).await);
    assert!(found.iter().map(|event| event.no).eq(1..=601));
    let ids: BTreeSet<_> = found[1..].iter().map(|event| event.id.as_text()).collect();
    assert_eq!(ids, told.iter().map(|(id, ..)| id.clone()).collect());

    let (of_last, _, body) = told.iter().find(|(_, reference, _)| reference == "c599").unwrap();
    let resend = Resend::One(EventId::parse(of_last).unwrap());
    scene.change(ReceiverCommand::Resend(id(&added).clone(), resend)).await;
    let came = receiver.until_received(CREDITS + 4).await;
    assert_eq!((&came[CREDITS + 3].id(), &came[CREDITS + 3].body), (of_last, body));
}
