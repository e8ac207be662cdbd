//! The operator's log (contract 8.5): who changed what, when, from what to what. A line is written
//! in the transaction of the change. No statement deletes a line, and only the erasure of a player changes
//! one ([`crate::player_erasure`]). The lines are a hash chain, which the audit checks.

mod state;

use std::borrow::Cow;

use domain::fields::Expected;
use domain::ids::{AppId, OpenId};
use domain::ledger::micros;
use domain::operator::{Operator, OperatorKind};
use domain::operator_log::ChainedLine;
use domain::rights::Apps;
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::error::{Result, StoreError};
use crate::idempotency::store_answer;
use crate::paging::{CursorKey, TimeCursor};
use crate::search_period::is_bounded;
use crate::secrets::random_bytes;
use crate::store::Store;

pub(crate) use state::{StateSubject, SubjectKind, ToldStates, all_states, differences, state_of};

domain::word_enum! {
    /// The actions of operators. The word is the command, with points.
    pub(super) enum OperatorAction {
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
        LoginCodeIssue = "login_code.issue",
        UserAdd = "user.add",
        WalletCredit = "wallet.credit",
        /// Many credits of one call.
        WalletCredits = "wallet.credits",
        /// A list of credits was started, which a server makes afterwards.
        GiftStart = "gift.start",
        WalletDebit = "wallet.debit",
        WalletCancel = "wallet.cancel",
        WalletFreeze = "wallet.freeze",
        WalletThaw = "wallet.thaw",
        /// Somebody asked for a large change, which waits for a second person.
        ChangeRequestAsk = "change_request.ask",
        ChangeRequestConfirm = "change_request.confirm",
        ChangeRequestRefuse = "change_request.refuse",
        /// What is known about a player was exported. Nothing has changed.
        PlayerExport = "player.export",
        ArchiveWrite = "archive.write",
        ArchiveRestore = "archive.restore",
        ReceiverAdd = "receiver.add",
        ReceiverPause = "receiver.pause",
        ReceiverResume = "receiver.resume",
        ReceiverRemove = "receiver.remove",
        ReceiverRotateSecret = "receiver.rotate_secret",
        ReceiverResend = "receiver.resend",
        SandboxFault = "sandbox.fault",
        /// An app got a new list of prices for top-ups.
        PriceSet = "price.set",
        /// A payment that fitted nothing was credited or paid back.
        TopupSettle = "topup.settle",
        /// A payment was refunded, or a part of it.
        TopupRefund = "topup.refund",
        /// A payment provider got a format and a secret for its callbacks.
        TopupProviderSet = "topup_provider.set",
        TopupProviderRemove = "topup_provider.remove",
        /// The books of a month were closed.
        PeriodClose = "period.close",
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
        ConsoleUserSetSecondFactor = "console_user.set_second_factor",
        ConsoleUserResetSecondFactor = "console_user.reset_second_factor",
        ConsoleUserEndSession = "console_user.end_session",
        ConsoleUserRemove = "console_user.remove",
        ApiKeyCreate = "api_key.create",
        ApiKeyRevoke = "api_key.revoke",
        /// A player was erased. It has the lines whose texts were replaced.
        PlayerErase = "player.erase",
    }
}

/// The words of all actions.
pub const OPERATOR_ACTIONS: &[&str] = &OperatorAction::WORDS;

impl OperatorAction {
    /// The actions whose lines tell of one ledger entry each.
    pub(super) const OF_ENTRIES: [Self; 3] = [Self::WalletCredit, Self::WalletDebit, Self::WalletCancel];
}

/// A new line. It never holds a secret.
pub(super) struct LogLine<'a> {
    operator: &'a Operator,
    action: OperatorAction,
    /// `None` for a change that concerns all apps.
    app_id: Option<&'a AppId>,
    subject: &'a str,
    before: Option<Value>,
    after: Option<Value>,
    note: &'a str,
    answer: Option<Value>,
    credits: Option<String>,
}

/// A credit in the line of many: player, ref, gifted and charged currency before it, and both after it.
#[derive(Debug, Clone, Serialize, serde::Deserialize)]
pub(super) struct ListedCredit<'a>(
    pub(super) Cow<'a, str>,
    pub(super) Cow<'a, str>,
    pub(super) i64,
    pub(super) i64,
    pub(super) i64,
    pub(super) i64,
);

