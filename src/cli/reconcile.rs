//! `minitill reconcile` compares the ledger of an app with the books of others (contract 13.5).

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use domain::ids::AppId;
use domain::period::{Period, TimeZone};
use store::{BookColumn, ComparedBy, Difference, ReconcileError, Reconciled, Store, TheirFile};

use super::output::complain;
use super::report::{parse_day, parse_month};
use super::span::parse_zone;
use super::table::tab_separated;
use super::{Context, not_done};
use crate::http::language;

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
    #[arg(long, value_name = "THEIRS=OURS", value_parser = parse_mapped)]
    map: Vec<(String, BookColumn)>,
    /// Only what happened here on this day, such as 2026-10-31
    #[arg(long, value_name = "DAY", value_parser = parse_day, group = "period", conflicts_with = "month")]
    day: Option<Period>,
    /// Only what happened here in this month, such as 2026-10
    #[arg(long, value_name = "MONTH", value_parser = parse_month, group = "period")]
    month: Option<Period>,
    /// Time zone of the day or month: an IANA name, such as Asia/Shanghai
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = parse_zone, requires = "period")]
    time_zone: TimeZone,
}

fn parse_mapped(text: &str) -> Result<(String, BookColumn), String> {
    // A name may have an equals sign. No column of ours has one.
    let (theirs, ours) = text.rsplit_once('=').ok_or("expected THEIRS=OURS, such as order=biz_no")?;
    let column = BookColumn::parse(ours).map_err(|expected| format!("{expected} behind ="))?;
    Ok((theirs.trim().to_owned(), column))
}

pub(super) async fn run(context: &Context, store: &Store, arguments: ReconcileArguments) -> Result<ExitCode> {
    let ReconcileArguments { app_id, file, by, map, day, month, time_zone } = arguments;
    let file = TheirFile::open(&file, (by, &map), &language::WORDS).map_err(failed)?;
    if !file.ignored().is_empty() {
        complain(&format!("columns that the bill does not have are ignored: {}", file.ignored().join(", ")));
    }
    let span = day.or(month).map(|period| period.span(&time_zone));
    let mut found = store.reconcile(&app_id, span, file).await.map_err(failed)?;
    if found.without_number > 0 {
        complain(&format!("{} lines without a {by} are not compared", found.without_number));
    }
    if found.of_other_periods > 0 {
        complain(&format!(
            "{} numbers that are of another period here are not compared",
            found.of_other_periods
        ));
    }
    let is_same = show(context.output.is_json, &mut found).await?;
    found.close().await?;
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn failed(error: ReconcileError) -> anyhow::Error {
    match error {
        ReconcileError::Operation(error) => not_done(error),
        ReconcileError::File(refusal) => anyhow!("{refusal}"),
        ReconcileError::Output(error) => error.into(),
    }
}

/// Prints what was found, one by one, so that many differences need little memory. Returns whether there are none.
async fn show(is_json: bool, found: &mut Reconciled) -> Result<bool> {
    let mut out = io::BufWriter::new(io::stdout());
    let mut list = PrintedList { is_json, is_first: true };
    list.begin(&mut out, "{\"only_here\":[")?;
    let here = found
        .each_only_here(|number| {
            list.item(&mut out, &serde_json::to_string(number)?, &["only here", number.as_str()])
        })
        .await
        .map_err(failed)?;
    list.begin(&mut out, "],\"only_there\":[")?;
    let there = found
        .each_only_there(|number| {
            list.item(&mut out, &serde_json::to_string(number)?, &["only there", number.as_str()])
        })
        .await
        .map_err(failed)?;
    list.begin(&mut out, "],\"differs\":[")?;
    let (matched, differing) = found
        .each_difference(|difference| {
            let Difference { number, field, here, there } = difference;
            let object = serde_json::to_string(difference)?;
            list.item(&mut out, &object, &["differs", number.as_str(), field, here, there])
        })
        .await
        .map_err(failed)?;
    if is_json {
        writeln!(out, "],\"matched\":{matched}}}")?;
    } else {
        writeln!(out, "{matched} matched, {here} only here, {there} only there, {differing} differ")?;
    }
    out.flush()?;
    Ok((here, there, differing) == (0, 0, 0))
}

/// A list that is printed item by item.
struct PrintedList {
    is_json: bool,
    is_first: bool,
}

impl PrintedList {
    fn begin(&mut self, out: &mut impl io::Write, json: &str) -> io::Result<()> {
        self.is_first = true;
        if self.is_json { out.write_all(json.as_bytes()) } else { Ok(()) }
    }

    fn item(&mut self, out: &mut impl io::Write, json: &str, cells: &[&str]) -> io::Result<()> {
        if !self.is_json {
            let cells: Vec<String> = cells.iter().map(|cell| (*cell).to_owned()).collect();
            return writeln!(out, "{}", tab_separated(&cells));
        }
        let separator = if std::mem::take(&mut self.is_first) { "" } else { "," };
        write!(out, "{separator}{json}")
    }
}
