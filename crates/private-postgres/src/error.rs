//! The errors of the private cluster, as sentences for the operator.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no private PostgreSQL.
///
/// Each text is a sentence for the operator and ends with what to do. A program may add ways of its
/// own to that, such as one of its settings.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// Neither `PG_BIN`, a usual folder nor `PATH` holds `postgres` and `initdb`.
    #[error(
        "no PostgreSQL programs (postgres, initdb) were found on this machine: install them (Debian and Ubuntu: \
         `apt install postgresql`, Fedora: `dnf install postgresql-server`, macOS: `brew install postgresql@17`)"
    )]
    NoPrograms,

    /// All programs that were found are older than version 14.
    #[error("PostgreSQL 14 or newer is needed, found only {found}: install a newer one")]
    TooOld {
        /// Versions and their folders.
        found: String,
    },

    /// The cluster belongs to a major version that is not installed.
    #[error(
        "the data in {pgdata} was made by PostgreSQL {wanted}, found only {found}: install PostgreSQL {wanted}, or \
         point PG_BIN at the folder of its programs"
    )]
    OtherVersion {
        /// The cluster.
        pgdata: PathBuf,
        /// The major version of the cluster.
        wanted: u32,
        /// The newest major version that was found.
        newest: u32,
        /// Versions and their folders.
        found: String,
    },

    /// An upgrade of a folder without a cluster.
    #[error("there is no cluster in {folder}, so there is nothing to upgrade")]
    NothingToUpgrade {
        /// The data folder.
        folder: PathBuf,
    },

    /// The programs that an upgrade starts from are not installed.
    #[error(
        "the upgrade needs the programs of PostgreSQL {wanted} too, found {found}: install them, or name their \
         folder"
    )]
    NoOldPrograms {
        /// The major version of the cluster.
        wanted: u32,
        /// Versions and their folders.
        found: String,
    },

    /// A program that an upgrade needs is missing.
    #[error(
        "the upgrade needs the program {program}, which is not in {folder}: install all programs of that PostgreSQL"
    )]
    NoProgram {
        /// Its name.
        program: &'static str,
        /// The place where it should be.
        folder: PathBuf,
    },

    /// The old cluster of a former upgrade has the name that this one needs.
    #[error("{kept} is there, from a former upgrade: move it away")]
    KeptInTheWay {
        /// The old cluster.
        kept: PathBuf,
    },

    /// A program of an upgrade failed.
    #[error("{program} failed ({status}), and the cluster is as it was; its files are in {files}: {output}")]
    UpgradeFailed {
        /// Its name.
        program: &'static str,
        /// Its exit status.
        status: String,
        /// The folder with its files.
        files: PathBuf,
        /// The last lines of its output.
        output: String,
    },

    /// The program runs as root, on a machine without an unprivileged user for PostgreSQL.
    #[error(
        "PostgreSQL does not run as root, and this machine has neither a user `postgres` nor `nobody` to run it as: \
         start the program as an ordinary user"
    )]
    NoUser,

    /// PostgreSQL's user may not enter the data folder.
    #[error(
        "PostgreSQL runs as {user}, which may not enter {blocked} (mode {mode:04o}) on the way to {path}: \
         `chmod o+x` that folder"
    )]
    NotEnterable {
        /// The data folder.
        path: PathBuf,
        /// The folder that the user may not enter.
        blocked: PathBuf,
        /// The permission bits of that folder.
        mode: u32,
        /// The user.
        user: String,
    },

    /// A second server on one data folder.
    #[error("another server (process {pid}) already runs on {folder}: stop it first")]
    ServerRuns {
        /// The data folder.
        folder: PathBuf,
        /// The server that owns it.
        pid: u32,
    },

    /// Another program did not release the folder in time.
    #[error("{folder} is still in use by {owner} after {seconds} s")]
    Busy {
        /// The data folder.
        folder: PathBuf,
        /// The owner, as far as it is known.
        owner: String,
        /// How long this program waited, in seconds.
        seconds: u64,
    },

    /// A server owns the folder but its PostgreSQL does not accept connections.
    #[error(
        "the server (process {pid}) that runs on {folder} has no PostgreSQL that accepts connections, \
         waited {seconds} s; {folder}/postgres.log has the details"
    )]
    NotAccepting {
        /// The data folder.
        folder: PathBuf,
        /// The server that owns it.
        pid: u32,
        /// How long this program waited, in seconds.
        seconds: u64,
    },

    /// The path of the cluster holds something else.
    #[error("{path} exists but is no PostgreSQL cluster: move it away")]
    NotACluster {
        /// The path.
        path: PathBuf,
    },

    /// PostgreSQL processes of a killed run still use the cluster.
    #[error("PostgreSQL processes of a former run do not end (process {pids}); they work in {pgdata}")]
    LeftoversRemain {
        /// The cluster.
        pgdata: PathBuf,
        /// Their process ids, separated by commas.
        pids: String,
    },

    /// `initdb` failed.
    #[error("initdb failed ({status}): {output}")]
    Initdb {
        /// Its exit status.
        status: String,
        /// The last lines of its output.
        output: String,
    },

    /// PostgreSQL ended before it accepted connections.
    #[error("PostgreSQL did not start ({status}); the end of {log}: {tail}")]
    NotStarted {
        /// Its exit status.
        status: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },

    /// PostgreSQL runs but did not become ready.
    #[error("PostgreSQL was not ready after {seconds} s; the end of {log}: {tail}")]
    NotReady {
        /// How long this program waited, in seconds.
        seconds: u64,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },

    /// In every folder the path of the socket would be too long.
    #[error(
        "no folder was found for PostgreSQL's socket: {folder} is too long a path, and {tried} cannot be used"
    )]
    NoSocketFolder {
        /// The data folder.
        folder: PathBuf,
        /// The temporary folders that were tried.
        tried: String,
    },

    /// The supervising thread ended too early.
    #[error("the thread that supervises PostgreSQL ended unexpectedly")]
    SupervisorEnded,

    /// The operating system refused an operation.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// The operation, as in "cannot {doing} {path}".
        doing: &'static str,
        /// Its object.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Adds the operation and its object to an error of the operating system.
pub(super) trait IoContext<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, ClusterError>;
}

impl<T, E: Into<io::Error>> IoContext<T> for Result<T, E> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, ClusterError> {
        self.map_err(|error| ClusterError::Io { doing, path: path.to_owned(), source: error.into() })
    }
}
