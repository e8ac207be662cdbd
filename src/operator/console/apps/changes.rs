//! The forms of apps: each is a command, whose answer is the app's page or the secret that was created.
//!
//! A page with a new secret sends its form again when it is reloaded. The form of a rotation therefore carries the keys
//! that its page showed, and does nothing once they have changed. A second rotation would retire a key that is in use.

use super::super::i18n::{Moment as _, said};
use askama::Template;
use axum::extract::Path;
use domain::ids::{AppId, Reason};
use domain::key_uses::KeyKind;
use domain::operation::app::{
    AppAction, AppCommand, AppReport, IssuedLoginCode, NewAppSecret, NewAppSecrets, NewPayKey,
};
use domain::text;
use domain::text::Text;
use store::AppKey;

use super::super::error::ConsoleError;
use super::super::page::{Page, Section, Shown as _, render};
use super::super::request::{Answer, ConsoleRequest, lead_to};
use super::super::shown_once::ShownOnce;
use super::find;

/// What an app's page tells after a command.
const NOTICES: [(AppAction, &str); 8] = [
    (AppAction::Change, "The settings are saved. They apply on every server within five seconds."),
    (AppAction::Limit, "The limits are saved. They apply on every server within five seconds."),
    (AppAction::Publish, "The version is published. From now on, order reports must name one of its pages."),
    (AppAction::AddPois, "The points of interest are registered."),
    (AppAction::AddPreorders, "The pre-orders are registered."),
    (AppAction::RevokeTokens, "Revoked. Every server refuses it within five seconds."),
    (AppAction::Suspend, "The app is suspended. Every server refuses its requests within five seconds."),
    (AppAction::Resume, "The app is active again. Every server accepts its requests within five seconds."),
];

/// What an app's page tells after the command in the field `done` of its address.
pub(super) fn notice(request: &ConsoleRequest) -> Option<String> {
    request.notice(NOTICES.map(|(action, words)| (action.as_str(), words)))
}

pub(super) async fn create(request: ConsoleRequest) -> Answer {
    let app_id = request.fields.required("app_id", AppId::parse)?;
    answer(AppAction::Create, &app_id, &request).await
}

pub(super) async fn carry_out(
    action: AppAction,
    Path(name): Path<String>,
    request: ConsoleRequest,
) -> Answer {
    let app_id = AppId::parse(&name).map_err(|_| ConsoleError::no_such_app(&name))?;
    answer(action, &app_id, &request).await
}

/// Carries out a command and answers with the app's page, or with the page of a new secret.
async fn answer(action: AppAction, app_id: &AppId, request: &ConsoleRequest) -> Answer {
    let mut operator = request.operator()?;
    if CONFIRMED.iter().any(|confirmed| confirmed.action == action) {
        operator = operator.because(&request.fields.required("reason", Reason::parse)?);
    }
    let command = AppCommand::read(action, &request.fields)?;
    let path = format!("/console/apps/{app_id}");
    let rotation = match action {
        AppAction::RotatePayKey => Some(format!("{path}/rotate-pay-key")),
        AppAction::RotateSecret => Some(format!("{path}/rotate-secret")),
        _ => None,
    };
    let secrets_page = |title: &'static str, secrets: &[_], what_next: &[_]| {
        ShownOnce { owner: ("App", app_id.as_str(), &path), secrets, what_next, rotation: rotation.clone() }
            .render(request, Section::APPS, title)
    };
    match request.state.store.carry_out(&operator, app_id, command).await? {
        AppReport::Created(NewAppSecrets { pay_key, app_secret, .. }) => secrets_page(
            "Keys of the new app",
            &[("Pay key", pay_key), ("App secret", app_secret)],
            &[
                "The pay key signs exchanges. Only the game server may have it.",
                "The app secret is for access tokens and logins. Only the developer's server may have it.",
                "Publish the pages of the app's package next, so that orders can be reported.",
            ],
        ),
        AppReport::PayKey(NewPayKey { pay_key, .. }) => secrets_page(
            "New pay key of the app",
            &[("Pay key", pay_key)],
            &[
                "Give it to the game servers now.",
                "The previous pay key is still valid. When every game server signs with the new one, rotate again to \
                 retire the previous one.",
            ],
        ),
        AppReport::AppSecret(NewAppSecret { app_secret, .. }) => secrets_page(
            "New app secret of the app",
            &[("App secret", app_secret)],
            &[
                "Give it to the developer's server now.",
                "The previous app secret is still valid. When the developer's server uses the new one, rotate again to \
                 retire the previous one.",
                "Access tokens that were already issued stay valid until they expire.",
            ],
        ),
        AppReport::LoginCode(IssuedLoginCode { js_code, expires_at, .. }) => secrets_page(
            "Login code of the app",
            &[("Login code", js_code), ("Expires at", expires_at)],
            &[
                "Give it to the game, which sends it to the developer's server as js_code.",
                "It works once. Its use registers the player, with an empty wallet.",
            ],
        ),
        AppReport::App(_)
        | AppReport::Limits(_)
        | AppReport::Suspension(_)
        | AppReport::Package(_)
        | AppReport::Pois(_)
        | AppReport::Preorders(_)
        | AppReport::Players(_)
        | AppReport::Token(_) => lead_to(&format!("{path}?done={action}")),
        AppReport::Revoked(_) => lead_to(&format!("{path}/tokens?done={action}")),
    }
}

