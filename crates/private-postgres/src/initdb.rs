//! Makes a cluster with PostgreSQL's `initdb`.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::error::{ClusterError, IoContext};
use crate::folder::{PGDATA, create_private};
use crate::log_file::last_lines;
use crate::programs::Programs;
use crate::user::PostgresUser;
use crate::{leftovers, shim};

/// How the name of a side folder begins. The process id of its run follows.
const SIDE: &str = "pgdata.new.";

/// How long a folder may change while it is removed, and the pause between two tries.
const REMOVE_WITHIN: Duration = Duration::from_secs(10);
const REMOVE_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// The new cluster of an upgrade, in its side folder.
pub(super) const UPGRADED: &str = "data";

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
    is_durable: bool,
) -> Result<(), ClusterError> {
    let side = create_side_folder(folder, user)?;
    run(&side, superuser, programs, user)?;
    if is_durable {
        sync_all_in(&side)?;
    }
    fs::rename(&side, folder.join(PGDATA)).doing("rename", &side)?;
    if is_durable { sync_folder(folder) } else { Ok(()) }
}

/// Runs `initdb` for the cluster `pgdata`, which is missing or an empty folder. Its files may not be
/// on the disk yet.
pub(super) fn run(
    pgdata: &Path,
    superuser: &str,
    programs: &Programs,
    user: Option<&PostgresUser>,
) -> Result<(), ClusterError> {
    let initdb = programs.path("initdb");
    let mut command = shim::command(&initdb, user, Signal::INT);
    command.arg("-D").arg(pgdata).arg(format!("--username={superuser}"));
    command.args(["--encoding=UTF8", "--locale=C", "--auth-local=trust", "--auth-host=reject"]);
    command.args(["--data-checksums", "--no-instructions"]);
    if cfg!(target_os = "linux") {
        command.arg("--no-sync"); // one sync of the file system is faster than a thousand files
    }
    let output = command.output().doing("start", &initdb)?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(ClusterError::Initdb { status: output.status.to_string(), output: last_lines(&text) })
}

/// Writes the files of a cluster to the disk, before the cluster gets its name.
pub(super) fn sync_all_in(side: &Path) -> Result<(), ClusterError> {
    #[cfg(target_os = "linux")]
    File::open(side)
        .and_then(|side| Ok(rustix::fs::syncfs(side)?))
        .doing("write to the disk what is in", side)?;
    #[cfg(not(target_os = "linux"))]
    let _ = side; // PostgreSQL's programs have done it
    Ok(())
}

/// Writes the names in a folder to the disk.
pub(super) fn sync_folder(folder: &Path) -> Result<(), ClusterError> {
    File::open(folder).and_then(|folder| folder.sync_all()).doing("write to the disk", folder)
}

/// Makes the side folder of this run, and removes those of runs that ended before the rename.
pub(super) fn create_side_folder(
    folder: &Path,
    user: Option<&PostgresUser>,
) -> Result<PathBuf, ClusterError> {
    remove_side_folders(folder)?;
    let side = folder.join(format!("{SIDE}{}", std::process::id()));
    create_private(&side, user)?;
    Ok(side)
}

/// Makes a cluster a side folder, in one step. [`create_side_folder`] removes it.
pub(super) fn discard(folder: &Path, cluster: &Path) -> Result<(), ClusterError> {
    remove_side_folders(folder)?;
    fs::rename(cluster, folder.join(format!("{SIDE}discarded"))).doing("rename", cluster)
}

fn remove_side_folders(folder: &Path) -> Result<(), ClusterError> {
    end_upgrades(folder)?;
    side_folders(folder)?.iter().try_for_each(|side| {
        patiently(|| match fs::remove_dir_all(side) {
            Err(_) if !side.exists() => Ok(()),
            outcome => outcome,
        })
        .doing("remove", side)
    })
}

/// Tries again while another process changes what is to be removed. The `initdb` of a run that was killed cleans up in
/// its folder at the same time.
fn patiently(mut remove: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let began = Instant::now();
    loop {
        match remove() {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound)
                    && began.elapsed() < REMOVE_WITHIN =>
            {
                thread::sleep(REMOVE_AGAIN_AFTER);
            }
            outcome => return outcome,
        }
    }
}

/// Ends what an upgrade that was killed left running on its new cluster.
pub(super) fn end_upgrades(folder: &Path) -> Result<(), ClusterError> {
    side_folders(folder)?.iter().try_for_each(|side| leftovers::end(&side.join(UPGRADED)))
}

fn side_folders(folder: &Path) -> Result<Vec<PathBuf>, ClusterError> {
    let paths = fs::read_dir(folder).doing("list", folder)?.flatten().map(|entry| entry.path());
    let is_side =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_bytes().starts_with(SIDE.as_bytes()));
    Ok(paths.filter(is_side).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The `initdb` of a run that was killed may still remove its own files.
    #[test]
    fn a_folder_that_changes_meanwhile_is_removed_by_another_try() {
        let outcome_of = |kinds: &[io::ErrorKind]| {
            let mut kinds = kinds.iter();
            let outcome = patiently(|| kinds.next().map_or(Ok(()), |kind| Err((*kind).into())));
            (outcome.is_ok(), kinds.len())
        };
        let busy = [io::ErrorKind::DirectoryNotEmpty, io::ErrorKind::NotFound];
        assert_eq!(outcome_of(&busy), (true, 0));
        let denied = [io::ErrorKind::PermissionDenied, io::ErrorKind::DirectoryNotEmpty];
        assert_eq!(outcome_of(&denied), (false, 1), "what waiting does not mend is told at once");
    }
}
