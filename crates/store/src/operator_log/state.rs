//! States of what operators change, from the lines of the operator's log. These are users, API keys, apps, receivers,
//! requests, frozen wallets, closed periods, prices and payment providers. A new line has the whole state of its
//! subject, secrets as digests. The audit and each confirmation compare the newest state that was told with what is
//! there.

use std::collections::BTreeMap;

use domain::operator_log::ChainedLine;
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use super::OperatorAction as Action;
use crate::error::Result;

domain::word_enum! {
    /// What a state is of.
    pub(crate) enum SubjectKind {
        User = "user",
        ApiKey = "api_key",
        App = "app",
        Receiver = "receiver",
        Request = "request",
        Freeze = "freeze",
        Period = "period",
        Prices = "prices",
        PaymentProvider = "provider",
    }
}

/// What a state is of: its kind, its app, and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StateSubject {
    pub(crate) kind: SubjectKind,
    /// Empty for what belongs to no app.
    pub(crate) app_id: String,
    pub(crate) name: String,
}

/// The states that are there. `$rest` is the condition. A member that ends in `_sealed` is a digest of encrypted bytes, which
/// a rotation of the master key changes. PostgreSQL shows times by the session, so they are numbers here.
macro_rules! states {
    ($rest:literal $(, $parameter:expr)*) => {
        sqlx::query!(
            r#"SELECT kind AS "kind!", app_id AS "app_id!", name AS "name!", state AS "state!" FROM (
                   SELECT 'user' AS kind, '' AS app_id, name, jsonb_build_object(
                       'role', role, 'apps', to_jsonb(apps), 'password', left(encode(sha256(password::bytea), 'hex'), 32),
                       'second_factor_sealed', left(encode(sha256(totp_secret), 'hex'), 32),
                       'recovery_codes', (
                           SELECT coalesce(jsonb_agg(left(encode(sha256(code_sha256), 'hex'), 32) ORDER BY code_sha256), '[]')
                           FROM console_recovery_codes c WHERE c.name = u.name),
                       'oidc_issuer', oidc_issuer, 'oidc_subject', oidc_subject,
                       'created_at', (extract(epoch FROM created_at) * 1000000)::bigint) AS state
                   FROM console_users u
                   UNION ALL
                   SELECT 'api_key', '', name, jsonb_build_object(
                       'role', role, 'apps', to_jsonb(apps), 'key', left(encode(sha256(key_sha256), 'hex'), 32),
                       'revoked', revoked_at IS NOT NULL, 'created_at', (extract(epoch FROM created_at) * 1000000)::bigint,
                       'second_person_above', second_person_above)
                   FROM api_keys
                   UNION ALL
                   SELECT 'app', app_id, app_id, to_jsonb(a) - '{app_secret,former_secret,suspended_at,created_at,secret_created_at,former_secret_created_at}'::text[]
                       || jsonb_build_object(
                           'suspended', suspended_at IS NOT NULL,
                           'app_secret_sealed', left(encode(sha256(app_secret), 'hex'), 32),
                           'former_secret_sealed', left(encode(sha256(former_secret), 'hex'), 32),
                           'pay_keys_sealed', (
                               SELECT coalesce(jsonb_agg(left(encode(sha256(pay_key), 'hex'), 32) ORDER BY generation), '[]')
                               FROM pay_keys k WHERE k.app_id = a.app_id))
                   FROM apps a
                   UNION ALL
                   SELECT 'receiver', app_id, receiver_id, jsonb_build_object(
                       'url', url, 'events', to_jsonb(types), 'format', format,
                       'secret_sealed', left(encode(sha256(secret), 'hex'), 32),
                       'former_secret_sealed', left(encode(sha256(former_secret), 'hex'), 32),
                       'paused_by_operator', coalesce(paused_by = 'operator', false))
                   FROM receivers
                   UNION ALL
                   SELECT 'request', app_id, ref, jsonb_build_object(
                       'kind', kind, 'open_id', open_id, 'free', free, 'charge', charge, 'create_wallet', create_wallet,
                       'biz_no', of_biz_no, 'amount', amount, 'account', account, 'role', role, 'apps', to_jsonb(apps),
                       'secret', left(encode(sha256(secret::bytea), 'hex'), 32), 'reason', reason,
                       'asked_by', asked_by, 'asked_at', (extract(epoch FROM asked_at) * 1000000)::bigint, 'state', state,
                       'ended_by', ended_by, 'give_back_max', give_back_max, 'second_person_above', second_person_above)
                   FROM console_requests
                   UNION ALL
                   SELECT 'freeze', app_id, open_id, jsonb_build_object('frozen_until', CASE WHEN isfinite(frozen_until)
                       THEN (extract(epoch FROM frozen_until) * 1000000)::bigint END)
                   FROM players WHERE frozen_until IS NOT NULL
                   UNION ALL
                   SELECT 'period', app_id, month, jsonb_build_object(
                       'time_zone', time_zone, 'sha256', encode(sha256, 'hex'),
                       'statement', left(encode(sha256(convert_to(statement, 'UTF8')), 'hex'), 32),
                       'closed_by_kind', closed_by_kind, 'closed_by', closed_by,
                       'closed_at', (extract(epoch FROM closed_at) * 1000000)::bigint)
                   FROM closed_periods
                   UNION ALL
                   SELECT 'prices', a.app_id, a.app_id, jsonb_build_object(
                       'version', l.version, 'prices', left(encode(sha256(convert_to(coalesce((
                           SELECT string_agg(concat_ws(' ', p.product_id, p.currency, p.amount, p.charge, p.bonus, p.active, p.name),
                               chr(10) ORDER BY p.product_id)
                           FROM topup_prices p WHERE p.app_no = l.app_no AND p.version = l.version), ''), 'UTF8')), 'hex'), 32))
                   FROM topup_price_lists l JOIN apps a ON a.app_no = l.app_no
                   -- Citus takes no lateral query with a limit.
                   WHERE l.version = (SELECT max(n.version) FROM topup_price_lists n WHERE n.app_no = l.app_no)
                   UNION ALL
                   SELECT 'provider', app_id, provider, jsonb_build_object(
                       'format', format, 'secret_sealed', left(encode(sha256(secret), 'hex'), 32),
                       'former_secret_sealed', left(encode(sha256(former_secret), 'hex'), 32))
                   FROM topup_providers
               ) s WHERE "# + $rest
            $(, $parameter)*
        )
    };
}

