//! Large changes of wallets that wait for a second person (contract 8.6.40): one admin of the console asks, and another
//! one confirms or refuses. A confirmed change and the end of its request are one transaction.

mod row;

use domain::ids::{AppId, CreditRef, OpenId};
use domain::operation::unknown_app;
use domain::operation::wallet::{WalletCommand, own_request, ref_used, unknown_request};
use domain::operator::Operator;
use domain::rights::Apps;
use row::{ChangeRequestRow, requests};
use serde_json::{Value, json};
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::app::app_exists;
use crate::error::{OperationError, Result, StoreError};
use crate::operator_log::{LogLine, OperatorAction};
use crate::paging::LISTED_MAX;
use crate::store::Store;
use crate::wallet::{GiveBackLimit, write_change};

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
    /// The player.
    pub open_id: OpenId,
    /// What is asked for.
    pub command: WalletCommand,
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

impl Store {
    /// Asks for a change of this player's wallet, and returns its request. The same change under the same ref is the same
    /// request, whatever became of it.
    ///
    /// # Errors
    /// There is no such app, the ref has a request for another change, or the database is away.
    pub async fn ask_for_change(
        &self,
        operator: &Operator,
        app_id: &AppId,
        open_id: &OpenId,
        command: WalletCommand,
    ) -> Result<ChangeRequest, OperationError> {
        if !app_exists(&self.pool, app_id).await? {
            return Err(unknown_app(app_id).into());
        }
        let context = (operator.clone(), app_id.clone(), open_id.clone(), command.clone());
        self.transaction(context, |connection, (operator, app_id, open_id, command)| {
            Box::pin(ask(connection, operator, (app_id, open_id), command))
        })
        .await?;
        let request = self.change_request(app_id, command.reference()).await?;
        let request = request.ok_or_else(|| StoreError::damaged("console_requests"))?;
        let is_same = request.open_id == *open_id && request.command.content() == command.content();
        if is_same { Ok(request) } else { Err(ref_used(command.reference()).into()) }
    }

    /// The request with this ref.
    pub async fn change_request(
        &self,
        app_id: &AppId,
        reference: &CreditRef,
    ) -> Result<Option<ChangeRequest>> {
        let row = requests!("WHERE app_id = $2 AND ref = $3", app_id.as_str(), reference.as_str());
        row.fetch_optional(&self.pool).await?.map(ChangeRequestRow::request).transpose()
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
        rows.fetch_all(&self.pool).await?.into_iter().map(ChangeRequestRow::request).collect()
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
        rows.fetch_all(&self.pool).await?.into_iter().map(ChangeRequestRow::request).collect()
    }

    /// Makes the change that somebody else asked for, and ends the request: both or nothing. `false` when the request had
    /// ended before. What the role of who asked may not give back is refused.
    ///
    /// # Errors
    /// There is no such request, it is the operator's own, the till refuses the change, or the database is away.
    pub async fn confirm_change(
        &self,
        operator: &Operator,
        app_id: &AppId,
        reference: &CreditRef,
    ) -> Result<bool, OperationError> {
        self.end_request(operator, app_id, reference, RequestState::Confirmed).await
    }

    /// Refuses a request. Who asked may do it too. `false` when the request had ended before.
    ///
    /// # Errors
    /// There is no such request, or the database is away.
    pub async fn refuse_change(
        &self,
        operator: &Operator,
        app_id: &AppId,
        reference: &CreditRef,
    ) -> Result<bool, OperationError> {
        self.end_request(operator, app_id, reference, RequestState::Refused).await
    }

