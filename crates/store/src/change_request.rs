//! Large changes of wallets that wait for a second person (contract 8.6.40): one admin of the console asks, and another
//! one confirms or refuses. A confirmed change and the end of its request are one transaction.

mod row;

use domain::ids::{AppId, BizNo, CreditRef, OpenId};
use domain::ledger::ReferenceKind;
use domain::operator::Operator;
use domain::rights::Apps;
use domain::wallet::{Amount, Change, WalletRequest};
use row::{Row, requests};
use serde_json::{Value, json};
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::app::app_exists;
use crate::operator_log::{Action, LogLine};
use crate::paging::LISTED_MAX;
use crate::wallet::{ChangeOutcome, GiveBackLimit, write_change};
use crate::{Refusable, Result, Store, StoreError};

/// The change that somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedChange {
    /// The player.
    pub open_id: OpenId,
    /// What is changed.
    pub amounts: AskedAmounts,
    /// The operator's reference, unique in the app.
    pub reference: CreditRef,
    /// Reason for people.
    pub reason: String,
}

/// What is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskedAmounts {
    /// Coins are added.
    Credit {
        /// Gifted currency.
        free: i64,
        /// Charged currency.
        charge: i64,
        /// Whether the credit makes the player known.
        create: bool,
    },
    /// Coins are taken.
    Debit {
        /// Gifted currency.
        free: i64,
        /// Charged currency.
        charge: i64,
    },
    /// An exchange is given back, or a part of it.
    GiveBack {
        /// The exchange.
        biz_no: BizNo,
        /// How much of it.
        amount: Amount,
    },
}

impl AskedAmounts {
    /// Its kind in the ledger.
    #[must_use]
    pub const fn kind(&self) -> ReferenceKind {
        match self {
            Self::Credit { .. } => ReferenceKind::Credit,
            Self::Debit { .. } => ReferenceKind::Debit,
            Self::GiveBack { .. } => ReferenceKind::Cancel,
        }
    }

    /// How many coins it moves, of both purses.
    #[must_use]
    pub fn coins(&self) -> i64 {
        match self {
            Self::Credit { free, charge, .. } | Self::Debit { free, charge } => free.saturating_add(*charge),
            Self::GiveBack { amount, .. } => amount.get(),
        }
    }

    const fn action(&self) -> Action {
        match self {
            Self::Credit { .. } => Action::WalletCredit,
            Self::Debit { .. } => Action::WalletDebit,
            Self::GiveBack { .. } => Action::WalletCancel,
        }
    }

    fn change(&self) -> Change {
        match self.clone() {
            Self::Credit { free, charge, .. } => Change::Credit { free, charge },
            Self::Debit { free, charge } => Change::Debit { free, charge },
            Self::GiveBack { biz_no, amount } => Change::Cancel { of: biz_no, amount },
        }
    }
}

domain::word_enum! {
    /// What became of a request.
    pub enum RequestState {
        /// It waits for another admin.
        Waiting = "waiting",
        /// The change was made.
        Confirmed = "confirmed",
        /// Somebody refused it.
        Refused = "refused",
        /// Nobody confirmed it for 7 days.
        Ended = "ended",
    }
}

/// A request for a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRequest {
    /// The app.
    pub app_id: AppId,
    /// The change.
    pub change: AskedChange,
    /// Who asked.
    pub asked_by: String,
    /// When.
    pub asked_at: OffsetDateTime,
    /// When it ends by itself.
    pub ends_at: OffsetDateTime,
    /// What became of it.
    pub state: RequestState,
    /// Who confirmed or refused it.
    pub ended_by: Option<String>,
    /// When.
    pub ended_at: Option<OffsetDateTime>,
    /// How many coins of an exchange whoever asked may give back (contract 8.6.38). `None`: all.
    pub give_back_max: Option<i64>,
}

/// The answer to a new request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskOutcome {
    /// It waits, or it was asked before: the same change under the same ref.
    Asked(Box<ChangeRequest>),
    /// The ref has a request for another change.
    RefConflict,
    /// There is no such app.
    UnknownApp,
}

/// What became of a confirmation or a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndOutcome {
    /// The request has ended as it was wanted. For a confirmation: the change is made.
    Done,
    /// It had ended before.
    EndedBefore(Box<ChangeRequest>),
    /// Nobody confirms what they asked for themselves.
    OwnRequest,
    /// There is no such request.
    Unknown,
    /// The till refuses the change, and the request waits on.
    Refused(ChangeOutcome),
}

