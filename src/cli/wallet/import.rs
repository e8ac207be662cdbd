//! `minitill wallet import` makes many credits from a CSV file.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Result, anyhow, bail, ensure};
use csv::Position;
use domain::ids::{AppId, CreditRef, OpenId};
use domain::operation::wallet::{ChangedPurses, Credit, unknown_player};
use domain::wallet::check_credit;
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde_json::{Map, json};
use sha2::{Digest as _, Sha256};
use store::{CreditsSource, Store, csv_line};

use super::super::output::progress_bar;
use super::super::{Context, not_done, refused, unknown_app};

/// The first line of the file.
const HEADING: [&str; 4] = ["open_id", "free", "charge", "ref"];
/// Calls in work at the same time.
const CONCURRENCY: usize = 2;
/// Credits of one call. A call locks the wallets of all its players.
const CREDITS_AT_ONCE: usize = 5_000;
/// Players that are looked up in one query.
const PLAYERS_AT_ONCE: usize = 1_000;
/// Size of the reads for the digest of the file.
const DIGEST_CHUNK_BYTES: usize = 64 * 1024;

/// What an import reads, and for which app.
#[derive(Clone, Copy)]
pub(super) struct Import<'a> {
    pub(super) app_id: &'a AppId,
    pub(super) file: &'a Path,
    /// Whether it makes players known.
    pub(super) create: bool,
}

/// The credits so far.
#[derive(Default)]
struct Tally {
    credited: u64,
    replayed: u64,
}

/// Reads the whole file before the first credit, so that an invalid line prevents all credits. In the
/// operator's log each call has a line. An import that was ended goes on when it is run again.
pub(super) async fn run(context: &Context, store: &Store, import: Import<'_>) -> Result<()> {
    let Import { app_id, file, create } = import;
    let sha256 = digest(file)?;
    let rows = read_rows(import)?.try_fold(0, |rows, row| row.map(|_| rows + 1))?;
    if store.find_app(app_id).await?.is_none() {
        return Err(unknown_app(app_id));
    }
    if !create {
        require_known_players(store, import).await?;
    }
    let Tally { credited, replayed } = credit_all(context, store, import, (rows, &sha256)).await?;
    context.output.print(
        &json!({ "app_id": app_id, "rows": rows, "credited": credited, "replayed": replayed }),
        format!("{app_id}: {rows} lines, {credited} credited now, {replayed} already credited before"),
    )
}

/// Credits call by call. After a refusal no new call starts.
async fn credit_all(
    context: &Context,
    store: &Store,
    import: Import<'_>,
    (rows, sha256): (u64, &str),
) -> Result<Tally> {
    let bar = progress_bar(rows, "credits");
    let mut tally = Tally::default();
    let mut rows = read_rows(import)?;
    let pieces = std::iter::from_fn(|| {
        let piece: Vec<_> = rows.by_ref().take(CREDITS_AT_ONCE).collect();
        (!piece.is_empty()).then_some(piece)
    });
    let mut calls = futures_util::stream::iter(pieces)
        .map(|piece| credit_piece(context, store, import, sha256, piece))
        .buffered(CONCURRENCY);
    while let Some(piece) = calls.try_next().await? {
        tally.credited += piece.credited;
        tally.replayed += piece.replayed;
        bar.inc(piece.credited + piece.replayed);
    }
    bar.finish_and_clear();
    Ok(tally)
}

/// Credits the lines of one call. Its error names the first line that was refused.
async fn credit_piece(
    context: &Context,
    store: &Store,
    import: Import<'_>,
    sha256: &str,
    piece: Vec<Result<(Position, Credit)>>,
) -> Result<Tally> {
    let Import { app_id, file, .. } = import;
    let (positions, credits): (Vec<_>, Vec<_>) =
        piece.into_iter().collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let facts = Map::from_iter([("file".to_owned(), json!(name))]);
    let source = CreditsSource { subject: sha256.to_owned(), facts, note: String::new() };
    let results = store.credit_many(&context.operator, app_id, source, credits).await.map_err(not_done)?;
    let mut tally = Tally::default();
    for (result, position) in results.into_iter().zip(&positions) {
        match result {
            Ok(ChangedPurses { replayed: true, .. }) => tally.replayed += 1,
            Ok(ChangedPurses { replayed: false, .. }) => tally.credited += 1,
            Err(refusal) => bail!("line {}: {}", csv_line(file, position), refused(refusal)),
        }
    }
    Ok(tally)
}

/// The SHA-256 of the file in hexadecimal.
fn digest(file: &Path) -> Result<String> {
    let (mut opened, mut digest, mut chunk) = (open(file)?, Sha256::new(), vec![0; DIGEST_CHUNK_BYTES]);
    loop {
        match opened.read(&mut chunk).map_err(|error| anyhow!("{}: {error}", file.display()))? {
            0 => return Ok(hex::encode(digest.finalize())),
            length => digest.update(&chunk[..length]),
        }
    }
}

fn open(file: &Path) -> Result<File> {
    File::open(file).map_err(|error| anyhow!("{}: {error}", file.display()))
}

/// Refuses an import with a line for a player whom the app does not know.
async fn require_known_players(store: &Store, import: Import<'_>) -> Result<()> {
    let mut rows = read_rows(import)?.peekable();
    while rows.peek().is_some() {
        let rows = rows.by_ref().take(PLAYERS_AT_ONCE).collect::<Result<Vec<_>>>()?;
        let open_ids: Vec<String> = rows.iter().map(|(_, credit)| credit.open_id.to_string()).collect();
        let Some(unknown) = store.first_unknown(import.app_id, &open_ids).await? else { continue };
        let row = rows.iter().find(|(_, credit)| credit.open_id.as_str() == unknown);
        let line = row.map_or(0, |(position, _)| csv_line(import.file, position));
        bail!("line {line}: {}", refused(unknown_player(import.app_id, unknown)));
    }
    Ok(())
}

/// The credits of the file, each with its position.
fn read_rows(import: Import<'_>) -> Result<impl Iterator<Item = Result<(Position, Credit)>>> {
    let Import { file, create, .. } = import;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(open(file)?);
    let heading = reader.headers()?;
    ensure!(*heading == HEADING[..], "{}: expected the heading {}", file.display(), HEADING.join(","));
    Ok(reader.into_records().map(move |record| {
        let record = record?;
        let position = record.position().cloned().unwrap_or_else(Position::new);
        let credit = credit_of(&record, create)
            .map_err(|problem| anyhow!("line {}: {problem}", csv_line(file, &position)))?;
        Ok((position, credit))
    }))
}

fn credit_of(record: &csv::StringRecord, create: bool) -> Result<Credit, String> {
    type ImportedRow = (String, i64, i64, String);
    let row: ImportedRow = record.deserialize(None).map_err(|error| match error.kind() {
        // Without the position, which the caller adds.
        csv::ErrorKind::Deserialize { err, .. } => err.to_string(),
        _ => error.to_string(),
    })?;
    let (open_id, free, charge, reference) = row;
    let open_id = open_id.parse::<OpenId>().map_err(|problem| format!("open_id: {problem}"))?;
    let reference = reference.parse::<CreditRef>().map_err(|problem| format!("ref: {problem}"))?;
    if free < 0 || charge < 0 {
        return Err("free and charge: expected 0 or more".to_owned());
    }
    check_credit(free, charge).map_err(|expected| format!("free and charge: {expected}, got 0 and 0"))?;
    Ok(Credit { open_id, free, charge, reference, note: String::new(), create })
}
