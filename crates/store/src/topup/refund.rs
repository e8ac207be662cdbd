//! Refunds of payments: each takes back once what the player owes for it, and records as debt what is spent (contract 19.5).
//!
//! The row of a refund, its ledger entry, the purses, the debt and the events are one transaction. The refunds of a
//! payment that was credited wait for each other at its wallet. Those of one that was not wait at the row of the
//! payment. Where there is none yet, a refund writes one and removes it at once: the primary key makes the payment
//! itself wait for its end.

use domain::ids::{AppId, OpenId};
use domain::operation::topup::{coins_are_spent, refund_differs, refund_exceeds};
use domain::operation::wallet::needs_command_line;
use domain::operator::Operator;
use domain::topup::{
    CoinPair, Coins, Excess, NewRefund, PaymentKey, PaymentState, RefundAmount, RefundKey, RefundState,
    Refundable, Shortfall,
};
use domain::wallet::{Balances, Change, Refused, WalletOutcome, WalletRequest};
use serde::Serialize;
use serde_json::json;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::debt::debt_of;
use super::payment_credit::CreditedPayment;
use super::payment_rows::{reporter_name, stored_payment_state};
use crate::alone_limit::require_within;
use crate::app_number::number_of;
use crate::engine::Engine;
use crate::error::{OperationError, Result, StoreError};
use crate::event::{tell_of_debt, tell_of_refused_refund};
use crate::operator_log::{LogLine, OperatorAction};
use crate::store::Store;
use crate::wallet_writer::{MadeEntry, change, plan_by_keys};

/// What became of a refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "TopupRefund")]
pub struct RefundReport {
    /// `refunded`: it was carried out. `waiting`: its payment is not credited yet. `refused`: it waited, and did not fit the
    /// payment. `unchanged`: the refunds have this sum already.
    pub state: RefundState,
    /// The money of this refund, in minor units.
    pub amount: i64,
    /// The player. `null` where nothing was taken.
    #[schemars(with = "Option<OpenId>")]
    pub open_id: Option<String>,
    /// Gifted coins that were taken from the purse.
    pub free_taken: Option<i64>,
    /// Charged coins that were taken from the purse.
    pub charge_taken: Option<i64>,
    /// Gifted coins that were spent, and became debt.
    pub free_debt: Option<i64>,
    /// Charged coins that were spent, and became debt.
    pub charge_debt: Option<i64>,
    /// Gifted currency right after it.
    pub free_balance: Option<i64>,
    /// Charged currency right after it.
    pub charge_balance: Option<i64>,
    /// Whether it was told of before.
    pub replayed: bool,
}

/// A payment that was credited, as a refund finds it.
pub(super) struct CreditedTopup {
    pub(super) wallet_no: i64,
    pub(super) open_id: OpenId,
    pub(super) refundable: Refundable,
}

impl CreditedTopup {
    /// A payment of this money that was credited just now.
    pub(super) fn new(amount: i64, coins: &Coins, entry: &CreditedPayment) -> Self {
        let open_id = coins.open_id.clone();
        let coins = CoinPair { free: coins.bonus, charge: coins.charge };
        Self { wallet_no: entry.wallet_no, open_id, refundable: Refundable { amount, coins } }
    }
}

/// What a refund finds.
enum FoundPayment {
    /// The payment was credited. Its wallet is locked.
    Credited(CreditedTopup),
    /// Nothing was credited. The row of the payment is locked.
    NotCredited { amount: i64, is_paid_back: bool },
    /// Nobody has reported the payment. Its key is locked.
    Nothing,
}

/// What a refund has done to the wallet.
pub(super) struct Taken {
    seq: i64,
    owed: CoinPair,
    before: Balances,
    pub(super) after: Balances,
    /// All debt of the wallet right after it.
    wallet_debt: CoinPair,
    at: OffsetDateTime,
}

/// A refund as a row has it, whatever becomes of it.
pub(super) struct RefundToWrite<'a> {
    pub(super) key: &'a RefundKey,
    pub(super) amount: i64,
    pub(super) reason: &'a str,
    pub(super) told_by: &'a str,
}

