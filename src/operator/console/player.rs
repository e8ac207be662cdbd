//! Players: the search by `open_id`, the page of a player, and the ledger as a CSV file. The page has both balances and
//! all that is recorded about the player in the order of time.

use std::collections::HashMap;

use askama::Template;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::routing::get;
use domain::ids::{AppId, CreditRef, OpenId};
use domain::rights::Apps;
use domain::text;
use domain::topup::CoinPair;
use domain::wallet::PurseChange;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, future, stream};
use store::{
    ArchivedPart, ChangeRecord, EntryKind, EntryMoney, HistoryCursor, HistoryFilter, HistoryKind,
    HistoryLine, HistoryPage, LedgerFilter, LedgerRow, OperatorLogLine, PlayerCursor, PlayerFilter,
    PlayersPage, STATEMENT_HEADING, StoreError, TopupFilter, Wallet, WalletTotals, statement_line,
};

use super::super::bill::file_of;
use super::super::download::report_file;
use super::super::workbook::FileFormat;
use super::change_notice::change_notice;
use super::currency::money;
use super::error::ConsoleError;
use super::exchange::{exchange_path, times_in_words};
use super::freeze;
use super::i18n::{Moment as _, parse_moment, sheet_style};
use super::orders::{status_class, status_words};
use super::page::{Page, Section, Shown, render_search};
use super::refused::{asked_in_words, code_in_words, purses_in_words};
use super::request::{Answer, ConsoleRequest, Filters, address};
use super::route::{ConsoleRoute, routes};
use super::topups::payment_path;
use crate::state::AppState;

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page("/console/players").of_own_apps() => get(search);
    page("/console/apps/{app_id}/players/{open_id}") => get(player);
    page("/console/apps/{app_id}/players/{open_id}/ledger.csv") => get(ledger_csv);
    page("/console/apps/{app_id}/players/{open_id}/ledger.xlsx") => get(ledger_workbook);
};

/// Players, or lines of a history, on a page.
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

async fn search(request: ConsoleRequest) -> Answer {
    let mut filters = request.filters();
    let filter = PlayerFilter {
        apps: request.apps().clone(),
        app_id: filters.read("app_id", AppId::parse),
        open_id: filters.read("open_id", OpenId::parse),
    };
    let wrong = filters.wrong;
    let after: Option<PlayerCursor> = request.text("after").parse().ok();
    let mut found = None;
    if wrong.is_empty() && (filter.app_id.is_some() || filter.open_id.is_some()) {
        found = Some(request.state.store.find_players(&filter, after.as_ref(), ROWS).await?);
    }
    let template = PlayersTemplate {
        page: request.search_page(Section::PLAYERS).await?.marking(&wrong),
        unknown: filter.app_id.zip(filter.open_id),
        found: found.as_ref(),
        more: request.next(found.as_ref().and_then(|found| found.next.as_ref())),
    };
    render_search(&template, &wrong)
}

#[derive(Template)]
#[template(path = "player.html")]
struct PlayerTemplate<'a> {
    page: Page<'a>,
    wallet: &'a Wallet,
    /// Whether the app knows the player. The wallet of another one is empty.
    is_known: bool,
    /// Who has frozen the wallet, when and why.
    freeze: Option<OperatorLogLine>,
    /// Who has erased the player, and when.
    erasure: Option<OperatorLogLine>,
    /// Changes of the purses that wait for a second person.
    waiting: Vec<WaitingChange>,
    totals: Option<WalletTotals>,
    /// What the wallet owes for refunds.
    debt: Option<CoinPair>,
    /// The entries that are no longer in the ledger.
    archived: Option<ArchivedPart>,
    is_filtered: bool,
    history: HistoryPage,
    /// The money of its top-ups and refunds, by their entries.
    moneys: HashMap<i64, EntryMoney>,
    older: Option<String>,
    /// Addresses of the file: for programs, and for spreadsheets.
    files: [String; 2],
}

/// A change that waits for a second person.
struct WaitingChange {
    reference: CreditRef,
    asked_by: String,
    coins: i64,
}

/// The filter of the history.
fn history_filter(request: &ConsoleRequest, filters: &mut Filters<'_>) -> HistoryFilter {
    HistoryFilter {
        kind: filters.read("kind", HistoryKind::parse),
        since: filters.read("from", parse_moment),
        until: filters.read("to", parse_moment),
        number: request.filled("number"),
    }
}

