//! `minitill wallet import` makes many credits from a CSV file (contract 8.3.5, 8.3.6 and 8.3.13).

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use domain::ids::AppId;
use domain::operation::wallet::{ChangedPurses, Credit, CreditsForAll, credit_amount, ref_prefix};
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use serde_json::{Map, json};
use sha2::{Digest as _, Sha256};
use store::{
    CREDITS_AT_ONCE, CreditForecast, CreditList, CreditOfList, CreditsSource, ForeseenCredit, Store, csv_line,
};

use super::super::output::{complain, progress_bar};
use super::super::report::number;
use super::super::{Context, not_done, refused, unknown_app};
use super::UnknownPlayers;

/// Calls in work at the same time.
const CONCURRENCY: usize = 2;
/// Size of the reads for the digest of the file.
const DIGEST_CHUNK_BYTES: usize = 64 * 1024;

#[derive(Debug, Args)]
pub(in super::super) struct ImportArguments {
    /// App of the wallets
    app_id: AppId,
    /// CSV file whose first line names its columns: `open_id,free,charge,ref`
    file: PathBuf,
    /// Gifted currency for each player, in place of the column `free`
    #[arg(long, value_name = "N", value_parser = credit_amount)]
    free: Option<i64>,
    /// Charged currency for each player, in place of the column `charge`
    #[arg(long, value_name = "N", value_parser = credit_amount)]
    charge: Option<i64>,
    /// In place of the column `ref`: each ref is this, a hyphen and the `open_id`, so each player is credited once
    #[arg(long, value_name = "PREFIX", value_parser = ref_prefix)]
    ref_prefix: Option<String>,
    /// Note for people, for example the reason
    #[arg(long, default_value = "", hide_default_value = true)]
    note: String,
    /// Show the result of each line, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    unknown: UnknownPlayers,
}

/// The outcome of the lines of a file, now or in advance.
#[derive(Default)]
struct Tally {
    rows: u64,
    credited: u64,
    replayed: u64,
    refused: u64,
    /// Coins of the credited lines: gifted, charged.
    coins: [i128; 2],
    /// The lines that were refused, in their order.
    lines: Vec<RefusedLine>,
}

#[derive(Serialize)]
struct RefusedLine {
    line: u64,
    error: String,
}

impl Tally {
    fn refuse(&mut self, line: u64, error: String) {
        self.refused += 1;
        self.lines.push(RefusedLine { line, error });
    }

    fn credit(&mut self, credit: &Credit) {
        self.credited += 1;
        self.coins[0] += i128::from(credit.free);
        self.coins[1] += i128::from(credit.charge);
    }

    fn add(&mut self, piece: Self) {
        self.credited += piece.credited;
        self.coins = [self.coins[0] + piece.coins[0], self.coins[1] + piece.coins[1]];
        self.replayed += piece.replayed;
        self.refused += piece.refused;
        self.lines.extend(piece.lines);
    }
}

impl ImportArguments {
    fn for_all(&self) -> CreditsForAll {
        CreditsForAll {
            free: self.free,
            charge: self.charge,
            ref_prefix: self.ref_prefix.clone(),
            note: self.note.clone(),
            create: self.unknown.create,
        }
    }

    fn list<'a>(&self, for_all: &'a CreditsForAll) -> Result<CreditList<'a, File>> {
        let named = |problem: String| anyhow!("{}: {problem}", self.file.display());
        let opened = File::open(&self.file).map_err(|error| named(error.to_string()))?;
        let options = ["--free", "--charge", "--ref-prefix"];
        CreditList::open(opened, for_all, true).map_err(|fault| named(fault.text(options).english()))
    }

    /// The number of a line, as editors count.
    fn number(&self, line: &CreditOfList) -> u64 {
        File::open(&self.file).map_or(line.position.line(), |file| csv_line(file, &line.position))
    }
}

/// Looks at each line before the first credit. A line that cannot be credited then prevents all credits. In the operator's
/// log each call has a line. An import that was ended goes on when it is run again.
pub(super) async fn run(context: &Context, store: &Store, import: &ImportArguments) -> Result<ExitCode> {
    let sha256 = digest(&import.file)?;
    if store.find_app(&import.app_id).await?.is_none() {
        return Err(unknown_app(&import.app_id));
    }
    let (foreseen, wrong) = foresee(store, import).await?;
    if wrong > 0 || (foreseen.refused > 0 && !import.dry_run) {
        return Err(not_begun(context, &foreseen));
    }
    if import.dry_run {
        return show(
            context,
            import,
            &foreseen,
            ["would be credited", "are credited already or repeat another line"],
        );
    }
    let done = credit_all(context, store, import, (foreseen.rows, &sha256)).await?;
    show(context, import, &done, ["credited now", "credited before or repeating another line"])
}

