//! Events (contract 12.1): the outbox, their numbers, and what they tell.
//!
//! A transaction that changes something adds a row to the outbox. The row names the rows that the events tell of, so an
//! event can never differ from them. Soon after the commit the row leaves for the table `events`, and its events get
//! numbers. Only one transaction at a time gives numbers, so they become visible in their order, and nothing is ever added
//! before what was read.

mod data;
mod news;
mod numbering;
mod reader;
mod refunds;

use domain::event::{EventKeys, EventType};
use domain::ids::WalletNo;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::error::Result;
use crate::secrets::random_bytes;

pub use news::EventNews;
pub use numbering::EventHead;
pub(crate) use numbering::{ROWS_AT_ONCE, number_some};
pub(crate) use reader::event_key;
pub use reader::{Event, EventCursor, EventFilter, EventKey, EventPage};

/// Adds an event for each blocked image of an app to the outbox. `connection` is in the transaction of the block.
pub(crate) async fn tell_of_images(
    connection: &mut PgConnection,
    app_id: &str,
    images: Vec<String>,
) -> Result<()> {
    for (count, keys) in EventKeys::in_rows(&images, EventKeys::Images) {
        add_to_outbox(connection, app_id, EventType::ImageBlocked, None, (count, keys)).await?;
    }
    Ok(())
}

/// Adds the event of a wallet that was frozen or thawed to the outbox. `until` is that of [`EventKeys::Freezes`].
/// `connection` is in the transaction of the change.
pub(crate) async fn tell_of_freeze(
    connection: &mut PgConnection,
    app_id: &str,
    event_type: EventType,
    freeze: (WalletNo, i64),
) -> Result<()> {
    let keys = EventKeys::Freezes(vec![freeze]).encoded();
    add_to_outbox(connection, app_id, event_type, None, (1, keys)).await
}

/// Adds the event of a payment that fits nothing to the outbox. `connection` is in the transaction of the payment. `at` is the
/// time in its row: `None` where that is the begin of the transaction.
pub(crate) async fn tell_of_unmatched(
    connection: &mut PgConnection,
    app_id: &str,
    payment: String,
    at: Option<OffsetDateTime>,
) -> Result<()> {
    let keys = EventKeys::Payments(vec![payment]).encoded();
    add_to_outbox(connection, app_id, EventType::TopupUnmatched, at, (1, keys)).await
}

/// Adds the event of a refund that waited and does not fit its payment. `connection` is in the transaction of the payment.
pub(crate) async fn tell_of_refused_refund(
    connection: &mut PgConnection,
    app_id: &str,
    refund: String,
) -> Result<()> {
    let keys = EventKeys::Refunds(vec![refund]).encoded();
    add_to_outbox(connection, app_id, EventType::TopupRefundRefused, None, (1, keys)).await
}

/// Adds the event of a change of debt to the outbox: the entry of the refund or the settlement, and its time. `connection` is
/// in the transaction of that entry.
pub(crate) async fn tell_of_debt(
    connection: &mut PgConnection,
    app_id: &str,
    entry: (WalletNo, i64),
    at: OffsetDateTime,
) -> Result<()> {
    let keys = EventKeys::Debts(vec![entry]).encoded();
    add_to_outbox(connection, app_id, EventType::WalletDebtChanged, Some(at), (1, keys)).await
}

/// `at` is the time of the change. `None` stands for the begin of the transaction.
async fn add_to_outbox(
    connection: &mut PgConnection,
    app_id: &str,
    event_type: EventType,
    at: Option<OffsetDateTime>,
    (count, keys): (i32, Vec<u8>),
) -> Result<()> {
    let random = random_bytes::<10>();
    sqlx::query!(
        "INSERT INTO outbox (app_id, row_id, at, type, count, keys)
         VALUES ($1, substring(int8send((extract(epoch FROM now()) * 1000)::bigint) FROM 3) || $2::bytea,
             coalesce($3, now()), $4, $5, $6)",
        app_id,
        random.as_slice(),
        at,
        event_type.as_str(),
        count,
        keys
    )
    .execute(connection)
    .await?;
    Ok(())
}