async fn player(Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let (app_id, open_id, known) = find_recorded(&request.state, &names).await?;
    let (store, of) = (&request.state.store, (&app_id, &open_id));
    let mut filters = request.filters();
    let filter = history_filter(&request, &mut filters);
    let wrong = filters.wrong;
    let after = HistoryCursor::parse(request.text("after")).ok();
    let history = match wrong.as_slice() {
        [] => store.history(of, &filter, after.as_ref(), ROWS).await?,
        _ => HistoryPage { items: Vec::new(), next: None },
    };
    let is_known = known.is_some();
    let wallet = known.unwrap_or_else(|| empty_wallet(&app_id, &open_id));
    // The message about a change stands on the first page only.
    let older = |next: &HistoryCursor| {
        request.address(&[("changed", ""), ("again", ""), ("done", ""), ("after", &next.to_string())])
    };
    let file = |format: FileFormat| {
        let path = format!("{}/ledger.{format}", player_path(&wallet.app_id, &wallet.open_id));
        // The file has ledger entries alone.
        let kind = filter.kind.filter(|kind| kind.entry().is_some()).map_or("", HistoryKind::as_str);
        let changed = [("changed", ""), ("again", ""), ("done", ""), ("after", ""), ("kind", kind)];
        address(&path, &request.fields, &changed)
    };
    let is_here = |change: &ChangeRecord| change.open_id == open_id.as_str();
    let notice = change_notice(&request, &app_id, is_here).await?;
    let notice = notice.or_else(|| request.notice(freeze::NOTICES));
    let page = request.page(Section::PLAYERS, text!("Player {open_id}", open_id));
    let template = PlayerTemplate {
        page: Page { notice, ..page.marking(&wrong) },
        is_known,
        freeze: if wallet.frozen { store.freeze_of(&app_id, &open_id).await? } else { None },
        erasure: store.erasure_of(&app_id, &open_id).await?,
        waiting: waiting_for(&request, &app_id, &open_id).await?,
        archived: store.archived_part(&app_id, &open_id).await?,
        totals: if is_known { store.wallet_totals(&wallet).await? } else { None },
        debt: store.debt_of_player(&app_id, &open_id).await?.any(),
        wallet: &wallet,
        is_filtered: ["kind", "from", "to", "number"].iter().any(|name| !request.text(name).is_empty()),
        older: history.next.as_ref().map(older),
        moneys: store.money_of_entries(of, &entries_with_money(&history)).await?,
        history,
        files: FileFormat::ALL.map(file),
    };
    render_search(&template, &wrong)
}

/// The changes of a player's purses that wait for a second person.
async fn waiting_for(
    request: &ConsoleRequest,
    app_id: &AppId,
    open_id: &OpenId,
) -> Result<Vec<WaitingChange>, ConsoleError> {
    if request.user.requests == 0 {
        return Ok(Vec::new());
    }
    let apps = Apps::of([app_id.clone()]).unwrap_or_default();
    let waiting = request.state.store.waiting_change_requests(&apps).await?;
    let of_player = waiting.into_iter().filter_map(|one| {
        let (_, command) = one.change.of_wallet().filter(|(player, _)| *player == open_id)?;
        Some(WaitingChange { coins: command.coins(), reference: one.reference, asked_by: one.asked_by })
    });
    Ok(of_player.collect())
}

/// The entries that match the filter of the page as CSV, with the columns of `minitill wallet statement`.
async fn ledger_csv(Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let (app_id, open_id, filter) = asked_ledger(&names, &request).await?;
    let heading = stream::once(future::ready(Ok(Bytes::from_static(STATEMENT_HEADING.as_bytes()))));
    let csv = heading.chain(csv_pieces(request.state.store.statement(&app_id, &open_id, filter)));
    Ok(report_file(&format!("ledger-{app_id}-{open_id}"), FileFormat::Csv, Body::from_stream(csv)))
}

/// The same entries as a workbook.
async fn ledger_workbook(Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let (app_id, open_id, filter) = asked_ledger(&names, &request).await?;
    let book = request.state.store.wallet_workbook(&app_id, &open_id, filter, sheet_style()).await?;
    Ok(file_of(book, FileFormat::Xlsx, &format!("ledger-{app_id}-{open_id}")).await?)
}

/// The player of a file, and which entries it has.
async fn asked_ledger(
    names: &(String, String),
    request: &ConsoleRequest,
) -> Result<(AppId, OpenId, LedgerFilter), ConsoleError> {
    let (app_id, open_id, _) = find_player(&request.state, names).await?;
    let mut filters = request.filters();
    let kind = filters.read("kind", EntryKind::parse);
    let filter = HistoryFilter { kind: None, ..history_filter(request, &mut filters) };
    if let Some(wrong) = filters.wrong.pop() {
        return Err(wrong.into());
    }
    Ok((app_id, open_id, LedgerFilter { kind, ..filter.of_ledger().unwrap_or_default() }))
}

fn csv_pieces(
    rows: impl Stream<Item = Result<LedgerRow, StoreError>>,
) -> impl Stream<Item = Result<Bytes, StoreError>> {
    rows.try_chunks(LINES_AT_ONCE).map(move |piece| {
        let rows = piece.map_err(|broken| broken.1)?;
        let texts: Result<String, _> = rows.iter().map(statement_line).collect();
        texts.map(Bytes::from).map_err(|error| StoreError::Internal(error.to_string()))
    })
}

/// The player in an address, whom the app knows.
pub(super) async fn find_player(
    state: &AppState,
    names: &(String, String),
) -> Result<(AppId, OpenId, Wallet), ConsoleError> {
    let (app_id, open_id, wallet) = find_named(state, names).await?;
    Ok((app_id, open_id, wallet.ok_or_else(|| no_player(names))?))
}