impl Store {
    /// Asks for a change. The same change under the same ref is the same request, whatever became of it.
    pub async fn ask_for_change(
        &self,
        operator: &Operator,
        app_id: &AppId,
        change: AskedChange,
    ) -> Result<AskOutcome> {
        if !app_exists(&self.pool, app_id).await? {
            return Ok(AskOutcome::UnknownApp);
        }
        let context = (operator.clone(), app_id.clone(), change.clone());
        self.transaction(context, |connection, (operator, app_id, change)| {
            Box::pin(ask(connection, operator, app_id, change))
        })
        .await?;
        let request = self.change_request(app_id, &change.reference).await?;
        let request = request.ok_or_else(|| StoreError::damaged("console_requests"))?;
        let is_same = request.change.open_id == change.open_id && request.change.amounts == change.amounts;
        Ok(if is_same { AskOutcome::Asked(Box::new(request)) } else { AskOutcome::RefConflict })
    }

    /// The request with this ref.
    pub async fn change_request(
        &self,
        app_id: &AppId,
        reference: &CreditRef,
    ) -> Result<Option<ChangeRequest>> {
        let row = requests!("WHERE app_id = $2 AND ref = $3", app_id.as_str(), reference.as_str());
        row.fetch_optional(&self.pool).await?.map(Row::request).transpose()
    }

    /// The requests of these apps that wait, newest first, at most 1,000.
    pub async fn waiting_change_requests(&self, apps: &Apps) -> Result<Vec<ChangeRequest>> {
        let rows = requests!(
            "WHERE state = 'waiting' AND asked_at > now() - make_interval(days => $1)
               AND ($3::text[] IS NULL OR app_id = ANY ($3))
             ORDER BY asked_at DESC, app_id, ref LIMIT $2",
            LISTED_MAX,
            apps.ids()
        );
        rows.fetch_all(&self.pool).await?.into_iter().map(Row::request).collect()
    }

    /// The newest requests of these apps that have ended, at most `limit`: by the time when they were asked.
    pub async fn ended_change_requests(&self, apps: &Apps, limit: u32) -> Result<Vec<ChangeRequest>> {
        let rows = requests!(
            "WHERE (state <> 'waiting' OR asked_at <= now() - make_interval(days => $1))
               AND ($3::text[] IS NULL OR app_id = ANY ($3))
             ORDER BY asked_at DESC, app_id, ref LIMIT $2",
            i64::from(limit),
            apps.ids()
        );
        rows.fetch_all(&self.pool).await?.into_iter().map(Row::request).collect()
    }

    /// Makes the change that somebody else asked for, and ends the request: both or nothing. What the role of who asked may
    /// not give back is refused.
    pub async fn confirm_change(
        &self,
        operator: &Operator,
        app_id: &AppId,
        reference: &CreditRef,
    ) -> Result<EndOutcome> {
        self.end_request(operator, app_id, reference, RequestState::Confirmed).await
    }

    /// Refuses a request. Who asked may do it too.
    pub async fn refuse_change(
        &self,
        operator: &Operator,
        app_id: &AppId,
        reference: &CreditRef,
    ) -> Result<EndOutcome> {
        self.end_request(operator, app_id, reference, RequestState::Refused).await
    }

    async fn end_request(
        &self,
        operator: &Operator,
        app_id: &AppId,
        reference: &CreditRef,
        end: RequestState,
    ) -> Result<EndOutcome> {
        // What was asked for never changes.
        let Some(request) = self.change_request(app_id, reference).await? else {
            return Ok(EndOutcome::Unknown);
        };
        let limit = self.limit_of(&request).await?;
        let engine = self.engine.get();
        let context = (operator.clone(), app_id.clone(), reference.clone());
        let ended = self.transaction(context, move |connection, (operator, app_id, reference)| {
            Box::pin(async move {
                let request = match lock(connection, operator, app_id, reference, end).await? {
                    Ok(request) => request,
                    Err(outcome) => return Ok(outcome),
                };
                let AskedChange { open_id, amounts, reference, reason } = &request.change;
                let action = if end == RequestState::Confirmed {
                    let create = matches!(amounts, AskedAmounts::Credit { create: true, .. });
                    let change = WalletRequest::of_operator(
                        open_id.clone(),
                        reference,
                        amounts.change(),
                        reason.clone(),
                    );
                    let as_whom = (operator, amounts.action(), limit);
                    write_change(connection, engine, as_whom, app_id, &change, create).await?;
                    Action::ChangeRequestConfirm
                } else {
                    Action::ChangeRequestRefuse
                };
                let before = state_of(&request.change, RequestState::Waiting, &request.asked_by);
                let after = state_of(&request.change, end, &request.asked_by);
                let line = LogLine::new(operator, action, open_id.as_str()).of_app(app_id).before(before);
                line.after(after).note(reason).record(connection).await?;
                Ok::<_, Refusable<ChangeOutcome>>(EndOutcome::Done)
            })
        });
        match ended.await {
            Ok(outcome) => {
                self.events.notify_one();
                Ok(outcome)
            }
            Err(Refusable::Refused(outcome)) => Ok(EndOutcome::Refused(outcome)),
            Err(Refusable::Store(error)) => Err(error),
        }
    }

