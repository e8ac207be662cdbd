//! Players: the search by `open_id`, the page of a player with both balances and the ledger, and the
//! ledger as a CSV file.

use askama::Template;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::http::header;
use axum::response::IntoResponse as _;
use axum::routing::get;
use domain::ids::{AppId, OpenId};
use domain::text;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, future, stream};
use store::{
    ArchivedPart, ChangeRecord, CsvReader, EntryKind, LedgerFilter, LedgerPage, LedgerRow, PlayerCursor,
    PlayerFilter, PlayersPage, StoreError, Wallet, WalletTotals,
};

use super::change_notice::change_notice;
use super::error::ConsoleError;
use super::exchange::exchange_path;
use super::page::{Page, Section, Shown, render_search};
use super::route::Route;
use super::visit::{Answer, Filters, Visit, address};
use super::words::{Moment as _, parse_moment};
use crate::state::AppState;

pub(super) const ROUTES: &[Route] = &[
    Route::page("/console/players", || get(search)).of_own_apps(),
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
    /// `None` for an empty form.
    found: Option<&'a PlayersPage>,
    /// The one player that the form names.
    unknown: Option<(AppId, OpenId)>,
    more: Option<String>,
}

async fn search(visit: Visit) -> Answer {
    let mut filters = visit.filters();
    let filter = PlayerFilter {
        apps: visit.apps().clone(),
        app_id: filters.read("app_id", AppId::parse),
        open_id: filters.read("open_id", OpenId::parse),
    };
    let wrong = filters.wrong;
    let after: Option<PlayerCursor> = visit.text("after").parse().ok();
    let mut found = None;
    if wrong.is_empty() && (filter.app_id.is_some() || filter.open_id.is_some()) {
        found = Some(visit.state.store.find_players(&filter, after.as_ref(), ROWS).await?);
    }
    let template = PlayersTemplate {
        page: visit.search_page(Section::PLAYERS).await?.marking(&wrong),
        unknown: filter.app_id.zip(filter.open_id),
        found: found.as_ref(),
        more: visit.next(found.as_ref().and_then(|found| found.next.as_ref())),
    };
    render_search(&template, &wrong)
}

#[derive(Template)]
#[template(path = "player.html")]
struct PlayerTemplate<'a> {
    page: Page<'a>,
    wallet: &'a Wallet,
    totals: Option<WalletTotals>,
    /// The entries that are no longer in the ledger.
    archived: Option<ArchivedPart>,
    is_filtered: bool,
    ledger: LedgerPage,
    older: Option<String>,
    /// Addresses of the file: for programs, and for spreadsheets.
    csv: [String; 2],
}

/// The filter of the ledger.
fn ledger_filter(visit: &Visit, filters: &mut Filters<'_>) -> LedgerFilter {
    LedgerFilter {
        kind: filters.read("kind", EntryKind::parse),
        since: filters.read("from", parse_moment),
        until: filters.read("to", parse_moment),
        reference: visit.filled("number"),
    }
}

async fn player(Path(names): Path<(String, String)>, visit: Visit) -> Answer {
    let (app_id, open_id, wallet) = find_player(&visit.state, &names).await?;
    let mut filters = visit.filters();
    let filter = ledger_filter(&visit, &mut filters);
    let wrong = filters.wrong;
    let after: Option<i64> = visit.text("after").parse().ok();
    let ledger = match wrong.as_slice() {
        [] => visit.state.store.ledger(&app_id, &open_id, &filter, after, ROWS).await?,
        _ => LedgerPage { items: Vec::new(), next: None },
    };
    // The message about a change stands on the first page only.
    let older = |next: i64| visit.address(&[("changed", ""), ("again", ""), ("after", &next.to_string())]);
    let csv = |excel: &str| {
        let path = format!("{}/ledger.csv", player_path(&wallet.app_id, &wallet.open_id));
        let changed = [("changed", ""), ("again", ""), ("after", ""), ("excel", excel)];
        address(&path, &visit.fields, &changed)
    };
    let is_here = |change: &ChangeRecord| change.open_id == open_id.as_str();
    let notice = change_notice(&visit, &app_id, is_here).await?;
    let page = visit.page(Section::PLAYERS, text!("Player {open_id}", open_id));
    let template = PlayerTemplate {
        page: Page { notice, ..page.marking(&wrong) },
        archived: visit.state.store.archived_part(&app_id, &open_id).await?,
        totals: visit.state.store.wallet_totals(&wallet).await?,
        wallet: &wallet,
        is_filtered: ["kind", "from", "to", "number"].iter().any(|name| !visit.text(name).is_empty()),
        older: ledger.next.map(older),
        ledger,
        csv: ["", "yes"].map(csv),
    };
    render_search(&template, &wrong)
}

/// The entries that match the filter of the page as CSV, with the columns of `minitill wallet statement`.
async fn ledger_csv(Path(names): Path<(String, String)>, visit: Visit) -> Answer {
    let (app_id, open_id, _) = find_player(&visit.state, &names).await?;
    let mut filters = visit.filters();
    let filter = ledger_filter(&visit, &mut filters);
    if let Some(wrong) = filters.wrong.pop() {
        return Err(wrong.into());
    }
    let reader = if visit.text("excel").is_empty() { CsvReader::Program } else { CsvReader::Spreadsheet };
    let heading = stream::once(future::ready(Ok(Bytes::from(reader.heading()))));
    let csv = heading.chain(csv_pieces(reader, visit.state.store.statement(&app_id, &open_id, filter)));
    let name = format!("attachment; filename=\"ledger-{app_id}-{open_id}.csv\"");
    let headers =
        [(header::CONTENT_TYPE, "text/csv; charset=utf-8"), (header::CONTENT_DISPOSITION, name.as_str())];
    Ok((headers, Body::from_stream(csv)).into_response())
}

fn csv_pieces(
    reader: CsvReader,
    rows: impl Stream<Item = Result<LedgerRow, StoreError>>,
) -> impl Stream<Item = Result<Bytes, StoreError>> {
    rows.try_chunks(LINES_AT_ONCE).map(move |piece| {
        let rows = piece.map_err(|broken| broken.1)?;
        let texts: Result<String, _> = rows.iter().map(|row| reader.line(row)).collect();
        texts.map(Bytes::from).map_err(|error| StoreError::Internal(error.to_string()))
    })
}

/// The player in an address.
pub(super) async fn find_player(
    state: &AppState,
    (app_id, open_id): &(String, String),
) -> Result<(AppId, OpenId, Wallet), ConsoleError> {
    let unknown =
        || ConsoleError::not_found(text!("The app {app_id} has no player {open_id}.", app_id, open_id));
    let (Ok(app), Ok(player)) = (AppId::parse(app_id), OpenId::parse(open_id)) else { return Err(unknown()) };
    let wallet = state.store.wallet(&app, &player).await?.ok_or_else(unknown)?;
    Ok((app, player, wallet))
}

/// The path of a player's page.
pub(super) fn player_path(app_id: &str, open_id: &str) -> String {
    format!("/console/apps/{app_id}/players/{open_id}")
}

/// A change of a balance, with its sign.
pub(super) fn signed(change: i64) -> String {
    if change > 0 { format!("+{}", change.shown()) } else { change.shown() }
}

/// A sum, which may be too large for an `i64`.
fn sum_shown(text: &str) -> String {
    text.parse::<i64>().map_or_else(|_| text.to_owned(), |number| number.shown())
}
