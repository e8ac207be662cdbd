//! `minitill app ...`.

mod arguments;

use serde_json::json;

pub(super) use self::arguments::AppCommand;
use domain::app::{AppLimits, Category};
use domain::ids::{AppId, PagePath};
use store::{AppChange, AppSummary, NewApp, Store};

use self::arguments::{
    ChangeArguments, CreateArguments, LimitArguments, PoiCommand, PreorderCommand, PublishArguments,
    scope_names,
};
use super::output::{lines, rfc3339, table, yes_no};
use super::{Context, Failure};

pub(super) async fn run(context: &Context, store: &Store, command: AppCommand) -> Result<(), Failure> {
    let output = &context.output;
    match command {
        AppCommand::Create(arguments) => create(context, store, arguments).await,
        AppCommand::Change(arguments) => change(context, store, arguments).await,
        AppCommand::List => {
            let apps = store.list_apps(None).await?;
            output.print(&json!({ "apps": apps }), || app_table(&apps))
        }
        AppCommand::Show { app_id } => show(context, store, &app_id).await,
        AppCommand::Suspend { app_id } => suspend(context, store, &app_id, true).await,
        AppCommand::Resume { app_id } => suspend(context, store, &app_id, false).await,
        AppCommand::RotatePayKey { app_id } => {
            let pay_key = store.rotate_pay_key(&context.operator, &app_id).await?;
            let pay_key = pay_key.ok_or_else(|| Failure::unknown_app(&app_id))?;
            output.print(&json!({ "app_id": app_id.as_str(), "pay_key": pay_key }), || {
                once(&[("app_id", app_id.to_string()), ("pay_key", pay_key.clone())])
            })
        }
        AppCommand::RotateSecret { app_id } => {
            let app_secret = store.rotate_secret(&context.operator, &app_id).await?;
            let app_secret = app_secret.ok_or_else(|| Failure::unknown_app(&app_id))?;
            output.print(&json!({ "app_id": app_id.as_str(), "app_secret": app_secret }), || {
                once(&[("app_id", app_id.to_string()), ("app_secret", app_secret.clone())])
            })
        }
        AppCommand::Publish(arguments) => publish(context, store, arguments).await,
        AppCommand::Limit(arguments) => limit(context, store, &arguments).await,
        AppCommand::Poi(PoiCommand::Add { app_id, poi_ids }) => {
            known(store.add_pois(&context.operator, &app_id, &poi_ids).await?, &app_id)?;
            let count = poi_ids.len();
            output.print(&json!({ "app_id": app_id.as_str(), "poi_ids": texts(&poi_ids) }), || {
                format!("{app_id}: {count} points of interest are registered")
            })
        }
        AppCommand::Preorder(PreorderCommand::Add { app_id, out_order_nos }) => {
            known(store.add_preorders(&context.operator, &app_id, &out_order_nos).await?, &app_id)?;
            let count = out_order_nos.len();
            output
                .print(&json!({ "app_id": app_id.as_str(), "out_order_nos": texts(&out_order_nos) }), || {
                    format!("{app_id}: {count} pre-orders are registered")
                })
        }
    }
}

/// What the store said of an app's existence, as an error where there is none.
pub(super) fn known(found: bool, app_id: &AppId) -> Result<(), Failure> {
    if found { Ok(()) } else { Err(Failure::unknown_app(app_id)) }
}

