//! Options of the benchmark of pictures, as arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

/// Uploads a second, their latency and their memory, beside a bare INSERT and the judgement alone.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --bench images --", disable_version_flag = true)]
pub(crate) struct Options {
    /// How often each row is measured; the table shows medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How long each measurement takes
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Put the data under this folder, on the disk to be measured [default: under `target`]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Cargo adds this to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    pub(crate) fn read() -> Self {
        Self::parse()
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }

    pub(crate) fn seconds(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    pub(crate) fn folder(&self) -> Option<&PathBuf> {
        self.folder.as_ref()
    }

    /// How it was measured, in words.
    pub(crate) fn measured(&self) -> String {
        format!("JPEG pictures, all different; rounds: {}, {} s a row; medians", self.rounds, self.seconds)
    }
}
