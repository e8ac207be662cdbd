//! The real program: commands that end, and servers that run until a test ends them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::http::Request;
use super::{MASTER_KEY, PATIENCE};

/// How the program is started: on a database of the run's, with the tests' master key.
#[derive(Debug, Clone)]
pub struct Program {
    variables: Vec<(String, String)>,
}

/// A server process. It is killed when the test ends.
pub struct ServerProcess {
    child: Child,
    pub address: SocketAddr,
    pub operator_address: SocketAddr,
}

impl Program {
    /// With the settings that are compiled in.
    pub fn with_defaults(database_url: &str) -> Self {
        let program = Self { variables: Vec::new() };
        program.with("DATABASE_URL", database_url).with("MINITILL_SECRETS__MASTER_KEY", MASTER_KEY)
    }

    pub fn on(database_url: &str) -> Self {
        Self::with_defaults(database_url)
            .with("MINITILL_DATABASE__CONNECTIONS", "4")
            // A machine that is busy with other tests is no reason to answer 503.
            .with("MINITILL_DATABASE__ACQUIRE_TIMEOUT", "1m")
            .with("MINITILL_DATABASE__STATEMENT_TIMEOUT", "1m")
            .with("MINITILL_EXCHANGE__DEADLINE", "1m")
            .with("MINITILL_IMAGE__STORE_TIMEOUT", "1m")
            .with("MINITILL_FETCH__CONNECT_TIMEOUT", "1m")
            .with("MINITILL_FETCH__TIMEOUT", "1m")
            // All clients of a test have one address.
            .with("MINITILL_HTTP__CONNECTIONS_PER_ADDRESS_MAX", "10000")
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(path());
        command.args(arguments).stdin(Stdio::null());
        // Nothing of the developer's own settings leaks in.
        for (name, _) in
            std::env::vars().filter(|(name, _)| name.starts_with("MINITILL_") || name == "DATABASE_URL")
        {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().cloned());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program starts")
    }

    /// Runs a command that must succeed, and gives the JSON object it prints.
    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    }

    /// Runs a command that must fail with exit code 1, and gives what it complains.
    #[track_caller]
    pub fn complaint(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stdout)
        );
        assert!(output.stdout.is_empty(), "errors go to standard error");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Starts a server on ports of its own and waits until it is ready.
    pub async fn serve(&self, log: Option<PathBuf>) -> ServerProcess {
        let (address, operator_address) = (free_address(), free_address());
        let program = self
            .clone()
            .with("MINITILL_PUBLIC__LISTEN", &address.to_string())
            .with("MINITILL_OPS__LISTEN", &operator_address.to_string());
        let log = log.map_or_else(Stdio::null, |path| std::fs::File::create(path).unwrap().into());
        let child = program
            .command(&["serve"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the program starts");
        let mut server = ServerProcess { child, address, operator_address };
        let started = Instant::now();
        while !server.is_ready().await {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none() && started.elapsed() < PATIENCE, "not ready: {ended:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server
    }
}

impl ServerProcess {
    async fn is_ready(&self) -> bool {
        if tokio::net::TcpStream::connect(self.operator_address).await.is_err() {
            return false;
        }
        Request::get("/readyz").send(self.operator_address).await.status == 200
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`: nothing is said, nothing is finished.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and how long the program took to exit with success.
    pub fn terminate(mut self) -> Duration {
        let started = Instant::now();
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        started.elapsed()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address that nobody listens on just now.
pub fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// The program that was built with the test, proof or benchmark that runs.
pub fn path() -> PathBuf {
    // Cargo tells it; else it lies in the folder above the one of this test.
    std::env::var_os("CARGO_BIN_EXE_minitill").map_or_else(
        || {
            let test = std::env::current_exe().expect("a process has a program");
            test.ancestors().nth(2).expect("Cargo's folder for tests").join("minitill")
        },
        PathBuf::from,
    )
}
