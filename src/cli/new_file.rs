//! Files that commands write about players: they appear when they are complete, and only their owner may read them.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow};

/// A file under another name until [`NewFile::finish`]. One that is dropped before is removed.
pub(super) struct NewFile<'a> {
    path: &'a Path,
    unfinished: PathBuf,
    pub(super) file: File,
}

impl<'a> NewFile<'a> {
    pub(super) fn create(path: &'a Path) -> Result<Self> {
        let mut unfinished = OsString::from(path);
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished);
        let file = opened.map_err(|error| of_file(path, &error))?;
        Ok(Self { path, unfinished, file })
    }

    /// Gives the file its name.
    pub(super) fn finish(self) -> Result<()> {
        let named = self.file.sync_all().and_then(|()| fs::rename(&self.unfinished, self.path));
        named.map_err(|error| self.failed(&error))
    }

    /// An error of the file, with its name.
    pub(super) fn failed(&self, error: &io::Error) -> Error {
        of_file(self.path, error)
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        // A finished one has another name.
        let _ = fs::remove_file(&self.unfinished);
    }
}

fn of_file(path: &Path, error: &io::Error) -> Error {
    anyhow!("{}: {error}", path.display())
}
