//! Where the data is, and who PostgreSQL runs as (contract 9).

use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::Error;
use super::files::{open_file, open_folder};

/// Used for root where the user that PostgreSQL runs as may not enter the folder that was asked for.
const STAND_IN: &str = "/var/lib/minitill";

/// In the stand-in folder: the folders that it stands in for, one a line.
const STANDS_IN_FOR: &str = "stands-in-for";

/// The cluster inside of the data folder.
pub(super) const PGDATA: &str = "pgdata";

/// The lock file inside of the data folder, by which a folder of ours is known.
pub(super) const LOCK: &str = "lock";

/// An unprivileged user that PostgreSQL runs as when this program runs as root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// For messages.
    pub(super) name: String,
}

impl User {
    /// Whether this user may pass through a folder (or execute a file). Groups beyond the first do not count, because
    /// PostgreSQL is started without them.
    pub(super) fn may_enter(&self, metadata: &Metadata) -> bool {
        may_enter(self, metadata.uid(), metadata.gid(), metadata.mode())
    }
}

fn may_enter(user: &User, uid: u32, gid: u32, mode: u32) -> bool {
    let bit = if uid == user.uid {
        0o100
    } else if gid == user.gid {
        0o010
    } else {
        0o001
    };
    mode & bit != 0
}

/// The folder that is really used for a `database.data_dir`.
#[derive(Clone, Debug)]
pub struct DataFolder {
    path: PathBuf,
    notice: Option<String>,
    asked_for: PathBuf,
}

impl DataFolder {
    /// The folder: absolute, its symbolic links resolved. It may not exist yet, see [`DataFolder::create`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A sentence to show when it is another folder than the one that was asked for.
    #[must_use]
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Makes the folder where it is missing: private (0700), or as root open for PostgreSQL's user to pass through
    /// and for nobody to list (0711). What is put into it must bring its own fitting mode.
    ///
    /// # Errors
    /// [`Error::Io`] where the system refuses it.
    pub fn create(&self) -> Result<(), Error> {
        create(&self.path, is_root())?;
        if self.notice.is_some() {
            self.remember_stand_in()?;
        }
        Ok(())
    }

    /// Should the folder that was asked for become enterable one day, the data must not seem to be gone.
    fn remember_stand_in(&self) -> Result<(), Error> {
        if stands_in_for(&self.path, &self.asked_for) {
            return Ok(());
        }
        let line = format!("{}\n", self.asked_for.display());
        let mut file = open_file(&self.path, STANDS_IN_FOR)?;
        io::Write::write_all(&mut file, line.as_bytes())
            .map_err(Error::io("write", &self.path.join(STANDS_IN_FOR)))
    }
}

/// The folder that will be used for `data_dir`, without making or starting anything. As root it is
/// `/var/lib/minitill` where the user that PostgreSQL runs as may not enter `data_dir`, unless there is a cluster in
/// `data_dir` already.
///
/// # Errors
/// [`Error::Io`] where the system does not let us look.
pub fn data_folder(data_dir: &Path) -> Result<DataFolder, Error> {
    let asked_for = resolve(data_dir).map_err(Error::io("look at", data_dir))?;
    // Only root's own folders lead to the stand-in: a link on that way is the operator's.
    let stand_in = resolve(Path::new(STAND_IN)).unwrap_or_else(|_| STAND_IN.into());
    choose(asked_for, is_root().then(default_user).flatten().as_ref(), &stand_in)
}

/// The decision of [`data_folder`]: `user` is who PostgreSQL would run as, `None` when it runs as we do.
fn choose(asked_for: PathBuf, user: Option<&User>, stand_in: &Path) -> Result<DataFolder, Error> {
    let stay = |asked_for: PathBuf| DataFolder { path: asked_for.clone(), notice: None, asked_for };
    let Some(user) = user else { return Ok(stay(asked_for)) };
    // Where there is data already it is used or refused, but never left alone for an empty cluster elsewhere.
    if asked_for.join(PGDATA).exists() || asked_for == stand_in {
        return Ok(stay(asked_for));
    }
    let blocked = blocked(&asked_for, user).map_err(Error::io("look at", &asked_for))?;
    let reason = match blocked {
        Some((folder, mode)) => {
            format!(
                "PostgreSQL runs as {}, which may not enter {} (mode {mode:04o})",
                user.name,
                folder.display()
            )
        }
        None if stand_in.join(PGDATA).exists() && stands_in_for(stand_in, &asked_for) => {
            "PostgreSQL could not enter that folder when this installation began".to_owned()
        }
        None => return Ok(stay(asked_for)),
    };
    let notice =
        format!("the data is kept in {} instead of {}: {reason}", stand_in.display(), asked_for.display());
    Ok(DataFolder { path: stand_in.to_owned(), notice: Some(notice), asked_for })
}

