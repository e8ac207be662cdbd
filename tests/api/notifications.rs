//! Notifications (contract 12), against receivers on loopback.

mod adding;
mod commands;
mod events;
mod feed;
mod keeping;
mod pausing;
mod platform;
mod resending;
mod rows;
mod secrets;
mod servers;
mod standard;
mod tries;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use domain::app::Scope;
use domain::event::{EventType, RetryDelays};
use domain::ids::{AppId, BizNo, CreditRef, ImgId, OpenId, WebUrl};
use domain::operation::receiver::{AddedReceiver, NewReceiver, ReceiverCommand, ReceiverReport};
use domain::operation::wallet::{Credit, Debit, GiveBack};
use domain::receiver::{ReceiverFormat, ReceiverId};
use domain::wallet::Amount;
use guarded_fetch::bulkhead::Bulkhead;
use minitill::config::Config;
use minitill::notify;
use serde_json::json;
use store::{Event, EventCursor, EventFilter, EventPage, ReceiverDetail};
use tokio::sync::watch;

use crate::game::Game;
use crate::support::receiver::Receiver;
use crate::support::{Answer, AppKind, NOW, PAGE, Request, TestApp, TestTill, operator, until};

/// How long a test waits for what must not come, where nothing tells that it never will.
const MOMENT: Duration = Duration::from_millis(300);

/// A till that sends notifications, and an app that may do everything.
struct Scene {
    till: TestTill,
    app: TestApp,
    _sending: Sending,
}

/// Sends the notifications of a till, as its server would. It stops when this is dropped.
pub(crate) struct Sending(watch::Sender<bool>);

impl Sending {
    pub(crate) fn of(till: &TestTill) -> Self {
        Self::in_places(till, Arc::clone(&till.till.receiver_places))
    }

