//! A way to the private PostgreSQL of a server, beside the server's own.

use std::fs;
use std::path::{Path, PathBuf};

use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;

use crate::service::cluster::USER;

/// The folder of its socket, as it wrote it down itself.
pub(crate) fn socket_dir(data_dir: &Path) -> PathBuf {
    let text = fs::read_to_string(data_dir.join("pgdata/postmaster.pid")).unwrap_or_default();
    text.lines().nth(4).map_or_else(|| data_dir.join("run"), PathBuf::from)
}

/// Sessions of the proof's own.
pub(crate) async fn connect(data_dir: &Path) -> PgPool {
    let options = PgConnectOptions::new_without_pgpass().socket(socket_dir(data_dir)).port(5432);
    PgPool::connect_with(options.username(USER).database("postgres")).await.unwrap()
}

/// A path for a variable or an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("the folder for temporary files has a name in plain text")
}
