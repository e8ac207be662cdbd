//! `minitill reconcile` compares the ledger of an app with the books of others (contract 13.5).

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Result, anyhow};
use clap::Args;
use domain::fields::Expected;
use domain::ids::AppId;
use domain::operation::books::existing_span;
use domain::period::{Period, TimeSpan, TimeZone};
use serde::Serialize;
use store::{
    BookColumn, BookNumber, ComparedBooks, ComparedBy, Difference, FileColumn, ReconcileError, Reconciled,
    Store, TheirFile,
};

use super::output::complain;
use super::table::tab_separated;
use super::{Context, not_done, refused};
use crate::http::language;

/// Wrong lines of a file that are told.
pub(super) const TOLD_MAX: usize = 100;

#[derive(Debug, Args)]
pub(super) struct ReconcileArguments {
    /// Id of the app
    app_id: AppId,
    /// CSV file with a heading; it has a column `biz_no` or `ref`, and `amount` or others of `minitill report bill`
    file: PathBuf,
    /// What the books are compared by: `biz_no` for what games did, `ref` for credits, debits and cancels of operators
    #[arg(long, value_name = "biz_no|ref", default_value_t)]
    by: ComparedBy,
    /// A column of the file that has another name than in the bill, such as `order=biz_no`
    #[arg(long, value_name = "THEIRS=OURS", value_parser = parse_mapped::<BookColumn>)]
    map: Vec<(String, BookColumn)>,
    #[command(flatten)]
    period: ComparedPeriod,
    /// Time zone of the day or month: an IANA name, such as Asia/Shanghai
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = TimeZone::parse, requires = "period")]
    time_zone: TimeZone,
}

/// The period whose entries here are compared.
#[derive(Debug, Args)]
pub(super) struct ComparedPeriod {
    /// Only what happened here on this day, such as 2026-10-31
    #[arg(long, value_name = "DAY", value_parser = Period::day, group = "period", conflicts_with = "month")]
    day: Option<Period>,
    /// Only what happened here in this month, such as 2026-10
    #[arg(long, value_name = "MONTH", value_parser = Period::month, group = "period")]
    month: Option<Period>,
}

impl ComparedPeriod {
    /// Its span in a time zone, where one was given.
    ///
    /// # Errors
    /// The clocks skip the day.
    pub(super) fn span(&self, zone: &TimeZone) -> Result<Option<TimeSpan>> {
        let period = self.day.or(self.month);
        period.map(|period| existing_span(period, zone).map_err(refused)).transpose()
    }
}

/// Reads a column of the file and what it is.
pub(super) fn parse_mapped<C>(text: &str) -> Result<(String, C), String>
where
    C: FromStr<Err = Expected>,
{
    // A name may have an equals sign. No column of ours has one.
    let (theirs, ours) = text.rsplit_once('=').ok_or("expected THEIRS=OURS, such as order=biz_no")?;
    let column = C::from_str(ours).map_err(|expected| format!("{expected} behind ="))?;
    Ok((theirs.trim().to_owned(), column))
}

pub(super) async fn run(context: &Context, store: &Store, arguments: ReconcileArguments) -> Result<ExitCode> {
    let ReconcileArguments { app_id, file, by, map, period, time_zone } = arguments;
    let span = period.span(&time_zone)?;
    let mut found = compare(store, &app_id, &file, (by, &map), span).await?;
    let mut printed = Printed::new(context.output.is_json);
    let remains = show(&mut printed, &mut found, true, 0).await?;
    printed.end()?;
    found.close().await?;
    Ok(exit_code(remains))
}

