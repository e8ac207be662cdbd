//! Secrets of apps: made with the app, and replaced. Each is shown once, on the page that answers the form.
//!
//! Such a page loaded again sends its form again. A rotation therefore carries what the admin saw of the
//! keys, and does nothing once that has changed: else the second one would retire a key that is in use.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use domain::app::Category;
use domain::fields::{Expected, parse_integer};
use domain::ids::{AppId, AppName, Reason};
use store::{NewApp, Rotated};

use super::super::error::ConsoleError;
use super::super::form::AdminForm;
use super::super::page::{Page, Section, render};
use super::super::session::SignedIn;
use super::changes::{ConfirmPage, app_of, scopes};
use super::{find, no_such_app};
use crate::state::AppState;

#[derive(Template)]
#[template(path = "new_app.html")]
struct NewAppPage<'a> {
    page: Page<'a>,
}

pub(super) async fn new_app(signed_in: SignedIn) -> Response {
    render(&NewAppPage { page: Page::new(&signed_in, Section::Apps, "New app") })
}

#[derive(Template)]
#[template(path = "app_secrets.html")]
struct SecretsPage<'a> {
    page: Page<'a>,
    app_id: &'a str,
    /// What each is called, and the secret.
    secrets: Vec<(&'static str, String)>,
    what_next: Vec<&'static str>,
}

pub(super) async fn create(State(state): State<AppState>, form: AdminForm) -> Result<Response, ConsoleError> {
    let app = NewApp {
        id: form.required("app_id", AppId::parse)?,
        name: form.required("name", AppName::parse)?.to_string(),
        category: form.required("category", Category::parse)?,
        scopes: scopes(&form),
        sandbox: form.is_checked("sandbox"),
        preorder_check: form.is_checked("preorder_check"),
    };
    let app_id = app.id.clone();
    let made = state.store.create_app(&form.admin.operator(), app).await?;
    let secrets = made.ok_or_else(|| {
        ConsoleError::BadRequest(format!(
            "There is an app {app_id} already. Its keys are not shown again; if they were lost, make new ones on its page."
        ))
    })?;
    Ok(render(&SecretsPage {
        page: Page::new(&form.admin, Section::Apps, format!("App {app_id} is made")),
        app_id: app_id.as_str(),
        secrets: vec![("Pay key", secrets.pay_key), ("App secret", secrets.app_secret)],
        what_next: vec![
            "The pay key signs exchanges: it belongs on the game server alone.",
            "The app secret fetches access tokens: it belongs on the developer's server alone.",
            "Publish the pages of its package next, so that orders can be reported.",
        ],
    }))
}

pub(super) async fn confirm_pay_key(
    State(state): State<AppState>,
    signed_in: SignedIn,
    Path(name): Path<String>,
) -> Result<Response, ConsoleError> {
    let detail = find(&state, &name).await?;
    let newest = detail.pay_keys.first().map_or(0, |key| key.generation);
    let mut consequences = vec![
        format!("A new pay key, number {}, is made and shown once.", newest + 1),
        format!("Number {newest} stays valid, so that game servers can change over without a gap."),
    ];
    if newest > 1 {
        consequences.push(format!(
            "Number {} is retired within five seconds. Whatever still signs with it is refused: make sure that nothing does.",
            newest - 1
        ));
    }
    Ok(render(&ConfirmPage {
        page: Page::new(&signed_in, Section::Apps, format!("New pay key for the app {name}?")),
        app_id: &detail.summary.app_id,
        action: "rotate-pay-key",
        consequences,
        button: "Make a new pay key",
        seen: newest.to_string(),
    }))
}

pub(super) async fn confirm_secret(
    State(state): State<AppState>,
    signed_in: SignedIn,
    Path(name): Path<String>,
) -> Result<Response, ConsoleError> {
    let detail = find(&state, &name).await?;
    let consequences = [
        "A new app secret is made and shown once.",
        "The one it has ends within five seconds: its server can fetch no more access tokens until it has the new one.",
        "Access tokens that were issued stay valid until they end, 48 hours at most. If the secret leaked, revoke them too: minitill token revoke APP --all.",
    ];
    Ok(render(&ConfirmPage {
        page: Page::new(&signed_in, Section::Apps, format!("New app secret for the app {name}?")),
        app_id: &detail.summary.app_id,
        action: "rotate-secret",
        consequences: consequences.map(str::to_owned).into(),
        button: "Make a new app secret",
        seen: detail.secret_fingerprint,
    }))
}

pub(super) async fn rotate_pay_key(
    State(state): State<AppState>,
    Path(name): Path<String>,
    form: AdminForm,
) -> Result<Response, ConsoleError> {
    let app_id = app_of(&name)?;
    let operator = form.admin.operator().because(&form.required("reason", Reason::parse)?);
    let seen = form.required("seen", parse_generation)?;
    let rotated = state.store.rotate_pay_key_after(&operator, &app_id, Some(seen)).await?;
    answer(
        &form,
        &app_id,
        rotated,
        "Pay key",
        &[
            "Give it to the game servers now.",
            "The key before it is still valid. When every game server signs with the new one, a further rotation retires it.",
        ],
    )
}

pub(super) async fn rotate_secret(
    State(state): State<AppState>,
    Path(name): Path<String>,
    form: AdminForm,
) -> Result<Response, ConsoleError> {
    let app_id = app_of(&name)?;
    let operator = form.admin.operator().because(&form.required("reason", Reason::parse)?);
    let seen = form.text("seen");
    let rotated = state.store.rotate_secret_after(&operator, &app_id, Some(seen)).await?;
    answer(
        &form,
        &app_id,
        rotated,
        "App secret",
        &[
            "Give it to the developer's server now: with the former one it gets no more access tokens.",
            "Access tokens that were issued stay valid until they end.",
        ],
    )
}

fn parse_generation(text: &str) -> Result<i32, Expected> {
    const EXPECTED: &str = "the number of a pay key";
    let generation = parse_integer(text, 0, i64::from(i32::MAX), EXPECTED)?;
    i32::try_from(generation).map_err(|_| Expected::new(EXPECTED))
}

/// The page that shows a new secret, or says why there is none.
fn answer(
    form: &AdminForm,
    app_id: &AppId,
    rotated: Rotated,
    what: &'static str,
    what_next: &[&'static str],
) -> Result<Response, ConsoleError> {
    let secret = match rotated {
        Rotated::To(secret) => secret,
        Rotated::Already => {
            return Err(ConsoleError::BadRequest(format!(
                "The keys of the app {app_id} have changed since this form was shown, by this very form or by somebody else."
            )));
        }
        Rotated::UnknownApp => return Err(no_such_app(app_id.as_str())),
    };
    Ok(render(&SecretsPage {
        page: Page::new(&form.admin, Section::Apps, format!("{what} of the app {app_id}")),
        app_id: app_id.as_str(),
        secrets: vec![(what, secret)],
        what_next: what_next.to_vec(),
    }))
}
