//! The forms of apps: each is a command, whose answer is the app's page or the secret that was made.
//!
//! A page with a new secret sends its form again when it is loaded again. The form of a rotation
//! therefore carries the keys that its page showed, and does nothing once they have changed: a second
//! rotation would retire a key that is in use.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use domain::app_command::{AppAction, AppCommand, AppReport, NewAppSecret, NewAppSecrets, NewPayKey};
use domain::ids::{AppId, Reason};
use store::AppDetail;

use super::super::error::ConsoleError;
use super::super::form::{AdminForm, no_such_app};
use super::super::page::{Page, Section, render};
use super::super::session::SignedIn;
use super::find;
use crate::state::AppState;

/// What an app's page tells after a command.
pub(super) fn notice(action: AppAction) -> Option<&'static str> {
    Some(match action {
        AppAction::Change => "The settings are saved. Every server knows them within five seconds.",
        AppAction::Limit => "The limits are saved. Every server knows them within five seconds.",
        AppAction::Publish => "The version is published: its pages are the legal order paths from now on.",
        AppAction::AddPois => "The points of interest are registered.",
        AppAction::AddPreorders => "The pre-orders are registered.",
        AppAction::Suspend => "The app is suspended. Every server refuses it within five seconds.",
        AppAction::Resume => "The app is resumed. Every server knows within five seconds.",
        AppAction::Create
        | AppAction::RotatePayKey
        | AppAction::RotateSecret
        | AppAction::AddUsers
        | AppAction::IssueToken
        | AppAction::RevokeTokens => return None,
    })
}

pub(super) async fn create(State(state): State<AppState>, form: AdminForm) -> Result<Response, ConsoleError> {
    let app_id = form.required("app_id", AppId::parse)?;
    answer(AppAction::Create, &state, &app_id, &form).await
}

pub(super) async fn carry_out(
    action: AppAction,
    State(state): State<AppState>,
    Path(name): Path<String>,
    form: AdminForm,
) -> Result<Response, ConsoleError> {
    let app_id = AppId::parse(&name).map_err(|_| no_such_app(&name))?;
    answer(action, &state, &app_id, &form).await
}

/// Carries out a command and answers with the app's page, or with the page of a new secret.
async fn answer(
    action: AppAction,
    state: &AppState,
    app_id: &AppId,
    form: &AdminForm,
) -> Result<Response, ConsoleError> {
    let mut operator = form.admin.operator();
    if confirmation(action).is_some() {
        operator = operator.because(&form.required("reason", Reason::parse)?);
    }
    let command = AppCommand::read(action, form.fields())?;
    let report = state.store.carry_out(&operator, app_id, command).await?;
    let (title, secrets, what_next): (_, _, &[&str]) = match report {
        AppReport::Created(NewAppSecrets { pay_key, app_secret, .. }) => (
            format!("App {app_id} is made"),
            vec![("Pay key", pay_key), ("App secret", app_secret)],
            &[
                "The pay key signs exchanges: it belongs on the game server alone.",
                "The app secret fetches access tokens: it belongs on the developer's server alone.",
                "Publish the pages of its package next, so that orders can be reported.",
            ],
        ),
        AppReport::PayKey(NewPayKey { pay_key, .. }) => (
            format!("Pay key of the app {app_id}"),
            vec![("Pay key", pay_key)],
            &[
                "Give it to the game servers now.",
                "The key before it is still valid. When every game server signs with the new one, a further rotation retires it.",
            ],
        ),
        AppReport::AppSecret(NewAppSecret { app_secret, .. }) => (
            format!("App secret of the app {app_id}"),
            vec![("App secret", app_secret)],
            &[
                "Give it to the developer's server now: with the former one it gets no more access tokens.",
                "Access tokens that were issued stay valid until they end.",
            ],
        ),
        AppReport::App(_)
        | AppReport::Limits(_)
        | AppReport::Suspension(_)
        | AppReport::Package(_)
        | AppReport::Pois(_)
        | AppReport::Preorders(_)
        | AppReport::Players(_)
        | AppReport::Token(_)
        | AppReport::Revoked(_) => return Ok(come_back(action, app_id)),
    };
    let page = Page::new(&form.admin, Section::Apps, title);
    Ok(render(&SecretsPage { page, app_id: app_id.as_str(), secrets, what_next }))
}

