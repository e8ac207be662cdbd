//! The one door for money going out: [`Store::submit`] (contract 3, "Meaning").
//!
//! The deduction, the idempotency record and the ledger entry are one transaction. The wallet is
//! locked first and everything is read in later statements, so that each decision stands on what
//! the transaction before it committed; the primary key of the idempotency record decides between
//! transactions that hold different wallets.

use std::sync::Arc;

use serde::Serialize;
use sqlx::PgConnection;

use super::wallet::{Entry, lock_wallet, write_entry};
use super::{Store, StoreError};
use crate::auth::Authenticated;
use crate::domain::exchange::{BusinessContent, Exchange};
use crate::domain::ids::AppId;

/// How long the first success is answered again (contract 3).
const REPLAY_HOURS: i32 = 48;
/// `kind` of an exchange's ledger entry.
const EXCHANGE: &str = "exchange";

/// `data` of a successful exchange (spec 2.3): the balances right after it, for ever the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// The order number.
    #[serde(rename = "bizNo")]
    pub biz_no: String,
    /// Gifted currency.
    #[serde(rename = "freeBalance")]
    pub free_balance: i64,
    /// Charged currency.
    #[serde(rename = "chargeBalance")]
    pub charge_balance: i64,
}

/// What became of an exchange. Only `Done` has written anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExchangeOutcome {
    /// Deducted now, and committed.
    Done(Receipt),
    /// Deducted before by the same number with the same content.
    Replayed(Receipt),
    /// The number was used with other content.
    BizNoConflict,
    /// The number was used more than 48 hours ago.
    BizNoExpired,
    /// `ts` was outside the window, and the number is new.
    TsOutsideWindow,
    /// The app has no wallet for this open id.
    UnknownWallet,
    /// Both purses together do not cover the amount.
    InsufficientBalance,
}

impl Store {
    /// Carries out an exchange, exactly once for each order number of an app. The work belongs to
    /// a task of its own: a caller that goes away changes nothing.
    ///
    /// # Errors
    /// Too many wait, the deadline has passed or the database is away. Then it is not known
    /// whether the exchange was made; asking again with the same number tells.
    pub async fn submit(&self, exchange: Authenticated<Exchange>) -> Result<ExchangeOutcome, StoreError> {
        let place =
            Arc::clone(&self.exchange_queue).try_acquire_owned().map_err(|_| StoreError::Overloaded)?;
        let deadline = tokio::time::Instant::now() + self.settings.exchange_deadline;
        let (store, exchange) = (self.clone(), Arc::new(exchange));
        let task = tokio::spawn(async move {
            let outcome = store
                .transaction(move |connection| {
                    let exchange = Arc::clone(&exchange);
                    Box::pin(async move {
                        // Nobody waits any more: do not begin what can only be thrown away.
                        if tokio::time::Instant::now() >= deadline {
                            return Err(StoreError::Overloaded);
                        }
                        write_exchange(connection, exchange.app_id(), exchange.value()).await
                    })
                })
                .await;
            drop(place);
            outcome
        });
        match tokio::time::timeout_at(deadline, task).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(fault)) => Err(StoreError::Internal(format!("an exchange's task ended: {fault}"))),
            Err(_) => Err(StoreError::Unavailable("an exchange waited past its deadline".to_owned())),
        }
    }
}

async fn write_exchange(
    connection: &mut PgConnection,
    app_id: &AppId,
    exchange: &Exchange,
) -> Result<ExchangeOutcome, StoreError> {
    let content = &exchange.content;
    let wallet = lock_wallet(connection, app_id, &content.open_id).await?;
    if let Some(outcome) = earlier_exchange(connection, app_id, exchange).await? {
        return Ok(outcome);
    }
    if !exchange.is_fresh {
        return Ok(ExchangeOutcome::TsOutsideWindow);
    }
    let Some(wallet) = wallet else { return Ok(ExchangeOutcome::UnknownWallet) };
    let Ok(change) = wallet.balances.deduct(content.amount, content.pay_priority) else {
        return Ok(ExchangeOutcome::InsufficientBalance);
    };
    let seq = wallet.entry_count + 1;
    if !insert_record(connection, app_id, exchange, seq).await? {
        // Another transaction has just used the number for another wallet: look again.
        return Err(StoreError::Again);
    }
    let reference = exchange.biz_no.as_str();
    let entry = Entry { app_id, open_id: &content.open_id, seq, kind: EXCHANGE, reference, change };
    write_entry(connection, &entry).await?;
    Ok(ExchangeOutcome::Done(Receipt {
        biz_no: exchange.biz_no.to_string(),
        free_balance: change.after.free(),
        charge_balance: change.after.charge(),
    }))
}

/// What an earlier exchange under the same number decides about this one.
async fn earlier_exchange(
    connection: &mut PgConnection,
    app_id: &AppId,
    exchange: &Exchange,
) -> Result<Option<ExchangeOutcome>, StoreError> {
    let earlier = sqlx::query!(
        r#"SELECT x.open_id, x.zone_id, x.amount, x.pay_priority, x.product_name, x.product_info, x.product_desc,
                  x.extension, e.free_balance, e.charge_balance,
                  clock_timestamp() >= x.created_at + make_interval(hours => $3) AS "expired!"
           FROM exchanges x JOIN ledger_entries e USING (app_id, open_id, seq)
           WHERE x.app_id = $1 AND x.biz_no = $2"#,
        app_id.as_str(),
        exchange.biz_no.as_str(),
        REPLAY_HOURS
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = earlier else { return Ok(None) };
    if row.expired {
        return Ok(Some(ExchangeOutcome::BizNoExpired));
    }
    let BusinessContent {
        open_id,
        zone_id,
        amount,
        pay_priority,
        product_name,
        product_info,
        product_desc,
        extension,
    } = &exchange.content;
    let same = row.open_id == open_id.as_str()
        && row.zone_id == zone_id.as_str()
        && row.amount == amount.get()
        && row.pay_priority == pay_priority.code()
        && row.product_name == product_name.as_str()
        && row.product_info == product_info.as_str()
        && row.product_desc == product_desc.as_str()
        && row.extension == *extension;
    if !same {
        return Ok(Some(ExchangeOutcome::BizNoConflict));
    }
    Ok(Some(ExchangeOutcome::Replayed(Receipt {
        biz_no: exchange.biz_no.to_string(),
        free_balance: row.free_balance,
        charge_balance: row.charge_balance,
    })))
}

/// Records the number; `false` when another transaction has recorded it meanwhile.
async fn insert_record(
    connection: &mut PgConnection,
    app_id: &AppId,
    exchange: &Exchange,
    seq: i64,
) -> Result<bool, StoreError> {
    let content = &exchange.content;
    let inserted = sqlx::query!(
        "INSERT INTO exchanges (app_id, biz_no, open_id, seq, amount, pay_priority, zone_id, os, ts, user_ip,
                product_name, product_info, product_desc, extension)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING",
        app_id.as_str(),
        exchange.biz_no.as_str(),
        content.open_id.as_str(),
        seq,
        content.amount.get(),
        content.pay_priority.code(),
        content.zone_id.as_str(),
        exchange.os.as_str(),
        exchange.ts.unix_millis(),
        exchange.user_ip.as_str(),
        content.product_name.as_str(),
        content.product_info.as_str(),
        content.product_desc.as_str(),
        content.extension
    )
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() == 1)
}
