//! Users of the console: a list, and the unlock of a locked user. The command line makes all other changes.

use askama::Template;
use axum::response::{IntoResponse as _, Redirect};
use axum::routing::{get, post};
use domain::console_user::ConsoleUserName;
use store::{ConsoleUser, ConsoleUserChange};

use super::error::ConsoleError;
use super::page::{Page, Section, Shown as _, render};
use super::route::Route;
use super::visit::{Answer, Visit};

pub(super) const ROUTES: &[Route] =
    &[Route::page("/console/users", || get(page)), Route::change("/console/users/unlock", || post(unlock))];

#[derive(Template)]
#[template(path = "users.html")]
struct UsersPage<'a> {
    page: Page<'a>,
    users: &'a [ConsoleUser],
}

async fn page(visit: Visit) -> Answer {
    let users = visit.state.store.console_users().await?;
    let unlocked = users.iter().find(|user| user.name == visit.text("unlocked"));
    let notice = unlocked.map(|user| format!("{} can sign in again.", user.name));
    render(&UsersPage { page: Page { notice, ..visit.page(Section::USERS, "Users") }, users: &users })
}

async fn unlock(visit: Visit) -> Answer {
    let name = visit.fields.required("name", ConsoleUserName::parse)?;
    if !visit.state.store.change_console_user(&visit.operator()?, &name, ConsoleUserChange::Unlock).await? {
        return Err(ConsoleError::not_found(format!("There is no user {name}.")));
    }
    Ok(Redirect::to(&format!("{}?unlocked={name}", Section::USERS.path)).into_response())
}
