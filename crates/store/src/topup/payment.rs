//! Payments: each is credited once, or kept because it fits nothing (contract 19.3).
//!
//! The row of a payment, its ledger entry, the purses and the event are one transaction. The key of the row and the key of
//! the entry are both the pair of the provider, so of two transactions about one payment one is repeated, and finds the row.

use domain::ids::{AppId, OpenId};
use domain::operation::topup::payment_differs;
use domain::operator::Operator;
use domain::topup::{
    CoinPair, Coins, Counterpart, Currency, Payment, PaymentKey, PaymentTarget, PricedProductId,
    UnmatchedReason,
};
use domain::wallet::{Change, Refused, WalletOutcome, WalletRequest};
use serde::Serialize;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::debt::settle_debt;
use super::prices::price_of;
use super::refund::{CreditedTopup, carry_out_waiting};
use super::{number_of, placed_order};
use crate::engine::Engine;
use crate::error::{OperationError, Result, StoreError};
use crate::event::tell_of_unmatched;
use crate::store::Store;
use crate::wallet_writer::{change, plan_by_keys};

/// What became of a payment. A repeat is told the same, whatever happened since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Topup")]
pub struct PaymentReport {
    /// `paid`: it was credited. `unmatched`: it was kept, and nothing was credited.
    #[schemars(extend("enum" = ["paid", "unmatched"]))]
    pub state: &'static str,
    /// Why it fits nothing. `null` for one that was credited.
    #[schemars(with = "Option<UnmatchedReason>")]
    pub reason: Option<String>,
    /// The order that it has paid, or that it names.
    #[schemars(with = "Option<domain::ids::BizNo>")]
    pub biz_no: Option<String>,
    /// The player who was credited, or whom it names.
    #[schemars(with = "Option<OpenId>")]
    pub open_id: Option<String>,
    /// Charged coins that were credited.
    pub charge: Option<i64>,
    /// Gifted coins that were credited.
    pub bonus: Option<i64>,
    /// Gifted currency right after it.
    pub free_balance: Option<i64>,
    /// Charged currency right after it.
    pub charge_balance: Option<i64>,
    /// Whether it was told of before.
    pub replayed: bool,
}

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

/// Why the ledger did not take a payment.
pub(super) enum NotCredited {
    /// A purse would hold more than 64 bits.
    PurseFull,
    /// The app knows the player no more.
    UnknownPlayer,
}

impl Store {
    /// Credits a payment once for its pair, for ever, or keeps it as unmatched.
    ///
    /// # Errors
    /// There is no such app, the pair was told of with other content, or the database is away. After the last the payment may
    /// have been taken; a repeat is told what became of it.
    pub async fn take_payment(
        &self,
        teller: &Operator,
        app_id: &AppId,
        payment: Payment,
    ) -> Result<PaymentReport, OperationError> {
        let engine = self.engine.get();
        let context = (teller.clone(), app_id.clone(), payment);
        let report = self.transaction(context, move |connection, (teller, app_id, payment)| {
            Box::pin(write_payment(connection, engine, teller, app_id, payment))
        });
        let report = report.await?;
        self.events.notify_one();
        Ok(report)
    }
}

async fn write_payment(
    connection: &mut PgConnection,
    engine: Engine,
    teller: &Operator,
    app_id: &AppId,
    payment: &Payment,
) -> Result<PaymentReport, OperationError> {
    plan_by_keys(connection, engine).await?;
    let app_no = number_of(connection, app_id).await?;
    if let Some(first) = first_told(connection, app_no, &payment.key).await? {
        return first.repeated(payment);
    }
    let with = counterpart(connection, app_no, &payment.target).await?;
    let credited = match payment.matched(&with) {
        Ok(coins) => match credit(connection, engine, app_no, &payment.key, &coins).await? {
            Ok(mut credited) => {
                let of_credit = (&coins, &mut credited);
                settle_debt_with(connection, engine, (app_id, app_no), &payment.key, of_credit).await?;
                Ok((coins, credited))
            }
            Err(NotCredited::PurseFull) => Err(UnmatchedReason::PurseFull),
            Err(NotCredited::UnknownPlayer) => Err(UnmatchedReason::UnknownPlayer),
        },
        Err(reason) => Err(reason),
    };
    insert(connection, app_no, teller, payment, credited.as_ref().map_err(|reason| *reason)).await?;
    match &credited {
        Err(_) => tell_of_unmatched(connection, app_id.as_str(), payment.key.as_text()).await?,
        // Refunds that came first are looked up behind the row: until then one may still be written.
        Ok((coins, entry)) => {
            let credited = CreditedTopup::new(payment.amount, coins, entry);
            carry_out_waiting(connection, engine, (app_id, app_no), &payment.key, &credited).await?;
        }
    }
    let first = first_told(connection, app_no, &payment.key).await?;
    let first = first.ok_or_else(|| StoreError::Internal("a payment without its row".to_owned()))?;
    Ok(first.report(false))
}

