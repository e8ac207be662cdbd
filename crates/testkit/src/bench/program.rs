//! The program as commands that end; `servers.rs` runs it as a server.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::Fallible;
use super::stage::Stage;

/// The key of an app that lives as long as the run.
const MASTER_KEY: &str = "22222222222222222222222222222222222222222222222222222222222222ff";

/// How the program is started: on the stage's PostgreSQL, otherwise with its defaults.
pub struct Program {
    database_url: String,
    folder: PathBuf,
    settings: Vec<(String, String)>,
}

impl Program {
    pub fn on(stage: &Stage) -> Self {
        Self { database_url: stage.url(), folder: stage.folder().to_owned(), settings: Vec::new() }
    }

    /// With a variable that is set.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The program, or another that takes its settings.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        // Nothing of the developer's own settings leaks in.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MINITILL_"))
        {
            command.env_remove(name);
        }
        command
            .env("DATABASE_URL", &self.database_url)
            .env("MINITILL_DATABASE__DATA_DIR", self.folder.join("servers"))
            .env("MINITILL_SECRETS__MASTER_KEY", MASTER_KEY)
            .env("MINITILL_PUBLIC__LISTEN", "127.0.0.1:0")
            .env("MINITILL_OPS__LISTEN", "127.0.0.1:0")
            // All load comes from one address.
            .env("MINITILL_HTTP__CONNECTIONS_PER_ADDRESS_MAX", "10000")
            .envs(self.settings.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The program itself.
    pub fn minitill(&self) -> Command {
        self.command(&crate::program::path())
    }

    /// Runs a command to its end, and gives the JSON object that it prints, whatever its exit code.
    pub fn json(&self, arguments: &[&str]) -> Fallible<Value> {
        let output = self.minitill().args(arguments).arg("--json").output()?;
        serde_json::from_slice(&output.stdout).map_err(|_| {
            format!("minitill {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)).into()
        })
    }
}
