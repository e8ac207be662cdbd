//! A user's own account: the password and the sessions.

use askama::Template;
use axum::routing::{get, post};
use domain::console_user::NewPassword;
use domain::operation::user::UserCommand;
use domain::text;
use store::ConsoleSession;

use super::error::ConsoleError;
use super::i18n::Moment as _;
use super::page::{Page, render};
use super::password;
use super::request::{Answer, ConsoleRequest, lead_to};
use super::route::{ConsoleRoute, routes};
use super::session::SignedIn;

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page(PATH).of_own_apps() => get(page);
    own("/console/account/password") => post(change_password);
    own("/console/account/sessions/end") => post(end_session);
};

pub(super) const PATH: &str = "/console/account";

/// What the page tells after a change.
const NOTICES: [(&str, &str); 2] = [
    ("password", "Your password is changed. Your other sessions have ended."),
    ("session", "The session has ended."),
];

#[derive(Template)]
#[template(path = "account.html")]
struct AccountPage<'a> {
    page: Page<'a>,
    user: &'a SignedIn,
    /// Whether so many codes were wrong that a recovery code alone counts.
    needs_recovery_code: bool,
    sessions: &'a [ConsoleSession],
    /// The session of this request.
    own: &'a str,
}

async fn page(request: ConsoleRequest) -> Answer {
    let name = request.user.name.as_str();
    let users = request.state.store.console_users().await?;
    let needs_recovery_code = users.iter().any(|user| user.name == name && user.needs_recovery_code);
    let sessions = request.state.store.console_sessions(&request.user.name).await?;
    let page = Page {
        notice: request.notice(NOTICES),
        user: Some(&request.user),
        ..Page::of_nobody("Your account")
    };
    let own = ConsoleSession::id_of(&request.user.token_hash);
    render(&AccountPage { page, user: &request.user, needs_recovery_code, sessions: &sessions, own: &own })
}

async fn change_password(request: ConsoleRequest) -> Answer {
    let (name, present) = (&request.user.name, request.fields.text("password").unwrap_or_default());
    // The error of a field would repeat what was typed.
    let new = NewPassword::parse(request.fields.text("new_password").unwrap_or_default(), name).map_err(
        |expected| {
            ConsoleError::bad_request(text!(
                "New password: {expected}.",
                expected = text!("expected {expected}", expected = expected.0)
            ))
        },
    )?;
    if request.fields.text("repeated_password") != Some(new.as_str()) {
        return Err(ConsoleError::bad_request("The two new passwords are different."));
    }
    let code = Some(request.text("code"));
    let present = password::verify(&request.state, request.client, name, present, code).await?;
    let present = present.ok_or(ConsoleError::WRONG_PASSWORD)?;
    let new = password::hash(&request.state, request.client, new).await?;
    let command = UserCommand::OwnPassword { present, new, session: request.user.token_hash };
    request.state.store.change_console_user(&request.oneself()?, name, command).await?;
    lead_to("/console/account?done=password")
}

async fn end_session(request: ConsoleRequest) -> Answer {
    let command = UserCommand::EndSession(request.text("session").to_owned());
    request.state.store.change_console_user(&request.oneself()?, &request.user.name, command).await?;
    lead_to("/console/account?done=session")
}