/// Tells what became of the lines, or would.
fn show(context: &Context, import: &ImportArguments, tally: &Tally, words: [&str; 2]) -> Result<ExitCode> {
    let Tally { rows, credited, replayed, refused, coins: [free, charge], lines } = tally;
    if !context.output.is_json {
        complain_of(lines);
    }
    let app_id = &import.app_id;
    let text = format!(
        "{app_id}: {rows} lines, {credited} {} ({free} gifted and {charge} charged coins), {replayed} {}, \
         {refused} refused",
        words[0], words[1]
    );
    let mut object = json!({
        "app_id": app_id, "rows": rows, "credited": credited, "replayed": replayed, "refused": refused,
        "free": number(*free), "charge": number(*charge),
    });
    if *refused > 0 {
        object["lines"] = json!(lines);
    }
    context.output.print(&object, text)?;
    Ok(if *refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn complain_of(lines: &[RefusedLine]) {
    for RefusedLine { line, error } in lines {
        complain(&format!("line {line}: {error}"));
    }
}

/// Some lines cannot be credited, so none was.
fn not_begun(context: &Context, found: &Tally) -> anyhow::Error {
    let Tally { rows, refused, lines, .. } = found;
    let words = format!("nothing was credited: {refused} of {rows} lines cannot be");
    if context.output.is_json {
        let each = lines.iter().map(|RefusedLine { line, error }| format!("\nline {line}: {error}"));
        return anyhow!("{words}{}", each.collect::<String>());
    }
    complain_of(lines);
    anyhow!(words)
}

/// What would become of each line now, and how many lines are wrong whatever the ledger says.
async fn foresee(store: &Store, import: &ImportArguments) -> Result<(Tally, u64)> {
    let (mut tally, mut wrong, mut forecast) = (Tally::default(), 0, CreditForecast::default());
    let for_all = import.for_all();
    for piece in pieces(import.list(&for_all)?) {
        let piece = piece?;
        tally.rows += piece.len() as u64;
        let credits: Vec<Credit> =
            piece.iter().filter_map(|line| line.credit.as_ref().ok().cloned()).collect();
        let foreseen = store.foresee_credits(&import.app_id, &mut forecast, &credits).await;
        let mut foreseen = foreseen.map_err(not_done)?.into_iter();
        for line in &piece {
            let credit = match &line.credit {
                Ok(credit) => credit,
                Err(problem) => {
                    wrong += 1;
                    tally.refuse(import.number(line), problem.english());
                    continue;
                }
            };
            match foreseen.next() {
                Some(ForeseenCredit::Credited) => tally.credit(credit),
                Some(ForeseenCredit::Replayed) => tally.replayed += 1,
                Some(ForeseenCredit::Refused(why)) => {
                    tally.refuse(import.number(line), refused(why).to_string());
                }
                None => bail!("there is no result for line {}", import.number(line)),
            }
        }
    }
    Ok((tally, wrong))
}

/// The lines of each call.
fn pieces(mut list: CreditList<'_, File>) -> impl Iterator<Item = Result<Vec<CreditOfList>>> {
    std::iter::from_fn(move || {
        let piece: Result<Vec<_>, _> = list.by_ref().take(CREDITS_AT_ONCE).collect();
        piece.map_err(anyhow::Error::from).map(|piece| (!piece.is_empty()).then_some(piece)).transpose()
    })
}

/// Credits call by call. A line that is refused leaves the others alone.
async fn credit_all(
    context: &Context,
    store: &Store,
    import: &ImportArguments,
    (rows, sha256): (u64, &str),
) -> Result<Tally> {
    let bar = progress_bar(rows, "credits");
    let mut tally = Tally { rows, ..Tally::default() };
    let for_all = import.for_all();
    let mut calls = futures_util::stream::iter(pieces(import.list(&for_all)?))
        .map(|piece| credit_piece(context, store, import, sha256, piece))
        .buffered(CONCURRENCY);
    while let Some(piece) = calls.try_next().await? {
        tally.add(piece);
        bar.set_position(tally.credited + tally.replayed + tally.refused);
    }
    bar.finish_and_clear();
    Ok(tally)
}

/// Credits the lines of one call.
async fn credit_piece(
    context: &Context,
    store: &Store,
    import: &ImportArguments,
    sha256: &str,
    piece: Result<Vec<CreditOfList>>,
) -> Result<Tally> {
    let piece = piece?;
    let credit = |line: &CreditOfList| match &line.credit {
        Ok(credit) => Ok(credit.clone()),
        Err(problem) => {
            Err(anyhow!("the file has changed; line {}: {}", import.number(line), problem.english()))
        }
    };
    let credits = piece.iter().map(credit).collect::<Result<Vec<_>>>()?;
    let name = import.file.file_name().unwrap_or_default().to_string_lossy();
    let facts = Map::from_iter([("file".to_owned(), json!(name))]);
    let source = CreditsSource { subject: sha256.to_owned(), facts, note: import.note.clone() };
    let results = store.credit_many(&context.operator, &import.app_id, source, credits).await;
    let mut tally = Tally::default();
    for (result, line) in results.map_err(not_done)?.into_iter().zip(&piece) {
        match result {
            Ok(ChangedPurses { replayed: true, .. }) => tally.replayed += 1,
            Ok(ChangedPurses { replayed: false, .. }) => {
                if let Ok(credit) = &line.credit {
                    tally.credit(credit);
                }
            }
            Err(refusal) => tally.refuse(import.number(line), refused(refusal).to_string()),
        }
    }
    Ok(tally)
}

/// The SHA-256 of the file in hexadecimal.
fn digest(file: &Path) -> Result<String> {
    let named = |error: io::Error| anyhow!("{}: {error}", file.display());
    let mut opened = File::open(file).map_err(named)?;
    let (mut digest, mut chunk) = (Sha256::new(), vec![0; DIGEST_CHUNK_BYTES]);
    loop {
        match opened.read(&mut chunk).map_err(named)? {
            0 => return Ok(hex::encode(digest.finalize())),
            length => digest.update(&chunk[..length]),
        }
    }
}