/// What a payment is compared with.
async fn counterpart(
    connection: &mut PgConnection,
    app_no: i32,
    target: &PaymentTarget,
) -> Result<Counterpart> {
    match target {
        PaymentTarget::Order { biz_no, .. } => {
            Ok(Counterpart::Order(placed_order(connection, app_no, biz_no).await?))
        }
        PaymentTarget::Product { open_id, product_id } => Ok(Counterpart::Price {
            is_known: is_known(connection, app_no, open_id).await?,
            price: price_of(connection, app_no, product_id).await?,
        }),
    }
}

pub(super) async fn is_known(connection: &mut PgConnection, app_no: i32, open_id: &OpenId) -> Result<bool> {
    let known = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM wallets WHERE app_no = $1 AND open_id = $2) AS "known!""#,
        app_no,
        open_id.as_str()
    );
    Ok(known.fetch_one(connection).await?)
}

/// Credits a payment: the same decision and the same statements as for every change of a wallet.
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
    let reference = key.reference();
    let credited = Change::Topup { bonus: coins.bonus, charge: coins.charge };
    let request = WalletRequest::of_payment(coins.open_id.clone(), reference.clone(), credited);
    let mut changed = change(connection, engine, app_no, std::slice::from_ref(&request)).await?;
    let (receipt, before) = match changed.outcomes.pop() {
        Some((WalletOutcome::Done(receipt), Some(before))) => (receipt, before),
        // It was credited between the look at its row and the lock of its wallet.
        Some((WalletOutcome::Replayed(_) | WalletOutcome::Refused(Refused::Conflict, _), _)) => {
            return Err(StoreError::Again);
        }
        Some((WalletOutcome::Refused(Refused::PurseFull, _), _)) => return Ok(Err(NotCredited::PurseFull)),
        Some((WalletOutcome::Refused(Refused::UnknownWallet, _), _)) => {
            return Ok(Err(NotCredited::UnknownPlayer));
        }
        other => return Err(StoreError::Internal(format!("a payment with the outcome {other:?}"))),
    };
    let (wallet_no, seq) = entry_of(connection, app_no, &reference).await?;
    Ok(Ok(CreditedPayment {
        wallet_no,
        seq,
        free: (before.free(), receipt.balances.free()),
        charge: (before.charge(), receipt.balances.charge()),
        at: changed.at,
    }))
}

/// Wallet and number of the ledger entry of this reference.
pub(super) async fn entry_of(
    connection: &mut PgConnection,
    app_no: i32,
    reference: &str,
) -> Result<(i64, i64)> {
    let entry = sqlx::query!(
        r#"SELECT wallet_no, seq AS "seq!" FROM ledger_entries WHERE app_no = $1 AND reference = $2"#,
        app_no,
        reference
    );
    let entry = entry.fetch_one(connection).await?;
    Ok((entry.wallet_no, entry.seq))
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

/// Who told of something, as its row names them.
pub(super) fn teller_name(teller: &Operator) -> String {
    format!("{} {}", teller.kind().as_str(), teller.name())
}

/// Writes the row of a payment.
///
/// # Errors
/// `Again` when another transaction has written it, or has paid the same order.
async fn insert(
    connection: &mut PgConnection,
    app_no: i32,
    teller: &Operator,
    payment: &Payment,
    credited: Result<&(Coins, CreditedPayment), UnmatchedReason>,
) -> Result<()> {
    let Payment { key, currency, amount, target, paid_at, os, fee, note } = payment;
    let paid = credited.ok();
    let coins = paid.map(|(coins, _)| coins);
    let entry = paid.map(|(_, credited)| credited);
    let (state, reason) = match credited {
        Ok(_) => ("paid", None),
        Err(reason) => ("unmatched", Some(reason.as_str())),
    };
    let inserted = sqlx::query!(
        "INSERT INTO topup_payments (app_no, provider, provider_order_id, currency, amount, biz_no, open_id, product_id,
             paid_at, os, fee, note, told_by, created_at, state, reason, wallet_no, seq, charge, bonus, free_balance,
             charge_balance, credited_at, paid_biz_no, paid_product_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, coalesce($22, clock_timestamp()), $14, $15, $16, $17,
             $18, $19, $20, $21, $22, $23, $24)",
        app_no,
        key.provider.as_str(),
        key.provider_order_id.as_str(),
        currency.as_str(),
        amount,
        target.biz_no().map(domain::ids::BizNo::as_str),
        target.open_id().map(OpenId::as_str),
        target.product_id().map(PricedProductId::as_str),
        paid_at,
        os.as_ref().map(domain::ids::Os::as_str),
        *fee,
        note,
        teller_name(teller),
        state,
        reason,
        entry.map(|entry| entry.wallet_no),
        entry.map(|entry| entry.seq),
        coins.map(|coins| coins.charge),
        coins.map(|coins| coins.bonus),
        entry.map(|entry| entry.free.1),
        entry.map(|entry| entry.charge.1),
        entry.map(|entry| entry.at),
        coins.and_then(|coins| coins.biz_no.as_ref()).map(domain::ids::BizNo::as_str),
        coins.map(|coins| coins.product_id.as_str())
    );
    inserted.execute(connection).await.map(drop).map_err(again_if_taken)
}