/// Texts for JSON.
pub(super) fn texts(ids: &[impl ToString]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

async fn create(context: &Context, store: &Store, arguments: CreateArguments) -> Result<(), Failure> {
    let app_id = arguments.app_id.clone();
    let app = NewApp {
        id: arguments.app_id,
        name: arguments.name.to_string(),
        category: arguments.category.into(),
        scopes: scope_names(&arguments.scopes),
        sandbox: arguments.sandbox,
        preorder_check: arguments.preorder_check,
    };
    let made = store.create_app(&context.operator, app).await?;
    let secrets = made.ok_or_else(|| Failure(format!("there is an app {app_id} already")))?;
    context.output.print(&secrets, || {
        once(&[
            ("app_id", secrets.app_id.clone()),
            ("app_secret", secrets.app_secret.clone()),
            ("pay_key", secrets.pay_key.clone()),
        ])
    })
}

async fn change(context: &Context, store: &Store, arguments: ChangeArguments) -> Result<(), Failure> {
    let gives_scopes = arguments.no_scopes || !arguments.scopes.is_empty();
    let app_change = AppChange {
        name: arguments.name,
        category: arguments.category.map(Category::from),
        scopes: gives_scopes.then(|| scope_names(&arguments.scopes)),
        sandbox: arguments.sandbox,
        preorder_check: arguments.preorder_check,
    };
    known(store.change_settings(&context.operator, &arguments.app_id, app_change).await?, &arguments.app_id)?;
    show(context, store, &arguments.app_id).await
}

async fn show(context: &Context, store: &Store, app_id: &AppId) -> Result<(), Failure> {
    let app = store.list_apps(Some(app_id)).await?.pop();
    let app = app.ok_or_else(|| Failure::unknown_app(app_id))?;
    context.output.print(&app, || describe(&app))
}

async fn suspend(context: &Context, store: &Store, app_id: &AppId, suspended: bool) -> Result<(), Failure> {
    known(store.set_suspended(&context.operator, app_id, suspended).await?, app_id)?;
    let word = if suspended { "suspended" } else { "not suspended" };
    context.output.print(&json!({ "app_id": app_id.as_str(), "suspended": suspended }), || {
        format!("{app_id} is {word}; every server knows within five seconds")
    })
}

async fn publish(context: &Context, store: &Store, arguments: PublishArguments) -> Result<(), Failure> {
    let PublishArguments { app_id, version, paths } = arguments;
    known(store.publish(&context.operator, &app_id, &version, &paths).await?, &app_id)?;
    let pages: Vec<&str> = paths.iter().map(PagePath::as_str).collect();
    context
        .output
        .print(&json!({ "app_id": app_id.as_str(), "version": version.as_str(), "paths": pages }), || {
            format!("{app_id}: version {version} is published with {} pages", pages.len())
        })
}

async fn limit(context: &Context, store: &Store, arguments: &LimitArguments) -> Result<(), Failure> {
    let limits = AppLimits {
        exchanges_per_second: arguments.exchanges_per_second,
        reports_per_second: arguments.reports_per_second,
        uploads_per_second: arguments.uploads_per_second,
        tokens_per_second: arguments.tokens_per_second,
    };
    known(store.set_limits(&context.operator, &arguments.app_id, limits).await?, &arguments.app_id)?;
    context.output.print(&json!({ "app_id": arguments.app_id.as_str(), "limits": limits }), || {
        format!("{}: {}", arguments.app_id, describe_limits(&limits))
    })
}

fn once(pairs: &[(&str, String)]) -> String {
    format!("{}\nKeep this now: it is not shown again.", lines(pairs))
}

fn app_table(apps: &[AppSummary]) -> String {
    if apps.is_empty() {
        return "There is no app yet; `minitill app create <app_id>` makes one.".to_owned();
    }
    let heading = ["app_id", "name", "category", "scopes", "sandbox", "suspended", "package", "created"];
    table(
        &heading,
        apps.iter().map(|app| {
            vec![
                app.app_id.clone(),
                app.name.clone(),
                app.category.clone(),
                app.scopes.join(" "),
                yes_no(app.sandbox),
                yes_no(app.suspended),
                app.package_version.clone().unwrap_or_default(),
                app.created_at.date().to_string(),
            ]
        }),
    )
}

fn describe(app: &AppSummary) -> String {
    lines(&[
        ("app_id", app.app_id.clone()),
        ("name", app.name.clone()),
        ("category", app.category.clone()),
        ("scopes", app.scopes.join(" ")),
        ("sandbox", yes_no(app.sandbox)),
        ("preorder_check", yes_no(app.preorder_check)),
        ("suspended", yes_no(app.suspended)),
        ("limits", describe_limits(&app.limits)),
        ("package", app.package_version.clone().unwrap_or_else(|| "none published".to_owned())),
        ("pages", app.pages.join(" ")),
        ("created_at", rfc3339(app.created_at)),
    ])
}

fn describe_limits(limits: &AppLimits) -> String {
    let word = |limit: Option<u32>| match limit {
        None => "as set".to_owned(),
        Some(0) => "none".to_owned(),
        Some(limit) => format!("{limit}/s"),
    };
    format!(
        "exchanges {}, reports {}, uploads {}, tokens {}",
        word(limits.exchanges_per_second),
        word(limits.reports_per_second),
        word(limits.uploads_per_second),
        word(limits.tokens_per_second)
    )
}