impl<'a> LogLine<'a> {
    /// A line that concerns all apps, without states and note.
    pub(super) fn new(operator: &'a Operator, action: OperatorAction, subject: &'a str) -> Self {
        // Without a note of its own, the line gets the reason that the operator gave for the request.
        let note = operator.reason();
        Self {
            operator,
            action,
            app_id: None,
            subject,
            before: None,
            after: None,
            note,
            answer: None,
            credits: None,
        }
    }

    /// The same line about one app.
    pub(super) fn of_app(self, app_id: &'a AppId) -> Self {
        Self { app_id: Some(app_id), ..self }
    }

    /// The same line about an app, or about none.
    pub(super) fn of_app_if_any(self, app_id: Option<&'a AppId>) -> Self {
        Self { app_id, ..self }
    }

    /// The same line about another subject.
    pub(super) fn on(self, subject: &'a str) -> Self {
        Self { subject, ..self }
    }

    /// The same line with the state before the change, if there was any.
    pub(super) fn before(self, state: impl Into<Option<Value>>) -> Self {
        Self { before: state.into(), ..self }
    }

    /// The same line with the state after the change.
    pub(super) fn after(self, state: Value) -> Self {
        Self { after: Some(state), ..self }
    }

    /// The same line with a note of its own, unless it is empty.
    pub(super) fn note(self, note: &'a str) -> Self {
        if note.is_empty() { self } else { Self { note, ..self } }
    }

    /// The same line with many credits, which the audit compares with the ledger.
    pub(super) fn credits(self, credits: &[ListedCredit<'_>]) -> Self {
        Self { credits: Some(json!(credits).to_string()), ..self }
    }

    /// The same line with what an idempotent request is answered. It may hold a secret that is shown
    /// once; the line never does.
    pub(super) fn answer(self, answer: &impl Serialize) -> Self {
        Self { answer: Some(json!(answer)), ..self }
    }

    /// Writes the line. For an idempotent request it also keeps the answer. `connection` must be in
    /// the transaction of the change. It locks the head of the log until the transaction ends, so
    /// nothing may be locked after it. Then no two changes wait for each other.
    pub(super) async fn record(self, connection: &mut PgConnection) -> Result<()> {
        if let Some(request) = self.operator.request() {
            let answer = self.answer.unwrap_or_else(|| json!({}));
            store_answer(&mut *connection, request, &answer).await?;
        }
        let app_id = self.app_id.map_or("", AppId::as_str);
        let (after, state) =
            with_state(connection, self.operator, self.action, (app_id, self.subject), self.after).await?;
        // Not the start of the transaction: a change that waited for a lock must come after the other
        // change. PostgreSQL writes the states in its own way, and the hash covers what it writes.
        let head = sqlx::query!(
            r#"SELECT seq, chain_hash, clock_timestamp() AS "at!", $1::jsonb::text AS before, $2::jsonb::text AS after,
                   $3::jsonb::text AS state
               FROM operator_log_head FOR UPDATE"#,
            self.before,
            after,
            state
        );
        let head = head.fetch_optional(&mut *connection).await?;
        let head = head.ok_or_else(|| StoreError::damaged("operator_log_head"))?;
        let salt: [u8; 16] = random_bytes();
        let line = ChainedLine {
            seq: head.seq + 1,
            app_id,
            at: micros(head.at),
            id: i64::from_be_bytes(random_bytes()),
            operator_kind: self.operator.kind().as_str(),
            operator: self.operator.name(),
            action: self.action.as_str(),
            subject: self.subject,
            before: head.before.as_deref(),
            after: head.after.as_deref(),
            note: self.note,
            credits: self.credits.as_deref(),
            state: head.state.as_deref(),
            salt: Some(&salt),
            content_hash: &[],
        };
        let content_hash = line.texts_hash();
        let line = ChainedLine { content_hash: &content_hash, ..line };
        let previous = head.chain_hash.try_into().map_err(|_| StoreError::damaged("operator_log_head"))?;
        let chain_hash = line.chain_hash(&previous);
        sqlx::query!(
            "WITH head AS (UPDATE operator_log_head SET seq = $1, chain_hash = $2)
             INSERT INTO operator_log (seq, chain_hash, app_id, at, id, operator_kind, operator, action, subject,
                before, after, note, credits, salt, content_hash, state)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13::text::json, $14, $15, $16)",
            line.seq,
            chain_hash.as_slice(),
            line.app_id,
            head.at,
            line.id,
            line.operator_kind,
            line.operator,
            line.action,
            line.subject,
            self.before,
            after,
            line.note,
            line.credits,
            salt.as_slice(),
            content_hash.as_slice(),
            state
        )
        .execute(connection)
        .await?;
        Ok(())
    }
}