/// A key that exists: another transaction has just written this payment, or paid its order.
pub(super) fn again_if_taken(error: sqlx::Error) -> StoreError {
    let is_taken = error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation);
    if is_taken { StoreError::Again } else { error.into() }
}

/// A payment as it was first told of.
pub(super) struct FirstTold {
    pub(super) currency: String,
    pub(super) amount: i64,
    pub(super) biz_no: Option<String>,
    pub(super) open_id: Option<String>,
    pub(super) product_id: Option<String>,
    pub(super) state: String,
    reason: Option<String>,
    charge: Option<i64>,
    bonus: Option<i64>,
    free_balance: Option<i64>,
    charge_balance: Option<i64>,
    paid_biz_no: Option<String>,
    credited_to: Option<String>,
}

pub(super) async fn first_told(
    connection: &mut PgConnection,
    app_no: i32,
    key: &PaymentKey,
) -> Result<Option<FirstTold>> {
    let row = sqlx::query_as!(
        FirstTold,
        r#"SELECT p.currency, p.amount, p.biz_no, p.open_id, p.product_id, p.state, p.reason, p.charge, p.bonus,
               p.free_balance, p.charge_balance, p.paid_biz_no, w.open_id AS "credited_to?"
           FROM topup_payments p LEFT JOIN wallets w ON w.app_no = p.app_no AND w.wallet_no = p.wallet_no
           WHERE p.app_no = $1 AND p.provider = $2 AND p.provider_order_id = $3"#,
        app_no,
        key.provider.as_str(),
        key.provider_order_id.as_str()
    );
    Ok(row.fetch_optional(connection).await?)
}

impl FirstTold {
    /// The answer to a repeat: that of the first time, for the same content.
    fn repeated(self, payment: &Payment) -> Result<PaymentReport, OperationError> {
        let is_same = Currency::parse(&self.currency) == Ok(payment.currency)
            && self.amount == payment.amount
            && self.target()?.is_same(&payment.target);
        if is_same { Ok(self.report(true)) } else { Err(payment_differs(payment.key.as_text()).into()) }
    }

    fn target(&self) -> Result<PaymentTarget> {
        fn parsed<T>(
            text: Option<&String>,
            parse: fn(&str) -> Result<T, domain::fields::Expected>,
        ) -> Result<Option<T>> {
            let parsed = text.map(|text| parse(text)).transpose();
            parsed.map_err(|_| StoreError::damaged("topup_payments"))
        }
        let target = PaymentTarget::of(
            parsed(self.biz_no.as_ref(), domain::ids::BizNo::parse)?,
            parsed(self.open_id.as_ref(), OpenId::parse)?,
            parsed(self.product_id.as_ref(), PricedProductId::parse)?,
        );
        target.ok_or_else(|| StoreError::damaged("topup_payments"))
    }

    /// What was answered first. A payment that was settled later was unmatched then.
    fn report(self, replayed: bool) -> PaymentReport {
        if self.reason.is_some() {
            return PaymentReport {
                state: "unmatched",
                reason: self.reason,
                biz_no: self.biz_no,
                open_id: self.open_id,
                charge: None,
                bonus: None,
                free_balance: None,
                charge_balance: None,
                replayed,
            };
        }
        PaymentReport {
            state: "paid",
            reason: None,
            biz_no: self.paid_biz_no,
            open_id: self.credited_to,
            charge: self.charge,
            bonus: self.bonus,
            free_balance: self.free_balance,
            charge_balance: self.charge_balance,
            replayed,
        }
    }
}
