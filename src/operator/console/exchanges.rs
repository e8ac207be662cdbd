//! The search for a number, and the list of exchanges, presents, cancels and refusals with its sums and its CSV
//! (contract 8.6.33).

use askama::Template;
use axum::routing::get;
use domain::csv::csv_text;
use domain::fields::{Expected, Fields};
use domain::ids::{AppId, OpenId, Os};
use domain::moment::{GivenMoment, rfc3339};
use domain::rights::Apps;
use domain::text;
use spreadsheet::SheetCell;
use store::{
    ListedKind, ReferenceMatch, Refusable, RevenueFilter, RevenueQuery, SaleCursor, SaleFilter, SaleRow,
    SalesPage, StoreError, Zone, csv_of,
};

use super::super::download::report_file;
use super::super::workbook::{self, FileFormat};
use super::error::ConsoleError;
use super::exchange::{exchange_path, parse_number, path_of};
use super::i18n::{Moment as _, sheet_style, zone};
use super::page::{Page, Section, Shown as _, render_search};
use super::player::{player_path, signed};
use super::refused::{RefusedList, RefusedQuery, asked_in_words, code_in_words, purses_in_words};
use super::reports::read_item;
use super::request::{Answer, ConsoleRequest, Filters, address, lead_to};
use super::route::{ConsoleRoute, routes};
use super::search::{self, Group};
use super::times::Times;

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page("/console/exchanges").of_own_apps() => get(search_page);
    page("/console/exchanges.csv").of_own_apps() => get(list_csv);
    page("/console/exchanges.xlsx").of_own_apps() => get(list_workbook);
};

/// The search shows at most this many matches.
const MATCHES_MAX: u32 = 100;
/// Sizes of a page.
pub(super) const SIZES: [u32; 3] = [50, 100, 200];
/// A list of more apps than these needs one of them: each costs a query.
const APPS_MAX: usize = 100;

#[derive(Template)]
#[template(path = "exchanges.html")]
struct ExchangesTemplate<'a> {
    page: Page<'a>,
    times: Times,
    /// The matches of a number; `None` without one.
    found: Option<Vec<ReferenceMatch>>,
    /// What else has the number, where it is no exchange and no credit.
    elsewhere: Vec<Group>,
    list: Option<List>,
    /// The list of the kind *refused*.
    refused: Option<RefusedList>,
    size: u32,
}

/// A page of the list.
struct List {
    sales: SalesPage,
    of_page: Vec<Sum>,
    /// Of all that match, on the first page, where the sums of reports can tell.
    of_all: Vec<Sum>,
    /// Whether these would have taken too long.
    is_too_slow: bool,
    /// The address of the page with the newest, unless this is the one.
    newest: Option<String>,
    older: Option<String>,
    csv: String,
}

/// The sum of one kind.
struct Sum {
    kind: ListedKind,
    /// `None` where it is not known.
    count: Option<i64>,
    free: i64,
    charge: i64,
}

domain::word_enum! {
    /// What the list shows.
    pub(super) enum AskedKind {
        Exchange = "exchange",
        Present = "present",
        Cancel = "cancel",
        /// What was refused and changed nothing.
        Refused = "refused",
    }
}

impl AskedKind {
    fn listed(self) -> Option<ListedKind> {
        match self {
            Self::Exchange => Some(ListedKind::Exchange),
            Self::Present => Some(ListedKind::Present),
            Self::Cancel => Some(ListedKind::Cancel),
            Self::Refused => None,
        }
    }

    /// Its name in the plural.
    const fn plural(self) -> &'static str {
        match self {
            Self::Exchange => plural(ListedKind::Exchange),
            Self::Present => plural(ListedKind::Present),
            Self::Cancel => plural(ListedKind::Cancel),
            Self::Refused => "Refused",
        }
    }
}

/// What the list is asked for.
struct SalesQuery {
    times: Times,
    filter: SaleFilter,
    size: u32,
    after: Option<SaleCursor>,
}

impl SalesQuery {
    fn read(request: &ConsoleRequest, filters: &mut Filters<'_>) -> Result<Self, ConsoleError> {
        let times = Times::read(request, filters, None);
        let kind = filters.read("kind", AskedKind::parse);
        let filter = SaleFilter {
            apps: request.apps().clone(),
            app_id: filters.read("app_id", AppId::parse),
            since: times.since,
            until: times.until,
            open_id: filters.read("open_id", OpenId::parse),
            zone: filters.read("zone", Zone::parse),
            item: read_item(filters),
            os: filters.read("os", Os::parse),
            kind: kind.and_then(AskedKind::listed),
        };
        filters.demand_period(filter.lacks_period(times.now));
        let size = filters.read("rows", parse_size).unwrap_or(SIZES[0]);
        Ok(Self { times, filter, size, after: request.fields.optional("after", SaleCursor::parse)? })
    }

