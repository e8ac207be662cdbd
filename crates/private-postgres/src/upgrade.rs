//! Upgrades the cluster to a newer major version of PostgreSQL with `pg_upgrade`.
//!
//! The new cluster is made in a side folder, from a copy of the old files. It is started once before
//! it counts. At the end both change places in one step. So `pgdata` is a complete cluster at every
//! moment, and an upgrade that was killed can be run again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::Signal;

use crate::cluster::{Cluster, READY_WITHIN};
use crate::error::{ClusterError, IoContext};
use crate::folder::{PGDATA, data_folder, require_enterable};
use crate::log_file::last_lines;
use crate::options::{ClusterOptions, ProcessRole};
use crate::owner::{Patience, Turn, take_turn};
use crate::programs::Programs;
use crate::stop_request::StopRequest;
use crate::user::{PostgresUser, postgres_user};
use crate::{initdb, leftovers, shim};

/// What `pg_upgrade` runs of the old version.
const OLD_PROGRAMS: [&str; 3] = ["pg_controldata", "pg_ctl", "pg_resetwal"];
/// What it runs of the new version besides.
const NEW_PROGRAMS: [&str; 6] = ["pg_upgrade", "pg_dump", "pg_dumpall", "pg_restore", "psql", "vacuumdb"];

/// The outcome of [`upgrade`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgraded {
    /// The major version of the cluster before.
    pub from: u32,
    /// Its major version now.
    pub to: u32,
    /// The folder of the old cluster. `None`: the cluster had this version already.
    pub kept: Option<PathBuf>,
}

/// Brings the cluster to the version of the programs that [`Programs::find`] finds: of `PG_BIN`, or the
/// newest. Blocks until that is done. It owns the folder as a command does, whatever `options.role` is.
///
/// The programs of the old version are in `old_bin`, or where packages keep them. The old cluster
/// stays in the data folder as `pgdata.postgresql-N`. The disk needs room for a copy of it.
///
/// The program's `main` must call [`become_postgres_if_asked`](crate::become_postgres_if_asked) first.
///
/// # Errors
/// Each [`ClusterError`] is a sentence for the operator, and leaves the cluster as it was.
/// [`ClusterError::ServerRuns`]: a server must be stopped first.
pub fn upgrade(options: &ClusterOptions, old_bin: Option<&Path>) -> Result<Upgraded, ClusterError> {
    let folder = data_folder(&options.data_dir, options.fallback_dir.as_deref())?.path;
    let nothing = || ClusterError::NothingToUpgrade { folder: folder.clone() };
    let pgdata = folder.join(PGDATA);
    if !pgdata.exists() {
        return Err(nothing());
    }
    let role = ProcessRole::Command;
    let _ownership = match take_turn(&folder, role, Patience::of(role))? {
        Turn::Owned(ownership) => ownership,
        Turn::Attached { server: pid, .. } => return Err(ClusterError::ServerRuns { folder, pid }),
    };
    let from = initdb::major_of(&pgdata)?.ok_or_else(nothing)?;
    let new = Programs::find(None)?;
    let to = new.major();
    if to == from {
        return Ok(Upgraded { from, to, kept: None });
    }
    if to < from {
        return Err(Programs::refused(&pgdata, from, &[new]));
    }
    let old = Programs::find_old(old_bin, from)?;
    old.require(&OLD_PROGRAMS)?;
    new.require(&OLD_PROGRAMS)?;
    new.require(&NEW_PROGRAMS)?;
    let user = postgres_user(&pgdata)?;
    require_enterable(&folder, user.as_ref())?;
    let kept = folder.join(format!("{PGDATA}.postgresql-{from}"));
    clear_name(&folder, &kept, from)?;
    let upgrade = Upgrade { name: options.name, folder, pgdata, kept, old, new, user };
    upgrade.run()?;
    Ok(Upgraded { from, to, kept: Some(upgrade.kept) })
}

/// Makes the name free that the old cluster gets.
fn clear_name(folder: &Path, kept: &Path, from: u32) -> Result<(), ClusterError> {
    match initdb::major_of(kept)? {
        None => Ok(()),
        Some(major) if major == from => Err(ClusterError::KeptInTheWay { kept: kept.to_owned() }),
        // The new cluster of an upgrade that was killed just before the exchange.
        Some(_) => initdb::discard(folder, kept),
    }
}

/// An upgrade that may begin.
struct Upgrade {
    name: &'static str,
    folder: PathBuf,
    pgdata: PathBuf,
    kept: PathBuf,
    old: Programs,
    new: Programs,
    user: Option<PostgresUser>,
}

