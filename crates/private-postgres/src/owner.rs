//! One program at a time owns a data folder.
//!
//! The kernel's lock on a file decides, because it is released whatever happens to its holder. The `owner` file
//! beside it only tells others who that is; it may be older than the lock, so nothing relies on it alone.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::files::{open_file, write_file};
use super::folder::{LOCK, PGDATA};
use super::former::{PidFile, is_alive};
use super::{Error, Role};

const OWNER: &str = "owner";
/// The next `owner`, until it is whole.
const OWNER_NEW: &str = "owner.new";

/// How often a waiting program looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// For how long a server must be seen as the owner before it is believed: between taking the lock and clearing away
/// what the last owner wrote there is a moment.
const BELIEVE_AFTER: Duration = Duration::from_millis(300);

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For other owners to finish.
    pub(super) turn: Duration,
    /// For the PostgreSQL of a running server to accept connections.
    pub(super) accepting: Duration,
}

impl Patience {
    pub(super) fn of(role: Role) -> Self {
        let turn = match role {
            // Only commands make a server wait, and somebody waits for the server.
            Role::Server => Duration::from_mins(1),
            // A command that imports wallets may take minutes.
            Role::Command => Duration::from_mins(10),
        };
        Self { turn, accepting: Duration::from_secs(30) }
    }
}

/// What waiting for a data folder led to.
#[derive(Debug)]
pub(super) enum Turn {
    /// The folder is ours.
    Owned(Ownership),
    /// A server owns it, and its PostgreSQL accepts connections in this folder.
    Attached(PathBuf),
}

/// The lock, held until this is dropped.
#[derive(Debug)]
pub(super) struct Ownership {
    folder: PathBuf,
    role: Role,
    _lock: File,
}

impl Ownership {
    /// Tells others who owns the folder and, once it runs, which process is the PostgreSQL that belongs to this owner
    /// (and not to the one before).
    pub(super) fn tell(&self, postmaster: Option<u32>) -> Result<(), Error> {
        let record = Record { role: self.role, pid: std::process::id(), postmaster };
        write_file(&self.folder, OWNER_NEW, record.to_line().as_bytes())?;
        let side = self.folder.join(OWNER_NEW);
        fs::rename(&side, self.folder.join(OWNER)).map_err(Error::io("rename", &side))
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        // It would only be an old record; the lock goes with the file handle after this.
        let _ = fs::remove_file(self.folder.join(OWNER));
    }
}

/// Waits until the folder is ours or, for a command, until the PostgreSQL of the server that owns it accepts.
pub(super) fn take_turn(folder: &Path, role: Role, patience: Patience) -> Result<Turn, Error> {
    let path = folder.join(LOCK);
    let lock = open_file(folder, LOCK)?;
    let started = Instant::now();
    let mut server: Option<(u32, Instant)> = None;
    loop {
        match lock.try_lock() {
            Ok(()) => return own(folder, role, lock).map(Turn::Owned),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(source)) => return Err(Error::io("lock", &path)(source)),
        }
        let record = Record::read(folder).filter(|record| is_alive(record.pid));
        server = match record {
            Some(Record { role: Role::Server, pid, .. }) => match server {
                Some((seen, since)) if seen == pid => Some((pid, since)),
                Some(_) | None => Some((pid, Instant::now())),
            },
            Some(Record { role: Role::Command, .. }) | None => None,
        };
        if let (Some((pid, since)), Some(record)) = (server, record) {
            match role {
                Role::Server if since.elapsed() >= BELIEVE_AFTER => {
                    return Err(Error::ServerRuns { folder: folder.to_owned(), pid });
                }
                Role::Server => {}
                Role::Command => {
                    if let Some(socket_dir) = accepting(folder, record) {
                        return Ok(Turn::Attached(socket_dir));
                    }
                    if since.elapsed() >= patience.accepting {
                        let seconds = patience.accepting.as_secs();
                        return Err(Error::NotAccepting { folder: folder.to_owned(), pid, seconds });
                    }
                }
            }
        }
        if started.elapsed() >= patience.turn {
            let owner = record.map_or("another program".to_owned(), Record::describe);
            let seconds = patience.turn.as_secs();
            return Err(Error::Busy { folder: folder.to_owned(), owner, seconds });
        }
        sleep(LOOK_AGAIN);
    }
}

/// What to do with a lock that was just taken, before anything else: no older record may stand beside it.
fn own(folder: &Path, role: Role, lock: File) -> Result<Ownership, Error> {
    match fs::remove_file(folder.join(OWNER)) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(Error::io("remove", &folder.join(OWNER))(source)),
    }
    let ownership = Ownership { folder: folder.to_owned(), role, _lock: lock };
    ownership.tell(None)?;
    Ok(ownership)
}

/// The folder of the socket, once the PostgreSQL of this very owner accepts connections there.
fn accepting(folder: &Path, owner: Record) -> Option<PathBuf> {
    let pid_file = PidFile::read(&folder.join(PGDATA))?;
    let ready = pid_file.ready && owner.postmaster == Some(pid_file.pid);
    ready.then_some(())?;
    UnixStream::connect(pid_file.socket_dir.join(".s.PGSQL.5432")).ok()?;
    Some(pid_file.socket_dir)
}

/// What the `owner` file tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    role: Role,
    pid: u32,
    postmaster: Option<u32>,
}

impl Record {
    fn read(folder: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(folder.join(OWNER)).ok()?)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let role = match words.next()? {
            "server" => Role::Server,
            "command" => Role::Command,
            _ => return None,
        };
        let pid = words.next()?.parse().ok()?;
        let postmaster = words.next().map(str::parse).transpose().ok()?;
        Some(Self { role, pid, postmaster })
    }

    fn to_line(self) -> String {
        let postmaster = self.postmaster.map(|pid| format!(" {pid}")).unwrap_or_default();
        format!("{} {}{postmaster}\n", role_name(self.role), self.pid)
    }

    fn describe(self) -> String {
        format!("another Minitill {} (process {})", role_name(self.role), self.pid)
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Server => "server",
        Role::Command => "command",
    }
}

#[cfg(test)]
#[path = "owner_tests.rs"]
mod tests;
