//! What a former run may have left behind: a PostgreSQL that still stops or lost its owner, its server processes, and
//! its `postmaster.pid`.
//!
//! Two PostgreSQL on one cluster would destroy it. PostgreSQL guards against that itself, by means of
//! `postmaster.pid`, which is therefore left alone unless it is certain that its process id now belongs to another
//! program.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::Error;

const PID_FILE: &str = "postmaster.pid";

/// What `postmaster.pid` tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PidFile {
    pub(super) pid: u32,
    pub(super) socket_dir: PathBuf,
    /// Whether connections are accepted.
    pub(super) ready: bool,
}

impl PidFile {
    pub(super) fn read(pgdata: &Path) -> Option<Self> {
        Self::parse(&fs::read(pgdata.join(PID_FILE)).ok()?)
    }

    /// Lines: process id, data folder, start time, port, socket folder, listen address, shared memory, status. The
    /// later ones are missing while it starts.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
        let text = |line: usize| std::str::from_utf8(lines.get(line)?).ok().map(str::trim);
        let pid = text(0)?.parse().ok()?;
        let socket_dir = lines.get(4).map_or_else(OsString::new, |line| OsString::from_vec(line.to_vec()));
        Some(Self { pid, socket_dir: socket_dir.into(), ready: text(7) == Some("ready") })
    }
}

/// Whether there is a process of this number, whoever it belongs to.
pub(super) fn is_alive(pid: u32) -> bool {
    to_pid(pid).is_some_and(|pid| match test_kill_process(pid) {
        Ok(()) => true,
        Err(error) => error == rustix::io::Errno::PERM,
    })
}

fn to_pid(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// How long processes of a former run are given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grace {
    /// A PostgreSQL that was asked to stop, before it is told to drop everything.
    pub(super) postmaster: Duration,
    /// Server processes whose PostgreSQL is gone, before they are told to.
    pub(super) orphans: Duration,
    /// Until it is given up.
    pub(super) all: Duration,
}

impl Grace {
    /// A postmaster that stops may be writing a checkpoint; orphans have no work that could still be kept.
    pub(super) const USUAL: Self = Self {
        postmaster: Duration::from_secs(10),
        orphans: Duration::from_secs(1),
        all: Duration::from_secs(20),
    };
}

/// Ends what still runs on the cluster (SIGINT, later SIGQUIT) and waits for it. To be called by the owner of the
/// data folder only, while no PostgreSQL of its own runs.
pub(super) fn end(pgdata: &Path, grace: Grace) -> Result<(), Error> {
    let started = Instant::now();
    let mut asked = false;
    let mut told = false;
    loop {
        let left = processes_on(pgdata);
        if left.is_empty() {
            return remove_stale_pid_file(pgdata);
        }
        if started.elapsed() >= grace.all {
            let pids: Vec<String> = left.iter().map(u32::to_string).collect();
            return Err(Error::FormerStays { pgdata: pgdata.to_owned(), pids: pids.join(", ") });
        }
        let postmaster = PidFile::read(pgdata).map(|file| file.pid).filter(|pid| left.contains(pid));
        let patience = if postmaster.is_some() { grace.postmaster } else { grace.orphans };
        if started.elapsed() >= patience {
            if !told {
                tracing::warn!(processes = ?left, "PostgreSQL processes of a former run are told to quit");
            }
            told = true;
            // Not to the others too while there is a postmaster: it tells its own.
            left.iter().filter(|&&pid| postmaster.is_none_or(|only| only == pid)).for_each(|&pid| {
                signal(pid, Signal::QUIT);
            });
        } else if let Some(pid) = postmaster
            && !asked
        {
            tracing::warn!(process = pid, "a PostgreSQL of a former run is asked to stop");
            signal(pid, Signal::INT);
            asked = true;
        }
        sleep(Duration::from_millis(10));
    }
}

