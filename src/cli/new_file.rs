//! Files that commands write about players: they appear when they are complete, and only their owner may read them.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow};

/// A file under another name until [`NewFile::finish`]. One that is dropped before is removed.
pub(super) struct NewFile<'a> {
    path: &'a Path,
    unfinished: PathBuf,
    pub(super) file: File,
}

impl<'a> NewFile<'a> {
    /// Begins a file. What a killed command left under the other name goes away.
    pub(super) fn create(path: &'a Path) -> Result<Self> {
        let mut unfinished = OsString::from(path);
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        // A new one, so that nobody has opened it before, and it has these rights.
        let _ = fs::remove_file(&unfinished);
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished);
        let file = opened.map_err(|error| of_file(path, &error))?;
        Ok(Self { path, unfinished, file })
    }

    /// Refuses a name that a file has. [`NewFile::finish_without_replacing`] looks again.
    pub(super) fn refuse_to_replace(&self) -> Result<()> {
        if self.path.symlink_metadata().is_ok() {
            return Err(self.failed(&ErrorKind::AlreadyExists.into()));
        }
        Ok(())
    }

    /// Gives the file its name. A file that has it is replaced.
    pub(super) fn finish(self) -> Result<()> {
        let named = self.complete().and_then(|()| fs::rename(&self.unfinished, self.path));
        named.map_err(|error| self.failed(&error))
    }

    /// Gives the file its name, unless another file has it.
    pub(super) fn finish_without_replacing(self) -> Result<()> {
        // Unlike a rename, a link never replaces. The other name goes away with the value.
        let named = self.complete().and_then(|()| fs::hard_link(&self.unfinished, self.path));
        named.map_err(|error| self.failed(&error))
    }

    /// Writes it to the disk. Another command may have begun the same file meanwhile.
    fn complete(&self) -> io::Result<()> {
        self.file.sync_all()?;
        if self.is_own() {
            Ok(())
        } else {
            Err(io::Error::other("another command writes it at the same time"))
        }
    }

    /// Whether the other name is that of this file.
    fn is_own(&self) -> bool {
        match (self.file.metadata(), self.unfinished.symlink_metadata()) {
            (Ok(own), Ok(named)) => (own.dev(), own.ino()) == (named.dev(), named.ino()),
            _ => false,
        }
    }

    /// An error of the file, with its name.
    pub(super) fn failed(&self, error: &io::Error) -> Error {
        match error.kind() {
            ErrorKind::AlreadyExists => {
                anyhow!("{} is there already, and is not replaced", self.path.display())
            }
            _ => of_file(self.path, error),
        }
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        // After a rename there is none, and another command's is not ours.
        if self.is_own() {
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

fn of_file(path: &Path, error: &io::Error) -> Error {
    anyhow!("{}: {error}", path.display())
}
