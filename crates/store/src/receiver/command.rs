//! Carries out the commands of operators to receivers. A command, its line in the operator's log and the answer that is
//! kept for an idempotent request are one transaction.

use domain::event::{EventId, EventType};
use domain::ids::AppId;
use domain::moment::rfc3339;
use domain::operation::receiver::{
    AddedReceiver, NewReceiver, NewReceiverSecret, ReceiverCommand, ReceiverReport, RemovedReceiver, Resend,
    Resent, no_own_secret, too_many_receivers, unknown_event, unknown_receiver,
};
use domain::operation::unknown_app;
use domain::operator::Operator;
use domain::receiver::{RECEIVERS_MAX, Receiver, ReceiverFormat, ReceiverId, TimeBounds};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::{new_secret, receiver_rows};
use crate::app::app_exists;
use crate::error::{OperationError, Result, StoreError};
use crate::event::{ROWS_AT_ONCE, event_key, number_some};
use crate::operator_log::{LogLine, OperatorAction};
use crate::secrets::random_bytes;
use crate::store::Store;

/// The transaction of a command: who changes receivers of which app.
pub(super) struct ReceiverUpdate {
    store: Store,
    operator: Operator,
    pub(super) app_id: AppId,
}

impl Store {
    /// Adds a receiver of the seed of a sandbox server, with a secret that its game knows.
    pub async fn add_seed_receiver(
        &self,
        operator: &Operator,
        app_id: &AppId,
        new: NewReceiver,
        secret: Option<String>,
    ) -> Result<ReceiverReport, OperationError> {
        let update =
            ReceiverUpdate { store: self.clone(), operator: operator.clone(), app_id: app_id.clone() };
        let context = (update, new, secret.unwrap_or_else(new_secret));
        self.transaction(context, |connection, (update, new, secret)| {
            Box::pin(update.add(connection, new, secret.clone()))
        })
        .await
    }

    /// Carries out a command to receivers and reports what was done. The report is also the answer that is kept for the
    /// operator's idempotent request, if it is one. A form has the mark that its page showed, in `seen`: it does nothing
    /// when the receivers have another one now. So a form that is sent twice neither adds a second receiver nor retires a
    /// secret that was just shown.
    ///
    /// # Errors
    /// The command does not fit what is there, or the database is away.
    pub async fn change_receivers(
        &self,
        operator: &Operator,
        app_id: &AppId,
        command: ReceiverCommand,
        seen: Option<&str>,
    ) -> Result<ReceiverReport, OperationError> {
        let update =
            ReceiverUpdate { store: self.clone(), operator: operator.clone(), app_id: app_id.clone() };
        let context = (update, command, seen.map(str::to_owned));
        self.transaction(context, |connection, (update, command, seen)| {
            Box::pin(async move {
                if let Some(seen) = seen {
                    update.require_mark(connection, command, seen).await?;
                }
                update.carry_out(connection, command).await
            })
        })
        .await
    }
}

impl ReceiverUpdate {
    async fn carry_out(
        &self,
        connection: &mut PgConnection,
        command: &ReceiverCommand,
    ) -> Result<ReceiverReport, OperationError> {
        match command {
            ReceiverCommand::Add(new) => self.add(connection, new, new_secret()).await,
            ReceiverCommand::Pause(id) => self.pause(connection, id).await,
            ReceiverCommand::Resume(id) => self.resume(connection, id).await,
            ReceiverCommand::Remove(id) => self.remove(connection, id).await,
            ReceiverCommand::RotateSecret(id) => self.rotate_secret(connection, id).await,
            ReceiverCommand::Resend(id, Resend::One(event_id)) => {
                self.resend_one(connection, id, *event_id).await
            }
            ReceiverCommand::Resend(id, Resend::Failed(span)) => {
                self.resend_failed(connection, id, *span).await
            }
        }
    }

    /// Adds a receiver. It gets what is committed after this transaction, so all events before it get their numbers here.
    async fn add(
        &self,
        connection: &mut PgConnection,
        new: &NewReceiver,
        secret: String,
    ) -> Result<ReceiverReport, OperationError> {
        // The lock makes two additions take turns.
        self.lock_app(connection).await?;
        let count = sqlx::query_scalar!(
            r#"SELECT count(*) AS "count!" FROM receivers WHERE app_id = $1"#,
            self.app_id.as_str()
        );
        if count.fetch_one(&mut *connection).await.map_err(StoreError::from)? >= RECEIVERS_MAX {
            return Err(too_many_receivers().into());
        }
        while number_some(&mut *connection, true, None).await? == ROWS_AT_ONCE {}
        let receiver_id = ReceiverId::new(random_bytes());
        // Each row has one. In the platform format nothing is signed with it, and nobody is told.
        let sealed = self.store.encrypting_key(&mut *connection).await?.seal(&self.app_id, &secret);
        let secret = (new.format == ReceiverFormat::Standard).then_some(secret);
        sqlx::query!(
            "INSERT INTO receivers (app_id, receiver_id, url, types, format, secret, through_no)
             SELECT $1, $2, $3, $4, $5, $6, last_no FROM event_head",
            self.app_id.as_str(),
            receiver_id.as_str(),
            new.url.as_str(),
            &new.events.iter().map(ToString::to_string).collect::<Vec<_>>(),
            new.format.as_str(),
            sealed
        )
        .execute(&mut *connection)
        .await
        .map_err(StoreError::from)?;
        let receiver = self.read(connection, &receiver_id).await?;
        let line = self.line(OperatorAction::ReceiverAdd, &receiver_id).after(shown(&receiver));
        let report = ReceiverReport::Added(Box::new(AddedReceiver { receiver, secret }));
        line.answer(&report).record(connection).await?;
        Ok(report)
    }

