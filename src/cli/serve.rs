//! `minitill serve` runs both listeners until a signal stops the server.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use domain::picture_store::Outside;
use http_server::TlsIdentity;
use store::{Store, StoreError};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::{Context, Failure, database};
use crate::operator;
use crate::public::router;
use crate::state::AppState;

/// The time from the signal to the exit, with a margin below the ten seconds of contract 9.
const EXIT_WITHIN: Duration = Duration::from_millis(9500);
/// How often expired rows are removed.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_hours(1);
/// How often the counts of replays are stored.
const REPLAYS_INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn run(context: &Context) -> Result<(), Failure> {
    let config = &context.config;
    let mut stop = StopSignal::new()?;
    if let Err(error) = http_server::raise_open_files_limit() {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    // This comes before the database starts, so an address in use is reported at once.
    let public = listen("public", config.public.listen).await?;
    let operator = listen("ops", config.ops.listen).await?;
    let public_tls = tls("public", &config.public.tls_certificate, &config.public.tls_key)?;
    let operator_tls = tls("ops", &config.ops.tls_certificate, &config.ops.tls_key)?;
    let opened = tokio::select! {
        opened = database::open_for_server(context) => opened?,
        () = stop.asked() => return Ok(()),
    };
    open_picture_stores(context, &opened.store).await?;
    let state = AppState::new(config.clone(), std::sync::Arc::clone(&context.clock), opened.store.clone());
    let (stop_public, public_stopped) = watch::channel(false);
    let (stop_operator, operator_stopped) = watch::channel(false);
    let limits = config.server_limits();
    let url = |listener: &TcpListener, tls: Option<&TlsIdentity>| {
        let scheme = if tls.is_some() { "https" } else { "http" };
        listener.local_addr().map(|address| format!("{scheme}://{address}"))
    };
    let public_url = url(&public, public_tls.as_ref())?;
    let operator_url = url(&operator, operator_tls.as_ref())?;
    let (routes, connections) = (router::public(state.clone()), state.connections.clone());
    let mut serving = tokio::spawn(http_server::serve_counted(
        public,
        public_tls,
        routes,
        limits,
        connections,
        public_stopped,
    ));
    let operator_routes = operator::operator(state.clone());
    let sampling = tokio::spawn(operator::keep_sampling(state.clone()));
    let watching =
        tokio::spawn(http_server::serve(operator, operator_tls, operator_routes, limits, operator_stopped));
    let housekeeping = tokio::spawn(keep_house(opened.store.clone()));
    tracing::info!("ready: public {public_url}, operator {operator_url}; try `minitill demo`");
    let ended_early = tokio::select! {
        ended = &mut serving => Some(ended),
        () = stop.asked() => None,
    };
    tracing::info!("stopping: new connections are refused, requests in progress are finished");
    let exit_by = tokio::time::Instant::now() + EXIT_WITHIN;
    let _ = stop_public.send(true);
    let drained = match ended_early {
        Some(ended) => ended,
        None => serving.await,
    };
    if let Some(tracer) = &state.tracer {
        tracer.flush().await;
    }
    let _ = stop_operator.send(true);
    watching.abort();
    housekeeping.abort();
    sampling.abort();
    // The counts of the last second.
    let _ = tokio::time::timeout(REPLAYS_INTERVAL, opened.store.write_replays()).await;
    opened.close(exit_by.saturating_duration_since(tokio::time::Instant::now())).await;
    match drained {
        Ok(Ok(drained)) => {
            tracing::info!(connections_cut = drained.connections_cut, "stopped");
            Ok(())
        }
        Ok(Err(error)) => Err(error.into()),
        Err(fault) => Err(Failure(format!("the server's task ended: {fault}"))),
    }
}

/// Checks the picture stores. The server refuses to start with a store of another installation. It starts
/// without a store that does not answer: only pictures need it, and it can come back.
async fn open_picture_stores(context: &Context, store: &Store) -> Result<(), Failure> {
    for outside in Outside::ALL.into_iter().filter(|outside| store.has_picture_store(*outside)) {
        match store.open_picture_store(outside).await {
            Ok(Ok(())) => {}
            Ok(Err(misfit)) => return Err(Failure(misfit)),
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

async fn listen(name: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address)
        .await
        .map_err(|error| Failure(format!("{name}.listen: cannot listen on {address}: {error}")))
}

/// The TLS of a listener, if the settings name a certificate. A task reloads renewed certificates.
fn tls(name: &str, certificate: &Path, key: &Path) -> Result<Option<TlsIdentity>, Failure> {
    if certificate.as_os_str().is_empty() {
        return Ok(None);
    }
    let loaded = TlsIdentity::load(certificate, key);
    let tls =
        loaded.map_err(|error| Failure(format!("{name}.tls_certificate and {name}.tls_key: {error}")))?;
    tokio::spawn(tls.clone().keep_fresh());
    Ok(Some(tls))
}

async fn keep_house(store: Store) {
    let mut cleaning = tokio::time::interval(HOUSEKEEPING_INTERVAL);
    let mut replays = tokio::time::interval(REPLAYS_INTERVAL);
    replays.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = cleaning.tick() => clean(&store).await,
            _ = replays.tick() => {
                if let Err(error) = store.write_replays().await {
                    tracing::warn!(%error, "counts of replays could not be stored; they are lost");
                }
            }
        }
    }
}

async fn clean(store: &Store) {
    if let Err(error) = store.forget_old_requests().await {
        tracing::warn!(%error, "old answers of the admin API could not be removed; next attempt in an hour");
    }
    if let Err(error) = store.forget_expired_tokens().await {
        tracing::warn!(%error, "expired tokens could not be removed; next attempt in an hour");
    }
    if let Err(error) = store.forget_ended_console_sessions().await {
        tracing::warn!(%error, "ended console sessions could not be removed; next attempt in an hour");
    }
    if let Err(error) = store.forget_old_replays().await {
        tracing::warn!(%error, "old counts of replays could not be removed; next attempt in an hour");
    }
}

/// SIGTERM, or Ctrl-C.
struct StopSignal {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignal {
    fn new() -> Result<Self, Failure> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