/// The state of a subject as it is. `None` when there is no such thing.
pub(crate) async fn state_of(
    connection: &mut PgConnection,
    subject: &StateSubject,
) -> Result<Option<Map<String, Value>>> {
    let found = states!(
        "kind = $1 AND app_id = $2 AND name = $3",
        subject.kind.as_str(),
        subject.app_id,
        subject.name
    );
    let found = found.fetch_optional(connection).await?;
    Ok(found.and_then(|row| object(row.state)))
}

/// The states of all that is there, in one statement.
pub(crate) async fn all_states(
    connection: &mut PgConnection,
) -> Result<BTreeMap<StateSubject, Map<String, Value>>> {
    let rows = states!("true").fetch_all(connection).await?;
    let states = rows.into_iter().filter_map(|row| {
        let kind = SubjectKind::parse(&row.kind).ok()?;
        Some((StateSubject { kind, app_id: row.app_id, name: row.name }, object(row.state)?))
    });
    Ok(states.collect())
}

fn object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(members) => Some(members),
        _ => None,
    }
}

/// The subject of a line whose state is compared. `None` for any other line.
pub(crate) fn subject_of(
    action: Action,
    app_id: &str,
    subject: &str,
    after: Option<&Value>,
) -> Option<StateSubject> {
    let of = |kind, app_id: &str, name: &str| {
        Some(StateSubject { kind, app_id: app_id.to_owned(), name: name.to_owned() })
    };
    match action {
        Action::ConsoleUserAdd
        | Action::ConsoleUserSetPassword
        | Action::ConsoleUserSetRole
        | Action::ConsoleUserSetSecondFactor
        | Action::ConsoleUserResetSecondFactor
        | Action::ConsoleUserRemove => of(SubjectKind::User, "", subject),
        Action::ApiKeyCreate | Action::ApiKeyRevoke => of(SubjectKind::ApiKey, "", subject),
        Action::AppCreate
        | Action::AppChange
        | Action::AppLimit
        | Action::AppSuspend
        | Action::AppResume
        | Action::AppRotatePayKey
        | Action::AppRotateSecret => of(SubjectKind::App, app_id, app_id),
        Action::ReceiverAdd
        | Action::ReceiverPause
        | Action::ReceiverResume
        | Action::ReceiverRemove
        | Action::ReceiverRotateSecret => of(SubjectKind::Receiver, app_id, subject),
        Action::WalletFreeze | Action::WalletThaw => of(SubjectKind::Freeze, app_id, subject),
        Action::PeriodClose => of(SubjectKind::Period, app_id, subject),
        Action::PriceSet => of(SubjectKind::Prices, app_id, app_id),
        Action::TopupProviderSet | Action::TopupProviderRemove => {
            of(SubjectKind::PaymentProvider, app_id, subject)
        }
        Action::ChangeRequestAsk | Action::ChangeRequestConfirm | Action::ChangeRequestRefuse => {
            of(SubjectKind::Request, app_id, after?.get("ref")?.as_str()?)
        }
        _ => None,
    }
}

/// What the log tells of a subject.
#[derive(Debug, Default)]
pub(crate) struct ToldState {
    /// Whether it is there.
    pub(crate) is_there: bool,
    /// The newest line about it.
    pub(crate) seq: i64,
    /// What is known of its state: all of it from a line with a state on.
    pub(crate) members: Map<String, Value>,
}

