//! The events about a player. An event names its ledger entry or its report by a key among those of many players.

use std::collections::HashSet;

use domain::event::{EventId, EventKeys, EventType, freeze_end};
use domain::moment::rfc3339;
use serde_json::json;
use sqlx::PgConnection;

use super::{ExportError, ExportedPlayer, RowFile};
use crate::error::StoreError;

/// Rows of events that are read at once. Each has at most 512 keys.
const PIECE: i64 = 200;

/// Writes the events about the player, in the order of their numbers.
pub(super) async fn write(
    connection: &mut PgConnection,
    subject: &ExportedPlayer,
    file: &mut impl RowFile,
) -> Result<(), ExportError> {
    let mut after = 0;
    let told = payments_told(subject);
    loop {
        let rows = sqlx::query!(
            "SELECT last_no, at, count, type, row_id, keys FROM events
             WHERE app_id = $1 AND last_no > $2 AND type <> 'image.blocked' ORDER BY last_no LIMIT $3",
            subject.app_id,
            after,
            PIECE
        );
        let rows = rows.fetch_all(&mut *connection).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.last_no;
        let (mut pieces, mut numbers) = (Vec::new(), Vec::new());
        for row in rows {
            let damaged = || StoreError::damaged("events");
            let kind = EventType::parse(&row.r#type).map_err(|_| damaged())?;
            let keys = EventKeys::decode(kind, &row.keys).ok_or_else(damaged)?;
            if let EventKeys::Orders(orders) = &keys {
                numbers.extend(orders.iter().map(|(number, _)| number.clone()));
            }
            let id = row.row_id.try_into().map_err(|_| damaged())?;
            pieces.push((row.last_no - i64::from(row.count), row.at, kind, id, keys));
        }
        let own = own_orders(connection, subject, &numbers).await?;
        for (before, at, kind, row, keys) in pieces {
            let mut add = |place: usize, mut event: serde_json::Value| {
                let place = u16::try_from(place).unwrap_or_default();
                event["no"] = (before + 1 + i64::from(place)).into();
                event["id"] = EventId { row, place }.as_text().into();
                event["type"] = kind.as_str().into();
                event["at"] = rfc3339(at).into();
                file.add(&event.to_string())
            };
            match keys {
                EventKeys::Entries(entries) | EventKeys::Debts(entries) => {
                    for (place, (wallet_no, seq)) in entries.into_iter().enumerate() {
                        if Some(wallet_no.0) == subject.wallet_no {
                            add(place, json!({ "entry_seq": seq }))?;
                        }
                    }
                }
                EventKeys::Orders(orders) => {
                    for (place, (number, seq)) in orders.into_iter().enumerate() {
                        if own.contains(&number) {
                            add(place, json!({ "out_biz_order_no": number, "order_seq": seq }))?;
                        }
                    }
                }
                EventKeys::Freezes(freezes) => {
                    for (place, (wallet_no, until)) in freezes.into_iter().enumerate() {
                        if Some(wallet_no.0) == subject.wallet_no {
                            add(place, json!({ "until": freeze_end(until) }))?;
                        }
                    }
                }
                EventKeys::Payments(texts) | EventKeys::Refunds(texts) => {
                    for (place, text) in texts.iter().enumerate() {
                        let payment = payment_of(kind, text);
                        if told.contains(payment) {
                            add(place, json!({ "payment": payment }))?;
                        }
                    }
                }
                EventKeys::Images(_) => {}
            }
        }
    }
}

/// The payments of the player, as events name them.
fn payments_told(subject: &ExportedPlayer) -> HashSet<String> {
    let payments = subject.payments.0.iter().zip(&subject.payments.1);
    payments.map(|(provider, id)| format!("{provider}/{id}")).collect()
}

/// Those of these orders that are the player's.
async fn own_orders(
    connection: &mut PgConnection,
    subject: &ExportedPlayer,
    numbers: &[String],
) -> Result<HashSet<String>, ExportError> {
    if numbers.is_empty() {
        return Ok(HashSet::new());
    }
    let own = sqlx::query_scalar!(
        "SELECT out_biz_order_no FROM orders
         WHERE app_id = $1 AND open_id = $2 AND out_biz_order_no = ANY ($3)",
        subject.app_id,
        subject.open_id,
        numbers
    );
    Ok(own.fetch_all(connection).await?.into_iter().collect())
}

/// The payment in the key of an event: all of it, or of a refund what stands before the last slash.
fn payment_of(of: EventType, text: &str) -> &str {
    match text.rsplit_once('/') {
        Some((payment, _)) if of == EventType::TopupRefundRefused => payment,
        Some(_) | None => text,
    }
}
