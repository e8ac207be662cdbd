//! Changes that wait for a second person (contract 8.6.40): the list, the page of a large change of a wallet, its
//! confirmation and its refusal.

use std::fmt::Display;

use askama::Template;
use axum::extract::Path;
use axum::routing::{get, post};
use domain::fields::Fields;
use domain::ids::{AppId, CreditRef, OpenId};
use domain::operation::wallet::{WalletCommand, unknown_request};
use domain::rights::Need;
use domain::text;
use store::{ChangeRequest, RequestState, RequestedChange, Wallet};

use super::super::account_change::AccountRequest;
use super::super::change_notice::address_after_change;
use super::super::error::ConsoleError;
use super::super::exchange::exchange_path;
use super::super::i18n::Moment as _;
use super::super::page::{Page, Section, Shown as _, render};
use super::super::player::player_path;
use super::super::request::{Answer, ConsoleRequest, address, lead_to};
use super::super::route::{ConsoleRoute, routes};
use super::form::Wanted;
use super::subject::ChangeSubject;

/// The ref stands in the query, because it may have any character. An admin confirms, who may make each kind of change.
/// Whoever may ask may withdraw.
pub(in super::super) const ROUTES: &[ConsoleRoute] = routes! {
    page("/console/requests").of_own_apps() => get(list);
    page("/console/apps/{app_id}/request") => get(one);
    proven(Need::Money, "/console/apps/{app_id}/request/confirm") => post(confirm);
    change(Need::GiveBack, "/console/apps/{app_id}/request/refuse") => post(refuse);
};

/// Ended requests that the list shows.
const ENDED_MAX: u32 = 50;

/// The address of a request's page.
pub(super) fn request_path(app_id: impl Display, reference: &CreditRef) -> String {
    let path = format!("/console/apps/{app_id}/request");
    address(&path, &Fields::default(), &[("ref", reference.as_str())])
}

/// Asks a second person for a change that is too large for one. `None` for another one, which is made at once.
pub(super) async fn ask(
    request: &ConsoleRequest,
    target: &ChangeSubject,
    wanted: &Wanted,
) -> Result<Option<Answer>, ConsoleError> {
    let store = &request.state.store;
    let (app_id, reference) = (&target.app_id, wanted.command.reference());
    if store.change_request(app_id.as_str(), reference).await?.is_none() {
        let is_made = store.change_by_ref(app_id, reference).await?.is_some();
        if is_made || !needs_second_person(request, wanted).await? {
            return Ok(None);
        }
        // What the till would refuse now is not asked for.
        store.foresee_change(&request.moving_operator()?, app_id, &wanted.command).await?;
    }
    let command = wanted.command.clone();
    store.ask_for_change(&request.operator()?, app_id, &target.open_id, command).await?;
    Ok(Some(lead_to(&request_path(app_id, reference))))
}

/// Whether a change brings the user above what one person may move (`console.second_person_above`).
pub(super) async fn needs_second_person(
    request: &ConsoleRequest,
    wanted: &Wanted,
) -> Result<bool, ConsoleError> {
    let coins = wanted.command.coins();
    Ok(request.state.store.needs_second_person(&request.moving_operator()?, coins).await?)
}

/// A request for a change of a wallet.
struct AskedWalletChange<'a> {
    asked: &'a ChangeRequest,
    app_id: &'a AppId,
    open_id: &'a OpenId,
    command: &'a WalletCommand,
}

impl<'a> AskedWalletChange<'a> {
    /// The request. `None` when it is for another change.
    fn of(asked: &'a ChangeRequest) -> Option<Self> {
        let RequestedChange::Wallet { app_id, open_id, command, .. } = &asked.change else { return None };
        Some(Self { asked, app_id, open_id, command })
    }
}

/// A request for a gift.
struct AskedGift<'a> {
    asked: &'a ChangeRequest,
    app_id: &'a AppId,
    path: String,
    coins: i64,
    reason: &'a str,
}

impl<'a> AskedGift<'a> {
    /// The request. `None` when it is for another change.
    fn of(asked: &'a ChangeRequest) -> Option<Self> {
        let RequestedChange::Gift { app_id, free, charge, reason, .. } = &asked.change else { return None };
        let path = gift_path(app_id.as_str(), &asked.reference);
        Some(Self { asked, app_id, path, coins: free.saturating_add(*charge), reason })
    }
}

#[derive(Template)]
#[template(path = "requests.html")]
struct ListTemplate<'a> {
    page: Page<'a>,
    /// Whether a change of any kind waits: of a wallet, a gift, or an account.
    any_waits: bool,
    waiting: Vec<AskedWalletChange<'a>>,
    ended: Vec<AskedWalletChange<'a>>,
    accounts: Vec<AccountRequest<'a>>,
    gifts: Vec<AskedGift<'a>>,
    /// `console.second_person_above`.
    limit: u64,
}