/// What the log tells of all subjects, line by line.
#[derive(Debug, Default)]
pub(crate) struct ToldStates(pub(crate) BTreeMap<StateSubject, ToldState>);

impl ToldStates {
    /// Adds a line. Lines come in their order.
    pub(crate) fn take(&mut self, line: &ChainedLine<'_>) {
        let Ok(action) = Action::parse(line.action) else { return };
        if action == Action::MasterKeyRotate {
            self.0.values_mut().for_each(|told| blunt_sealed(&mut told.members));
            return;
        }
        let parsed = |text: Option<&str>| text.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let after = parsed(line.after);
        let Some(subject) = subject_of(action, line.app_id, line.subject, after.as_ref()) else { return };
        let told = self.0.entry(subject).or_default();
        told.seq = line.seq;
        told.is_there = !matches!(
            action,
            Action::ConsoleUserRemove
                | Action::ReceiverRemove
                | Action::TopupProviderRemove
                | Action::WalletThaw
        );
        match parsed(line.state).and_then(object) {
            Some(state) => told.members = state,
            None => take_former(action, line, after.and_then(object).unwrap_or_default(), &mut told.members),
        }
    }
}

/// Takes what a line of a former version tells, and forgets what it may have changed without telling.
fn take_former(
    action: Action,
    line: &ChainedLine<'_>,
    mut after: Map<String, Value>,
    members: &mut Map<String, Value>,
) {
    match action {
        // It is another one of the same name.
        Action::ConsoleUserAdd | Action::ConsoleUserRemove | Action::ApiKeyCreate | Action::ReceiverAdd => {
            members.clear();
            if matches!(action, Action::ConsoleUserAdd | Action::ApiKeyCreate) {
                after.entry("apps").or_insert(json!([]));
            }
        }
        // The role of a provider leaves the apps alone.
        Action::ConsoleUserSetRole if line.operator != line.subject => {
            after.entry("apps").or_insert(json!([]));
        }
        Action::ConsoleUserSetPassword => {
            members.remove("password");
        }
        Action::ConsoleUserSetSecondFactor | Action::ConsoleUserResetSecondFactor => {
            members.remove("second_factor_sealed");
            members.remove("recovery_codes");
        }
        Action::ApiKeyRevoke => {
            members.insert("revoked".to_owned(), true.into());
        }
        Action::AppRotatePayKey => {
            members.remove("pay_keys_sealed");
        }
        Action::AppRotateSecret | Action::ReceiverRotateSecret => {
            for sealed in ["app_secret_sealed", "secret_sealed", "former_secret_sealed", "secret_generation"]
            {
                members.remove(sealed);
            }
        }
        Action::ReceiverPause | Action::ReceiverResume => {
            let is_paused = action == Action::ReceiverPause;
            members.insert("paused_by_operator".to_owned(), is_paused.into());
        }
        Action::ChangeRequestAsk => {
            members.insert("open_id".to_owned(), line.subject.into());
        }
        Action::ChangeRequestConfirm | Action::ChangeRequestRefuse => {
            members.insert("ended_by".to_owned(), line.operator.into());
            members.remove("secret");
        }
        _ => {}
    }
    // The end of a freeze is told as a text there.
    for other in ["frozen", "until"].iter().filter(|_| action == Action::WalletFreeze) {
        after.remove(*other);
    }
    // Numbers of keys and of refs, and states that a server changes too, are no members.
    for other in ["generation", "ref"] {
        after.remove(other);
    }
    if matches!(action, Action::ReceiverPause | Action::ReceiverResume) {
        after.remove("state");
    }
    members.append(&mut after);
}

/// Keeps of encrypted secrets only whether they are there: a rotation encrypts them again, and writes no line for each.
fn blunt_sealed(members: &mut Map<String, Value>) {
    for (_, value) in members.iter_mut().filter(|(name, _)| name.ends_with("_sealed")) {
        *value = blunted(value);
    }
}

fn blunted(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Array(values) => values.len().into(),
        _ => true.into(),
    }
}

/// The members of a state that are not as they were told: the name, what was told, and what is there.
pub(crate) fn differences<'a>(
    told: &'a Map<String, Value>,
    is: &'a Map<String, Value>,
) -> Vec<(&'a str, &'a Value, &'a Value)> {
    let pairs = told.iter().map(|(name, told)| (name.as_str(), told, is.get(name).unwrap_or(&Value::Null)));
    pairs.filter(|(name, told, is)| !is_same(name, told, is)).collect()
}

fn is_same(name: &str, told: &Value, is: &Value) -> bool {
    match (name, told, is) {
        // A code that was used is gone, and nothing else may be.
        ("recovery_codes", Value::Array(told), Value::Array(is)) => is.iter().all(|code| told.contains(code)),
        (name, told, is) if name.ends_with("_sealed") => told == is || *told == blunted(is),
        (_, told, is) => told == is,
    }
}
