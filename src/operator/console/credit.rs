//! Credits of a player: a form, a preview, and the credit itself. One reference is credited only once,
//! however often the form is sent.

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse as _, Redirect};
use axum::routing::{get, post};
use domain::exchange::{Balances, check_credit};
use domain::fields::{FieldError, Fields, parse_integer};
use domain::ids::{AppId, CreditRef, OpenId, Reason};
use store::secrets::random_bytes;
use store::{Credit, CreditOutcome, CreditRecord, Wallet};

use super::error::ConsoleError;
use super::page::{Page, Section, Shown, render};
use super::player::player_path;
use super::route::Route;
use super::visit::{Answer, Visit, address};
use crate::state::AppState;

pub(super) const ROUTES: &[Route] = &[
    Route::admin_page("/console/apps/{app_id}/players/{open_id}/credit", || get(form)),
    Route::change("/console/apps/{app_id}/players/{open_id}/credit/check", || post(check)),
    Route::proven("/console/apps/{app_id}/players/{open_id}/credit", || post(credit)),
];

#[derive(Template)]
#[template(path = "credit.html")]
struct FormTemplate<'a> {
    page: Page<'a>,
    wallet: &'a Wallet,
    is_known: bool,
    reference: String,
}

/// The player of an address. The app may not know the player, who then has an empty wallet here.
struct Player {
    app_id: AppId,
    open_id: OpenId,
    wallet: Wallet,
    is_known: bool,
}

impl Player {
    async fn find(state: &AppState, (app_id, open_id): &(String, String)) -> Result<Self, ConsoleError> {
        let no_app = || ConsoleError::no_such_app(app_id);
        let app = AppId::parse(app_id).map_err(|_| no_app())?;
        let player = OpenId::parse(open_id)
            .map_err(|expected| FieldError::malformed("open_id", expected.0, open_id))?;
        let known = state.store.wallet(&app, &player).await?;
        if known.is_none() && state.store.find_app(&app).await?.is_none() {
            return Err(no_app());
        }
        let is_known = known.is_some();
        let (app_id, open_id) = (app_id.clone(), open_id.clone());
        let wallet =
            known.unwrap_or(Wallet { app_id, open_id, free_balance: 0, charge_balance: 0, entries: 0 });
        Ok(Self { app_id: app, open_id: player, wallet, is_known })
    }

    /// Refuses a player who is unknown, unless the form makes the player known.
    fn check(&self, wanted: &Wanted) -> Result<(), ConsoleError> {
        if self.is_known || wanted.create { Ok(()) } else { Err(unknown_player(&self.app_id, &self.open_id)) }
    }
}

async fn form(Path(names): Path<(String, String)>, visit: Visit) -> Answer {
    let Player { open_id, wallet, is_known, .. } = Player::find(&visit.state, &names).await?;
    let page = visit.page(Section::PLAYERS, format!("Credit {open_id}"));
    let reference = format!("console-{}", hex::encode(random_bytes::<8>()));
    render(&FormTemplate { page, wallet: &wallet, is_known, reference })
}

/// The credit that the form requests.
struct Wanted {
    free: i64,
    charge: i64,
    reference: CreditRef,
    reason: Reason,
    /// Whether the credit makes the player known.
    create: bool,
}

impl Wanted {
    fn read(fields: &Fields) -> Result<Self, ConsoleError> {
        let parse = |text: &str| parse_integer(text, 0, i64::MAX, "a whole number of coins");
        let free = fields.optional("gifted", parse)?.unwrap_or_default();
        let charge = fields.optional("charged", parse)?.unwrap_or_default();
        let none = "Type the gifted coins or the charged coins to add. Both are empty or 0.";
        check_credit(free, charge).map_err(|_| ConsoleError::bad_request(none))?;
        let reference = fields.required("reference", CreditRef::parse)?;
        let reason = fields.required("reason", Reason::parse)?;
        Ok(Self { free, charge, reference, reason, create: fields.flag("create")?.unwrap_or_default() })
    }

    /// Whether an earlier credit has the same player and the same amounts.
    fn is(&self, earlier: &CreditRecord, open_id: &OpenId) -> bool {
        let changes = (earlier.line.free_change, earlier.line.charge_change);
        earlier.open_id == open_id.as_str() && changes == (self.free, self.charge)
    }
}

#[derive(Template)]
#[template(path = "credit_check.html")]
struct CheckTemplate<'a> {
    page: Page<'a>,
    wallet: &'a Wallet,
    wanted: &'a Wanted,
    after: Balances,
    /// The same credit, if it was already made.
    earlier: Option<CreditRecord>,
}

/// Shows a preview. Nothing changes.
async fn check(Path(names): Path<(String, String)>, visit: Visit) -> Answer {
    let player = Player::find(&visit.state, &names).await?;
    let wanted = Wanted::read(&visit.fields)?;
    player.check(&wanted)?;
    let Player { app_id, open_id, wallet, .. } = player;
    let earlier = visit.state.store.credit_by_ref(&app_id, &wanted.reference).await?;
    if earlier.as_ref().is_some_and(|earlier| !wanted.is(earlier, &open_id)) {
        return Err(reference_taken(&wanted.reference));
    }
    let credited = Balances::new(wallet.free_balance, wallet.charge_balance)
        .and_then(|before| before.credit(wanted.free, wanted.charge));
    let after = credited.map_err(|_| too_much())?.after;
    let page = visit.page(Section::PLAYERS, format!("Credit {open_id}?"));
    render(&CheckTemplate { page, wallet: &wallet, wanted: &wanted, after, earlier })
}

async fn credit(Path(names): Path<(String, String)>, visit: Visit) -> Answer {
    let operator = visit.operator()?;
    let Player { app_id, open_id, wallet, .. } = Player::find(&visit.state, &names).await?;
    let Wanted { free, charge, reference, reason, create } = Wanted::read(&visit.fields)?;
    let note = reason.to_string();
    let credit =
        Credit { open_id: open_id.clone(), free, charge, reference: reference.clone(), note, create };
    match visit.state.store.credit(&operator, &app_id, credit).await? {
        CreditOutcome::Done { replayed, .. } => {
            let again = if replayed { "1" } else { "" };
            let fields = [("credited", reference.as_str()), ("again", again)];
            let path = player_path(&wallet.app_id, &wallet.open_id);
            Ok(Redirect::to(&address(&path, &Fields::default(), &fields)).into_response())
        }
        CreditOutcome::RefConflict => Err(reference_taken(&reference)),
        CreditOutcome::OutOfRange => Err(too_much()),
        CreditOutcome::UnknownApp => Err(ConsoleError::no_such_app(app_id.as_str())),
        CreditOutcome::UnknownPlayer => Err(unknown_player(&app_id, &open_id)),
    }
}

fn reference_taken(reference: &CreditRef) -> ConsoleError {
    ConsoleError::bad_request(format!(
        "reference: {reference} was used for another player or with other amounts. Type a new reference."
    ))
}

fn unknown_player(app_id: &AppId, open_id: &OpenId) -> ConsoleError {
    ConsoleError::bad_request(format!(
        "The app {app_id} has no player {open_id}. A login makes a player known, and so does the box of this form."
    ))
}

fn too_much() -> ConsoleError {
    ConsoleError::bad_request("A balance would be more than 9223372036854775807.")
}
