//! A data folder for a cluster that lives as long as its program. It is removed with the program, and one whose program
//! was killed by the next program that makes one.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::ClusterError;
use crate::folder::{LOCK, PGDATA};
use crate::leftovers;
use crate::pid_file::is_alive;

/// A data folder of this process alone. It goes, with all that is in it, when this is dropped: do that after PostgreSQL
/// has stopped.
#[derive(Debug)]
pub struct ThrowAwayFolder(PathBuf);

impl ThrowAwayFolder {
    /// Names a folder in `parent` that does not exist yet, and removes what programs of this `name` left there that were
    /// killed. [`PrivateCluster::open`](crate::PrivateCluster::open) makes the folder.
    ///
    /// # Errors
    /// Processes of a killed program do not end.
    pub fn in_folder(parent: &Path, name: &str) -> Result<Self, ClusterError> {
        for folder in left_behind(parent, name) {
            leftovers::end(&folder.join(PGDATA))?;
            let _ = fs::remove_dir_all(folder);
        }
        let random = RandomState::new().hash_one(std::process::id());
        Ok(Self(parent.join(format!("{name}-{}-{random:016x}", std::process::id()))))
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ThrowAwayFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The folders in `parent` whose programs have ended. Those of other users are theirs.
fn left_behind(parent: &Path, name: &str) -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let rest = entry.file_name().to_str()?.strip_prefix(name)?.strip_prefix('-')?.to_owned();
        let (pid, random) = rest.split_once('-')?;
        let is_ours =
            random.len() == 16 && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        Some((pid.parse::<u32>().ok()?, entry.path())).filter(|_| is_ours)
    });
    // Another program may have the process id now. The kernel has released the lock then.
    named
        .filter(|(pid, path)| !is_alive(*pid) || is_released(&path.join(LOCK)))
        .map(|(_, path)| path)
        .collect()
}

fn is_released(lock: &Path) -> bool {
    File::open(lock).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::TestFolder;

    #[test]
    fn what_a_killed_program_left_is_removed_and_what_a_running_one_has_stays() {
        let parent = TestFolder::new("throw-away");
        // No process has this id: it is above the largest.
        let dead = parent.path().join("till-4194305-0123456789abcdef");
        let running = parent.path().join(format!("till-{}-0123456789abcdef", std::process::id()));
        let other = parent.path().join("till-notes");
        for folder in [&dead, &running, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), "text").unwrap();
        }
        let folder = ThrowAwayFolder::in_folder(parent.path(), "till").unwrap();
        assert!(!dead.exists() && running.exists() && other.exists() && !folder.path().exists());
        // The process id is used again, by this process: the lock tells.
        File::create(running.join(LOCK)).unwrap();
        fs::create_dir(folder.path()).unwrap();
        let path = folder.path().to_owned();
        let _next = ThrowAwayFolder::in_folder(parent.path(), "till").unwrap();
        assert!(!running.exists());
        drop(folder);
        assert!(!path.exists());
    }
}
