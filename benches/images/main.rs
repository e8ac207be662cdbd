//! `cargo bench --bench images`: how many pictures a second one Minitill takes in, how long each takes and how much
//! memory. Beside it stands what PostgreSQL needs to insert the same bytes, and what it costs to judge the picture
//! alone.
//!
//! It starts a durable PostgreSQL of its own (`stage`) and `minitill serve` beside it (`servers`), and measures every
//! row in turn, round after round (`rounds`). The rows are uploads over HTTP (`load`) of pictures that are all
//! different (`picture`), pgbench, and the judgement by itself. At the end every acknowledged picture must be there,
//! and of each row one is fetched and compared.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "results go to standard output, the progress of a run to standard error"
)]

mod load;
mod options;
mod picture;
mod report;
mod rounds;

use std::process::ExitCode;

use options::Options;
use rounds::Bench;
use stage::Stage;
use testkit::bench::{Fallible, heading, interrupt, pgbench, program, sample, servers, stage, usage};

fn main() -> ExitCode {
    // The private PostgreSQL is started by this very program.
    private_postgres::become_postgres_if_asked();
    match measure(&Options::read()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("images benchmark: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The whole run; `false` when a picture is missing or wrong.
fn measure(options: &Options) -> Fallible<bool> {
    interrupt::watch();
    let mut stage = Stage::open(options.folder())?;
    let heading = heading::text("images", &mut stage, &options.measured())?;
    let mut bench = Bench::prepare(options, stage)?;
    let results = bench.run()?;
    let closing = bench.close()?;
    println!("\n{heading}\n\n{}\n\n{closing}", report::table(&results));
    Ok(closing.is_right())
}