    /// How much of its exchange a request may give back, by the role of who asked.
    async fn limit_of(&self, request: &ChangeRequest) -> Result<Option<GiveBackLimit>> {
        let (Some(max), AskedAmounts::GiveBack { biz_no, .. }) =
            (request.give_back_max, &request.change.amounts)
        else {
            return Ok(None);
        };
        let exchange = self.exchange(&request.app_id, biz_no, false).await?;
        let exchange = exchange.ok_or_else(|| StoreError::damaged("console_requests"))?;
        Ok(Some(GiveBackLimit::new(max, &exchange)))
    }
}

/// Stores a request, unless the ref has one.
async fn ask(
    connection: &mut PgConnection,
    operator: &Operator,
    app_id: &AppId,
    change: &AskedChange,
) -> Result<()> {
    let AskedChange { open_id, amounts, reference, reason } = change;
    let (free, charged, create, of, amount) = match amounts {
        AskedAmounts::Credit { free, charge, create } => (*free, *charge, *create, None, None),
        AskedAmounts::Debit { free, charge } => (*free, *charge, false, None, None),
        AskedAmounts::GiveBack { biz_no, amount } => (0, 0, false, Some(biz_no.as_str()), Some(amount.get())),
    };
    let asked = sqlx::query!(
        "INSERT INTO console_requests
             (app_id, ref, kind, open_id, free, charge, create_wallet, of_biz_no, amount, reason, asked_by,
              give_back_max)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (app_id, ref) DO NOTHING",
        app_id.as_str(),
        reference.as_str(),
        amounts.kind().as_str(),
        open_id.as_str(),
        free,
        charged,
        create,
        of,
        amount,
        reason,
        operator.name(),
        of.and(operator.give_back_max())
    );
    if asked.execute(&mut *connection).await?.rows_affected() == 0 {
        return Ok(());
    }
    let line = LogLine::new(operator, Action::ChangeRequestAsk, open_id.as_str()).of_app(app_id);
    line.after(state_of(change, RequestState::Waiting, operator.name())).note(reason).record(connection).await
}

/// Locks a request that waits, and marks its end. The row stays locked until the transaction ends, so of two ends at the
/// same time one finds that the other was first.
async fn lock(
    connection: &mut PgConnection,
    operator: &Operator,
    app_id: &AppId,
    reference: &CreditRef,
    end: RequestState,
) -> Result<Result<ChangeRequest, EndOutcome>> {
    let row = requests!("WHERE app_id = $2 AND ref = $3 FOR UPDATE", app_id.as_str(), reference.as_str());
    let Some(row) = row.fetch_optional(&mut *connection).await? else { return Ok(Err(EndOutcome::Unknown)) };
    let request = row.request()?;
    if request.state != RequestState::Waiting {
        return Ok(Err(EndOutcome::EndedBefore(Box::new(request))));
    }
    if end == RequestState::Confirmed && request.asked_by == operator.name() {
        return Ok(Err(EndOutcome::OwnRequest));
    }
    sqlx::query!(
        "UPDATE console_requests SET state = $3, ended_by = $4, ended_at = clock_timestamp()
         WHERE app_id = $1 AND ref = $2",
        app_id.as_str(),
        reference.as_str(),
        end.as_str(),
        operator.name()
    )
    .execute(connection)
    .await?;
    Ok(Ok(request))
}

/// A request in the operator's log.
fn state_of(change: &AskedChange, state: RequestState, asked_by: &str) -> Value {
    let mut shown = json!({
        "ref": change.reference.as_str(),
        "kind": change.amounts.kind().as_str(),
        "state": state,
        "asked_by": asked_by,
    });
    match &change.amounts {
        AskedAmounts::Credit { free, charge, .. } | AskedAmounts::Debit { free, charge } => {
            shown["free"] = (*free).into();
            shown["charge"] = (*charge).into();
        }
        AskedAmounts::GiveBack { biz_no, amount } => {
            shown["biz_no"] = biz_no.as_str().into();
            shown["amount"] = amount.get().into();
        }
    }
    shown
}
