//! pgbench on the benchmark's PostgreSQL: what the database does by itself.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::Fallible;
use super::sample::Latency;
use super::stage::{self, Stage};

/// The program, and where it works.
pub struct Pgbench {
    program: PathBuf,
    socket_dir: PathBuf,
    folder: PathBuf,
}

/// The result of a run.
pub struct Transactions {
    pub latencies: Vec<Latency>,
    pub rate: f64,
}

impl Pgbench {
    pub fn on(stage: &mut Stage) -> Fallible<Self> {
        let program = stage.program("pgbench")?;
        if !program.exists() {
            return Err(format!("{} is missing: it comes with PostgreSQL's server", program.display()).into());
        }
        let (socket_dir, folder) = (stage.socket_dir().to_owned(), stage.folder().join("pgbench"));
        fs::create_dir(&folder)?;
        Ok(Self { program, socket_dir, folder })
    }

    /// Repeats a script of prepared statements with so many clients.
    pub fn run(
        &self,
        script: &str,
        clients: u32,
        lasting: Duration,
        variables: &[(&str, String)],
    ) -> Fallible<Transactions> {
        let path = self.folder.join("script.sql");
        fs::write(&path, script)?;
        let mut command = Command::new(&self.program);
        command.args(["--no-vacuum", "--protocol=prepared", "--log"]).current_dir(&self.folder);
        command.arg(format!("--client={clients}")).arg(format!("--jobs={}", clients.min(2)));
        command.arg(format!("--time={}", lasting.as_secs())).arg("--file").arg(&path);
        command.arg("--host").arg(&self.socket_dir).args(["--username", stage::USER]);
        for (name, value) in variables {
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
