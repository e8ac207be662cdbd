//! The process around the server: its tokio runtime and its limit of open files.

use std::io;
use std::num::NonZero;
use std::thread::available_parallelism;

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::runtime::{self, Runtime};

/// Builds a multi-thread tokio runtime with one worker thread fewer than there are cores, and at
/// least one. The free core is for threads outside the runtime, such as a thread that writes to a
/// database.
///
/// # Errors
///
/// The operating system refuses the threads.
pub fn runtime() -> io::Result<Runtime> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    runtime::Builder::new_multi_thread().worker_threads(cores.saturating_sub(1).max(1)).enable_all().build()
}

/// Raises the soft limit of open files to the hard limit, and returns the limit that now holds
/// (`u64::MAX` for none). Every connection needs one file.
///
/// # Errors
///
/// The kernel refuses. The limit is then unchanged.
pub fn raise_open_files_limit() -> io::Result<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(limit.current.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_files_limit_is_raised_to_the_hard_limit() {
        let raised = raise_open_files_limit().unwrap();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(raised, limit.maximum.unwrap_or(u64::MAX));
    }
}
