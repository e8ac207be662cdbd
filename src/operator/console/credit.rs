//! Credits of a player: a form, a preview, and the credit itself. One reference is credited only once,
//! however often the form is sent.

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse as _, Redirect};
use axum::routing::{get, post};
use domain::exchange::Balances;
use domain::fields::{Fields, parse_integer};
use domain::ids::{CreditRef, OpenId, Reason};
use store::secrets::random_bytes;
use store::{Credit, CreditOutcome, CreditRecord, Wallet};

use super::error::ConsoleError;
use super::page::{Page, Section, Shown, render};
use super::player::{find_player, player_path};
use super::route::Route;
use super::visit::{Answer, Visit, address};

pub(super) const ROUTES: &[Route] = &[
    Route::admin_page("/console/apps/{app_id}/players/{open_id}/credit", || get(form)),
    Route::change("/console/apps/{app_id}/players/{open_id}/credit/check", || post(check)),
    Route::change("/console/apps/{app_id}/players/{open_id}/credit", || post(credit)),
];

#[derive(Template)]
#[template(path = "credit.html")]
struct FormTemplate<'a> {
    page: Page<'a>,
    wallet: &'a Wallet,
    reference: String,
}

async fn form(Path(names): Path<(String, String)>, visit: Visit) -> Answer {
    let (_, open_id, wallet) = find_player(&visit.state, &names).await?;
    let page = visit.page(Section::PLAYERS, format!("Credit {open_id}"));
    let reference = format!("console-{}", hex::encode(random_bytes::<8>()));
    render(&FormTemplate { page, wallet: &wallet, reference })
}

/// The credit that the form requests.
struct Wanted {
    free: i64,
    charge: i64,
    reference: CreditRef,
    reason: Reason,
}

impl Wanted {
    fn read(fields: &Fields) -> Result<Self, ConsoleError> {
        let parse = |text: &str| parse_integer(text, 0, i64::MAX, "a whole number of coins");
        let free = fields.optional("gifted", parse)?.unwrap_or_default();
        let charge = fields.optional("charged", parse)?.unwrap_or_default();
        if (free, charge) == (0, 0) {
            let none = "Type the gifted coins or the charged coins to add. Both are empty or 0.";
            return Err(ConsoleError::bad_request(none));
        }
        let reference = fields.required("reference", CreditRef::parse)?;
        Ok(Self { free, charge, reference, reason: fields.required("reason", Reason::parse)? })
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
    let (app_id, open_id, wallet) = find_player(&visit.state, &names).await?;
    let wanted = Wanted::read(&visit.fields)?;
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
    let (app_id, open_id, wallet) = find_player(&visit.state, &names).await?;
    let Wanted { free, charge, reference, reason } = Wanted::read(&visit.fields)?;
    let credit = Credit { open_id, free, charge, reference: reference.clone(), note: reason.to_string() };
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
    }
}

fn reference_taken(reference: &CreditRef) -> ConsoleError {
    ConsoleError::bad_request(format!(
        "reference: {reference} was used for another player or with other amounts. Type a new reference."
    ))
}

fn too_much() -> ConsoleError {
    ConsoleError::bad_request("A balance would be more than 9223372036854775807.")
}
