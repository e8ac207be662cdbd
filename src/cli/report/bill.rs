//! `minitill report bill` writes the ledger entries of a day or a month as CSV (contract 13.4).

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use domain::ids::AppId;
use domain::period::TimeSpan;
use serde_json::{Value, json};
use store::{BillError, BillSums, CsvReader, Store};

use super::super::new_file::NewFile;
use super::super::output::ignore_gone_reader;
use super::super::{Context, unknown_app};
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
    match out {
        Some(file) => {
            let sums = to_file(store, &app_id, span, reader, &file).await?;
            let BillSums { entries, free_change, charge_change } = sums;
            // As text where it needs more than 64 bits.
            let number =
                |sum: i128| i64::try_from(sum).map_or_else(|_| Value::from(sum.to_string()), Value::from);
            let (free, charge) = (number(free_change), number(charge_change));
            context.output.print(
                &json!({ "file": file, "entries": entries, "free_change": free, "charge_change": charge }),
                format!("{}: {entries} entries", file.display()),
            )
        }
        None => match store.bill(&app_id, span, reader, io::stdout()).await {
            Err(BillError::Output(error)) => ignore_gone_reader(Err(error)),
            Err(error) => Err(refused(error)),
            Ok(_) => Ok(()),
        },
    }
}

fn refused(error: BillError) -> anyhow::Error {
    match error {
        BillError::UnknownApp(app_id) => unknown_app(&app_id),
        BillError::Output(error) => error.into(),
        BillError::Store(error) => error.into(),
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
    let sums = store.bill(app_id, span, reader, &file.file).await.map_err(|error| match error {
        BillError::Output(error) => file.failed(&error),
        other => refused(other),
    })?;
    file.finish()?;
    Ok(sums)
}