/// Nobody works on the cluster any more. If the process id in `postmaster.pid` lives nevertheless it was given to
/// another program since, and PostgreSQL would believe that it is still there. Any other old file it clears itself.
fn remove_stale_pid_file(pgdata: &Path) -> Result<(), Error> {
    if !PidFile::read(pgdata).is_some_and(|file| is_alive(file.pid)) {
        return Ok(());
    }
    let path = pgdata.join(PID_FILE);
    match fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", &path)(source)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Failing is fine: the process may have ended by itself, and who waits for it sees whether it did.
fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = to_pid(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// The PostgreSQL processes that work in the cluster's folder.
#[cfg(target_os = "linux")]
fn processes_on(pgdata: &Path) -> Vec<u32> {
    use std::os::unix::fs::MetadataExt;
    let Ok(folder) = fs::metadata(pgdata) else { return Vec::new() };
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let pids = names.filter_map(|name| name.to_str()?.parse().ok());
    pids.filter(|&pid| works_on(pid, pgdata, (folder.dev(), folder.ino()))).collect()
}

/// Every PostgreSQL process has its cluster as the working folder, and a process id alone proves nothing: it may have
/// been given to another program.
#[cfg(target_os = "linux")]
fn works_on(pid: u32, pgdata: &Path, folder: (u64, u64)) -> bool {
    use std::os::unix::fs::MetadataExt;
    let process = PathBuf::from(format!("/proc/{pid}"));
    // An operator's shell may stand in that folder too.
    if !fs::read(process.join("comm")).is_ok_and(|name| name.starts_with(b"postgres")) {
        return false;
    }
    match fs::metadata(process.join("cwd")) {
        Ok(metadata) => (metadata.dev(), metadata.ino()) == folder,
        // Root in a container may lack the right to look at processes of others. The command line it may read; it
        // tells the postmaster alone, and PostgreSQL itself finds server processes that were left behind.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let command_line = fs::read(process.join("cmdline")).unwrap_or_default();
            command_line.split(|&byte| byte == 0).any(|argument| argument == pgdata.as_os_str().as_bytes())
        }
        Err(_) => false,
    }
}

/// Without /proc: the process that `postmaster.pid` names, if its command line names the cluster.
#[cfg(not(target_os = "linux"))]
fn processes_on(pgdata: &Path) -> Vec<u32> {
    let Some(pid) = PidFile::read(pgdata).map(|file| file.pid) else { return Vec::new() };
    let mut ps = super::programs::quiet("ps".as_ref());
    let output = ps.args(["-ww", "-o", "command=", "-p"]).arg(pid.to_string()).output();
    let command_line = output.map(|output| output.stdout).unwrap_or_default();
    let name = pgdata.as_os_str().as_bytes();
    let ours = command_line.windows(name.len()).any(|part| part == name);
    if ours { vec![pid] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_pid_file_is_read() {
        let bytes = b"4711\n/data/pgdata\n1700000000\n5432\n/data/run\n\n  5432001  1234\nready   \n";
        let whole = PidFile { pid: 4711, socket_dir: "/data/run".into(), ready: true };
        assert_eq!(PidFile::parse(bytes), Some(whole));
    }

    #[test]
    fn a_pid_file_is_not_ready_before_it_says_so() {
        for bytes in [
            &b"4711\n/data/pgdata\n1700000000\n5432\n/data/run\n\n  5432001  1234\nstarting\n"[..],
            b"4711\n/data/pgdata\n1700000000\n5432\n/data/run\n\n  5432001  1234\nstopping\n",
            b"4711\n/data/pgdata\n1700000000\n5432\n",
            b"4711",
        ] {
            let file = PidFile::parse(bytes).expect("the process id is there");
            assert_eq!((file.pid, file.ready), (4711, false), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn rubbish_is_no_pid_file() {
        for bytes in [&b""[..], b"\n", b"ready", b"-5\n", b"99999999999999\n", b"\xff\xfe\n"] {
            assert_eq!(PidFile::parse(bytes), None, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn only_a_process_that_lives_is_alive() {
        assert!(is_alive(std::process::id()));
        let mut child = std::process::Command::new("/bin/sh").args(["-c", "exit 0"]).spawn().unwrap();
        child.wait().unwrap();
        assert!(!is_alive(child.id()));
        assert!(!is_alive(0), "0 would stand for the whole process group");
        assert!(!is_alive(u32::MAX));
    }

    #[test]
    fn a_pid_file_whose_process_became_another_program_is_removed_and_the_program_left_alone() {
        let folder = std::env::temp_dir().join(format!("minitill-former-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let mut other = std::process::Command::new("sleep").arg("60").current_dir(&folder).spawn().unwrap();
        fs::write(folder.join(PID_FILE), format!("{}\n", other.id())).unwrap();
        // A child has its parent's name for an instant after it was started, and that of this test begins likewise.
        while fs::read_to_string(format!("/proc/{}/comm", other.id())).is_ok_and(|name| name != "sleep\n") {
            sleep(Duration::from_millis(1));
        }

        let ended = end(&folder, Grace::USUAL);

        let other_lives = other.try_wait().unwrap().is_none();
        let removed = !folder.join(PID_FILE).exists();
        other.kill().unwrap();
        other.wait().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        ended.unwrap();
        assert!(other_lives, "a program that merely stands in the folder is none of ours");
        assert!(removed);
    }
}
