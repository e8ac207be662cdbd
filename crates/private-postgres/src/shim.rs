//! A step between this program and PostgreSQL.
//!
//! PostgreSQL must end when this program does, even by `kill -9`. Linux can send a process a signal when its parent
//! dies, but the process has to ask for that itself, after it became the unprivileged user (a change of user forgets
//! the wish). So the program starts itself once more; that child asks, and then turns into PostgreSQL.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::folder::User;
use super::programs::quiet;

/// The first argument of the program when it is to become PostgreSQL.
const HIDDEN_ARGUMENT: &str = "__become-postgres";

/// Call it first thing in `main`, before any thread is started: when the program was started as the step between
/// itself and PostgreSQL, it never returns; otherwise it does nothing.
pub fn become_postgres_if_asked() {
    let mut arguments = env::args_os().skip(1);
    if arguments.next().as_deref() != Some(OsStr::new(HIDDEN_ARGUMENT)) {
        return;
    }
    let reason = run(arguments).map_or_else(|| "arguments are missing".to_owned(), |error| error.to_string());
    // Standard error is PostgreSQL's log here; where even that fails nobody is left to tell.
    let _ = writeln!(io::stderr(), "minitill could not become PostgreSQL: {reason}");
    std::process::exit(126);
}

/// Asks for the signal and becomes the program; comes back only when that failed, `None` for missing arguments.
fn run(mut arguments: impl Iterator<Item = OsString>) -> Option<io::Error> {
    let parent: i32 = arguments.next()?.to_str()?.parse().ok()?;
    let program = arguments.next()?;
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
        if let Err(error) = set_parent_process_death_signal(Some(Signal::INT)) {
            return Some(error.into());
        }
        // A parent that died before the wish was made sends no signal any more. 0 is a parent outside of our
        // container's process ids, whose number cannot be told.
        if Pid::as_raw(getppid()) != parent {
            return Some(io::Error::other("the program that started it is gone"));
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = parent;
    Some(Command::new(program).args(arguments).exec())
}

/// A command for `program` as `user` that ends (SIGINT) when the thread that spawns it ends, where the system can do
/// that, in a process group of its own, so that Ctrl-C in a terminal reaches this program alone.
pub(super) fn command(program: &Path, user: Option<&User>) -> Command {
    let mut command = match own_program(user) {
        Some(this) => {
            let mut command = quiet(this.as_os_str());
            command.arg(HIDDEN_ARGUMENT).arg(std::process::id().to_string()).arg(program);
            command
        }
        // The signal is lost, the rest works: what a killed program left behind is ended at the next start.
        None => quiet(program.as_os_str()),
    };
    if let Some(user) = user {
        // The standard library drops the supplementary groups of root with this.
        command.uid(user.uid).gid(user.gid);
    }
    command.process_group(0);
    command
}

/// This program's own file, if `user` may execute it. On Linux it is named in a way that needs no way through the
/// folders above it, and that outlives an upgrade of the file.
fn own_program(user: Option<&User>) -> Option<PathBuf> {
    if !cfg!(target_os = "linux") {
        return None; // no such signal there, so nothing is gained by the step
    }
    let this = PathBuf::from("/proc/self/exe");
    let metadata = fs::metadata(&this).ok()?;
    user.is_none_or(|user| user.may_enter(&metadata)).then_some(this)
}