    async fn pause(
        &self,
        connection: &mut PgConnection,
        id: &ReceiverId,
    ) -> Result<ReceiverReport, OperationError> {
        let before = self.locked(connection, id).await?;
        sqlx::query!(
            "UPDATE receivers SET paused_at = coalesce(paused_at, now()), paused_by = 'operator'
             WHERE app_id = $1 AND receiver_id = $2",
            self.app_id.as_str(),
            id.as_str()
        )
        .execute(&mut *connection)
        .await
        .map_err(StoreError::from)?;
        self.changed(connection, OperatorAction::ReceiverPause, id, &before).await
    }

    /// Resumes a receiver. What waited for it is sent now.
    async fn resume(
        &self,
        connection: &mut PgConnection,
        id: &ReceiverId,
    ) -> Result<ReceiverReport, OperationError> {
        let before = self.locked(connection, id).await?;
        sqlx::query!(
            "UPDATE receivers SET paused_at = NULL, paused_by = NULL WHERE app_id = $1 AND receiver_id = $2",
            self.app_id.as_str(),
            id.as_str()
        )
        .execute(&mut *connection)
        .await
        .map_err(StoreError::from)?;
        if before.paused_by.is_some() {
            // What is due already may have a try under way, which keeps its time.
            sqlx::query!(
                "UPDATE deliveries SET next_at = now()
                 WHERE app_id = $1 AND receiver_id = $2 AND state = 'waiting' AND next_at > now()",
                self.app_id.as_str(),
                id.as_str()
            )
            .execute(&mut *connection)
            .await
            .map_err(StoreError::from)?;
        }
        self.changed(connection, OperatorAction::ReceiverResume, id, &before).await
    }

    async fn remove(
        &self,
        connection: &mut PgConnection,
        id: &ReceiverId,
    ) -> Result<ReceiverReport, OperationError> {
        let before = self.locked(connection, id).await?;
        sqlx::query!(
            "WITH gone AS (DELETE FROM deliveries WHERE app_id = $1 AND receiver_id = $2)
             DELETE FROM receivers WHERE app_id = $1 AND receiver_id = $2",
            self.app_id.as_str(),
            id.as_str()
        )
        .execute(&mut *connection)
        .await
        .map_err(StoreError::from)?;
        let (app_id, receiver_id) = (self.app_id.clone(), id.clone());
        let report = ReceiverReport::Removed(RemovedReceiver { app_id, receiver_id, removed: true });
        let line = self.line(OperatorAction::ReceiverRemove, id).before(shown(&before));
        line.answer(&report).record(connection).await?;
        Ok(report)
    }

    async fn rotate_secret(
        &self,
        connection: &mut PgConnection,
        id: &ReceiverId,
    ) -> Result<ReceiverReport, OperationError> {
        if self.locked(connection, id).await?.format == ReceiverFormat::Platform {
            return Err(no_own_secret().into());
        }
        let secret = new_secret();
        let sealed = self.store.encrypting_key(&mut *connection).await?.seal(&self.app_id, &secret);
        sqlx::query!(
            "UPDATE receivers SET former_secret = secret, former_until = now() + interval '24 hours', secret = $3,
                 secret_made_at = now() WHERE app_id = $1 AND receiver_id = $2",
            self.app_id.as_str(),
            id.as_str(),
            sealed
        )
        .execute(&mut *connection)
        .await
        .map_err(StoreError::from)?;
        let (app_id, receiver_id) = (self.app_id.clone(), id.clone());
        let report = ReceiverReport::Rotated(NewReceiverSecret { app_id, receiver_id, secret });
        self.line(OperatorAction::ReceiverRotateSecret, id).answer(&report).record(connection).await?;
        Ok(report)
    }

