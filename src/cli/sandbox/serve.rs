//! `minitill sandbox serve`: the platform on a laptop (contract 18). One process with a PostgreSQL in a throw-away folder.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use clap::Args;
use domain::clock::Clock;
use domain::picture_store::PictureStore;
use domain::secret::Secret;
use futures_util::FutureExt as _;
use ipnet::IpNet;
use private_postgres::ThrowAwayFolder;
use store::Store;

use super::super::serve::{self, Sandbox};
use super::super::{Context, database};
use super::seed::Seed;
use crate::config::Config;
use crate::sandbox_server::{SandboxClock, SandboxServer};

/// The prefix of the name of a throw-away folder.
const FOLDER: &str = "minitill-sandbox";
/// Networks of this machine, in which the games under test are.
const THIS_MACHINE: [&str; 2] = ["127.0.0.0/8", "::1/128"];

#[derive(Debug, Args)]
pub(in super::super) struct ServeArguments {
    /// Apps, players and pictures at the start [default: what `minitill sandbox seed` prints]
    #[arg(long, value_name = "FILE")]
    seed: Option<PathBuf>,
    /// Port of the public listener on this machine; that of the operator's listener is the next one. 0 takes two free
    /// ports [default: as public.listen and ops.listen say]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
}

/// Runs the server until a signal stops it. Its folder goes with it.
pub(in super::super) async fn run(context: &Context, arguments: &ServeArguments) -> Result<()> {
    let seed = Seed::read(arguments.seed.as_deref())?;
    let sweeping = || ThrowAwayFolder::in_folder(&std::env::temp_dir(), FOLDER);
    let folder =
        tokio::task::spawn_blocking(sweeping).await.map_err(|fault| anyhow!("the folder: {fault}"))?;
    let folder = folder.map_err(|error| database::explain(&error))?;
    let clock = Arc::new(SandboxClock::default());
    let (server, resets) = SandboxServer::new(Arc::clone(&clock));
    let context = Arc::new(Context {
        config: settings(&context.config, arguments.port, &seed, folder.path().to_owned())?,
        clock: clock as Arc<dyn Clock>,
        output: context.output.clone(),
        operator: context.operator.clone(),
        operator_given: None,
    });
    let planter = Arc::clone(&context);
    let plant = Box::new(move |store: Store| async move { seed.plant(&planter, &store).await }.boxed());
    serve::run(&context, Some(Sandbox { server, resets, plant })).await
}

/// The settings of a sandbox server: what it keeps is in its folder, and games and their pictures may be on this machine.
fn settings(config: &Config, port: Option<u16>, seed: &Seed, folder: PathBuf) -> Result<Config> {
    let mut config = config.clone();
    if let Some(port) = port {
        let here = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let next = if port == 0 { Some(0) } else { port.checked_add(1) };
        let next = next.ok_or_else(|| anyhow!("--port: expected a port from 0 to 65534"))?;
        (config.public.listen, config.ops.listen) = (here(port), here(next));
    }
    config.database.url = Secret::default();
    config.database.data_dir = folder;
    config.public.docs = true;
    config.console.time_zone = seed.time_zone.clone();
    config.image.store = PictureStore::Database;
    // The folder goes with the server, and a full disk is the machine's own affair.
    config.image.disk_free_min = 0;
    reach_this_machine(&mut config);
    Ok(config)
}

/// The settings with which notifications and fetches reach this machine, on any port: games under test are here.
pub(in super::super) fn reach_this_machine(config: &mut Config) {
    let here: [IpNet; 2] = THIS_MACHINE.map(|network| network.parse().expect("the network is well-formed"));
    config.notify.allow_networks.extend(here);
    config.fetch.allow_networks.extend(here);
    let ports: Vec<u16> = (1..=u16::MAX).collect();
    (config.notify.ports, config.fetch.ports) = (ports.clone(), ports);
}
