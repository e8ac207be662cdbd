//! What admins change of an app. Each change comes back to the app's page, which says what was done.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use domain::app::{AppLimits, Category};
use domain::fields::{Expected, parse_integer};
use domain::ids::{AppId, AppName, OrderNo, PackageVersion, PagePath, PoiId, Reason};
use store::AppChange;

use super::super::error::ConsoleError;
use super::super::form::AdminForm;
use super::super::page::{Page, Section, render};
use super::super::session::SignedIn;
use super::{find, no_such_app};
use crate::state::AppState;

/// What has just been done to an app, as its page is told by its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    Settings,
    Limits,
    Published,
    Pois,
    Preorders,
    Suspended,
    Resumed,
}

impl Done {
    const ALL: [Self; 7] = [
        Self::Settings,
        Self::Limits,
        Self::Published,
        Self::Pois,
        Self::Preorders,
        Self::Suspended,
        Self::Resumed,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Limits => "limits",
            Self::Published => "published",
            Self::Pois => "pois",
            Self::Preorders => "preorders",
            Self::Suspended => "suspended",
            Self::Resumed => "resumed",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|done| done.as_str() == text)
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Settings => "The settings are saved. Every server knows them within five seconds.",
            Self::Limits => "The limits are saved. Every server knows them within five seconds.",
            Self::Published => "The version is published: its pages are the legal order paths from now on.",
            Self::Pois => "The points of interest are registered.",
            Self::Preorders => "The pre-orders are registered.",
            Self::Suspended => "The app is suspended. Every server refuses it within five seconds.",
            Self::Resumed => "The app goes on. Every server knows within five seconds.",
        }
    }
}

/// Back to the app's page, or the page of an app that is not there.
fn come_back(found: bool, app_id: &AppId, done: Done) -> Result<Response, ConsoleError> {
    if !found {
        return Err(no_such_app(app_id.as_str()));
    }
    let address = format!("/console/apps/{app_id}?done={}", done.as_str());
    Ok(Redirect::to(&address).into_response())
}

/// The app that a form is about.
pub(super) fn app_of(name: &str) -> Result<AppId, ConsoleError> {
    AppId::parse(name).map_err(|_| no_such_app(name))
}

/// The scopes whose boxes are ticked.
pub(super) fn scopes(form: &AdminForm) -> Vec<String> {
    if form.is_checked("scope_epay") { vec!["epay".to_owned()] } else { Vec::new() }
}

/// One or more values in lines of a field.
fn values<T>(
    form: &AdminForm,
    name: &str,
    parse: impl Fn(&str) -> Result<T, Expected>,
) -> Result<Vec<T>, ConsoleError> {
    let lines = form.text(name).lines().map(str::trim).filter(|line| !line.is_empty());
    let values = lines.map(|line| {
        parse(line).map_err(|expected| {
            let line = domain::fields::shown(line);
            ConsoleError::BadRequest(format!("{name}: expected {} on each line, got {line}.", expected.0))
        })
    });
    let values = values.collect::<Result<Vec<T>, _>>()?;
    if values.is_empty() {
        return Err(ConsoleError::BadRequest(format!("{name}: expected at least one line.")));
    }
    Ok(values)
}

pub(super) async fn settings(
    State(state): State<AppState>,
    Path(name): Path<String>,
    form: AdminForm,
) -> Result<Response, ConsoleError> {
    let app_id = app_of(&name)?;
    let change = AppChange {
        name: Some(form.required("name", AppName::parse)?),
        category: Some(form.required("category", Category::parse)?),
        scopes: Some(scopes(&form)),
        sandbox: Some(form.is_checked("sandbox")),
        preorder_check: Some(form.is_checked("preorder_check")),
    };
    let found = state.store.change_settings(&form.admin.operator(), &app_id, change).await?;
    come_back(found, &app_id, Done::Settings)
}

fn parse_limit(text: &str) -> Result<u32, Expected> {
    const EXPECTED: &str = "requests a second, 0 for no limit, at most 1000000";
    let limit = parse_integer(text, 0, 1_000_000, EXPECTED)?;
    u32::try_from(limit).map_err(|_| Expected::new(EXPECTED))
}

pub(super) async fn limits(
    State(state): State<AppState>,
    Path(name): Path<String>,
    form: AdminForm,
) -> Result<Response, ConsoleError> {
    let app_id = app_of(&name)?;
    let limits = AppLimits {
        exchanges_per_second: form.optional("exchanges", parse_limit)?,
        reports_per_second: form.optional("reports", parse_limit)?,
        uploads_per_second: form.optional("uploads", parse_limit)?,
        tokens_per_second: form.optional("tokens", parse_limit)?,
    };
    let found = state.store.set_limits(&form.admin.operator(), &app_id, limits).await?;
    come_back(found, &app_id, Done::Limits)
}