/// What the page tells after a change of a user or an API key.
const NOTICES: [(&str, &str); 3] = [
    ("asked", "The change waits for a second person. Nothing has changed yet."),
    ("confirmed", "The change was made."),
    ("refused", "The change was refused. Nothing has changed."),
];

async fn list(request: ConsoleRequest) -> Answer {
    let store = &request.state.store;
    let waiting = store.waiting_change_requests(request.apps()).await?;
    let ended = store.ended_change_requests(request.apps(), ENDED_MAX).await?;
    let gifts = waiting.iter().chain(&ended).filter_map(AskedGift::of).collect();
    let accounts = waiting.iter().chain(&ended).filter_map(AccountRequest::of).collect();
    let page = request.page(Section::REQUESTS, Section::REQUESTS.name);
    render(&ListTemplate {
        page: Page { notice: request.notice(NOTICES), ..page },
        any_waits: !waiting.is_empty(),
        waiting: waiting.iter().filter_map(AskedWalletChange::of).collect(),
        ended: ended.iter().filter_map(AskedWalletChange::of).collect(),
        accounts,
        gifts,
        limit: request.state.config.console.second_person_above,
    })
}

#[derive(Template)]
#[template(path = "request.html")]
struct RequestTemplate<'a> {
    page: Page<'a>,
    request: &'a AskedWalletChange<'a>,
    /// The wallet now. `None` for a player whom the app does not know.
    wallet: Option<Wallet>,
    /// Whether the user asked for it.
    is_own: bool,
    /// The page of the player or the exchange.
    path: String,
}

async fn one(Path(app_id): Path<String>, request: ConsoleRequest) -> Answer {
    let found = find(&request, &app_id).await?;
    let path = page_of(&found);
    // The page of a gift shows its request.
    let Some(change_request) = AskedWalletChange::of(&found) else {
        return lead_to(&path);
    };
    let reference = change_request.command.reference().as_str();
    render(&RequestTemplate {
        page: request.page(Section::REQUESTS, text!("Request {reference}", reference)),
        wallet: request.state.store.wallet(change_request.app_id, change_request.open_id).await?,
        is_own: is_own(&request, &found.asked_by),
        path,
        request: &change_request,
    })
}

fn is_own(request: &ConsoleRequest, asked_by: &str) -> bool {
    request.user.name.as_str() == asked_by
}

/// The request for a change of wallets.
async fn find(request: &ConsoleRequest, app_id: &str) -> Result<ChangeRequest, ConsoleError> {
    let reference = request.text("ref");
    let none = || ConsoleError::from(unknown_request(app_id, reference));
    let (Ok(app), Ok(number)) = (AppId::parse(app_id), CreditRef::stored(reference)) else {
        return Err(none());
    };
    request.state.store.change_request(app.as_str(), &number).await?.ok_or_else(none)
}

async fn confirm(Path(app_id): Path<String>, request: ConsoleRequest) -> Answer {
    let operator = request.operator()?;
    let asked = find(&request, &app_id).await?;
    let is_done = request.state.store.confirm_change(&operator, &app_id, &asked.reference).await?;
    // Whatever became of it before, its page shows it.
    let path = match &asked.change {
        RequestedChange::Gift { .. } => page_of(&asked),
        _ if is_done => address_after_change(&page_of(&asked), &asked.reference, false),
        _ => request_path(&app_id, &asked.reference),
    };
    lead_to(&path)
}

async fn refuse(Path(app_id): Path<String>, request: ConsoleRequest) -> Answer {
    let operator = request.operator()?;
    let asked = find(&request, &app_id).await?;
    if !is_own(&request, &asked.asked_by) && !request.user.rights.role.may(Need::Money) {
        return Err(ConsoleError::not_for_role(Need::Money));
    }
    // Whatever became of it, its page shows it.
    request.state.store.refuse_change(&operator, &app_id, &asked.reference).await?;
    lead_to(&request_path(&app_id, &asked.reference))
}

/// The page that shows the change: of the player, of the exchange, or of the gift.
fn page_of(asked: &ChangeRequest) -> String {
    match &asked.change {
        RequestedChange::Wallet { app_id, open_id, command, .. } => match command.given_back() {
            Some((biz_no, _)) => exchange_path(app_id.as_str(), biz_no.as_str()),
            None => player_path(app_id.as_str(), open_id.as_str()),
        },
        RequestedChange::Gift { app_id, .. } => gift_path(app_id.as_str(), &asked.reference),
        RequestedChange::Account(_) => Section::REQUESTS.path.to_owned(),
    }
}

/// The address of a gift's page.
pub(in super::super) fn gift_path(app_id: &str, gift: &CreditRef) -> String {
    format!("/console/apps/{app_id}/gifts/{gift}")
}

/// The class of the style sheet.
pub(in super::super) fn class(state: RequestState) -> &'static str {
    match state {
        RequestState::Waiting => "wait",
        RequestState::Confirmed => "good",
        RequestState::Refused => "bad",
        RequestState::Ended => "",
    }
}
