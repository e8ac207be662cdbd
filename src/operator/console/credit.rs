//! Credits of a player: a form, a preview, and the credit itself. One reference is credited only once,
//! however often the form is sent.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use domain::exchange::Balances;
use domain::fields::{Expected, parse_integer};
use domain::ids::{AppId, CreditRef, OpenId};
use store::secrets::random_bytes;
use store::{Credit, CreditOutcome, CreditRecord, Wallet};

use super::error::ConsoleError;
use super::form::AdminForm;
use super::page::{Page, Section, Shown, render};
use super::player::{find_player, link, path_of};
use super::route::Route;
use super::session::SignedIn;
use crate::state::AppState;

pub(super) const ROUTES: &[Route] = &[
    Route::admin_page("/console/apps/{app_id}/players/{open_id}/credit", || get(form)),
    Route::change("/console/apps/{app_id}/players/{open_id}/credit/check", || post(check)),
    Route::change("/console/apps/{app_id}/players/{open_id}/credit", || post(credit)),
];

/// Longest reason, in characters.
const REASON_CHARS_MAX: usize = 500;

#[derive(Template)]
#[template(path = "credit.html")]
struct FormTemplate<'a> {
    page: Page<'a>,
    path: String,
    wallet: &'a Wallet,
    reference: String,
}

async fn form(
    State(state): State<AppState>,
    Path(names): Path<(String, String)>,
    signed_in: SignedIn,
) -> Result<Response, ConsoleError> {
    let (_, open_id, wallet) = find_player(&state, &names).await?;
    let page = Page::new(&signed_in, Section::Players, format!("Credit {open_id}"));
    let reference = format!("console-{}", hex::encode(random_bytes::<8>()));
    Ok(render(&FormTemplate { page, path: path_of(&wallet), wallet: &wallet, reference }))
}

/// The credit that the form requests.
struct Wanted {
    free: i64,
    charge: i64,
    reference: CreditRef,
    reason: String,
}

impl Wanted {
    fn read(form: &AdminForm) -> Result<Self, ConsoleError> {
        let amount = |name: &str| {
            let parse = |text: &str| parse_integer(text, 0, i64::MAX, "a whole number of coins");
            form.optional(name, parse).map(Option::unwrap_or_default)
        };
        let (free, charge) = (amount("gifted")?, amount("charged")?);
        if (free, charge) == (0, 0) {
            let none = "Type the gifted coins or the charged coins to add. Both are empty or 0.";
            return Err(ConsoleError::BadRequest(none.to_owned()));
        }
        let reference = form.required("reference", CreditRef::parse)?;
        Ok(Self { free, charge, reference, reason: form.required("reason", parse_reason)? })
    }

    /// Whether an earlier credit has the same player and the same amounts.
    fn is(&self, earlier: &CreditRecord, open_id: &OpenId) -> bool {
        let changes = (earlier.line.free_change, earlier.line.charge_change);
        earlier.open_id == open_id.as_str() && changes == (self.free, self.charge)
    }
}

fn parse_reason(text: &str) -> Result<String, Expected> {
    let fits = (1..=REASON_CHARS_MAX).contains(&text.chars().count()) && !text.contains(char::is_control);
    if fits { Ok(text.to_owned()) } else { Err(Expected::new("1 to 500 characters")) }
}

#[derive(Template)]
#[template(path = "credit_check.html")]
struct CheckTemplate<'a> {
    page: Page<'a>,
    path: String,
    wallet: &'a Wallet,
    wanted: &'a Wanted,
    after: Balances,
    /// The same credit, if it was already made.
    earlier: Option<CreditRecord>,
}

/// Shows a preview. Nothing changes.
async fn check(
    State(state): State<AppState>,
    Path(names): Path<(String, String)>,
    form: AdminForm,
) -> Result<Response, ConsoleError> {
    let (app_id, open_id, wallet) = find_player(&state, &names).await?;
    let wanted = Wanted::read(&form)?;
    let earlier = state.store.credit_by_ref(&app_id, &wanted.reference).await?;
    if earlier.as_ref().is_some_and(|earlier| !wanted.is(earlier, &open_id)) {
        return Err(reference_taken(&wanted.reference));
    }
    let credited = Balances::new(wallet.free_balance, wallet.charge_balance)
        .and_then(|before| before.credit(wanted.free, wanted.charge));
    let after = credited.map_err(|_| too_much())?.after;
    let page = Page::new(&form.admin, Section::Players, format!("Credit {open_id}?"));
    let path = path_of(&wallet);
    Ok(render(&CheckTemplate { page, path, wallet: &wallet, wanted: &wanted, after, earlier }))
}

async fn credit(
    State(state): State<AppState>,
    Path(names): Path<(String, String)>,
    form: AdminForm,
) -> Result<Response, ConsoleError> {
    let (app_id, open_id, wallet) = find_player(&state, &names).await?;
    let Wanted { free, charge, reference, reason } = Wanted::read(&form)?;
    let credit = Credit { open_id, free, charge, reference: reference.clone(), note: reason };
    match state.store.credit(&form.admin.operator(), &app_id, credit).await? {
        CreditOutcome::Done { replayed, .. } => {
            let again = if replayed { "1" } else { "" };
            let fields = [("credited", reference.as_str()), ("again", again)];
            Ok(Redirect::to(&link(&path_of(&wallet), &fields)).into_response())
        }
        CreditOutcome::RefConflict => Err(reference_taken(&reference)),
        CreditOutcome::OutOfRange => Err(too_much()),
        CreditOutcome::UnknownApp => Err(unknown_app(&app_id)),
    }
}

fn reference_taken(reference: &CreditRef) -> ConsoleError {
    ConsoleError::BadRequest(format!(
        "reference: {reference} was used for another player or with other amounts. Type a new reference."
    ))
}

fn too_much() -> ConsoleError {
    ConsoleError::BadRequest("A balance would be more than 9223372036854775807.".to_owned())
}

fn unknown_app(app_id: &AppId) -> ConsoleError {
    ConsoleError::NotFound(format!("There is no app {app_id}."))
}
