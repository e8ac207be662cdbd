//! The end of a request: another admin confirms it, or somebody refuses it.

use domain::ids::{AppId, CreditRef};
use domain::operation::account::{AccountChange, request_differs, user_differs};
use domain::operation::user::UserCommand;
use domain::operation::wallet::{GiveBackLimit, own_request, unknown_request};
use domain::operator::Operator;
use domain::operator_log::ChainedLine;
use sqlx::PgConnection;

use super::ask::shown;
use super::row::{WAITS_DAYS, requests};
use super::second_person::{require_right, require_two_people};
use super::{ChangeRequest, RequestState, RequestedChange};
use crate::api_key::insert_key;
use crate::console_user::carry_out;
use crate::error::{OperationError, Result, StoreError};
use crate::operator_log::{
    LogLine, OperatorAction, StateSubject, SubjectKind, ToldStates, differences, state_of,
};
use crate::store::Store;
use crate::wallet::{begin_gift, write_change};

impl Store {
    /// Makes the change that somebody else asked for, and ends the request: both or nothing. `false` when the request had
    /// ended before. A give-back above the limit of the requester's role is refused.
    ///
    /// # Errors
    /// There is no such request, it is the operator's own, or the two may be one person. Who asked may no longer ask,
    /// or the row is not what the operator's log tells. The till refuses the change, or the database is away.
    pub async fn confirm_change(
        &self,
        operator: &Operator,
        app_id: &str,
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
        app_id: &str,
        reference: &CreditRef,
    ) -> Result<bool, OperationError> {
        self.end_request(operator, app_id, reference, RequestState::Refused).await
    }

    async fn end_request(
        &self,
        operator: &Operator,
        app_id: &str,
        reference: &CreditRef,
        end: RequestState,
    ) -> Result<bool, OperationError> {
        // What was asked for never changes.
        let request = self.change_request(app_id, reference).await?;
        let limit = self.limit_of(&request.ok_or_else(|| unknown_request(app_id, reference))?.change).await?;
        let context = (self.clone(), operator.clone(), app_id.to_owned(), reference.clone());
        let ended = self.transaction(context, move |connection, (store, operator, app_id, reference)| {
            Box::pin(async move {
                let Some(request) = lock_if_waiting(connection, app_id, reference).await? else {
                    return Ok::<_, OperationError>(false);
                };
                if end == RequestState::Confirmed {
                    require_may_confirm(connection, app_id, &request, operator.name()).await?;
                }
                mark_ended(connection, (app_id, reference), end, operator.name()).await?;
                let ChangeRequest { change, asked_by, .. } = request;
                let action = if end == RequestState::Confirmed {
                    let confirming = operator.clone().confirming(&asked_by);
                    store.make(connection, &confirming, limit, (reference, &change)).await?;
                    OperatorAction::ChangeRequestConfirm
                } else {
                    OperatorAction::ChangeRequestRefuse
                };
                let before = shown(reference, &change, RequestState::Waiting, &asked_by);
                let after = shown(reference, &change, end, &asked_by);
                let line =
                    LogLine::new(operator, action, change.subject_of(reference)).before(before).after(after);
                line.of_app_if_any(change.app()).note(change.note()).record(connection).await?;
                Ok(true)
            })
        });
        let ended = ended.await?;
        self.events.notify_one();
        Ok(ended)
    }

    /// How much of its exchange a request may give back, by the role of who asked.
    async fn limit_of(&self, change: &RequestedChange) -> Result<Option<GiveBackLimit>> {
        let RequestedChange::Wallet { app_id, command, give_back_max, .. } = change else { return Ok(None) };
        let (Some(max), Some((biz_no, _))) = (*give_back_max, command.given_back()) else { return Ok(None) };
        let exchange = self.exchange(app_id, biz_no, false).await?;
        let exchange = exchange.ok_or_else(|| StoreError::damaged("console_requests"))?;
        Ok(Some(exchange.give_back_limit(max)))
    }

    /// Makes what was asked for.
    async fn make(
        &self,
        connection: &mut PgConnection,
        operator: &Operator,
        limit: Option<GiveBackLimit>,
        (reference, change): (&CreditRef, &RequestedChange),
    ) -> Result<(), OperationError> {
        let change = match change {
            RequestedChange::Gift { app_id, .. } => {
                begin_gift(connection, operator, app_id, reference).await?;
                return Ok(());
            }
            RequestedChange::Wallet { app_id, open_id, command, .. } => {
                let (engine, player) = (self.engine.get(), (app_id, open_id));
                write_change(connection, engine, (operator, limit), player, command).await?;
                return Ok(());
            }
            RequestedChange::Account(change) => change.clone(),
        };
        let (name, command) = match change {
            AccountChange::AddUser(name, rights, password) => (name, UserCommand::Add(rights, password)),
            AccountChange::SetRights(name, rights) => (name, UserCommand::Rights(rights)),
            AccountChange::ResetSecondFactor(name) => (name, UserCommand::ResetSecondFactor),
            AccountChange::CreateKey(key, hash) => {
                return insert_key(connection, operator, &key, &hash).await;
            }
        };
        carry_out(self, connection, operator, &name, &command).await
    }
}

/// Locks a request that waits. `None` when it has ended before. The row stays locked until the transaction ends, so of
/// two ends at the same time one finds that the other was first.
async fn lock_if_waiting(
    connection: &mut PgConnection,
    app_id: &str,
    reference: &CreditRef,
) -> Result<Option<ChangeRequest>, OperationError> {
    let row = requests!("WHERE app_id = $2 AND ref = $3 FOR UPDATE", app_id, reference.as_str());
    let row = row.fetch_optional(&mut *connection).await?;
    let request = row.ok_or_else(|| unknown_request(app_id, reference))?.request()?;
    Ok(Some(request).filter(|request| request.state == RequestState::Waiting))
}

