//! The data folder: which folder is used, and with which permissions.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use crate::error::{ClusterError, IoContext};
use crate::files::{append_file, open_folder};
use crate::user::{PostgresUser, default_user, is_root};

/// In the fallback folder: a list of the folders that it replaces, one a line.
const REPLACED: &str = "stands-in-for";

/// The cluster in the data folder.
pub(super) const PGDATA: &str = "pgdata";

/// The lock file in the data folder. It also marks a folder as a data folder.
pub(super) const LOCK: &str = "lock";

/// The data folder in use, which may be the fallback folder.
#[derive(Clone, Debug)]
pub struct DataFolder {
    /// The folder, as an absolute path without symbolic links. It may not exist yet.
    pub path: PathBuf,
    /// A sentence for the operator if this is the fallback folder.
    pub notice: Option<String>,
    asked_for: PathBuf,
}

impl DataFolder {
    /// Makes the folder if it is missing.
    ///
    /// It is private (0700). Under root it has mode 0711, so that PostgreSQL's user can pass
    /// through and nobody can list it. Each file in it needs a mode of its own.
    ///
    /// # Errors
    /// [`ClusterError::Io`]: the operating system refuses it.
    pub fn create(&self) -> Result<(), ClusterError> {
        create(&self.path, is_root())?;
        self.note_replaced()
    }

    /// Notes in the fallback folder which folder was asked for. If that becomes enterable one day, the
    /// data stays here.
    fn note_replaced(&self) -> Result<(), ClusterError> {
        if self.notice.is_none() || replaces(&self.path, &self.asked_for) {
            return Ok(());
        }
        let line = format!("{}\n", self.asked_for.display());
        let mut file = append_file(&self.path, REPLACED)?;
        io::Write::write_all(&mut file, line.as_bytes()).doing("write", &self.path.join(REPLACED))
    }
}

/// Chooses the folder for `data_dir`, without making or starting anything.
///
/// Under root it is `fallback_dir` if PostgreSQL's user may not enter `data_dir`. A cluster that
/// exists in `data_dir` always stays there.
///
/// # Errors
/// [`ClusterError::NotEnterable`]: PostgreSQL's user may not enter `data_dir`, and there is no
/// fallback. [`ClusterError::Io`]: the operating system shows no metadata.
pub fn data_folder(data_dir: &Path, fallback_dir: Option<&Path>) -> Result<DataFolder, ClusterError> {
    let asked_for = resolve(data_dir).doing("look at", data_dir)?;
    // A link on the way to the fallback is the operator's.
    let fallback = fallback_dir.map(|fallback| resolve(fallback).unwrap_or_else(|_| fallback.into()));
    choose(asked_for, is_root().then(default_user).flatten().as_ref(), fallback.as_deref())
}

/// Decides for [`data_folder`]. PostgreSQL would run as `user`; `None` is this program's own user.
fn choose(
    asked_for: PathBuf,
    user: Option<&PostgresUser>,
    fallback: Option<&Path>,
) -> Result<DataFolder, ClusterError> {
    let stay = |asked_for: PathBuf| Ok(DataFolder { path: asked_for.clone(), notice: None, asked_for });
    let Some(user) = user else { return stay(asked_for) };
    // Existing data is used or refused. It is never replaced by an empty cluster elsewhere.
    if asked_for.join(PGDATA).exists() || Some(&*asked_for) == fallback {
        return stay(asked_for);
    }
    let Some(fallback) = fallback else {
        require_enterable(&asked_for, Some(user))?;
        return stay(asked_for);
    };
    let reason = match blocked(&asked_for, user).doing("look at", &asked_for)? {
        Some((folder, mode)) => {
            let (name, folder) = (&user.name, folder.display());
            format!("PostgreSQL runs as {name}, which may not enter {folder} (mode {mode:04o})")
        }
        None if fallback.join(PGDATA).exists() && replaces(fallback, &asked_for) => {
            "PostgreSQL could not enter that folder when this installation began".to_owned()
        }
        None => return stay(asked_for),
    };
    let notice =
        format!("the data is kept in {} instead of {}: {reason}", fallback.display(), asked_for.display());
    Ok(DataFolder { path: fallback.to_owned(), notice: Some(notice), asked_for })
}

