//! Apps: what they are, their keys, and what they offer.

use domain::app::{AppLimits, Category};
use domain::fields::Expected;
use domain::ids::{AppId, AppName, OrderNo, PackageVersion, PagePath, PoiId, Reason};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use store::{AppChange, AppSummary, NewApp, NewAppSecrets};

use super::call::Call;
use super::describe::{self, Described, MOMENT, Page, app_in_path, describe, problem, wrong_field};
use super::input::LIST_ITEMS_MAX;
use super::messages::{app_taken, no_app};
use super::page;
use super::problem::Problem;
use crate::openapi::{APP_ID, Field, PAY_KEY};
use crate::state::AppState;

/// Longest name of an app, note or reason, in bytes.
pub const TEXT_BYTES_MAX: usize = 512;

/// A text for people, in one line.
pub(super) fn line(text: &str) -> Result<String, Expected> {
    if text.len() <= TEXT_BYTES_MAX && !text.contains(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(Expected::new("at most 512 bytes without control characters"))
    }
}

fn known<A>(found: bool, app_id: &AppId, answer: A) -> Result<A, Problem> {
    if found { Ok(answer) } else { Err(no_app(app_id)) }
}

fn texts(ids: &[impl ToString]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

pub(super) async fn list(state: &AppState, call: &Call) -> Result<Page<AppSummary>, Problem> {
    let query = call.query(&["limit", "after"])?;
    let (limit, after) = (call.limit()?, query.optional("after", AppId::parse)?);
    let apps = state.store.apps_after(after.as_ref(), limit + 1).await?;
    Ok(page(apps, limit, |app| app.app_id.clone()))
}

pub(super) async fn get(state: &AppState, call: &Call) -> Result<AppSummary, Problem> {
    call.query(&[])?;
    find(state, &call.app_id()?).await
}

async fn find(state: &AppState, app_id: &AppId) -> Result<AppSummary, Problem> {
    let app = state.store.list_apps(Some(app_id)).await?.pop();
    app.ok_or_else(|| no_app(app_id))
}

pub(super) async fn create(state: &AppState, call: &Call) -> Result<NewAppSecrets, Problem> {
    let fields = ["app_id", "name", "category", "scopes", "sandbox", "preorder_check"];
    let input = call.input.only(&fields)?;
    let app = NewApp {
        id: input.required("app_id", AppId::parse)?,
        name: input.optional("name", AppName::parse)?.map(|name| name.to_string()).unwrap_or_default(),
        category: input.optional("category", Category::parse)?.unwrap_or_default(),
        scopes: input.list("scopes", scope)?.unwrap_or_default(),
        sandbox: input.flag("sandbox")?.unwrap_or_default(),
        preorder_check: input.flag("preorder_check")?.unwrap_or_default(),
    };
    let app_id = app.id.clone();
    let made = state.store.create_app(&call.operator(&json!({})), app).await?;
    made.ok_or_else(|| app_taken(&app_id))
}

/// Changes what is given of an app, and tells how it stands now.
pub(super) async fn change(state: &AppState, call: &Call) -> Result<AppSummary, Problem> {
    let app_id = call.app_id()?;
    let input = call.input.only(&["name", "category", "scopes", "sandbox", "preorder_check"])?;
    let change = AppChange {
        name: input.optional("name", AppName::parse)?,
        category: input.optional("category", Category::parse)?,
        scopes: input.list("scopes", scope)?,
        sandbox: input.flag("sandbox")?,
        preorder_check: input.flag("preorder_check")?,
    };
    if !state.store.change_settings(&call.operator(&json!({})), &app_id, change).await? {
        return Err(no_app(&app_id));
    }
    find(state, &app_id).await
}

fn scope(text: &str) -> Result<String, Expected> {
    if text == "epay" { Ok(text.to_owned()) } else { Err(Expected::new("epay")) }
}

pub(super) async fn set_limits(state: &AppState, call: &Call) -> Result<LimitsSet, Problem> {
    let app_id = call.app_id()?;
    let names = ["exchanges_per_second", "reports_per_second", "uploads_per_second", "tokens_per_second"];
    let input = call.input.only(&names)?;
    let limit = |name: &str| -> Result<Option<u32>, Problem> {
        let limit = input.integer(name, 0, i32::MAX.into())?;
        Ok(limit.and_then(|limit| u32::try_from(limit).ok()))
    };
    let limits = AppLimits {
        exchanges_per_second: limit(names[0])?,
        reports_per_second: limit(names[1])?,
        uploads_per_second: limit(names[2])?,
        tokens_per_second: limit(names[3])?,
    };
    let answer = LimitsSet { app_id: app_id.clone(), limits };
    let found = state.store.set_limits(&call.operator(&answer), &app_id, limits).await?;
    known(found, &app_id, answer)
}

pub(super) async fn suspend(state: &AppState, call: &Call) -> Result<Suspension, Problem> {
    set_suspended(state, call, true).await
}

pub(super) async fn resume(state: &AppState, call: &Call) -> Result<Suspension, Problem> {
    set_suspended(state, call, false).await
}

async fn set_suspended(state: &AppState, call: &Call, suspended: bool) -> Result<Suspension, Problem> {
    let reason = call.input.only(&["reason"])?.optional("reason", Reason::parse)?;
    let app_id = call.app_id()?;
    let answer = Suspension { app_id: app_id.clone(), suspended };
    let operator = call.operator(&answer);
    let operator = reason.map_or(operator.clone(), |reason| operator.because(&reason));
    let found = state.store.set_suspended(&operator, &app_id, suspended).await?;
    known(found, &app_id, answer)
}

pub(super) async fn rotate_pay_key(state: &AppState, call: &Call) -> Result<NewPayKey, Problem> {
    call.input.only(&[])?;
    let app_id = call.app_id()?;
    let operator = call.operator(&json!({ "app_id": app_id.as_str() }));
    let pay_key = state.store.rotate_pay_key(&operator, &app_id).await?.ok_or_else(|| no_app(&app_id))?;
    Ok(NewPayKey { app_id, pay_key })
}

pub(super) async fn rotate_secret(state: &AppState, call: &Call) -> Result<NewAppSecret, Problem> {
    call.input.only(&[])?;
    let app_id = call.app_id()?;
    let operator = call.operator(&json!({ "app_id": app_id.as_str() }));
    let app_secret = state.store.rotate_secret(&operator, &app_id).await?.ok_or_else(|| no_app(&app_id))?;
    Ok(NewAppSecret { app_id, app_secret })
}

pub(super) async fn publish(state: &AppState, call: &Call) -> Result<Published, Problem> {
    let app_id = call.app_id()?;
    let input = call.input.only(&["version", "pages"])?;
    let version = input.required("version", PackageVersion::parse)?;
    let pages = input.required_list("pages", PagePath::parse)?;
    let paths = pages.iter().map(|page| page.as_str().to_owned()).collect();
    let answer = Published { app_id: app_id.clone(), pages: paths, version: version.to_string() };
    let found = state.store.publish(&call.operator(&answer), &app_id, &version, &pages).await?;
    known(found, &app_id, answer)
}

pub(super) async fn add_pois(state: &AppState, call: &Call) -> Result<PoisKnown, Problem> {
    let app_id = call.app_id()?;
    let poi_ids = call.input.only(&["poi_ids"])?.required_list("poi_ids", PoiId::parse)?;
    let answer = PoisKnown { app_id: app_id.clone(), poi_ids: texts(&poi_ids) };
    let found = state.store.add_pois(&call.operator(&answer), &app_id, &poi_ids).await?;
    known(found, &app_id, answer)
}

pub(super) async fn add_preorders(state: &AppState, call: &Call) -> Result<PreordersKnown, Problem> {
    let app_id = call.app_id()?;
    let numbers = call.input.only(&["out_order_nos"])?.required_list("out_order_nos", OrderNo::parse)?;
    let answer = PreordersKnown { app_id: app_id.clone(), out_order_nos: texts(&numbers) };
    let found = state.store.add_preorders(&call.operator(&answer), &app_id, &numbers).await?;
    known(found, &app_id, answer)
}

/// An app secret of all examples. It is not valid.
const APP_SECRET: &str = "q9Zr2mXw7Lk4Tn8Vb1Hc6Jd3Fg5Ps0Ya";

/// The limits of an app that hold now.
#[derive(Serialize, JsonSchema)]
pub(super) struct LimitsSet {
    app_id: AppId,
    limits: AppLimits,
}

/// Whether an app is suspended now.
#[derive(Serialize, JsonSchema)]
pub(super) struct Suspension {
    app_id: AppId,
    suspended: bool,
}

/// A new pay key, shown once.
#[derive(Serialize, JsonSchema)]
pub(super) struct NewPayKey {
    app_id: AppId,
    pay_key: String,
}

/// A new app secret, shown once.
#[derive(Serialize, JsonSchema)]
pub(super) struct NewAppSecret {
    app_id: AppId,
    app_secret: String,
}

/// The package that is published now.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PublishedPackage")]
pub(super) struct Published {
    app_id: AppId,
    pages: Vec<String>,
    version: String,
}

/// Points of interest that are registered now.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RegisteredPois")]
pub(super) struct PoisKnown {
    app_id: AppId,
    poi_ids: Vec<String>,
}

/// Payment pre-orders that are registered now.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RegisteredPreorders")]
pub(super) struct PreordersKnown {
    app_id: AppId,
    out_order_nos: Vec<String>,
}

fn app_example(sandbox: bool) -> Value {
    json!({
        "app_id": APP_ID, "name": "", "category": "general", "scopes": ["epay"], "sandbox": sandbox,
        "preorder_check": false, "suspended": false, "limits": AppLimits::default(), "package_version": "1",
        "pages": ["pages/order/detail"], "created_at": MOMENT,
    })
}

/// What may be changed of an app.
fn settings() -> [Field; 5] {
    [
        Field::optional::<AppName>("name", "Name, for people."),
        Field::optional::<Category>("category", "What the app sells; a new app is `general` without it."),
        Field::optional::<Vec<String>>("scopes", "All its permission scopes: `epay` may report orders.")
            .demand("items", json!({ "type": "string", "enum": ["epay"] }))
            .demand("maxItems", LIST_ITEMS_MAX)
            .example(["epay"].as_slice()),
        Field::optional::<bool>("sandbox", "Tell the app why its signature does not match."),
        Field::optional::<bool>(
            "preorder_check",
            "Refuse reports of payments that are not registered pre-orders.",
        ),
    ]
}

pub(super) fn describe_list() -> Described<Page<AppSummary>> {
    let example = json!({ "items": [app_example(false)], "next": null });
    describe("List apps", "All apps by their ids.", ("listed", "A page of apps."), example)
        .paged()
        .refuses([wrong_field("limit", "expected an integer from 1 to 200, got \"0\"")])
}

pub(super) fn describe_get() -> Described<AppSummary> {
    let words = "One app, without its keys: they are shown when they are made, and never again.";
    describe("Show an app", words, ("shown", "The app."), app_example(false))
        .path([app_in_path()])
        .refuses([describe::no_app()])
}

pub(super) fn describe_create() -> Described<NewAppSecrets> {
    let [name, category, scopes, sandbox, preorder_check] = settings();
    let app_id = Field::required::<AppId>("app_id", "mygame", "Id of the new app.");
    let mygame = AppId::parse("mygame").expect("the app of the example has an id");
    describe(
        "Create an app",
        "Makes an app with a pay key, which signs its exchanges, and a secret, which gets it access tokens.",
        ("created", "The app, with its keys. They are shown once."),
        json!({ "app_id": "mygame", "app_secret": APP_SECRET, "pay_key": PAY_KEY }),
    )
    .created("/admin/v1/apps/mygame")
    .body([app_id, name.example("My game"), category, scopes, sandbox, preorder_check])
    .refuses([
        wrong_field("app_id", "expected 1 to 64 of 0-9A-Za-z_-, got \"my game\""),
        problem("app_taken", "There is an app with this id.", app_taken(&mygame)),
    ])
}

pub(super) fn describe_change() -> Described<AppSummary> {
    let [name, category, scopes, sandbox, preorder_check] = settings();
    let words = "Changes the given fields and keeps the others, on every server within five seconds.";
    describe("Change an app", words, ("changed", "The app as it is now."), app_example(true))
        .path([app_in_path()])
        .body([name, category, scopes, sandbox.example(true), preorder_check])
        .refuses([wrong_field("sandbox", "expected true or false, got \"yes\""), describe::no_app()])
}

pub(super) fn describe_set_limits() -> Described<LimitsSet> {
    let limit = |name, of: &str| {
        let limit = Field::optional::<i64>(name, format!("{of} a second; 0 is no limit."));
        limit.demand("minimum", 0).demand("maximum", i32::MAX)
    };
    let limits = AppLimits { uploads_per_second: Some(5), ..AppLimits::default() };
    describe(
        "Set an app's limits",
        "Sets all four. A limit that is left out is the server's setting again. They hold on every server within five seconds.",
        ("set", "The limits that hold now."),
        json!({ "app_id": APP_ID, "limits": limits }),
    )
    .path([app_in_path()])
    .body([
        limit("exchanges_per_second", "Exchanges"),
        limit("reports_per_second", "Order reports"),
        limit("uploads_per_second", "Image uploads").example(5),
        limit("tokens_per_second", "Token requests"),
    ])
    .refuses([
        wrong_field("uploads_per_second", "expected an integer from 0 to 2147483647, got -1"),
        describe::no_app(),
    ])
}

fn suspension(summary: &'static str, description: &str, suspended: bool) -> Described<Suspension> {
    let example = json!({ "app_id": APP_ID, "suspended": suspended });
    describe(summary, description, ("done", "How it is now."), example)
        .path([app_in_path()])
        .body([Field::optional::<Reason>("reason", "Why, for the operator's log.")])
        .refuses([describe::no_app()])
}

pub(super) fn describe_suspend() -> Described<Suspension> {
    let words = "Every request of the app is refused, on every server within five seconds.";
    suspension("Suspend an app", words, true)
}

pub(super) fn describe_resume() -> Described<Suspension> {
    suspension("Resume an app", "A suspended app works again.", false)
}

pub(super) fn describe_rotate_pay_key() -> Described<NewPayKey> {
    let words = "Makes a new pay key. The one before it stays valid, the one before that is retired.";
    let example = json!({ "app_id": APP_ID, "pay_key": PAY_KEY });
    describe("Make a new pay key", words, ("made", "The new one. It is shown once."), example)
        .path([app_in_path()])
        .refuses([describe::no_app()])
}

pub(super) fn describe_rotate_secret() -> Described<NewAppSecret> {
    let words =
        "Makes a new app secret; the old one ends at once. Its tokens live on until they end or are revoked.";
    let example = json!({ "app_id": APP_ID, "app_secret": APP_SECRET });
    describe("Make a new app secret", words, ("made", "The new one. It is shown once."), example)
        .path([app_in_path()])
        .refuses([describe::no_app()])
}

pub(super) fn describe_publish() -> Described<Published> {
    let pages = ["pages/order/detail", "pages/index"];
    describe(
        "Publish a package",
        "The pages of the latest package are those that orders may lead to. A version that is published again is the latest.",
        ("published", "What is published now."),
        json!({ "app_id": APP_ID, "pages": pages, "version": "2" }),
    )
    .path([app_in_path()])
    .body([
        Field::required::<PackageVersion>("version", "2", "Version of the package."),
        describe::list::<PagePath>("pages", &pages, "Its pages, as paths; what stands behind `?` or `#` does not count."),
    ])
    .refuses([
        wrong_field(
            "pages[0]",
            "expected an in-app path of 1 to 1024 bytes, and at most 4096 with its query, got \"\"",
        ),
        describe::no_app(),
    ])
}

pub(super) fn describe_add_pois() -> Described<PoisKnown> {
    let (name, words) = ("Register points of interest", "Reports may name these points of interest.");
    describe(
        name,
        words,
        ("registered", "What is registered."),
        json!({ "app_id": APP_ID, "poi_ids": ["poi-1"] }),
    )
    .path([app_in_path()])
    .body([describe::list::<PoiId>("poi_ids", &["poi-1"], "1 to 1,000 of them; known ones are fine.")])
    .refuses([
        wrong_field("poi_ids[0]", "expected 1 to 64 bytes without control characters, got \"\""),
        describe::no_app(),
    ])
}

pub(super) fn describe_add_preorders() -> Described<PreordersKnown> {
    let numbers = ["pay-000001"];
    describe(
        "Register payment pre-orders",
        "With `preorder_check`, only reports of these payments are accepted.",
        ("registered", "What is registered."),
        json!({ "app_id": APP_ID, "out_order_nos": numbers }),
    )
    .path([app_in_path()])
    .body([describe::list::<OrderNo>("out_order_nos", &numbers, "1 to 1,000 of them; known ones are fine.")])
    .refuses([
        wrong_field("out_order_nos[0]", "expected 6 to 32 of 0-9A-Za-z_-*, got \"12345\""),
        describe::no_app(),
    ])
}
