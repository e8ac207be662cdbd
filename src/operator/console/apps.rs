//! Pages of apps: the list, and one app with its forms. `apps/changes.rs` answers the forms.

mod changes;

use std::collections::HashMap;

use askama::Template;
use axum::extract::Path;
use axum::routing::{MethodRouter, get, post};
use domain::app::{AppLimits, AppSettings, AppSummary, Scope};
use domain::app_settings::{AppField, AppFieldKind, AppFieldValue};
use domain::ids::AppId;
use domain::moment::GivenMoment;
use domain::operation::app::AppAction;
use domain::period::Preset;
use domain::rights::Need;
use domain::text;
use store::{AppActivity, AppDetail, COUNTED_MAX, RevenueFilter, RevenueGroup, RevenueQuery, TokenSummary};
use time::OffsetDateTime;

use self::changes::kind_in_words;
use super::error::ConsoleError;
use super::i18n::{Moment as _, said, zone};
use super::labels::label_of_setting;
use super::page::{Page, Section, Shown, render};
use super::refusal_link::address_of_refused;
use super::request::{Answer, ConsoleRequest};
use super::route::{ConsoleRoute, routes};
use crate::state::AppState;

/// Most apps that the list shows.
const APPS: usize = 500;

/// A form whose fields are a command to the app of the path.
fn command(action: AppAction) -> MethodRouter<AppState> {
    post(move |path, request| changes::carry_out(action, path, request))
}

/// The page before a command that affects players, or that cannot be undone.
fn confirm(action: AppAction) -> MethodRouter<AppState> {
    get(move |path, request| changes::confirm(action, path, request))
}

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page("/console/apps").of_own_apps() => get(list);
    // Not below /console/apps: an app may be called anything.
    page_for(Need::Administer, "/console/new-app") => get(new_app);
    proven(Need::Administer, "/console/new-app") => post(changes::create);
    page("/console/apps/{app_id}") => get(app);
    change(Need::Develop, "/console/apps/{app_id}/settings") => command(AppAction::Change);
    change(Need::Administer, "/console/apps/{app_id}/limits") => command(AppAction::Limit);
    page("/console/apps/{app_id}/tokens") => get(tokens);
    proven(Need::Develop, "/console/apps/{app_id}/token-revocations") => command(AppAction::RevokeTokens);
    change(Need::Develop, "/console/apps/{app_id}/packages") => command(AppAction::Publish);
    change(Need::Develop, "/console/apps/{app_id}/pois") => command(AppAction::AddPois);
    change(Need::Develop, "/console/apps/{app_id}/preorders") => command(AppAction::AddPreorders);
    proven(Need::Develop, "/console/apps/{app_id}/login-codes") => command(AppAction::IssueLoginCode);
    page_for(Need::Administer, "/console/apps/{app_id}/suspend") => confirm(AppAction::Suspend);
    change(Need::Administer, "/console/apps/{app_id}/suspend") => command(AppAction::Suspend);
    page_for(Need::Administer, "/console/apps/{app_id}/resume") => confirm(AppAction::Resume);
    change(Need::Administer, "/console/apps/{app_id}/resume") => command(AppAction::Resume);
    page_for(Need::Develop, "/console/apps/{app_id}/rotate-pay-key") => confirm(AppAction::RotatePayKey);
    proven(Need::Develop, "/console/apps/{app_id}/rotate-pay-key") => command(AppAction::RotatePayKey);
    page_for(Need::Develop, "/console/apps/{app_id}/rotate-secret") => confirm(AppAction::RotateSecret);
    proven(Need::Develop, "/console/apps/{app_id}/rotate-secret") => command(AppAction::RotateSecret);
};

#[derive(Template)]
#[template(path = "apps.html")]
struct AppListPage<'a> {
    page: Page<'a>,
    apps: &'a [ListedApp],
    left_out: usize,
}

/// An app of the list, with what it has done of late (contract 8.6.56).
struct ListedApp {
    summary: AppSummary,
    /// Coins that its exchanges took today, less what was given back.
    coins: i64,
    activity: AppActivity,
    /// The list of what was refused today.
    refused_path: String,
}

