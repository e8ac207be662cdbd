//! Makes a cluster with PostgreSQL's `initdb`.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::{ClusterError, IoContext};
use crate::folder::{PGDATA, create_private};
use crate::log_file::last_lines;
use crate::programs::Programs;
use crate::shim;
use crate::user::PostgresUser;

/// The major version of the cluster in `pgdata`; `None` if there is no cluster yet.
pub(super) fn major_of(pgdata: &Path) -> Result<Option<u32>, ClusterError> {
    let path = pgdata.join("PG_VERSION");
    let not_a_cluster = || ClusterError::NotACluster { path: pgdata.to_owned() };
    match fs::read_to_string(&path) {
        Ok(version) => {
            let major = version.trim().split('.').next().and_then(|major| major.parse().ok());
            major.map(Some).ok_or_else(not_a_cluster)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::remove_dir(pgdata) {
            // An empty folder holds no data. Anything else stays.
            Ok(()) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(_) => Err(not_a_cluster()),
        },
        Err(source) => Err(source).doing("read", &path),
    }
}

/// Makes the cluster in a side folder, with one rename at the end. So a crash leaves no partial
/// cluster.
///
/// `superuser` needs no password: only users who may enter the socket's folder can connect.
pub(super) fn make(
    folder: &Path,
    superuser: &str,
    programs: &Programs,
    user: Option<&PostgresUser>,
) -> Result<(), ClusterError> {
    remove_side_folders(folder)?;
    let side = folder.join(format!("{PGDATA}.new.{}", std::process::id()));
    create_private(&side, user)?;
    let initdb = programs.path("initdb");
    let mut command = shim::command(&initdb, user);
    command.arg("-D").arg(&side).arg(format!("--username={superuser}"));
    command.args(["--encoding=UTF8", "--locale=C", "--auth-local=trust", "--auth-host=reject"]);
    command.args(["--data-checksums", "--no-instructions"]);
    if cfg!(target_os = "linux") {
        command.arg("--no-sync"); // one sync of the file system, below, is faster than a thousand files
    }
    let output = command.output().doing("start", &initdb)?;
    if !output.status.success() {
        let text = [output.stdout, output.stderr].concat();
        return Err(ClusterError::Initdb { status: output.status.to_string(), output: last_lines(&text) });
    }
    // The disk must hold all files before the cluster gets its name, and then the name too.
    #[cfg(target_os = "linux")]
    File::open(&side)
        .and_then(|side| Ok(rustix::fs::syncfs(side)?))
        .doing("write to the disk what is in", &side)?;
    fs::rename(&side, folder.join(PGDATA)).doing("rename", &side)?;
    File::open(folder).and_then(|folder| folder.sync_all()).doing("write to the disk", folder)
}

/// Removes the side folders of runs that were killed before the rename.
fn remove_side_folders(folder: &Path) -> Result<(), ClusterError> {
    let start = format!("{PGDATA}.new.");
    let entries = fs::read_dir(folder).doing("list", folder)?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.file_name().is_some_and(|name| name.as_bytes().starts_with(start.as_bytes())) {
            fs::remove_dir_all(&path).doing("remove", &path)?;
        }
    }
    Ok(())
}
