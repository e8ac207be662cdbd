//! A private PostgreSQL for one program: made with initdb, started, supervised, restarted, stopped.
//!
//! The program owns a data folder and needs no database server that an administrator sets up.
//! PostgreSQL runs as a child process, listens on a Unix socket only, and ends with the program,
//! even after `kill -9`.
//!
//! In the data folder:
//!
//! | name | what |
//! |---|---|
//! | `pgdata/` | the cluster |
//! | `run/` | the folder of the socket; only PostgreSQL's user and root may enter it |
//! | `socket` | the path of another folder for the socket, if that of `run/` is too long |
//! | `pgdata.postgresql-N` | the cluster of the older major version N, after an upgrade |
//! | `lock`, `owner` | the lock that decides which program owns the cluster, and a text about it |
//! | `postgres.log` | PostgreSQL's own log |
//!
//! One program at a time owns the cluster and runs its PostgreSQL. It is a server as long as it runs, or a command for
//! its own short time if no server runs. [`PrivateCluster::open`] works in these steps:
//!
//! | module | what it does |
//! |---|---|
//! | `folder` | chooses and makes the data folder |
//! | `owner` | waits for the lock, or attaches to the PostgreSQL of a running server |
//! | `supervisor` | the one thread that starts, watches, restarts and stops PostgreSQL |
//! | `leftovers` | ends processes that a killed run left behind |
//! | `initdb` | makes the cluster |
//! | `upgrade` | brings the cluster to a newer major version |
//! | `cluster`, `settings`, `log_file` | starts PostgreSQL with its settings and its log |
//! | `programs`, `shim` | finds PostgreSQL's programs, and runs them so that they end with this one |
//! | `throw_away` | a data folder that goes with the program |
//! | `files`, `user`, `socket_dir`, `pid_file` | safe writes, PostgreSQL's user, its socket and state |

use std::path::{Path, PathBuf};
use std::time::Duration;

mod cluster;
mod error;
mod files;
mod folder;
mod initdb;
mod leftovers;
mod log_file;
mod options;
mod owner;
mod pid_file;
mod programs;
mod settings;
mod shim;
mod socket_dir;
mod stop_request;
mod supervisor;
#[cfg(test)]
#[path = "tests/test_folder.rs"]
mod test_folder;
mod throw_away;
mod upgrade;
mod user;

pub use error::ClusterError;
pub use folder::{DataFolder, data_folder};
pub use options::{ClusterOptions, ProcessRole};
pub use programs::Programs;
pub use shim::become_postgres_if_asked;
pub use stop_request::STOP_WITHIN;
pub use throw_away::ThrowAwayFolder;
pub use upgrade::{Upgraded, upgrade};

use owner::{Patience, Turn};
use supervisor::Supervisor;

/// A private PostgreSQL that accepts connections.
///
/// An owner stops PostgreSQL with [`PrivateCluster::stop_within`], or within [`STOP_WITHIN`] when
/// this is dropped. If the program is killed, Linux stops PostgreSQL; on other systems the next run
/// does.
#[derive(Debug)]
pub struct PrivateCluster {
    folder: DataFolder,
    socket_dir: PathBuf,
    /// The owner has it.
    supervisor: Option<Supervisor>,
}

impl PrivateCluster {
    /// Blocks until PostgreSQL accepts connections. Makes the cluster if there is none.
    ///
    /// A server becomes the owner, and waits up to a minute for a command that owns the folder. It
    /// starts PostgreSQL again whenever that dies. A command attaches to the PostgreSQL of a
    /// server, and waits up to 30 s until that accepts connections. Without a server it becomes the
    /// owner itself, and waits up to 10 minutes for other commands.
    ///
    /// The program's `main` must call [`become_postgres_if_asked`] first.
    ///
    /// # Errors
    /// Each [`ClusterError`] is a sentence for the operator. A second server gets
    /// [`ClusterError::ServerRuns`].
    pub fn open(options: &ClusterOptions) -> Result<Self, ClusterError> {
        let folder = data_folder(&options.data_dir, options.fallback_dir.as_deref())?;
        folder.create()?;
        let patience = Patience::of(options.role);
        let (supervisor, socket_dir) = match owner::take_turn(&folder.path, options.role, patience)? {
            Turn::Owned(ownership) => {
                let (supervisor, socket_dir) = Supervisor::start(ownership, folder.path.clone(), options)?;
                (Some(supervisor), socket_dir)
            }
            Turn::Attached { socket_dir, .. } => (None, socket_dir),
        };
        Ok(Self { folder, socket_dir, supervisor })
    }

    /// The folder of the Unix socket. The port, which is part of the socket's name, is 5432.
    #[must_use]
    pub fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// The data folder in use: [`ClusterOptions::data_dir`] or [`ClusterOptions::fallback_dir`].
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// A sentence for the operator if the fallback folder is in use.
    #[must_use]
    pub fn notice(&self) -> Option<&str> {
        self.folder.notice.as_deref()
    }

    /// Stops PostgreSQL within `limit` and waits for that, if this program is the owner.
    ///
    /// It asks for a fast shutdown first, then for an immediate one, then kills PostgreSQL.
    pub fn stop_within(self, limit: Duration) {
        if let Some(mut supervisor) = self.supervisor {
            supervisor.stop(limit);
        }
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PrivatePostgresReadme;