async fn list(request: ConsoleRequest) -> Answer {
    let search = request.text("search").to_lowercase();
    let mut apps = request.state.store.apps(request.apps()).await?;
    let holds = |text: &str| text.to_lowercase().contains(&search);
    apps.retain(|app| holds(app.app_id.as_str()) || holds(app.settings.name.as_str()));
    let left_out = apps.len().saturating_sub(APPS);
    apps.truncate(APPS);
    let apps = with_activity(&request, apps).await?;
    render(&AppListPage { page: request.page(Section::APPS, "Apps"), apps: &apps, left_out })
}

/// Adds what these apps have done today, by the clock of the page.
async fn with_activity(
    request: &ConsoleRequest,
    apps: Vec<AppSummary>,
) -> Result<Vec<ListedApp>, ConsoleError> {
    let today = Preset::Today.span(&zone(), request.now()).since;
    let store = &request.state.store;
    let activity = store.app_activity(apps.iter().map(|app| &app.app_id), today).await?;
    let coins = coins_since(request, today).await?;
    let listed = apps.into_iter().map(|summary| {
        let app_id = summary.app_id.as_str();
        ListedApp {
            coins: coins.get(app_id).copied().unwrap_or_default(),
            activity: activity.get(app_id).copied().unwrap_or_default(),
            refused_path: address_of_refused(app_id, today),
            summary,
        }
    });
    Ok(listed.collect())
}

/// The coins that exchanges of the user's apps took from a moment on, less what was given back.
async fn coins_since(
    request: &ConsoleRequest,
    since: OffsetDateTime,
) -> Result<HashMap<String, i64>, ConsoleError> {
    let query = RevenueQuery {
        apps: request.apps().clone(),
        filter: RevenueFilter::default(),
        since: Some(GivenMoment::Fixed(since)),
        until: None,
        group: vec![RevenueGroup::App],
        time_zone: zone(),
    };
    let revenue = request.state.store.revenue(query).await?;
    let rows = revenue.rows.into_iter();
    Ok(rows.filter_map(|row| Some((row.app_id?, row.sums.net))).collect())
}

/// Whether an app has a scope.
fn any_scope(apps: &[ListedApp]) -> bool {
    apps.iter().any(|app| !app.summary.settings.scopes.is_empty())
}

#[derive(Template)]
#[template(path = "app.html")]
struct AppPage<'a> {
    page: Page<'a>,
    detail: &'a AppDetail,
    settings: &'a AppSettings,
    /// Each limit: its own value, and that of the server's settings.
    limits: Vec<(AppField, AppFieldValue, AppFieldValue)>,
}

/// The settings with their values, for facts and forms.
fn rows(settings: &AppSettings) -> impl Iterator<Item = (AppField, AppFieldValue)> {
    AppSettings::FIELDS.into_iter().zip(settings.values())
}

/// A value in the words of the page. Words of the contract are the same in every language.
fn value_shown(field: &AppField, value: &AppFieldValue) -> String {
    match field.kind {
        AppFieldKind::Flag => said(&if value.has("yes") { text!("yes") } else { text!("no") }),
        AppFieldKind::Text(_)
        | AppFieldKind::Choice(_)
        | AppFieldKind::Set(_)
        | AppFieldKind::Limit
        | AppFieldKind::Quota => value.text(),
    }
}

/// A limit in the words of the page. `None` where the app has none of its own.
fn limit_shown(field: &AppField, value: &AppFieldValue) -> Option<String> {
    let number: u64 = value.text().parse().ok()?;
    Some(match field.kind {
        AppFieldKind::Limit if number > 0 => said(&text!("{limit} a second", limit = number.shown())),
        AppFieldKind::Quota if is_of_bytes(field) => bytes_shown(number),
        AppFieldKind::Quota => number.shown(),
        _ => said(&field.limit(value)?),
    })
}

