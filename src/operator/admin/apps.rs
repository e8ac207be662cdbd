//! Apps: what operators see of them, and the commands to them.

use domain::app::{AppLimits, AppSettings, AppSummary, Category, Scope, ScopeSteps};
use domain::app_settings::{AppField, AppFieldKind};
use domain::fields::{FieldError, LIST_ITEMS_MAX};
use domain::ids::{AppId, OrderNo, PackageVersion, PagePath, PoiId, Reason};
use domain::key_uses::KeyKind;
use domain::operation::app::{
    AppAction, AppCommand, AppReport, LimitsSet, NewAppSecret, NewAppSecrets, NewPayKey, PublishedPackage,
    RegisteredPois, RegisteredPreorders, Suspension,
};
use domain::per_second::PerSecond;
use domain::quota::Quota;
use serde_json::{Value, json};
use store::AppWithKeys;

use super::call::Call;
use super::describe::{ListBody, MOMENT, after, answers, ids, lists};
use super::messages::{example, no_app};
use super::orders::PAYMENT_NO;
use super::page;
use super::problem::Problem;
use super::routes::routes;
use crate::openapi::{APP_ID, Field, Input, PAY_KEY};
use crate::state::AppState;

routes! { "Apps":
    /// List apps
    ///
    /// All apps by their ids.
    GET "/apps", "listApps", Read(Read, OwnApps): list -> ListBody<AppSummary> =>
        lists("A page of apps.", &app_example(false))
            .query(place)
            .wrong("limit", "expected an integer from 1 to 200, got \"0\"");
    /// Create an app
    ///
    /// Makes an app with a pay key, which signs its exchanges, and a secret, which gets it access tokens.
    POST "/apps", "createApp", Once(Administer): command[Create] -> NewAppSecrets =>
        answers("created", "The app, with its keys. They are shown once.", json!({
            "app_id": "mygame", "app_secret": APP_SECRET, "pay_key": PAY_KEY,
        }))
        .created("/admin/v1/apps/mygame")
        .members([Field::required::<AppId>("app_id", "mygame", "Id of the new app.")])
        .members(settings(&AppSettings::FIELDS, "name", "My game"))
        .wrong("app_id", "expected 1 to 64 of 0-9A-Za-z_-, got \"my game\"")
        .refuses([example::app_taken()]);
    /// Show an app
    ///
    /// One app, with the last use of each key and its number of uses in the last day. The keys themselves
    /// are shown when they are made, and never again.
    GET "/apps/{app_id}", "getApp", Read(Read): get -> AppWithKeys =>
        answers("shown", "The app.", with_keys(app_example(false)));
    /// Change an app
    ///
    /// Changes the given fields and keeps the others, on every server within five seconds.
    PATCH "/apps/{app_id}", "changeApp", Replace(Develop): command[Change] -> AppSummary =>
        answers("changed", "The app as it is now.", app_example(true))
            .members(settings(&AppSettings::FIELDS, "sandbox", true))
            .members(scope_steps())
            .wrong("sandbox", "expected true or false, got \"yes\"")
            .refuses([example::no_longer_sandbox()]);
    /// Set an app's limits
    ///
    /// Sets all of them. A limit that is left out is the server's setting again. They hold on every server
    /// within five seconds.
    PUT "/apps/{app_id}/limits", "setAppLimits", Replace(Administer): command[Limit] -> LimitsSet =>
        answers("set", "The limits that hold now.", json!({
            "app_id": APP_ID, "limits": AppLimits { uploads_per_second: PerSecond::new(5), ..AppLimits::default() },
        }))
        .members(settings(&AppLimits::FIELDS, "uploads_per_second", 5))
        .wrong("uploads_per_second", &format!("expected {}, got -1", PerSecond::EXPECTED));
    /// Suspend an app
    ///
    /// Every request of the app is refused, on every server within five seconds.
    PUT "/apps/{app_id}/suspension", "suspendApp", Replace(Administer): command[Suspend] -> Suspension =>
        answers("done", "How it is now.", json!({ "app_id": APP_ID, "suspended": true })).members([why()]);
    /// Resume an app
    ///
    /// A suspended app works again.
    DELETE "/apps/{app_id}/suspension", "resumeApp", Replace(Administer): command[Resume] -> Suspension =>
        answers("done", "How it is now.", json!({ "app_id": APP_ID, "suspended": false })).members([why()]);
    /// Make a new pay key
    ///
    /// Makes a new pay key. The one before it stays valid, the one before that is retired.
    POST "/apps/{app_id}/pay-keys", "rotatePayKey", Once(Develop): command[RotatePayKey] -> NewPayKey =>
        answers("made", "The new one. It is shown once.", json!({ "app_id": APP_ID, "pay_key": PAY_KEY }));
    /// Make a new app secret
    ///
    /// Makes a new app secret. The one before it stays valid, the one before that is retired. Tokens live on until
    /// they end or are revoked.
    POST "/apps/{app_id}/app-secrets", "rotateAppSecret", Once(Develop): command[RotateSecret] -> NewAppSecret =>
        answers("made", "The new one. It is shown once.", json!({ "app_id": APP_ID, "app_secret": APP_SECRET }));
    /// Publish a package
    ///
    /// The pages of the latest package are those that orders may lead to. A version that is published again
    /// is the latest.
    POST "/apps/{app_id}/packages", "publishPackage", Once(Develop): command[Publish] -> PublishedPackage =>
        answers("published", "What is published now.", json!({ "app_id": APP_ID, "pages": PAGES, "version": "2" }))
            .members([Field::required::<PackageVersion>("version", "2", "Version of the package.")])
            .members([ids::<PagePath>("pages", &PAGES, "Its pages, as paths; what stands behind `?` or `#` does not count.")])
            .wrong("pages[0]", "expected an in-app path of 1 to 1024 bytes, and at most 4096 with its query, got \"\"");
    /// Register points of interest
    ///
    /// Reports may name these points of interest.
    POST "/apps/{app_id}/pois", "addPois", Once(Develop): command[AddPois] -> RegisteredPois =>
        answers("registered", "What is registered.", json!({ "app_id": APP_ID, "poi_ids": ["poi-1"] }))
            .members([ids::<PoiId>("poi_ids", &["poi-1"], "1 to 1,000 of them; known ones are fine.")])
            .wrong("poi_ids[0]", "expected 1 to 64 bytes without control characters, got \"\"");
    /// Register payment pre-orders
    ///
    /// With `preorder_check`, only reports of these payments are accepted.
    POST "/apps/{app_id}/preorders", "addPreorders", Once(Develop): command[AddPreorders] -> RegisteredPreorders =>
        answers("registered", "What is registered.", json!({ "app_id": APP_ID, "out_order_nos": [PAYMENT_NO] }))
            .members([ids::<OrderNo>("out_order_nos", &[PAYMENT_NO], "1 to 1,000 of them; known ones are fine.")])
            .wrong("out_order_nos[0]", "expected 6 to 32 of 0-9A-Za-z_-*, got \"12345\"");
}

