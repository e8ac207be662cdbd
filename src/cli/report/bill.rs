//! `minitill report bill` writes the ledger entries of a period (contract 13.4).

use std::io::{self, Write};

use anyhow::Result;
use clap::{ArgGroup, Args};
use domain::ids::AppId;
use store::{Bill, BillFormat, BillPiece, BillSums, Store};

use super::super::new_file::NewFile;
use super::super::output::ignore_gone_reader;
use super::super::{Context, not_done};
use super::bill_text::{BillJson, BillTable, told};
use super::{FormatArguments, PeriodArguments, ReportFormat, to_out};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("span").args(["day", "month", "since", "until"]).required(true).multiple(true))]
pub(in super::super) struct BillArguments {
    /// Id of the app
    app_id: AppId,
    #[command(flatten)]
    period: PeriodArguments,
    #[command(flatten)]
    format: FormatArguments,
}

pub(super) async fn run(context: &Context, store: &Store, arguments: BillArguments) -> Result<()> {
    let BillArguments { app_id, period, format } = arguments;
    let made = match format.format(context, ReportFormat::Csv)? {
        ReportFormat::Csv => BillFormat::csv(),
        ReportFormat::Table => BillFormat::Text(Box::new(BillTable)),
        ReportFormat::Json => {
            BillFormat::Text(Box::new(BillJson::Object { app_id: app_id.clone(), is_first: true }))
        }
        ReportFormat::Jsonl => BillFormat::Text(Box::new(BillJson::Lines)),
        ReportFormat::Xlsx => BillFormat::Workbook(period.style()),
    };
    let span = period.span()?;
    let bill = || async { store.bill(&app_id, span, made).await.map_err(not_done) };
    give(context, &format, bill).await
}

/// Writes a bill to its file or to standard output. The file is begun first, so that a name that cannot be used costs no
/// work.
pub(in super::super) async fn give<Made: Future<Output = Result<Bill>>>(
    context: &Context,
    format: &FormatArguments,
    make: impl FnOnce() -> Made,
) -> Result<()> {
    let Some(path) = &format.out else {
        return ignore_gone_reader(write(make().await?, to_out(None)?).await?.map(|_| ()));
    };
    let file = NewFile::create(path)?;
    let out = to_out(Some(&file)).map_err(|error| file.failed(&error))?;
    let sums = write(make().await?, out).await?.map_err(|error| file.failed(&error))?;
    file.finish()?;
    let (object, words) = told(path, &sums);
    context.output.print(&object, words)
}

/// Writes a bill. The outer error is that of the store, the inner one that of `out`.
async fn write(mut bill: Bill, mut out: impl Write) -> Result<io::Result<BillSums>> {
    loop {
        let written = match bill.next().await? {
            BillPiece::Lines(lines) => out.write_all(&lines),
            BillPiece::End(sums) => return Ok(out.flush().map(|()| sums)),
        };
        if let Err(error) = written {
            return Ok(Err(error));
        }
    }
}
