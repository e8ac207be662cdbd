//! Reports as workbooks for spreadsheets (contract 13.8): revenue, and the statement of a period.

use std::collections::BTreeMap;
use std::fmt::Display;

use domain::text;
use domain::text::Text;
use spreadsheet::{SheetCell, SheetColumn, Workbook, WorkbookError};
use store::{
    IncomeGroup, IncomeReport, RevenueGroup, RevenueReport, RevenueRow, RevenueSums, SheetStyle, Statement,
    StoreError, UnusedMoney, UnusedReport, revenue_headings,
};
use time::{Date, Month, PrimitiveDateTime, Time};
use tokio::task::spawn_blocking;

use crate::openapi::XLSX;

domain::word_enum! {
    /// What a file is written as: also the end of its name.
    pub enum FileFormat {
        /// For programs.
        Csv = "csv",
        /// For spreadsheets.
        Xlsx = "xlsx",
    }
}

impl FileFormat {
    /// That of a workbook, or CSV.
    #[must_use]
    pub(crate) const fn of(is_workbook: bool) -> Self {
        if is_workbook { Self::Xlsx } else { Self::Csv }
    }

    /// Its media type.
    #[must_use]
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::Xlsx => XLSX,
        }
    }
}

/// Makes a workbook on a thread that may wait for files.
///
/// # Errors
/// There is no room for temporary files.
pub(crate) async fn made(
    write: impl FnOnce(&mut Workbook) -> Result<(), WorkbookError> + Send + 'static,
) -> Result<Vec<u8>, StoreError> {
    let making = spawn_blocking(move || {
        let (mut book, mut bytes) = (Workbook::default(), Vec::new());
        write(&mut book)?;
        book.save(&mut bytes)?;
        Ok::<_, WorkbookError>(bytes)
    });
    let internal = |error: &dyn Display| StoreError::Internal(format!("no workbook: {error}"));
    making.await.map_err(|fault| internal(&fault))?.map_err(|error| internal(&error))
}

/// Revenue with the groups that it was asked with: a row for each group, and the total on a sheet of its own.
pub(crate) async fn revenue(
    report: RevenueReport,
    groups: Vec<RevenueGroup>,
    style: SheetStyle,
) -> Result<Vec<u8>, StoreError> {
    made(move |book| {
        let figures = revenue_headings();
        let figures = || figures.iter().map(|heading| style.column(heading, 16));
        let names = groups.iter().flat_map(|group| group_columns(*group, &style));
        book.sheet(&(style.words)(&text!("Revenue")), names.chain(figures()).collect())?;
        for row in &report.rows {
            let names = groups.iter().flat_map(|group| group_cells(row, *group));
            book.row(names.chain(figures_of(&row.sums)))?;
        }
        let span = [text!("From ({zone})", zone = style.zone), text!("Until ({zone})", zone = style.zone)];
        let span = span.iter().map(|heading| style.column(heading, 24));
        book.sheet(&(style.words)(&text!("Sums")), span.chain(figures()).collect())?;
        let ends =
            [report.since, report.until].map(|end| end.map_or(SheetCell::Empty, |end| style.moment(end)));
        book.row(ends.into_iter().chain(figures_of(&report.total)))
    })
    .await
}

fn group_columns(group: RevenueGroup, style: &SheetStyle) -> Vec<SheetColumn> {
    let mut columns = vec![style.column(&group_heading(group, style), 24)];
    if group == RevenueGroup::Hour {
        columns.push(style.column(&text!("Offset"), 10));
    }
    columns
}

fn group_heading(group: RevenueGroup, style: &SheetStyle) -> Text {
    match group {
        RevenueGroup::Hour => text!("Hour ({zone})", zone = style.zone),
        RevenueGroup::Day => text!("Day ({zone})", zone = style.zone),
        RevenueGroup::Week => text!("Week from ({zone})", zone = style.zone),
        RevenueGroup::App => text!("App"),
        RevenueGroup::ProductName => text!("Item"),
        RevenueGroup::Zone => text!("Zone"),
        RevenueGroup::Os => text!("Platform"),
    }
}

