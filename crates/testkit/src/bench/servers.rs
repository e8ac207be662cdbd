//! Servers, in processes of their own, that run until they are dropped.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Fallible;
use super::program::Program;

/// How a server says where it can be reached.
pub const READY: &str = "ready: public http://";
const OPERATOR: &str = ", operator http://";
/// A server that is not ready by then never will be.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// The program promises 10 seconds.
const EXIT_WITHIN: Duration = Duration::from_secs(12);

/// A server process. Dropping it asks it to stop, and waits.
pub struct Server {
    child: Child,
    address: SocketAddr,
    operator_address: Option<SocketAddr>,
}

impl Server {
    /// Starts `minitill serve`.
    pub fn of(program: &Program) -> Fallible<Self> {
        Self::start(program.minitill().arg("serve"))
    }

    /// Starts a server that says where it can be reached, as `minitill serve` does.
    pub fn start(command: &mut Command) -> Fallible<Self> {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let log = child.stderr.take().ok_or("a server without standard error")?;
        // From here on it is stopped, whatever happens; the address is filled in below.
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self { child, address: nowhere, operator_address: None };
        let ready = ready_line(log)?;
        let address = |text: &str| text.split([',', ' ', ';']).next().unwrap_or_default().parse();
        server.address = address(&ready)?;
        server.operator_address =
            ready.split_once(OPERATOR).map(|(_, operator)| address(operator)).transpose()?;
        Ok(server)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of its operator's listener, if it has one.
    pub fn operator_address(&self) -> Option<SocketAddr> {
        self.operator_address
    }

    pub fn pid(&self) -> u32 {
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
fn ready_line(log: ChildStderr) -> Fallible<String> {
    let (found, line) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(log).lines().map_while(Result::ok) {
            if let Some((_, rest)) = line.split_once(READY) {
                let _ = found.send(rest.to_owned());
            } else if !line.contains(" INFO ") {
                eprintln!("server: {line}");
            }
        }
    });
    Ok(line.recv_timeout(READY_WITHIN).map_err(|_| "a server did not become ready")?)
}
