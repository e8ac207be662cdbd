//! Makes the cluster, starts its PostgreSQL and stops it. Everything here is done by the owner of the data folder.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::files::open_file;
use super::folder::{PGDATA, User, create_private, postgres_user, require_enterable};
use super::former::{self, Grace, PidFile};
use super::supervisor::StopSignal;
use super::{Error, Programs, shim, socket};

/// PostgreSQL's own log in the data folder.
const LOG: &str = "postgres.log";
const LOG_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// How much of the log's end an error shows.
const LOG_TAIL_BYTES: u64 = 8 * 1024;
const LOG_TAIL_LINES: usize = 5;

/// Recovery after a crash replays at most some `max_wal_size`; this is many times that on a slow disk.
const READY_WITHIN: Duration = Duration::from_mins(10);

/// For how long a start is tried again while server processes of a killed PostgreSQL still hold its memory.
const MEMORY_FREE_WITHIN: Duration = Duration::from_secs(10);

/// Settings of every private PostgreSQL: durable, one socket, and sensible for a small server. The caller's settings
/// come after these and win.
const SETTINGS: [(&str, &str); 18] = [
    ("listen_addresses", ""),
    ("port", "5432"),
    ("unix_socket_permissions", "0700"),
    ("fsync", "on"),
    ("full_page_writes", "on"),
    ("synchronous_commit", "on"),
    ("max_connections", "100"),
    // Room between two checkpoints: after each of them every page is logged in full once more.
    ("max_wal_size", "4GB"),
    // Files of the log are used again rather than made, which costs everybody a pause of some 50 ms
    // each. (`wal_init_zero = off` has no pauses, and was slower by a tenth.)
    ("min_wal_size", "512MB"),
    ("jit", "off"),
    // No leftovers in /dev/shm after a kill, and no trouble where a container keeps that small.
    ("dynamic_shared_memory_type", "mmap"),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
    ("logging_collector", "off"),
    ("log_destination", "stderr"),
    ("log_checkpoints", "off"),
    // The details of an error quote values of players and keys, which belong in no log (contract 2.8).
    ("log_error_verbosity", "terse"),
    ("log_min_error_statement", "panic"),
];

/// PostgreSQL's own cache: a quarter of the memory, within bounds. It is taken as it fills.
const CACHE_MIB: std::ops::RangeInclusive<u64> = 128..=16_384;

/// The value of `shared_buffers`.
fn shared_buffers() -> String {
    let mib = memory_bytes().min(control_group_bytes()) / 1024 / 1024 / 4;
    format!("{}MB", mib.clamp(*CACHE_MIB.start(), *CACHE_MIB.end()))
}

/// The machine's memory; 0 where it cannot be told.
fn memory_bytes() -> u64 {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    total.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default().saturating_mul(1024)
}

/// What this process may use of it: the limit of a container or of a systemd unit.
fn control_group_bytes() -> u64 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let limit = fs::read_to_string(Path::new("/sys/fs/cgroup").join(group).join("memory.max"));
    // "max" where there is none.
    limit.ok().and_then(|limit| limit.trim().parse().ok()).unwrap_or(u64::MAX)
}

/// A cluster that is there and can be started.
#[derive(Debug)]
pub(super) struct Cluster {
    folder: PathBuf,
    pgdata: PathBuf,
    socket_dir: PathBuf,
    programs: Programs,
    user: Option<User>,
    settings: Vec<(String, String)>,
}

impl Cluster {
    /// Finds the cluster of a data folder, or makes it: in a side folder, with one rename at the end, so that a crash
    /// half-way leaves nothing half-made.
    pub(super) fn prepare(folder: &Path, settings: Vec<(String, String)>) -> Result<Self, Error> {
        let pgdata = folder.join(PGDATA);
        let user = postgres_user(&pgdata)?;
        require_enterable(folder, user.as_ref())?;
        let programs = if let Some(major) = made_by(&pgdata)? {
            Programs::find_for(&pgdata, major)?
        } else {
            let programs = Programs::find(None)?;
            make(folder, &pgdata, &programs, user.as_ref())?;
            programs
        };
        let socket_dir = socket::prepare(folder, user.as_ref())?;
        Ok(Self { folder: folder.to_owned(), pgdata, socket_dir, programs, user, settings })
    }