impl Store {
    /// Refunds a payment, or a part of it, once for its key, for ever.
    ///
    /// # Errors
    /// There is no such app, the key was reported with another amount, or the refunds would exceed the payment. The
    /// coins are spent and must not become debt, it needs a second person, or the database is away. After the last it
    /// may have been carried out; a repeat is told what became of it.
    pub async fn refund_payment(
        &self,
        reporter: &Operator,
        app_id: &AppId,
        refund: NewRefund,
    ) -> Result<RefundReport, OperationError> {
        let engine = self.engine.get();
        let context = (reporter.clone(), app_id.clone(), refund);
        let report = self.transaction(context, move |connection, (reporter, app_id, refund)| {
            Box::pin(write_refund(connection, engine, (reporter, app_id), refund))
        });
        let report = report.await?;
        self.events.notify_one();
        Ok(report)
    }
}

async fn write_refund(
    connection: &mut PgConnection,
    engine: Engine,
    (reporter, app_id): (&Operator, &AppId),
    refund: &NewRefund,
) -> Result<RefundReport, OperationError> {
    plan_by_keys(connection, engine).await?;
    let app_no = number_of(&mut *connection, app_id).await?;
    let NewRefund { key, reason, shortfall, .. } = refund;
    if let Some(first) = report(connection, app_no, key, true).await? {
        return repeated(first, refund);
    }
    let found = find_and_lock(connection, app_no, &key.payment).await?;
    // Another transaction may have written it before the lock.
    if let Some(first) = report(connection, app_no, key, true).await? {
        return repeated(first, refund);
    }
    let before = refunded(connection, app_no, &key.payment).await?;
    let amount = match refund.amount {
        RefundAmount::Of(amount) => amount,
        RefundAmount::SumOf(sum) if sum <= before => return Ok(unchanged()),
        RefundAmount::SumOf(sum) => sum - before,
    };
    let told_by = reporter_name(reporter);
    let row = RefundToWrite { key, amount, reason: reason.as_str(), told_by: &told_by };
    let limit = match &found {
        FoundPayment::Credited(payment) => Some(payment.refundable.amount),
        FoundPayment::NotCredited { amount, .. } => Some(*amount),
        FoundPayment::Nothing => None,
    };
    if let Some(rest) = limit.and_then(|limit| exceeded_rest(limit, before, amount)) {
        if refund.excess == Excess::Refuse {
            return Err(refund_exceeds(key.payment.as_text(), rest).into());
        }
        keep_refused(connection, (app_id, app_no), &row).await?;
        let done = done(connection, app_no, key).await?;
        log(connection, (reporter, (app_id, app_no)), (key, reason.as_str()), &done, None).await?;
        return Ok(done);
    }
    let taken = match &found {
        FoundPayment::Credited(payment) => {
            let asked = (key, amount, before, *shortfall);
            let taken = take(connection, engine, (app_id, app_no), payment, asked).await?;
            let taken = taken.map_err(|(owed, held)| {
                coins_are_spent(owed.charge, owed.free, held.charge(), held.free())
            })?;
            write(connection, app_no, (&row, RefundState::Refunded), Some((payment.wallet_no, &taken)))
                .await?;
            Some(taken)
        }
        FoundPayment::NotCredited { is_paid_back: true, .. } => {
            write(connection, app_no, (&row, RefundState::Refunded), None).await?;
            None
        }
        FoundPayment::NotCredited { is_paid_back: false, .. } | FoundPayment::Nothing => {
            write(connection, app_no, (&row, RefundState::Waiting), None).await?;
            None
        }
    };
    let done = done(connection, app_no, key).await?;
    log(connection, (reporter, (app_id, app_no)), (key, reason.as_str()), &done, taken.as_ref()).await?;
    require_within(connection, reporter, needs_command_line).await?;
    Ok(done)
}

/// The rest of a payment of `paid` after refunds of `before`, where a refund of `amount` is too large for it.
pub(super) fn exceeded_rest(paid: i64, before: i64, amount: i64) -> Option<i64> {
    let rest = paid.saturating_sub(before);
    (amount > rest).then_some(rest)
}

/// Keeps a refund that is too large for its payment as refused, and tells of it.
pub(super) async fn keep_refused(
    connection: &mut PgConnection,
    (app_id, app_no): (&AppId, i32),
    row: &RefundToWrite<'_>,
) -> Result<()> {
    write(connection, app_no, (row, RefundState::Refused), None).await?;
    tell_of_refused_refund(connection, app_id.as_str(), row.key.as_text()).await
}

