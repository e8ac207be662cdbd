//! The ceiling: the library's own server with a store that answers at once. The benchmark starts
//! itself again for it, because it must be a process like `minitill serve`.

use std::io::Read as _;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;

use domain::clock::{Clock, SystemClock};
use minitill::cli;
use minitill::config::Config;
use minitill::public::router;
use minitill::state::AppState;
use store::secrets::Keyring;
use store::{DatabaseAddress, Store};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::Fallible;
use crate::program::Program;
use crate::servers::{READY, Server};

/// The argument that asks for this server.
const ARGUMENT: &str = "ceiling-server";

pub(crate) fn is_asked() -> bool {
    std::env::args_os().nth(1).is_some_and(|argument| argument == ARGUMENT)
}

/// Starts this server.
pub(crate) fn start(program: &Program) -> Fallible<Server> {
    let this = std::env::current_exe()?;
    // Its standard input closes when this process ends, in whatever way: then it ends too.
    Server::start(program.command(&this).arg(ARGUMENT).stdin(Stdio::piped()))
}

/// Serves until SIGTERM, or until whoever started it is gone.
pub(crate) fn run() -> Fallible<()> {
    let config = Config::load(None, std::env::vars())?;
    cli::start_log(&config.log.filter, config.log.format)?;
    // The same runtime as that of `minitill serve`.
    http_server::runtime()?.block_on(serve(config))
}

async fn serve(config: Config) -> Fallible<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let address = DatabaseAddress::from_url(config.database.url.get().unwrap_or_default())?;
    let store = Store::connect(&address, config.store_settings(), Arc::clone(&clock)).await?;
    let key = Keyring::parse(config.secrets.master_key.get().unwrap_or_default(), "secrets.master_key")?;
    store.unlock(&key).await?;
    let listener = TcpListener::bind(config.public.listen).await?;
    let (address, limits) = (listener.local_addr()?, config.server_limits());
    http_server::raise_open_files_limit()?;
    let till = AppState::new(config, clock, store.answering_at_once());
    let (stop, stopped) = watch::channel(false);
    let open = till.connections.clone();
    let serving =
        tokio::spawn(http_server::serve(listener, None, router::public(till), limits, open, stopped));
    eprintln!("{READY}{address}");
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = starter_gone() => {}
    }
    let _ = stop.send(true);
    serving.await??;
    Ok(())
}

/// Tells when standard input, which the benchmark holds open, is closed.
fn starter_gone() -> oneshot::Receiver<()> {
    let (gone, told) = oneshot::channel();
    thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        let _ = gone.send(());
    });
    told
}
