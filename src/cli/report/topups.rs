//! `minitill report topups` shows the income from payments (contract 19.8.1).

use anyhow::Result;
use clap::Args;
use domain::ids::AppId;
use domain::topup::Currency;
use store::{IncomeGroup, IncomeQuery, IncomeReport, Store, UnmatchedSums};

use super::{FormatArguments, PeriodArguments, ReportFormat};
use crate::cli::output::visible_document;
use crate::cli::{Context, not_done};
use crate::operator::workbook;

#[derive(Debug, Args)]
pub(in crate::cli) struct TopupsArguments {
    /// Id of the app
    app_id: AppId,
    #[command(flatten)]
    period: PeriodArguments,
    /// What each row is of: `day`, `provider`, `product_id`, `currency` and `os`, with commas between them; currencies are
    /// never added
    #[arg(long, value_name = "GROUPS", default_value = "day,currency", value_parser = IncomeGroup::parse_groups)]
    group: IncomeGroups,
    #[command(flatten)]
    format: FormatArguments,
}

/// The groups of one argument. clap reads a `Vec` as an option that can be repeated.
type IncomeGroups = Vec<IncomeGroup>;

pub(super) async fn run(context: &Context, store: &Store, arguments: TopupsArguments) -> Result<()> {
    let TopupsArguments { app_id, period, group: groups, format } = arguments;
    let asked = format.format(context, ReportFormat::Table)?;
    let query =
        IncomeQuery { span: period.span()?, groups: groups.clone(), time_zone: period.time_zone.clone() };
    let report = store.topup_income(&app_id, query).await.map_err(not_done)?;
    let report = match asked {
        ReportFormat::Table => {
            let columns: Vec<&str> = IncomeReport::columns(&groups).collect();
            let table = context.output.table(&columns, report.lines(&groups));
            let note = "amount, fee and refunded: in minor units".to_owned();
            let text = [table, note].into_iter().chain(report.unmatched.iter().map(waiting));
            let text = text.collect::<Vec<_>>().join("\n");
            visible_document(&text).into_bytes()
        }
        ReportFormat::Csv => report.csv(&groups)?,
        ReportFormat::Json | ReportFormat::Jsonl => (serde_json::to_string(&report)? + "\n").into_bytes(),
        ReportFormat::Xlsx => workbook::income(report, groups, period.style()).await?,
    };
    format.give(context, &report)
}

/// The line of the payments of one currency that wait for an operator.
fn waiting(UnmatchedSums { currency, payments, amount }: &UnmatchedSums) -> String {
    let noun = if *payments == 1 { "payment" } else { "payments" };
    format!("unmatched: {payments} {noun} of {} {currency}", Currency::units_of(currency, *amount))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 19.8.3: money that waits is in units of its currency.
    #[test]
    fn payments_that_wait_are_in_units() {
        for (currency, payments, amount, expected) in [
            ("CNY", 1, 500, "unmatched: 1 payment of 5.00 CNY"),
            ("CNY", 2, 1_205, "unmatched: 2 payments of 12.05 CNY"),
            ("JPY", 2, 120, "unmatched: 2 payments of 120 JPY"),
        ] {
            let sums = UnmatchedSums { currency: currency.to_owned(), payments, amount };
            assert_eq!(waiting(&sums), expected);
        }
    }
}
