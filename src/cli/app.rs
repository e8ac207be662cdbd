//! `minitill app ...`.

mod arguments;
mod settings;

use domain::app::{AppLimits, AppSettings, AppSummary};
use domain::app_command::{
    AppCommand, AppReport, NewAppSecret, NewAppSecrets, NewPayKey, PublishedPackage, RevokedTokens,
    Suspension,
};
use domain::ids::AppId;
use serde_json::json;
use store::Store;

pub(super) use self::arguments::AppArguments;
use self::arguments::{PoiCommand, PreorderCommand};
use super::output::{lines, rfc3339, table, yes_no};
use super::{Context, Failure};

pub(super) async fn run(context: &Context, store: &Store, arguments: AppArguments) -> Result<(), Failure> {
    let (app_id, command) = match arguments {
        AppArguments::List => {
            let apps = store.list_apps(None).await?;
            return context.output.print(&json!({ "apps": apps }), || app_table(&apps));
        }
        AppArguments::Show { app_id } => {
            let app = store.list_apps(Some(&app_id)).await?.pop();
            let app = app.ok_or_else(|| Failure::unknown_app(&app_id))?;
            return context.output.print(&app, || describe(&app));
        }
        AppArguments::Create(given) => (given.app_id, AppCommand::Create(given.settings.0)),
        AppArguments::Change(given) => (given.app_id, AppCommand::Change(given.change.0)),
        AppArguments::Suspend { app_id } => (app_id, AppCommand::Suspend(true)),
        AppArguments::Resume { app_id } => (app_id, AppCommand::Suspend(false)),
        AppArguments::RotatePayKey { app_id } => (app_id, AppCommand::RotatePayKey(None)),
        AppArguments::RotateSecret { app_id } => (app_id, AppCommand::RotateSecret(None)),
        AppArguments::Publish(given) => (given.app_id, AppCommand::Publish(given.version, given.pages)),
        AppArguments::Limit(given) => (given.app_id, AppCommand::Limit(given.limits.0)),
        AppArguments::Poi(PoiCommand::Add { app_id, poi_ids }) => (app_id, AppCommand::AddPois(poi_ids)),
        AppArguments::Preorder(PreorderCommand::Add { app_id, out_order_nos }) => {
            (app_id, AppCommand::AddPreorders(out_order_nos))
        }
    };
    carry_out(context, store, &app_id, command).await
}

/// Carries out a command to an app and prints its report.
pub(super) async fn carry_out(
    context: &Context,
    store: &Store,
    app_id: &AppId,
    command: AppCommand,
) -> Result<(), Failure> {
    let report = store.carry_out(&context.operator, app_id, command).await?;
    context.output.print(&report, || words(&report))
}

fn words(report: &AppReport) -> String {
    let once = |app_id: &AppId, secrets: &[(&'static str, &String)]| {
        let secrets = secrets.iter().map(|(name, secret)| (*name, (*secret).clone()));
        let pairs: Vec<_> = [("app_id", app_id.to_string())].into_iter().chain(secrets).collect();
        format!("{}\nKeep this now: it is not shown again.", lines(&pairs))
    };
    match report {
        AppReport::App(app) => describe(app),
        AppReport::Created(NewAppSecrets { app_id, app_secret, pay_key }) => {
            once(app_id, &[("app_secret", app_secret), ("pay_key", pay_key)])
        }
        AppReport::PayKey(NewPayKey { app_id, pay_key }) => once(app_id, &[("pay_key", pay_key)]),
        AppReport::AppSecret(NewAppSecret { app_id, app_secret }) => {
            once(app_id, &[("app_secret", app_secret)])
        }
        AppReport::Token(token) => {
            lines(&[("access_token", token.access_token.clone()), ("expires_at", token.expires_at.clone())])
        }
        AppReport::Limits(set) => format!("{}: {}", set.app_id, describe_limits(&set.limits)),
        AppReport::Suspension(Suspension { app_id, suspended }) => {
            let word = if *suspended { "suspended" } else { "not suspended" };
            format!("{app_id} is {word}; every server knows within five seconds")
        }
        AppReport::Package(PublishedPackage { app_id, version, pages }) => {
            format!("{app_id}: version {version} is published with {} pages", pages.len())
        }
        AppReport::Pois(known) => {
            format!("{}: {} points of interest are registered", known.app_id, known.poi_ids.len())
        }
        AppReport::Preorders(known) => {
            format!("{}: {} pre-orders are registered", known.app_id, known.out_order_nos.len())
        }
        AppReport::Players(known) => format!("{}: {} players are known", known.app_id, known.open_ids.len()),
        AppReport::Revoked(RevokedTokens { app_id, revoked }) => {
            format!("{app_id}: {revoked} tokens are revoked; every server knows within five seconds")
        }
    }
}

fn app_table(apps: &[AppSummary]) -> String {
    if apps.is_empty() {
        return "There is no app yet; `minitill app create <app_id>` makes one.".to_owned();
    }
    let heading: Vec<&str> =
        ["app_id"].into_iter().chain(AppSettings::NAMES).chain(["suspended", "package", "created"]).collect();
    table(
        &heading,
        apps.iter().map(|app| {
            let settings = app.settings.values().map(|value| value.text());
            let package = app.package_version.clone().unwrap_or_default();
            let others = [yes_no(app.suspended), package, app.created_at.date().to_string()];
            [app.app_id.to_string()].into_iter().chain(settings).chain(others).collect()
        }),
    )
}

fn describe(app: &AppSummary) -> String {
    let settings = AppSettings::NAMES.into_iter().zip(app.settings.values().map(|value| value.text()));
    let others = [
        ("suspended", yes_no(app.suspended)),
        ("limits", describe_limits(&app.limits)),
        ("package", app.package_version.clone().unwrap_or_else(|| "none published".to_owned())),
        ("pages", app.pages.join(" ")),
        ("created_at", rfc3339(app.created_at)),
    ];
    let pairs: Vec<_> =
        [("app_id", app.app_id.to_string())].into_iter().chain(settings).chain(others).collect();
    lines(&pairs)
}

fn describe_limits(limits: &AppLimits) -> String {
    let own = AppLimits::FIELDS.iter().zip(limits.values()).map(|(field, value)| match value.limit() {
        None => format!("{}: as the server", field.title),
        Some(limit) => format!("{}: {limit}", field.title),
    });
    own.collect::<Vec<_>>().join(", ")
}
