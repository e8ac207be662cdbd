//! The private PostgreSQL that Minitill runs when it is given no `DATABASE_URL` (contract 9).
//!
//! In the data folder:
//!
//! | name | what |
//! |---|---|
//! | `pgdata/` | the cluster |
//! | `run/` | the folder of its socket, for PostgreSQL's user and root alone |
//! | `socket` | where the socket is instead, if the path of the data folder is too long for one |
//! | `lock`, `owner` | which program owns the cluster just now: the lock decides, the text informs |
//! | `postgres.log` | PostgreSQL's own log |
//!
//! One program at a time owns the cluster and runs its PostgreSQL: a server as long as it runs, a command for its own
//! short time when there is no server. The way of a call: [`PrivateCluster::open`] finds the folder (`folder`), waits
//! for its turn (`owner`), and hands it to a thread (`supervisor`) that ends leftovers of a killed run (`former`),
//! makes and starts the cluster (`cluster`, by way of `shim`, with the programs of `programs`) and watches over it.
//! All of them write by way of `files`, which trusts no name in a folder of another user's.

use std::path::{Path, PathBuf};
use std::time::Duration;

mod cluster;
mod error;
mod files;
mod folder;
mod former;
mod owner;
mod programs;
mod shim;
mod socket;
mod supervisor;

pub use error::Error;
pub use folder::{DataFolder, data_folder};
pub use programs::Programs;
pub use shim::become_postgres_if_asked;

use owner::{Patience, Turn};
use supervisor::Supervisor;

/// The superuser of the private cluster, who connects to the database `postgres` without a password.
pub const USER: &str = "minitill";

/// How long [`PrivateCluster::stop`] takes at most: the server has 10 s to exit, its own drain included.
pub const STOP_WITHIN: Duration = Duration::from_secs(8);

/// Who wants the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A server: it owns the cluster as long as it runs.
    Server,
    /// A command: it works on the server's PostgreSQL, or without a server on one of its own.
    Command,
}

/// What to open.
#[derive(Clone, Debug)]
pub struct Options {
    /// The setting `database.data_dir`.
    pub data_dir: PathBuf,
    /// Who asks.
    pub role: Role,
    /// Settings of PostgreSQL, name and value, that win over Minitill's own. They count for an owner only.
    pub settings: Vec<(String, String)>,
}

/// A private PostgreSQL that accepts connections. An owner stops it with [`PrivateCluster::stop`], or when this is
/// dropped; should the program be killed, Linux stops it, elsewhere the next run does.
#[derive(Debug)]
pub struct PrivateCluster {
    folder: DataFolder,
    held: Held,
}

#[derive(Debug)]
enum Held {
    Owned(Supervisor),
    Attached { socket_dir: PathBuf },
}

impl PrivateCluster {
    /// Blocks until PostgreSQL accepts connections; makes the cluster where there is none.
    ///
    /// A server becomes the owner. It waits up to a minute for a command that owns the folder just now. From then on
    /// PostgreSQL is started again whenever it dies. A command attaches to the PostgreSQL of a server, waiting up to
    /// 30 s until that accepts; without a server it waits for its turn among other commands, up to 10 minutes, and
    /// becomes the owner itself.
    ///
    /// The program's `main` must call [`become_postgres_if_asked`] first.
    ///
    /// # Errors
    /// Each [`Error`] is a sentence for the operator. A second server is [`Error::ServerRuns`].
    pub fn open(options: Options) -> Result<Self, Error> {
        let folder = data_folder(&options.data_dir)?;
        folder.create()?;
        let patience = Patience::of(options.role);
        let held = match owner::take_turn(folder.path(), options.role, patience)? {
            Turn::Owned(ownership) => {
                Held::Owned(Supervisor::start(ownership, folder.path().to_owned(), options.settings)?)
            }
            Turn::Attached(socket_dir) => Held::Attached { socket_dir },
        };
        Ok(Self { folder, held })
    }

    /// The folder of the socket; the port in its name is 5432.
    #[must_use]
    pub fn socket_dir(&self) -> &Path {
        match &self.held {
            Held::Owned(supervisor) => supervisor.socket_dir(),
            Held::Attached { socket_dir } => socket_dir,
        }
    }

    /// The data folder that is really used.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A sentence to show when that is not the folder that was asked for.
    #[must_use]
    pub fn notice(&self) -> Option<&str> {
        self.folder.notice()
    }

    /// An owner stops PostgreSQL and waits for that, at most [`STOP_WITHIN`]; otherwise nothing happens.
    pub fn stop(self) {
        self.stop_within(STOP_WITHIN);
    }

    /// The same with a time limit of the caller's: a fast shutdown first, then an immediate one, then a kill.
    pub fn stop_within(mut self, limit: Duration) {
        self.end(limit);
    }

    fn end(&mut self, limit: Duration) {
        match &mut self.held {
            Held::Owned(supervisor) => supervisor.stop(limit),
            Held::Attached { .. } => {}
        }
    }
}

impl Drop for PrivateCluster {
    fn drop(&mut self) {
        self.end(STOP_WITHIN);
    }
}
