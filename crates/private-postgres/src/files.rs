//! Safe writes in a folder of another user.
//!
//! Root may work in such a folder, and that user may have put a link to a file of root's there. So
//! no link is followed. Owner and mode are set by the open handle, because a path may lead
//! elsewhere a moment later.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::error::{ClusterError, IoContext};
use crate::user::is_root;

/// Opens a folder.
pub(super) fn open_folder(path: &Path) -> Result<File, ClusterError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).map(File::from).map_err(|errno| refused(path, errno))
}

/// Opens a file of this crate to append to. Makes it if it is missing.
///
/// Under root a new file gets the owner of its folder, because the program may run as that user
/// later. An existing file keeps its owner: that user may have moved it there.
pub(super) fn append_file(folder: &Path, name: &str) -> Result<File, ClusterError> {
    let path = folder.join(name);
    let folder = open_folder(folder)?;
    // Without NONBLOCK the open of a pipe would wait.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let made = openat(&folder, name, flags | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR);
    let is_new = made.is_ok();
    let opened = match made {
        Err(Errno::EXIST) => openat(&folder, name, flags, Mode::empty()),
        made => made,
    };
    let file = opened.map(File::from).map_err(|errno| refused(&path, errno))?;
    let metadata = file.metadata().doing("look at", &path)?;
    if !metadata.is_file() || metadata.nlink() > 1 {
        let reason =
            if metadata.is_file() { "it has a second name (a hard link)" } else { "it is no regular file" };
        return Err(io::Error::other(reason)).doing("open", &path);
    }
    if is_new && is_root() {
        let owner = folder.metadata().doing("look at the folder of", &path)?;
        fchown(&file, Some(owner.uid()), Some(owner.gid())).doing("change the owner of", &path)?;
    }
    Ok(file)
}

/// Replaces the contents of a file of this crate. Makes the file if it is missing.
pub(super) fn write_file(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), ClusterError> {
    let mut file = append_file(folder, name)?;
    // Not at the open: that must not truncate a file which is refused.
    file.set_len(0).and_then(|()| file.write_all(bytes)).doing("write", &folder.join(name))
}

/// Removes a file. A missing file is no error.
pub(super) fn remove_file(path: &Path) -> Result<(), ClusterError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(source).doing("remove", path),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The error of an open. For a link the system's own text is misleading: too many levels, or not a
/// directory.
fn refused(path: &Path, errno: Errno) -> ClusterError {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    let source = if is_link { io::Error::other("it is a symbolic link") } else { errno.into() };
    ClusterError::Io { doing: "open", path: path.to_owned(), source }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