/// The state after a change, with who asked for a change of an account, and the state of its subject that the audit compares.
async fn with_state(
    connection: &mut PgConnection,
    operator: &Operator,
    action: OperatorAction,
    (app_id, subject): (&str, &str),
    mut after: Option<Value>,
) -> Result<(Option<Value>, Option<Value>)> {
    let Some(of) = state::subject_of(action, app_id, subject, after.as_ref()) else {
        return Ok((after, None));
    };
    if let (SubjectKind::User | SubjectKind::ApiKey, Some(asked_by)) = (of.kind, operator.asked_by()) {
        after.get_or_insert_with(|| json!({}))["asked_by"] = asked_by.into();
    }
    let state = state_of(connection, &of).await?.map(Value::Object);
    Ok((after, state))
}

domain::word_enum! {
    /// The operator who makes changes.
    pub enum MadeBy {
        /// Users of the console and of the command line.
        People = "people",
        /// API keys.
        Programs = "programs",
    }
}

/// An action of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedAction(OperatorAction);

impl LoggedAction {
    /// Reads the word of an action.
    ///
    /// # Errors
    /// There is no such action.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let expected = |_| Expected::new("an action of the log, such as app.change");
        OperatorAction::parse(text).map(Self).map_err(expected)
    }

    /// The word.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        self.0.as_str()
    }
}

/// A filter of lines. The default lets all lines through.
#[derive(Debug, Clone, Default)]
pub struct OperatorLogFilter {
    /// At or after this time.
    pub since: Option<OffsetDateTime>,
    /// Before this time.
    pub until: Option<OffsetDateTime>,
    /// Only of this app.
    pub app_id: Option<AppId>,
    /// Only of these apps.
    pub apps: Apps,
    /// With this subject, or with this value before, after or among many credits.
    pub subject: Option<String>,
    /// With this text in the operator's name.
    pub operator: Option<String>,
    /// With this action.
    pub action: Option<LoggedAction>,
    /// Made by these.
    pub by: Option<MadeBy>,
}

impl OperatorLogFilter {
    /// Whether it looks for a text, for which there is no index.
    #[must_use]
    pub fn is_unbounded(&self) -> bool {
        self.subject.is_some() || self.operator.is_some() || self.is_by_column()
    }

    /// Whether it looks for an action, or for people or programs.
    #[must_use]
    pub fn is_by_column(&self) -> bool {
        self.action.is_some() || self.by.is_some()
    }

    /// Whether it does so in no period or in a long one.
    #[must_use]
    pub fn lacks_period(&self, now: OffsetDateTime) -> bool {
        self.is_unbounded() && !is_bounded(self.since, self.until, now)
    }
}

/// A line of the operator's log.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct OperatorLogLine {
    /// Its number in the hash chain, from 1. The audit names lines by it.
    pub seq: i64,
    /// Database time.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: OffsetDateTime,
    /// `command_line`, `console`, `api_key`, or `provider` for a callback.
    #[schemars(extend("enum" = OperatorKind::WORDS))]
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
    pub(crate) id: i64,
}

impl OperatorLogLine {
    /// The cursor of the lines that are older than this one.
    #[must_use]
    pub fn cursor(&self) -> OperatorLogCursor {
        TimeCursor { at: self.at, key: self.id }
    }
}

/// A position in the log, newest first.
pub type OperatorLogCursor = TimeCursor<i64>;

/// A credit in a line of the log, with both changes and both balances after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedCredit {
    /// Its place in the line, from 1.
    pub position: i64,
    /// The player.
    pub open_id: String,
    /// The ref.
    pub reference: String,
    /// Gifted currency that was added.
    pub free: i64,
    /// Charged currency that was added.
    pub charge: i64,
    /// Gifted currency after it.
    pub free_balance: i64,
    /// Charged currency after it.
    pub charge_balance: i64,
}

impl CursorKey for i64 {
    const EXPECTED: &'static str = "a cursor that a page before gave";
}

impl Store {
    /// At most `limit` of the newest lines that match `filter`, newest last.
    pub async fn operator_log(&self, filter: &OperatorLogFilter, limit: u32) -> Result<Vec<OperatorLogLine>> {
        let mut lines = self.operator_log_page(filter, None, limit).await?;
        lines.reverse();
        Ok(lines)
    }

