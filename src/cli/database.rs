//! Opens the store for a command or for the server (contract 9.1 to 9.4). First comes the database of the settings or
//! the private PostgreSQL, then the schema, then the master key. For the server the picture stores come last.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Error, Result, anyhow, bail};
use domain::picture_store::Outside;
use private_postgres::{ClusterError, ClusterOptions, PrivateCluster, ProcessRole};
use store::secrets::Keyring;
use store::{DatabaseAddress, Engine, MasterKeyRefused, Store, StoreError, StoreSettings};

use super::Context;
use super::master_key::origin;
use crate::config::{Config, private_files};

/// How long a command or a starting server tries to reach its database.
pub(super) const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Database connections of a command.
const COMMAND_CONNECTIONS: u32 = 4;
/// How long a command waits for a connection. A request waits less.
const COMMAND_ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// The data folder under root, if PostgreSQL's user may not enter `database.data_dir` (contract 9.1.6).
const FALLBACK_DIR: &str = "/var/lib/minitill";
/// How long the store may take to close its connections.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// The treatment of the schema when a store is opened.
#[derive(Debug, Clone, Copy)]
pub(super) enum SchemaSetup {
    /// A database with a URL must have it already.
    IsThere,
    /// It is migrated, for this engine or for the one that the database has.
    Migrates(Option<Engine>),
}

/// An open store with its data folder and its database.
pub(super) struct Opened {
    pub(super) store: Store,
    /// The tables that the migration has distributed.
    pub(super) distributed: Vec<&'static str>,
    /// The data folder in use.
    pub(super) folder: PathBuf,
    cluster: Option<PrivateCluster>,
}

impl Opened {
    /// Whether this process runs its PostgreSQL by itself.
    pub(super) fn is_private(&self) -> bool {
        self.cluster.is_some()
    }

    /// Closes the connections. Then stops the private PostgreSQL within `limit`, if this process owns it.
    pub(super) async fn close(self, limit: Duration) {
        close(&self.store).await;
        if let Some(cluster) = self.cluster {
            let _ = tokio::task::spawn_blocking(move || cluster.stop_within(limit)).await;
        }
    }
}

/// Opens the store for a command, which tries for `patience` to reach its database.
pub(super) async fn open_for_command(
    context: &Context,
    schema: SchemaSetup,
    patience: Duration,
) -> Result<Opened> {
    let settings = StoreSettings {
        connections: COMMAND_CONNECTIONS,
        connections_at_start: 1,
        acquire_timeout: COMMAND_ACQUIRE_TIMEOUT,
        must_write: false,
        ..context.config.store_settings()
    };
    open(context, ProcessRole::Command, settings, schema, patience).await
}

/// Opens the store for the server, applies the migrations, loads the master key and checks the picture stores.
pub(super) async fn open_for_server(context: &Context) -> Result<Opened> {
    let settings = context.config.store_settings();
    let opened =
        open(context, ProcessRole::Server, settings, SchemaSetup::Migrates(None), CONNECT_PATIENCE).await?;
    open_picture_stores(context, &opened.store).await?;
    Ok(opened)
}

/// Opens the store of a sandbox server in its new folder: nothing waits for a disk, and its clock can be moved (contract 18).
pub(super) async fn open_for_sandbox(context: &Context) -> Result<Opened> {
    let options = ClusterOptions {
        fallback_dir: None,
        is_durable: false,
        ..cluster_options(context.config.database.data_dir.clone(), ProcessRole::Server)
    };
    let cluster = open_cluster(options).await?;
    let address = DatabaseAddress::from_socket_dir(cluster.socket_dir());
    let opening = async {
        store::prepare_sandbox_database(&address).await?;
        let settings = context.config.store_settings();
        let schema = SchemaSetup::Migrates(None);
        connect(context, &address, &settings, cluster.folder(), schema, CONNECT_PATIENCE).await
    };
    match opening.await {
        Ok((store, distributed)) => {
            Ok(Opened { store, distributed, folder: cluster.folder().to_owned(), cluster: Some(cluster) })
        }
        Err(error) => {
            let _ = tokio::task::spawn_blocking(move || drop(cluster)).await;
            Err(error)
        }
    }
}