async fn list(state: &AppState, call: &Call) -> Result<ListBody<AppSummary>, Problem> {
    let (after, limit) = (call.read(place)?, call.limit()?);
    let apps = state.store.apps_after(call.apps(), after.as_ref(), limit + 1).await?;
    Ok(page(apps, limit, |app| app.app_id.to_string()))
}

fn place(query: &mut Input<'_>) -> Result<Option<AppId>, FieldError> {
    after(query, AppId::parse)
}

async fn get(state: &AppState, call: &Call) -> Result<AppWithKeys, Problem> {
    call.fields.only(&[])?;
    let app_id = call.app_id()?;
    state.store.app_with_keys(&app_id).await?.ok_or_else(|| no_app(&app_id))
}

/// Carries out a command to the app of the path, and gives its report of the type that the route answers. The
/// id of a new app is a field of the body.
pub(super) async fn command<A: TryFrom<AppReport>>(
    state: &AppState,
    call: &Call,
    action: AppAction,
) -> Result<A, Problem> {
    let app_id = if action == AppAction::Create {
        let fields = [&["app_id"], &action.fields()[..]].concat();
        call.fields.only(&fields)?.required("app_id", AppId::parse)?
    } else {
        let app_id = call.app_id()?;
        call.fields.only(&action.fields())?;
        app_id
    };
    let command = AppCommand::read(action, &call.fields)?;
    let operator = call.operator();
    let operator = match call.fields.optional("reason", Reason::parse)? {
        Some(reason) => operator.because(&reason),
        None => operator,
    };
    let report = state.store.carry_out(&operator, &app_id, command).await?;
    A::try_from(report).map_err(|_| Problem::internal(format!("{action} made a report of another type")))
}