    pub(super) fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// Removes what only a kill may leave behind.
    pub(super) fn tidy(&self) {
        socket::tidy(&self.folder, &self.socket_dir);
    }

    /// Ends what is left of a former run, starts PostgreSQL and waits until it accepts connections; `None` if it was
    /// told to stop meanwhile. The thread that calls this must live as long as PostgreSQL shall (see [`shim`]).
    pub(super) fn start(&self, stop: &mut StopSignal) -> Result<Option<Running>, Error> {
        let started = Instant::now();
        loop {
            former::end(&self.pgdata, Grace::USUAL)?;
            socket::clear(&self.socket_dir)?;
            let (log, log_start) = self.open_log()?;
            let mut running = self.spawn(&log)?;
            let status = match self.wait_until_ready(&mut running, log_start, stop) {
                Ok(Progress::Ready) => return Ok(Some(running)),
                Ok(Progress::StopAsked) => {
                    running.stop(stop.limit());
                    return Ok(None);
                }
                Ok(Progress::Ended(status)) => status,
                Err(error) => {
                    running.stop(stop.limit());
                    return Err(error);
                }
            };
            let path = self.folder.join(LOG);
            let tail = tail(&path, log_start);
            let memory_in_use = tail.contains("pre-existing shared memory block");
            if !memory_in_use || started.elapsed() >= MEMORY_FREE_WITHIN {
                return Err(Error::NotStarted { status, log: path, tail });
            }
            if stop.wait(Duration::from_millis(100)) {
                return Ok(None);
            }
        }
    }

    fn spawn(&self, log: &File) -> Result<Running, Error> {
        let program = self.programs.path("postgres");
        let mut command = shim::command(&program, self.user.as_ref());
        command.arg("-D").arg(&self.pgdata).arg("-k").arg(quoted(&self.socket_dir));
        for (name, value) in SETTINGS {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command.arg("-c").arg(format!("shared_buffers={}", shared_buffers()));
        for (name, value) in &self.settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        let clone = || log.try_clone().map_err(Error::io("use", &self.folder.join(LOG)));
        command.stdout(clone()?).stderr(clone()?);
        let child = command.spawn().map_err(Error::io("start", &program))?;
        Ok(Running { child })
    }

    fn wait_until_ready(
        &self,
        running: &mut Running,
        log_start: u64,
        stop: &mut StopSignal,
    ) -> Result<Progress, Error> {
        let started = Instant::now();
        loop {
            let ready =
                PidFile::read(&self.pgdata).is_some_and(|file| file.ready && file.pid == running.pid());
            if ready {
                return Ok(Progress::Ready);
            }
            if let Some(status) = running.ended() {
                return Ok(Progress::Ended(status));
            }
            if started.elapsed() >= READY_WITHIN {
                let log = self.folder.join(LOG);
                let tail = tail(&log, log_start);
                return Err(Error::NotReady { seconds: READY_WITHIN.as_secs(), log, tail });
            }
            if stop.wait(Duration::from_millis(5)) {
                return Ok(Progress::StopAsked);
            }
        }
    }

    /// The log, to append to, and its length by now. A long one is put aside first, over the one before.
    fn open_log(&self) -> Result<(File, u64), Error> {
        let path = self.folder.join(LOG);
        if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.len() > LOG_BYTES_MAX) {
            fs::rename(&path, self.folder.join("postgres.log.old")).map_err(Error::io("rename", &path))?;
        }
        let log = open_file(&self.folder, LOG)?;
        let length = log.metadata().map_err(Error::io("look at", &path))?.len();
        Ok((log, length))
    }
}

/// What waiting for PostgreSQL led to.
enum Progress {
    Ready,
    StopAsked,
    Ended(String),
}

