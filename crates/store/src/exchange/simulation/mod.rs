//! A deterministic simulation of the writers: the code of `writer`, `session` and `batch` as it is,
//! on a simulated PostgreSQL, with random clients, interleavings, crashes and lost replies. What
//! each run does follows from its seed alone. docs/design/simulation.md tells what it
//! covers and what it takes for granted; the long form is run by
//!
//! ```sh
//! MINITILL_SIMULATION_STEPS=30000000 cargo test --release --lib simulation -- --ignored --nocapture
//! ```
//!
//! and a failure is replayed, with every step printed, by
//!
//! ```sh
//! MINITILL_SIMULATION_SEED=12345 cargo test --lib simulation -- --ignored --nocapture
//! ```
//!
//! It was seen to fail, within some seeds, with each of these breaks of the code: an answer before
//! COMMIT is answered; a lost session answered as a refusal; the last repetition answered as a
//! success; a replay inside a batch told the balances of now; records read before the locks; a failed
//! write behind whose COMMIT success is told, with and without locking first; no rollback after a
//! failed lock; a held wallet taken for an unknown one; a batch with one fault refused as a whole.
//! The tests below break rules of the database itself.

mod clients;
mod content;
mod counts;
mod episode;
mod faults;
mod link;
mod oracle;
mod random;
mod rows;
mod settings;
mod statements;
mod waits;
mod world;
mod write;

use counts::{Counts, Kind};
use episode::{Episode, Report};
use settings::Sabotage;

/// Steps of a run before its faults stop. Part of what a seed means.
const STEPS: u64 = 3_000;

/// Steps of the long form where nothing else is asked for.
const LONG_STEPS: u64 = 30_000_000;

/// Seeds that have once found something: a refusal for an empty purse in a batch, while its number was
/// used for another wallet.
const REGRESSIONS: [u64; 1] = [114_439_403_602_699];

/// Names the seed of a run that panics.
struct Running(u64);

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the simulation panicked with seed {}", self.0);
        }
    }
}

/// Runs seeds one after another until so many steps are done.
fn run(seeds: impl Iterator<Item = u64>, sabotage: Sabotage, steps: u64) -> Result<Report, String> {
    let mut sum = Report { steps: 0, counts: Counts::new() };
    for seed in seeds {
        let _running = Running(seed);
        let report = Episode::run(seed, sabotage, STEPS, false)?;
        sum.steps += report.steps;
        sum.counts.add_all(&report.counts);
        if sum.steps >= steps {
            break;
        }
    }
    Ok(sum)
}

/// Contract 3: exactly once, durable, the same answer for ever, whatever happens at whatever moment.
#[test]
fn whatever_happens_the_books_and_the_answers_are_those_of_one_at_a_time() {
    run(REGRESSIONS.into_iter(), Sabotage::None, u64::MAX).unwrap();
    let report = run(1.., Sabotage::None, 300_000).unwrap();
    assert_eq!(report.counts.missing(), Vec::<&str>::new(), "these are not covered any more");
}

/// What the database or a statement of ours must hold, the simulation notices when it does not.
#[test]
fn a_rule_of_the_database_that_is_broken_is_noticed() {
    let broken = [
        (Sabotage::NeitherGuardNorEntryKey, "the ledger has"),
        (Sabotage::SilentRecords, "records with"),
        (Sabotage::KeysDoNotWait, "a number deducted twice"),
        (Sabotage::StaleRecords, "InsufficientBalance"),
        (Sabotage::CurrentBalances, "Replayed"),
        (Sabotage::PartialWrite, ""),
        (Sabotage::LostCommits, ""),
    ];
    for (sabotage, expected) in broken {
        let noticed = run(1..=40, sabotage, u64::MAX).err();
        assert!(noticed.as_ref().is_some_and(|text| text.contains(expected)), "{sabotage:?}: {noticed:?}");
    }
}

/// The wallet's guard and the key of the ledger each stand in for the other.
#[test]
fn the_guard_and_the_key_of_an_entry_are_each_enough() {
    for sabotage in [Sabotage::NoGuard, Sabotage::NoEntryKey] {
        run(1..=15, sabotage, u64::MAX).unwrap();
    }
}

#[test]
fn locks_in_any_order_end_in_repetition_not_in_a_standstill() {
    let report = run(1..=15, Sabotage::AnyLockOrder, u64::MAX).unwrap();
    assert!(report.counts.of(Kind::Deadlock) > 0 && report.counts.of(Kind::LockTimeout) > 0);
}

#[test]
fn a_seed_tells_everything() {
    for seed in 1..4 {
        let once = Episode::run(seed, Sabotage::None, STEPS, false).unwrap();
        let again = Episode::run(seed, Sabotage::None, STEPS, false).unwrap();
        assert_eq!((once.steps, once.counts), (again.steps, again.counts), "seed {seed}");
    }
}

/// The long form, or one seed with all its steps.
#[test]
#[ignore = "takes minutes; how it is run stands at the head of the file"]
fn the_long_simulation() {
    let given = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    if let Some(seed) = given("MINITILL_SIMULATION_SEED") {
        let report = Episode::run(seed, Sabotage::None, STEPS, true).unwrap();
        println!("seed {seed} held for {} steps\n{}", report.steps, report.counts);
        return;
    }
    let steps = given("MINITILL_SIMULATION_STEPS").unwrap_or(LONG_STEPS);
    // Another place to start each time.
    let first = u64::from(std::process::id()) << 32;
    println!("seeds from {first}");
    let report = run(first.., Sabotage::None, steps).unwrap();
    println!("{} steps in runs of {STEPS} and the time to settle\n{}", report.steps, report.counts);
    assert_eq!(report.counts.missing(), Vec::<&str>::new());
}