/// A command that a page confirms first. Its form asks for a reason.
struct Confirmed {
    action: AppAction,
    /// The text of the button, and the title of the page.
    button: &'static str,
    consequences: &'static [&'static str],
}

const CONFIRMED: [Confirmed; 4] = [
    Confirmed {
        action: AppAction::Suspend,
        button: "Suspend the app",
        consequences: &[
            "Within five seconds, every server refuses its exchanges, order reports, uploads, token requests and logins.",
            "Balances, orders, keys and tokens do not change. Pictures are still served.",
            "You can resume the app at any time.",
        ],
    },
    Confirmed {
        action: AppAction::Resume,
        button: "Resume the app",
        consequences: &[
            "Within five seconds, every server accepts its requests again. Its keys and tokens are still the same.",
        ],
    },
    Confirmed {
        action: AppAction::RotatePayKey,
        button: "Create a new pay key",
        consequences: &[
            "The new pay key is shown once.",
            "The current pay key stays valid, so that game servers can switch without an interruption.",
        ],
    },
    Confirmed {
        action: AppAction::RotateSecret,
        button: "Create a new app secret",
        consequences: &[
            "The new app secret is shown once.",
            "The current app secret stays valid, so that the developer's server can switch without an interruption.",
            "Access tokens that were already issued stay valid until they expire, 48 hours at most. If the app secret leaked, rotate twice and end them too.",
        ],
    },
];

/// A page that shows what a command will do, and asks for a reason.
#[derive(Template)]
#[template(path = "app_confirm.html")]
struct AppChangePage<'a> {
    page: Page<'a>,
    app_id: &'a AppId,
    confirmed: &'a Confirmed,
    /// The key that the command retires.
    retired: Option<&'a AppKey>,
    /// The newest key that the page shows: the command does nothing once there is a newer one.
    seen: i32,
}

/// The name of a kind of key.
pub(super) fn kind_in_words(key: &AppKey) -> String {
    said(&if key.kind == KeyKind::PayKey.as_str() { text!("Pay key") } else { text!("App secret") })
}

pub(super) async fn confirm(action: AppAction, Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    let app = find(&request.state, &name).await?;
    let confirmed = CONFIRMED.iter().find(|confirmed| confirmed.action == action);
    let confirmed = confirmed.ok_or_else(|| ConsoleError::no_such_app(&name))?;
    let kind = if action == AppAction::RotatePayKey { KeyKind::PayKey } else { KeyKind::AppSecret };
    let mut keys = app.keys.iter().filter(|key| key.kind == kind.as_str() && key.valid);
    let rotates = matches!(action, AppAction::RotatePayKey | AppAction::RotateSecret);
    render(&AppChangePage {
        page: request.page(Section::APPS, text!("{question}?", question = Text::new(confirmed.button))),
        app_id: &app.summary.app_id,
        confirmed,
        seen: keys.next().map_or(0, |key| key.generation),
        retired: keys.next().filter(|_| rotates),
    })
}
