//! Calls about operators themselves: users of the console, API keys, requests that wait for a second person, and how the
//! till is.

use domain::console_user::{ConsoleUserName, Role};
use domain::fields::{FieldError, Fields};
use domain::health::Verdict;
use domain::ids::{ApiKeyName, AppId};
use domain::operation::account::AccountChange;
use domain::operation::key::ApiKeyCommand;
use domain::operation::user::{UserCommand, unknown_own_app};
use domain::rights::{Apps, Rights};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use store::{ApiKeySummary, ChangeRequest, ConsoleUser, RequestState, RequestedChange};
use time::OffsetDateTime;

use super::call::Call;
use super::describe::{ListBody, MOMENT, answers, lists};
use super::messages::example;
use super::problem::Problem;
use super::routes::routes;
use crate::openapi::{APP_ID, Field, OPEN_ID};
use crate::state::AppState;

/// The user of the examples.
pub(super) const USER: &str = "alice";
/// The API key of the examples.
pub(super) const KEY: &str = "old-dashboard";
/// How many requests that have ended are listed.
const ENDED_MAX: u32 = 200;

routes! { "Operators":
    /// List users of the console
    ///
    /// All of them by name, without their passwords.
    GET "/console-users", "listConsoleUsers", Read(Read): users -> ListBody<ConsoleUser> =>
        lists("The users.", &json!({
            "name": USER, "role": "support", "apps": [APP_ID], "failed_attempts": 0, "locked_until": null,
            "has_second_factor": false, "needs_recovery_code": false, "oidc_issuer": null, "sessions": 0,
            "created_at": MOMENT,
        }));
    /// Set the role of a user
    ///
    /// The role and the apps of a user of the console. Their sessions end. Where a second person is needed (8.6.44), it is
    /// refused: ask for it in the console.
    PUT "/console-users/{user}/role", "setConsoleUserRole", Replace(Administer): set_role -> UserRole =>
        answers("set", "The role.", json!({ "name": USER, "role": "viewer", "apps": [] }))
            .members(rights_fields())
            .wrong("role", "expected viewer, support, finance, payments, developer or admin, got \"owner\"")
            .refuses([example::needs_two_people()]);
    /// Remove a user
    ///
    /// Their sessions end at once.
    DELETE "/console-users/{user}", "removeConsoleUser", Replace(Administer): remove_user -> RemovedUser =>
        answers("removed", "Who is gone.", json!({ "name": USER, "removed": true }));
    /// List API keys
    ///
    /// All of them by name, revoked ones too. The keys themselves are not stored.
    GET "/api-keys", "listApiKeys", Read(Read): keys -> ListBody<ApiKeySummary> =>
        answers("listed", "The keys.", json!({ "items": [{
            "name": "dashboard", "role": "admin", "apps": [], "second_person_above": null, "created_at": MOMENT,
            "last_used_at": null, "uses_last_day": 0, "revoked_at": null,
        }], "next": null }));
    /// Revoke an API key
    ///
    /// When this is answered, every server refuses it, for ever. A key may revoke itself.
    DELETE "/api-keys/{key}", "revokeApiKey", Replace(Administer): revoke -> RevokedKey =>
        answers("revoked", "Which key.", json!({ "name": KEY, "revoked": true }));
    /// List requests of a second person
    ///
    /// What waits for a second person, newest first, at most 1,000, and then the 200 newest that have ended. Only people
    /// confirm and refuse, in the console.
    GET "/change-requests", "listChangeRequests", Read(Read, OwnApps): requests -> ListBody<RequestShown> =>
        lists("The requests.", &json!({
            "ref": "case-4711", "kind": "credit", "app_id": APP_ID, "subject": OPEN_ID, "free": 5000, "charge": 0,
            "biz_no": null, "amount": null, "role": null, "second_person_above": null, "reason": "outage", "asked_by": USER, "asked_at": MOMENT,
            "ends_at": MOMENT, "state": "waiting", "ended_by": null, "ended_at": null,
        }));
    /// Show the health of the till
    ///
    /// What is wrong now, the worst first, as the first page of the console says it (16.2). Before the first minute of a
    /// server there are no instances.
    GET "/health", "getHealth", Read(Read): health -> HealthShown =>
        answers("shown", "The verdict.", json!({ "is_healthy": true, "problems": [], "instances": 0 }));
}

/// The role of a user.
#[derive(Serialize, JsonSchema)]
struct UserRole {
    /// The user.
    name: String,
    /// What the user may do.
    role: Role,
    /// In which apps. None: in all.
    apps: Vec<String>,
}

/// A user who is gone.
#[derive(Serialize, JsonSchema)]
struct RemovedUser {
    /// The user.
    name: String,
    /// `true`.
    removed: bool,
}

/// A key that was revoked.
#[derive(Serialize, JsonSchema)]
struct RevokedKey {
    /// The key.
    name: String,
    /// `true`.
    revoked: bool,
}

/// How the till is.
#[derive(Serialize, JsonSchema)]
struct HealthShown {
    /// Whether nothing is worse than a notice.
    is_healthy: bool,
    #[serde(flatten)]
    verdict: Verdict,
}

