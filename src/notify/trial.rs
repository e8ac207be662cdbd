//! Notifications that a receiver of a sandbox app must take or refuse (contract 15.3).

use domain::event::{EventData, EventType};
use hyper::header::{HeaderMap, HeaderValue};
use serde_json::json;
use store::LeasedReceiver;
use time::OffsetDateTime;

use super::message::{Message, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP, random_id};

/// A signature of 32 zero bytes, which fits nothing.
const WRONG: &str = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
/// The age of a signature that is old.
const OLD_SECONDS: i64 = 600;

/// A notification in the standard format that tries a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial<'a> {
    /// A credit of this player, without a signature.
    Unsigned(&'a str),
    /// The same with a wrong signature.
    Wrong(&'a str),
    /// The same, signed ten minutes ago.
    Old(&'a str),
    /// An event of an unknown type, with the signatures of two secrets.
    TwoSecrets,
    /// An event of an unknown type.
    UnknownType,
    /// A credit of this player that is marked as a test.
    Test(&'a str),
}

impl Trial<'_> {
    /// The message.
    pub(super) fn message(self, receiver: &LeasedReceiver, now: OffsetDateTime) -> Message {
        let id = random_id();
        let (format, app_id) = (receiver.format, receiver.app_id.as_str());
        match self {
            Self::TwoSecrets | Self::UnknownType => {
                let data = json!({ "season": 7 });
                Message::of_any(id, ("season.started", app_id), now, format, None, &data)
            }
            Self::Unsigned(open_id) | Self::Wrong(open_id) | Self::Old(open_id) | Self::Test(open_id) => {
                let mut data = json!(EventData::example(EventType::WalletCredited));
                data["open_id"] = open_id.into();
                let is_mock = matches!(self, Self::Test(_)).then_some(true);
                let about = (EventType::WalletCredited.as_str(), app_id);
                Message::of_any(id, about, now, format, is_mock, &data)
            }
        }
    }

    /// Seconds before now at which it is signed.
    pub(super) const fn age_seconds(self) -> i64 {
        if matches!(self, Self::Old(_)) { OLD_SECONDS } else { 0 }
    }

    /// Makes the headers of a right notification its own.
    pub(super) fn change(self, headers: &mut HeaderMap) {
        match self {
            Self::Unsigned(_) => {
                headers.remove(WEBHOOK_SIGNATURE);
                headers.remove(WEBHOOK_TIMESTAMP);
            }
            Self::Wrong(_) => {
                headers.insert(WEBHOOK_SIGNATURE, HeaderValue::from_static(WRONG));
            }
            Self::TwoSecrets => {
                let right = headers.get(&WEBHOOK_SIGNATURE).and_then(|right| right.to_str().ok());
                let both = format!("{WRONG} {}", right.unwrap_or_default());
                if let Ok(both) = HeaderValue::from_str(&both) {
                    headers.insert(WEBHOOK_SIGNATURE, both);
                }
            }
            Self::Old(_) | Self::UnknownType | Self::Test(_) => {}
        }
    }
}
