//! Players: the search by `open_id`, the page of a player with both balances and the ledger, and the
//! ledger as a CSV file.

use askama::Template;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use axum::routing::get;
use domain::ids::{AppId, CreditRef, OpenId};
use domain::moment;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, future, stream};
use store::{
    EntryKind, LedgerFilter, LedgerLine, LedgerPage, PlayerCursor, PlayerFilter, PlayersPage, StoreError,
    Wallet, WalletTotals,
};

use super::app_field::AppField;
use super::error::ConsoleError;
use super::form::Input;
use super::page::{Page, Section, Shown, render};
use super::route::Route;
use super::session::SignedIn;
use crate::state::AppState;

pub(super) const ROUTES: &[Route] = &[
    Route::page("/console/players", || get(search)),
    Route::page("/console/apps/{app_id}/players/{open_id}", || get(player)),
    Route::page("/console/apps/{app_id}/players/{open_id}/ledger.csv", || get(ledger_csv)),
];

/// Players or ledger entries on a page.
const ROWS: u32 = 50;
/// Lines of the CSV file in one chunk.
const LINES_AT_ONCE: usize = 500;

#[derive(Template)]
#[template(path = "players.html")]
struct PlayersTemplate<'a> {
    page: Page<'a>,
    app_field: AppField<'a>,
    app_id: &'a str,
    open_id: &'a str,
    /// `None` for an empty form.
    found: Option<PlayersPage>,
    more: Option<String>,
    is_first: bool,
}

async fn search(
    State(state): State<AppState>,
    signed_in: SignedIn,
    input: Input,
) -> Result<Response, ConsoleError> {
    let filter = PlayerFilter {
        app_id: input.optional("app_id", AppId::parse)?,
        open_id: input.optional("open_id", OpenId::parse)?,
    };
    let after: Option<PlayerCursor> = input.text("after").parse().ok();
    let is_asked = filter.app_id.is_some() || filter.open_id.is_some();
    let found =
        if is_asked { Some(state.store.find_players(&filter, after.as_ref(), ROWS).await?) } else { None };
    let (app_id, open_id) = (input.text("app_id"), input.text("open_id"));
    let next = found.as_ref().and_then(|found| found.next.as_ref());
    let more = next.map(|next| {
        let fields = [("app_id", app_id), ("open_id", open_id), ("after", &next.to_string())];
        link(Section::Players.path(), &fields)
    });
    let page = Page::new(&signed_in, Section::Players, "Players");
    let app_field = AppField::new(&state, app_id).await?;
    Ok(render(&PlayersTemplate { page, app_field, app_id, open_id, found, more, is_first: after.is_none() }))
}

#[derive(Template)]
#[template(path = "player.html")]
struct PlayerTemplate<'a> {
    page: Page<'a>,
    path: String,
    wallet: &'a Wallet,
    totals: Option<WalletTotals>,
    input: &'a Input,
    is_filtered: bool,
    is_first: bool,
    ledger: LedgerPage,
    older: Option<String>,
}

async fn player(
    State(state): State<AppState>,
    Path(names): Path<(String, String)>,
    signed_in: SignedIn,
    input: Input,
) -> Result<Response, ConsoleError> {
    let (app_id, open_id, wallet) = find_player(&state, &names).await?;
    let filter = LedgerFilter {
        kind: input.optional("kind", EntryKind::parse)?,
        since: input.optional("from", moment::parse)?,
        until: input.optional("to", moment::parse)?,
        reference: Some(input.text("number").to_owned()).filter(|number| !number.is_empty()),
    };
    let after: Option<i64> = input.text("after").parse().ok();
    let ledger = state.store.ledger(&app_id, &open_id, &filter, after, ROWS).await?;
    let path = path_of(&wallet);
    let filter_fields = ["kind", "from", "to", "number"].map(|name| (name, input.text(name)));
    let older = ledger.next.map(|next| {
        let after = next.to_string();
        let fields: Vec<_> = filter_fields.into_iter().chain([("after", after.as_str())]).collect();
        link(&path, &fields)
    });
    let page = Page::new(&signed_in, Section::Players, format!("Player {open_id}"))
        .with_notice(credit_notice(&state, &app_id, &open_id, &input).await?);
    Ok(render(&PlayerTemplate {
        page,
        path,
        totals: state.store.wallet_totals(&wallet).await?,
        wallet: &wallet,
        is_filtered: filter_fields.iter().any(|(_, value)| !value.is_empty()),
        is_first: after.is_none(),
        input: &input,
        ledger,
        older,
    }))
}

/// The message after a credit. The credit is looked up in the store, because anybody can write an address.
async fn credit_notice(
    state: &AppState,
    app_id: &AppId,
    open_id: &OpenId,
    input: &Input,
) -> Result<Option<String>, ConsoleError> {
    let Ok(reference) = CreditRef::parse(input.text("credited")) else { return Ok(None) };
    let credit = state.store.credit_by_ref(app_id, &reference).await?;
    let Some(credit) = credit.filter(|credit| credit.open_id == open_id.as_str()) else { return Ok(None) };
    let line = &credit.line;
    let (free, charge) = (line.free_change.shown(), line.charge_change.shown());
    Ok(Some(if input.text("again").is_empty() {
        format!(
            "Credited {free} gifted and {charge} charged coins with the reference {reference} (entry {}).",
            line.seq
        )
    } else {
        format!(
            "Nothing was credited now. The reference {reference} already credited {free} gifted and {charge} \
             charged coins at {} UTC (entry {}).",
            line.at.shown(),
            line.seq
        )
    }))
}