/// Back to the app's page, which tells what was done.
fn come_back(action: AppAction, app_id: &AppId) -> Response {
    Redirect::to(&format!("/console/apps/{app_id}?done={action}")).into_response()
}

#[derive(Template)]
#[template(path = "app_secrets.html")]
struct SecretsPage<'a> {
    page: Page<'a>,
    app_id: &'a str,
    /// What each is called, and the secret.
    secrets: Vec<(&'static str, String)>,
    what_next: &'a [&'a str],
}

/// A page that shows what a command will do, and asks for a reason.
#[derive(Template)]
#[template(path = "app_confirm.html")]
struct ConfirmPage<'a> {
    page: Page<'a>,
    app_id: &'a str,
    /// Where the form goes.
    action: &'static str,
    consequences: Vec<String>,
    button: &'static str,
    /// The keys that the page shows: the command does nothing once they have changed.
    seen: String,
}

/// Title, address, button and consequences of a command that is confirmed first.
type Confirmation = (&'static str, &'static str, &'static str, fn(&AppDetail) -> Vec<String>);

fn confirmation(action: AppAction) -> Option<Confirmation> {
    Some(match action {
        AppAction::Suspend => ("Suspend the app", "suspend", "Suspend the app", |_| {
            sentences(&[
                "Within five seconds every server refuses its exchanges, order reports, uploads and token requests.",
                "Balances, orders, keys and tokens stay as they are. Pictures are still shown.",
                "It can be resumed at any time.",
            ])
        }),
        AppAction::Resume => ("Resume the app", "resume", "Resume the app", |_| {
            sentences(&[
                "Within five seconds every server accepts its requests again, with the keys and tokens it has.",
            ])
        }),
        AppAction::RotatePayKey => {
            ("New pay key for the app", "rotate-pay-key", "Make a new pay key", |app| {
                let newest = newest_key(app);
                let mut consequences = vec![
                    format!("A new pay key, number {}, is made and shown once.", newest + 1),
                    format!(
                        "Number {newest} stays valid, so that game servers can change over without a gap."
                    ),
                ];
                if newest > 1 {
                    consequences.push(format!(
                        "Number {} is retired within five seconds. Whatever still signs with it is refused: make sure that nothing does.",
                        newest - 1
                    ));
                }
                consequences
            })
        }
        AppAction::RotateSecret => {
            ("New app secret for the app", "rotate-secret", "Make a new app secret", |_| {
                sentences(&[
                    "A new app secret is made and shown once.",
                    "The one it has ends within five seconds: its server can fetch no more access tokens until it has the new one.",
                    "Access tokens that were issued stay valid until they end, 48 hours at most. If the secret leaked, revoke them too: minitill token revoke APP --all.",
                ])
            })
        }
        AppAction::Create
        | AppAction::Change
        | AppAction::Limit
        | AppAction::Publish
        | AppAction::AddPois
        | AppAction::AddPreorders
        | AppAction::AddUsers
        | AppAction::IssueToken
        | AppAction::RevokeTokens => return None,
    })
}

fn sentences(sentences: &[&str]) -> Vec<String> {
    sentences.iter().map(ToString::to_string).collect()
}

fn newest_key(app: &AppDetail) -> i32 {
    app.pay_keys.first().map_or(0, |key| key.generation)
}

pub(super) async fn confirm(
    action: AppAction,
    State(state): State<AppState>,
    signed_in: SignedIn,
    Path(name): Path<String>,
) -> Result<Response, ConsoleError> {
    let app = find(&state, &name).await?;
    let (title, address, button, consequences) = confirmation(action).ok_or_else(|| no_such_app(&name))?;
    Ok(render(&ConfirmPage {
        page: Page::new(&signed_in, Section::Apps, format!("{title} {name}?")),
        app_id: app.summary.app_id.as_str(),
        action: address,
        consequences: consequences(&app),
        button,
        seen: if action == AppAction::RotatePayKey {
            newest_key(&app).to_string()
        } else {
            app.secret_fingerprint.clone()
        },
    }))
}