    /// The same with other places.
    fn in_places(till: &TestTill, places: Arc<Bulkhead>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let state = till.till.clone();
        let (settings, metrics) = (state.config.notify.clone(), state.metrics.notify().clone());
        let (sender, head) = (state.notifier.clone(), state.event_heads.clone());
        tokio::spawn(notify::run(till.store.clone(), sender, places, settings, metrics, head, stopped));
        Self(stop)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// Settings that reach these receivers. An event that was not accepted is not tried again for a long time.
pub(crate) fn reaching(receivers: &[&Receiver]) -> impl FnOnce(&mut Config) + use<> {
    let ports = receivers.iter().map(|receiver| receiver.address.port()).collect();
    |config| {
        config.database.connections = 4;
        config.notify.allow_networks = vec!["127.0.0.0/8".parse().unwrap()];
        config.notify.ports = ports;
        config.notify.retry_delays = RetryDelays::new(vec![Duration::from_mins(10)]);
    }
}

impl Scene {
    async fn new(receivers: &[&Receiver]) -> Self {
        Self::with(receivers, |_| {}).await
    }

    /// The same with these delays before an event is tried again.
    async fn retrying(receivers: &[&Receiver], delays: &[Duration]) -> Self {
        let delays = RetryDelays::new(delays.to_vec());
        Self::with(receivers, |config| config.notify.retry_delays = delays).await
    }

    async fn with(receivers: &[&Receiver], change: impl FnOnce(&mut Config)) -> Self {
        let (till, app) = quiet_till(receivers, change).await;
        Self { _sending: Sending::of(&till), till, app }
    }

    async fn change(&self, command: ReceiverCommand) -> ReceiverReport {
        change(&self.till, &self.app.id, command).await
    }

    /// Adds a receiver of all events in the standard format.
    async fn add(&self, receiver: &Receiver) -> AddedReceiver {
        self.add_like(receiver, ReceiverFormat::Standard, &[]).await
    }

    async fn add_like(
        &self,
        receiver: &Receiver,
        format: ReceiverFormat,
        events: &[EventType],
    ) -> AddedReceiver {
        add(&self.till, &self.app, &receiver.url("/notify?k=v"), format, events).await
    }

    async fn shown(&self, added: &AddedReceiver) -> ReceiverDetail {
        self.till.store.receiver(&self.app.id, id(added)).await.unwrap().expect("the receiver is there")
    }

    /// Waits until this holds of the receiver, as operators see it.
    async fn until(&self, added: &AddedReceiver, what: &str, holds: impl Fn(&ReceiverDetail) -> bool) {
        until(what, async || holds(&self.shown(added).await)).await;
    }

    async fn pay(&self, biz_no: &str) {
        pay(&self.till, &self.app, biz_no).await;
    }
}

/// A till that sends nothing, and its app with the player o1, who has 40 gifted and 10,000 charged coins.
async fn quiet_till(receivers: &[&Receiver], change: impl FnOnce(&mut Config)) -> (TestTill, TestApp) {
    let reaching = reaching(receivers);
    let till = TestTill::start_with(|config| {
        reaching(config);
        change(config);
    })
    .await;
    let app = till.app_like("a1", AppKind { scopes: &Scope::ALL, ..AppKind::default() }).await;
    till.player(&app, "o1", 40, 10_000).await;
    (till, app)
}

fn id(added: &AddedReceiver) -> &ReceiverId {
    &added.receiver.receiver_id
}

async fn change(till: &TestTill, app_id: &AppId, command: ReceiverCommand) -> ReceiverReport {
    till.store.change_receivers(&operator(), app_id, command, None).await.unwrap()
}

fn new_receiver(url: &str, format: ReceiverFormat, events: &[EventType]) -> ReceiverCommand {
    ReceiverCommand::Add(NewReceiver { url: WebUrl::parse(url).unwrap(), events: events.to_vec(), format })
}

pub(crate) async fn add(
    till: &TestTill,
    app: &TestApp,
    url: &str,
    format: ReceiverFormat,
    events: &[EventType],
) -> AddedReceiver {
    match change(till, &app.id, new_receiver(url, format, events)).await {
        ReceiverReport::Added(added) => *added,
        report => panic!("{report:?}"),
    }
}

/// An exchange of one coin.
async fn pay(till: &TestTill, app: &TestApp, biz_no: &str) {
    let answer = Game::new(app, "o1", biz_no, 1).send(till).await;
    assert_eq!(answer.code(), 1, "{}", answer.body);
}

async fn report(till: &TestTill, app: &TestApp, order: &str, status: i16, img_id: &ImgId) -> Answer {
    let path = format!("/openapi/mp/developer/order/v1/report?app_id={}&access_token={}", app.id, app.token);
    let report = json!({
        "out_biz_order_no": order, "out_order_no": format!("{order}-pay"), "open_id": "o1",
        "order_create_time": NOW - 1000, "order_status": status, "order_path": PAGE, "product_cover_img_id": img_id,
    });
    till.send(Request::post(&path).body(report.to_string())).await
}

fn open_id() -> OpenId {
    OpenId::parse("o1").unwrap()
}

async fn credit(till: &TestTill, app: &TestApp, reference: &str, free: i64, charge: i64) {
    let reference = CreditRef::parse(reference).unwrap();
    let credit = Credit { open_id: open_id(), free, charge, reference, note: String::new(), create: false };
    till.store.change_wallet(&operator(), &app.id, credit).await.unwrap();
}

async fn debit(till: &TestTill, app: &TestApp, reference: &str, free: i64, charge: i64) {
    let reference = CreditRef::parse(reference).unwrap();
    let debit = Debit { open_id: open_id(), free, charge, reference, note: String::new() };
    till.store.change_wallet(&operator(), &app.id, debit).await.unwrap();
}

async fn give_back(till: &TestTill, app: &TestApp, biz_no: &str, amount: i64, reference: &str, note: &str) {
    let (biz_no, reference) = (BizNo::parse(biz_no).unwrap(), CreditRef::parse(reference).unwrap());
    let amount = Amount::parse(&amount.to_string()).unwrap();
    let give_back = GiveBack { biz_no, amount, reference, note: note.to_owned() };
    till.store.change_wallet(&operator(), &app.id, give_back).await.unwrap();
}

/// Every event of the feed.
async fn all_events(till: &TestTill) -> Vec<Event> {
    till.store.number_events(None).await.unwrap();
    let (mut events, mut cursor) = (Vec::new(), EventCursor::START);
    loop {
        match till.store.event_page(cursor, &EventFilter::default(), 200).await.unwrap() {
            EventPage::Events(some, _) if some.is_empty() => return events,
            EventPage::Events(some, next) => {
                events.extend(some);
                cursor = next;
            }
            page => panic!("{page:?}"),
        }
    }
}
