//! `minitill report revenue` shows what apps have taken and given back (contract 13.2).

use anyhow::Result;
use clap::Args;
use domain::ids::{AppId, Os, ProductText};
use domain::moment::GivenMoment;
use domain::rights::Apps;
use store::{ItemFilter, RevenueFilter, RevenueGroup, RevenueQuery, RevenueReport, Store, Zone};

use super::{FormatArguments, PeriodArguments, ReportFormat};
use crate::cli::output::visible_document;
use crate::cli::{Context, not_done};
use crate::operator::workbook;

#[derive(Debug, Args)]
pub(in crate::cli) struct RevenueArguments {
    /// Ids of apps; without one all apps
    app_ids: Vec<AppId>,
    #[command(flatten)]
    period: PeriodArguments,
    /// Only of this zone: what `zone_id` has before its first underscore; the role of a `zone_id` does not count
    #[arg(long, value_parser = Zone::parse)]
    zone: Option<Zone>,
    /// Only of items with this text in their names
    #[arg(long, value_name = "TEXT", value_parser = ProductText::parse)]
    item: Option<ProductText>,
    /// Only of players on this platform, such as `ios`
    #[arg(long)]
    os: Option<Os>,
    /// What each row is of: one of `hour`, `day` and `week`, `app_id`, `product_name`, `zone` and `os`, with commas between them
    #[arg(long, value_name = "GROUPS", default_value = "day", value_parser = RevenueQuery::parse_groups)]
    group: RevenueGroups,
    #[command(flatten)]
    format: FormatArguments,
}

/// The groups of one argument. clap reads a `Vec` as an option that can be repeated.
type RevenueGroups = Vec<RevenueGroup>;

pub(super) async fn run(context: &Context, store: &Store, arguments: RevenueArguments) -> Result<()> {
    let RevenueArguments { app_ids, period, zone, item, os, group, format } = arguments;
    let asked = format.format(context, ReportFormat::Table)?;
    let [since, until] = period.ends()?.map(|end| end.map(GivenMoment::Fixed));
    let time_zone = period.time_zone.clone();
    let item = item.map(|text| ItemFilter { text, is_part: true });
    let query = RevenueQuery {
        apps: Apps::of(app_ids)?,
        filter: RevenueFilter { zone, item, os },
        since,
        until,
        group: group.clone(),
        time_zone,
    };
    let report = store.revenue_with_payers(query).await.map_err(not_done)?;
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