    async fn sales(&self, request: &ConsoleRequest) -> Result<SalesPage, ConsoleError> {
        let sales = request.state.store.sales(&self.filter, self.after.as_ref(), self.size);
        request.search(self.filter.is_unbounded(), sales).await
    }
}

pub(super) fn parse_size(text: &str) -> Result<u32, Expected> {
    SIZES.into_iter().find(|size| size.to_string() == text).ok_or(Expected::new("50, 100 or 200"))
}

/// A single match of a number redirects to its page.
async fn search_page(request: ConsoleRequest) -> Answer {
    let mut filters = request.filters();
    let refused = RefusedQuery::read(&request, &mut filters);
    let number = filters.read("number", parse_number);
    let asked = SalesQuery::read(&request, &mut filters)?;
    let wrong = filters.wrong;
    let page = request.search_page(Section::EXCHANGES).await?;
    let (mut found, mut elsewhere, mut list, mut refused_list) = (None, Vec::new(), None, None);
    match (&number, wrong.as_slice()) {
        (Some(number), []) => {
            let store = &request.state.store;
            let matches = store
                .find_reference_among(request.apps(), asked.filter.app_id.as_ref(), number, MATCHES_MAX)
                .await?;
            if let [only] = matches.as_slice() {
                return lead_to(&path_of(only));
            }
            if matches.is_empty() {
                elsewhere = search::find(store, request.apps(), number).await?;
            }
            found = Some(matches);
        }
        (None, []) if refused.is_some() => {
            if let Some(refused) = &refused {
                refused_list = Some(refused.list(&request).await?);
            }
        }
        (None, []) if asked.filter.app_id.is_some() || page.apps.len() <= APPS_MAX => {
            list = Some(list_of(&request, &asked).await?);
        }
        _ => {}
    }
    let (page, times, size) = (page.marking(&wrong), asked.times, asked.size);
    let refused = refused_list;
    render_search(&ExchangesTemplate { page, times, found, elsewhere, list, refused, size }, &wrong)
}

async fn list_of(request: &ConsoleRequest, asked: &SalesQuery) -> Result<List, ConsoleError> {
    let sales = asked.sales(request).await?;
    let mut is_too_slow = false;
    let of_all = match of_all(request, asked).await {
        // The list is there all the same.
        Err(error) if error.is_too_slow() => {
            is_too_slow = true;
            Vec::new()
        }
        sums => sums?,
    };
    Ok(List {
        of_page: of_page(&sales.items),
        of_all,
        is_too_slow,
        newest: request.next(asked.after.as_ref().map(|_| "")),
        older: request.next(sales.next.as_ref()),
        csv: address("/console/exchanges.csv", &request.fields, &[]),
        sales,
    })
}

fn of_page(rows: &[SaleRow]) -> Vec<Sum> {
    let sums = ListedKind::ALL.into_iter().map(|kind| {
        let mut sum = Sum { kind, count: Some(0), free: 0, charge: 0 };
        for row in rows.iter().filter(|row| row.kind == kind.as_str()) {
            sum.count = sum.count.map(|count| count + 1);
            sum.free = sum.free.saturating_add(row.free_change);
            sum.charge = sum.charge.saturating_add(row.charge_change);
        }
        sum
    });
    sums.filter(|sum| sum.count != Some(0)).collect()
}

/// The sums of all that match: those of the revenue report. It knows apps, times, products, zones and platforms, and has
/// no presents and no roles. Later pages of the list have the same sums, so they are made once.
async fn of_all(request: &ConsoleRequest, asked: &SalesQuery) -> Result<Vec<Sum>, StoreError> {
    let filter = &asked.filter;
    let (Some(app), None, None) = (&filter.app_id, &filter.open_id, &asked.after) else {
        return Ok(Vec::new());
    };
    if filter.kind == Some(ListedKind::Present) || filter.zone.as_ref().is_some_and(Zone::has_role) {
        return Ok(Vec::new());
    }
    let query = RevenueQuery {
        apps: Apps::of([app.clone()]).unwrap_or_default(),
        filter: RevenueFilter { zone: filter.zone.clone(), item: filter.item.clone(), os: filter.os.clone() },
        since: filter.since.map(GivenMoment::Fixed),
        until: filter.until.map(GivenMoment::Fixed),
        group: Vec::new(),
        time_zone: zone(),
    };
    let all = match request.state.store.revenue(query).await {
        Ok(report) => report.total,
        Err(Refusable::Store(error)) => return Err(error),
        Err(Refusable::Refused(_)) => return Ok(Vec::new()),
    };
    let exchanges = Sum {
        kind: ListedKind::Exchange,
        count: Some(all.count),
        free: -all.free_taken,
        charge: -all.charge_taken,
    };
    let cancels = Sum {
        kind: ListedKind::Cancel,
        count: None,
        free: all.free_given_back,
        charge: all.charge_given_back,
    };
    let is_asked = |sum: &Sum| filter.kind.is_none_or(|kind| kind == sum.kind);
    Ok([exchanges, cancels].into_iter().filter(is_asked).collect())
}

