//! Events (contract 12): what happened, for the servers of an app. An event names the row that it tells of, so it can
//! never differ from that row.

mod data;

use std::time::Duration;

use time::OffsetDateTime;

use super::fields::Expected;
use super::ids::WalletNo;
use super::ledger::ReferenceKind;

pub use data::{
    CancelData, DebtData, EntryPurses, EventData, ExchangeData, FreezeData, ImageData, OperatorData,
    OrderData, PresentData, RefundData, RefusedRefundData, TopupData, UnmatchedData,
};

crate::word_enum! {
    /// The type of an event.
    pub enum EventType {
        /// An exchange was made.
        ExchangeSucceeded = "exchange.succeeded",
        /// A present was made.
        PresentSucceeded = "present.succeeded",
        /// An exchange was given back, or a part of it.
        CancelSucceeded = "cancel.succeeded",
        /// An operator credited a wallet.
        WalletCredited = "wallet.credited",
        /// An operator debited a wallet.
        WalletDebited = "wallet.debited",
        /// An operator froze a wallet, or changed how long it is frozen.
        WalletFrozen = "wallet.frozen",
        /// An operator ended the freeze of a wallet.
        WalletThawed = "wallet.thawed",
        /// A payment was credited.
        TopupPaid = "topup.paid",
        /// A payment fits no order and no price, and nothing was credited.
        TopupUnmatched = "topup.unmatched",
        /// A payment was refunded, or a part of it.
        TopupRefunded = "topup.refunded",
        /// A refund came before its payment, and does not fit it.
        TopupRefundRefused = "topup.refund_refused",
        /// The debt of a wallet has grown by a refund, or a top-up has settled some of it.
        WalletDebtChanged = "wallet.debt_changed",
        /// A report made or changed an order.
        OrderChanged = "order.changed",
        /// An image was blocked.
        ImageBlocked = "image.blocked",
    }
}

impl EventType {
    /// The type of a ledger entry's event. `None` for a closed number, which is no entry, and for a settlement.
    #[must_use]
    pub const fn of_entry(kind: ReferenceKind) -> Option<Self> {
        match kind {
            ReferenceKind::Exchange => Some(Self::ExchangeSucceeded),
            ReferenceKind::Present => Some(Self::PresentSucceeded),
            ReferenceKind::Cancel => Some(Self::CancelSucceeded),
            ReferenceKind::Credit => Some(Self::WalletCredited),
            ReferenceKind::Debit => Some(Self::WalletDebited),
            ReferenceKind::Topup => Some(Self::TopupPaid),
            ReferenceKind::Refund => Some(Self::TopupRefunded),
            // A settlement is told as a change of debt.
            ReferenceKind::Settlement | ReferenceKind::Closed | ReferenceKind::TopupOrder => None,
        }
    }
}

/// The most events that one row of the outbox names.
pub const EVENTS_PER_ROW_MAX: usize = 512;

/// Bytes of the id of a row of the outbox.
pub const ROW_ID_BYTES: usize = 16;

/// The id of a row of the outbox: six bytes with the milliseconds since the Unix epoch, then random ones. So later rows
/// have higher ids, and two databases never make the same.
#[must_use]
pub fn row_id(at: OffsetDateTime, random: [u8; 10]) -> [u8; ROW_ID_BYTES] {
    let millis = i64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or_default();
    let mut id = [0; ROW_ID_BYTES];
    id[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
    id[6..].copy_from_slice(&random);
    id
}

/// The id of an event: that of its row, and its place in the row. It is the same for every try and in the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// Id of the row.
    pub row: [u8; ROW_ID_BYTES],
    /// Place in the row, from 0.
    pub place: u16,
}

impl EventId {
    /// The accepted form, in words that follow "expected".
    pub const EXPECTED: &'static str = "the id of an event: evt_ and 36 hexadecimal digits";

    /// Reads an id.
    ///
    /// # Errors
    /// Any other text.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let read = || {
            let digits = text.strip_prefix("evt_")?;
            if digits.bytes().any(|byte| byte.is_ascii_uppercase()) {
                return None;
            }
            let mut bytes = [0; ROW_ID_BYTES + 2];
            hex::decode_to_slice(digits, &mut bytes).ok()?;
            let (row, place) = bytes.split_at(ROW_ID_BYTES);
            Some(Self { row: row.try_into().ok()?, place: u16::from_be_bytes(place.try_into().ok()?) })
        };
        read().ok_or(Expected::new(Self::EXPECTED))
    }

    /// The id as text.
    #[must_use]
    pub fn as_text(&self) -> String {
        format!("evt_{}{:04x}", hex::encode(self.row), self.place)
    }
}

impl std::fmt::Display for EventId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.as_text())
    }
}

