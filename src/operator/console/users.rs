//! Users of the console: a list, and the unlock of a locked user. The command line makes all other changes.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use domain::console_user::ConsoleUserName;
use store::{ConsoleUser, ConsoleUserChange};

use super::error::ConsoleError;
use super::form::{AdminForm, Input};
use super::page::{Page, Section, Shown as _, render};
use super::route::Route;
use super::session::SignedIn;
use crate::state::AppState;

pub(super) const ROUTES: &[Route] =
    &[Route::page("/console/users", || get(page)), Route::change("/console/users/unlock", || post(unlock))];

#[derive(Template)]
#[template(path = "users.html")]
struct UsersPage<'a> {
    page: Page<'a>,
    users: Vec<ConsoleUser>,
}

async fn page(
    State(state): State<AppState>,
    signed_in: SignedIn,
    input: Input,
) -> Result<Response, ConsoleError> {
    let users = state.store.console_users().await?;
    let unlocked = users.iter().find(|user| user.name == input.text("unlocked"));
    let notice = unlocked.map(|user| format!("{} can sign in again.", user.name));
    let page = Page::new(&signed_in, Section::Users, "Users").with_notice(notice);
    Ok(render(&UsersPage { page, users }))
}

async fn unlock(State(state): State<AppState>, form: AdminForm) -> Result<Response, ConsoleError> {
    let name = form.required("name", ConsoleUserName::parse)?;
    let (operator, unlock) = (form.admin.operator(), ConsoleUserChange::Unlock);
    if !state.store.change_console_user(&operator, &name, unlock).await? {
        return Err(ConsoleError::NotFound(format!("There is no user {name}.")));
    }
    Ok(Redirect::to(&format!("{}?unlocked={name}", Section::Users.path())).into_response())
}
