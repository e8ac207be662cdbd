//! The PostgreSQL that everything is measured on, and the folder that goes away with it.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use private_postgres::{ClusterOptions, PrivateCluster, ProcessRole, Programs};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _};
use tokio::runtime::Runtime;

use super::Fallible;

/// The superuser of the PostgreSQL.
pub(crate) const USER: &str = store::DatabaseAddress::PRIVATE_USER;

/// A durable PostgreSQL, one session on it, and a folder. Dropped in this order.
pub struct Stage {
    session: Session,
    cluster: PrivateCluster,
    folder: Folder,
}

impl Stage {
    /// Starts a PostgreSQL on a fresh folder, under the one that was asked for, and checks that it
    /// keeps what it commits.
    pub fn open(under: Option<&PathBuf>) -> Fallible<Self> {
        let folder = Folder::create(under)?;
        let data_dir = folder.path().join("postgresql");
        let cluster = PrivateCluster::open(&ClusterOptions {
            is_durable: true,
            name: USER,
            data_dir,
            fallback_dir: None,
            role: ProcessRole::Server,
        })?;
        let session = Session::open(&url(cluster.socket_dir()))?;
        let mut stage = Self { session, cluster, folder };
        for setting in ["fsync", "synchronous_commit"] {
            let value = stage.session.text(&format!("SHOW {setting}"))?;
            if value != "on" {
                return Err(format!("{setting} is {value}: what is not durable is not measured").into());
            }
        }
        Ok(stage)
    }

    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn socket_dir(&self) -> &Path {
        self.cluster.socket_dir()
    }

    pub fn url(&self) -> String {
        url(self.cluster.socket_dir())
    }

    /// The path of one of PostgreSQL's own programs.
    pub fn program(&mut self, name: &str) -> Fallible<PathBuf> {
        let major = self.session.number("SELECT current_setting('server_version_num')::bigint / 10000")?;
        Ok(Programs::find(Some(u32::try_from(major)?))?.path(name))
    }

    /// The process id of PostgreSQL's first process.
    pub fn postmaster(&self) -> Fallible<u32> {
        let text = fs::read_to_string(self.cluster.folder().join("pgdata/postmaster.pid"))?;
        Ok(text.lines().next().unwrap_or_default().trim().parse()?)
    }
}

fn url(socket_dir: &Path) -> String {
    let host = utf8_percent_encode(&socket_dir.to_string_lossy(), NON_ALPHANUMERIC).to_string();
    format!("postgres:///postgres?host={host}&user={USER}")
}

/// A session for plain SQL, without async around it.
pub struct Session {
    pub runtime: Runtime,
    pub connection: PgConnection,
}

impl Session {
    fn open(url: &str) -> Fallible<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connection = runtime.block_on(PgConnection::connect(url))?;
        Ok(Self { runtime, connection })
    }

    pub fn execute(&mut self, statements: &str) -> Fallible<()> {
        let statements = sqlx::raw_sql(AssertSqlSafe(statements));
        self.runtime.block_on(self.connection.execute(statements))?;
        Ok(())
    }

    /// The one value that a statement gives, as a number.
    pub fn number(&mut self, statement: &str) -> Fallible<i64> {
        let row =
            self.runtime.block_on(self.connection.fetch_one(sqlx::raw_sql(AssertSqlSafe(statement))))?;
        Ok(row.try_get(0)?)
    }

    /// The same as a text.
    pub fn text(&mut self, statement: &str) -> Fallible<String> {
        let row =
            self.runtime.block_on(self.connection.fetch_one(sqlx::raw_sql(AssertSqlSafe(statement))))?;
        Ok(row.try_get(0)?)
    }
}

/// A folder of this run, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    /// Under the folder that was asked for; else in Cargo's `target/tmp`, unless PostgreSQL may not enter that:
    /// under root it runs as another user.
    fn create(asked_for: Option<&PathBuf>) -> Fallible<Self> {
        let program = std::env::current_exe()?;
        let target = program.ancestors().nth(3).ok_or("the benchmark lies in no folder")?;
        let usual = [target.join("tmp"), PathBuf::from("/var/tmp")];
        let candidates = asked_for.map_or(usual.as_slice(), std::slice::from_ref);
        let mut reasons = Vec::new();
        for parent in candidates {
            let path = std::path::absolute(parent)?.join(format!("benchmark-{}", std::process::id()));
            match why_not(&path) {
                Some(reason) => reasons.push(reason),
                None => return Self::create_at(path),
            }
        }
        Err(format!("{}; name another with --folder", reasons.join("; ")).into())
    }

    fn create_at(path: PathBuf) -> Fallible<Self> {
        DirBuilder::new()
            .recursive(true)
            .create(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let folder = Self(path);
        // Whatever the umask says, for the same reason.
        fs::set_permissions(&folder.0, Permissions::from_mode(0o755))?;
        Ok(folder)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Why a folder will not do, if so.
fn why_not(path: &Path) -> Option<String> {
    if let Err(error) = private_postgres::data_folder(path, None) {
        return Some(error.to_string());
    }
    let kind = file_system(path);
    let in_memory = ["tmpfs", "ramfs"].contains(&kind.as_str());
    in_memory.then(|| format!("{} is in memory ({kind}), where durability costs nothing", path.display()))
}

/// The kind of file system that holds a path, such as `ext4`; empty where the system does not tell.
pub fn file_system(path: &Path) -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let holding = fields.filter_map(|fields| match fields[..] {
        [_, point, kind, ..] if path.starts_with(point) => Some((point.len(), kind.to_owned())),
        _ => None,
    });
    // The last of several on one point hides the others.
    holding.max_by_key(|(length, _)| *length).map_or_else(String::new, |(_, kind)| kind)
}