/// The rows that the events of one row of the outbox tell of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKeys {
    /// Ledger entries: wallet and sequence number.
    Entries(Vec<(WalletNo, i64)>),
    /// Reports of orders: `out_biz_order_no` and sequence number.
    Orders(Vec<(String, i64)>),
    /// Images: `imgId`.
    Images(Vec<String>),
    /// Payments that fit nothing: the provider and its order id, with a slash between them.
    Payments(Vec<String>),
    /// Refunds that do not fit their payment: the payment as there, a slash and the refund's id.
    Refunds(Vec<String>),
    /// Changes of debt: wallet and sequence number of the refund or the settlement.
    Debts(Vec<(WalletNo, i64)>),
    /// Freezes: wallet, and the number of the freeze's end ([`freeze_end`]).
    Freezes(Vec<(WalletNo, i64)>),
}

/// The number of a freeze without an end of its own.
pub const NO_END: i64 = i64::MAX;
/// The number of a freeze that an operator has ended.
pub const THAWED: i64 = 0;

/// When a freeze ends by itself, in Unix milliseconds, from the number in the key of its event. `None` where it does not.
#[must_use]
pub fn freeze_end(number: i64) -> Option<i64> {
    (number != THAWED && number != NO_END).then_some(number)
}

impl EventKeys {
    /// The bytes as they are stored. The numbers of a key have eight bytes each, the highest first. A text stands
    /// behind one byte with its length.
    #[must_use]
    pub fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Self::Entries(pairs) | Self::Freezes(pairs) | Self::Debts(pairs) => {
                for (wallet_no, number) in pairs {
                    add_entry(&mut bytes, *wallet_no, *number);
                }
            }
            Self::Orders(orders) => {
                for (number, seq) in orders {
                    bytes.extend(seq.to_be_bytes());
                    add_text(&mut bytes, number);
                }
            }
            Self::Images(texts) | Self::Payments(texts) | Self::Refunds(texts) => {
                for text in texts {
                    add_text(&mut bytes, text);
                }
            }
        }
        bytes
    }

    /// Spreads the keys of one transaction, app and type over rows of the outbox, [`EVENTS_PER_ROW_MAX`] a row, in their
    /// order (contract 12.1.1). Each row is the number of its keys, and their bytes ([`Self::encoded`]).
    #[expect(clippy::missing_panics_doc, reason = "a row has 512 events at most")]
    pub fn in_rows<K: Clone>(
        keys: &[K],
        of: fn(Vec<K>) -> Self,
    ) -> impl ExactSizeIterator<Item = (i32, Vec<u8>)> {
        keys.chunks(EVENTS_PER_ROW_MAX).map(move |part| {
            let count = i32::try_from(part.len()).expect("a row has 512 events at most");
            (count, of(part.to_vec()).encoded())
        })
    }

    /// Reads the keys of a row of this type. `None` for bytes that are no such keys.
    #[must_use]
    pub fn decode(of: EventType, mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let mut entries = Vec::new();
        let mut orders = Vec::new();
        let mut texts = Vec::new();
        while !bytes.is_empty() {
            match of {
                EventType::OrderChanged => {
                    let seq = take_number(bytes)?;
                    orders.push((take_text(bytes)?, seq));
                }
                EventType::ImageBlocked | EventType::TopupUnmatched | EventType::TopupRefundRefused => {
                    texts.push(take_text(bytes)?);
                }
                EventType::ExchangeSucceeded
                | EventType::PresentSucceeded
                | EventType::CancelSucceeded
                | EventType::WalletCredited
                | EventType::WalletDebited
                | EventType::WalletFrozen
                | EventType::WalletThawed
                | EventType::WalletDebtChanged
                | EventType::TopupPaid
                | EventType::TopupRefunded => {
                    entries.push((WalletNo(take_number(bytes)?), take_number(bytes)?));
                }
            }
        }
        Some(match of {
            EventType::OrderChanged => Self::Orders(orders),
            EventType::ImageBlocked => Self::Images(texts),
            EventType::TopupUnmatched => Self::Payments(texts),
            EventType::TopupRefundRefused => Self::Refunds(texts),
            EventType::WalletDebtChanged => Self::Debts(entries),
            EventType::WalletFrozen | EventType::WalletThawed => Self::Freezes(entries),
            _ => Self::Entries(entries),
        })
    }
}

/// Adds the key of a ledger entry.
pub fn add_entry(bytes: &mut Vec<u8>, wallet_no: WalletNo, seq: i64) {
    bytes.extend(wallet_no.0.to_be_bytes());
    bytes.extend(seq.to_be_bytes());
}

fn add_text(bytes: &mut Vec<u8>, text: &str) {
    let length = u8::try_from(text.len()).expect("each of them has less than 256 bytes");
    bytes.push(length);
    bytes.extend(text.as_bytes());
}

