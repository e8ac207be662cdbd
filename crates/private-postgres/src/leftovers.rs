//! Leftovers of a killed run: a PostgreSQL that lost its owner, its server processes, and its
//! `postmaster.pid`.
//!
//! Two PostgreSQL on one cluster would destroy it. PostgreSQL guards against that by
//! `postmaster.pid`. So this module removes that file only if its process id certainly belongs to
//! another program now.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use crate::error::ClusterError;
use crate::files::remove_file;
use crate::pid_file::{PID_FILE, PidFile, is_alive, to_pid};

/// From the fast shutdown of a leftover PostgreSQL, which may write a checkpoint, to the immediate
/// one.
const POSTMASTER_GRACE: Duration = Duration::from_secs(10);
/// Until server processes without a PostgreSQL get SIGQUIT. They have no work that could be saved.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);
/// Until this module gives up.
const END_WITHIN: Duration = Duration::from_secs(20);

/// Ends the processes that still run on the cluster (SIGINT, later SIGQUIT), and waits for them.
///
/// Only the owner of the data folder may call it, while it has no PostgreSQL of its own.
pub(super) fn end(pgdata: &Path) -> Result<(), ClusterError> {
    let started = Instant::now();
    let mut sent_int = false;
    let mut sent_quit = false;
    loop {
        let left = processes_on(pgdata);
        if left.is_empty() {
            return remove_stale_pid_file(pgdata);
        }
        if started.elapsed() >= END_WITHIN {
            let pids: Vec<String> = left.iter().map(u32::to_string).collect();
            return Err(ClusterError::LeftoversRemain { pgdata: pgdata.to_owned(), pids: pids.join(", ") });
        }
        let postmaster = PidFile::read(pgdata).map(|file| file.pid).filter(|pid| left.contains(pid));
        let patience = if postmaster.is_some() { POSTMASTER_GRACE } else { ORPHAN_GRACE };
        if started.elapsed() >= patience {
            if !sent_quit {
                tracing::warn!(processes = ?left, "PostgreSQL processes of a former run get SIGQUIT");
            }
            sent_quit = true;
            // A postmaster ends its own server processes.
            left.iter().filter(|&&pid| postmaster.is_none_or(|only| only == pid)).for_each(|&pid| {
                signal(pid, Signal::QUIT);
            });
        } else if let Some(pid) = postmaster
            && !sent_int
        {
            tracing::warn!(process = pid, "a PostgreSQL of a former run gets SIGINT");
            signal(pid, Signal::INT);
            sent_int = true;
        }
        sleep(Duration::from_millis(10));
    }
}

/// Removes `postmaster.pid` if its process id belongs to another program, which PostgreSQL would
/// take for its own. PostgreSQL itself removes any other old file. No PostgreSQL may run on the
/// cluster.
fn remove_stale_pid_file(pgdata: &Path) -> Result<(), ClusterError> {
    if PidFile::read(pgdata).is_some_and(|file| is_alive(file.pid)) {
        remove_file(&pgdata.join(PID_FILE))?;
    }
    Ok(())
}

/// Errors are ignored: the process may have ended by itself, and [`end`] looks again.
fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = to_pid(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// The PostgreSQL processes that work on the cluster.
#[cfg(target_os = "linux")]
fn processes_on(pgdata: &Path) -> Vec<u32> {
    use std::os::unix::fs::MetadataExt;
    let Ok(folder) = fs::metadata(pgdata) else { return Vec::new() };
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let pids = names.filter_map(|name| name.to_str()?.parse().ok());
    pids.filter(|&pid| works_on(pid, pgdata, (folder.dev(), folder.ino()))).collect()
}

/// Whether a process is a PostgreSQL on the cluster. Its working directory is then the cluster. The
/// process id alone proves nothing, because another program may have it now.
#[cfg(target_os = "linux")]
fn works_on(pid: u32, pgdata: &Path, folder: (u64, u64)) -> bool {
    use std::os::unix::fs::MetadataExt;
    let process = PathBuf::from(format!("/proc/{pid}"));
    // The working directory of an operator's shell may be the cluster too.
    if !fs::read(process.join("comm")).is_ok_and(|name| name.starts_with(b"postgres")) {
        return false;
    }
    match fs::metadata(process.join("cwd")) {
        Ok(metadata) => (metadata.dev(), metadata.ino()) == folder,
        // Root in a container may not be allowed to look at processes of others, but it may read
        // the command line. That shows the postmaster only. PostgreSQL itself finds its server
        // processes.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let command_line = fs::read(process.join("cmdline")).unwrap_or_default();
            command_line.split(|&byte| byte == 0).any(|argument| argument == pgdata.as_os_str().as_bytes())
        }
        Err(_) => false,
    }
}

/// Without /proc: the process of `postmaster.pid`, if its command line names the cluster.
#[cfg(not(target_os = "linux"))]
fn processes_on(pgdata: &Path) -> Vec<u32> {
    let Some(pid) = PidFile::read(pgdata).map(|file| file.pid) else { return Vec::new() };
    let mut ps = crate::programs::clean_command("ps".as_ref());
    let output = ps.args(["-ww", "-o", "command=", "-p"]).arg(pid.to_string()).output();
    let command_line = output.map(|output| output.stdout).unwrap_or_default();
    let name = pgdata.as_os_str().as_bytes();
    let ours = command_line.windows(name.len()).any(|part| part == name);
    if ours { vec![pid] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::TestFolder;

    #[test]
    fn a_pid_file_with_the_id_of_another_program_is_removed_and_the_program_lives() {
        let folder = TestFolder::new("leftovers");
        let mut other =
            std::process::Command::new("sleep").arg("60").current_dir(folder.path()).spawn().unwrap();
        fs::write(folder.path().join(PID_FILE), format!("{}\n", other.id())).unwrap();

        let ended = end(folder.path());

        let other_lives = other.try_wait().unwrap().is_none();
        let removed = !folder.path().join(PID_FILE).exists();
        other.kill().unwrap();
        other.wait().unwrap();
        ended.unwrap();
        assert!(other_lives, "a program with that working directory may be any program");
        assert!(removed);
    }
}