/// A PostgreSQL that was started.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
}

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub(super) fn ended(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(status) => status.map(|status| status.to_string()),
            // Where the program was started with SIGCHLD ignored, the system forgets a child that ended.
            Err(error) => Some(error.to_string()),
        }
    }

    /// Stops it within `limit`: a fast shutdown (sessions are ended, all is written), five eighths of the limit later
    /// an immediate one (the next start recovers), one eighth before the end a kill.
    pub(super) fn stop(&mut self, limit: Duration) {
        for (signal, eighths) in [(Signal::INT, 5), (Signal::QUIT, 2), (Signal::KILL, 1)] {
            if self.ended().is_some() {
                return;
            }
            if signal != Signal::INT {
                tracing::warn!(process = self.pid(), ?signal, "PostgreSQL does not stop, it is told to end");
            }
            // It may have ended since; the loop sees that.
            let _ = kill_process(Pid::from_child(&self.child), signal);
            let asked = Instant::now();
            while asked.elapsed() < limit * eighths / 8 {
                if self.ended().is_some() {
                    return;
                }
                sleep(Duration::from_millis(5));
            }
        }
    }
}

/// The major version that made the cluster, `None` where there is no cluster yet.
fn made_by(pgdata: &Path) -> Result<Option<u32>, Error> {
    let path = pgdata.join("PG_VERSION");
    match fs::read_to_string(&path) {
        Ok(version) => match version.trim().split('.').next().and_then(|major| major.parse().ok()) {
            Some(major) => Ok(Some(major)),
            None => Err(Error::NotACluster { path: pgdata.to_owned() }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::remove_dir(pgdata) {
            // An empty folder is no loss; anything else stays as it is.
            Ok(()) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(_) => Err(Error::NotACluster { path: pgdata.to_owned() }),
        },
        Err(source) => Err(Error::io("read", &path)(source)),
    }
}

/// Runs `initdb`. The superuser is `minitill`; only who may enter the folder of the socket can connect at all.
fn make(folder: &Path, pgdata: &Path, programs: &Programs, user: Option<&User>) -> Result<(), Error> {
    remove_half_made(folder)?;
    let side = folder.join(format!("{PGDATA}.new.{}", std::process::id()));
    create_private(&side, user)?;
    let initdb = programs.path("initdb");
    let mut command = shim::command(&initdb, user);
    command.arg("-D").arg(&side).args(["--username=minitill", "--encoding=UTF8", "--locale=C"]);
    command.args(["--auth-local=trust", "--auth-host=reject", "--data-checksums", "--no-instructions"]);
    if cfg!(target_os = "linux") {
        command.arg("--no-sync"); // a thousand small files at once are faster than one by one, see below
    }
    let output = command.output().map_err(Error::io("start", &initdb))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        return Err(Error::Initdb { status: output.status.to_string(), output: last_lines(&said) });
    }
    // All of it must be on the disk before it gets its name, and then the name too.
    #[cfg(target_os = "linux")]
    File::open(&side)
        .and_then(|side| Ok(rustix::fs::syncfs(side)?))
        .map_err(Error::io("write to the disk what is in", &side))?;
    fs::rename(&side, pgdata).map_err(Error::io("rename", &side))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io("write to the disk", folder))
}

/// Side folders of runs that were killed half-way.
fn remove_half_made(folder: &Path) -> Result<(), Error> {
    let start = format!("{PGDATA}.new.");
    let entries = fs::read_dir(folder).map_err(Error::io("list", folder))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.file_name().is_some_and(|name| name.as_bytes().starts_with(start.as_bytes())) {
            fs::remove_dir_all(&path).map_err(Error::io("remove", &path))?;
        }
    }
    Ok(())
}

/// A path as one entry of the list that the option `-k` takes: commas and spaces in it separate nothing.
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

/// The last lines that were written to the log since `start`, on one line.
fn tail(log: &Path, start: u64) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(start.max(length.saturating_sub(LOG_TAIL_BYTES))))?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_or_else(|error| format!("(not readable: {error})"), |bytes| last_lines(&bytes))
}

fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_folder_is_one_entry_of_a_list_whatever_its_name() {
        assert_eq!(quoted(Path::new("/a b,c/\"d\"")), OsString::from("\"/a b,c/\"\"d\"\"\""));
    }

    #[test]
    fn an_error_shows_the_last_lines_only() {
        assert_eq!(last_lines(b"1\n2\n3\n\n4\n5\n6\n"), "2 | 3 | 4 | 5 | 6");
        assert_eq!(last_lines(b"alone"), "alone");
        assert_eq!(last_lines(b""), "");
    }

    #[test]
    fn the_private_postgresql_is_durable() {
        for name in ["fsync", "full_page_writes", "synchronous_commit"] {
            assert!(SETTINGS.contains(&(name, "on")), "{name}");
        }
    }
}