    /// The newest line of this action about a player. The action is none that moves coins: those have no index by player.
    pub(crate) async fn newest_line(
        &self,
        action: OperatorAction,
        app_id: &AppId,
        open_id: &OpenId,
    ) -> Result<Option<OperatorLogLine>> {
        Ok(sqlx::query_as!(
            OperatorLogLine,
            "SELECT seq, at, operator_kind, operator, action, app_id, subject, before, after, note, id FROM operator_log
             WHERE app_id = $1 AND subject = $2 AND action = $3
                 AND action NOT IN ('wallet.credit', 'wallet.debit', 'wallet.cancel')
             ORDER BY at DESC, id DESC LIMIT 1",
            app_id.as_str(),
            open_id.as_str(),
            action.as_str()
        )
        .fetch_optional(&self.pool)
        .await?)
    }

    /// The app of a line of many credits, and those behind a place in it, at most `limit`. `None` for another line, and for
    /// one of other apps.
    pub async fn logged_credits(
        &self,
        apps: &Apps,
        seq: i64,
        after: i64,
        limit: u32,
    ) -> Result<Option<(String, Vec<LoggedCredit>)>> {
        let app_id = sqlx::query_scalar!(
            "SELECT app_id FROM operator_log
             WHERE seq = $1 AND credits IS NOT NULL AND ($2::text[] IS NULL OR app_id = ANY ($2))",
            seq,
            apps.ids()
        );
        let Some(app_id) = app_id.fetch_optional(&self.pool).await? else { return Ok(None) };
        let credits = sqlx::query_as!(
            LoggedCredit,
            r#"SELECT position AS "position!", credit ->> 0 AS "open_id!", credit ->> 1 AS "reference!",
                   (credit ->> 4)::bigint - (credit ->> 2)::bigint AS "free!",
                   (credit ->> 5)::bigint - (credit ->> 3)::bigint AS "charge!",
                   (credit ->> 4)::bigint AS "free_balance!", (credit ->> 5)::bigint AS "charge_balance!"
               FROM operator_log CROSS JOIN LATERAL json_array_elements(credits) WITH ORDINALITY AS c (credit, position)
               WHERE seq = $1 AND position > $2 ORDER BY position LIMIT $3"#,
            seq,
            after,
            i64::from(limit)
        );
        Ok(Some((app_id, credits.fetch_all(&self.pool).await?)))
    }

    /// At most `limit` lines that match `filter` and are older than `after`, newest first.
    pub async fn operator_log_page(
        &self,
        filter: &OperatorLogFilter,
        after: Option<OperatorLogCursor>,
        limit: u32,
    ) -> Result<Vec<OperatorLogLine>> {
        Ok(sqlx::query_as!(
            OperatorLogLine,
            "SELECT seq, at, operator_kind, operator, action, app_id, subject, before, after, note, id
             FROM operator_log
             WHERE ($1::timestamptz IS NULL OR at >= $1) AND ($2::timestamptz IS NULL OR at < $2)
               AND ($3::text IS NULL OR app_id = $3)
               AND ($4::text IS NULL OR subject = $4
                    OR jsonb_path_exists(before, '$.** ? (@ == $s)', jsonb_build_object('s', $4::text))
                    OR jsonb_path_exists(after, '$.** ? (@ == $s)', jsonb_build_object('s', $4::text))
                    OR jsonb_path_exists(credits::jsonb, '$[*][*] ? (@ == $s)', jsonb_build_object('s', $4::text)))
               AND ($5::text IS NULL OR strpos(operator, $5) > 0)
               AND ($6::timestamptz IS NULL OR (at, id) < ($6, $7))
               AND ($9::text[] IS NULL OR app_id = ANY ($9))
               AND ($10::text IS NULL OR action = $10)
               AND ($11::text IS NULL OR (operator_kind = 'api_key') = ($11 = 'programs'))
             ORDER BY at DESC, id DESC LIMIT $8",
            filter.since,
            filter.until,
            filter.app_id.as_ref().map(AppId::as_str),
            filter.subject,
            filter.operator,
            after.map(|after| after.at),
            after.map(|after| after.key),
            i64::from(limit),
            filter.apps.ids(),
            filter.action.as_ref().map(LoggedAction::as_str),
            filter.by.map(MadeBy::as_str)
        )
        .fetch_all(&self.pool)
        .await?)
    }
}