/// Checks the picture stores. The server refuses to start with a store of another installation. It starts
/// without a store that does not answer: only pictures need it, and it can come back.
async fn open_picture_stores(context: &Context, store: &Store) -> Result<()> {
    for outside in Outside::ALL.into_iter().filter(|outside| store.has_picture_store(*outside)) {
        match store.open_picture_store(outside).await {
            Ok(Ok(())) => {}
            Ok(Err(misfit)) => return Err(Error::msg(misfit)),
            Err(StoreError::PicturesUnavailable(cause)) => {
                let takes_new = context.config.image.store.outside() == Some(outside);
                tracing::error!(
                    cause,
                    takes_new,
                    "a picture store does not answer; the server starts without it"
                );
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

async fn open(
    context: &Context,
    role: ProcessRole,
    settings: StoreSettings,
    schema: SchemaSetup,
    patience: Duration,
) -> Result<Opened> {
    let database = &context.config.database;
    let (address, folder, cluster) = if let Some(url) = database.url.get() {
        let address = DatabaseAddress::from_url(url).map_err(Error::msg)?;
        (address, std::path::absolute(&database.data_dir)?, None)
    } else {
        let cluster = open_cluster(cluster_options(database.data_dir.clone(), role)).await?;
        let address = DatabaseAddress::from_socket_dir(cluster.socket_dir());
        (address, cluster.folder().to_owned(), Some(cluster))
    };
    // The private PostgreSQL always gets the schema of its program.
    let schema = match (schema, &cluster) {
        (SchemaSetup::IsThere, Some(_)) => SchemaSetup::Migrates(None),
        (schema, _) => schema,
    };
    match connect(context, &address, &settings, &folder, schema, patience).await {
        Ok((store, distributed)) => Ok(Opened { store, distributed, folder, cluster }),
        Err(error) => {
            let _ = tokio::task::spawn_blocking(move || drop(cluster)).await;
            Err(error)
        }
    }
}

/// Connects to the database and prepares it. Waits while it is starting. An address may also lead to a standby
/// at first, or to nobody: `HAProxy` does not know the primary before it has asked all hosts.
async fn connect(
    context: &Context,
    address: &DatabaseAddress,
    settings: &StoreSettings,
    folder: &Path,
    schema: SchemaSetup,
    patience: Duration,
) -> Result<(Store, Vec<&'static str>)> {
    let give_up = tokio::time::Instant::now() + patience;
    let mut told = None;
    loop {
        let error = match try_to_connect(context, address, settings, folder, schema).await {
            Ok(opened) => return Ok(opened),
            Err(error) => error,
        };
        let Some(StoreError::Unavailable(outage, cause)) = error.downcast_ref() else { return Err(error) };
        let placed = StoreError::Unavailable(*outage, format!("{cause} ({})", address.places()));
        if placed.is_lasting() || tokio::time::Instant::now() >= give_up {
            return Err(placed.into());
        }
        // It tries four times a second: a line of each would hide the first.
        if told.as_ref() != Some(&placed) {
            tracing::info!(error = %placed, "waiting for the database");
            told = Some(placed);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

async fn try_to_connect(
    context: &Context,
    address: &DatabaseAddress,
    settings: &StoreSettings,
    folder: &Path,
    schema: SchemaSetup,
) -> Result<(Store, Vec<&'static str>)> {
    let store = Store::connect(address, settings.clone(), Arc::clone(&context.clock)).await?;
    let prepared = prepare(&store, &context.config, folder, schema).await;
    if prepared.is_err() {
        close(&store).await;
    }
    prepared.map(|distributed| (store, distributed))
}

/// Brings the schema up to date, or checks it, and loads the master key.
async fn prepare(
    store: &Store,
    config: &Config,
    folder: &Path,
    schema: SchemaSetup,
) -> Result<Vec<&'static str>> {
    let distributed = match schema {
        SchemaSetup::IsThere => {
            store.ensure_migrated().await?;
            Vec::new()
        }
        SchemaSetup::Migrates(engine) => store.migrate(engine).await?,
    };
    unlock(store, config, folder).await?;
    Ok(distributed)
}

async fn close(store: &Store) {
    let _ = tokio::time::timeout(CLOSE_PATIENCE, store.close()).await;
}

async fn open_cluster(options: ClusterOptions) -> Result<PrivateCluster> {
    let role = options.role;
    // A first start takes seconds, and says why. A sandbox server does so each time.
    if options.is_durable && is_first_start(&options) {
        tell(role, "this is the first start here: it makes a private PostgreSQL, which takes some seconds");
    }
    let opening = tokio::task::spawn_blocking(move || PrivateCluster::open(&options));
    let opened = opening.await.map_err(|fault| anyhow!("starting the private PostgreSQL: {fault}"))?;
    let cluster = opened.map_err(|error| explain(&error))?;
    if let Some(notice) = cluster.notice() {
        match role {
            ProcessRole::Server => tracing::warn!("{notice}"),
            ProcessRole::Command => super::output::complain(notice),
        }
    }
    Ok(cluster)
}

fn is_first_start(options: &ClusterOptions) -> bool {
    let folder = private_postgres::data_folder(&options.data_dir, options.fallback_dir.as_deref());
    folder.is_ok_and(|folder| !folder.path.join("pgdata").exists())
}

fn tell(role: ProcessRole, remark: &str) {
    match role {
        ProcessRole::Server => tracing::info!("{remark}"),
        ProcessRole::Command => super::output::complain(remark),
    }
}

/// The private PostgreSQL of a data folder.
pub(super) fn cluster_options(data_dir: PathBuf, role: ProcessRole) -> ClusterOptions {
    let (name, fallback_dir) = (DatabaseAddress::PRIVATE_USER, Some(FALLBACK_DIR.into()));
    ClusterOptions { name, data_dir, fallback_dir, role, is_durable: true }
}

/// The error for the operator.
pub(super) fn explain(error: &ClusterError) -> Error {
    Error::msg(sentence(error))
}

/// The text of an error, with the settings that can solve it (contract 9.1.8).
fn sentence(error: &ClusterError) -> String {
    let way_out = match error {
        ClusterError::NoPrograms | ClusterError::TooOld { .. } => {
            ", or set DATABASE_URL to a PostgreSQL that is already there"
        }
        ClusterError::NoUser => ", or set DATABASE_URL",
        ClusterError::NotEnterable { .. } | ClusterError::NotACluster { .. } => {
            ", or choose another database.data_dir"
        }
        ClusterError::OtherVersion { wanted, newest, .. } if newest > wanted => {
            ", or run `minitill postgres upgrade`"
        }
        ClusterError::NoOldPrograms { .. } => " with --old-bin",
        ClusterError::ServerRuns { .. } => ", or give this one a database.data_dir of its own",
        _ => "",
    };
    format!("{error}{way_out}")
}

/// Loads the master key, or creates one if there is no key and no app yet.
async fn unlock(store: &Store, config: &Config, folder: &Path) -> Result<()> {
    let file = if config.secrets.master_key_file.as_os_str().is_empty() {
        folder.join("master.key")
    } else {
        config.secrets.master_key_file.clone()
    };
    let keyring = match config.secrets.master_key.get() {
        Some(text) => Keyring::parse(text, "secrets.master_key")?,
        None => match read_keyring(&file)? {
            Some(keyring) => keyring,
            None if store.has_apps().await? => bail!(
                "there is no master key at {}, but the database has apps that are encrypted with one; \
                 restore the file or set MINITILL_SECRETS__MASTER_KEY",
                file.display()
            ),
            None => Keyring::create(&file)?,
        },
    };
    store.unlock(&keyring).await.map_err(|refused| match refused {
        MasterKeyRefused::DoesNotFit | MasterKeyRefused::FormerKeyMissing => {
            anyhow!("{refused} (key from {})", origin(&keyring))
        }
        MasterKeyRefused::Store(error) => error.into(),
    })
}

/// The keys of a file that no stranger can write (contract 9.4.8).
fn read_keyring(file: &Path) -> Result<Option<Keyring>> {
    if let Some(warning) = private_files::warning(file)? {
        tracing::warn!("{warning}");
    }
    Ok(Keyring::read(file)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract 9.1.8.
    #[test]
    fn without_programs_the_sentence_names_every_way_out() {
        let text = sentence(&ClusterError::NoPrograms);
        for part in ["apt install", "dnf install", "brew install", "DATABASE_URL"] {
            assert!(text.contains(part), "{part} is missing in: {text}");
        }
        assert!(!text.contains('\n'), "one sentence");
        let text = sentence(&ClusterError::NotACluster { path: "/a/pgdata".into() });
        assert!(text.ends_with("move it away, or choose another database.data_dir"), "{text}");
    }
}
