//! `minitill report revenue` shows what an app has taken and given back (contract 13.2).

use anyhow::Result;
use clap::Args;
use domain::ids::AppId;
use domain::moment::{GivenMoment, parse_given};
use domain::period::TimeZone;
use store::{RevenueGroup, RevenueQuery, RevenueReport, Store};

use super::parse_zone;
use crate::cli::output::{table, write_out};
use crate::cli::{Context, not_done};

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
    group: ParsedGroups,
    /// Time zone in which days begin, such as Asia/Shanghai
    #[arg(long, value_name = "NAME", default_value = "UTC", value_parser = parse_zone)]
    time_zone: TimeZone,
    /// Print CSV
    #[arg(long)]
    csv: bool,
}

/// The groups of one argument.
#[derive(Debug, Clone)]
struct ParsedGroups(Vec<RevenueGroup>);

fn parse_moment(text: &str) -> Result<GivenMoment, String> {
    parse_given(text).map_err(|expected| expected.to_string())
}

fn parse_group(text: &str) -> Result<ParsedGroups, String> {
    RevenueQuery::parse_groups(text).map(ParsedGroups).map_err(|expected| expected.to_string())
}

pub(super) async fn run(context: &Context, store: &Store, arguments: RevenueArguments) -> Result<()> {
    let RevenueArguments { app_id, since, until, group: ParsedGroups(group), time_zone, csv } = arguments;
    let query = RevenueQuery { app_id, since, until, group: group.clone(), time_zone };
    let report = store.revenue(query).await.map_err(not_done)?;
    if csv && !context.output.is_json {
        let bytes = report.csv(&group)?;
        return write_out(|out| out.write_all(&bytes));
    }
    let columns: Vec<&str> = RevenueReport::columns(&group).collect();
    context.output.print(&report, table(&columns, report.lines(&group)))
}
