//! Receivers of events (contract 12.2): servers of an app that are told what happens.

use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;

use super::event::{EventId, EventType};
use super::ids::{AppId, WebUrl, made_of, text_type};

/// The most receivers of an app.
pub const RECEIVERS_MAX: i64 = 5;

text_type!(
    /// The id of a receiver.
    ReceiverId, "the id of a receiver: rcv_ and 16 hexadecimal digits" => "^rcv_[0-9a-f]{16}$",
    |text| {
        let digits = text.strip_prefix("rcv_");
        digits.is_some_and(|digits| made_of(digits, 16, 16, |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
    }
);

impl ReceiverId {
    /// The id with these random bytes.
    ///
    /// # Panics
    /// Never: eight bytes are 16 digits.
    #[must_use]
    pub fn new(random: [u8; 8]) -> Self {
        Self::parse(&format!("rcv_{}", hex::encode(random))).expect("eight bytes are 16 hexadecimal digits")
    }
}

crate::word_enum! {
    /// How a notification looks and is signed.
    pub enum ReceiverFormat {
        /// Standard Webhooks 1.0.0.
        Standard = "standard",
        /// As the platform sends them.
        Platform = "platform",
    }
}

crate::word_enum! {
    /// How a receiver is.
    pub enum ReceiverState {
        /// It takes what it gets.
        Active = "active",
        /// It did not take the last try.
        Failing = "failing",
        /// Nothing is sent to it.
        Paused = "paused",
    }
}

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

/// What an operator does to the receivers of an app.
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

/// Which events are sent again.
#[derive(Debug, Clone)]
pub enum Resend {
    /// This one, whatever became of it.
    One(EventId),
    /// All failed ones of changes in a span of time.
    Failed(TimeSpan),
}

/// A span of time. `since` is in, `until` is out.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimeSpan {
    /// Its beginning, if it has one.
    pub since: Option<OffsetDateTime>,
    /// Its end, if it has one.
    pub until: Option<OffsetDateTime>,
}

/// A receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Receiver {
    /// Its id.
    pub receiver_id: ReceiverId,
    /// The app.
    pub app_id: AppId,
    /// Where events are sent.
    pub url: String,
    /// The types of events that it is told of. Empty: all.
    pub events: Vec<EventType>,
    /// Format of the notifications.
    pub format: ReceiverFormat,
    /// How it is.
    pub state: ReceiverState,
    /// Why it is paused: `operator`, or `receiver` when it answered 410. Null while it is not paused.
    pub paused_by: Option<String>,
    /// Since when it is paused. Null while it is not paused.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub paused_at: Option<OffsetDateTime>,
    /// When it was added.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: OffsetDateTime,
    /// How many events it has taken.
    pub taken: i64,
    /// Since when it has failed. Null while it takes what it gets.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub failing_since: Option<OffsetDateTime>,
    /// When it last took an event. Null before the first time.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_taken_at: Option<OffsetDateTime>,
    /// When it last did not take one. Null before the first time.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_failed_at: Option<OffsetDateTime>,
    /// HTTP status of the last failure. Null when there was no answer.
    pub last_status: Option<i16>,
    /// What the last failure was.
    pub last_error: Option<String>,
}

/// A receiver that was added, with its secret, which is shown once.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AddedReceiver {
    /// The receiver.
    #[serde(flatten)]
    pub receiver: Receiver,
    /// The secret that signs.
    #[schemars(regex(pattern = "^whsec_[0-9A-Za-z+/]{43}=$"))]
    pub secret: String,
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

/// What a command has done.
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

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverRefusal {
    /// There is no such app.
    UnknownApp(AppId),
    /// The app has no such receiver.
    Unknown(ReceiverId),
    /// The app has as many receivers as it may have.
    TooMany,
    /// The app has no such event, or it was removed.
    UnknownEvent(EventId),
}
