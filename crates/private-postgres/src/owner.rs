//! Ownership of the data folder by one program at a time, by a file lock.
//!
//! The kernel releases the lock however its holder ends. The file `owner` beside it names the
//! holder to other programs. It may be older than the lock, so nothing relies on it alone.

use std::fs::{self, File, TryLockError};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::{ClusterError, IoContext};
use crate::files::{append_file, remove_file, write_file};
use crate::folder::{LOCK, PGDATA};
use crate::options::ProcessRole;
use crate::pid_file::{PidFile, is_alive};
use crate::socket_dir::SOCKET;

const OWNER: &str = "owner";
/// The next `owner` until it is complete.
const OWNER_NEW: &str = "owner.new";

/// How often a waiting program checks again.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// How long `owner` must name the same server before it counts. A new holder of the lock needs a
/// moment to remove the former text.
const BELIEVE_AFTER: Duration = Duration::from_millis(300);

/// How long a program waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For other owners to end.
    pub(super) turn: Duration,
    /// For the PostgreSQL of a running server to accept connections.
    pub(super) accepting: Duration,
}

impl Patience {
    pub(super) fn of(role: ProcessRole) -> Self {
        let turn = match role {
            // A server waits for commands only, and its operator waits for it.
            ProcessRole::Server => Duration::from_mins(1),
            // A command such as an import may take minutes.
            ProcessRole::Command => Duration::from_mins(10),
        };
        Self { turn, accepting: Duration::from_secs(30) }
    }
}

/// The result of waiting for the data folder.
#[derive(Debug)]
pub(super) enum Turn {
    /// This program owns the folder.
    Owned(Ownership),
    /// A server owns it, and its PostgreSQL has its socket in this folder.
    Attached { socket_dir: PathBuf, server: u32 },
}

/// The lock, held until this is dropped.
#[derive(Debug)]
pub(super) struct Ownership {
    folder: PathBuf,
    role: ProcessRole,
    _lock: File,
}

impl Ownership {
    /// Writes `owner`, with the process id of this owner's PostgreSQL once that runs. That tells it
    /// from the PostgreSQL of a former owner.
    pub(super) fn publish(&self, postmaster: Option<u32>) -> Result<(), ClusterError> {
        let record = OwnerRecord { role: self.role, pid: std::process::id(), postmaster };
        write_file(&self.folder, OWNER_NEW, record.to_line().as_bytes())?;
        let side = self.folder.join(OWNER_NEW);
        fs::rename(&side, self.folder.join(OWNER)).doing("rename", &side)
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        // The lock goes after this, with the file handle.
        let _ = fs::remove_file(self.folder.join(OWNER));
    }
}

/// Waits until this program owns the folder, or until a command can attach to a server's
/// PostgreSQL.
pub(super) fn take_turn(folder: &Path, role: ProcessRole, patience: Patience) -> Result<Turn, ClusterError> {
    let path = folder.join(LOCK);
    let lock = append_file(folder, LOCK)?;
    let started = Instant::now();
    let (mut seen, mut since) = (None, started);
    loop {
        match lock.try_lock() {
            Ok(()) => return own(folder, role, lock).map(Turn::Owned),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(source)) => return Err(source).doing("lock", &path),
        }
        let record = OwnerRecord::read(folder).filter(|record| is_alive(record.pid));
        let server = record.filter(|record| record.role == ProcessRole::Server);
        let server_pid = server.map(|server| server.pid);
        if server_pid != seen {
            (seen, since) = (server_pid, Instant::now());
        }
        if let Some(server) = server {
            let pid = server.pid;
            match role {
                ProcessRole::Server if since.elapsed() >= BELIEVE_AFTER => {
                    return Err(ClusterError::ServerRuns { folder: folder.to_owned(), pid });
                }
                ProcessRole::Server => {}
                ProcessRole::Command => {
                    if let Some(socket_dir) = accepting(folder, server) {
                        return Ok(Turn::Attached { socket_dir, server: pid });
                    }
                    if since.elapsed() >= patience.accepting {
                        let seconds = patience.accepting.as_secs();
                        return Err(ClusterError::NotAccepting { folder: folder.to_owned(), pid, seconds });
                    }
                }
            }
        }
        if started.elapsed() >= patience.turn {
            let owner = record.map_or("another program".to_owned(), OwnerRecord::describe);
            let seconds = patience.turn.as_secs();
            return Err(ClusterError::Busy { folder: folder.to_owned(), owner, seconds });
        }
        sleep(CHECK_INTERVAL);
    }
}

/// Replaces the former owner's text, first of all, after this program got the lock.
fn own(folder: &Path, role: ProcessRole, lock: File) -> Result<Ownership, ClusterError> {
    remove_file(&folder.join(OWNER))?;
    let ownership = Ownership { folder: folder.to_owned(), role, _lock: lock };
    ownership.publish(None)?;
    Ok(ownership)
}

/// The folder of the socket, if the PostgreSQL of this owner accepts connections.
fn accepting(folder: &Path, owner: OwnerRecord) -> Option<PathBuf> {
    let pid_file = PidFile::read(&folder.join(PGDATA))?;
    let ready = pid_file.ready && owner.postmaster == Some(pid_file.pid);
    ready.then_some(())?;
    UnixStream::connect(pid_file.socket_dir.join(SOCKET)).ok()?;
    Some(pid_file.socket_dir)
}

/// The contents of `owner`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OwnerRecord {
    role: ProcessRole,
    pid: u32,
    postmaster: Option<u32>,
}

impl OwnerRecord {
    fn read(folder: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(folder.join(OWNER)).ok()?)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let role = match words.next()? {
            "server" => ProcessRole::Server,
            "command" => ProcessRole::Command,
            _ => return None,
        };
        let pid = words.next()?.parse().ok()?;
        let postmaster = words.next().map(str::parse).transpose().ok()?;
        Some(Self { role, pid, postmaster })
    }

    fn to_line(self) -> String {
        let postmaster = self.postmaster.map(|pid| format!(" {pid}")).unwrap_or_default();
        format!("{} {}{postmaster}\n", self.role.name(), self.pid)
    }

    fn describe(self) -> String {
        format!("another {} (process {})", self.role.name(), self.pid)
    }
}

#[cfg(test)]
#[path = "owner_tests.rs"]
mod tests;
