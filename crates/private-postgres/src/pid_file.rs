//! `postmaster.pid`, in which PostgreSQL notes its process id, its socket and its state.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};

/// The name of the file in the cluster.
pub(super) const PID_FILE: &str = "postmaster.pid";

/// The contents of `postmaster.pid`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PidFile {
    pub(super) pid: u32,
    pub(super) socket_dir: PathBuf,
    /// Whether PostgreSQL accepts connections.
    pub(super) ready: bool,
}

impl PidFile {
    pub(super) fn read(pgdata: &Path) -> Option<Self> {
        Self::parse(&fs::read(pgdata.join(PID_FILE)).ok()?)
    }

    /// The lines are process id, data folder, start time, port, socket folder, listen address,
    /// shared memory and status. The later ones are missing while PostgreSQL starts.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
        let text = |line: usize| std::str::from_utf8(lines.get(line)?).ok().map(str::trim);
        let pid = text(0)?.parse().ok()?;
        let socket_dir = lines.get(4).map_or_else(OsString::new, |line| OsString::from_vec(line.to_vec()));
        Some(Self { pid, socket_dir: socket_dir.into(), ready: text(7) == Some("ready") })
    }
}

/// Whether a process with this id exists, whichever user it belongs to.
pub(super) fn is_alive(pid: u32) -> bool {
    to_pid(pid).is_some_and(|pid| match test_kill_process(pid) {
        Ok(()) => true,
        Err(error) => error == rustix::io::Errno::PERM,
    })
}

/// The process id for system calls; `None` for 0 and for numbers out of range.
pub(super) fn to_pid(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
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
}