/// The pages of the examples.
const PAGES: [&str; 2] = ["pages/order/detail", "pages/index"];
/// An app secret of all examples. It is not valid.
const APP_SECRET: &str = "q9Zr2mXw7Lk4Tn8Vb1Hc6Jd3Fg5Ps0Ya";

fn app_example(sandbox: bool) -> Value {
    json!({
        "app_id": APP_ID, "name": "", "category": "general", "scopes": ["epay"], "sandbox": sandbox,
        "preorder_check": false, "language": "en", "suspended": false, "limits": AppLimits::default(), "package_version": "1",
        "pages": ["pages/order/detail"], "created_at": MOMENT,
    })
}

/// The app with the keys that it was made with.
fn with_keys(mut app: Value) -> Value {
    let key = |kind: KeyKind| {
        json!({
            "kind": kind, "generation": 1, "valid": true, "created_at": MOMENT, "last_used_at": null,
            "uses_last_day": 0,
        })
    };
    app["keys"] = json!([key(KeyKind::PayKey), key(KeyKind::AppSecret)]);
    app
}

/// Settings of an app as members of a body, with the example of one of them.
fn settings(fields: &[AppField], name: &str, example: impl Into<Value>) -> Vec<Field> {
    let mut described: Vec<Field> = fields
        .iter()
        .map(|field| match field.kind {
            AppFieldKind::Text(chars_max) => {
                Field::optional::<String>(field.name, field.help).demand("maxLength", chars_max)
            }
            AppFieldKind::Choice(_) => Field::optional::<Category>(field.name, field.help),
            AppFieldKind::Set(words) => set(field.name, field.help, words).example(&words[..1]),
            AppFieldKind::Flag => Field::optional::<bool>(field.name, field.help),
            AppFieldKind::Limit => Field::optional::<PerSecond>(field.name, field.help),
            AppFieldKind::Quota => Field::optional::<Quota>(field.name, field.help),
        })
        .collect();
    let of_example = described.iter_mut().find(|field| field.name == name);
    of_example.expect("the example is one of the settings").example = Some(example.into());
    described
}

/// The fields of a change that add and take away scopes.
fn scope_steps() -> [Field; 2] {
    let [add, remove] = ScopeSteps::NAMES;
    [
        set(add, "Scopes that the app has afterwards, beside those that it has now.", &Scope::WORDS),
        set(remove, "Scopes that the app does not have afterwards.", &Scope::WORDS),
    ]
}

/// A field that holds any of these words.
fn set(name: &'static str, help: &'static str, words: &[&str]) -> Field {
    Field::optional::<Vec<String>>(name, help)
        .demand("items", json!({ "type": "string", "enum": words }))
        .demand("maxItems", LIST_ITEMS_MAX)
}

/// Why an app is suspended, or works again.
fn why() -> Field {
    Field::optional::<Reason>("reason", "Why, for the operator's log.")
}
