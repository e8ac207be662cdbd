//! The shim: a child process that asks for a signal on its parent's death, then becomes PostgreSQL.
//!
//! PostgreSQL must end with this program, even after `kill -9`. Linux sends a process a signal when
//! its parent dies (`PR_SET_PDEATHSIG`), but the process must ask for that itself. It must ask
//! after it has become the unprivileged user, because a change of user cancels the request. So the
//! program starts itself once more, and that child asks and then executes PostgreSQL.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::programs::clean_command;
use crate::user::PostgresUser;

/// The first argument of the program when it is the shim.
const HIDDEN_ARGUMENT: &str = "__become-postgres";

/// Becomes PostgreSQL and never returns, if this process is the shim. Otherwise it does nothing.
///
/// `main` must call it first, before it starts any thread.
pub fn become_postgres_if_asked() {
    let mut arguments = env::args_os().skip(1);
    if arguments.next().as_deref() != Some(OsStr::new(HIDDEN_ARGUMENT)) {
        return;
    }
    let reason = run(arguments).map_or_else(|| "arguments are missing".to_owned(), |error| error.to_string());
    // Standard error is PostgreSQL's log here. If writing fails, there is no other channel.
    let _ = writeln!(io::stderr(), "the program could not become PostgreSQL: {reason}");
    std::process::exit(126);
}

/// Asks for the signal and becomes the program. It returns only after an error, or `None` if
/// arguments are missing.
fn run(mut arguments: impl Iterator<Item = OsString>) -> Option<io::Error> {
    let parent: i32 = arguments.next()?.to_str()?.parse().ok()?;
    let signal = Signal::from_named_raw(arguments.next()?.to_str()?.parse().ok()?)?;
    let program = arguments.next()?;
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, getppid, set_parent_process_death_signal};
        if let Err(error) = set_parent_process_death_signal(Some(signal)) {
            return Some(error.into());
        }
        // A parent that died before the request sends no signal any more.
        if Pid::as_raw(getppid()) != parent {
            return Some(io::Error::other("the program that started it is gone"));
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (parent, signal);
    Some(Command::new(program).args(arguments).exec())
}

/// A command for `program` as `user`. On Linux it gets `signal` when the thread that spawns it ends.
/// It has a process group of its own, so that Ctrl-C in a terminal reaches this program only.
pub(super) fn command(program: &Path, user: Option<&PostgresUser>, signal: Signal) -> Command {
    let mut command = match own_program(user) {
        Some(this) => {
            let mut command = clean_command(this.as_os_str());
            command.arg(HIDDEN_ARGUMENT).arg(std::process::id().to_string());
            command.arg(signal.as_raw().to_string()).arg(program);
            command
        }
        // There is no such signal then. The next start ends the leftovers of a killed program.
        None => clean_command(program.as_os_str()),
    };
    if let Some(user) = user {
        // With these the standard library also drops root's supplementary groups.
        command.uid(user.uid).gid(user.gid);
    }
    command.process_group(0);
    command
}

/// This program's own file, if `user` may execute it. The path needs no permission for the folders
/// above the file, and it still works after an upgrade has replaced the file.
fn own_program(user: Option<&PostgresUser>) -> Option<PathBuf> {
    if !cfg!(target_os = "linux") {
        return None; // other systems have no such signal
    }
    let this = PathBuf::from("/proc/self/exe");
    let metadata = fs::metadata(&this).ok()?;
    user.is_none_or(|user| user.may_enter(&metadata)).then_some(this)
}