/// The report of a refund that was written just now.
pub(super) async fn done(
    connection: &mut PgConnection,
    app_no: i32,
    key: &RefundKey,
) -> Result<RefundReport> {
    let done = report(connection, app_no, key, false).await?;
    done.ok_or_else(|| StoreError::Internal("a refund without its row".to_owned()))
}

/// Records a refund in the operator's log.
pub(super) async fn log(
    connection: &mut PgConnection,
    (reporter, (app_id, app_no)): (&Operator, (&AppId, i32)),
    (key, reason): (&RefundKey, &str),
    done: &RefundReport,
    taken: Option<&Taken>,
) -> Result<()> {
    let text = key.as_text();
    let mut after =
        json!({ "state": done.state, "amount": done.amount, "ref": text, "open_id": done.open_id });
    // Without its currency, nobody can read the amount as money.
    if let Some(currency) = currency_of(connection, app_no, &key.payment).await? {
        after["currency"] = currency.into();
    }
    let mut line = LogLine::new(reporter, OperatorAction::TopupRefund, &text).of_app(app_id);
    if let Some(Taken { owed, before, after: purses, .. }) = taken {
        // The limit of one person counts what becomes debt, too.
        (after["free"], after["charge"]) = (owed.free.into(), owed.charge.into());
        (after["free_balance"], after["charge_balance"]) = (purses.free().into(), purses.charge().into());
        (after["free_debt"], after["charge_debt"]) = (json!(done.free_debt), json!(done.charge_debt));
        line = line.before(json!({ "free_balance": before.free(), "charge_balance": before.charge() }));
    }
    line.after(after).note(reason).answer(done).record(connection).await
}

/// The currency of a payment. `None` for one that nobody has reported.
async fn currency_of(
    connection: &mut PgConnection,
    app_no: i32,
    payment: &PaymentKey,
) -> Result<Option<String>> {
    let currency = sqlx::query_scalar!(
        "SELECT currency FROM topup_payments WHERE app_no = $1 AND provider = $2 AND provider_order_id = $3",
        app_no,
        payment.provider.as_str(),
        payment.provider_order_id.as_str()
    );
    Ok(currency.fetch_optional(connection).await?)
}

/// Finds the payment of a refund, and locks what its other refunds lock.
///
/// # Errors
/// `Again` when another transaction changes the payment meanwhile.
async fn find_and_lock(connection: &mut PgConnection, app_no: i32, key: &PaymentKey) -> Result<FoundPayment> {
    let (provider, id) = (key.provider.as_str(), key.provider_order_id.as_str());
    let payment = sqlx::query!(
        "SELECT wallet_no, amount, charge, bonus FROM topup_payments
         WHERE app_no = $1 AND provider = $2 AND provider_order_id = $3",
        app_no,
        provider,
        id
    );
    let Some(payment) = payment.fetch_optional(&mut *connection).await? else {
        return hold_key(connection, app_no, key).await;
    };
    // What was credited never changes.
    if let (Some(wallet_no), Some(charge), Some(free)) = (payment.wallet_no, payment.charge, payment.bonus) {
        let open_id = sqlx::query_scalar!(
            "SELECT open_id FROM wallets WHERE app_no = $1 AND wallet_no = $2 FOR UPDATE",
            app_no,
            wallet_no
        );
        let open_id = open_id.fetch_one(connection).await?;
        let open_id = OpenId::parse(&open_id).map_err(|_| StoreError::damaged("wallets"))?;
        let refundable = Refundable { amount: payment.amount, coins: CoinPair { free, charge } };
        return Ok(FoundPayment::Credited(CreditedTopup { wallet_no, open_id, refundable }));
    }
    let state = sqlx::query_scalar!(
        "SELECT state FROM topup_payments WHERE app_no = $1 AND provider = $2 AND provider_order_id = $3 FOR UPDATE",
        app_no,
        provider,
        id
    );
    let is_paid_back = match stored_payment_state(&state.fetch_one(connection).await?)? {
        // It was settled meanwhile.
        PaymentState::Paid => return Err(StoreError::Again),
        PaymentState::PaidBack => true,
        PaymentState::Unmatched => false,
    };
    Ok(FoundPayment::NotCredited { amount: payment.amount, is_paid_back })
}

