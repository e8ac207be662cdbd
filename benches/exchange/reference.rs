//! What PostgreSQL does by itself, measured by pgbench on the same server: the bar to beat.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use minitill::clock::{Clock as _, SystemClock};
use minitill::postgres;

use crate::Fallible;
use crate::requests::{AMOUNT, APP_ID, CONSTANT_FIELDS, FIRST_OPEN_ID, FIRST_ORDER};
use crate::sample::Latency;
use crate::stage::Stage;

/// The tables that the scripts work on.
pub(crate) const TABLES: &str = include_str!("reference/tables.sql");
/// Order numbers of one run of pgbench: each client takes every hundredth, in step with the others,
/// so that the numbers ascend as those of our load generator do.
const ORDERS_PER_RUN: u64 = 100_000_000_000;

/// How the exchange is written in SQL.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Script {
    Classic,
    OneStatement,
}

impl Script {
    fn text(self) -> &'static str {
        match self {
            Self::Classic => include_str!("reference/classic.sql"),
            Self::OneStatement => include_str!("reference/one_statement.sql"),
        }
    }
}

/// pgbench, and what it needs to know.
pub(crate) struct Reference {
    program: PathBuf,
    socket_dir: PathBuf,
    folder: PathBuf,
    wallets: u32,
    runs: u64,
}

/// What a run of pgbench gives.
pub(crate) struct Transactions {
    pub(crate) latencies: Vec<Latency>,
    pub(crate) rate: f64,
}

impl Reference {
    pub(crate) fn on(stage: &mut Stage, wallets: u32) -> Fallible<Self> {
        let program = stage.program("pgbench")?;
        if !program.exists() {
            return Err(format!("{} is missing: it comes with PostgreSQL's server", program.display()).into());
        }
        let (socket_dir, folder) = (stage.socket_dir().to_owned(), stage.folder().join("pgbench"));
        fs::create_dir(&folder)?;
        Ok(Self { program, socket_dir, folder, wallets, runs: 0 })
    }

    pub(crate) fn run(&mut self, script: Script, clients: u32, lasting: Duration) -> Fallible<Transactions> {
        let path = self.folder.join("script.sql");
        fs::write(&path, script.text())?;
        let mut command = Command::new(&self.program);
        command.args(["--no-vacuum", "--protocol=prepared", "--log"]).current_dir(&self.folder);
        command.arg(format!("--client={clients}")).arg(format!("--jobs={}", clients.min(2)));
        command.arg(format!("--time={}", lasting.as_secs())).arg("--file").arg(&path);
        command.arg("--host").arg(&self.socket_dir).args(["--username", postgres::USER]);
        for (name, value) in self.variables() {
            command.arg(format!("--define={name}={value}"));
        }
        // Not the person's own settings, which may lead elsewhere; and English words.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
            command.env_remove(name);
        }
        let output = command.arg("postgres").env("LC_ALL", "C").output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let latencies = self.take_latencies()?;
        match rate(&said) {
            Some(rate) if output.status.success() => Ok(Transactions { latencies, rate }),
            _ => Err(format!("pgbench: {}{said}", String::from_utf8_lossy(&output.stderr)).into()),
        }
    }

    fn variables(&mut self) -> Vec<(&'static str, String)> {
        let first_order = FIRST_ORDER + self.runs * ORDERS_PER_RUN;
        self.runs += 1;
        let mut variables = vec![
            ("n", "0".to_owned()),
            ("first_order", first_order.to_string()),
            ("first_open_id", FIRST_OPEN_ID.to_string()),
            ("wallets", self.wallets.to_string()),
            ("app_id", APP_ID.to_owned()),
            ("amount", AMOUNT.to_string()),
            ("ts", SystemClock::new().unix_millis().to_string()),
        ];
        variables.extend(CONSTANT_FIELDS.map(|(name, value)| (name, value.to_owned())));
        variables
    }

    /// Reads pgbench's logs, a line a transaction, and removes them.
    fn take_latencies(&self) -> Fallible<Vec<Latency>> {
        let mut latencies = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pgbench_log")) {
                let text = fs::read_to_string(&path)?;
                latencies.extend(text.lines().filter_map(latency));
                fs::remove_file(path)?;
            }
        }
        Ok(latencies)
    }
}

/// The third word of a line is how long the transaction took, in microseconds.
fn latency(line: &str) -> Option<Latency> {
    line.split(' ').nth(2)?.parse().ok().map(Duration::from_micros).map(Latency::of)
}

fn rate(said: &str) -> Option<f64> {
    said.lines().find_map(|line| line.strip_prefix("tps = "))?.split(' ').next()?.parse().ok()
}
