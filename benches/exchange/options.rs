//! Options of the benchmark of exchanges, as arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::rows::Row;

/// Wallets where nothing else is asked for.
const WALLETS: u32 = 100_000;
/// Exchanges that each wallet has behind it once the tables are filled.
const EXCHANGES_PER_WALLET: u32 = 10;

/// Exchanges a second and their latency, beside what PostgreSQL does by itself.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --bench exchange --", disable_version_flag = true)]
pub(crate) struct Options {
    /// How often each row is measured; the table shows medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How long each measurement takes
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Wallets, in ours and in the reference [default: 100000, or a tenth of --exchanges]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    wallets: Option<u32>,
    /// Afterwards fill the tables to N exchanges and measure again, to see what size costs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..=1_000_000_000))]
    exchanges: Option<u32>,
    /// Measure these rows only
    #[arg(long, value_name = "ROW,..", value_delimiter = ',')]
    rows: Vec<Row>,
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

    pub(crate) fn wallets(&self) -> u32 {
        let by_exchanges = || self.exchanges.map_or(WALLETS, |exchanges| exchanges / EXCHANGES_PER_WALLET);
        self.wallets.unwrap_or_else(by_exchanges)
    }

    /// How many exchanges each wallet is given before the second half of the run, if there is one.
    pub(crate) fn filled_per_wallet(&self) -> Option<u32> {
        self.exchanges.map(|exchanges| exchanges.div_ceil(self.wallets()))
    }

    pub(crate) fn wants(&self, row: Row) -> bool {
        self.rows.contains(&row) || (self.rows.is_empty() && !Row::LONG.contains(&row))
    }

    pub(crate) fn folder(&self) -> Option<&PathBuf> {
        self.folder.as_ref()
    }
}