    /// Sends an event again, whatever became of it. Its schedule begins anew, also for the end of a try that is under way:
    /// that knows another `next_at`.
    async fn resend_one(
        &self,
        connection: &mut PgConnection,
        id: &ReceiverId,
        event_id: EventId,
    ) -> Result<ReceiverReport, OperationError> {
        let receiver = self.locked(connection, id).await?;
        let event = event_key(&mut *connection, &self.app_id, event_id).await?;
        let wanted = |of: EventType| receiver.events.is_empty() || receiver.events.contains(&of);
        let event = event.filter(|event| wanted(event.event_type));
        let event = event.ok_or_else(|| unknown_event(event_id))?;
        sqlx::query!(
            "INSERT INTO deliveries (app_id, receiver_id, event_no, event_id, event_at, type, state, tries, next_at)
             VALUES ($1, $2, $3, $4, $5, $6, 'waiting', 0, now())
             ON CONFLICT (app_id, receiver_id, event_no) DO UPDATE SET state = 'waiting', tries = 0, next_at = now()",
            self.app_id.as_str(),
            id.as_str(),
            event.no,
            event_id.as_text(),
            event.at,
            event.event_type.as_str()
        )
        .execute(&mut *connection)
        .await
        .map_err(StoreError::from)?;
        self.resent(connection, id, 1, json!({ "event_id": event_id.as_text() })).await
    }

    async fn resend_failed(
        &self,
        connection: &mut PgConnection,
        id: &ReceiverId,
        TimeBounds { since, until }: TimeBounds,
    ) -> Result<ReceiverReport, OperationError> {
        self.locked(connection, id).await?;
        let resent = sqlx::query!(
            "UPDATE deliveries SET state = 'waiting', tries = 0, next_at = now()
             WHERE app_id = $1 AND receiver_id = $2 AND state = 'failed'
                 AND ($3::timestamptz IS NULL OR event_at >= $3) AND ($4::timestamptz IS NULL OR event_at < $4)",
            self.app_id.as_str(),
            id.as_str(),
            since,
            until
        )
        .execute(&mut *connection)
        .await
        .map_err(StoreError::from)?
        .rows_affected();
        let span = json!({ "since": since.map(rfc3339), "until": until.map(rfc3339) });
        self.resent(connection, id, resent, span).await
    }

    async fn resent(
        &self,
        connection: &mut PgConnection,
        id: &ReceiverId,
        resent: u64,
        what: Value,
    ) -> Result<ReceiverReport, OperationError> {
        let report = ReceiverReport::Resent(Resent { resent });
        if resent == 0 && self.operator.request().is_none() {
            return Ok(report);
        }
        let mut after = what;
        after["resent"] = resent.into();
        self.line(OperatorAction::ReceiverResend, id).after(after).answer(&report).record(connection).await?;
        Ok(report)
    }

    /// Logs and reports a change of the receiver's state.
    async fn changed(
        &self,
        connection: &mut PgConnection,
        action: OperatorAction,
        id: &ReceiverId,
        before: &Receiver,
    ) -> Result<ReceiverReport, OperationError> {
        let after = self.read(connection, id).await?;
        let report = ReceiverReport::Changed(Box::new(after.clone()));
        if after.paused_by == before.paused_by {
            return Ok(report);
        }
        let line = self.line(action, id).before(json!({ "state": before.state }));
        line.after(json!({ "state": after.state })).answer(&report).record(connection).await?;
        Ok(report)
    }

    pub(super) async fn lock_app(&self, connection: &mut PgConnection) -> Result<(), OperationError> {
        let app =
            sqlx::query_scalar!("SELECT 1 FROM apps WHERE app_id = $1 FOR UPDATE", self.app_id.as_str());
        match app.fetch_optional(connection).await.map_err(StoreError::from)? {
            Some(_) => Ok(()),
            None => Err(unknown_app(&self.app_id).into()),
        }
    }

    /// Reads a receiver and locks its row.
    pub(super) async fn locked(
        &self,
        connection: &mut PgConnection,
        id: &ReceiverId,
    ) -> Result<Receiver, OperationError> {
        let locked = sqlx::query_scalar!(
            "SELECT 1 FROM receivers WHERE app_id = $1 AND receiver_id = $2 FOR UPDATE",
            self.app_id.as_str(),
            id.as_str()
        );
        if locked.fetch_optional(&mut *connection).await.map_err(StoreError::from)?.is_some() {
            return Ok(self.read(connection, id).await?);
        }
        let is_known = app_exists(&mut *connection, &self.app_id).await?;
        let refusal = if is_known { unknown_receiver(&self.app_id, id) } else { unknown_app(&self.app_id) };
        Err(refusal.into())
    }

    async fn read(&self, connection: &mut PgConnection, id: &ReceiverId) -> Result<Receiver> {
        let row = receiver_rows!("WHERE app_id = $1 AND receiver_id = $2", self.app_id.as_str(), id.as_str());
        row.fetch_one(connection).await?.try_into()
    }

    fn line<'a>(&'a self, action: OperatorAction, id: &'a ReceiverId) -> LogLine<'a> {
        LogLine::new(&self.operator, action, id.as_str()).of_app(&self.app_id)
    }
}

/// What the operator's log shows of a receiver.
fn shown(receiver: &Receiver) -> Value {
    json!({ "url": receiver.url, "events": receiver.events, "format": receiver.format })
}
