//! `minitill app ...`.

mod arguments;
mod settings;

use anyhow::Result;
use domain::app::{AppLimits, AppSettings};
use domain::ids::AppId;
use domain::operation::app::{AppCommand, AppReport};
use serde::Serialize;
use serde_json::json;
use store::Store;

pub(super) use self::arguments::{AppArguments, OneApp};
use self::arguments::{PoiCommand, PreorderCommand};
use super::output::{lines, members};
use super::{Context, not_done, unknown_app};

pub(super) async fn run(context: &Context, store: &Store, arguments: AppArguments) -> Result<()> {
    let (app_id, command) = match arguments {
        AppArguments::List => {
            let apps = store.list_apps(None).await?;
            let settings = AppSettings::NAMES.join(" ");
            let columns = format!("app_id {settings} suspended package_version created_at");
            let none = "There is no app yet. To create one, run `minitill app create <app_id>`.";
            return context.output.list("apps", &apps, &columns, none);
        }
        AppArguments::Show(OneApp { app_id }) => {
            let shown = store.app_with_keys(&app_id).await?.ok_or_else(|| unknown_app(&app_id))?;
            return show(context, &shown, &shown.app.limits);
        }
        AppArguments::Create { app_id, settings } => (app_id, AppCommand::Create(settings.0)),
        AppArguments::Change { app_id, change } => (app_id, AppCommand::Change(change.0, change.1)),
        AppArguments::Suspend(OneApp { app_id }) => (app_id, AppCommand::Suspend(true)),
        AppArguments::Resume(OneApp { app_id }) => (app_id, AppCommand::Suspend(false)),
        AppArguments::RotatePayKey(OneApp { app_id }) => (app_id, AppCommand::RotatePayKey(None)),
        AppArguments::RotateSecret(OneApp { app_id }) => (app_id, AppCommand::RotateSecret(None)),
        AppArguments::Publish { app_id, version, pages } => (app_id, AppCommand::Publish(version, pages)),
        AppArguments::Limit { app_id, limits } => (app_id, AppCommand::Limit(limits.0)),
        AppArguments::Poi(PoiCommand::Add { app_id, poi_ids }) => (app_id, AppCommand::AddPois(poi_ids)),
        AppArguments::Poi(PoiCommand::List(OneApp { app_id })) => {
            require_app(store, &app_id).await?;
            let poi_ids = store.pois(&app_id).await?;
            return context.output.show(&json!({ "app_id": app_id, "poi_ids": poi_ids }));
        }
        AppArguments::Preorder(PreorderCommand::List(OneApp { app_id })) => {
            require_app(store, &app_id).await?;
            let out_order_nos = store.preorders(&app_id).await?;
            return context.output.show(&json!({ "app_id": app_id, "out_order_nos": out_order_nos }));
        }
        AppArguments::Preorder(PreorderCommand::Add { app_id, out_order_nos }) => {
            (app_id, AppCommand::AddPreorders(out_order_nos))
        }
    };
    carry_out(context, store, &app_id, command).await
}

/// Refuses an app that does not exist.
pub(super) async fn require_app(store: &Store, app_id: &AppId) -> Result<()> {
    store.find_app(app_id).await?.map(drop).ok_or_else(|| unknown_app(app_id))
}

/// Refuses a list that is empty because the app that it is of does not exist.
pub(super) async fn require_app_of<T>(store: &Store, found: &[T], app_id: Option<&AppId>) -> Result<()> {
    match app_id {
        Some(app_id) if found.is_empty() => require_app(store, app_id).await,
        Some(_) | None => Ok(()),
    }
}

/// Carries out a command to an app.
pub(super) async fn command(
    context: &Context,
    store: &Store,
    app_id: &AppId,
    command: AppCommand,
) -> Result<AppReport> {
    store.carry_out(&context.operator, app_id, command).await.map_err(not_done)
}

/// Carries out a command to an app and prints its report.
pub(super) async fn carry_out(
    context: &Context,
    store: &Store,
    app_id: &AppId,
    given: AppCommand,
) -> Result<()> {
    let report = command(context, store, app_id, given).await?;
    match &report {
        AppReport::App(app) => show(context, app, &app.limits),
        AppReport::Limits(set) => show(context, set, &set.limits),
        AppReport::Created(_) | AppReport::PayKey(_) | AppReport::AppSecret(_) => {
            context.output.show_once(&report)
        }
        AppReport::Suspension(_)
        | AppReport::Package(_)
        | AppReport::Pois(_)
        | AppReport::Preorders(_)
        | AppReport::Players(_)
        | AppReport::Token(_)
        | AppReport::Revoked(_)
        | AppReport::LoginCode(_) => context.output.show(&report),
    }
}

/// Prints a value with the limits of an app, for people in words.
fn show(context: &Context, value: &impl Serialize, limits: &AppLimits) -> Result<()> {
    let own = AppLimits::FIELDS.iter().zip(limits.values()).map(|(field, value)| match field.limit(&value) {
        None => format!("{}: as the server", field.title),
        Some(limit) => format!("{}: {}", field.title, limit.english()),
    });
    let mut shown = members(value)?;
    shown.insert("limits".to_owned(), own.collect::<Vec<_>>().join(", ").into());
    context.output.print(value, lines(&shown))
}
