//! Operators change wallets, once for each ref: credits (contract 8.3), debits and cancels (contract 10.7). A change and
//! its line in the operator's log are one transaction.

use domain::ids::{AppId, OpenId};
use domain::ledger::REF_MARK;
use domain::operator::Operator;
use domain::wallet::{Balances, Change, GivenBack, Receipt, Refused, WalletOutcome, WalletRequest};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::{ChangeOutcome, Credit, CreditOutcome, Debit, GiveBack, make_known};
use crate::app::app_exists;
use crate::engine::Engine;
use crate::exchange_lookup::ExchangeRecord;
use crate::operator_log::{Action, LogLine};
use crate::wallet_writer::change;
use crate::{Refusable, Result, Store, StoreError};

impl Credit {
    /// The credit as a request to its wallet.
    pub(super) fn request(&self) -> WalletRequest {
        let change = Change::Credit { free: self.free, charge: self.charge };
        WalletRequest::of_operator(self.open_id.clone(), &self.reference, change, self.note.clone())
    }
}

impl CreditOutcome {
    /// The outcome of a refused credit.
    pub(super) fn refused(why: &Refused) -> Self {
        match why {
            Refused::UnknownWallet => Self::UnknownPlayer,
            Refused::PurseFull => Self::OutOfRange,
            _ => Self::RefConflict,
        }
    }
}

impl Store {
    /// Credits a wallet, once for each ref (contract 8.3.3).
    pub async fn credit(&self, operator: &Operator, app_id: &AppId, credit: Credit) -> Result<CreditOutcome> {
        let create = credit.create;
        Ok(match self.change_as(Action::WalletCredit, operator, app_id, credit.request(), create).await? {
            ChangeOutcome::Done { receipt, replayed } => {
                CreditOutcome::Done { balances: receipt.balances, replayed }
            }
            ChangeOutcome::UnknownApp => CreditOutcome::UnknownApp,
            // Only what gives back has a limit.
            ChangeOutcome::AboveLimit { .. } => {
                return Err(StoreError::Internal("a credit above a limit".to_owned()));
            }
            ChangeOutcome::Refused(why) => CreditOutcome::refused(&why),
        })
    }

    /// Takes from a wallet, once for each ref (contract 10.7).
    pub async fn debit(&self, operator: &Operator, app_id: &AppId, debit: Debit) -> Result<ChangeOutcome> {
        let Debit { open_id, free, charge, reference, note } = debit;
        let change = Change::Debit { free, charge };
        let request = WalletRequest::of_operator(open_id, &reference, change, note);
        self.change_as(Action::WalletDebit, operator, app_id, request, false).await
    }

    /// Gives back an exchange or a part of it, once for each ref (contract 10.7). `None` when the app has no such exchange.
    pub async fn give_back(
        &self,
        operator: &Operator,
        app_id: &AppId,
        give_back: GiveBack,
    ) -> Result<Option<ChangeOutcome>> {
        let GiveBack { biz_no, amount, reference, note } = give_back;
        // An exchange never changes its player.
        let Some(exchange) = self.exchange(app_id, &biz_no, false).await? else { return Ok(None) };
        let open_id = OpenId::parse(&exchange.open_id).map_err(|_| StoreError::damaged("wallets"))?;
        let change = Change::Cancel { of: biz_no, amount };
        let request = WalletRequest::of_operator(open_id, &reference, change, note);
        let limit = operator.give_back_max().map(|max| GiveBackLimit::new(max, &exchange));
        self.change_within(limit, Action::WalletCancel, operator, app_id, request, false).await.map(Some)
    }

    async fn change_as(
        &self,
        action: Action,
        operator: &Operator,
        app_id: &AppId,
        request: WalletRequest,
        create: bool,
    ) -> Result<ChangeOutcome> {
        self.change_within(None, action, operator, app_id, request, create).await
    }

