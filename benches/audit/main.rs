//! `cargo bench --bench audit`: how long `minitill audit` takes, and how much memory, on a ledger
//! of ten million entries and on what came after a checkpoint of it.
//!
//! It starts a durable PostgreSQL of its own (`stage`), fills it with rows (`fill`), and runs the program (`runs`). The
//! rows are what the program itself would have written, in the order in which a busy service writes them.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "results go to standard output, the progress of a run to standard error"
)]

mod fill;
mod runs;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use comfy_table::{Table, presets};
use fill::Filler;
use heading::grouped;
use program::Program;
use runs::{Audit, run};
use stage::Stage;
use testkit::bench::{Fallible, heading, interrupt, program, stage, usage};

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
    private_postgres::become_postgres_if_asked();
    match measure(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("audit benchmark: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Fallible<()> {
    interrupt::watch();
    let mut stage = Stage::open(options.folder.as_ref())?;
    let program = Program::on(&stage);
    program.json(&["migrate"])?;
    let postmaster = stage.postmaster()?;
    let wallets = options.entries / ENTRIES_PER_WALLET;
    let mut filler = Filler::new(wallets);
    filler.history(stage.session(), ENTRIES_PER_WALLET)?;
    let checkpoint = stage.folder().join("checkpoint").to_string_lossy().into_owned();
    let since = ["audit", "--since", &checkpoint];
    let mut audits = Vec::new();
    for _ in 0..options.rounds {
        audits.push(run(&program, postmaster, "audit", &["audit"])?);
    }
    let with_checkpoint = ["audit", "--checkpoint", &checkpoint];
    audits.push(run(&program, postmaster, "audit --checkpoint", &with_checkpoint)?);
    let size = std::fs::metadata(&checkpoint)?.len();
    for _ in 0..options.rounds {
        audits.push(run(&program, postmaster, "audit --since, nothing new", &since)?);
    }
    filler.more(stage.session(), wallets / GROWN_ONE_IN)?;
    for _ in 0..options.rounds {
        audits.push(run(&program, postmaster, "audit --since, 1 % of wallets", &since)?);
    }
    let measured = format!(
        "{} ledger entries in {}",
        grouped(&options.entries.to_string()),
        grouped(&wallets.to_string())
    );
    println!("{}", heading::text("audit", &mut stage, &format!("{measured} wallets"))?);
    println!("{}", table(&audits));
    println!("checkpoint: {} MB for {} wallets", size / 1_000_000, grouped(&wallets.to_string()));
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
            grouped(&audit.entries.to_string()),
            format!("{:.1}", audit.elapsed.as_secs_f64()),
            format!("{:.1}", audit.used.load.as_secs_f64()),
            format!("{:.1}", audit.used.postgres.as_secs_f64()),
            format!("{:.0}", audit.peak_mib),
        ]);
    }
    table
}