/// The player in an address, of whom something is recorded, with the wallet if the app knows the player.
pub(super) async fn find_recorded(
    state: &AppState,
    names: &(String, String),
) -> Result<(AppId, OpenId, Option<Wallet>), ConsoleError> {
    let (app_id, open_id, wallet) = find_named(state, names).await?;
    if wallet.is_none() {
        let history = state.store.history((&app_id, &open_id), &HistoryFilter::default(), None, 1).await?;
        let of_player = TopupFilter { open_id: Some(open_id.clone()), ..TopupFilter::default() };
        if history.items.is_empty()
            && state.store.topups(&app_id, &of_player, None, 1).await?.items.is_empty()
        {
            return Err(no_player(names));
        }
    }
    Ok((app_id, open_id, wallet))
}

/// The player in an address, with the wallet if the app knows the player.
async fn find_named(
    state: &AppState,
    names: &(String, String),
) -> Result<(AppId, OpenId, Option<Wallet>), ConsoleError> {
    let (app_id, open_id) = names;
    let (Ok(app), Ok(player)) = (AppId::parse(app_id), OpenId::parse(open_id)) else {
        return Err(no_player(names));
    };
    let wallet = state.store.wallet(&app, &player).await?;
    Ok((app, player, wallet))
}

fn no_player((app_id, open_id): &(String, String)) -> ConsoleError {
    ConsoleError::not_found(text!("The app {app_id} has no player {open_id}.", app_id, open_id))
}

/// The wallet of a player whom the app does not know.
pub(super) fn empty_wallet(app_id: &AppId, open_id: &OpenId) -> Wallet {
    Wallet { app_id: app_id.to_string(), open_id: open_id.to_string(), ..Wallet::default() }
}

/// The path of a player's page.
pub(super) fn player_path(app_id: &str, open_id: &str) -> String {
    format!("/console/apps/{app_id}/players/{open_id}")
}

/// A change of a balance, with its sign.
pub(super) fn signed(change: i64) -> String {
    if change > 0 { format!("+{}", change.shown()) } else { change.shown() }
}

/// Rows of the preview of a change of a wallet: the currency, its balance now, the change, and the balance after it.
pub(super) fn purses(change: &PurseChange) -> [(&'static str, i64, i64, i64); 2] {
    let PurseChange { free_change, charge_change, after } = *change;
    [("Gifted", free_change, after.free()), ("Charged", charge_change, after.charge())]
        .map(|(currency, change, after)| (currency, after - change, change, after))
}

/// A sum, which may be too large for an `i64`.
fn sum_shown(text: &str) -> String {
    text.parse::<i64>().map_or_else(|_| text.to_owned(), |number| number.shown())
}

/// Whether a line has amounts. Columns that would be empty are left out.
fn any_entry(history: &HistoryPage) -> bool {
    history.items.iter().any(|line| matches!(line, HistoryLine::Entry(_)))
}

/// The entries of a history that have money beside their coins.
fn entries_with_money(history: &HistoryPage) -> Vec<i64> {
    let with_money = [EntryKind::Topup.as_str(), EntryKind::Refund.as_str()];
    let seqs = history.items.iter().filter_map(|line| match line {
        HistoryLine::Entry(row) if with_money.contains(&row.line.kind.as_str()) => Some(row.line.seq),
        _ => None,
    });
    seqs.collect()
}

/// What an entry was for: its text, or the product and the money of a payment or a refund.
fn description(row: &LedgerRow, moneys: &HashMap<i64, EntryMoney>) -> String {
    let Some(EntryMoney { product_id, currency, amount, .. }) = moneys.get(&row.line.seq) else {
        return row.text.clone();
    };
    let money = money(currency, *amount);
    match product_id {
        Some(product_id) => format!("{product_id}, {money}"),
        None => money,
    }
}

/// The page of the payment behind an entry: a top-up, a refund or a settlement of debt.
fn payment_of(row: &LedgerRow, app_id: &str) -> Option<String> {
    let payment = match EntryKind::parse(&row.line.kind) {
        Ok(EntryKind::Topup | EntryKind::Settlement) => row.line.number(),
        // The id of a refund has no slash.
        Ok(EntryKind::Refund) => row.line.number().rsplit_once('/')?.0,
        _ => return None,
    };
    let (provider, id) = payment.split_once('/')?;
    Some(payment_path(app_id, provider, id))
}

/// Whether the operator's log has a line about an entry. A game's own entries have none, and few top-ups have one.
fn is_logged(row: &LedgerRow, moneys: &HashMap<i64, EntryMoney>) -> bool {
    match EntryKind::parse(&row.line.kind) {
        Ok(EntryKind::Topup | EntryKind::Refund) => {
            moneys.get(&row.line.seq).is_some_and(|entry| entry.is_logged)
        }
        Ok(EntryKind::Settlement) => false,
        _ => row.line.biz_no.is_none(),
    }
}

/// The ref in a line of the operator's log.
fn reference_of(line: &OperatorLogLine) -> Option<&str> {
    [&line.after, &line.before].into_iter().flatten().find_map(|state| state.get("ref")?.as_str())
}
