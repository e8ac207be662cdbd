//! Changes of users and API keys that wait for a second person (contract 8.6.44): asks for one, confirms and refuses it. The
//! list of requests shows them.

use axum::routing::post;
use domain::ids::CreditRef;
use domain::operation::account::{AccountChange, AccountChangeKind};
use domain::operation::key::NewApiKey;
use domain::operation::wallet::unknown_request;
use domain::rights::Need;
use store::{ChangeRequest, RequestState, RequestedChange};

use super::error::ConsoleError;
use super::page::Section;
use super::request::{Answer, ConsoleRequest, lead_to};
use super::route::{ConsoleRoute, routes};

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    proven(Need::Administer, "/console/account-requests/confirm") => post(confirm);
    change(Need::Administer, "/console/account-requests/refuse") => post(refuse);
};

/// What the page of a new secret says of it while its request waits.
pub(super) const SECRET_WAITS: &str =
    "It is of use once another admin has confirmed the change, on the page Requests.";

/// A request for a change of a user or an API key.
pub(super) struct AccountRequest<'a> {
    pub(super) asked: &'a ChangeRequest,
    pub(super) change: &'a AccountChange,
}

impl<'a> AccountRequest<'a> {
    /// The request. `None` when it is for another change.
    pub(super) fn of(asked: &'a ChangeRequest) -> Option<Self> {
        let RequestedChange::Account(change) = &asked.change else { return None };
        Some(Self { asked, change })
    }

    /// The kind of the change, in words.
    pub(super) fn kind(&self) -> &'static str {
        match self.change.kind() {
            AccountChangeKind::AddUser => "New user",
            AccountChangeKind::SetRights => "Change the role",
            AccountChangeKind::ResetSecondFactor => "Reset the second factor",
            AccountChangeKind::CreateKey => "New key",
        }
    }

    pub(super) fn waits(&self) -> bool {
        self.asked.state == RequestState::Waiting
    }
}

/// Whether one person alone may not make changes of users.
pub(super) fn needs_second_person(request: &ConsoleRequest) -> bool {
    request.state.config.console.alone_max().is_some()
}

/// The same for this API key.
pub(super) fn key_needs_second_person(request: &ConsoleRequest, key: &NewApiKey) -> bool {
    needs_second_person(request) && key.is_made_by_two_people()
}

/// Asks for a change.
pub(super) async fn ask(request: &ConsoleRequest, change: AccountChange) -> Result<(), ConsoleError> {
    request.state.store.ask_for_account_change(&request.operator()?, change).await?;
    Ok(())
}

/// Asks for a change, and leads to the list of requests.
pub(super) async fn ask_and_list(request: &ConsoleRequest, change: AccountChange) -> Answer {
    ask(request, change).await?;
    list_with("asked")
}

async fn confirm(request: ConsoleRequest) -> Answer {
    let (operator, reference) = (request.operator()?, reference(&request)?);
    let is_done = request.state.store.confirm_change(&operator, "", &reference).await?;
    list_with(if is_done { "confirmed" } else { "" })
}

async fn refuse(request: ConsoleRequest) -> Answer {
    let (operator, reference) = (request.operator()?, reference(&request)?);
    let is_done = request.state.store.refuse_change(&operator, "", &reference).await?;
    list_with(if is_done { "refused" } else { "" })
}

fn reference(request: &ConsoleRequest) -> Result<CreditRef, ConsoleError> {
    let text = request.text("ref");
    CreditRef::parse(text).map_err(|_| unknown_request("", text).into())
}

/// The list of requests, with what was done. What had ended before shows its end there.
fn list_with(done: &str) -> Answer {
    lead_to(&format!("{}?done={done}", Section::REQUESTS.path))
}
