//! The folder of the socket: `run` in the data folder or, where the path of the socket would become longer than the
//! system allows, a short one among the temporary folders.

use std::ffi::OsStr;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::Error;
use super::files::write_file;
use super::folder::{User, create_private, require_enterable};

/// The longest path of a socket, without its closing NUL.
const SOCKET_PATH_BYTES_MAX: usize = if cfg!(target_os = "macos") { 103 } else { 107 };

const SOCKET: &str = ".s.PGSQL.5432";

/// In the data folder: where the short folder is, to be used again after a kill.
const REMEMBERED: &str = "socket";

/// Finds or makes the folder, which only PostgreSQL's user and root may enter.
pub(super) fn prepare(folder: &Path, user: Option<&User>) -> Result<PathBuf, Error> {
    let usual = folder.join("run");
    if fits(&usual) {
        create_private(&usual, user)?;
        return Ok(usual);
    }
    if let Ok(bytes) = fs::read(folder.join(REMEMBERED)) {
        let short = PathBuf::from(OsStr::from_bytes(&bytes));
        if fits(&short) && is_private(&short, user) {
            return Ok(short);
        }
    }
    let short = make_short(folder, user)?;
    match write_file(folder, REMEMBERED, short.as_os_str().as_bytes()) {
        Ok(()) => Ok(short),
        Err(error) => {
            let _ = fs::remove_dir(&short);
            Err(error)
        }
    }
}

/// Removes the sockets of a former run, whose lock files could name a process id that lives again.
pub(super) fn clear(socket_dir: &Path) -> Result<(), Error> {
    for name in [SOCKET.to_owned(), format!("{SOCKET}.lock")] {
        let path = socket_dir.join(name);
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::io("remove", &path)(source)),
        }
    }
    Ok(())
}

/// Leaves no folder of ours among the temporary ones. What cannot be removed is used again by the next run.
pub(super) fn tidy(folder: &Path, socket_dir: &Path) {
    if !socket_dir.starts_with(folder) && fs::remove_dir(socket_dir).is_ok() {
        let _ = fs::remove_file(folder.join(REMEMBERED));
    }
}

fn fits(socket_dir: &Path) -> bool {
    socket_dir.join(SOCKET).as_os_str().len() <= SOCKET_PATH_BYTES_MAX
}

/// Anyone may make folders among the temporary ones; only one that is all PostgreSQL's will do.
fn is_private(folder: &Path, user: Option<&User>) -> bool {
    let uid = user.map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid);
    let metadata = fs::symlink_metadata(folder);
    metadata.is_ok_and(|found| found.is_dir() && found.uid() == uid && found.mode() & 0o7777 == 0o700)
}

fn make_short(folder: &Path, user: Option<&User>) -> Result<PathBuf, Error> {
    let parents = [std::env::temp_dir(), PathBuf::from("/tmp")];
    for parent in &parents {
        for _ in 0..10 {
            // A name that nobody can foresee, and a making that fails where somebody did.
            let short = parent.join(format!("minitill-{:016x}", RandomState::new().hash_one(folder)));
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
    Err(Error::NoSocketFolder { folder: folder.to_owned(), tried: tried.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("minitill-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::canonicalize(folder).unwrap()
    }

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
        let folder = scratch("socket");
        let run = prepare(&folder, None).unwrap();
        let mode = fs::metadata(&run).unwrap().mode() & 0o7777;
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((run, mode), (folder.join("run"), 0o700));
    }

    #[test]
    fn a_long_data_folder_has_a_short_private_one_that_is_used_again_unless_it_is_open() {
        let parent = scratch("socket-long");
        let folder = parent.join("x".repeat(120));
        fs::create_dir(&folder).unwrap();

        let first = prepare(&folder, None).unwrap();
        let first_was_private = is_private(&first, None);
        let again = prepare(&folder, None).unwrap();
        fs::set_permissions(&first, Permissions::from_mode(0o755)).unwrap();
        let other = prepare(&folder, None).unwrap();
        tidy(&folder, &other);
        let tidied = !other.exists() && !folder.join(REMEMBERED).exists();

        fs::remove_dir(&first).unwrap();
        fs::remove_dir_all(&parent).unwrap();
        assert!(first_was_private && fits(&first), "{first:?}");
        assert_eq!(first, again);
        assert_ne!(first, other, "others could have put a socket of theirs there");
        assert!(tidied);
    }
}
