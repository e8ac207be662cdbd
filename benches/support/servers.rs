//! The program in processes of its own: commands that end, and servers that run until they are
//! dropped.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::Fallible;
use crate::stage::Stage;

/// The key of an app that lives as long as the run.
const MASTER_KEY: &str = "22222222222222222222222222222222222222222222222222222222222222ff";
/// How a server says where it can be reached.
pub(crate) const READY: &str = "ready: public http://";
/// A server that is not ready by then never will be.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// The program promises 10 seconds.
const EXIT_WITHIN: Duration = Duration::from_secs(12);

/// How the program is started: on the stage's PostgreSQL, otherwise with its defaults.
pub(crate) struct Program {
    database_url: String,
    folder: PathBuf,
}

impl Program {
    pub(crate) fn on(stage: &Stage) -> Self {
        Self { database_url: stage.url(), folder: stage.folder().to_owned() }
    }

    /// The program, or another that takes its settings.
    pub(crate) fn command(&self, program: &Path) -> Command {
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
            .env("MINITILL_OPS__LISTEN", "127.0.0.1:0");
        command
    }

    fn minitill(&self) -> Command {
        self.command(Path::new(env!("CARGO_BIN_EXE_minitill")))
    }

    /// Runs a command to its end, and gives the JSON object that it prints, whatever its exit code.
    pub(crate) fn json(&self, arguments: &[&str]) -> Fallible<Value> {
        let output = self.minitill().args(arguments).arg("--json").output()?;
        serde_json::from_slice(&output.stdout).map_err(|_| {
            format!("minitill {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)).into()
        })
    }

    /// Starts `minitill serve`.
    pub(crate) fn serve(&self) -> Fallible<Server> {
        Server::start(self.minitill().arg("serve"))
    }
}

/// A server process. Dropping it asks it to stop, and waits.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts a server that says where it can be reached, as `minitill serve` does.
    pub(crate) fn start(command: &mut Command) -> Fallible<Self> {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let log = child.stderr.take().ok_or("a server without standard error")?;
        // From here on it is stopped, whatever happens; the address is filled in below.
        let mut server = Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        server.address = ready_address(log)?;
        Ok(server)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && asked.elapsed() < EXIT_WITHIN {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the server says where it is. Whatever else it says is shown, now and later.
fn ready_address(log: ChildStderr) -> Fallible<SocketAddr> {
    let (found, address) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(log).lines().map_while(Result::ok) {
            if let Some((_, rest)) = line.split_once(READY) {
                let _ = found.send(rest.split([',', ' ']).next().unwrap_or_default().to_owned());
            } else if !line.contains(" INFO ") {
                eprintln!("server: {line}");
            }
        }
    });
    let address = address.recv_timeout(READY_WITHIN).map_err(|_| "a server did not become ready")?;
    Ok(address.parse()?)
}
