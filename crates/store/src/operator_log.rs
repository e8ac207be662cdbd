//! The operator's log: who changed what, when, from what to what. A line is written in the very
//! transaction that makes the change. There is no statement here that changes or deletes one.

use std::fmt;

use domain::fields::Expected;
use domain::ids::AppId;
use domain::operator::Operator;
use serde::Serialize;
use serde_json::{Map, Value};
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::idempotency::keep_answer;
use super::{Store, StoreError};
use crate::secrets::random_bytes;

/// What an operator can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    AppCreate,
    AppChange,
    AppSuspend,
    AppResume,
    AppRotatePayKey,
    AppRotateSecret,
    AppPublish,
    AppLimit,
    AppAddPois,
    AppAddPreorders,
    TokenIssue,
    TokenRevoke,
    UserAdd,
    WalletCredit,
    /// One credit out of a file; the file has a line of its own.
    WalletImportCredit,
    WalletImport,
    ImageBlock,
    ImageUnblock,
    /// Another key encrypts from here on.
    MasterKeyRotate,
    /// Nothing is under the former key any more.
    MasterKeyRotated,
    ConsoleUserAdd,
    ConsoleUserSetPassword,
    ConsoleUserSetRole,
    ConsoleUserUnlock,
    ConsoleUserRemove,
    ApiKeyCreate,
    ApiKeyRevoke,
}

impl Action {
    /// The word in the database: the command, with a point.
    fn as_str(self) -> &'static str {
        match self {
            Self::AppCreate => "app.create",
            Self::AppChange => "app.change",
            Self::AppSuspend => "app.suspend",
            Self::AppResume => "app.resume",
            Self::AppRotatePayKey => "app.rotate_pay_key",
            Self::AppRotateSecret => "app.rotate_secret",
            Self::AppPublish => "app.publish",
            Self::AppLimit => "app.limit",
            Self::AppAddPois => "app.poi.add",
            Self::AppAddPreorders => "app.preorder.add",
            Self::TokenIssue => "token.issue",
            Self::TokenRevoke => "token.revoke",
            Self::UserAdd => "user.add",
            Self::WalletCredit => "wallet.credit",
            Self::WalletImportCredit => "wallet.import.credit",
            Self::WalletImport => "wallet.import",
            Self::ImageBlock => "image.block",
            Self::ImageUnblock => "image.unblock",
            Self::MasterKeyRotate => "master_key.rotate",
            Self::MasterKeyRotated => "master_key.rotated",
            Self::ConsoleUserAdd => "console_user.add",
            Self::ConsoleUserSetPassword => "console_user.set_password",
            Self::ConsoleUserSetRole => "console_user.set_role",
            Self::ConsoleUserUnlock => "console_user.unlock",
            Self::ConsoleUserRemove => "console_user.remove",
            Self::ApiKeyCreate => "api_key.create",
            Self::ApiKeyRevoke => "api_key.revoke",
        }
    }
}

/// A line to be written. No secret stands in any part of it.
pub(super) struct Line<'a> {
    pub(super) operator: &'a Operator,
    pub(super) action: Action,
    /// `None` for what concerns all apps.
    pub(super) app_id: Option<&'a AppId>,
    pub(super) subject: &'a str,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
    pub(super) note: &'a str,
}

/// Writes a line. `connection` is the one whose transaction makes the change.
pub(super) async fn record(connection: &mut PgConnection, line: Line<'_>) -> Result<(), StoreError> {
    record_and_tell(connection, line, Map::new()).await
}

