//! `minitill report revenue` shows what an app has taken and given back (contract 13.2).

use anyhow::Result;
use clap::Args;
use domain::ids::AppId;
use domain::moment::GivenMoment;
use store::{RevenueGroup, RevenueQuery, RevenueReport, Store};

use super::{FormatArguments, PeriodArguments, ReportFormat};
use crate::cli::output::visible_document;
use crate::cli::{Context, not_done};
use crate::operator::workbook;

#[derive(Debug, Args)]
pub(in crate::cli) struct RevenueArguments {
    /// Id of the app
    app_id: AppId,
    #[command(flatten)]
    period: PeriodArguments,
    /// What each row is of: `day`, `product_name` and `zone`, with commas between them
    #[arg(long, value_name = "GROUPS", default_value = "day", value_parser = parse_group)]
    group: ParsedGroups,
    #[command(flatten)]
    format: FormatArguments,
}

/// The groups of one argument.
#[derive(Debug, Clone)]
struct ParsedGroups(Vec<RevenueGroup>);

fn parse_group(text: &str) -> Result<ParsedGroups, String> {
    RevenueQuery::parse_groups(text).map(ParsedGroups).map_err(|expected| expected.to_string())
}

pub(super) async fn run(context: &Context, store: &Store, arguments: RevenueArguments) -> Result<()> {
    let RevenueArguments { app_id, period, group: ParsedGroups(group), format } = arguments;
    let asked = format.format(context, ReportFormat::Table)?;
    let [since, until] = period.ends().map(|end| end.map(GivenMoment::Fixed));
    let time_zone = period.time_zone.clone();
    let query = RevenueQuery { app_id, since, until, group: group.clone(), time_zone };
    let report = store.revenue(query).await.map_err(not_done)?;
    let report = match asked {
        ReportFormat::Table => {
            let columns: Vec<&str> = RevenueReport::columns(&group).collect();
            visible_document(&context.output.table(&columns, report.lines(&group))).into_bytes()
        }
        ReportFormat::Csv => report.csv(&group)?,
        ReportFormat::Json | ReportFormat::Jsonl => (serde_json::to_string(&report)? + "\n").into_bytes(),
        ReportFormat::Xlsx => workbook::revenue(report, group, period.style()).await?,
    };
    format.give(context, &report)
}
