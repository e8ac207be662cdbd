//! Operators settle payments that fitted nothing, each once: credited to an order or a player, or marked as paid back
//! (contract 19.3.6). The settlement, its ledger entry and its line in the operator's log are one transaction.

use domain::ids::AppId;
use domain::operation::topup::{
    SettlePayment, Settlement, order_is_paid, payment_not_open, unknown_payment, unknown_product,
    unknown_topup_order,
};
use domain::operation::wallet::{balance_too_large, erased_player, needs_command_line, unknown_player};
use domain::operator::Operator;
use domain::topup::{Coins, PaymentKey, PaymentState};
use domain::wallet::{Balances, PurseChange};
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};

use super::orders::{known_players, placed_orders};
use super::payment_credit::{CreditedPayment, NotCredited, credit, settle_debt_with};
use super::payment_rows::{again_if_taken, first_told, keep_purses};
use super::prices::prices_of;
use super::refund::CreditedTopup;
use super::waiting_refunds::{end_waiting, log_ended, purses_after};
use crate::alone_limit::require_within;
use crate::app_number::number_of;
use crate::engine::Engine;
use crate::error::{OperationError, StoreError};
use crate::operator_log::{LogLine, OperatorAction};
use crate::store::Store;
use crate::wallet_writer::plan_by_keys;

/// A payment that was settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "TopupSettlement")]
pub struct SettledPayment {
    /// `paid`: it was credited. `paid_back`: the money went back.
    #[schemars(extend("enum" = [PaymentState::Paid, PaymentState::PaidBack]))]
    pub state: PaymentState,
    /// The order that it has paid.
    #[schemars(with = "Option<domain::ids::BizNo>")]
    pub biz_no: Option<String>,
    /// The player who was credited.
    #[schemars(with = "Option<domain::ids::OpenId>")]
    pub open_id: Option<String>,
    /// Charged coins that were credited.
    pub charge: i64,
    /// Gifted coins that were credited.
    pub bonus: i64,
    /// Gifted currency after it, and after refunds that waited. `null` where nothing was credited.
    pub free_balance: Option<i64>,
    /// Charged currency after it, and after refunds that waited. `null` where nothing was credited.
    pub charge_balance: Option<i64>,
}

/// What a settlement does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettlementEffect {
    /// Its answer.
    pub settled: SettledPayment,
    /// The change of the purses, with what debt and refunds that waited take. `None` where nothing is credited.
    pub purses: Option<PurseChange>,
}

impl Store {
    /// Settles an unmatched payment.
    ///
    /// # Errors
    /// There is no such payment, it is not unmatched any more, or what it shall pay does not exist. It needs a second
    /// person, or the database is away.
    pub async fn settle_payment(
        &self,
        operator: &Operator,
        app_id: &AppId,
        key: PaymentKey,
        command: SettlePayment,
    ) -> Result<SettledPayment, OperationError> {
        let engine = self.engine.get();
        let context = (operator.clone(), app_id.clone(), key, command);
        let settled = self.transaction(context, move |connection, (operator, app_id, key, command)| {
            Box::pin(write_settlement(connection, engine, (operator, app_id), key, command))
        });
        let effect = settled.await?;
        self.events.notify_one();
        Ok(effect.settled)
    }

    /// What a settlement would do now. It changes nothing: the settlement is carried out and taken back. So what refunds
    /// take of it and why it is refused is decided in one place.
    ///
    /// # Errors
    /// The refusal that the settlement itself would get, or the database is away.
    pub async fn foresee_settlement(
        &self,
        operator: &Operator,
        app_id: &AppId,
        key: PaymentKey,
        command: SettlePayment,
    ) -> Result<SettlementEffect, OperationError> {
        let engine = self.engine.get();
        let context = (operator.clone(), app_id.clone(), key, command);
        let foreseen = self.transaction(context, move |connection, (operator, app_id, key, command)| {
            Box::pin(try_settlement(connection, engine, (operator, app_id), key, command))
        });
        foreseen.await
    }
}

