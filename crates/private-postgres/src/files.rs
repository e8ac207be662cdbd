//! Opening what this program writes to. Root may work in a folder of another user's, who may have put a link to
//! something of root's in any place. So no link is followed, and owners and modes are set by the handle: a path may
//! lead elsewhere a moment later.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use super::Error;
use super::folder::is_root;

/// Opens a folder.
pub(super) fn open_folder(path: &Path) -> Result<File, Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).map(File::from).map_err(|errno| refused(path, errno))
}

/// Opens a file of ours to append to, and makes it where it is missing.
///
/// One that root makes in a folder of another user's is that user's, who could not work with it otherwise once the
/// program runs as that user again. One that was there keeps its owner: that user may have moved it there.
pub(super) fn open_file(folder: &Path, name: &str) -> Result<File, Error> {
    let path = folder.join(name);
    let folder = open_folder(folder)?;
    // Without NONBLOCK a pipe would be waited for.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let made = openat(&folder, name, flags | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR);
    let is_new = made.is_ok();
    let opened = match made {
        Err(Errno::EXIST) => openat(&folder, name, flags, Mode::empty()),
        made => made,
    };
    let file = opened.map(File::from).map_err(|errno| refused(&path, errno))?;
    let metadata = file.metadata().map_err(Error::io("look at", &path))?;
    if !metadata.is_file() || metadata.nlink() > 1 {
        let reason =
            if metadata.is_file() { "it has a second name (a hard link)" } else { "it is no regular file" };
        return Err(Error::io("open", &path)(io::Error::other(reason)));
    }
    if is_new && is_root() {
        let owner = folder.metadata().map_err(Error::io("look at the folder of", &path))?;
        fchown(&file, Some(owner.uid()), Some(owner.gid())).map_err(Error::io("give away", &path))?;
    }
    Ok(file)
}

/// Makes `bytes` all that a file of ours holds.
pub(super) fn write_file(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let mut file = open_file(folder, name)?;
    // Only now: opening must not cut what is refused.
    file.set_len(0).and_then(|()| file.write_all(bytes)).map_err(Error::io("write", &folder.join(name)))
}

/// What the system says to a link is a riddle: too many levels, or not a directory.
fn refused(path: &Path, errno: Errno) -> Error {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    Error::io("open", path)(if is_link { io::Error::other("it is a symbolic link") } else { errno.into() })
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
