//! Operators change wallets, once for each ref: credits (contract 8.3), debits and cancels (contract 10.7). A change and
//! its line in the operator's log are one transaction.

use domain::ids::{AppId, CreditRef, OpenId};
use domain::operation::wallet::{
    Credit, Debit, GiveBackLimit, WalletCommand, WalletReport, needs_second_person, refused, unknown_exchange,
};
use domain::operator::Operator;
use domain::wallet::{Balances, GivenBack, PurseChange, Receipt, WalletOutcome, WalletRequest};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::make_known;
use crate::alone_limit::require_within;
use crate::app_number::number_of;
use crate::engine::Engine;
use crate::error::{OperationError, Result, StoreError};
use crate::operator_log::{LogLine, OperatorAction};
use crate::store::Store;
use crate::wallet_writer::{ChangeOutcome, change, foresee, plan_by_keys};

impl Store {
    /// Changes a wallet for an operator, once for each ref (contract 8.3.3 and 10.7).
    ///
    /// # Errors
    /// The command does not fit what is there, or the database is away.
    pub async fn change_wallet(
        &self,
        operator: &Operator,
        app_id: &AppId,
        command: impl Into<WalletCommand>,
    ) -> Result<WalletReport, OperationError> {
        let command = command.into();
        let (open_id, limit) = self.player_of(operator, app_id, &command).await?;
        let engine = self.engine.get();
        let context = (operator.clone(), app_id.clone(), open_id, command);
        let report = self.transaction(context, move |connection, (operator, app_id, open_id, command)| {
            Box::pin(write_change(connection, engine, (operator, limit), (app_id, open_id), command))
        });
        let report = report.await?;
        self.events.notify_one();
        Ok(report)
    }

    /// What a change would do now. `None` when it was made before. It changes nothing.
    ///
    /// # Errors
    /// The refusal that the change itself would get, or the database is away.
    pub async fn foresee_change(
        &self,
        operator: &Operator,
        app_id: &AppId,
        command: &WalletCommand,
    ) -> Result<Option<PurseChange>, OperationError> {
        let (open_id, limit) = self.player_of(operator, app_id, command).await?;
        let (engine, app_no) = (self.engine.get(), number_of(&self.pool, app_id).await?);
        let context = (command.request(&open_id), command.makes_known());
        let outcome = self.transaction(context, move |connection, (request, makes_known)| {
            Box::pin(look(connection, engine, app_no, request, *makes_known))
        });
        let outcome: Result<Option<ChangeOutcome>> = outcome.await;
        let (receipt, before) = decided(outcome?, limit, (app_id, &open_id), command.reference())?;
        let after = receipt.balances;
        Ok(before.map(|before| PurseChange {
            free_change: after.free() - before.free(),
            charge_change: after.charge() - before.charge(),
            after,
        }))
    }

    /// The player whose wallet a command changes, and how much it may give back.
    async fn player_of(
        &self,
        operator: &Operator,
        app_id: &AppId,
        command: &WalletCommand,
    ) -> Result<(OpenId, Option<GiveBackLimit>), OperationError> {
        match command {
            WalletCommand::Credit(Credit { open_id, .. }) | WalletCommand::Debit(Debit { open_id, .. }) => {
                Ok((open_id.clone(), None))
            }
            WalletCommand::GiveBack(give_back) => {
                let exchange = self.exchange(app_id, &give_back.biz_no, false).await?;
                let exchange = exchange.ok_or_else(|| unknown_exchange(app_id, &give_back.biz_no))?;
                // An exchange never changes its player.
                let open_id = OpenId::parse(&exchange.open_id).map_err(|_| StoreError::damaged("wallets"))?;
                Ok((open_id, operator.give_back_max().map(|max| exchange.give_back_limit(max))))
            }
        }
    }
}

async fn look(
    connection: &mut PgConnection,
    engine: Engine,
    app_no: i32,
    request: &WalletRequest,
    makes_known: bool,
) -> Result<Option<ChangeOutcome>> {
    let purses = |_: &str, now: Option<Balances>| now.or_else(|| makes_known.then(Balances::default));
    let outcomes = foresee(connection, engine, app_no, std::slice::from_ref(request), purses).await;
    Ok(outcomes?.pop())
}

/// Makes a change and writes its line in the operator's log. After a refusal the transaction is rolled back.
pub(crate) async fn write_change(
    connection: &mut PgConnection,
    engine: Engine,
    (operator, limit): (&Operator, Option<GiveBackLimit>),
    (app_id, open_id): (&AppId, &OpenId),
    command: &WalletCommand,
) -> Result<WalletReport, OperationError> {
    plan_by_keys(connection, engine).await?;
    if command.makes_known() {
        make_known(connection, app_id, open_id).await?;
    }
    let app_no = number_of(&mut *connection, app_id).await?;
    let request = command.request(open_id);
    let changed = change(connection, engine, app_no, std::slice::from_ref(&request)).await?.outcomes.pop();
    let (receipt, before) = decided(changed, limit, (app_id, open_id), command.reference())?;
    let Some(before) = before else { return Ok(WalletReport::new(&receipt, true)) };
    let action = match command {
        WalletCommand::Credit(_) => OperatorAction::WalletCredit,
        WalletCommand::Debit(_) => OperatorAction::WalletDebit,
        WalletCommand::GiveBack(_) => OperatorAction::WalletCancel,
    };
    let report = WalletReport::new(&receipt, false);
    let reference = command.reference().as_str();
    let line = LogLine::new(operator, action, open_id.as_str())
        .of_app(app_id)
        .before(json!({ "free_balance": before.free(), "charge_balance": before.charge() }))
        .after(state_after(receipt.balances, reference, receipt.given_back.as_ref()))
        .note(command.note())
        .answer(&report);
    line.record(&mut *connection).await?;
    require_within(connection, operator, needs_second_person).await?;
    Ok(report)
}

/// The receipt of a change, with both purses before it unless it was made before.
fn decided(
    outcome: Option<ChangeOutcome>,
    limit: Option<GiveBackLimit>,
    (app_id, open_id): (&AppId, &OpenId),
    reference: &CreditRef,
) -> Result<(Receipt, Option<Balances>), OperationError> {
    let (receipt, before) = match outcome {
        Some((WalletOutcome::Done(receipt), Some(entry))) => (receipt, entry.before),
        Some((WalletOutcome::Replayed(receipt), _)) => return Ok((receipt, None)),
        Some((WalletOutcome::Refused(why, _), _)) => {
            return Err(refused(why, app_id, open_id, reference).into());
        }
        _ => return Err(StoreError::Internal("a change without an outcome".to_owned()).into()),
    };
    // Known only now: others may have given back of the same exchange meanwhile. A change has locked the wallet.
    if let (Some(limit), Some(given)) = (limit, &receipt.given_back) {
        let coins = given.free.saturating_add(given.charge);
        limit.check(given.remaining.saturating_add(coins), coins)?;
    }
    Ok((receipt, Some(before)))
}

/// The state after a change, for the operator's log.
fn state_after(after: Balances, reference: &str, given_back: Option<&GivenBack>) -> Value {
    let mut state =
        json!({ "free_balance": after.free(), "charge_balance": after.charge(), "ref": reference });
    if let Some(GivenBack { of, remaining, .. }) = given_back {
        state["biz_no"] = of.as_str().into();
        state["remaining"] = (*remaining).into();
    }
    state
}