/// Carries out a settlement and takes it back. After a refusal the transaction is rolled back as a whole.
async fn try_settlement(
    connection: &mut PgConnection,
    engine: Engine,
    by: (&Operator, &AppId),
    key: &PaymentKey,
    command: &SettlePayment,
) -> Result<SettlementEffect, OperationError> {
    let mut trial = connection.begin().await.map_err(StoreError::from)?;
    let effect = write_settlement(&mut trial, engine, by, key, command).await?;
    trial.rollback().await.map_err(StoreError::from)?;
    Ok(effect)
}

async fn write_settlement(
    connection: &mut PgConnection,
    engine: Engine,
    (operator, app_id): (&Operator, &AppId),
    key: &PaymentKey,
    SettlePayment { settlement, reason }: &SettlePayment,
) -> Result<SettlementEffect, OperationError> {
    plan_by_keys(connection, engine).await?;
    let app_no = number_of(&mut *connection, app_id).await?;
    lock(connection, app_no, key).await?;
    let payment = key.as_text();
    let first = first_told(connection, engine, app_no, &[key]).await?.remove(key);
    let first = first.ok_or_else(|| unknown_payment(app_id, &payment))?;
    let state = first.state()?;
    if state != PaymentState::Unmatched {
        return Err(payment_not_open(&payment, state).into());
    }
    let credited = match coins(connection, (app_id, app_no), settlement).await? {
        None => None,
        Some(coins) => match credit(connection, engine, app_no, key, &coins).await? {
            Ok(mut credited) => {
                settle_debt_with(connection, engine, (app_id, app_no), key, (&coins, &mut credited)).await?;
                Some((coins, credited))
            }
            Err(NotCredited::PurseFull) => return Err(balance_too_large().into()),
            Err(NotCredited::UnknownPlayer) => return Err(unknown_player(app_id, &coins.open_id).into()),
        },
    };
    update(connection, app_no, key, credited.as_ref()).await?;
    let topup = credited.as_ref().map(|(coins, entry)| CreditedTopup::new(first.amount, coins, entry));
    let ended =
        end_waiting(connection, engine, (app_id, app_no), (key, first.amount), topup.as_ref()).await?;
    let settled = SettledPayment::of(credited.as_ref());
    // The line of the log has the purses of the settlement. Each refund that ended has a line of its own.
    let mut answer = settled.clone();
    if let Some(purses) = purses_after(&ended) {
        (answer.free_balance, answer.charge_balance) = (Some(purses.free()), Some(purses.charge()));
        keep_purses(connection, app_no, key, purses).await?;
    }
    let line = LogLine::new(operator, OperatorAction::TopupSettle, &payment).of_app(app_id);
    let line = line.before(before(credited.as_ref()));
    let money = (first.currency.as_str(), first.amount);
    let line = line.after(after(&payment, money, &settled)).note(reason.as_str());
    line.answer(&answer).record(&mut *connection).await?;
    require_within(connection, operator, needs_command_line).await?;
    // Their lines come behind the look at the limit: what they take refuses no settlement.
    log_ended(connection, (app_id, app_no), &ended).await?;
    let purses = credited.as_ref().and_then(|(_, entry)| purse_change(entry, &answer));
    Ok(SettlementEffect { settled: answer, purses })
}

/// The change of both purses from before the credit until after all that the settlement does.
fn purse_change(entry: &CreditedPayment, settled: &SettledPayment) -> Option<PurseChange> {
    let after = Balances::new(settled.free_balance?, settled.charge_balance?).ok()?;
    Some(PurseChange {
        free_change: after.free() - entry.free.0,
        charge_change: after.charge() - entry.charge.0,
        after,
    })
}

/// Locks the row of a payment, so that it is settled once.
async fn lock(connection: &mut PgConnection, app_no: i32, key: &PaymentKey) -> Result<(), StoreError> {
    let locked = sqlx::query!(
        "SELECT 1 AS one FROM topup_payments WHERE app_no = $1 AND provider = $2 AND provider_order_id = $3 FOR UPDATE",
        app_no,
        key.provider.as_str(),
        key.provider_order_id.as_str()
    );
    locked.fetch_optional(connection).await?;
    Ok(())
}

