//! Starts PostgreSQL on the cluster, waits until it accepts connections, and stops it.
//!
//! Only the owner of the data folder may do this.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{ClusterError, IoContext};
use crate::folder::{PGDATA, require_enterable};
use crate::log_file::LogFile;
use crate::pid_file::PidFile;
use crate::programs::Programs;
use crate::settings::{FLEETING, SETTINGS, shared_buffers};
use crate::stop_request::StopRequest;
use crate::user::{PostgresUser, postgres_user};
use crate::{initdb, leftovers, shim, socket_dir};

/// A recovery after a crash replays about one `max_wal_size`. This is many times that on a slow
/// disk.
pub(super) const READY_WITHIN: Duration = Duration::from_mins(10);

/// How long a start is tried again while server processes of a killed PostgreSQL hold its memory.
const MEMORY_FREE_WITHIN: Duration = Duration::from_secs(10);

/// A cluster that exists and can be started.
#[derive(Debug)]
pub(super) struct Cluster {
    folder: PathBuf,
    pgdata: PathBuf,
    socket_dir: PathBuf,
    programs: Programs,
    user: Option<PostgresUser>,
    is_durable: bool,
}

impl Cluster {
    /// Finds the cluster of a data folder, or makes it for the program of this name.
    pub(super) fn prepare(folder: PathBuf, name: &str, is_durable: bool) -> Result<Self, ClusterError> {
        let pgdata = folder.join(PGDATA);
        let user = postgres_user(&pgdata)?;
        require_enterable(&folder, user.as_ref())?;
        let programs = if let Some(major) = initdb::major_of(&pgdata)? {
            initdb::end_upgrades(&folder)?;
            Programs::find_for(&pgdata, major)?
        } else {
            let programs = Programs::find(None)?;
            initdb::make(&folder, name, &programs, user.as_ref(), is_durable)?;
            programs
        };
        Ok(Self { is_durable, ..Self::at(folder, pgdata, name, programs, user)? })
    }

    /// The cluster in `pgdata`, which need not be that of the data folder.
    pub(super) fn at(
        folder: PathBuf,
        pgdata: PathBuf,
        name: &str,
        programs: Programs,
        user: Option<PostgresUser>,
    ) -> Result<Self, ClusterError> {
        let socket_dir = socket_dir::prepare(&folder, name, user.as_ref())?;
        Ok(Self { folder, pgdata, socket_dir, programs, user, is_durable: true })
    }

    pub(super) fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// Removes what is needed no more after PostgreSQL has stopped.
    pub(super) fn tidy(&self) {
        socket_dir::tidy(&self.folder, &self.socket_dir);
    }

    /// Ends leftovers of a killed run, starts PostgreSQL and waits until it accepts connections.
    /// `None` if a request to stop came first.
    ///
    /// PostgreSQL ends with the thread that calls this (see [`shim`]).
    pub(super) fn start(&self, stop: &mut StopRequest) -> Result<Option<RunningPostgres>, ClusterError> {
        let started = Instant::now();
        loop {
            leftovers::end(&self.pgdata)?;
            socket_dir::clear(&self.socket_dir)?;
            let log = LogFile::open(&self.folder)?;
            let mut running = self.spawn(&log)?;
            let spawned = Instant::now();
            let status = loop {
                if PidFile::read(&self.pgdata).is_some_and(|file| file.ready && file.pid == running.pid()) {
                    return Ok(Some(running));
                }
                if let Some(status) = running.ended() {
                    break status;
                }
                if spawned.elapsed() >= READY_WITHIN {
                    let (seconds, tail) = (READY_WITHIN.as_secs(), log.tail());
                    running.stop(stop.limit());
                    return Err(ClusterError::NotReady { seconds, log: log.path, tail });
                }
                if stop.wait(Duration::from_millis(5)) {
                    running.stop(stop.limit());
                    return Ok(None);
                }
            };
            let tail = log.tail();
            let memory_in_use = tail.contains("pre-existing shared memory block");
            if !memory_in_use || started.elapsed() >= MEMORY_FREE_WITHIN {
                return Err(ClusterError::NotStarted { status, log: log.path, tail });
            }
            if stop.wait(Duration::from_millis(100)) {
                return Ok(None);
            }
        }
    }

    fn spawn(&self, log: &LogFile) -> Result<RunningPostgres, ClusterError> {
        let program = self.programs.path("postgres");
        let mut command = shim::command(&program, self.user.as_ref(), Signal::INT);
        command.arg("-D").arg(&self.pgdata).arg("-k").arg(quoted(&self.socket_dir));
        let shared_buffers = shared_buffers();
        let fleeting: &[_] = if self.is_durable { &[] } else { &FLEETING };
        let settings = SETTINGS.into_iter().chain([("shared_buffers", &*shared_buffers)]);
        // Of a setting that is named twice, the last value holds.
        for (name, value) in settings.chain(fleeting.iter().copied()) {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        let clone = || log.file.try_clone().doing("use", &log.path);
        command.stdout(clone()?).stderr(clone()?);
        let child = command.spawn().doing("start", &program)?;
        Ok(RunningPostgres { child })
    }
}

/// A PostgreSQL that was started.
#[derive(Debug)]
pub(super) struct RunningPostgres {
    child: Child,
}

impl RunningPostgres {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if PostgreSQL has ended.
    pub(super) fn ended(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(status) => status.map(|status| status.to_string()),
            // If the program was started with SIGCHLD ignored, the kernel keeps no exit status.
            Err(error) => Some(error.to_string()),
        }
    }

    /// Stops PostgreSQL within `limit`.
    ///
    /// First comes a fast shutdown, which ends the sessions and writes everything. After five
    /// eighths of the limit comes an immediate shutdown, from which the next start recovers. One
    /// eighth before the end PostgreSQL is killed.
    pub(super) fn stop(&mut self, limit: Duration) {
        for (signal, eighths) in [(Signal::INT, 5), (Signal::QUIT, 2), (Signal::KILL, 1)] {
            if self.ended().is_some() {
                return;
            }
            if signal != Signal::INT {
                tracing::warn!(process = self.pid(), ?signal, "PostgreSQL does not stop and gets a signal");
            }
            // PostgreSQL may have ended since. The loop notices that.
            let _ = kill_process(Pid::from_child(&self.child), signal);
            let sent = Instant::now();
            while sent.elapsed() < limit * eighths / 8 {
                if self.ended().is_some() {
                    return;
                }
                sleep(Duration::from_millis(5));
            }
        }
    }
}

/// A path as one entry of the list that `-k` takes, whatever commas, spaces and quotes it has.
fn quoted(path: &Path) -> OsString {
    let mut quoted = vec![b'"'];
    for &byte in path.as_os_str().as_bytes() {
        if byte == b'"' {
            quoted.push(byte);
        }
        quoted.push(byte);
    }
    quoted.push(b'"');
    OsString::from_vec(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_folder_is_one_entry_of_a_list_whatever_its_name() {
        assert_eq!(quoted(Path::new("/a b,c/\"d\"")), OsString::from("\"/a b,c/\"\"d\"\"\""));
    }
}