/// The cells of the columns of a group. An hour has its offset, because a clock that goes back shows it twice.
fn group_cells(row: &RevenueRow, group: RevenueGroup) -> Vec<SheetCell<'_>> {
    let name = row.name(group);
    match group {
        RevenueGroup::Day | RevenueGroup::Week => {
            vec![date_of(name).map_or(SheetCell::Text(name), SheetCell::Day)]
        }
        RevenueGroup::Hour => match hour_of(name) {
            Some((clock, offset)) => vec![SheetCell::Moment(clock), SheetCell::Text(offset)],
            None => vec![SheetCell::Text(name), SheetCell::Empty],
        },
        RevenueGroup::App | RevenueGroup::ProductName | RevenueGroup::Zone | RevenueGroup::Os => {
            vec![SheetCell::Text(name)]
        }
    }
}

/// What the clock shows in an hour such as 2026-10-31T08:00+08:00, and its offset.
fn hour_of(hour: &str) -> Option<(PrimitiveDateTime, &str)> {
    let (day, clock) = hour.split_once('T')?;
    let time = Time::from_hms(clock.get(..2)?.parse().ok()?, clock.get(3..5)?.parse().ok()?, 0).ok()?;
    Some((PrimitiveDateTime::new(date_of(day)?, time), clock.get(5..)?))
}

/// A day such as 2026-10-31.
fn date_of(day: &str) -> Option<Date> {
    let mut parts = day.splitn(3, '-');
    let mut part = || parts.next()?.parse::<u16>().ok();
    let (year, month, day) = (part()?, u8::try_from(part()?).ok()?, u8::try_from(part()?).ok()?);
    Date::from_calendar_date(year.into(), Month::try_from(month).ok()?, day).ok()
}

fn figures_of(sums: &RevenueSums) -> [SheetCell<'static>; 6] {
    let RevenueSums { count, free_taken, charge_taken, free_given_back, charge_given_back, net } = sums;
    [count, free_taken, charge_taken, free_given_back, charge_given_back, net]
        .map(|sum| SheetCell::Integer(i128::from(*sum)))
}

/// The columns of income behind those of its groups.
fn income_headings() -> [Text; 7] {
    [
        text!("Currency"),
        text!("Payments"),
        text!("Money in minor units"),
        text!("Fees"),
        text!("Refunded"),
        text!("Charged coins"),
        text!("Gifted coins"),
    ]
}

/// Income from payments: a row for each group, and on sheets of their own the sums and the unmatched ones by currency.
pub(crate) async fn income(
    report: IncomeReport,
    groups: Vec<IncomeGroup>,
    style: SheetStyle,
) -> Result<Vec<u8>, StoreError> {
    made(move |book| {
        let column = |heading: &Text| style.column(heading, 16);
        let names = groups.iter().map(|group| match group {
            IncomeGroup::Day => text!("Day ({zone})", zone = style.zone),
            IncomeGroup::Provider => text!("Payment provider"),
            IncomeGroup::Product => text!("Product"),
            IncomeGroup::Os => text!("Platform"),
        });
        let columns = names.chain(income_headings()).map(|heading| column(&heading)).collect();
        book.sheet(&(style.words)(&text!("Top-ups")), columns)?;
        let mut sums = BTreeMap::<&str, [i128; 6]>::new();
        for row in &report.rows {
            let names = groups.iter().map(|group| match group {
                IncomeGroup::Day => date_of(row.name(*group)).map_or(SheetCell::Empty, SheetCell::Day),
                group => SheetCell::Text(row.name(*group)),
            });
            let figures = row.sums.figures().map(i128::from);
            let of_currency = sums.entry(&row.currency).or_default();
            of_currency.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
            let figures = figures.map(SheetCell::Integer);
            book.row(names.chain([SheetCell::Text(&row.currency)]).chain(figures))?;
        }
        book.sheet(&(style.words)(&text!("Sums")), income_headings().iter().map(column).collect())?;
        for (currency, sums) in sums {
            book.row([SheetCell::Text(currency)].into_iter().chain(sums.map(SheetCell::Integer)))?;
        }
        let columns = [text!("Currency"), text!("Payments"), text!("Money in minor units")];
        book.sheet(&(style.words)(&text!("Unmatched")), columns.iter().map(column).collect())?;
        for row in &report.unmatched {
            let figures = [row.payments, row.amount].map(|sum| SheetCell::Integer(sum.into()));
            book.row([SheetCell::Text(&row.currency)].into_iter().chain(figures))?;
        }
        Ok(())
    })
    .await
}

