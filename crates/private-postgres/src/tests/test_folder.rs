//! A temporary folder that is removed at the end of its test.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(super) struct TestFolder(PathBuf);

impl TestFolder {
    /// Makes a folder with mode 0755. `name` is one test's own.
    pub(super) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("private-postgres-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        Self(fs::canonicalize(folder).unwrap())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
