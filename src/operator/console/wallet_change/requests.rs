//! Large changes that wait for a second person (contract 8.6.40): the list, the page of one, its confirmation and its
//! refusal.

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse as _, Redirect};
use axum::routing::{get, post};
use domain::fields::Fields;
use domain::ids::{AppId, CreditRef};
use domain::operation::wallet::unknown_request;
use domain::rights::Need;
use domain::text;
use store::{ChangeRequest, RequestState, Wallet};

use super::super::change_notice::address_after_change;
use super::super::error::ConsoleError;
use super::super::exchange::exchange_path;
use super::super::i18n::Moment as _;
use super::super::page::{Page, Section, Shown as _, render};
use super::super::player::player_path;
use super::super::request::{Answer, ConsoleRequest, address};
use super::super::route::ConsoleRoute;
use super::form::Wanted;
use super::subject::Target;

/// The ref stands in the query, because it may have any character. An admin confirms, who may make each kind of change.
/// Whoever may ask may withdraw.
pub(in super::super) const ROUTES: &[ConsoleRoute] = &[
    ConsoleRoute::page("/console/requests", || get(list)).of_own_apps(),
    ConsoleRoute::page("/console/apps/{app_id}/request", || get(one)),
    ConsoleRoute::proven(Need::Money, "/console/apps/{app_id}/request/confirm", || post(confirm)),
    ConsoleRoute::change(Need::GiveBack, "/console/apps/{app_id}/request/refuse", || post(refuse)),
];

/// Ended requests that the list shows.
const ENDED_MAX: u32 = 50;

/// The address of a request's page.
pub(super) fn request_path(app_id: &AppId, reference: &CreditRef) -> String {
    let path = format!("/console/apps/{app_id}/request");
    address(&path, &Fields::default(), &[("ref", reference.as_str())])
}

/// Asks a second person for a change that is too large for one. `None` for another one, which is made at once.
pub(super) async fn ask(
    visit: &ConsoleRequest,
    target: &Target,
    wanted: &Wanted,
) -> Result<Option<Answer>, ConsoleError> {
    let store = &visit.state.store;
    let (app_id, reference) = (&target.app_id, wanted.command.reference());
    if store.change_request(app_id, reference).await?.is_none() {
        let is_made = store.change_by_ref(app_id, reference).await?.is_some();
        if is_made || !needs_second_person(visit, wanted) {
            return Ok(None);
        }
        // What the till would refuse now is not asked for.
        wanted.check_give_back(visit.give_back_max())?;
        wanted.preview(target)?;
    }
    let command = wanted.command.clone();
    store.ask_for_change(&visit.operator()?, app_id, &target.open_id, command).await?;
    Ok(Some(Ok(Redirect::to(&request_path(app_id, reference)).into_response())))
}

/// Whether a change is larger than one person may make (`console.second_person_above`).
pub(super) fn needs_second_person(visit: &ConsoleRequest, wanted: &Wanted) -> bool {
    let limit = visit.state.config.console.second_person_above;
    limit > 0 && wanted.command.coins().unsigned_abs() > limit
}

#[derive(Template)]
#[template(path = "requests.html")]
struct ListTemplate<'a> {
    page: Page<'a>,
    waiting: Vec<ChangeRequest>,
    ended: Vec<ChangeRequest>,
    /// `console.second_person_above`.
    limit: u64,
}

async fn list(visit: ConsoleRequest) -> Answer {
    let store = &visit.state.store;
    render(&ListTemplate {
        page: visit.page(Section::REQUESTS, Section::REQUESTS.name),
        waiting: store.waiting_change_requests(visit.apps()).await?,
        ended: store.ended_change_requests(visit.apps(), ENDED_MAX).await?,
        limit: visit.state.config.console.second_person_above,
    })
}

#[derive(Template)]
#[template(path = "request.html")]
struct RequestTemplate<'a> {
    page: Page<'a>,
    request: &'a ChangeRequest,
    /// The wallet now. `None` for a player whom the app does not know.
    wallet: Option<Wallet>,
    /// Whether the user asked for it.
    is_own: bool,
}

async fn one(Path(app_id): Path<String>, visit: ConsoleRequest) -> Answer {
    let request = find(&visit, &app_id).await?;
    let reference = request.command.reference().as_str();
    render(&RequestTemplate {
        page: visit.page(Section::REQUESTS, text!("Request {reference}", reference)),
        wallet: visit.state.store.wallet(&request.app_id, &request.open_id).await?,
        is_own: is_own(&visit, &request),
        request: &request,
    })
}

fn is_own(visit: &ConsoleRequest, request: &ChangeRequest) -> bool {
    visit.user.name.as_str() == request.asked_by
}

async fn find(visit: &ConsoleRequest, app_id: &str) -> Result<ChangeRequest, ConsoleError> {
    let reference = visit.text("ref");
    let none = || ConsoleError::from(unknown_request(app_id, reference));
    let (Ok(app), Ok(number)) = (AppId::parse(app_id), CreditRef::parse(reference)) else {
        return Err(none());
    };
    visit.state.store.change_request(&app, &number).await?.ok_or_else(none)
}

async fn confirm(Path(app_id): Path<String>, visit: ConsoleRequest) -> Answer {
    let operator = visit.operator()?;
    let request = find(&visit, &app_id).await?;
    let (app, reference) = (&request.app_id, request.command.reference());
    let is_done = visit.state.store.confirm_change(&operator, app, reference).await?;
    // Whatever became of it before, its page shows it.
    let path = if is_done {
        address_after_change(&page_of(&request), reference, false)
    } else {
        request_path(app, reference)
    };
    Ok(Redirect::to(&path).into_response())
}

async fn refuse(Path(app_id): Path<String>, visit: ConsoleRequest) -> Answer {
    let operator = visit.operator()?;
    let request = find(&visit, &app_id).await?;
    if !is_own(&visit, &request) && !visit.user.rights.role.may(Need::Money) {
        return Err(ConsoleError::not_for_role(Need::Money));
    }
    let (app, reference) = (&request.app_id, request.command.reference());
    // Whatever became of it, its page shows it.
    visit.state.store.refuse_change(&operator, app, reference).await?;
    Ok(Redirect::to(&request_path(app, reference)).into_response())
}

/// The page that shows the change: of the player, or of the exchange.
fn page_of(request: &ChangeRequest) -> String {
    let app_id = request.app_id.as_str();
    match request.command.given_back() {
        Some((biz_no, _)) => exchange_path(app_id, biz_no.as_str()),
        None => player_path(app_id, request.open_id.as_str()),
    }
}

/// The class of the style sheet.
fn class(state: RequestState) -> &'static str {
    match state {
        RequestState::Waiting => "wait",
        RequestState::Confirmed => "good",
        RequestState::Refused => "bad",
        RequestState::Ended => "",
    }
}
