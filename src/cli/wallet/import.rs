//! `minitill wallet import` makes many credits from a CSV file.

use std::cell::Cell;
use std::fs::File;
use std::future::ready;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use csv::Position;
use domain::ids::{AppId, CreditRef, OpenId};
use futures_util::StreamExt as _;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use store::{Credit, ImportSummary, Store};

use super::super::{Context, Failure};
use super::done;

/// Credits in work at the same time.
const CONCURRENCY: usize = 4;
/// Size of the reads for the digest of the file.
const DIGEST_CHUNK_BYTES: usize = 64 * 1024;

/// A line of the file.
#[derive(Debug, Deserialize)]
struct ImportRow {
    open_id: String,
    free: i64,
    charge: i64,
    #[serde(rename = "ref")]
    reference: String,
}

/// The credits so far.
#[derive(Default)]
struct Tally {
    credited: u64,
    replayed: u64,
    free: i128,
    charge: i128,
}

/// Reads the whole file before the first credit, so that an invalid line prevents all credits. In the
/// operator's log each credit has a line. The import has one line more, with the sums, also if it fails
/// half-way.
pub(super) async fn run(
    context: &Context,
    store: &Store,
    app_id: &AppId,
    file: &Path,
) -> Result<(), Failure> {
    let sha256 = digest(file)?;
    let mut rows = 0_u64;
    for row in read_rows(file)? {
        row?;
        rows += 1;
    }
    let mut tally = Tally::default();
    let outcome = credit_all(context, store, app_id, file, rows, &mut tally).await;
    let Tally { credited, replayed, free, charge } = tally;
    if credited > 0 {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (free, charge, complete) = (free.to_string(), charge.to_string(), outcome.is_ok());
        let summary = ImportSummary { file: name, sha256, rows, credited, replayed, free, charge, complete };
        store.log_import(&context.operator, app_id, summary).await?;
    }
    outcome?;
    context.output.print(
        &json!({ "app_id": app_id.as_str(), "rows": rows, "credited": credited, "replayed": replayed }),
        || format!("{app_id}: {rows} lines, {credited} credited now, {replayed} already credited before"),
    )
}

async fn credit_all(
    context: &Context,
    store: &Store,
    app_id: &AppId,
    file: &Path,
    rows: u64,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let bar = ProgressBar::new(rows);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} credits, {eta} left") {
        bar.set_style(style);
    }
    // After a failure no new credit starts. Credits in work finish, and count.
    let has_failed = Cell::new(false);
    let mut credits = futures_util::stream::iter(read_rows(file)?)
        .take_while(|_| ready(!has_failed.get()))
        .map(|row| async move {
            let (position, credit) = row?;
            let (reference, free, charge) = (credit.reference.to_string(), credit.free, credit.charge);
            let outcome = store.import_credit(&context.operator, app_id, credit).await?;
            done(&outcome, app_id, &reference)
                .map(|(_, replayed)| (replayed, free, charge))
                .map_err(|failure| Failure(format!("line {}: {failure}", line_of(file, &position))))
        })
        .buffer_unordered(CONCURRENCY);
    let mut outcome = Ok(());
    while let Some(credited) = credits.next().await {
        match credited {
            Ok((true, ..)) => tally.replayed += 1,
            Ok((false, free, charge)) => {
                tally.credited += 1;
                tally.free += i128::from(free);
                tally.charge += i128::from(charge);
            }
            Err(failure) => {
                has_failed.set(true);
                outcome = outcome.and(Err(failure));
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    outcome
}

/// The SHA-256 of the file in hexadecimal.
fn digest(file: &Path) -> Result<String, Failure> {
    let fault = |error: io::Error| Failure(format!("{}: {error}", file.display()));
    let mut opened = File::open(file).map_err(fault)?;
    let (mut digest, mut chunk) = (Sha256::new(), vec![0; DIGEST_CHUNK_BYTES]);
    loop {
        match opened.read(&mut chunk).map_err(fault)? {
            0 => return Ok(hex::encode(digest.finalize())),
            length => digest.update(&chunk[..length]),
        }
    }
}

type PlacedCredit = Result<(Position, Credit), Failure>;

fn read_rows(file: &Path) -> Result<impl Iterator<Item = PlacedCredit>, Failure> {
    let opened = File::open(file).map_err(|error| Failure(format!("{}: {error}", file.display())))?;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(opened);
    let heading = reader.headers().map_err(|error| Failure(error.to_string()))?;
    if heading.iter().collect::<Vec<_>>() != ["open_id", "free", "charge", "ref"] {
        return Err(Failure(format!("{}: expected the heading open_id,free,charge,ref", file.display())));
    }
    let heading = heading.clone();
    Ok(reader.into_records().map(move |record| {
        let record = record.map_err(|error| Failure(error.to_string()))?;
        let position = record.position().cloned().unwrap_or_else(Position::new);
        let fault = |text: String| Failure(format!("line {}: {text}", line_of(file, &position)));
        let row: ImportRow = record.deserialize(Some(&heading)).map_err(|error| fault(fault_of(&error)))?;
        let open_id = OpenId::parse(&row.open_id)
            .map_err(|expected| fault(format!("open_id: expected {}", expected.0)))?;
        let reference = CreditRef::parse(&row.reference)
            .map_err(|expected| fault(format!("ref: expected {}", expected.0)))?;
        if row.free < 0 || row.charge < 0 {
            return Err(fault("free and charge: expected 0 or more".to_owned()));
        }
        let credit = Credit { open_id, free: row.free, charge: row.charge, reference, note: String::new() };
        Ok((position, credit))
    }))
}

/// The number of a record's line, as editors count: a quoted record can span several lines, and empty lines
/// count. The position of the reader is before the empty lines that it skipped.
fn line_of(file: &Path, position: &Position) -> u64 {
    let before = |mut file: File| -> io::Result<u64> {
        file.seek(SeekFrom::Start(position.byte()))?;
        let mut empty = 0;
        for byte in BufReader::new(file).bytes() {
            match byte? {
                b'\n' => empty += 1,
                b'\r' => {}
                _ => break,
            }
        }
        Ok(empty)
    };
    position.line() + File::open(file).and_then(before).unwrap_or_default()
}

/// The error of a row without its position, which the caller adds.
fn fault_of(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => err.to_string(),
        _ => error.to_string(),
    }
}