/// Writes a line, and beside it what the operator is told, where it answers a request that takes effect
/// once. `told` may hold a secret that is shown once; the line never does.
pub(super) async fn record_and_tell(
    connection: &mut PgConnection,
    line: Line<'_>,
    told: Map<String, Value>,
) -> Result<(), StoreError> {
    if let Some(request) = line.operator.request() {
        keep_answer(&mut *connection, request, &request.answered(told)).await?;
    }
    // A reason that the operator gave for whatever this does, where the change has none of its own.
    let note = if line.note.is_empty() { line.operator.reason() } else { line.note };
    // The clock, not the transaction's begin: a change that waited for another's lock comes after it.
    sqlx::query!(
        "INSERT INTO operator_log (app_id, at, id, operator_kind, operator, action, subject, before, after, note)
         VALUES ($1, clock_timestamp(), $2, $3, $4, $5, $6, $7, $8, $9)",
        line.app_id.map_or("", AppId::as_str),
        i64::from_be_bytes(random_bytes()),
        line.operator.kind().as_str(),
        line.operator.name(),
        line.action.as_str(),
        line.subject,
        line.before,
        line.after,
        note
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// What the operator is told, by name.
pub(super) fn told<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Which lines are wanted; the default is all of them but for single credits of imports.
#[derive(Debug, Clone, Default)]
pub struct OperatorLogFilter {
    /// At or after this moment.
    pub since: Option<OffsetDateTime>,
    /// Before this moment.
    pub until: Option<OffsetDateTime>,
    /// Of this app alone.
    pub app_id: Option<AppId>,
    /// With this subject, or with this value in what was or became of it. Single credits of imports too.
    pub subject: Option<String>,
    /// Whose operator's name holds this text.
    pub operator: Option<String>,
    /// Single credits of imports too.
    pub with_imported_credits: bool,
}

/// A line of the operator's log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatorLogLine {
    /// Database time.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// `command_line`, `console` or `api_key`.
    pub operator_kind: String,
    /// Who.
    pub operator: String,
    /// What was done, such as `app.suspend`.
    pub action: String,
    /// The app, or empty.
    pub app_id: String,
    /// To what.
    pub subject: String,
    /// As it stood before, where there was something.
    pub before: Option<Value>,
    /// As it stood after, where there is something.
    pub after: Option<Value>,
    /// The operator's reason; may be empty.
    pub note: String,
    /// Tells lines of one moment apart; see [`OperatorLogLine::cursor`].
    #[serde(skip)]
    id: i64,
}

impl OperatorLogLine {
    /// Where the lines before this one begin.
    #[must_use]
    pub fn cursor(&self) -> OperatorLogCursor {
        OperatorLogCursor { at: self.at, id: self.id }
    }
}

/// A place in the log: the lines after it are those that are older. As text it can stand in an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatorLogCursor {
    at: OffsetDateTime,
    id: i64,
}

impl OperatorLogCursor {
    /// Reads what its `Display` wrote.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let parts = text.split_once('.').and_then(|(micros, id)| {
            let nanos = micros.parse::<i64>().ok().map(|micros| i128::from(micros) * 1000)?;
            Some((OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()?, id.parse().ok()?))
        });
        parts.map(|(at, id)| Self { at, id }).ok_or(Expected::new("a cursor that a page before gave"))
    }
}

impl fmt::Display for OperatorLogCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.at.unix_timestamp_nanos() / 1000, self.id)
    }
}

impl Store {
    /// The newest lines that `filter` lets through, `limit` at most, newest last.
    ///
    /// # Errors
    /// The database is away.
    pub async fn operator_log(
        &self,
        filter: &OperatorLogFilter,
        limit: u32,
    ) -> Result<Vec<OperatorLogLine>, StoreError> {
        let mut lines = self.operator_log_page(filter, None, limit).await?;
        lines.reverse();
        Ok(lines)
    }

    /// The lines that `filter` lets through and that are older than `after`, `limit` at most, newest
    /// first.
    ///
    /// # Errors
    /// The database is away.
    pub async fn operator_log_page(
        &self,
        filter: &OperatorLogFilter,
        after: Option<OperatorLogCursor>,
        limit: u32,
    ) -> Result<Vec<OperatorLogLine>, StoreError> {
        Ok(sqlx::query_as!(
            OperatorLogLine,
            "SELECT at, operator_kind, operator, action, app_id, subject, before, after, note, id
             FROM operator_log
             WHERE ($1::timestamptz IS NULL OR at >= $1) AND ($2::timestamptz IS NULL OR at < $2)
               AND ($3::text IS NULL OR app_id = $3)
               AND ($4::text IS NULL OR subject = $4
                    OR jsonb_path_exists(before, '$.** ? (@ == $s)', jsonb_build_object('s', $4::text))
                    OR jsonb_path_exists(after, '$.** ? (@ == $s)', jsonb_build_object('s', $4::text)))
               AND ($5::text IS NULL OR strpos(operator, $5) > 0)
               AND ($6 OR $4 IS NOT NULL OR action <> 'wallet.import.credit')
               AND ($7::timestamptz IS NULL OR (at, id) < ($7, $8))
             ORDER BY at DESC, id DESC LIMIT $9",
            filter.since,
            filter.until,
            filter.app_id.as_ref().map(AppId::as_str),
            filter.subject,
            filter.operator,
            filter.with_imported_credits,
            after.map(|after| after.at),
            after.map(|after| after.id),
            i64::from(limit)
        )
        .fetch_all(&self.pool)
        .await?)
    }
}
