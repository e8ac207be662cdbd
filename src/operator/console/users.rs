//! Users of the console: a list, and the page of each user, where admins end sessions and waits.

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse as _, Redirect};
use axum::routing::{get, post};
use domain::console_user::ConsoleUserName;
use store::{ConsoleSession, ConsoleUser, ConsoleUserChange};

use super::error::ConsoleError;
use super::page::{Page, Section, Shown as _, render};
use super::route::Route;
use super::visit::{Answer, Visit};

pub(super) const ROUTES: &[Route] = &[
    Route::page("/console/users", || get(list)),
    Route::admin_page("/console/users/{name}", || get(page)),
    Route::proven("/console/users/{name}/unlock", || post(unlock)),
    Route::proven("/console/users/{name}/second-factor/reset", || post(reset_second_factor)),
    Route::proven("/console/users/{name}/sessions/end", || post(end_session)),
];

#[derive(Template)]
#[template(path = "users.html")]
struct UsersPage<'a> {
    page: Page<'a>,
    users: &'a [ConsoleUser],
}

async fn list(visit: Visit) -> Answer {
    let users = visit.state.store.console_users().await?;
    render(&UsersPage { page: visit.page(Section::USERS, "Users"), users: &users })
}

/// What the page of a user tells after a change.
const NOTICES: [(&str, &str); 3] = [
    ("unlock", "No address has to wait any more."),
    ("session", "The session has ended."),
    ("reset", "The user signs in without a second factor. All sessions of the user have ended."),
];

#[derive(Template)]
#[template(path = "user.html")]
struct UserPage<'a> {
    page: Page<'a>,
    user: &'a ConsoleUser,
    sessions: &'a [ConsoleSession],
    /// The session of this request.
    own: &'a str,
}

async fn page(Path(name): Path<String>, visit: Visit) -> Answer {
    let name = parse(&name)?;
    let users = visit.state.store.console_users().await?;
    let user = users.iter().find(|user| user.name == name.as_str()).ok_or_else(|| no_such_user(&name))?;
    let sessions = visit.state.store.console_sessions(&name).await?;
    let page = Page { notice: visit.notice(NOTICES), ..visit.page(Section::USERS, format!("User {name}")) };
    let own = ConsoleSession::id_of(&visit.user.token_hash);
    render(&UserPage { page, user, sessions: &sessions, own: &own })
}

async fn unlock(Path(name): Path<String>, visit: Visit) -> Answer {
    change(&visit, &parse(&name)?, ConsoleUserChange::Unlock, "unlock").await
}

async fn reset_second_factor(Path(name): Path<String>, visit: Visit) -> Answer {
    change(&visit, &parse(&name)?, ConsoleUserChange::ResetSecondFactor, "reset").await
}

async fn end_session(Path(name): Path<String>, visit: Visit) -> Answer {
    let session = visit.text("session").to_owned();
    change(&visit, &parse(&name)?, ConsoleUserChange::EndSession(session), "session").await
}

/// Changes a user and shows the user's page.
async fn change(visit: &Visit, name: &ConsoleUserName, change: ConsoleUserChange, done: &str) -> Answer {
    if !visit.state.store.change_console_user(&visit.operator()?, name, change).await? {
        return Err(no_such_user(name));
    }
    Ok(Redirect::to(&format!("{}/{name}?done={done}", Section::USERS.path)).into_response())
}

/// A text that can be no name is no user.
fn parse(name: &str) -> Result<ConsoleUserName, ConsoleError> {
    ConsoleUserName::parse(name).map_err(|_| no_such_user(name))
}

fn no_such_user(name: impl std::fmt::Display) -> ConsoleError {
    ConsoleError::not_found(format!("There is no user {name}, or the user has no such session."))
}