/// A request for a change that two people make.
#[derive(Serialize, JsonSchema)]
struct RequestShown {
    /// Its ref.
    #[serde(rename = "ref")]
    reference: String,
    /// `credit`, `debit`, `cancel`, `gift`, `add_user`, `set_rights`, `reset_second_factor` or `create_key`.
    kind: &'static str,
    /// The app. Null for a change of users or keys.
    app_id: Option<String>,
    /// The player, the user or the key; for a gift its name.
    subject: String,
    /// Gifted currency. Null where none is named.
    free: Option<i64>,
    /// Charged currency, likewise.
    charge: Option<i64>,
    /// The exchange that is given back.
    biz_no: Option<String>,
    /// How much of it.
    amount: Option<i64>,
    /// The role that it gives.
    role: Option<Role>,
    /// The limit of its own that a key gets: coins in 24 hours without a second person. Null for all else.
    second_person_above: Option<i64>,
    /// Why.
    reason: String,
    /// Who asked.
    asked_by: String,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    asked_at: OffsetDateTime,
    /// When it ends by itself.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    ends_at: OffsetDateTime,
    /// What became of it.
    state: RequestState,
    /// Who confirmed or refused it.
    ended_by: Option<String>,
    /// When.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    ended_at: Option<OffsetDateTime>,
}

impl From<ChangeRequest> for RequestShown {
    fn from(request: ChangeRequest) -> Self {
        let ChangeRequest { reference, change, asked_by, asked_at, ends_at, state, ended_by, ended_at } =
            request;
        let (kind, purses, given_back, account) = match &change {
            RequestedChange::Wallet { command, .. } => {
                (command.kind().as_str(), command.purses(), command.given_back(), None)
            }
            RequestedChange::Gift { free, charge, .. } => ("gift", Some((*free, *charge)), None, None),
            RequestedChange::Account(change) => (change.kind().as_str(), None, None, Some(change)),
        };
        let (free, charge) = purses.unzip();
        let (biz_no, amount) = given_back.map(|(biz_no, amount)| (biz_no.to_string(), amount.get())).unzip();
        Self {
            kind,
            app_id: change.app().map(ToString::to_string),
            subject: change.subject_of(&reference).to_owned(),
            free,
            charge,
            biz_no,
            amount,
            role: account.and_then(AccountChange::rights).map(|rights| rights.role),
            second_person_above: account.and_then(AccountChange::alone_max),
            reason: change.note().to_owned(),
            reference: reference.to_string(),
            asked_by,
            asked_at,
            ends_at,
            state,
            ended_by,
            ended_at,
        }
    }
}

/// The fields of rights, for the API's document.
fn rights_fields() -> [Field; 2] {
    let apps =
        Field::optional::<Vec<AppId>>("apps", "In which apps, at most 100; in all of them without it.");
    [Field::required::<Role>("role", "viewer", "What the user may do."), apps]
}

fn rights(fields: &Fields) -> Result<Rights, FieldError> {
    let role = fields.required("role", Role::parse)?;
    let apps = Apps::of(fields.list("apps", AppId::parse)?.unwrap_or_default());
    let apps = apps.map_err(|expected| FieldError::malformed("apps", expected.0, "more"))?;
    Ok(Rights { role, apps })
}

async fn users(state: &AppState, call: &Call) -> Result<ListBody<ConsoleUser>, Problem> {
    call.fields.only(&[])?;
    Ok(ListBody { items: state.store.console_users().await?, next: None })
}

async fn set_role(state: &AppState, call: &Call) -> Result<UserRole, Problem> {
    let name = call.segment("user", "user", ConsoleUserName::parse)?;
    let rights = rights(call.fields.only(&["role", "apps"])?)?;
    if let Some(app_id) = state.store.first_unknown_app(&rights.apps).await? {
        return Err(unknown_own_app(app_id).into());
    }
    let command = UserCommand::Rights(rights.clone());
    state.store.change_console_user(&call.operator(), &name, command).await?;
    Ok(UserRole { name: name.to_string(), role: rights.role, apps: rights.apps.listed().to_vec() })
}

async fn remove_user(state: &AppState, call: &Call) -> Result<RemovedUser, Problem> {
    call.fields.only(&[])?;
    let name = call.segment("user", "user", ConsoleUserName::parse)?;
    state.store.change_console_user(&call.operator(), &name, UserCommand::Remove).await?;
    Ok(RemovedUser { name: name.to_string(), removed: true })
}

async fn keys(state: &AppState, call: &Call) -> Result<ListBody<ApiKeySummary>, Problem> {
    call.fields.only(&[])?;
    Ok(ListBody { items: state.store.api_keys().await?, next: None })
}

async fn revoke(state: &AppState, call: &Call) -> Result<RevokedKey, Problem> {
    call.fields.only(&[])?;
    let name = call.segment("key", "API key", ApiKeyName::parse)?;
    state.store.change_api_keys(&call.operator(), ApiKeyCommand::Revoke(name.clone())).await?;
    Ok(RevokedKey { name: name.to_string(), revoked: true })
}

async fn requests(state: &AppState, call: &Call) -> Result<ListBody<RequestShown>, Problem> {
    call.fields.only(&[])?;
    let mut items = state.store.waiting_change_requests(call.apps()).await?;
    items.extend(state.store.ended_change_requests(call.apps(), ENDED_MAX).await?);
    Ok(ListBody { items: items.into_iter().map(RequestShown::from).collect(), next: None })
}

#[expect(clippy::unused_async, reason = "each handler is one")]
async fn health(state: &AppState, call: &Call) -> Result<HealthShown, Problem> {
    call.fields.only(&[])?;
    let verdict = state.health.verdict(state.now());
    Ok(HealthShown { is_healthy: verdict.is_healthy(), verdict })
}
