//! Commands of operators to the receivers of an app (contract 12.2).

use schemars::JsonSchema;
use serde::Serialize;

use super::Subject;
use crate::event::{EventId, EventType};
use crate::ids::{AppId, WebUrl};
use crate::receiver::{RECEIVERS_MAX, Receiver, ReceiverFormat, ReceiverId, TimeBounds};
use crate::text;

/// A receiver to be added.
#[derive(Debug, Clone)]
pub struct NewReceiver {
    /// Where events are sent.
    pub url: WebUrl,
    /// The types of events that it is told of. Empty: all.
    pub events: Vec<EventType>,
    /// Format of the notifications.
    pub format: ReceiverFormat,
}

/// A command of an operator to the receivers of an app.
#[derive(Debug, Clone)]
pub enum ReceiverCommand {
    /// Add one.
    Add(NewReceiver),
    /// Send nothing to it until it is resumed.
    Pause(ReceiverId),
    /// Send to it again, and what has waited.
    Resume(ReceiverId),
    /// Forget it, and what waits for it.
    Remove(ReceiverId),
    /// Make a new secret. The one before it signs too for a day.
    RotateSecret(ReceiverId),
    /// Send events again.
    Resend(ReceiverId, Resend),
}

/// The events that are sent again.
#[derive(Debug, Clone)]
pub enum Resend {
    /// This one, whatever became of it.
    One(EventId),
    /// All failed ones of changes in a span of time.
    Failed(TimeBounds),
}

/// A receiver that was added, with its secret, which is shown once.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AddedReceiver {
    /// The receiver.
    #[serde(flatten)]
    pub receiver: Receiver,
    /// The secret that signs. One of the platform format has none: the app secret signs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^whsec_[0-9A-Za-z+/]{43}=$"))]
    pub secret: Option<String>,
}

/// A new secret of a receiver, shown once.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct NewReceiverSecret {
    /// The app.
    pub app_id: AppId,
    /// The receiver.
    pub receiver_id: ReceiverId,
    /// The secret that signs. The one before it signs too for 24 hours.
    #[schemars(regex(pattern = "^whsec_[0-9A-Za-z+/]{43}=$"))]
    pub secret: String,
}

/// A receiver that was removed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RemovedReceiver {
    /// The app.
    pub app_id: AppId,
    /// The receiver.
    pub receiver_id: ReceiverId,
    /// `true`.
    pub removed: bool,
}

/// Events that are sent again.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Resent {
    /// How many.
    pub resent: u64,
}

/// The result of a command.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum ReceiverReport {
    /// A receiver was added.
    Added(Box<AddedReceiver>),
    /// A receiver was paused or resumed.
    Changed(Box<Receiver>),
    /// A receiver was removed.
    Removed(RemovedReceiver),
    /// A receiver has a new secret.
    Rotated(NewReceiverSecret),
    /// Events are sent again.
    Resent(Resent),
}

refusals! {
    /// The app has no such receiver.
    unknown_receiver(app_id, receiver_id): Unknown(Subject::Receiver) of app_id,
        text!("there is no receiver {receiver_id} of an app {app_id}", receiver_id, app_id);
    /// A receiver of the platform format has no secret of its own.
    no_own_secret(): Conflict,
        text!("a receiver of the platform format has no secret of its own: the app secret signs");
    /// The app has as many receivers as it may have.
    too_many_receivers(): Limit,
        text!("the app has {max} receivers, and may have no more", max = RECEIVERS_MAX);
    /// The receiver has no such event, or it was removed.
    unknown_event(event_id): Unknown(Subject::Event),
        text!("there is no event {event_id} for this receiver; events are kept for notify.keep", event_id);
    /// The receivers have changed since the form was shown: it was sent before, or somebody else changed them.
    receivers_changed(app_id): Conflict,
        text!("the receivers of the app {app_id} or their secrets have changed since this form was shown", app_id);
}