/// The unused charged coins: a row for each price, and on sheets of their own the sums, and those of each currency.
pub(crate) async fn unused(report: UnusedReport, style: SheetStyle) -> Result<Vec<u8>, StoreError> {
    made(move |book| {
        let column = |heading: &Text| style.column(heading, 24);
        let columns = [
            text!("Currency"),
            text!("Price of a coin in minor units"),
            text!("Unused coins"),
            text!("Money in minor units"),
        ];
        book.sheet(&(style.words)(&text!("Unused coins")), columns.iter().map(column).collect())?;
        for row in &report.rows {
            let figures = [row.unused, row.money].map(|figure| SheetCell::Integer(figure.into()));
            book.row(
                [SheetCell::Text(&row.currency), SheetCell::Text(&row.price)].into_iter().chain(figures),
            )?;
        }
        let columns = [text!("Before ({zone})", zone = style.zone), text!("Without a price"), text!("Total")];
        book.sheet(&(style.words)(&text!("Sums")), columns.iter().map(column).collect())?;
        let sums = [report.without_price, report.total].map(|sum| SheetCell::Integer(sum.into()));
        book.row([style.moment(report.at)].into_iter().chain(sums))?;
        let columns = [text!("Currency"), text!("Unused coins"), text!("Money in minor units")];
        book.sheet(&(style.words)(&text!("Sums by currency")), columns.iter().map(column).collect())?;
        for UnusedMoney { currency, unused, money } in &report.by_currency {
            let figures = [*unused, *money].map(|figure| SheetCell::Integer(figure.into()));
            book.row([SheetCell::Text(currency)].into_iter().chain(figures))?;
        }
        Ok(())
    })
    .await
}

/// The figures of a statement by purse: a name, gifted, charged. What goes out is below zero.
#[must_use]
pub(crate) fn statement_rows(statement: &Statement) -> [(Text, i64, i64); 13] {
    let (free, charge) = (&statement.free, &statement.charge);
    [
        (text!("Opening balance"), free.opening, charge.opening),
        (text!("Credits by command"), free.credits.command, charge.credits.command),
        (text!("Credits by import"), free.credits.import, charge.credits.import),
        (text!("Credits by API"), free.credits.api, charge.credits.api),
        (text!("Credits in the console"), free.credits.console, charge.credits.console),
        (text!("Top-ups"), free.topups, charge.topups),
        (text!("Presents"), free.presents, charge.presents),
        (text!("Exchanges"), -free.exchanges, -charge.exchanges),
        (text!("Cancels"), free.cancels, charge.cancels),
        (text!("Debits"), -free.debits, -charge.debits),
        (text!("Refunds"), -free.refunds, -charge.refunds),
        (text!("Settlements of debt"), -free.settlements, -charge.settlements),
        (text!("Closing balance"), free.closing, charge.closing),
    ]
}

/// The statement of a period: its figures, and on a sheet of its own what it is of and its SHA-256.
pub(crate) async fn statement(statement: Statement, style: SheetStyle) -> Result<Vec<u8>, StoreError> {
    made(move |book| {
        let columns = [(text!("Coins"), 28), (text!("Gifted"), 20), (text!("Charged"), 20)];
        let columns = columns.iter().map(|(heading, width)| style.column(heading, *width)).collect();
        book.sheet(&(style.words)(&text!("Sums")), columns)?;
        for (name, free, charge) in statement_rows(&statement) {
            let name = (style.words)(&name);
            book.row([
                SheetCell::Text(&name),
                SheetCell::Integer(free.into()),
                SheetCell::Integer(charge.into()),
            ])?;
        }
        let columns = [(text!("Statement"), 28), (text!("Value"), 70)];
        let columns = columns.iter().map(|(heading, width)| style.column(heading, *width)).collect();
        book.sheet(&(style.words)(&text!("Statement")), columns)?;
        let ties = (style.words)(&if statement.ties { text!("yes") } else { text!("no") });
        for (name, value) in [
            (text!("App"), SheetCell::Text(&statement.app_id)),
            (text!("Period"), SheetCell::Text(&statement.period)),
            (text!("Time zone"), SheetCell::Text(&statement.time_zone)),
            (text!("From"), style.moment(statement.since)),
            (text!("Until"), style.moment(statement.until)),
            (text!("Wallets"), SheetCell::Integer(statement.wallets.into())),
            (text!("Ties to the ledger"), SheetCell::Text(&ties)),
            (text!("SHA-256"), SheetCell::Text(&statement.sha256)),
        ] {
            let name = (style.words)(&name);
            book.row([SheetCell::Text(&name), value])?;
        }
        Ok(())
    })
    .await
}