/// Refuses a confirmation by whoever asked or may be the same person, of a request that is not as the operator's log
/// tells, and of one whose asker may no longer ask.
async fn require_may_confirm(
    connection: &mut PgConnection,
    app_id: &str,
    request: &ChangeRequest,
    confirmer: &str,
) -> Result<(), OperationError> {
    if request.asked_by == confirmer {
        return Err(own_request().into());
    }
    require_as_told(connection, app_id, request, confirmer).await?;
    require_two_people(connection, &request.asked_by, confirmer).await?;
    require_right(connection, request).await
}

/// Marks the end of a request.
async fn mark_ended(
    connection: &mut PgConnection,
    (app_id, reference): (&str, &CreditRef),
    end: RequestState,
    ended_by: &str,
) -> Result<()> {
    sqlx::query!(
        "UPDATE console_requests SET state = $3, ended_by = $4, ended_at = clock_timestamp(), secret = NULL
         WHERE app_id = $1 AND ref = $2",
        app_id,
        reference.as_str(),
        end.as_str(),
        ended_by
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Refuses the requests for changes of a player that wait, because the player is erased. Returns their refs. Whoever calls it
/// records them in the operator's log, as its last step ([`log_refused`]).
pub(crate) async fn refuse_requests_of(
    connection: &mut PgConnection,
    operator: &Operator,
    app_id: &AppId,
    open_id: &str,
) -> Result<Vec<String>> {
    let refused = sqlx::query_scalar!(
        "UPDATE console_requests SET state = $4, ended_by = $3, ended_at = clock_timestamp()
         WHERE app_id = $1 AND open_id = $2 AND state = 'waiting'
             AND asked_at > clock_timestamp() - make_interval(days => $5)
         RETURNING ref",
        app_id.as_str(),
        open_id,
        operator.name(),
        RequestState::Refused.as_str(),
        WAITS_DAYS
    );
    Ok(refused.fetch_all(connection).await?)
}

/// Records requests that the erasure of their player has refused. Their rows have the pseudonym already.
pub(crate) async fn log_refused(
    connection: &mut PgConnection,
    operator: &Operator,
    app_id: &AppId,
    references: &[String],
) -> Result<()> {
    // The answer to the call is that of the erasure, which has a line of its own.
    let operator = Operator::new(operator.kind(), operator.name());
    let operator = operator.map_err(|_| StoreError::Internal("an operator without a name".to_owned()))?;
    for reference in references {
        let row = requests!("WHERE app_id = $2 AND ref = $3", app_id.as_str(), reference.as_str());
        let request = row.fetch_one(&mut *connection).await?.request()?;
        let ChangeRequest { reference, change, asked_by, .. } = request;
        let before = shown(&reference, &change, RequestState::Waiting, &asked_by);
        let after = shown(&reference, &change, RequestState::Refused, &asked_by);
        let line =
            LogLine::new(&operator, OperatorAction::ChangeRequestRefuse, change.subject_of(&reference));
        let line = line.of_app(app_id).before(before).after(after);
        line.note("the player was erased").record(&mut *connection).await?;
    }
    Ok(())
}

/// Refuses a request that is not as the operator's log tells, and one of a user who is not.
async fn require_as_told(
    connection: &mut PgConnection,
    app_id: &str,
    request: &ChangeRequest,
    confirmer: &str,
) -> Result<(), OperationError> {
    let subject = |kind, app_id: &str, name: &str| StateSubject {
        kind,
        app_id: app_id.to_owned(),
        name: name.to_owned(),
    };
    let asked = subject(SubjectKind::Request, app_id, request.reference.as_str());
    if !is_as_told(connection, &asked, request.change.subject_of(&request.reference)).await? {
        return Err(request_differs(&request.reference).into());
    }
    for name in [&request.asked_by, confirmer] {
        if !is_as_told(connection, &subject(SubjectKind::User, "", name), name).await? {
            return Err(user_differs(name).into());
        }
    }
    Ok(())
}

/// Whether what is there, or is not, is what the lines of this subject tell.
async fn is_as_told(
    connection: &mut PgConnection,
    of: &StateSubject,
    subject: &str,
) -> Result<bool, OperationError> {
    let lines = sqlx::query!(
        "SELECT seq, operator, action, subject, after::text, state::text FROM operator_log
         WHERE (app_id = $1 AND subject = $2 AND action ~ '^(change_request|console_user)[.]')
             OR action = 'master_key.rotate'
         ORDER BY seq",
        of.app_id,
        subject
    );
    let mut told = ToldStates::default();
    for line in lines.fetch_all(&mut *connection).await.map_err(StoreError::from)? {
        told.take(&ChainedLine {
            seq: line.seq,
            app_id: &of.app_id,
            operator: &line.operator,
            action: &line.action,
            subject: &line.subject,
            after: line.after.as_deref(),
            state: line.state.as_deref(),
            ..ChainedLine::default()
        });
    }
    let is = state_of(connection, of).await?;
    let told = told.0.get(of).filter(|told| told.is_there);
    Ok(match (told, is) {
        (Some(told), Some(is)) => differences(&told.members, &is).is_empty(),
        (told, is) => told.is_none() && is.is_none(),
    })
}