pub(super) async fn publish(
    State(state): State<AppState>,
    Path(name): Path<String>,
    form: AdminForm,
) -> Result<Response, ConsoleError> {
    let app_id = app_of(&name)?;
    let version = form.required("version", PackageVersion::parse)?;
    let pages = values(&form, "pages", PagePath::parse)?;
    let found = state.store.publish(&form.admin.operator(), &app_id, &version, &pages).await?;
    come_back(found, &app_id, Done::Published)
}

pub(super) async fn add_pois(
    State(state): State<AppState>,
    Path(name): Path<String>,
    form: AdminForm,
) -> Result<Response, ConsoleError> {
    let app_id = app_of(&name)?;
    let poi_ids = values(&form, "poi_ids", PoiId::parse)?;
    let found = state.store.add_pois(&form.admin.operator(), &app_id, &poi_ids).await?;
    come_back(found, &app_id, Done::Pois)
}

pub(super) async fn add_preorders(
    State(state): State<AppState>,
    Path(name): Path<String>,
    form: AdminForm,
) -> Result<Response, ConsoleError> {
    let app_id = app_of(&name)?;
    let numbers = values(&form, "out_order_nos", OrderNo::parse)?;
    let found = state.store.add_preorders(&form.admin.operator(), &app_id, &numbers).await?;
    come_back(found, &app_id, Done::Preorders)
}

/// A page between a wish and what cannot be undone, or hits players: what will happen, and a reason.
#[derive(Template)]
#[template(path = "app_confirm.html")]
pub(super) struct ConfirmPage<'a> {
    pub(super) page: Page<'a>,
    pub(super) app_id: &'a str,
    /// Where the form goes.
    pub(super) action: &'static str,
    pub(super) consequences: Vec<String>,
    pub(super) button: &'static str,
    /// Of what the page shows as it stands: the change is made only while it still does.
    pub(super) seen: String,
}

async fn confirm(
    state: &AppState,
    signed_in: &SignedIn,
    name: &str,
    suspend: bool,
) -> Result<Response, ConsoleError> {
    let app = find(state, name).await?.summary;
    let (title, action, button, consequences) = if suspend {
        (
            format!("Suspend the app {}?", app.app_id),
            "suspend",
            "Suspend the app",
            vec![
                "Within five seconds every server refuses its exchanges, order reports, uploads and token requests.",
                "Balances, orders, keys and tokens stay as they are. Pictures are still shown.",
                "It can be resumed at any time.",
            ],
        )
    } else {
        (
            format!("Resume the app {}?", app.app_id),
            "resume",
            "Resume the app",
            vec![
                "Within five seconds every server takes its requests again, with the keys and tokens it has.",
            ],
        )
    };
    Ok(render(&ConfirmPage {
        page: Page::new(signed_in, Section::Apps, title),
        app_id: &app.app_id,
        action,
        consequences: consequences.into_iter().map(str::to_owned).collect(),
        button,
        seen: String::new(),
    }))
}

pub(super) async fn confirm_suspend(
    State(state): State<AppState>,
    signed_in: SignedIn,
    Path(name): Path<String>,
) -> Result<Response, ConsoleError> {
    confirm(&state, &signed_in, &name, true).await
}

pub(super) async fn confirm_resume(
    State(state): State<AppState>,
    signed_in: SignedIn,
    Path(name): Path<String>,
) -> Result<Response, ConsoleError> {
    confirm(&state, &signed_in, &name, false).await
}

pub(super) async fn suspend(
    State(state): State<AppState>,
    Path(name): Path<String>,
    form: AdminForm,
) -> Result<Response, ConsoleError> {
    let app_id = app_of(&name)?;
    let operator = form.admin.operator().because(&form.required("reason", Reason::parse)?);
    let found = state.store.set_suspended(&operator, &app_id, true).await?;
    come_back(found, &app_id, Done::Suspended)
}

pub(super) async fn resume(
    State(state): State<AppState>,
    Path(name): Path<String>,
    form: AdminForm,
) -> Result<Response, ConsoleError> {
    let app_id = app_of(&name)?;
    let operator = form.admin.operator().because(&form.required("reason", Reason::parse)?);
    let found = state.store.set_suspended(&operator, &app_id, false).await?;
    come_back(found, &app_id, Done::Resumed)
}
