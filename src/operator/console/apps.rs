//! Pages of apps: the list, and one app with its forms. `apps/changes.rs` answers the forms.

mod changes;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use domain::app::{AppLimits, AppSettings, AppSummary, Scope};
use domain::app_command::AppAction;
use domain::app_settings::{AppField, AppFieldKind, AppFieldValue};
use domain::ids::AppId;
use domain::per_second::PerSecond;
use store::{AppDetail, COUNTED_MAX};

use super::error::ConsoleError;
use super::form::{Input, no_such_app};
use super::page::{Page, Section, Shown, render};
use super::route::Route;
use super::session::SignedIn;
use crate::config;
use crate::state::AppState;

/// Most apps that the list shows.
const APPS: usize = 500;

/// A form whose fields are a command to the app of the path.
fn command(action: AppAction) -> MethodRouter<AppState> {
    post(move |state, path, form| changes::carry_out(action, state, path, form))
}

/// The page between a wish and a command that hits players, or cannot be undone.
fn confirm(action: AppAction) -> MethodRouter<AppState> {
    get(move |state, signed_in, path| changes::confirm(action, state, signed_in, path))
}

pub(super) const ROUTES: &[Route] = &[
    Route::page("/console/apps", || get(list)),
    // Not below /console/apps: an app may be called anything.
    Route::admin_page("/console/new-app", || get(new_app)),
    Route::change("/console/new-app", || post(changes::create)),
    Route::page("/console/apps/{app_id}", || get(app)),
    Route::change("/console/apps/{app_id}/settings", || command(AppAction::Change)),
    Route::change("/console/apps/{app_id}/limits", || command(AppAction::Limit)),
    Route::change("/console/apps/{app_id}/packages", || command(AppAction::Publish)),
    Route::change("/console/apps/{app_id}/pois", || command(AppAction::AddPois)),
    Route::change("/console/apps/{app_id}/preorders", || command(AppAction::AddPreorders)),
    Route::admin_page("/console/apps/{app_id}/suspend", || confirm(AppAction::Suspend)),
    Route::change("/console/apps/{app_id}/suspend", || command(AppAction::Suspend)),
    Route::admin_page("/console/apps/{app_id}/resume", || confirm(AppAction::Resume)),
    Route::change("/console/apps/{app_id}/resume", || command(AppAction::Resume)),
    Route::admin_page("/console/apps/{app_id}/rotate-pay-key", || confirm(AppAction::RotatePayKey)),
    Route::change("/console/apps/{app_id}/rotate-pay-key", || command(AppAction::RotatePayKey)),
    Route::admin_page("/console/apps/{app_id}/rotate-secret", || confirm(AppAction::RotateSecret)),
    Route::change("/console/apps/{app_id}/rotate-secret", || command(AppAction::RotateSecret)),
];

#[derive(Template)]
#[template(path = "apps.html")]
struct ListPage<'a> {
    page: Page<'a>,
    search: &'a str,
    apps: &'a [AppSummary],
    left_out: usize,
}

async fn list(
    State(state): State<AppState>,
    signed_in: SignedIn,
    input: Input,
) -> Result<Response, ConsoleError> {
    let search = input.text("search");
    let mut apps = state.store.list_apps(None).await?;
    let holds = |text: &str| text.to_lowercase().contains(&search.to_lowercase());
    apps.retain(|app| holds(app.app_id.as_str()) || holds(app.settings.name.as_str()));
    let left_out = apps.len().saturating_sub(APPS);
    apps.truncate(APPS);
    Ok(render(&ListPage {
        page: Page::new(&signed_in, Section::Apps, "Apps"),
        search,
        apps: &apps,
        left_out,
    }))
}

#[derive(Template)]
#[template(path = "app.html")]
struct AppPage<'a> {
    page: Page<'a>,
    detail: &'a AppDetail,
    app: &'a AppSummary,
    settings: [Setting; AppSettings::NAMES.len()],
    limits: [LimitRow; AppLimits::NAMES.len()],
    pois: String,
    preorders: String,
    valid_tokens: String,
}

/// A setting of an app with its value.
struct Setting {
    field: AppField,
    value: AppFieldValue,
}

/// The settings as rows, for facts and forms.
fn setting_rows(settings: &AppSettings) -> [Setting; AppSettings::NAMES.len()] {
    let mut fields = AppSettings::FIELDS.into_iter();
    settings.values().map(|value| Setting { field: fields.next().expect("a field for each value"), value })
}

/// The boxes of a form, by name: whatever of these does not come was not ticked.
fn boxes() -> String {
    let mut names = Vec::new();
    for field in AppSettings::FIELDS {
        match field.kind {
            AppFieldKind::Flag => names.push(field.name.to_owned()),
            AppFieldKind::Set(words) => {
                names.extend(words.iter().map(|word| format!("{}_{word}", field.name)));
            }
            AppFieldKind::Text(_) | AppFieldKind::Choice(_) | AppFieldKind::Limit => {}
        }
    }
    names.join(" ")
}

#[derive(Template)]
#[template(path = "new_app.html")]
struct NewAppPage<'a> {
    page: Page<'a>,
    settings: [Setting; AppSettings::NAMES.len()],
}

async fn new_app(signed_in: SignedIn) -> Response {
    let usual = AppSettings { scopes: Scope::ALL.into(), ..AppSettings::default() };
    render(&NewAppPage {
        page: Page::new(&signed_in, Section::Apps, "New app"),
        settings: setting_rows(&usual),
    })
}

/// A limit of an app: its own, or the setting's.
struct LimitRow {
    field: AppField,
    own: Option<PerSecond>,
    setting: PerSecond,
}

impl LimitRow {
    /// The limit that holds.
    fn limit(&self) -> PerSecond {
        self.own.unwrap_or(self.setting)
    }
}

/// The limits that hold for an app.
fn limit_rows(own: &AppLimits, settings: &config::Limits) -> [LimitRow; AppLimits::NAMES.len()] {
    let (mut own, mut settings) = (own.values().into_iter(), settings.as_app_limits().values().into_iter());
    AppLimits::FIELDS.map(|field| LimitRow {
        field,
        own: own.next().and_then(|value| value.limit()),
        setting: settings.next().and_then(|value| value.limit()).unwrap_or(PerSecond::UNLIMITED),
    })
}

/// A number that was counted up to a bound.
fn counted(count: i64) -> String {
    if count > COUNTED_MAX { format!("more than {}", COUNTED_MAX.shown()) } else { count.shown() }
}

/// The app that an address names.
async fn find(state: &AppState, name: &str) -> Result<AppDetail, ConsoleError> {
    let app_id = AppId::parse(name).map_err(|_| no_such_app(name))?;
    state.store.app_detail(&app_id).await?.ok_or_else(|| no_such_app(name))
}

async fn app(
    State(state): State<AppState>,
    signed_in: SignedIn,
    Path(name): Path<String>,
    input: Input,
) -> Result<Response, ConsoleError> {
    let detail = find(&state, &name).await?;
    let done = AppAction::parse(input.text("done")).ok();
    let notice = done.and_then(changes::notice).map(str::to_owned);
    Ok(render(&AppPage {
        page: Page::new(&signed_in, Section::Apps, format!("App {name}")).with_notice(notice),
        app: &detail.summary,
        settings: setting_rows(&detail.summary.settings),
        limits: limit_rows(&detail.summary.limits, &state.config.limits),
        pois: counted(detail.pois),
        preorders: counted(detail.preorders),
        valid_tokens: counted(detail.valid_tokens),
        detail: &detail,
    }))
}
