//! The process around the server: its tokio runtime, its limit of open files, and who sees its memory.

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

/// Keeps the memory of this process, and the secrets in it, out of core dumps and from other processes of
/// the same user. Programs that this process starts write no core dumps either.
///
/// # Errors
///
/// The kernel refuses.
pub fn hide_memory() -> io::Result<()> {
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none)?;
    // A handler of core dumps may ignore the limit.
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
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
