//! The folder of PostgreSQL's Unix socket: `run` in the data folder, or a temporary folder.
//!
//! The temporary folder is for a data folder with a path that is too long for a socket.

use std::ffi::OsStr;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::ClusterError;
use crate::files::{remove_file, write_file};
use crate::folder::{create_private, require_enterable};
use crate::user::PostgresUser;

/// The longest path of a socket in bytes, without its closing NUL.
const SOCKET_PATH_BYTES_MAX: usize = if cfg!(target_os = "macos") { 103 } else { 107 };

/// The name of the socket. 5432 is the port.
pub(super) const SOCKET: &str = ".s.PGSQL.5432";

/// A file in the data folder with the path of the temporary folder, for the next run after a kill.
const SHORT_DIR: &str = "socket";

/// Finds or makes the folder, which only PostgreSQL's user and root may enter. The name of a
/// temporary folder begins with `name`.
pub(super) fn prepare(
    folder: &Path,
    name: &str,
    user: Option<&PostgresUser>,
) -> Result<PathBuf, ClusterError> {
    let usual = folder.join("run");
    if fits(&usual) {
        create_private(&usual, user)?;
        return Ok(usual);
    }
    if let Ok(bytes) = fs::read(folder.join(SHORT_DIR)) {
        let short = PathBuf::from(OsStr::from_bytes(&bytes));
        if fits(&short) && is_private(&short, user) {
            return Ok(short);
        }
    }
    let short = make_short(folder, name, user)?;
    write_file(folder, SHORT_DIR, short.as_os_str().as_bytes()).inspect_err(|_| {
        let _ = fs::remove_dir(&short);
    })?;
    Ok(short)
}

/// Removes the socket of a killed run. Its lock file may name a process id that another process has
/// now.
pub(super) fn clear(socket_dir: &Path) -> Result<(), ClusterError> {
    for name in [SOCKET.to_owned(), format!("{SOCKET}.lock")] {
        remove_file(&socket_dir.join(name))?;
    }
    Ok(())
}

/// Removes the temporary folder, if there is one. If that fails, the next run uses it again.
pub(super) fn tidy(folder: &Path, socket_dir: &Path) {
    if !socket_dir.starts_with(folder) && fs::remove_dir(socket_dir).is_ok() {
        let _ = fs::remove_file(folder.join(SHORT_DIR));
    }
}

fn fits(socket_dir: &Path) -> bool {
    socket_dir.join(SOCKET).as_os_str().len() <= SOCKET_PATH_BYTES_MAX
}

/// Whether a temporary folder belongs to PostgreSQL's user and is closed to others. Any user may
/// make folders there.
fn is_private(folder: &Path, user: Option<&PostgresUser>) -> bool {
    let uid = user.map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid);
    let metadata = fs::symlink_metadata(folder);
    metadata.is_ok_and(|found| found.is_dir() && found.uid() == uid && found.mode() & 0o7777 == 0o700)
}

fn make_short(folder: &Path, name: &str, user: Option<&PostgresUser>) -> Result<PathBuf, ClusterError> {
    let parents = [std::env::temp_dir(), PathBuf::from("/tmp")];
    for parent in &parents {
        for _ in 0..10 {
            // Nobody can guess the name, and the call fails if the folder exists.
            let short = parent.join(format!("{name}-{:016x}", RandomState::new().hash_one(folder)));
            if !fits(&short) || require_enterable(parent, user).is_err() {
                break;
            }
            if fs::DirBuilder::new().mode(0o700).create(&short).is_ok() {
                create_private(&short, user)?;
                return Ok(short);
            }
        }
    }
    let tried: Vec<String> = parents.iter().map(|parent| parent.display().to_string()).collect();
    Err(ClusterError::NoSocketFolder { folder: folder.to_owned(), tried: tried.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use crate::test_folder::TestFolder;

    #[test]
    fn the_longest_path_of_a_socket_is_the_systems() {
        let rest = SOCKET_PATH_BYTES_MAX - "/.s.PGSQL.5432".len();
        let longest = format!("/{}", "x".repeat(rest - 1));
        assert!(fits(Path::new(&longest)));
        assert!(!fits(Path::new(&format!("{longest}x"))));
        let listener = |folder: &str| {
            std::os::unix::net::SocketAddr::from_pathname(Path::new(folder).join(SOCKET)).is_ok()
        };
        assert!(listener(&longest) && !listener(&format!("{longest}x")), "the system agrees");
    }

    #[test]
    fn a_usual_data_folder_holds_the_socket_in_a_private_folder() {
        let folder = TestFolder::new("socket");
        let run = prepare(folder.path(), "name", None).unwrap();
        let mode = fs::metadata(&run).unwrap().mode() & 0o7777;
        assert_eq!((run, mode), (folder.path().join("run"), 0o700));
    }

    #[test]
    fn a_long_data_folder_has_a_short_private_one_that_is_used_again_unless_it_is_open() {
        let parent = TestFolder::new("socket-long");
        let folder = parent.path().join("x".repeat(120));
        fs::create_dir(&folder).unwrap();

        let first = prepare(&folder, "name", None).unwrap();
        let first_was_private = is_private(&first, None);
        let again = prepare(&folder, "name", None).unwrap();
        fs::set_permissions(&first, Permissions::from_mode(0o755)).unwrap();
        let other = prepare(&folder, "name", None).unwrap();
        tidy(&folder, &other);
        let tidied = !other.exists() && !folder.join(SHORT_DIR).exists();

        fs::remove_dir(&first).unwrap();
        assert!(first_was_private && fits(&first), "{first:?}");
        assert!(first.file_name().unwrap().to_str().unwrap().starts_with("name-"), "{first:?}");
        assert_eq!(first, again);
        assert_ne!(first, other, "others could have put a socket of theirs there");
        assert!(tidied);
    }
}