/// The whole ledger as CSV, with the columns of `minitill wallet statement`.
async fn ledger_csv(
    State(state): State<AppState>,
    Path(names): Path<(String, String)>,
) -> Result<Response, ConsoleError> {
    let (app_id, open_id, _) = find_player(&state, &names).await?;
    let heading = stream::once(future::ready(Ok(Bytes::from_static(LedgerLine::CSV_HEADING.as_bytes()))));
    let mut response =
        Response::new(Body::from_stream(heading.chain(csv_pieces(state.store.statement(&app_id, &open_id)))));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8"));
    let name = format!("attachment; filename=\"ledger-{app_id}-{open_id}.csv\"");
    // Every character of an id is valid in a header.
    if let Ok(name) = HeaderValue::from_str(&name) {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

fn csv_pieces(
    lines: impl Stream<Item = Result<LedgerLine, StoreError>>,
) -> impl Stream<Item = Result<Bytes, StoreError>> {
    lines.try_chunks(LINES_AT_ONCE).map(|piece| {
        let lines = piece.map_err(|broken| broken.1)?;
        let texts = lines.into_iter().map(|line| without_formula(line).csv());
        let texts: Result<String, _> = texts.collect();
        texts.map(Bytes::from).map_err(|error| StoreError::Internal(error.to_string()))
    })
}

/// Puts an apostrophe before a text that a spreadsheet would read as a formula. Only a `ref` can be such a
/// text, because operators choose it. Negative numbers stay numbers.
fn without_formula(mut line: LedgerLine) -> LedgerLine {
    line.reference = line.reference.map(|reference| {
        // In some languages a semicolon separates cells.
        let cells = reference.split(';');
        let cell = |text: &str| {
            if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text.to_owned() }
        };
        cells.map(cell).collect::<Vec<_>>().join(";")
    });
    line
}

/// The player in an address.
pub(super) async fn find_player(
    state: &AppState,
    (app_id, open_id): &(String, String),
) -> Result<(AppId, OpenId, Wallet), ConsoleError> {
    let unknown = || ConsoleError::NotFound(format!("The app {app_id} has no player {open_id}."));
    let (Ok(app), Ok(player)) = (AppId::parse(app_id), OpenId::parse(open_id)) else { return Err(unknown()) };
    let wallet = state.store.wallet(&app, &player).await?.ok_or_else(unknown)?;
    Ok((app, player, wallet))
}

/// The path of a player's page.
pub(super) fn path_of(wallet: &Wallet) -> String {
    format!("/console/apps/{}/players/{}", wallet.app_id, wallet.open_id)
}

/// A path with a query that has all fields that are not empty.
pub(super) fn link(path: &str, fields: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::for_suffix(format!("{path}?"), path.len() + 1);
    query.extend_pairs(fields.iter().filter(|(_, value)| !value.is_empty()));
    query.finish()
}

/// A change of a balance, with its sign.
fn signed(change: i64) -> String {
    if change > 0 { format!("+{}", change.shown()) } else { change.shown() }
}

/// A count with its noun: `1 credit`, `2 credits`.
pub(super) fn counted(number: i64, one: &str) -> String {
    format!("{} {one}{}", number.shown(), if number == 1 { "" } else { "s" })
}

/// A sum, which may be too large for an `i64`.
fn sum_shown(text: &str) -> String {
    text.parse::<i64>().map_or_else(|_| text.to_owned(), |number| number.shown())
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;

    #[test]
    fn a_ref_that_looks_like_a_formula_is_text_in_a_spreadsheet() {
        let line = |reference: &str| LedgerLine {
            seq: 1,
            kind: "credit".to_owned(),
            biz_no: None,
            reference: Some(reference.to_owned()),
            free_change: -1,
            charge_change: 0,
            free_balance: 1,
            charge_balance: 0,
            at: OffsetDateTime::UNIX_EPOCH,
        };
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)"] {
            let csv = without_formula(line(formula)).csv().unwrap();
            assert_eq!(csv, format!("1,credit,,'{formula},-1,0,1,0,1970-01-01T00:00:00Z\n"));
        }
        assert_eq!(
            without_formula(line("a=b")).csv().unwrap(),
            "1,credit,,a=b,-1,0,1,0,1970-01-01T00:00:00Z\n"
        );
        assert_eq!(
            without_formula(line("a,\"b\"")).csv().unwrap(),
            "1,credit,,\"a,\"\"b\"\"\",-1,0,1,0,1970-01-01T00:00:00Z\n"
        );
    }

    #[test]
    fn a_link_leaves_out_what_is_empty_and_encodes_what_is_not() {
        assert_eq!(link("/p", &[("a", ""), ("b", "x&y=<z>"), ("c", "1")]), "/p?b=x%26y%3D%3Cz%3E&c=1");
    }
}