/// The exact number of a limit that is shown in a larger unit.
fn exact_limit(field: &AppField, value: &AppFieldValue) -> Option<String> {
    let number: u64 = value.text().parse().ok().filter(|_| is_of_bytes(field))?;
    Some(format!("{} B", number.shown()))
}

fn is_of_bytes(field: &AppField) -> bool {
    field.name.starts_with("image_bytes_")
}

/// Bytes in the largest unit of which there is one at least, to a tenth of it.
fn bytes_shown(bytes: u64) -> String {
    const UNITS: [(&str, u32); 5] = [("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fitting = UNITS.into_iter().find(|(_, bits)| bytes >> bits > 0);
    let (unit, bits) = fitting.unwrap_or(("B", 0));
    let size = 1_u128 << bits;
    let tenths = (u128::from(bytes) * 10 + size / 2) / size;
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} {unit}"),
        (whole, tenth) => format!("{whole}.{tenth} {unit}"),
    }
}

/// The check boxes of a form, by name: a box of these that does not come was not ticked.
fn boxes() -> String {
    let boxes = AppSettings::FIELDS.into_iter().flat_map(|field| match field.kind {
        AppFieldKind::Flag => vec![field.name.to_owned()],
        AppFieldKind::Set(words) => words.iter().map(|word| format!("{}_{word}", field.name)).collect(),
        AppFieldKind::Text(_) | AppFieldKind::Choice(_) | AppFieldKind::Limit | AppFieldKind::Quota => {
            Vec::new()
        }
    });
    boxes.collect::<Vec<_>>().join(" ")
}

#[derive(Template)]
#[template(path = "new_app.html")]
struct NewAppPage<'a> {
    page: Page<'a>,
    settings: &'a AppSettings,
}

async fn new_app(request: ConsoleRequest) -> Answer {
    let settings = &AppSettings { scopes: Scope::ALL.into(), ..AppSettings::default() };
    render(&NewAppPage { page: request.page(Section::APPS, "New app"), settings })
}

/// A number that was counted up to a bound.
fn counted(count: i64) -> String {
    if count > COUNTED_MAX {
        said(&text!("more than {count}", count = COUNTED_MAX.shown()))
    } else {
        count.shown()
    }
}

/// The app that an address names.
async fn find(state: &AppState, name: &str) -> Result<AppDetail, ConsoleError> {
    let none = || ConsoleError::no_such_app(name);
    let app_id = AppId::parse(name).map_err(|_| none())?;
    state.store.app_detail(&app_id).await?.ok_or_else(none)
}

async fn app(Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    let detail = find(&request.state, &name).await?;
    let (own, server) =
        (detail.summary.limits.values(), request.state.config.limits.as_app_limits().values());
    let limits = AppLimits::FIELDS.into_iter().zip(own.into_iter().zip(server));
    let page = request.page(Section::APPS, text!("App {name}", name));
    render(&AppPage {
        page: Page { notice: changes::notice(&request), ..page },
        limits: limits.map(|(field, (own, server))| (field, own, server)).collect(),
        settings: &detail.summary.settings,
        detail: &detail,
    })
}

#[derive(Template)]
#[template(path = "tokens.html")]
struct TokensPage<'a> {
    page: Page<'a>,
    app_id: &'a AppId,
    tokens: &'a [TokenSummary],
}

async fn tokens(Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    let app = find(&request.state, &name).await?;
    let app_id = &app.summary.app_id;
    let page = Page {
        notice: changes::notice(&request),
        ..request.page(Section::APPS, text!("Access tokens of {app_id}", app_id))
    };
    render(&TokensPage { page, app_id, tokens: &request.state.store.tokens(app_id).await? })
}

#[cfg(test)]
mod tests {
    use super::bytes_shown;

    #[test]
    fn bytes_are_in_the_largest_unit() {
        for (bytes, shown) in [
            (1, "1 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1_500_000_000, "1.4 GiB"),
            (107_374_182_400, "100 GiB"),
            (1_000_000_000_000_000, "909.5 TiB"),
        ] {
            assert_eq!(bytes_shown(bytes), shown);
        }
    }
}
