//! Numbers that were refused (contract 13.1): the page of one under which nothing was bought, the list of refusals, and the
//! words of a code.

use askama::Template;
use domain::code::Code;
use domain::csv::csv_text;
use domain::fields::FieldError;
use domain::ids::{AppId, OpenId};
use domain::moment::rfc3339;
use domain::text;
use spreadsheet::SheetCell;
use store::{BizNoUse, RefusalCursor, RefusalFilter, RefusalRow, RefusedNumber, csv_of};

use super::super::download::report_file;
use super::super::workbook::{self, FileFormat};
use super::error::ConsoleError;
use super::exchange::times_in_words;
use super::exchanges::{AskedKind, SIZES, parse_size, text_cell};
use super::i18n::{Moment as _, said, sheet_style, word};
use super::page::{Page, Section, Shown as _, render};
use super::player::player_path;
use super::request::{Answer, ConsoleRequest, Filters, address};
use super::times::Times;

#[derive(Template)]
#[template(path = "refused.html")]
struct RefusedTemplate<'a> {
    page: Page<'a>,
    number: &'a RefusedNumber,
    /// What the number was used for after all: a present, a cancel, or a query that closed it.
    usage: Option<BizNoUse>,
}

/// The page of a number that was refused, and under which no exchange has deducted.
pub(super) async fn page_of(request: &ConsoleRequest, app_id: &AppId, number: &RefusedNumber) -> Answer {
    let usage = request.state.store.number_use(app_id, &number.biz_no).await?;
    let page = request.page(Section::EXCHANGES, text!("Number {biz_no}", biz_no = number.biz_no));
    render(&RefusedTemplate { page, number, usage })
}

/// What a code means. Two codes share a number.
pub(super) fn code_in_words(code: i64) -> String {
    let mut meanings = Code::meanings(code).map(word);
    let Some(first) = meanings.next() else { return code.to_string() };
    meanings.fold(first, |one, other| said(&text!("{one}; or {other}", one, other)))
}

/// What the list of refusals is asked for.
pub(super) struct RefusedQuery {
    filter: RefusalFilter,
    size: u32,
    after: Option<RefusalCursor>,
}

/// A page of the list.
pub(super) struct RefusedList {
    pub(super) items: Vec<RefusalRow>,
    /// The address of the page with the newest, unless this is the one.
    pub(super) newest: Option<String>,
    pub(super) older: Option<String>,
    pub(super) csv: String,
}

impl RefusedQuery {
    /// `None` for another kind. It marks filters that go with the other kinds alone.
    pub(super) fn read(request: &ConsoleRequest, filters: &mut Filters<'_>) -> Option<Self> {
        let mut only_of = |name: &'static str, expected: &'static str| {
            if let Some(got) = request.filled(name) {
                filters.wrong.push(FieldError::malformed(name, expected, &got));
            }
        };
        if request.text("kind") != AskedKind::Refused.as_str() {
            only_of("code", "a code with the kind Refused alone");
            return None;
        }
        only_of("zone", "nothing, because refusals have no zone");
        only_of("item", "nothing, because refusals are not searched by item");
        only_of("product_name", "nothing, because refusals are not searched by item");
        // Whoever reads the other fields marks them where they are wrong.
        let mut read = request.filters();
        let times = Times::read(request, &mut read, None);
        let filter = RefusalFilter {
            apps: request.apps().clone(),
            app_id: read.read("app_id", AppId::parse),
            open_id: read.read("open_id", OpenId::parse),
            since: times.since,
            until: times.until,
            code: filters.read("code", Code::number_of),
        };
        let size = read.read("rows", parse_size).unwrap_or(SIZES[0]);
        Some(Self { filter, size, after: filters.read("after", RefusalCursor::parse) })
    }

    async fn refusals(
        &self,
        request: &ConsoleRequest,
    ) -> Result<(Vec<RefusalRow>, Option<String>), ConsoleError> {
        let refusals = request.state.store.refusals(&self.filter, self.after.as_ref(), self.size);
        let found = request.search(self.filter.is_unbounded(), refusals).await?;
        Ok((found.items, found.next))
    }

