//! What can go wrong with the private cluster, in words for the operator.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no private PostgreSQL (contract 9). Every text is a sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither `PG_BIN`, a usual folder nor `PATH` holds `postgres` and `initdb`.
    #[error(
        "no PostgreSQL programs (postgres, initdb) were found on this machine: install them (Debian and Ubuntu: \
         `apt install postgresql`, Fedora: `dnf install postgresql-server`, macOS: `brew install postgresql@17`), \
         or set DATABASE_URL to a PostgreSQL that is already there"
    )]
    NoPrograms,

    /// Programs are there, all of them before version 14.
    #[error(
        "PostgreSQL 14 or newer is needed, found only {found}: install a newer one, or set DATABASE_URL to a \
         PostgreSQL that is already there"
    )]
    TooOld {
        /// Folders and their versions.
        found: String,
    },

    /// The cluster was made by a major version that is not installed.
    #[error(
        "the data in {pgdata} was made by PostgreSQL {wanted}, found only {found}: install PostgreSQL {wanted}, or \
         point PG_BIN at the folder of its programs"
    )]
    OtherVersion {
        /// The cluster.
        pgdata: PathBuf,
        /// The major version that made it.
        wanted: u32,
        /// Folders and their versions, or "none".
        found: String,
    },

    /// Started as root on a machine without a user to run PostgreSQL as.
    #[error(
        "PostgreSQL does not run as root, and this machine has neither a user `postgres` nor `nobody` to run it as: \
         start Minitill as an ordinary user, or set DATABASE_URL"
    )]
    NoUser,

    /// The user that PostgreSQL runs as cannot get to its data.
    #[error(
        "PostgreSQL runs as {user}, which may not enter {blocked} (mode {mode:04o}) on the way to {path}: \
         `chmod o+x` that folder, or choose another database.data_dir"
    )]
    NotEnterable {
        /// Where it wants to go.
        path: PathBuf,
        /// The folder that keeps it out.
        blocked: PathBuf,
        /// The permission bits of that folder.
        mode: u32,
        /// Who.
        user: String,
    },

    /// A second server on one data folder.
    #[error(
        "another Minitill server (process {pid}) already runs on {folder}: stop it first, or give this one a \
         database.data_dir of its own"
    )]
    ServerRuns {
        /// The data folder.
        folder: PathBuf,
        /// The server that owns it.
        pid: u32,
    },

    /// The owner of the folder did not let go in time.
    #[error("{folder} is still in use by {owner} after {seconds} s")]
    Busy {
        /// The data folder.
        folder: PathBuf,
        /// Who owns it, as far as is known.
        owner: String,
        /// How long this program waited.
        seconds: u64,
    },

    /// A server owns the folder but its PostgreSQL does not accept connections.
    #[error(
        "the Minitill server (process {pid}) that runs on {folder} has no PostgreSQL that accepts connections, \
         waited {seconds} s; {folder}/postgres.log tells more"
    )]
    NotAccepting {
        /// The data folder.
        folder: PathBuf,
        /// The server that owns it.
        pid: u32,
        /// How long this program waited.
        seconds: u64,
    },

    /// There is something where the cluster belongs.
    #[error("{path} exists but is no PostgreSQL cluster: move it away, or choose another database.data_dir")]
    NotACluster {
        /// What is in the way.
        path: PathBuf,
    },

    /// Processes of a former run hold on to the cluster.
    #[error("PostgreSQL processes of a former run do not end (process {pids}); they work in {pgdata}")]
    FormerStays {
        /// The cluster.
        pgdata: PathBuf,
        /// Their process ids.
        pids: String,
    },

    /// The cluster could not be made.
    #[error("initdb failed ({status}): {output}")]
    Initdb {
        /// How it ended.
        status: String,
        /// The end of what it said.
        output: String,
    },

    /// PostgreSQL ended before it accepted connections.
    #[error("PostgreSQL did not start ({status}); the end of {log}: {tail}")]
    NotStarted {
        /// How it ended.
        status: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },

    /// PostgreSQL runs but never became ready.
    #[error("PostgreSQL was not ready after {seconds} s; the end of {log}: {tail}")]
    NotReady {
        /// How long this program waited.
        seconds: u64,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },

    /// The path of the socket would be too long everywhere.
    #[error(
        "no folder was found for PostgreSQL's socket: {folder} is too long a path, and {tried} did not do"
    )]
    NoSocketFolder {
        /// The data folder.
        folder: PathBuf,
        /// The temporary folders that were tried.
        tried: String,
    },

    /// The thread that owns PostgreSQL ended too early.
    #[error("the thread that looks after PostgreSQL ended unexpectedly")]
    SupervisorEnded,

    /// The system refused something.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// What was tried, as in "cannot ... the path".
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: adds to an error of the system what was tried, and on what.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }
}