/// 1 where something remains.
pub(super) fn exit_code(remains: bool) -> ExitCode {
    if remains { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Compares a file, and tells what of it is not compared.
pub(super) async fn compare<B: ComparedBooks>(
    store: &Store,
    app_id: &AppId,
    file: &Path,
    compared: (B, &[(String, B::Column)]),
    span: Option<TimeSpan>,
) -> Result<Reconciled<B>> {
    let by = compared.0.column();
    let file = TheirFile::open(file, compared, &language::WORDS).map_err(failed)?;
    if !file.ignored().is_empty() {
        complain(&format!("columns that are not here are ignored: {}", file.ignored().join(", ")));
    }
    let found = store.reconcile(app_id, span, file).await.map_err(failed)?;
    if found.without_number > 0 {
        complain(&format!("{} lines without a {by} are not compared", found.without_number));
    }
    if found.of_other_periods > 0 {
        complain(&format!(
            "not compared, because they are of another period here: {}",
            found.of_other_periods
        ));
    }
    Ok(found)
}

fn failed<C: FileColumn>(error: ReconcileError<C>) -> anyhow::Error {
    match error {
        ReconcileError::Operation(error) => not_done(error),
        ReconcileError::File(refusal) => anyhow!("{refusal}"),
        ReconcileError::Output(error) => error.into(),
    }
}

/// Prints what was found, one by one, so that many differences need little memory. Where the caller wants it,
/// prints also what is only there, and in the sums how many were of other apps. Returns whether something differs.
pub(super) async fn show<B: ComparedBooks>(
    printed: &mut Printed,
    found: &mut Reconciled<B>,
    with_there: bool,
    of_other_apps: usize,
) -> Result<bool> {
    printed.list("only_here")?;
    let each = |number: &BookNumber| printed.item(number, &["only here", number.as_str()]);
    let here = found.each_only_here(each).await.map_err(failed)?;
    let there = if with_there {
        printed.list("only_there")?;
        let each = |number: &BookNumber| printed.item(number, &["only there", number.as_str()]);
        found.each_only_there(each).await.map_err(failed)?
    } else {
        0
    };
    printed.list("differs")?;
    let mut told = 0;
    let each = |difference: &Difference| {
        let Difference { number, field, here, there, fault } = difference;
        if let Some(fault) = fault.as_ref().filter(|_| told < TOLD_MAX) {
            told += 1;
            complain(&format!("{}: {}", number.as_str(), fault.english()));
        }
        printed.item(difference, &["differs", number.as_str(), field, here, there])
    };
    let (matched, differing) = found.each_difference(each).await.map_err(failed)?;
    let there_text = if with_there { format!(", {there} only there") } else { String::new() };
    let others_text =
        if of_other_apps > 0 { format!(", {of_other_apps} of other apps") } else { String::new() };
    printed.sums(
        &format!("\"matched\":{matched}"),
        &format!("{matched} matched, {here} only here{there_text}{others_text}, {differing} differ"),
    )?;
    Ok((here, there, differing) != (0, 0, 0))
}

/// An object of lists that is printed item by item, as JSON or as lines.
pub(super) struct Printed {
    out: io::BufWriter<io::Stdout>,
    is_json: bool,
    /// The text before the next item or list.
    separator: &'static str,
}

impl Printed {
    pub(super) fn new(is_json: bool) -> Self {
        Self { out: io::BufWriter::new(io::stdout()), is_json, separator: "{" }
    }

    /// Begins a list.
    pub(super) fn list(&mut self, name: &str) -> io::Result<()> {
        if !self.is_json {
            return Ok(());
        }
        let end = if self.separator == "{" { "{" } else { "]," };
        write!(self.out, "{end}\"{name}\":[")?;
        self.separator = "";
        Ok(())
    }

    /// An item of the list.
    pub(super) fn item(&mut self, json: &impl Serialize, cells: &[&str]) -> io::Result<()> {
        if !self.is_json {
            let cells: Vec<String> = cells.iter().map(|cell| (*cell).to_owned()).collect();
            return writeln!(self.out, "{}", tab_separated(&cells));
        }
        write!(self.out, "{}{}", std::mem::replace(&mut self.separator, ","), serde_json::to_string(json)?)
    }

    /// Ends the lists with the sums.
    fn sums(&mut self, json: &str, line: &str) -> io::Result<()> {
        if self.is_json { writeln!(self.out, "],{json}}}") } else { writeln!(self.out, "{line}") }
    }

    pub(super) fn end(mut self) -> io::Result<()> {
        self.out.flush()
    }
}
