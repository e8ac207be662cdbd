//! Users of the console: a list, where admins add one, and the page of each user, where admins change it.

use std::iter;

use askama::Template;
use axum::extract::Path;
use axum::routing::{get, post};
use domain::console_user::{ConsoleUserName, NewPassword, Role};
use domain::operation::account::AccountChange;
use domain::operation::user::{UserCommand, unknown_own_app, unknown_user};
use domain::rights::{Apps, Need, Rights};
use domain::text;
use store::secrets::random_key_text;
use store::{ConsoleSession, ConsoleUser};

use super::account_change;
use super::error::ConsoleError;
use super::i18n::Moment as _;
use super::page::{Page, Section, Shown as _, render};
use super::password;
use super::request::{Answer, ConsoleRequest, lead_to};
use super::route::{ConsoleRoute, routes};
use super::shown_once::ShownOnce;

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page("/console/users") => get(list);
    proven(Need::Administer, "/console/users") => post(add);
    page_for(Need::Administer, "/console/users/{name}") => get(page);
    proven(Need::Administer, "/console/users/{name}/role") => post(set_role);
    proven(Need::Administer, "/console/users/{name}/remove") => post(remove);
    proven(Need::Administer, "/console/users/{name}/unlock") => post(unlock);
    proven(Need::Administer, "/console/users/{name}/second-factor/reset") => post(reset_second_factor);
    proven(Need::Administer, "/console/users/{name}/sessions/end") => post(end_session);
};

#[derive(Template)]
#[template(path = "users.html")]
struct UsersPage<'a> {
    page: Page<'a>,
    users: &'a [ConsoleUser],
}

async fn list(request: ConsoleRequest) -> Answer {
    let users = request.state.store.console_users().await?;
    let page = Page { notice: request.notice(NOTICES), ..request.page(Section::USERS, "Users") };
    render(&UsersPage { page, users: &users })
}

/// Adds a user with a random password. So no form, and no page that asks for a proof, has one in it.
async fn add(request: ConsoleRequest) -> Answer {
    let name = request.fields.required("name", ConsoleUserName::parse)?;
    let rights = rights(&request).await?;
    let password = iter::repeat_with(random_key_text).find_map(|text| NewPassword::parse(&text, &name).ok());
    let password = password.expect("nearly every random text is a good password");
    let hash = password::hash(&request.state, request.client, password.clone()).await?;
    let waits = account_change::needs_second_person(&request);
    if waits {
        let change = AccountChange::AddUser(name.clone(), rights, hash);
        account_change::ask(&request, change).await?;
    } else {
        let command = UserCommand::Add(rights, hash);
        request.state.store.change_console_user(&request.operator()?, &name, command).await?;
    }
    let page_after =
        if waits { Section::REQUESTS.path.to_owned() } else { format!("{}/{name}", Section::USERS.path) };
    let shown = ShownOnce {
        owner: ("Name", name.as_str(), &page_after),
        secrets: &[("Password", password.as_str().to_owned())],
        what_next: if waits { &[NEXT, account_change::SECRET_WAITS] } else { &[NEXT] },
        rotation: None,
    };
    shown.render(&request, Section::USERS, "Password of")
}

/// What whoever adds a user does with the password.
const NEXT: &str =
    "Give it to the user now. The user changes it after the sign-in, on the page of the account.";

/// What the page of a user tells after a change.
const NOTICES: [(&str, &str); 5] = [
    ("role", "The role is changed. Sessions with other rights have ended."),
    ("removed", "The user is removed. All sessions of the user have ended."),
    ("unlock", "Every address can sign in again."),
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

async fn page(Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    let name = parse(&name)?;
    let users = request.state.store.console_users().await?;
    let user = users.iter().find(|user| user.name == name.as_str()).ok_or_else(|| no_such_user(&name))?;
    let sessions = request.state.store.console_sessions(&name).await?;
    let page =
        Page { notice: request.notice(NOTICES), ..request.page(Section::USERS, text!("User {name}", name)) };
    let own = ConsoleSession::id_of(&request.user.token_hash);
    render(&UserPage { page, user, sessions: &sessions, own: &own })
}

async fn set_role(Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    let (name, rights) = (parse(&name)?, rights(&request).await?);
    if account_change::needs_second_person(&request) {
        return account_change::ask_and_list(&request, AccountChange::SetRights(name, rights)).await;
    }
    change(&request, &name, UserCommand::Rights(rights), "role").await
}

async fn remove(Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    request
        .state
        .store
        .change_console_user(&request.operator()?, &parse(&name)?, UserCommand::Remove)
        .await?;
    lead_to("/console/users?done=removed")
}

/// The role and the apps that a form gives. Each app must be there.
pub(super) async fn rights(request: &ConsoleRequest) -> Result<Rights, ConsoleError> {
    let role = request.fields.required("role", Role::parse)?;
    let apps = request.fields.optional("apps", Apps::parse)?.unwrap_or_default();
    match request.state.store.first_unknown_app(&apps).await? {
        Some(app_id) => Err(unknown_own_app(app_id).into()),
        None => Ok(Rights { role, apps }),
    }
}

async fn unlock(Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    change(&request, &parse(&name)?, UserCommand::Unlock, "unlock").await
}

async fn reset_second_factor(Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    let name = parse(&name)?;
    if account_change::needs_second_person(&request) {
        return account_change::ask_and_list(&request, AccountChange::ResetSecondFactor(name)).await;
    }
    change(&request, &name, UserCommand::ResetSecondFactor, "reset").await
}

async fn end_session(Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    let session = request.text("session").to_owned();
    change(&request, &parse(&name)?, UserCommand::EndSession(session), "session").await
}

/// Changes a user and shows the user's page.
async fn change(
    request: &ConsoleRequest,
    name: &ConsoleUserName,
    command: UserCommand,
    done: &str,
) -> Answer {
    request.state.store.change_console_user(&request.operator()?, name, command).await?;
    lead_to(&format!("{}/{name}?done={done}", Section::USERS.path))
}

/// A text that can be no name is no user.
fn parse(name: &str) -> Result<ConsoleUserName, ConsoleError> {
    ConsoleUserName::parse(name).map_err(|_| no_such_user(name))
}

fn no_such_user(name: impl std::fmt::Display) -> ConsoleError {
    unknown_user(name).into()
}
