//! Options of a private cluster.

use std::path::PathBuf;

/// How a program uses the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessRole {
    /// It owns the cluster as long as it runs.
    Server,
    /// It works on the PostgreSQL of a running server. Without a server it owns the cluster.
    Command,
}

impl ProcessRole {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Command => "command",
        }
    }
}

/// What to open.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The program's name, in lower-case ASCII letters. The cluster's superuser has this name and
    /// connects to the database `postgres` without a password. Temporary folders begin with it.
    pub name: &'static str,
    /// The data folder. It is made if it is missing.
    pub data_dir: PathBuf,
    /// The data folder in place of `data_dir` under root, if PostgreSQL's user may not enter
    /// `data_dir`. Without it such a `data_dir` is an error.
    pub fallback_dir: Option<PathBuf>,
    /// How this program uses the cluster.
    pub role: ProcessRole,
    /// Whether what was committed is there after the machine lost its power. Without it the cluster starts and writes
    /// faster, and is for data that is thrown away.
    pub is_durable: bool,
}
