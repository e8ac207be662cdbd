//! `cargo bench --bench audit`: how long `minitill audit` takes, and how much memory, on a ledger
//! of ten million entries and on what came after a checkpoint of it.
//!
//! It starts a durable PostgreSQL of its own (`stage`), fills it with rows that are what the
//! program itself would have written, in the order in which a busy service writes them (`fill`),
//! and runs the program.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "results go to standard output, the progress of a run to standard error"
)]

mod fill;
mod stage;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use comfy_table::{Table, presets};

use fill::Filler;
use stage::{Audit, Stage};

/// What can fail here ends the run, with a sentence for the person who started it.
pub(crate) type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Entries that each wallet has.
const ENTRIES_PER_WALLET: u32 = 10;
/// Of the wallets one in so many gets an entry more after the checkpoint.
const GROWN_ONE_IN: u32 = 100;

/// How long audits take, and how much memory.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --bench audit --", disable_version_flag = true)]
pub(crate) struct Options {
    /// Ledger entries, ten to a wallet
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u32).range(10..=1_000_000_000))]
    entries: u32,
    /// How often each audit is run
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Put the data under this folder [default: under `target`]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// Cargo adds this to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    // The private PostgreSQL is started by this very program.
    minitill::postgres::become_postgres_if_asked();
    match measure(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("audit benchmark: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Fallible<()> {
    let mut stage = Stage::open(options)?;
    let wallets = options.entries / ENTRIES_PER_WALLET;
    let mut filler = Filler::new(wallets);
    filler.history(&mut stage, ENTRIES_PER_WALLET)?;
    let checkpoint = stage.folder().join("checkpoint").to_string_lossy().into_owned();
    let mut audits = Vec::new();
    for _ in 0..options.rounds {
        audits.push(stage.audit("audit", &["audit"])?);
    }
    audits.push(stage.audit("audit --checkpoint", &["audit", "--checkpoint", &checkpoint])?);
    let size = std::fs::metadata(&checkpoint)?.len();
    for _ in 0..options.rounds {
        audits.push(stage.audit("audit --since, nothing new", &["audit", "--since", &checkpoint])?);
    }
    filler.more(&mut stage, wallets / GROWN_ONE_IN)?;
    for _ in 0..options.rounds {
        audits.push(stage.audit("audit --since, 1 % of wallets", &["audit", "--since", &checkpoint])?);
    }
    println!("{}", table(&audits));
    println!("checkpoint: {} MB for {wallets} wallets", size / 1_000_000);
    Ok(())
}

fn table(audits: &[Audit]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header([
        "",
        "entries",
        "seconds",
        "CPU s:\nprogram",
        "\nPostgreSQL",
        "peak MiB",
    ]);
    for audit in audits {
        table.add_row([
            audit.name.to_owned(),
            audit.entries.to_string(),
            format!("{:.1}", audit.elapsed.as_secs_f64()),
            format!("{:.1}", audit.program_seconds),
            format!("{:.1}", audit.postgres_seconds),
            audit.peak_mebibytes.to_string(),
        ]);
    }
    table
}