/// What a settlement credits. `None` for money that went back.
async fn coins(
    connection: &mut PgConnection,
    (app_id, app_no): (&AppId, i32),
    settlement: &Settlement,
) -> Result<Option<Coins>, OperationError> {
    match settlement {
        Settlement::PaidBack => Ok(None),
        Settlement::CreditOrder(biz_no) => {
            let order = placed_orders(connection, app_no, &[biz_no]).await?.remove(biz_no);
            let order = order.ok_or_else(|| unknown_topup_order(app_id, biz_no))?;
            if order.open_id.is_pseudonym() {
                return Err(erased_player(app_id, &order.open_id).into());
            }
            if order.is_paid {
                return Err(order_is_paid(biz_no).into());
            }
            Ok(Some(order.coins(biz_no.clone())))
        }
        Settlement::CreditPlayer(open_id, product_id) => {
            if open_id.is_pseudonym() {
                return Err(erased_player(app_id, open_id).into());
            }
            if !known_players(connection, app_no, &[open_id]).await?.contains(open_id) {
                return Err(unknown_player(app_id, open_id).into());
            }
            // An operator may credit what is no longer for sale.
            let price = prices_of(connection, app_no, &[product_id]).await?.remove(product_id);
            let price = price.ok_or_else(|| unknown_product(app_id, product_id))?;
            Ok(Some(price.coins(open_id.clone())))
        }
    }
}

async fn update(
    connection: &mut PgConnection,
    app_no: i32,
    key: &PaymentKey,
    credited: Option<&(Coins, CreditedPayment)>,
) -> Result<(), StoreError> {
    let (coins, entry) = (credited.map(|(coins, _)| coins), credited.map(|(_, entry)| entry));
    let updated = sqlx::query!(
        "UPDATE topup_payments SET state = $4, wallet_no = $5, seq = $6, charge = $7, bonus = $8, free_balance = $9,
             charge_balance = $10, credited_at = $11, paid_biz_no = $12, paid_product_id = $13
         WHERE app_no = $1 AND provider = $2 AND provider_order_id = $3",
        app_no,
        key.provider.as_str(),
        key.provider_order_id.as_str(),
        settled_state(credited.is_some()).as_str(),
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
    updated.execute(connection).await.map(drop).map_err(again_if_taken)
}

/// The state of a payment after its settlement.
const fn settled_state(is_credited: bool) -> PaymentState {
    if is_credited { PaymentState::Paid } else { PaymentState::PaidBack }
}

/// The state before, for the operator's log. With purses where some were credited.
fn before(credited: Option<&(Coins, CreditedPayment)>) -> Value {
    let mut state = json!({ "state": PaymentState::Unmatched });
    if let Some((_, entry)) = credited {
        state["free_balance"] = entry.free.0.into();
        state["charge_balance"] = entry.charge.0.into();
    }
    state
}

/// The state after. It has the money, because what stands only before reads as removed.
fn after(payment: &str, (currency, amount): (&str, i64), settled: &SettledPayment) -> Value {
    let mut state = json!({ "state": settled.state, "currency": currency, "amount": amount, "ref": payment });
    if settled.free_balance.is_some() {
        state["open_id"] = json!(settled.open_id);
        state["biz_no"] = json!(settled.biz_no);
        state["free_balance"] = json!(settled.free_balance);
        state["charge_balance"] = json!(settled.charge_balance);
        // The limit of one person counts what settled debt, too.
        (state["free"], state["charge"]) = (settled.bonus.into(), settled.charge.into());
    }
    state
}

impl SettledPayment {
    fn of(credited: Option<&(Coins, CreditedPayment)>) -> Self {
        let state = settled_state(credited.is_some());
        let Some((coins, entry)) = credited else {
            return Self {
                state,
                biz_no: None,
                open_id: None,
                charge: 0,
                bonus: 0,
                free_balance: None,
                charge_balance: None,
            };
        };
        Self {
            state,
            biz_no: coins.biz_no.as_ref().map(ToString::to_string),
            open_id: Some(coins.open_id.to_string()),
            charge: coins.charge,
            bonus: coins.bonus,
            free_balance: Some(entry.free.1),
            charge_balance: Some(entry.charge.1),
        }
    }
}
