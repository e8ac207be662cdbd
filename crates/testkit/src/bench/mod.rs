//! Support code of benchmarks: a durable PostgreSQL, servers, samples and their statistics.

#![expect(clippy::print_stderr, reason = "the progress of a run goes to standard error")]

pub mod heading;
pub mod interrupt;
pub mod log_lines;
pub mod pgbench;
pub mod program;
pub mod sample;
pub mod servers;
pub mod stage;
pub mod usage;

/// What can fail here ends the run, with a sentence for the person who started it.
pub type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
