//! `minitill report statement` closes a day or a month (contract 13.3).

use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgGroup, Args};
use domain::ids::AppId;
use store::{Statement, Store, csv_of};

use super::super::output::visible_document;
use super::super::{Context, not_done};
use super::{FormatArguments, PeriodArguments, ReportFormat};
use crate::operator::workbook;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("closed").args(["day", "month"]).required(true))]
// They come with the options of all reports, and a statement is of a day or a month alone.
#[command(mut_arg("since", |option| option.hide(true)), mut_arg("until", |option| option.hide(true)))]
pub(in super::super) struct StatementArguments {
    /// Id of the app
    app_id: AppId,
    #[command(flatten)]
    period: PeriodArguments,
    #[command(flatten)]
    format: FormatArguments,
}

pub(super) async fn run(context: &Context, store: &Store, arguments: StatementArguments) -> Result<ExitCode> {
    let StatementArguments { app_id, period, format } = arguments;
    let asked = format.format(context, ReportFormat::Table)?;
    let of = period.period()?;
    let statement = store.period_statement(&app_id, of, &period.time_zone).await.map_err(not_done)?;
    let ties = statement.ties;
    let report = match asked {
        ReportFormat::Table => visible_document(&statement.document).into_bytes(),
        ReportFormat::Csv => csv(&statement)?,
        ReportFormat::Json | ReportFormat::Jsonl => (serde_json::to_string(&statement)? + "\n").into_bytes(),
        ReportFormat::Xlsx => workbook::statement(statement, period.style()).await?,
    };
    format.give(context, &report)?;
    Ok(if ties { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The figures, each with its name in JSON. What goes out is above zero, as there.
fn csv(statement: &Statement) -> Result<Vec<u8>> {
    let (free, charge) = (&statement.free, &statement.charge);
    let figures = [
        ("opening", free.opening, charge.opening),
        ("credits.command", free.credits.command, charge.credits.command),
        ("credits.import", free.credits.import, charge.credits.import),
        ("credits.api", free.credits.api, charge.credits.api),
        ("credits.console", free.credits.console, charge.credits.console),
        ("topups", free.topups, charge.topups),
        ("presents", free.presents, charge.presents),
        ("exchanges", free.exchanges, charge.exchanges),
        ("cancels", free.cancels, charge.cancels),
        ("debits", free.debits, charge.debits),
        ("refunds", free.refunds, charge.refunds),
        ("settlements", free.settlements, charge.settlements),
        ("closing", free.closing, charge.closing),
    ];
    Ok(csv_of(["figure", "free", "charge"], figures)?)
}
