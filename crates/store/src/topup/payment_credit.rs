//! The credits of payments: the same decision and the same statements as for every change of a wallet.

use std::collections::HashSet;

use domain::ids::AppId;
use domain::topup::{CoinPair, Coins, PaymentKey, UnmatchedReason};
use domain::wallet::{Change, Refused, WalletOutcome, WalletRequest};
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::debt::{in_debt, settle_debt};
use crate::engine::Engine;
use crate::error::{Result, StoreError};
use crate::payment_queue::ToldPayment;
use crate::wallet_writer::{ChangeOutcome, Changed, MadeEntry, change, change_unheld};

/// What a payment was credited as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CreditedPayment {
    pub(super) wallet_no: i64,
    pub(super) seq: i64,
    /// Gifted currency before it and after it.
    pub(super) free: (i64, i64),
    /// Charged currency before it and after it.
    pub(super) charge: (i64, i64),
    pub(super) at: OffsetDateTime,
}

/// A payment with its place, and what became of it.
pub(super) type DecidedPayment<'a> =
    (usize, &'a ToldPayment, Result<(Coins, CreditedPayment), UnmatchedReason>);

/// Why the ledger did not take a payment.
pub(super) enum NotCredited {
    /// A purse would hold more than 64 bits.
    PurseFull,
    /// The app knows the player no more.
    UnknownPlayer,
}

impl From<NotCredited> for UnmatchedReason {
    fn from(not_credited: NotCredited) -> Self {
        match not_credited {
            NotCredited::PurseFull => Self::PurseFull,
            NotCredited::UnknownPlayer => Self::UnknownPlayer,
        }
    }
}

/// The outcome of the credit of a payment.
pub(super) enum PaymentCredit {
    /// It was made.
    Made(CreditedPayment),
    /// The ledger did not take it.
    Refused(NotCredited),
    /// Another transaction holds the wallet, or has just credited the payment. Nothing was changed.
    Elsewhere,
}

/// Credits a payment, and waits for the lock of its wallet.
///
/// # Errors
/// `Again` when another transaction has credited it.
pub(super) async fn credit(
    connection: &mut PgConnection,
    engine: Engine,
    app_no: i32,
    key: &PaymentKey,
    coins: &Coins,
) -> Result<Result<CreditedPayment, NotCredited>> {
    let mut changed = change(connection, engine, app_no, &[request(key, coins)]).await?;
    let outcome = changed.outcomes.pop();
    let outcome = outcome.ok_or_else(|| StoreError::Internal("a credit without an outcome".to_owned()))?;
    match credited(outcome, changed.at)? {
        PaymentCredit::Made(payment) => Ok(Ok(payment)),
        PaymentCredit::Refused(why) => Ok(Err(why)),
        PaymentCredit::Elsewhere => Err(StoreError::Again),
    }
}

/// Credits payments of different players, without waiting for a lock.
pub(super) async fn credit_all(
    connection: &mut PgConnection,
    engine: Engine,
    app_no: i32,
    payments: &[(&PaymentKey, &Coins)],
) -> Result<Vec<PaymentCredit>> {
    if payments.is_empty() {
        return Ok(Vec::new());
    }
    let requests: Vec<_> = payments.iter().map(|(key, coins)| request(key, coins)).collect();
    credits(change_unheld(connection, engine, app_no, &requests).await?)
}

/// What the ledger says of credits.
pub(super) fn credits(changed: Changed<Option<ChangeOutcome>>) -> Result<Vec<PaymentCredit>> {
    let said = |outcome: Option<ChangeOutcome>| match outcome {
        Some(outcome) => credited(outcome, changed.at),
        None => Ok(PaymentCredit::Elsewhere),
    };
    changed.outcomes.into_iter().map(said).collect()
}

/// The change that credits a payment.
pub(super) fn request(key: &PaymentKey, coins: &Coins) -> WalletRequest {
    let credited = Change::Topup { bonus: coins.bonus, charge: coins.charge };
    WalletRequest::of_payment(coins.open_id.clone(), key.reference(), credited)
}

/// What the ledger says of a credit. A payment can have been credited between the look at its row and the lock of its wallet.
fn credited(outcome: ChangeOutcome, at: OffsetDateTime) -> Result<PaymentCredit> {
    match outcome {
        (WalletOutcome::Done(receipt), Some(MadeEntry { before, wallet_no, seq })) => {
            Ok(PaymentCredit::Made(CreditedPayment {
                wallet_no: wallet_no.0,
                seq,
                free: (before.free(), receipt.balances.free()),
                charge: (before.charge(), receipt.balances.charge()),
                at,
            }))
        }
        (WalletOutcome::Replayed(_) | WalletOutcome::Refused(Refused::Conflict, _), _) => {
            Ok(PaymentCredit::Elsewhere)
        }
        (WalletOutcome::Refused(Refused::PurseFull, _), _) => {
            Ok(PaymentCredit::Refused(NotCredited::PurseFull))
        }
        (WalletOutcome::Refused(Refused::UnknownWallet, _), _) => {
            Ok(PaymentCredit::Refused(NotCredited::UnknownPlayer))
        }
        other => Err(StoreError::Internal(format!("a payment with the outcome {other:?}"))),
    }
}

/// Settles the debts of wallets with what payments have just brought them. The payments then have the purses after it.
pub(super) async fn settle_debts(
    connection: &mut PgConnection,
    engine: Engine,
    (app_id, app_no): (&AppId, i32),
    payments: &mut [DecidedPayment<'_>],
) -> Result<()> {
    let wallets = payments.iter().filter_map(|(_, _, credited)| Some(credited.as_ref().ok()?.1.wallet_no));
    let in_debt: HashSet<i64> = in_debt(connection, app_no, &wallets.collect::<Vec<_>>()).await?;
    for (_, one, credited) in payments {
        let Ok((coins, credited)) = credited else { continue };
        if in_debt.contains(&credited.wallet_no) {
            settle_debt_with(connection, engine, (app_id, app_no), &one.payment.key, (coins, credited))
                .await?;
        }
    }
    Ok(())
}

/// Settles debt with what a payment has just brought. `credited` then has the purses after it.
pub(super) async fn settle_debt_with(
    connection: &mut PgConnection,
    engine: Engine,
    app: (&AppId, i32),
    key: &PaymentKey,
    (coins, credited): (&Coins, &mut CreditedPayment),
) -> Result<()> {
    let brought = CoinPair { free: coins.bonus, charge: coins.charge };
    let wallet = (credited.wallet_no, &coins.open_id, brought);
    if let Some(balances) = settle_debt(connection, engine, app, key, wallet).await? {
        (credited.free.1, credited.charge.1) = (balances.free(), balances.charge());
    }
    Ok(())
}