    pub(super) async fn list(&self, request: &ConsoleRequest) -> Result<RefusedList, ConsoleError> {
        let (items, next) = self.refusals(request).await?;
        Ok(RefusedList {
            items,
            newest: request.next(self.after.as_ref().map(|_| "")),
            older: request.next(next),
            csv: address("/console/exchanges.csv", &request.fields, &[]),
        })
    }

    /// The page of the list as a workbook.
    pub(super) async fn workbook(&self, request: &ConsoleRequest) -> Answer {
        let (rows, _) = self.refusals(request).await?;
        let style = sheet_style();
        let content = workbook::made(move |book| {
            let columns = [
                (text!("App"), 14),
                (text!("Kind"), 10),
                (text!("Code"), 12),
                (text!("Times"), 10),
                (text!("Order number"), 24),
                (text!("Player"), 24),
                (text!("Item"), 20),
                (text!("Amount"), 14),
                (text!("Gifted balance"), 14),
                (text!("Charged balance"), 14),
            ];
            let columns = columns.iter().map(|(heading, width)| style.column(heading, *width));
            let columns = std::iter::once(style.time_column()).chain(columns).collect();
            book.sheet(&(style.words)(&text!("Refusals")), columns)?;
            let number = |number: Option<i64>| {
                number.map_or(SheetCell::Empty, |number| SheetCell::Integer(number.into()))
            };
            for RefusalRow { app_id, refusal } in &rows {
                book.row([
                    style.moment(refusal.last_at),
                    SheetCell::Text(app_id),
                    SheetCell::Text(&refusal.kind),
                    number(Some(refusal.code)),
                    number(Some(refusal.count)),
                    SheetCell::Text(&refusal.biz_no),
                    SheetCell::Text(&refusal.open_id),
                    text_cell(refusal.product_name.as_deref()),
                    number(refusal.amount),
                    number(refusal.free_balance),
                    number(refusal.charge_balance),
                ])?;
            }
            book.sheet(&(style.words)(&text!("Sums of this page")), vec![style.column(&text!("Times"), 16)])?;
            let times = rows.iter().map(|row| i128::from(row.refusal.count)).sum();
            book.row([SheetCell::Integer(times)])
        });
        Ok(report_file("refusals", FileFormat::Xlsx, content.await?))
    }

    /// The page of the list as CSV for programs, with times in UTC.
    pub(super) async fn csv(&self, request: &ConsoleRequest) -> Answer {
        let (items, _) = self.refusals(request).await?;
        let csv = in_csv(&items).map_err(|error| super::reports::unwritten(&error))?;
        Ok(report_file("refusals", FileFormat::Csv, csv))
    }
}

fn in_csv(rows: &[RefusalRow]) -> std::io::Result<Vec<u8>> {
    let heading = "last_at,first_at,app_id,kind,code,count,biz_no,open_id,amount,product_name,free_balance,\
                   charge_balance,request_id";
    let lines = rows.iter().map(|RefusalRow { app_id, refusal }| {
        let times = (rfc3339(refusal.last_at), rfc3339(refusal.first_at));
        let product = refusal.product_name.as_deref().map(csv_text);
        (
            (times, app_id, &refusal.kind, refusal.code, refusal.count),
            (csv_text(&refusal.biz_no), csv_text(&refusal.open_id), refusal.amount, product),
            (refusal.free_balance, refusal.charge_balance, csv_text(&refusal.request_id)),
        )
    });
    csv_of(heading.split(','), lines)
}

/// What was asked for: the amount, and the item of an exchange. Empty where neither came.
pub(super) fn asked_in_words(amount: Option<i64>, product_name: Option<&str>) -> String {
    match (amount.map(|amount| amount.shown()), product_name) {
        (Some(amount), Some(item)) => said(&text!("{amount} for {item}", amount, item)),
        (Some(amount), None) => amount,
        (None, Some(item)) => item.to_owned(),
        (None, None) => String::new(),
    }
}

/// Both purses at that moment: gifted + charged. Empty where they were not looked at.
pub(super) fn purses_in_words(free: Option<i64>, charge: Option<i64>) -> String {
    match free.zip(charge) {
        Some((free, charge)) => format!("{} + {}", free.shown(), charge.shown()),
        None => String::new(),
    }
}
