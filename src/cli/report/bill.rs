//! `minitill report bill` writes the ledger entries of a day or a month as CSV (contract 13.4).

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use domain::ids::AppId;
use domain::period::TimeSpan;
use serde_json::{Value, json};
use store::{Bill, BillPiece, BillSums, CsvReader, Store};

use super::super::new_file::NewFile;
use super::super::output::ignore_gone_reader;
use super::super::{Context, not_done};
use super::{PeriodArguments, ZoneArguments};

#[derive(Debug, Args)]
pub(in super::super) struct BillArguments {
    /// Id of the app
    app_id: AppId,
    #[command(flatten)]
    period: PeriodArguments,
    #[command(flatten)]
    zone: ZoneArguments,
    /// Write the CSV for a spreadsheet: with a byte-order mark, and times without zone, in UTC
    #[arg(long)]
    excel: bool,
    /// Write to this file instead of standard output; it appears when it is complete
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, store: &Store, arguments: BillArguments) -> Result<()> {
    let BillArguments { app_id, period, zone, excel, out } = arguments;
    let period = period.period().ok_or_else(|| anyhow!("expected --day or --month"))?;
    ensure!(
        !context.output.is_json || out.is_some(),
        "the bill is CSV: with --json, write it with --out FILE"
    );
    let (span, reader) = (zone.span(period), if excel { CsvReader::Spreadsheet } else { CsvReader::Program });
    let Some(file) = out else {
        let bill = store.bill(&app_id, span, reader).await.map_err(not_done)?;
        return ignore_gone_reader(write(bill, io::stdout()).await?.map(|_| ()));
    };
    let BillSums { entries, free_change, charge_change } =
        to_file(store, &app_id, span, reader, &file).await?;
    // As text where it needs more than 64 bits.
    let number = |sum: i128| i64::try_from(sum).map_or_else(|_| Value::from(sum.to_string()), Value::from);
    let (free, charge) = (number(free_change), number(charge_change));
    context.output.print(
        &json!({ "file": file, "entries": entries, "free_change": free, "charge_change": charge }),
        format!("{}: {entries} entries", file.display()),
    )
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

async fn to_file(
    store: &Store,
    app_id: &AppId,
    span: TimeSpan,
    reader: CsvReader,
    path: &Path,
) -> Result<BillSums> {
    let file = NewFile::create(path)?;
    let bill = store.bill(app_id, span, reader).await.map_err(not_done)?;
    let sums = write(bill, &file.file).await?.map_err(|error| file.failed(&error))?;
    file.finish()?;
    Ok(sums)
}