    async fn end_request(
        &self,
        operator: &Operator,
        app_id: &AppId,
        reference: &CreditRef,
        end: RequestState,
    ) -> Result<bool, OperationError> {
        // What was asked for never changes.
        let request = self.change_request(app_id, reference).await?;
        let limit = self.limit_of(&request.ok_or_else(|| unknown_request(app_id, reference))?).await?;
        let engine = self.engine.get();
        let context = (operator.clone(), app_id.clone(), reference.clone());
        let ended = self.transaction(context, move |connection, (operator, app_id, reference)| {
            Box::pin(async move {
                let request = lock(connection, operator, app_id, reference, end).await?;
                let Some(ChangeRequest { open_id, command, asked_by, .. }) = request else {
                    return Ok::<_, OperationError>(false);
                };
                let action = if end == RequestState::Confirmed {
                    let player = (app_id, &open_id);
                    write_change(connection, engine, (operator, limit), player, &command).await?;
                    OperatorAction::ChangeRequestConfirm
                } else {
                    OperatorAction::ChangeRequestRefuse
                };
                let before = state_of(&command, RequestState::Waiting, &asked_by);
                let after = state_of(&command, end, &asked_by);
                let line = LogLine::new(operator, action, open_id.as_str()).of_app(app_id).before(before);
                line.after(after).note(command.note()).record(connection).await?;
                Ok(true)
            })
        });
        let ended = ended.await?;
        self.events.notify_one();
        Ok(ended)
    }

    /// How much of its exchange a request may give back, by the role of who asked.
    async fn limit_of(&self, request: &ChangeRequest) -> Result<Option<GiveBackLimit>> {
        let (Some(max), Some((biz_no, _))) = (request.give_back_max, request.command.given_back()) else {
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
    (app_id, open_id): (&AppId, &OpenId),
    command: &WalletCommand,
) -> Result<()> {
    let (free, charged) = command.purses().unwrap_or_default();
    let (of, amount) = command.given_back().map(|(biz_no, amount)| (biz_no.as_str(), amount.get())).unzip();
    let asked = sqlx::query!(
        "INSERT INTO console_requests
             (app_id, ref, kind, open_id, free, charge, create_wallet, of_biz_no, amount, reason, asked_by,
              give_back_max)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (app_id, ref) DO NOTHING",
        app_id.as_str(),
        command.reference().as_str(),
        command.kind().as_str(),
        open_id.as_str(),
        free,
        charged,
        command.makes_known(),
        of,
        amount,
        command.note(),
        operator.name(),
        of.and(operator.give_back_max())
    );
    if asked.execute(&mut *connection).await?.rows_affected() == 0 {
        return Ok(());
    }
    let line = LogLine::new(operator, OperatorAction::ChangeRequestAsk, open_id.as_str()).of_app(app_id);
    let after = state_of(command, RequestState::Waiting, operator.name());
    line.after(after).note(command.note()).record(connection).await
}

/// Locks a request that waits, and marks its end. `None` when it has ended before. The row stays locked until the
/// transaction ends, so of two ends at the same time one finds that the other was first.
async fn lock(
    connection: &mut PgConnection,
    operator: &Operator,
    app_id: &AppId,
    reference: &CreditRef,
    end: RequestState,
) -> Result<Option<ChangeRequest>, OperationError> {
    let row = requests!("WHERE app_id = $2 AND ref = $3 FOR UPDATE", app_id.as_str(), reference.as_str());
    let row = row.fetch_optional(&mut *connection).await?;
    let request = row.ok_or_else(|| unknown_request(app_id, reference))?.request()?;
    if request.state != RequestState::Waiting {
        return Ok(None);
    }
    if end == RequestState::Confirmed && request.asked_by == operator.name() {
        return Err(own_request().into());
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
    Ok(Some(request))
}

/// A request in the operator's log.
fn state_of(command: &WalletCommand, state: RequestState, asked_by: &str) -> Value {
    let mut shown = json!({
        "ref": command.reference().as_str(),
        "kind": command.kind().as_str(),
        "state": state,
        "asked_by": asked_by,
    });
    if let Some((free, charge)) = command.purses() {
        shown["free"] = free.into();
        shown["charge"] = charge.into();
    }
    if let Some((biz_no, amount)) = command.given_back() {
        shown["biz_no"] = biz_no.as_str().into();
        shown["amount"] = amount.get().into();
    }
    shown
}
