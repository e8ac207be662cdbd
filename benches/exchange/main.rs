//! `cargo bench --bench exchange`: how many exchanges a second one Minitill carries, and how long
//! each takes. It compares that with PostgreSQL alone on the same machine in the same minutes.
//!
//! It starts a durable PostgreSQL of its own (`stage`), fills it with wallets (`seed`), and runs `minitill serve`
//! beside it (`servers`). Then it measures every row in turn, round after round (`rounds`). pgbench shows what
//! PostgreSQL does by itself (`reference`). The program without a database shows what all the rest of it can carry
//! (`ceiling`). Signed exchanges come over HTTP (`requests`, `load`). At the end the money must add up (`books`).

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "results go to standard output, the progress of a run to standard error"
)]

mod books;
mod ceiling;
mod load;
mod options;
mod receiver;
mod reference;
mod report;
mod requests;
mod rounds;
mod rows;
mod seed;
mod verdicts;

use std::process::ExitCode;

use options::Options;
use rounds::{Bench, Storage};
use stage::Stage;
use testkit::bench::{Fallible, heading, interrupt, pgbench, program, sample, servers, stage, usage};

/// The allocator of the server, because the ceiling is served by this process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The private PostgreSQL is started by this very program, and so is the ceiling's server.
    private_postgres::become_postgres_if_asked();
    let outcome = if ceiling::is_asked() { ceiling::run().map(|()| true) } else { measure(&Options::read()) };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("exchange benchmark: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The whole run; `false` when the money does not add up or an answer was wrong.
fn measure(options: &Options) -> Fallible<bool> {
    interrupt::watch();
    let mut stage = Stage::open(options.folder())?;
    let heading = report::heading(options, &mut stage)?;
    let mut bench = Bench::prepare(options, stage)?;
    let results = bench.run()?;
    let closing = bench.close_books()?;
    println!("\n{heading}\n\n{}\n", report::table(&results));
    if let Some(Storage { on_disk, in_log }) = results.storage {
        println!(
            "an exchange takes {on_disk:.0} bytes on disk and {in_log:.0} bytes of log (64 in flight)\n"
        );
    }
    println!("{}\n", verdicts::text(&results));
    println!("{closing}");
    Ok(closing.is_right())
}
