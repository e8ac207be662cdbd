//! Large changes that wait for a second person (contract 8.6.40): the list, the page of one, its confirmation and its
//! refusal.

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse as _, Redirect};
use axum::routing::{get, post};
use domain::fields::Fields;
use domain::ids::{AppId, CreditRef};
use domain::rights::Need;
use domain::text;
use store::{
    AskOutcome, AskedAmounts, AskedChange, ChangeOutcome, ChangeRequest, EndOutcome, RequestState, Wallet,
};

use super::super::change_notice::address_after_change;
use super::super::error::ConsoleError;
use super::super::exchange::exchange_path;
use super::super::i18n::Moment as _;
use super::super::page::{Page, Section, Shown as _, render};
use super::super::player::player_path;
use super::super::request::{Answer, ConsoleRequest, address};
use super::super::route::Route;
use super::Kind;
use super::form::{Wanted, reference_taken, refusal};
use super::subject::Target;

/// The ref stands in the query, because it may have any character. An admin confirms, who may make each kind of change.
/// Whoever may ask may withdraw.
pub(in super::super) const ROUTES: &[Route] = &[
    Route::page("/console/requests", || get(list)).of_own_apps(),
    Route::page("/console/apps/{app_id}/request", || get(one)),
    Route::proven(Need::Money, "/console/apps/{app_id}/request/confirm", || post(confirm)),
    Route::change(Need::GiveBack, "/console/apps/{app_id}/request/refuse", || post(refuse)),
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
    let (app_id, reference) = (&target.app_id, &wanted.reference);
    if store.change_request(app_id, reference).await?.is_none() {
        let is_made = store.change_by_ref(app_id, reference).await?.is_some();
        if is_made || !needs_second_person(visit, wanted) {
            return Ok(None);
        }
        // What the till would refuse now is not asked for.
        wanted.check_give_back(target, visit.give_back_max())?;
        wanted.preview(target)?;
    }
    match store.ask_for_change(&visit.operator()?, app_id, wanted.asked(target)).await? {
        AskOutcome::Asked(_) => Ok(Some(Ok(Redirect::to(&request_path(app_id, reference)).into_response()))),
        AskOutcome::RefConflict => Err(reference_taken(reference)),
        AskOutcome::UnknownApp => Err(ConsoleError::no_such_app(app_id.as_str())),
    }
}

/// Whether a change is larger than one person may make (`console.second_person_above`).
pub(super) fn needs_second_person(visit: &ConsoleRequest, wanted: &Wanted) -> bool {
    let limit = visit.state.config.console.second_person_above;
    limit > 0 && wanted.coins().unsigned_abs() > limit
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
    let reference = request.change.reference.as_str();
    render(&RequestTemplate {
        page: visit.page(Section::REQUESTS, text!("Request {reference}", reference)),
        wallet: visit.state.store.wallet(&request.app_id, &request.change.open_id).await?,
        is_own: is_own(&visit, &request),
        request: &request,
    })
}

fn is_own(visit: &ConsoleRequest, request: &ChangeRequest) -> bool {
    visit.user.name.as_str() == request.asked_by
}

async fn find(visit: &ConsoleRequest, app_id: &str) -> Result<ChangeRequest, ConsoleError> {
    let reference = visit.text("ref");
    let none =
        || ConsoleError::not_found(text!("The app {app_id} has no request {reference}.", app_id, reference));
    let (Ok(app), Ok(number)) = (AppId::parse(app_id), CreditRef::parse(reference)) else {
        return Err(none());
    };
    visit.state.store.change_request(&app, &number).await?.ok_or_else(none)
}

async fn confirm(Path(app_id): Path<String>, visit: ConsoleRequest) -> Answer {
    let operator = visit.operator()?;
    let request = find(&visit, &app_id).await?;
    let (app, reference) = (&request.app_id, &request.change.reference);
    let path = match visit.state.store.confirm_change(&operator, app, reference).await? {
        EndOutcome::Done => address_after_change(&page_of(&request), reference, false),
        EndOutcome::EndedBefore(_) => request_path(app, reference),
        EndOutcome::OwnRequest => {
            let what = "You asked for this change yourself. Another admin must confirm it.";
            return Err(ConsoleError::bad_request(what));
        }
        EndOutcome::Unknown => {
            return find(&visit, &app_id).await.and(Err(ConsoleError::no_such_app(&app_id)));
        }
        EndOutcome::Refused(outcome) => return Err(refused(&visit, &request, outcome).await?),
    };
    Ok(Redirect::to(&path).into_response())
}

async fn refuse(Path(app_id): Path<String>, visit: ConsoleRequest) -> Answer {
    let operator = visit.operator()?;
    let request = find(&visit, &app_id).await?;
    if !is_own(&visit, &request) && !visit.user.rights.role.may(Need::Money) {
        return Err(ConsoleError::not_for_role(Need::Money));
    }
    let (app, reference) = (&request.app_id, &request.change.reference);
    // Whatever became of it, its page shows it.
    visit.state.store.refuse_change(&operator, app, reference).await?;
    Ok(Redirect::to(&request_path(app, reference)).into_response())
}

/// Why the till does not make a change that was confirmed.
async fn refused(
    visit: &ConsoleRequest,
    request: &ChangeRequest,
    outcome: ChangeOutcome,
) -> Result<ConsoleError, ConsoleError> {
    let AskedChange { open_id, amounts, reference, .. } = &request.change;
    let (kind, name) = match amounts {
        AskedAmounts::Credit { .. } => (Kind::Credit, open_id.to_string()),
        AskedAmounts::Debit { .. } => (Kind::Debit, open_id.to_string()),
        AskedAmounts::GiveBack { biz_no, .. } => (Kind::GiveBack, biz_no.to_string()),
    };
    let target = Target::find(kind, &visit.state, &(request.app_id.to_string(), name)).await?;
    Ok(match outcome {
        ChangeOutcome::Refused(domain::wallet::Refused::Conflict) => reference_taken(reference),
        ChangeOutcome::Refused(why) => refusal(why, &target),
        ChangeOutcome::AboveLimit { max } => ConsoleError::bad_request(text!(
            "Who asked for this change may give back at most {max} coins of an exchange. Refuse it, and ask for another one.",
            max = max.shown()
        )),
        ChangeOutcome::UnknownApp | ChangeOutcome::Done { .. } => {
            ConsoleError::no_such_app(request.app_id.as_str())
        }
    })
}

/// The page that shows the change: of the player, or of the exchange.
fn page_of(request: &ChangeRequest) -> String {
    let app_id = request.app_id.as_str();
    match &request.change.amounts {
        AskedAmounts::GiveBack { biz_no, .. } => exchange_path(app_id, biz_no.as_str()),
        AskedAmounts::Credit { .. } | AskedAmounts::Debit { .. } => {
            player_path(app_id, request.change.open_id.as_str())
        }
    }
}

/// Gifted and charged coins, and coins of an exchange, as far as a change has them.
fn amounts(request: &ChangeRequest) -> (Option<[String; 2]>, Option<String>) {
    match &request.change.amounts {
        AskedAmounts::Credit { free, charge, .. } | AskedAmounts::Debit { free, charge } => {
            (Some([free.shown(), charge.shown()]), None)
        }
        AskedAmounts::GiveBack { amount, .. } => (None, Some(amount.get().shown())),
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