fn replaces(fallback: &Path, asked_for: &Path) -> bool {
    let listed = fs::read_to_string(fallback.join(REPLACED)).unwrap_or_default();
    listed.lines().any(|line| line == asked_for.display().to_string())
}

/// The absolute path without symbolic links. The path may not exist yet.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let existing = nearest_existing(&absolute)?;
    let rest = absolute.strip_prefix(existing).unwrap_or(Path::new(""));
    let resolved = fs::canonicalize(existing)?;
    // `join` with nothing would add a slash.
    Ok(if rest.as_os_str().is_empty() { resolved } else { resolved.join(rest) })
}

fn nearest_existing(path: &Path) -> io::Result<&Path> {
    for ancestor in path.ancestors() {
        match fs::symlink_metadata(ancestor) {
            Ok(_) => return Ok(ancestor),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Path::new("/"))
}

/// The first folder on the way to `path`, or `path` itself, that `user` may not enter, and its
/// mode. A missing folder will be made enterable, and a data folder of root's can be made so.
fn blocked(path: &Path, user: &PostgresUser) -> io::Result<Option<(PathBuf, u32)>> {
    let existing = nearest_existing(path)?;
    let mut ancestors: Vec<&Path> = existing.ancestors().collect();
    ancestors.reverse();
    for ancestor in ancestors {
        let metadata = fs::metadata(ancestor)?;
        if !metadata.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let can_be_opened = ancestor == path && metadata.uid() == 0 && is_ours(path);
        if !user.may_enter(&metadata) && !can_be_opened {
            return Ok(Some((ancestor.to_owned(), metadata.mode() & 0o7777)));
        }
    }
    Ok(None)
}

/// Whether a folder is a data folder, or is empty and becomes one, so that this crate sets its
/// mode. Another process may have made the folder a moment ago and not set its mode yet.
fn is_ours(folder: &Path) -> bool {
    folder.join(LOCK).exists() || fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Fails if `user` may not enter `path`.
pub(super) fn require_enterable(path: &Path, user: Option<&PostgresUser>) -> Result<(), ClusterError> {
    let Some(user) = user else { return Ok(()) };
    match blocked(path, user).doing("look at", path)? {
        None => Ok(()),
        Some((blocked, mode)) => {
            Err(ClusterError::NotEnterable { path: path.to_owned(), blocked, mode, user: user.name.clone() })
        }
    }
}

/// Makes the data folder and the missing folders above it. With `open` every user can pass through
/// them, whatever the umask is.
fn create(folder: &Path, open: bool) -> Result<(), ClusterError> {
    let missing: Vec<&Path> = folder.ancestors().skip(1).take_while(|ancestor| !ancestor.exists()).collect();
    for ancestor in missing.into_iter().rev() {
        create_one(ancestor, 0o755)?;
        if open {
            set_mode(&open_folder(ancestor)?, ancestor, 0o755)?;
        }
    }
    let made = create_one(folder, if open { 0o711 } else { 0o700 })?;
    if open {
        let handle = open_folder(folder)?;
        let metadata = handle.metadata().doing("look at", folder)?;
        // Under root the folder may exist with a mode that is too strict.
        if metadata.uid() == 0 && (made || is_ours(folder)) {
            set_mode(&handle, folder, (metadata.mode() & 0o7777) | 0o111)?;
        }
    }
    Ok(())
}

/// Makes one folder. True if it did not exist before.
fn create_one(folder: &Path, mode: u32) -> Result<bool, ClusterError> {
    match DirBuilder::new().mode(mode).create(folder) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(false),
        Err(source) => Err(source).doing("make the folder", folder),
    }
}

fn set_mode(handle: &File, path: &Path, mode: u32) -> Result<(), ClusterError> {
    handle.set_permissions(Permissions::from_mode(mode)).doing("set the mode of", path)
}

/// Makes a folder that only PostgreSQL's user and root may enter. An existing folder gets that
/// mode.
pub(super) fn create_private(folder: &Path, user: Option<&PostgresUser>) -> Result<(), ClusterError> {
    create_one(folder, 0o700)?;
    let handle = open_folder(folder)?;
    if let Some(user) = user {
        fchown(&handle, Some(user.uid), Some(user.gid)).doing("give away", folder)?;
    }
    set_mode(&handle, folder, 0o700)
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
