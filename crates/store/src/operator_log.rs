//! The operator's log (contract 8.5): who changed what, when, from what to what. A line is written
//! in the transaction of the change. No statement here changes or deletes a line.

use std::fmt;

use domain::fields::Expected;
use domain::ids::AppId;
use domain::operator::Operator;
use serde::Serialize;
use serde_json::{Map, Value};
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::idempotency::store_answer;
use super::{Store, StoreError};
use crate::secrets::random_bytes;

domain::word_enum! {
    /// The actions of operators. The word is the command, with points.
    pub(super) enum Action {
        AppCreate = "app.create",
        AppChange = "app.change",
        AppSuspend = "app.suspend",
        AppResume = "app.resume",
        AppRotatePayKey = "app.rotate_pay_key",
        AppRotateSecret = "app.rotate_secret",
        AppPublish = "app.publish",
        AppLimit = "app.limit",
        AppAddPois = "app.poi.add",
        AppAddPreorders = "app.preorder.add",
        TokenIssue = "token.issue",
        TokenRevoke = "token.revoke",
        UserAdd = "user.add",
        WalletCredit = "wallet.credit",
        /// One credit of an import. The file has a line of its own.
        WalletImportCredit = "wallet.import.credit",
        WalletImport = "wallet.import",
        ImageBlock = "image.block",
        ImageUnblock = "image.unblock",
        /// A rotation begins: another key encrypts from here on.
        MasterKeyRotate = "master_key.rotate",
        /// A rotation ends: no secret needs the former key.
        MasterKeyRotated = "master_key.rotated",
        ConsoleUserAdd = "console_user.add",
        ConsoleUserSetPassword = "console_user.set_password",
        ConsoleUserSetRole = "console_user.set_role",
        ConsoleUserUnlock = "console_user.unlock",
        ConsoleUserRemove = "console_user.remove",
        ApiKeyCreate = "api_key.create",
        ApiKeyRevoke = "api_key.revoke",
    }
}

/// A new line. It never holds a secret.
pub(super) struct LogLine<'a> {
    pub(super) operator: &'a Operator,
    pub(super) action: Action,
    /// `None` for a change that concerns all apps.
    pub(super) app_id: Option<&'a AppId>,
    pub(super) subject: &'a str,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
    pub(super) note: &'a str,
}

impl<'a> LogLine<'a> {
    /// A line that concerns all apps, without states and note.
    pub(super) fn new(operator: &'a Operator, action: Action, subject: &'a str) -> Self {
        Self { operator, action, app_id: None, subject, before: None, after: None, note: "" }
    }
}

/// Writes a line. `connection` must be in the transaction of the change.
pub(super) async fn record(connection: &mut PgConnection, line: LogLine<'_>) -> Result<(), StoreError> {
    record_with_answer(connection, line, Map::new()).await
}

/// Writes a line. For an idempotent request it also keeps the answer. `answer` may hold a secret
/// that is shown once; the line never does.
pub(super) async fn record_with_answer(
    connection: &mut PgConnection,
    line: LogLine<'_>,
    answer: Map<String, Value>,
) -> Result<(), StoreError> {
    if let Some(request) = line.operator.request() {
        store_answer(&mut *connection, request, &request.answered(answer)).await?;
    }
    // Without a note of its own, the line gets the reason that the operator gave for the request.
    let note = if line.note.is_empty() { line.operator.reason() } else { line.note };
    // Not the start of the transaction: a change that waited for a lock must come after the other
    // change.
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

/// The members of an answer to an operator.
pub(super) fn answer<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A filter of lines. The default lets all lines through but single credits of imports.
#[derive(Debug, Clone, Default)]
pub struct OperatorLogFilter {
    /// At or after this time.
    pub since: Option<OffsetDateTime>,
    /// Before this time.
    pub until: Option<OffsetDateTime>,
    /// Only of this app.
    pub app_id: Option<AppId>,
    /// With this subject, or with this value before or after. It includes single credits of imports.
    pub subject: Option<String>,
    /// With this text in the operator's name.
    pub operator: Option<String>,
    /// Include single credits of imports.
    pub with_imported_credits: bool,
}

/// A line of the operator's log.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct OperatorLogLine {
    /// Database time.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: OffsetDateTime,
    /// `command_line`, `console` or `api_key`.
    #[schemars(extend("enum" = ["command_line", "console", "api_key"]))]
    pub operator_kind: String,
    /// Name of the operator.
    pub operator: String,
    /// The action, such as `app.suspend`.
    pub action: String,
    /// The app. Empty for a change that concerns all apps.
    pub app_id: String,
    /// The object of the action.
    pub subject: String,
    /// State before the change.
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    pub before: Option<Value>,
    /// State after the change.
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    pub after: Option<Value>,
    /// The operator's reason. It may be empty.
    pub note: String,
    /// Random number that distinguishes lines of the same time.
    #[serde(skip)]
    id: i64,
}

impl OperatorLogLine {
    /// The cursor of the lines that are older than this one.
    #[must_use]
    pub fn cursor(&self) -> OperatorLogCursor {
        OperatorLogCursor { at: self.at, id: self.id }
    }
}

/// A position in the log, newest first. Its text form can be part of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatorLogCursor {
    at: OffsetDateTime,
    id: i64,
}

impl OperatorLogCursor {
    /// Parses the text form.
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
    /// At most `limit` of the newest lines that match `filter`, newest last.
    pub async fn operator_log(
        &self,
        filter: &OperatorLogFilter,
        limit: u32,
    ) -> Result<Vec<OperatorLogLine>, StoreError> {
        let mut lines = self.operator_log_page(filter, None, limit).await?;
        lines.reverse();
        Ok(lines)
    }

    /// At most `limit` lines that match `filter` and are older than `after`, newest first.
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
