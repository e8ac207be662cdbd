//! Proofs that money is never lost nor taken twice: real server processes on a durable PostgreSQL, while something
//! breaks. No part of `cargo test`:
//!
//! ```sh
//! cargo test --test proofs                         # all, in full
//! MINITILL_PROOFS=short cargo test --test proofs   # all, in some minutes
//! cargo test --test proofs -- killed hang_up       # those with one of these in their names
//! ```
//!
//! One runs at a time, but for the soak: its half an hour leaves the machine room, and passes beside the others. Those
//! that compare times run alone, after it. Each has callers that write to a journal what they are about to ask, and
//! afterwards what they were told. They ask for a number again until they know. At the end the journal is held against
//! the tables (`support/books.rs`). Each prints a line of figures, which is also appended to `target/proofs.md`.

#![expect(
    clippy::disallowed_methods,
    reason = "proofs look at the tables with plain SQL, and tell servers the machine's time"
)]
#![expect(clippy::unwrap_used, reason = "a proof that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "what a proof found is its output")]

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use support::figures::Figures;
pub(crate) use testkit as service;

mod support;

mod callbacks;
mod calls;
mod clocks;
mod crowds;
mod digests;
mod disk_full;
mod hang_ups;
mod hot_wallet;
mod lost_replies;
mod one_number;
mod planted_secrets;
mod postgres_killed;
mod private;
mod readers;
mod restored;
mod rolling_restart;
mod servers_killed;
mod slow_connections;
mod slow_database;
mod soak;
mod tenants;

/// A proof: its name, and what runs it.
type Proof = (&'static str, fn() -> Pin<Box<dyn Future<Output = Figures> + Send>>);

/// Those that run one after the other, while [`SOAK`] runs.
const PROOFS: &[Proof] = &[
    ("01_servers_killed", || Box::pin(servers_killed::prove())),
    ("02_postgres_killed", || Box::pin(postgres_killed::prove())),
    ("03_hang_ups", || Box::pin(hang_ups::prove())),
    ("04_lost_replies", || Box::pin(lost_replies::prove())),
    ("05_one_number", || Box::pin(one_number::prove())),
    ("06_hot_wallet", || Box::pin(hot_wallet::prove())),
    ("08_disk_full", || Box::pin(disk_full::prove())),
    ("09_clocks", || Box::pin(clocks::prove())),
    ("11_rolling_restart", || Box::pin(rolling_restart::prove())),
    ("12_tenants", || Box::pin(tenants::prove())),
    ("13_planted_secrets", || Box::pin(planted_secrets::prove())),
    ("14_restored", || Box::pin(restored::prove())),
    ("18_callbacks", || Box::pin(callbacks::prove())),
];

/// Takes long and asks little of the machine.
const SOAK: Proof = ("15_soak", || Box::pin(soak::prove()));

/// Those that judge how long answers take: nothing runs beside them.
const ALONE: &[Proof] = &[
    ("07_slow_database", || Box::pin(slow_database::prove())),
    ("10_slow_connections", || Box::pin(slow_connections::prove())),
    ("16_crowds", || Box::pin(crowds::prove())),
    ("17_readers", || Box::pin(readers::prove())),
];

/// A proof that takes longer hangs.
const TIME_MAX: Duration = Duration::from_mins(45);

fn main() -> ExitCode {
    http_server::raise_open_files_limit().unwrap();
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    let run_all = |proofs: &[Proof]| -> Vec<&'static str> {
        let wanted = proofs.iter().filter(|(name, _)| is_wanted(name));
        wanted.filter(|(name, prove)| !run(name, prove())).map(|(name, _)| *name).collect()
    };
    let mut failed = std::thread::scope(|scope| {
        let soak = scope.spawn(|| run_all(&[SOAK]));
        let mut failed = run_all(PROOFS);
        failed.extend(soak.join().expect("what panics in a proof is caught"));
        failed
    });
    failed.extend(run_all(ALONE));
    if failed.is_empty() {
        println!("every proof holds");
        ExitCode::SUCCESS
    } else {
        println!("FAILED: {}", failed.join(", "));
        ExitCode::FAILURE
    }
}

/// Runs a proof in a runtime of its own, so that it leaves nothing behind. Whether it holds.
fn run(name: &str, proof: Pin<Box<dyn Future<Output = Figures> + Send>>) -> bool {
    println!("proof {name} ...");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let started = Instant::now();
    let ended = runtime.block_on(async { tokio::spawn(tokio::time::timeout(TIME_MAX, proof)).await });
    runtime.shutdown_timeout(Duration::from_secs(10));
    let took = started.elapsed();
    match ended {
        Ok(Ok(figures)) => figures.report(name, took),
        Ok(Err(_)) => {
            println!("proof {name} FAILED: not done after {took:?}");
            false
        }
        // The panic has said why.
        Err(_) => {
            println!("proof {name} FAILED after {:.1} s", took.as_secs_f64());
            false
        }
    }
}