fn take_number(bytes: &mut &[u8]) -> Option<i64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(i64::from_be_bytes(*number))
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let (length, rest) = bytes.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(*length))?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

/// When a failed try is repeated (contract 12.4.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryDelays(Vec<Duration>);

/// The longest time for which a receiver may ask by `Retry-After`.
pub const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

impl RetryDelays {
    /// The delay before each repeat.
    #[must_use]
    pub fn new(delays: Vec<Duration>) -> Self {
        Self(delays)
    }

    /// How long to wait after the try with this number, from 1, before the next one. `None` after the last try. `chance`
    /// is a random number from 0 to 1: up to a tenth is added. The wait is at least what the receiver asked for.
    #[must_use]
    pub fn after(&self, tries: u32, asked: Option<Duration>, chance: f64) -> Option<Duration> {
        let place = usize::try_from(tries.checked_sub(1)?).ok()?;
        let delay = *self.0.get(place)?;
        let asked = asked.unwrap_or_default().min(RETRY_AFTER_MAX);
        Some(delay.max(asked).mul_f64(1.0 + 0.1 * chance.clamp(0.0, 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::macros::datetime;

    use super::*;

    proptest! {
        /// Rule: keys come back as they were stored.
        #[test]
        fn keys_come_back_as_they_were_stored(
            entries in proptest::collection::vec((any::<i64>(), any::<i64>()), 0..20),
            orders in proptest::collection::vec(("[0-9A-Za-z_*-]{6,32}", any::<i64>()), 0..20),
            images in proptest::collection::vec("[0-9a-f]{48}", 0..20),
        ) {
            let entries: Vec<_> = entries.into_iter().map(|(wallet_no, seq)| (WalletNo(wallet_no), seq)).collect();
            for (of, keys) in [
                (EventType::WalletFrozen, EventKeys::Freezes(Vec::clone(&entries))),
                (EventType::WalletDebited, EventKeys::Entries(entries)),
                (EventType::OrderChanged, EventKeys::Orders(orders)),
                (EventType::TopupUnmatched, EventKeys::Payments(Vec::clone(&images))),
                (EventType::ImageBlocked, EventKeys::Images(images)),
            ] {
                prop_assert_eq!(EventKeys::decode(of, &keys.encoded()), Some(keys));
            }
        }

        /// Rule: an id comes back as it was written, and no other text is an id.
        #[test]
        fn ids_come_back_as_they_were_written(row in any::<[u8; ROW_ID_BYTES]>(), place in any::<u16>()) {
            let id = EventId { row, place };
            let text = id.as_text();
            prop_assert_eq!(EventId::parse(&text), Ok(id));
            let longer = text.clone() + "0";
            for other in [&text[..text.len() - 1], longer.as_str(), &text[4..]] {
                prop_assert!(EventId::parse(other).is_err());
            }
        }
    }

    /// Rule: damaged bytes are no keys.
    #[test]
    fn damaged_bytes_are_no_keys() {
        let whole = EventKeys::Orders(vec![("order1".to_owned(), 3)]).encoded();
        for end in 1..whole.len() {
            assert_eq!(EventKeys::decode(EventType::OrderChanged, &whole[..end]), None, "{end}");
        }
        assert_eq!(EventKeys::decode(EventType::ExchangeSucceeded, &[0; 15]), None);
        assert_eq!(EventKeys::decode(EventType::ImageBlocked, &[2, 0xff, 0xfe]), None);
    }

    /// Rule: the ids of later rows are higher.
    #[test]
    fn later_rows_have_higher_ids() {
        let at = datetime!(2026-11-24 06:00 UTC);
        let earlier = row_id(at, [0xff; 10]);
        assert!(row_id(at + Duration::from_millis(1), [0; 10]) > earlier);
        assert_eq!(hex::encode(&earlier[..6]), "01a20c23c300");
    }

    /// Rule: the delays of the schedule, each plus up to a tenth; `Retry-After` is the least, up to a day.
    #[test]
    fn the_schedule_ends_and_respects_what_the_receiver_asks_for() {
        let seconds = Duration::from_secs;
        let delays = RetryDelays::new(vec![seconds(5), seconds(30)]);
        assert_eq!(delays.after(1, None, 0.0), Some(seconds(5)));
        assert_eq!(delays.after(2, None, 1.0), Some(seconds(33)));
        assert_eq!(delays.after(3, None, 0.5), None);
        assert_eq!(delays.after(1, Some(seconds(60)), 0.0), Some(seconds(60)));
        assert_eq!(delays.after(1, Some(seconds(1)), 0.0), Some(seconds(5)));
        assert_eq!(delays.after(1, Some(seconds(999_999)), 0.0), Some(RETRY_AFTER_MAX));
        assert_eq!(delays.after(3, Some(seconds(60)), 0.0), None);
    }
}
