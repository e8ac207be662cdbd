//! Apps: the list, one app with what belongs to it, and what admins change of it. What makes or replaces
//! secrets is in `apps/secrets.rs`, what changes an app in `apps/changes.rs`.

mod changes;
mod secrets;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use domain::app::AppLimits;
use domain::ids::AppId;
use store::{AppDetail, AppSummary, COUNTED_MAX};

use super::error::ConsoleError;
use super::form::Input;
use super::page::{Page, Section, Shown, render};
use super::route::Route;
use super::session::SignedIn;
use crate::config;
use crate::state::AppState;

/// Most apps that the list shows.
const APPS: usize = 500;

pub(super) const ROUTES: &[Route] = &[
    Route::page("/console/apps", || get(list)),
    // Not below /console/apps: an app may be called anything.
    Route::admin_page("/console/new-app", || get(secrets::new_app)),
    Route::change("/console/new-app", || post(secrets::create)),
    Route::page("/console/apps/{app_id}", || get(app)),
    Route::change("/console/apps/{app_id}/settings", || post(changes::settings)),
    Route::change("/console/apps/{app_id}/limits", || post(changes::limits)),
    Route::change("/console/apps/{app_id}/packages", || post(changes::publish)),
    Route::change("/console/apps/{app_id}/pois", || post(changes::add_pois)),
    Route::change("/console/apps/{app_id}/preorders", || post(changes::add_preorders)),
    Route::admin_page("/console/apps/{app_id}/suspend", || get(changes::confirm_suspend)),
    Route::change("/console/apps/{app_id}/suspend", || post(changes::suspend)),
    Route::admin_page("/console/apps/{app_id}/resume", || get(changes::confirm_resume)),
    Route::change("/console/apps/{app_id}/resume", || post(changes::resume)),
    Route::admin_page("/console/apps/{app_id}/rotate-pay-key", || get(secrets::confirm_pay_key)),
    Route::change("/console/apps/{app_id}/rotate-pay-key", || post(secrets::rotate_pay_key)),
    Route::admin_page("/console/apps/{app_id}/rotate-secret", || get(secrets::confirm_secret)),
    Route::change("/console/apps/{app_id}/rotate-secret", || post(secrets::rotate_secret)),
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
    apps.retain(|app| holds(&app.app_id) || holds(&app.name));
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
    limits: [LimitRow; 4],
    may_report: bool,
    pois: String,
    preorders: String,
    valid_tokens: String,
}

/// A limit of an app: its own, or the setting's.
struct LimitRow {
    /// The form's field.
    field: &'static str,
    what: &'static str,
    own: Option<u32>,
    setting: u32,
}

impl LimitRow {
    /// What holds, in words.
    fn words(&self) -> String {
        match self.own.unwrap_or(self.setting) {
            0 => "no limit".to_owned(),
            limit => format!("{} a second", i64::from(limit).shown()),
        }
    }
}

/// The limits that hold for an app.
fn limit_rows(own: &AppLimits, settings: &config::Limits) -> [LimitRow; 4] {
    let row = |field, what, own, setting| LimitRow { field, what, own, setting };
    [
        row("exchanges", "Exchanges", own.exchanges_per_second, settings.exchanges_per_second),
        row("reports", "Order reports", own.reports_per_second, settings.reports_per_second),
        row("uploads", "Image uploads", own.uploads_per_second, settings.uploads_per_second),
        row("tokens", "Token requests", own.tokens_per_second, settings.tokens_per_second),
    ]
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

fn no_such_app(name: &str) -> ConsoleError {
    ConsoleError::NotFound(format!("There is no app {name}."))
}

async fn app(
    State(state): State<AppState>,
    signed_in: SignedIn,
    Path(name): Path<String>,
    input: Input,
) -> Result<Response, ConsoleError> {
    let detail = find(&state, &name).await?;
    let notice = changes::Done::parse(input.text("done")).map(|done| done.words().to_owned());
    Ok(render(&AppPage {
        page: Page::new(&signed_in, Section::Apps, format!("App {name}")).with_notice(notice),
        app: &detail.summary,
        limits: limit_rows(&detail.summary.limits, &state.config.limits),
        may_report: detail.summary.scopes.iter().any(|scope| scope == "epay"),
        pois: counted(detail.pois),
        preorders: counted(detail.preorders),
        valid_tokens: counted(detail.valid_tokens),
        detail: &detail,
    }))
}
