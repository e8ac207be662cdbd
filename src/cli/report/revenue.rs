//! `minitill report revenue` shows what an app has taken and given back (contract 13.2).

use anyhow::{Result, anyhow};
use clap::Args;
use csv::WriterBuilder;
use domain::csv::csv_text;
use domain::ids::AppId;
use domain::moment::{GivenMoment, parse_given};
use indexmap::IndexMap;
use serde_json::Value;
use store::{Refusable, RevenueError, RevenueGroup, RevenueQuery, RevenueRefusal, RevenueReport, Store};

use crate::cli::output::{members, table, write_out};
use crate::cli::{Context, unknown_app};

/// The columns of the sums.
const SUMS: [&str; 6] =
    ["count", "free_taken", "charge_taken", "free_given_back", "charge_given_back", "net"];

#[derive(Debug, Args)]
pub(in crate::cli) struct RevenueArguments {
    /// Id of the app
    app_id: AppId,
    /// From this moment on, such as 2026-10-01 or 2026-10-01T08:00; without an offset, in the time zone of the report
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    since: Option<GivenMoment>,
    /// Before this moment, in the same formats
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    until: Option<GivenMoment>,
    /// What each row is of: `day`, `product_name` and `zone`, with commas between them
    #[arg(long, value_name = "GROUPS", default_value = "day", value_parser = parse_group)]
    group: Groups,
    /// Time zone in which days begin, such as Asia/Shanghai
    #[arg(long, value_name = "NAME", default_value = "UTC")]
    time_zone: String,
    /// Print CSV
    #[arg(long)]
    csv: bool,
}

/// The groups of one argument.
#[derive(Debug, Clone)]
struct Groups(Vec<RevenueGroup>);

fn parse_moment(text: &str) -> Result<GivenMoment, String> {
    parse_given(text).map_err(|expected| expected.to_string())
}

fn parse_group(text: &str) -> Result<Groups, String> {
    RevenueQuery::parse_groups(text).map(Groups).map_err(|expected| expected.to_string())
}

pub(super) async fn run(context: &Context, store: &Store, arguments: RevenueArguments) -> Result<()> {
    let RevenueArguments { app_id, since, until, group: Groups(group), time_zone, csv } = arguments;
    let query = RevenueQuery {
        app_id: app_id.clone(),
        since,
        until,
        group: group.clone(),
        time_zone: time_zone.clone(),
    };
    let report = store.revenue(query).await.map_err(|error| refused(error, &app_id, &time_zone))?;
    let columns: Vec<&str> = group.into_iter().map(RevenueGroup::as_str).chain(SUMS).collect();
    if csv && !context.output.is_json {
        let bytes = in_csv(&columns, &report)?;
        return write_out(|out| out.write_all(&bytes));
    }
    let rows = lines(&columns, &report)?;
    let rows =
        rows.into_iter().map(|row| row.into_iter().map(|cell| domain::changes::words(&cell)).collect());
    context.output.print(&report, table(&columns, rows))
}

fn refused(error: RevenueError, app_id: &AppId, time_zone: &str) -> anyhow::Error {
    match error {
        Refusable::Store(error) => error.into(),
        Refusable::Refused(RevenueRefusal::UnknownApp) => unknown_app(app_id),
        Refusable::Refused(RevenueRefusal::UnknownTimeZone) => {
            anyhow!("time zone: expected {}, got {time_zone:?}", RevenueQuery::TIME_ZONE_EXPECTED)
        }
        Refusable::Refused(RevenueRefusal::EmptySpan) => anyhow!("until: expected a moment after since"),
        Refusable::Refused(RevenueRefusal::TooManyRows) => {
            anyhow!("group: expected groups that make at most 100000 rows in this span")
        }
    }
}

/// The cells of the rows, and of the total at their end.
fn lines(columns: &[&str], report: &RevenueReport) -> Result<Vec<Vec<Value>>> {
    let cells = |row: IndexMap<String, Value>| {
        columns
            .iter()
            .map(|column| row.get(*column).cloned().unwrap_or_else(|| "".into()))
            .collect::<Vec<_>>()
    };
    let mut lines = Vec::with_capacity(report.rows.len() + 1);
    for row in &report.rows {
        lines.push(cells(members(row)?));
    }
    let mut total = cells(members(&report.total)?);
    if columns.len() > SUMS.len() {
        total[0] = "total".into();
    }
    lines.push(total);
    Ok(lines)
}

/// The same as CSV. Free texts begin with nothing that a spreadsheet calculates; sums may be negative.
fn in_csv(columns: &[&str], report: &RevenueReport) -> Result<Vec<u8>> {
    let mut writer = WriterBuilder::new().from_writer(Vec::new());
    writer.write_record(columns)?;
    for line in lines(columns, report)? {
        writer.write_record(line.iter().map(|cell| match cell {
            Value::String(text) => csv_text(text).into_owned(),
            number => number.to_string(),
        }))?;
    }
    Ok(writer.into_inner()?)
}
