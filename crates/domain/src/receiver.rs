//! Receivers of events (contract 12.2): servers of an app that are told what happens.

use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;

use super::event::EventType;
use super::ids::{AppId, made_of, text_type};

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

/// A span of time. `since` is in, `until` is out.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimeBounds {
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