    async fn change_within(
        &self,
        limit: Option<GiveBackLimit>,
        action: Action,
        operator: &Operator,
        app_id: &AppId,
        request: WalletRequest,
        create: bool,
    ) -> Result<ChangeOutcome> {
        if !app_exists(&self.pool, app_id).await? {
            return Ok(ChangeOutcome::UnknownApp);
        }
        let engine = self.engine.get();
        let context = (operator.clone(), app_id.clone(), request);
        let outcome = self.transaction(context, move |connection, (operator, app_id, request)| {
            Box::pin(write_change(connection, engine, (operator, action, limit), app_id, request, create))
        });
        match outcome.await {
            Ok(outcome) => {
                self.events.notify_one();
                Ok(outcome)
            }
            Err(Refusable::Refused(outcome)) => Ok(outcome),
            Err(Refusable::Store(error)) => Err(error),
        }
    }
}

/// How much of an exchange an operator may give back, in coins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GiveBackLimit {
    max: i64,
    /// What must be left of the exchange.
    least_left: i64,
}

impl GiveBackLimit {
    pub(crate) fn new(max: i64, exchange: &ExchangeRecord) -> Self {
        let taken = exchange.free_change.saturating_add(exchange.charge_change).saturating_neg();
        Self { max, least_left: taken.saturating_sub(max) }
    }
}

/// Makes a change and writes its line in the operator's log. The error is an outcome after which the transaction is rolled
/// back.
pub(crate) async fn write_change(
    connection: &mut PgConnection,
    engine: Engine,
    (operator, action, limit): (&Operator, Action, Option<GiveBackLimit>),
    app_id: &AppId,
    request: &WalletRequest,
    create: bool,
) -> Result<ChangeOutcome, Refusable<ChangeOutcome>> {
    if create {
        make_known(connection, app_id, &request.open_id).await?;
    }
    let app_no = sqlx::query_scalar!("SELECT app_no FROM apps WHERE app_id = $1", app_id.as_str());
    let app_no = app_no.fetch_one(&mut *connection).await.map_err(StoreError::from)?;
    let changed = change(connection, engine, app_no, std::slice::from_ref(request)).await?.outcomes.pop();
    let (receipt, before) = match changed {
        Some((WalletOutcome::Done(receipt), Some(before))) => (receipt, before),
        Some((WalletOutcome::Replayed(receipt), _)) => {
            return Ok(ChangeOutcome::Done { receipt, replayed: true });
        }
        Some((WalletOutcome::Refused(why), _)) => {
            return Err(Refusable::Refused(ChangeOutcome::Refused(why)));
        }
        _ => return Err(StoreError::Internal("a change without an outcome".to_owned()).into()),
    };
    // Known only now: others may have given back of the same exchange meanwhile. The wallet is locked.
    if let (Some(GiveBackLimit { max, least_left }), Some(given)) = (limit, &receipt.given_back)
        && given.remaining < least_left
    {
        return Err(Refusable::Refused(ChangeOutcome::AboveLimit { max }));
    }
    let (after, reference) = (receipt.balances, request.reference.trim_start_matches(REF_MARK));
    let mut answer = receipt_shown(&receipt);
    answer["replayed"] = false.into();
    let line = LogLine::new(operator, action, request.open_id.as_str())
        .of_app(app_id)
        .before(json!({ "free_balance": before.free(), "charge_balance": before.charge() }))
        .after(state_after(after, reference, receipt.given_back.as_ref()))
        .note(request.remark.as_deref().unwrap_or_default())
        .answer(&answer);
    line.record(connection).await?;
    Ok(ChangeOutcome::Done { receipt, replayed: false })
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

/// A receipt for operators, as the admin API answers it.
#[must_use]
pub fn receipt_shown(receipt: &Receipt) -> Value {
    let (free, charge) = (receipt.balances.free(), receipt.balances.charge());
    let mut shown = json!({ "free_balance": free, "charge_balance": charge });
    if let Some(GivenBack { of, free, charge, remaining }) = &receipt.given_back {
        shown["biz_no"] = of.as_str().into();
        shown["free_refunded"] = (*free).into();
        shown["charge_refunded"] = (*charge).into();
        shown["remaining"] = (*remaining).into();
    }
    shown
}
