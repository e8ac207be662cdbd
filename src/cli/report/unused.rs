//! `minitill report unused` shows the charged coins that nobody has used, and their money (contract 19.8.4).

use anyhow::Result;
use clap::Args;
use domain::ids::AppId;
use domain::moment::GivenMoment;
use domain::period::TimeZone;
use store::{SheetStyle, Store, UnusedMoney, UnusedReport};

use super::{FormatArguments, ReportFormat};
use crate::cli::output::visible_document;
use crate::cli::span::parse_moment;
use crate::cli::{Context, not_done};
use crate::operator::workbook;

#[derive(Debug, Args)]
pub(in crate::cli) struct UnusedArguments {
    /// Id of the app
    app_id: AppId,
    /// Right before this moment: 2026-11-01, 2026-11-01T08:00, a time with an offset, or 36h for 36 hours ago [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    at: Option<GivenMoment>,
    /// Time zone of a moment without an offset, and of a workbook's times: an IANA name, such as Asia/Shanghai
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = TimeZone::parse)]
    time_zone: TimeZone,
    #[command(flatten)]
    format: FormatArguments,
}

pub(super) async fn run(context: &Context, store: &Store, arguments: UnusedArguments) -> Result<()> {
    let UnusedArguments { app_id, at, time_zone, format } = arguments;
    let asked = format.format(context, ReportFormat::Table)?;
    let at = at.map(|at| time_zone.moment(at));
    let report = store.unused_coins(&app_id, at).await.map_err(not_done)?;
    let report = match asked {
        ReportFormat::Table => {
            let table = context.output.table(&UnusedReport::COLUMNS, report.lines());
            let of_currency = |UnusedMoney { currency, unused, money }: &UnusedMoney| {
                format!("{currency}: {unused} coins, {money} in minor units\n")
            };
            let by_currency: String = report.by_currency.iter().map(of_currency).collect();
            let sums = format!("without a price: {}\ntotal: {}", report.without_price, report.total);
            visible_document(&format!("{}\n{by_currency}{sums}", table.trim_end())).into_bytes()
        }
        ReportFormat::Csv => report.csv()?,
        ReportFormat::Json | ReportFormat::Jsonl => (serde_json::to_string(&report)? + "\n").into_bytes(),
        ReportFormat::Xlsx => workbook::unused(report, SheetStyle::english(time_zone)).await?,
    };
    format.give(context, &report)
}