/// Locks the key of a payment that nobody has reported: it writes a row of this key and removes it. Until the
/// transaction ends, whoever writes this key waits at the primary key.
async fn hold_key(connection: &mut PgConnection, app_no: i32, key: &PaymentKey) -> Result<FoundPayment> {
    let held = sqlx::query!(
        "INSERT INTO topup_payments (app_no, provider, provider_order_id, currency, amount, biz_no, paid_at, created_at,
             state, reason, note, told_by)
         VALUES ($1, $2, $3, '', 1, '', now(), now(), 'unmatched', 'unknown_order', '', '')
         ON CONFLICT DO NOTHING",
        app_no,
        key.provider.as_str(),
        key.provider_order_id.as_str()
    );
    // Another transaction has reported the payment meanwhile.
    if held.execute(&mut *connection).await?.rows_affected() == 0 {
        return Err(StoreError::Again);
    }
    let released = sqlx::query!(
        "DELETE FROM topup_payments WHERE app_no = $1 AND provider = $2 AND provider_order_id = $3 AND currency = ''",
        app_no,
        key.provider.as_str(),
        key.provider_order_id.as_str()
    );
    released.execute(connection).await?;
    Ok(FoundPayment::Nothing)
}

/// The refunded amount of a payment, with the refunds that wait.
async fn refunded(connection: &mut PgConnection, app_no: i32, key: &PaymentKey) -> Result<i64> {
    let sum = sqlx::query_scalar!(
        r#"SELECT least(coalesce(sum(amount), 0), 9223372036854775807)::bigint AS "sum!" FROM topup_refunds
           WHERE app_no = $1 AND provider = $2 AND provider_order_id = $3 AND state <> 'refused'"#,
        app_no,
        key.provider.as_str(),
        key.provider_order_id.as_str()
    );
    Ok(sum.fetch_one(connection).await?)
}

/// Takes what a refund owes, and returns the debt that it makes. The inner error has what is owed and what is held.
pub(super) async fn take(
    connection: &mut PgConnection,
    engine: Engine,
    (app_id, app_no): (&AppId, i32),
    payment: &CreditedTopup,
    (key, amount, before, shortfall): (&RefundKey, i64, i64, Shortfall),
) -> Result<Result<Taken, (CoinPair, Balances)>> {
    let owed = payment.refundable.owed_by(before, amount);
    let request = WalletRequest::of_payment(
        payment.open_id.clone(),
        key.reference(),
        Change::Refund { owed, shortfall },
    );
    let mut changed = change(connection, engine, app_no, std::slice::from_ref(&request)).await?;
    let (receipt, MadeEntry { before, wallet_no, seq }) = match changed.outcomes.pop() {
        Some((WalletOutcome::Done(receipt), Some(entry))) => (receipt, entry),
        Some((WalletOutcome::Refused(Refused::InsufficientBalance(held), _), _)) => {
            return Ok(Err((owed, held)));
        }
        // The player was erased between the look at the wallet and its lock.
        Some((WalletOutcome::Refused(Refused::UnknownWallet, _), _)) => return Err(StoreError::Again),
        other => return Err(StoreError::Internal(format!("a refund with the outcome {other:?}"))),
    };
    let after = receipt.balances;
    let debt = CoinPair {
        free: owed.free - (before.free() - after.free()),
        charge: owed.charge - (before.charge() - after.charge()),
    };
    let former = debt_of(&mut *connection, app_no, payment.wallet_no).await?;
    let wallet_debt = CoinPair { free: former.free + debt.free, charge: former.charge + debt.charge };
    if debt != CoinPair::default() {
        tell_of_debt(connection, app_id.as_str(), (wallet_no, seq), changed.at).await?;
    }
    Ok(Ok(Taken { seq, owed, before, after, wallet_debt, at: changed.at }))
}

