//! Apps: what operators see of them, and the commands to them.

use domain::app::{AppLimits, AppSettings, AppSummary, Category};
use domain::app_command::{
    AppAction, AppCommand, AppReport, LimitsSet, NewAppSecret, NewAppSecrets, NewPayKey, PublishedPackage,
    RegisteredPois, RegisteredPreorders, Suspension,
};
use domain::app_settings::AppFieldKind;
use domain::fields::LIST_ITEMS_MAX;
use domain::ids::{AppId, AppName, OrderNo, PackageVersion, PagePath, PoiId, Reason};
use domain::per_second::PerSecond;
use serde_json::{Value, json};

use super::call::Call;
use super::describe::{self, Described, MOMENT, Page, app_in_path, describe, problem, wrong_field};
use super::messages::{app_taken, no_app};
use super::page;
use super::problem::Problem;
use crate::openapi::{APP_ID, Field, PAY_KEY};
use crate::state::AppState;

pub(super) async fn list(state: &AppState, call: &Call) -> Result<Page<AppSummary>, Problem> {
    let query = call.query(&["limit", "after"])?;
    let (limit, after) = (call.limit()?, query.optional("after", AppId::parse)?);
    let apps = state.store.apps_after(after.as_ref(), limit + 1).await?;
    Ok(page(apps, limit, |app| app.app_id.to_string()))
}

pub(super) async fn get(state: &AppState, call: &Call) -> Result<AppSummary, Problem> {
    call.query(&[])?;
    let app_id = call.app_id()?;
    let app = state.store.list_apps(Some(&app_id)).await?.pop();
    app.ok_or_else(|| no_app(&app_id))
}

/// Creates an app. Its id is a field of the body, not a part of the path.
pub(super) async fn create(state: &AppState, call: &Call) -> Result<NewAppSecrets, Problem> {
    let fields = [&["app_id"], AppAction::Create.fields()].concat();
    let app_id = call.input.only(&fields)?.required("app_id", AppId::parse)?;
    carry_out(state, call, AppAction::Create, &app_id).await
}

/// Carries out a command to an app, and gives its report of the type that the route answers.
pub(super) async fn carry_out<A: TryFrom<AppReport>>(
    state: &AppState,
    call: &Call,
    action: AppAction,
    app_id: &AppId,
) -> Result<A, Problem> {
    let command = AppCommand::read(action, &call.input)?;
    let operator = call.operator(&json!({}));
    let operator = match call.input.optional("reason", Reason::parse)? {
        Some(reason) => operator.because(&reason),
        None => operator,
    };
    let report = state.store.carry_out(&operator, app_id, command).await?;
    A::try_from(report).map_err(|_| Problem::internal(format!("{action} made a report of another type")))
}

/// Handlers that each carry out a command to the app of the path.
macro_rules! commands {
    ($($handler:ident: $action:ident -> $report:ty),+ $(,)?) => {$(
        pub(super) async fn $handler(state: &AppState, call: &Call) -> Result<$report, Problem> {
            let app_id = call.app_id()?;
            call.input.only(domain::app_command::AppAction::$action.fields())?;
            super::apps::carry_out(state, call, domain::app_command::AppAction::$action, &app_id).await
        }
    )+};
}
pub(super) use commands;

commands! {
    change: Change -> AppSummary,
    set_limits: Limit -> LimitsSet,
    suspend: Suspend -> Suspension,
    resume: Resume -> Suspension,
    rotate_pay_key: RotatePayKey -> NewPayKey,
    rotate_secret: RotateSecret -> NewAppSecret,
    publish: Publish -> PublishedPackage,
    add_pois: AddPois -> RegisteredPois,
    add_preorders: AddPreorders -> RegisteredPreorders,
}

/// An app secret of all examples. It is not valid.
const APP_SECRET: &str = "q9Zr2mXw7Lk4Tn8Vb1Hc6Jd3Fg5Ps0Ya";

fn app_example(sandbox: bool) -> Value {
    json!({
        "app_id": APP_ID, "name": "", "category": "general", "scopes": ["epay"], "sandbox": sandbox,
        "preorder_check": false, "suspended": false, "limits": AppLimits::default(), "package_version": "1",
        "pages": ["pages/order/detail"], "created_at": MOMENT,
    })
}

/// The settings of an app as fields of a body; `example` has the value of one of them.
fn settings(example: (&str, impl Into<Value>)) -> Vec<Field> {
    let described = AppSettings::FIELDS.iter().map(|field| match field.kind {
        AppFieldKind::Text(_) => Field::optional::<AppName>(field.name, field.help),
        AppFieldKind::Choice(_) => Field::optional::<Category>(field.name, field.help),
        AppFieldKind::Set(words) => Field::optional::<Vec<String>>(field.name, field.help)
            .demand("items", json!({ "type": "string", "enum": words }))
            .demand("maxItems", LIST_ITEMS_MAX)
            .example(words),
        AppFieldKind::Flag => Field::optional::<bool>(field.name, field.help),
        AppFieldKind::Limit => Field::optional::<PerSecond>(field.name, field.help),
    });
    with_example(described, example)
}

fn with_example(fields: impl Iterator<Item = Field>, (name, value): (&str, impl Into<Value>)) -> Vec<Field> {
    let value = value.into();
    let example = |field: Field| if field.name == name { field.example(value.clone()) } else { field };
    fields.map(example).collect()
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
    let app_id = Field::required::<AppId>("app_id", "mygame", "Id of the new app.");
    let mygame = AppId::parse("mygame").expect("the app of the example has an id");
    describe(
        "Create an app",
        "Makes an app with a pay key, which signs its exchanges, and a secret, which gets it access tokens.",
        ("created", "The app, with its keys. They are shown once."),
        json!({ "app_id": "mygame", "app_secret": APP_SECRET, "pay_key": PAY_KEY }),
    )
    .created("/admin/v1/apps/mygame")
    .body([app_id].into_iter().chain(settings(("name", "My game"))))
    .refuses([
        wrong_field("app_id", "expected 1 to 64 of 0-9A-Za-z_-, got \"my game\""),
        problem("app_taken", "There is an app with this id.", app_taken(&mygame)),
    ])
}

pub(super) fn describe_change() -> Described<AppSummary> {
    let words = "Changes the given fields and keeps the others, on every server within five seconds.";
    describe("Change an app", words, ("changed", "The app as it is now."), app_example(true))
        .path([app_in_path()])
        .body(settings(("sandbox", true)))
        .refuses([wrong_field("sandbox", "expected true or false, got \"yes\""), describe::no_app()])
}

pub(super) fn describe_set_limits() -> Described<LimitsSet> {
    let limits = AppLimits::FIELDS.iter().map(|field| Field::optional::<PerSecond>(field.name, field.help));
    let example = AppLimits { uploads_per_second: PerSecond::new(5), ..AppLimits::default() };
    describe(
        "Set an app's limits",
        "Sets all four. A limit that is left out is the server's setting again. They hold on every server within five seconds.",
        ("set", "The limits that hold now."),
        json!({ "app_id": APP_ID, "limits": example }),
    )
    .path([app_in_path()])
    .body(with_example(limits, ("uploads_per_second", 5)))
    .refuses([
        wrong_field("uploads_per_second", &format!("expected {}, got -1", PerSecond::EXPECTED)),
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

pub(super) fn describe_publish() -> Described<PublishedPackage> {
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

pub(super) fn describe_add_pois() -> Described<RegisteredPois> {
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

pub(super) fn describe_add_preorders() -> Described<RegisteredPreorders> {
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