impl Upgrade {
    fn run(&self) -> Result<(), ClusterError> {
        let side = initdb::create_side_folder(&self.folder, self.user.as_ref())?;
        let upgraded = side.join(initdb::UPGRADED);
        // `pg_upgrade` accepts only a cluster that was stopped in good order.
        self.start_and_stop(&self.pgdata, &self.old, |_| Ok(()))?;
        initdb::run(&upgraded, self.name, &self.new, self.user.as_ref())?;
        self.pg_upgrade(&side, &upgraded)?;
        // It starts with the settings of this crate too. The old statistics of tables are lost.
        self.start_and_stop(&upgraded, &self.new, |socket_dir| {
            let host = format!("--host={}", socket_dir.display());
            let arguments = [&*host, "--port=5432", "--username", self.name, "--all", "--analyze-only"];
            self.run_program("vacuumdb", &arguments, &side)
        })?;
        initdb::sync_all_in(&upgraded)?;
        // Both have their lasting names after the exchange, so nothing remains to be done if it is the
        // last that happens.
        fs::rename(&upgraded, &self.kept).doing("rename", &upgraded)?;
        initdb::sync_folder(&self.folder)?;
        renameat_with(CWD, &self.kept, CWD, &self.pgdata, RenameFlags::EXCHANGE)
            .doing("exchange with the new cluster", &self.pgdata)?;
        initdb::sync_folder(&self.folder)?;
        // The upgrade is done. What cannot be removed now is removed by the next one.
        let _ = fs::remove_dir_all(&side);
        Ok(())
    }

    /// `pg_upgrade` in its default mode, which copies the files and leaves the old ones alone. Its
    /// working directory gets its reports.
    fn pg_upgrade(&self, side: &Path, upgraded: &Path) -> Result<(), ClusterError> {
        let cluster = self.cluster(upgraded, &self.new)?;
        let mut arguments = vec!["--username".into(), self.name.into()];
        for (option, value) in [
            ("--old-bindir", self.old.folder()),
            ("--new-bindir", self.new.folder()),
            ("--old-datadir", &self.pgdata),
            ("--new-datadir", upgraded),
            ("--socketdir", cluster.socket_dir()),
            ("--old-port", "5432".as_ref()),
            ("--new-port", "5432".as_ref()),
        ] {
            arguments.extend([option.into(), value.as_os_str().to_owned()]);
        }
        let outcome = self.run_program("pg_upgrade", &arguments, side);
        // After a failure its PostgreSQL may still run.
        let ended = leftovers::end(&self.pgdata).and_then(|()| leftovers::end(upgraded));
        cluster.tidy();
        outcome.and(ended)
    }

    /// Starts a cluster, which recovers if it was killed, does something, and stops it in good order.
    fn start_and_stop(
        &self,
        pgdata: &Path,
        programs: &Programs,
        then: impl FnOnce(&Path) -> Result<(), ClusterError>,
    ) -> Result<(), ClusterError> {
        let cluster = self.cluster(pgdata, programs)?;
        let (_never, stop) = mpsc::channel();
        let started = cluster.start(&mut StopRequest::new(stop))?;
        let mut running = started.ok_or(ClusterError::SupervisorEnded)?;
        let outcome = then(cluster.socket_dir());
        running.stop(READY_WITHIN);
        cluster.tidy();
        outcome
    }

    fn cluster(&self, pgdata: &Path, programs: &Programs) -> Result<Cluster, ClusterError> {
        Cluster::at(self.folder.clone(), pgdata.to_owned(), self.name, programs.clone(), self.user.clone())
    }

    /// Runs a program of the new version to its end, in the side folder. If this program dies, it is
    /// killed: `pg_upgrade` would not follow any other signal while a program of its own runs.
    fn run_program(
        &self,
        program: &'static str,
        arguments: &[impl AsRef<std::ffi::OsStr>],
        side: &Path,
    ) -> Result<(), ClusterError> {
        let path = self.new.path(program);
        let mut command = shim::command(&path, self.user.as_ref(), Signal::KILL);
        let output = command.args(arguments).current_dir(side).output().doing("start", &path)?;
        if output.status.success() {
            return Ok(());
        }
        let (status, output) = (output.status.to_string(), [output.stdout, output.stderr].concat());
        let output = last_lines(&output);
        Err(ClusterError::UpgradeFailed { program, status, files: side.to_owned(), output })
    }
}