/// Writes the row of a refund, or what became of one that waited.
pub(super) async fn write(
    connection: &mut PgConnection,
    app_no: i32,
    (RefundToWrite { key, amount, reason, told_by }, state): (&RefundToWrite<'_>, RefundState),
    taken: Option<(i64, &Taken)>,
) -> Result<()> {
    let wallet_no = taken.map(|(wallet_no, _)| wallet_no);
    let taken = taken.map(|(_, taken)| taken);
    let [free, charge] = [
        taken.map(|taken| (taken.before.free() - taken.after.free(), taken.owed.free)),
        taken.map(|taken| (taken.before.charge() - taken.after.charge(), taken.owed.charge)),
    ];
    let debt = |(taken, owed): (i64, i64)| owed - taken;
    let written = sqlx::query!(
        "INSERT INTO topup_refunds AS r (app_no, provider, provider_order_id, refund_id, amount, state, reason, told_by,
             created_at, wallet_no, seq, free_taken, charge_taken, free_debt, charge_debt, free_owed, charge_owed,
             wallet_free_debt, wallet_charge_debt, free_balance, charge_balance, refunded_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, coalesce($9, clock_timestamp()), $10, $11, $12, $13, $14, $15, $14, $15, $16, $17,
             $18, $19, CASE WHEN $6 = 'refunded' THEN coalesce($9, clock_timestamp()) END)
         ON CONFLICT (app_no, provider, provider_order_id, refund_id) DO UPDATE SET state = excluded.state,
             wallet_no = excluded.wallet_no, seq = excluded.seq, free_taken = excluded.free_taken,
             charge_taken = excluded.charge_taken, free_debt = excluded.free_debt, charge_debt = excluded.charge_debt,
             free_owed = excluded.free_owed, charge_owed = excluded.charge_owed,
             wallet_free_debt = excluded.wallet_free_debt, wallet_charge_debt = excluded.wallet_charge_debt,
             free_balance = excluded.free_balance, charge_balance = excluded.charge_balance, refunded_at = excluded.refunded_at
         WHERE r.state = 'waiting'",
        app_no,
        key.payment.provider.as_str(),
        key.payment.provider_order_id.as_str(),
        key.refund_id.as_str(),
        amount,
        state.as_str(),
        *reason,
        *told_by,
        taken.map(|taken| taken.at),
        wallet_no,
        taken.map(|taken| taken.seq),
        free.map(|(taken, _)| taken),
        charge.map(|(taken, _)| taken),
        free.map(debt),
        charge.map(debt),
        taken.map(|taken| taken.wallet_debt.free),
        taken.map(|taken| taken.wallet_debt.charge),
        taken.map(|taken| taken.after.free()),
        taken.map(|taken| taken.after.charge())
    );
    written.execute(connection).await?;
    Ok(())
}

/// A refund as its row has it. `None` for one that nobody has reported.
async fn report(
    connection: &mut PgConnection,
    app_no: i32,
    key: &RefundKey,
    replayed: bool,
) -> Result<Option<RefundReport>> {
    let row = sqlx::query!(
        r#"SELECT r.state, r.amount, w.open_id AS "open_id?", r.free_taken, r.charge_taken, r.free_debt, r.charge_debt,
               r.free_balance, r.charge_balance, $5::boolean AS "replayed!"
           FROM topup_refunds r LEFT JOIN wallets w ON w.app_no = r.app_no AND w.wallet_no = r.wallet_no
           WHERE r.app_no = $1 AND r.provider = $2 AND r.provider_order_id = $3 AND r.refund_id = $4"#,
        app_no,
        key.payment.provider.as_str(),
        key.payment.provider_order_id.as_str(),
        key.refund_id.as_str(),
        replayed
    );
    let Some(row) = row.fetch_optional(connection).await? else { return Ok(None) };
    Ok(Some(RefundReport {
        state: stored_refund_state(&row.state)?,
        amount: row.amount,
        open_id: row.open_id,
        free_taken: row.free_taken,
        charge_taken: row.charge_taken,
        free_debt: row.free_debt,
        charge_debt: row.charge_debt,
        free_balance: row.free_balance,
        charge_balance: row.charge_balance,
        replayed: row.replayed,
    }))
}

/// The state of a refund, by the word in its row.
pub(super) fn stored_refund_state(word: &str) -> Result<RefundState> {
    RefundState::parse(word).map_err(|_| StoreError::damaged("topup_refunds"))
}

/// The answer to a repeat: what became of the refund, for the same amount. A running sum says no amount of its own.
fn repeated(first: RefundReport, refund: &NewRefund) -> Result<RefundReport, OperationError> {
    match refund.amount {
        RefundAmount::Of(amount) if amount != first.amount => {
            Err(refund_differs(refund.key.as_text()).into())
        }
        RefundAmount::Of(_) | RefundAmount::SumOf(_) => Ok(first),
    }
}

/// The answer to a running sum that the refunds have already.
fn unchanged() -> RefundReport {
    RefundReport {
        state: RefundState::Unchanged,
        amount: 0,
        open_id: None,
        free_taken: None,
        charge_taken: None,
        free_debt: None,
        charge_debt: None,
        free_balance: None,
        charge_balance: None,
        replayed: true,
    }
}