fn stands_in_for(stand_in: &Path, asked_for: &Path) -> bool {
    let listed = fs::read_to_string(stand_in.join(STANDS_IN_FOR)).unwrap_or_default();
    listed.lines().any(|line| line == asked_for.display().to_string())
}

/// Whether this program runs as root, which PostgreSQL refuses to do.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The user that PostgreSQL runs as, `None` for our own: as root the owner of an existing cluster, else `postgres`,
/// else `nobody`.
pub(super) fn postgres_user(pgdata: &Path) -> Result<Option<User>, Error> {
    if !is_root() {
        return Ok(None);
    }
    if let Ok(metadata) = fs::metadata(pgdata)
        && metadata.uid() != 0
    {
        let name = format!("the user with the id {}", metadata.uid());
        return Ok(Some(User { uid: metadata.uid(), gid: metadata.gid(), name }));
    }
    default_user().map(Some).ok_or(Error::NoUser)
}

fn default_user() -> Option<User> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    ["postgres", "nobody"].iter().find_map(|name| user_in(&passwd, name))
}

/// Looks a user up in the text of `/etc/passwd`. Root under another name will not do.
fn user_in(passwd: &str, name: &str) -> Option<User> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() != Some(name) {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        (uid != 0).then(|| User { uid, gid, name: format!("the user {name}") })
    })
}

/// The absolute path without symbolic links, of something that may not exist yet.
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

/// The first folder on the way to `path`, and in the end `path` itself, that keeps `user` out, with its mode. What
/// does not exist yet will be made enterable; a folder of our own can be made so.
fn blocked(path: &Path, user: &User) -> io::Result<Option<(PathBuf, u32)>> {
    let existing = nearest_existing(path)?;
    let mut ancestors: Vec<&Path> = existing.ancestors().collect();
    ancestors.reverse();
    for ancestor in ancestors {
        let metadata = fs::metadata(ancestor)?;
        let can_be_opened = ancestor == path && metadata.uid() == 0 && is_ours(path);
        if !user.may_enter(&metadata) && !can_be_opened {
            return Ok(Some((ancestor.to_owned(), metadata.mode() & 0o7777)));
        }
    }
    Ok(None)
}

/// Whether a folder is a data folder (or empty, and about to be one), so that its mode is ours to set. Without this
/// a folder that another process of ours has just made, and not yet opened, would be taken for a closed one.
fn is_ours(folder: &Path) -> bool {
    folder.join(LOCK).exists() || fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// An error unless `user` may enter `path`.
pub(super) fn require_enterable(path: &Path, user: Option<&User>) -> Result<(), Error> {
    let Some(user) = user else { return Ok(()) };
    match blocked(path, user).map_err(Error::io("look at", path))? {
        None => Ok(()),
        Some((blocked, mode)) => {
            Err(Error::NotEnterable { path: path.to_owned(), blocked, mode, user: user.name.clone() })
        }
    }
}

/// Makes the data folder and what is missing above it; `open` lets every user pass through, whatever our umask.
fn create(folder: &Path, open: bool) -> Result<(), Error> {
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
        let metadata = handle.metadata().map_err(Error::io("look at", folder))?;
        // As root the folder may be an older one that is closed: it is opened if it is ours.
        if metadata.uid() == 0 && (made || is_ours(folder)) {
            set_mode(&handle, folder, (metadata.mode() & 0o7777) | 0o111)?;
        }
    }
    Ok(())
}

/// True if the folder was not there before.
fn create_one(folder: &Path, mode: u32) -> Result<bool, Error> {
    match DirBuilder::new().mode(mode).create(folder) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(false),
        Err(source) => Err(Error::io("make the folder", folder)(source)),
    }
}

fn set_mode(handle: &File, path: &Path, mode: u32) -> Result<(), Error> {
    handle.set_permissions(Permissions::from_mode(mode)).map_err(Error::io("set the mode of", path))
}

/// Makes a folder (or takes an existing one) that only PostgreSQL's user and root may enter.
pub(super) fn create_private(folder: &Path, user: Option<&User>) -> Result<(), Error> {
    create_one(folder, 0o700)?;
    let handle = open_folder(folder)?;
    if let Some(user) = user {
        fchown(&handle, Some(user.uid), Some(user.gid)).map_err(Error::io("give away", folder))?;
    }
    set_mode(&handle, folder, 0o700)
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