/// What a file is of. The first wrong filter refuses it.
fn asked_file(request: &ConsoleRequest) -> Result<(SalesQuery, Option<RefusedQuery>), ConsoleError> {
    let mut filters = request.filters();
    let refused = RefusedQuery::read(request, &mut filters);
    let asked = SalesQuery::read(request, &mut filters)?;
    match filters.wrong.pop() {
        Some(wrong) => Err(wrong.into()),
        None => Ok((asked, refused)),
    }
}

/// The page of the list as CSV for programs, with times in UTC.
async fn list_csv(request: ConsoleRequest) -> Answer {
    let (asked, refused) = asked_file(&request)?;
    if let Some(refused) = refused {
        return refused.csv(&request).await;
    }
    let sales = asked.sales(&request).await?;
    let csv = in_csv(&sales.items).map_err(|error| super::reports::unwritten(&error))?;
    Ok(report_file("exchanges", FileFormat::Csv, csv))
}

/// The page of the list as a workbook.
async fn list_workbook(request: ConsoleRequest) -> Answer {
    let (asked, refused) = asked_file(&request)?;
    if let Some(refused) = refused {
        return refused.workbook(&request).await;
    }
    let rows = asked.sales(&request).await?.items;
    let style = sheet_style();
    let content = workbook::made(move |book| {
        let columns = [
            (text!("App"), 14),
            (text!("Kind"), 10),
            (text!("Order number"), 24),
            (text!("Ref"), 24),
            (text!("Order number that is given back"), 24),
            (text!("Player"), 24),
            (text!("Zone and role"), 16),
            (text!("Item"), 20),
            (text!("Gifted change"), 14),
            (text!("Charged change"), 14),
        ];
        let columns = columns.iter().map(|(heading, width)| style.column(heading, *width));
        let columns = std::iter::once(style.time_column()).chain(columns).collect();
        book.sheet(&(style.words)(&text!("Exchanges")), columns)?;
        let mut sums = [0_i128; 2];
        for row in &rows {
            book.row([
                style.moment(row.created_at),
                SheetCell::Text(&row.app_id),
                SheetCell::Text(&row.kind),
                text_cell(row.biz_no.as_deref()),
                text_cell(row.reference.as_deref()),
                text_cell(row.pay_biz_no.as_deref()),
                SheetCell::Text(&row.open_id),
                SheetCell::Text(&row.zone_id),
                text_cell(row.product_name.as_deref()),
                SheetCell::Integer(row.free_change.into()),
                SheetCell::Integer(row.charge_change.into()),
            ])?;
            sums[0] += i128::from(row.free_change);
            sums[1] += i128::from(row.charge_change);
        }
        let columns = [text!("Entries"), text!("Gifted change"), text!("Charged change")];
        let columns = columns.iter().map(|heading| style.column(heading, 16)).collect();
        book.sheet(&(style.words)(&text!("Sums of this page")), columns)?;
        let entries = i128::try_from(rows.len()).unwrap_or_default();
        book.row([entries, sums[0], sums[1]].map(SheetCell::Integer))
    });
    Ok(report_file("exchanges", FileFormat::Xlsx, content.await?))
}

/// A text, or nothing.
pub(super) fn text_cell(text: Option<&str>) -> SheetCell<'_> {
    text.map_or(SheetCell::Empty, SheetCell::Text)
}

fn in_csv(rows: &[SaleRow]) -> std::io::Result<Vec<u8>> {
    let heading =
        "time,app_id,kind,biz_no,ref,pay_biz_no,open_id,zone_id,product_name,free_change,charge_change";
    let lines = rows.iter().map(|row| {
        let texts = [&row.biz_no, &row.reference, &row.pay_biz_no, &row.product_name];
        let [biz_no, reference, pay_biz_no, product] = texts.map(|text| text.as_deref().map(csv_text));
        (
            (rfc3339(row.created_at), csv_text(&row.app_id), &row.kind, biz_no, reference, pay_biz_no),
            (csv_text(&row.open_id), csv_text(&row.zone_id), product, row.free_change, row.charge_change),
        )
    });
    csv_of(heading.split(','), lines)
}

/// Where the number of a row leads: an exchange to its page, all else to its entry in the ledger of the player.
fn path_of_row(row: &SaleRow) -> String {
    let number = number_of(row);
    if row.kind == ListedKind::Exchange.as_str() {
        return exchange_path(&row.app_id, number);
    }
    address(&player_path(&row.app_id, &row.open_id), &Fields::default(), &[("number", number)])
}

fn number_of(row: &SaleRow) -> &str {
    row.biz_no.as_deref().or(row.reference.as_deref()).unwrap_or_default()
}

/// The name of a kind in the plural.
const fn plural(kind: ListedKind) -> &'static str {
    match kind {
        ListedKind::Exchange => "Exchanges",
        ListedKind::Present => "Presents",
        ListedKind::Cancel => "Cancels",
    }
}
