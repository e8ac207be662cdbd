//! Receivers of events (contract 12.2): the commands of operators, what they see, and what the sending of notifications
//! reads and writes.

mod command;
mod mark;
mod outcome;
mod search;
mod sending;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::event::EventType;
use domain::fields::Expected;
use domain::ids::AppId;
use domain::receiver::{Receiver, ReceiverFormat, ReceiverId, ReceiverState};
use time::OffsetDateTime;

use crate::error::{Result, StoreError};
use crate::secrets::random_bytes;

pub use outcome::EventOutcome;
pub use search::{FailedEvent, ReceiverCounts, ReceiverDetail, ReceiverTry};
pub use sending::{DueDelivery, LeasedReceiver, NotTaken, TriesNote};

/// A new secret.
fn new_secret() -> String {
    format!("whsec_{}", STANDARD.encode(random_bytes::<32>()))
}

/// The columns of a receiver that operators see.
struct ReceiverRow {
    app_id: String,
    receiver_id: String,
    url: String,
    types: Vec<String>,
    format: String,
    created_at: OffsetDateTime,
    paused_by: Option<String>,
    paused_at: Option<OffsetDateTime>,
    taken: i64,
    failing_since: Option<OffsetDateTime>,
    last_taken_at: Option<OffsetDateTime>,
    last_failed_at: Option<OffsetDateTime>,
    last_status: Option<i16>,
    last_error: Option<String>,
}

/// Reads rows of receivers. The text is what the statement has behind its columns.
macro_rules! receiver_rows {
    ($rest:tt, $($value:expr),+ $(,)?) => {
        sqlx::query_as!(
            $crate::receiver::ReceiverRow,
            "SELECT app_id, receiver_id, url, types, format, created_at, paused_by, paused_at, taken, failing_since,
                 last_taken_at, last_failed_at, last_status, last_error FROM receivers " + $rest,
            $($value),+
        )
    };
}
use receiver_rows;

impl TryFrom<ReceiverRow> for Receiver {
    type Error = StoreError;

    fn try_from(row: ReceiverRow) -> Result<Self> {
        let state = match (&row.paused_by, row.failing_since) {
            (Some(_), _) => ReceiverState::Paused,
            (None, Some(_)) => ReceiverState::Failing,
            (None, None) => ReceiverState::Active,
        };
        Ok(Self {
            receiver_id: ReceiverId::parse(&row.receiver_id).map_err(damaged)?,
            app_id: AppId::parse(&row.app_id).map_err(damaged)?,
            url: row.url,
            events: event_types(&row.types)?,
            format: ReceiverFormat::parse(&row.format).map_err(damaged)?,
            state,
            paused_by: row.paused_by,
            paused_at: row.paused_at,
            created_at: row.created_at,
            taken: row.taken,
            failing_since: row.failing_since,
            last_taken_at: row.last_taken_at,
            last_failed_at: row.last_failed_at,
            last_status: row.last_status,
            last_error: row.last_error,
        })
    }
}

fn event_types(words: &[String]) -> Result<Vec<EventType>> {
    words.iter().map(|word| EventType::parse(word).map_err(damaged)).collect()
}

fn damaged(_: Expected) -> StoreError {
    StoreError::damaged("receivers")
}
