//! Refunds that came before their payment was credited: they wait for it, and end in its transaction (contract 19.5).

use std::collections::BTreeSet;

use domain::ids::AppId;
use domain::topup::{PaymentKey, RefundId, RefundKey, RefundState, Shortfall};
use domain::wallet::Balances;
use sqlx::PgConnection;

use super::payment_rows::{key_columns, key_of, reporter_of};
use super::refund::{
    CreditedTopup, RefundToWrite, Taken, done, exceeded_rest, keep_refused, log, take, write,
};
use crate::engine::Engine;
use crate::error::{Result, StoreError};

/// A refund that came before its payment was credited.
struct WaitedRefund {
    key: RefundKey,
    amount: i64,
    reason: String,
    told_by: String,
}

impl WaitedRefund {
    fn row(&self) -> RefundToWrite<'_> {
        let Self { key, amount, reason, told_by } = self;
        RefundToWrite { key, amount: *amount, reason, told_by }
    }
}

/// A refund that waited and has ended, for its line in the operator's log.
pub(super) struct EndedRefund {
    waited: WaitedRefund,
    /// `None` where nothing was taken.
    taken: Option<Taken>,
}

/// Records in the operator's log what became of refunds that waited, each by its reporter. It is the last step of a
/// transaction: it locks the head of the log, behind which nothing else is locked.
pub(super) async fn log_ended(
    connection: &mut PgConnection,
    (app_id, app_no): (&AppId, i32),
    ended: &[EndedRefund],
) -> Result<()> {
    for EndedRefund { waited, taken } in ended {
        let reporter = reporter_of(&waited.told_by).ok_or_else(|| StoreError::damaged("topup_refunds"))?;
        let done = done(connection, app_no, &waited.key).await?;
        let line = (&waited.key, waited.reason.as_str());
        log(connection, (&reporter, (app_id, app_no)), line, &done, taken.as_ref()).await?;
    }
    Ok(())
}

/// Ends the refunds that came before the end of their payment of `paid`, in the order in which they came. Those that would
/// exceed it are refused. Of a payment that was credited, the others take what they owe; its wallet is locked by the credit.
/// Of one whose money an operator has paid back, they take nothing. Whoever calls it records what has ended in the operator's
/// log, as its last step ([`log_ended`]).
pub(super) async fn end_waiting(
    connection: &mut PgConnection,
    engine: Engine,
    (app_id, app_no): (&AppId, i32),
    (key, paid): (&PaymentKey, i64),
    credited: Option<&CreditedTopup>,
) -> Result<Vec<EndedRefund>> {
    let mut before = 0_i64;
    let mut ended = Vec::new();
    for waited in waiting(connection, app_no, key).await? {
        let amount = waited.amount;
        if exceeded_rest(paid, before, amount).is_some() {
            keep_refused(connection, (app_id, app_no), &waited.row()).await?;
            ended.push(EndedRefund { waited, taken: None });
            continue;
        }
        let mut taken = None;
        if let Some(payment) = credited {
            let asked = (&waited.key, amount, before, Shortfall::Record);
            let recorded = take(connection, engine, (app_id, app_no), payment, asked).await?;
            let recorded =
                recorded.map_err(|_| StoreError::Internal("a recorded shortfall was refused".to_owned()))?;
            taken = Some((payment.wallet_no, recorded));
        }
        let of_wallet = taken.as_ref().map(|(wallet_no, taken)| (*wallet_no, taken));
        write(connection, app_no, (&waited.row(), RefundState::Refunded), of_wallet).await?;
        ended.push(EndedRefund { waited, taken: taken.map(|(_, taken)| taken) });
        before += amount;
    }
    Ok(ended)
}

/// The purses after the last of these refunds that took something. `None` where none did.
pub(super) fn purses_after(ended: &[EndedRefund]) -> Option<Balances> {
    ended.iter().rev().find_map(|one| one.taken.as_ref()).map(|taken| taken.after)
}

/// Those of these payments that refunds wait for. It may have others of their providers, too.
pub(super) async fn with_waiting(
    connection: &mut PgConnection,
    app_no: i32,
    payments: &[&PaymentKey],
) -> Result<BTreeSet<PaymentKey>> {
    let (providers, ids) = key_columns(payments);
    let rows = sqlx::query!(
        "SELECT DISTINCT provider, provider_order_id FROM topup_refunds
         WHERE app_no = $1 AND provider = ANY ($2) AND provider_order_id = ANY ($3) AND state = 'waiting'",
        app_no,
        &providers,
        &ids
    );
    let rows = rows.fetch_all(connection).await?;
    rows.iter().map(|row| key_of(&row.provider, &row.provider_order_id)).collect()
}

/// The refunds of a payment that wait for it, oldest first.
async fn waiting(
    connection: &mut PgConnection,
    app_no: i32,
    payment: &PaymentKey,
) -> Result<Vec<WaitedRefund>> {
    let rows = sqlx::query!(
        "SELECT refund_id, amount, reason, told_by FROM topup_refunds
         WHERE app_no = $1 AND provider = $2 AND provider_order_id = $3 AND state = 'waiting' ORDER BY created_at, refund_id",
        app_no,
        payment.provider.as_str(),
        payment.provider_order_id.as_str()
    );
    let rows = rows.fetch_all(connection).await?.into_iter().map(|row| {
        let refund_id = RefundId::stored(&row.refund_id).map_err(|_| StoreError::damaged("topup_refunds"))?;
        let key = RefundKey { payment: payment.clone(), refund_id };
        Ok(WaitedRefund { key, amount: row.amount, reason: row.reason, told_by: row.told_by })
    });
    rows.collect()
}
