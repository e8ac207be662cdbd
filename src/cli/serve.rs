//! `minitill serve` runs both listeners until a signal stops the server.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use domain::picture_store::Outside;
use http_server::{OpenConnections, TlsIdentity};
use sd_notify::NotifyState;
use store::{Store, StoreError};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::running::Addresses;
use super::{Context, database, service_manager};
use crate::config::{Config, Listener, private_files};
use crate::metrics::APPS_MAX;
use crate::notify;
use crate::operator;
use crate::public::router;
use crate::state::AppState;

/// The time from the signal to the exit, with a margin below the ten seconds of contract 9.6.2.
const EXIT_WITHIN: Duration = Duration::from_millis(9500);
/// How often expired rows are removed.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_hours(1);
/// How often the servers that share the rate limits are counted.
const INSTANCES_INTERVAL: Duration = Duration::from_secs(3);
/// How often old refusals are removed. An app adds at most 60,000 rows on each server meanwhile.
const REFUSALS_INTERVAL: Duration = Duration::from_mins(1);
/// How often new exchanges are added to the sums of their hours. Until then a report reads each of them.
const ROLL_UP_INTERVAL: Duration = Duration::from_secs(10);
/// How many times as long as it worked that task pauses, while there is more to add.
const ROLL_UP_PAUSES: u32 = 30;
/// How often the counts of replays and the refusals are stored.
const REPLAYS_INTERVAL: Duration = Duration::from_secs(1);
/// How long the last counts may take to be stored when the server stops.
const COUNTS_PATIENCE: Duration = Duration::from_secs(1);
/// How long notifications under way may take when the server stops.
const NOTIFYING_PATIENCE: Duration = Duration::from_secs(4);
/// How often the counts of the uses of keys are stored (contract 8.2.3).
const KEY_USES_INTERVAL: Duration = Duration::from_secs(30);

pub(super) async fn run(context: &Context) -> Result<()> {
    let mut config = context.config.clone();
    let mut stop = pin!(stop_signal()?);
    if let Err(error) = http_server::raise_open_files_limit() {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    warn_of_readable_secrets(&config)?;
    // This comes before the database starts, so an address in use is reported at once.
    let (public, public_tls) = listen("public", &mut config.public)?;
    let (operator, operator_tls) = listen("ops", &mut config.ops)?;
    let opened = tokio::select! {
        opened = database::open_for_server(context) => opened?,
        () = &mut stop => return Ok(()),
    };
    open_picture_stores(context, &opened.store).await?;
    // Its disk may be another than that of the settings.
    config.database.data_dir.clone_from(&opened.folder);
    let state = AppState::new(config.clone(), std::sync::Arc::clone(&context.clock), opened.store.clone());
    ask_at_the_start(&state).await?;
    let (stop_public, public_stopped) = watch::channel(false);
    let (stop_operator, operator_stopped) = watch::channel(false);
    warn_of_open_listener(config.ops.listen, operator_tls.is_some());
    let limits = config.server_limits();
    let _left = Addresses::of(&config).leave_in(&opened.folder);
    let (routes, connections) = (router::public(state.clone()), state.connections.clone());
    let notifying = start_notifying(&state, public_stopped.clone());
    let mut serving = tokio::spawn(http_server::serve(
        public,
        public_tls,
        routes,
        limits.clone(),
        connections,
        public_stopped,
    ));
    let routes = operator::operator(state.clone(), operator_tls.clone());
    let connections = OpenConnections::default();
    let beside = [
        tokio::spawn(service_manager::keep_alive()),
        tokio::spawn(operator::keep_sampling(state.clone())),
        tokio::spawn(keep_house(state.clone())),
        tokio::spawn(async move {
            let stopped = operator_stopped;
            let _ = http_server::serve(operator, operator_tls, routes, limits, connections, stopped).await;
        }),
    ];
    let (public, operator) = (config.public.bound_url(), config.ops.bound_url());
    tracing::info!("ready: public {public}, operator {operator}; try `minitill demo`");
    service_manager::tell(NotifyState::Ready);
    let ended_early = tokio::select! {
        ended = &mut serving => Some(ended),
        () = stop => None,
    };
    tracing::info!("stopping: new connections are refused, requests in progress are finished");
    service_manager::tell(NotifyState::Stopping);
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
    let _ = tokio::time::timeout(NOTIFYING_PATIENCE, notifying).await;
    beside.iter().for_each(tokio::task::JoinHandle::abort);
    write_last_counts(&state).await;
    opened.close(exit_by.saturating_duration_since(tokio::time::Instant::now())).await;
    let drained = drained.map_err(|fault| anyhow!("the server's task ended: {fault}"))??;
    tracing::info!(connections_cut = drained.connections_cut, "stopped");
    Ok(())
}

/// Sends notifications.
fn start_notifying(state: &AppState, stopped: watch::Receiver<bool>) -> tokio::task::JoinHandle<()> {
    let (store, sender) = (state.store.clone(), state.notifier.clone());
    let (settings, metrics) = (state.config.notify.clone(), state.metrics.notify().clone());
    let head = state.event_heads.clone();
    tokio::spawn(notify::run(store, sender, settings, metrics, head, stopped))
}

/// What must be known before the first request.
async fn ask_at_the_start(state: &AppState) -> Result<()> {
    state.metrics.name_apps(&state.store.busiest_apps(APPS_MAX).await?);
    state.share_rate_limits().await;
    Ok(())
}

/// Writes what was counted since the last time, and that this instance stops.
async fn write_last_counts(state: &AppState) {
    let (store, samples) = (&state.store, state.metrics.last_hour());
    let goodbye = state.health.tell(store, &samples, true);
    let counts = async {
        tokio::join!(store.write_replays(), store.write_refusals(), store.write_key_uses(), goodbye)
    };
    let _ = tokio::time::timeout(COUNTS_PATIENCE, counts).await;
}

/// Refuses files of secrets that everybody can write, and warns of those that others can read.
fn warn_of_readable_secrets(config: &Config) -> Result<()> {
    let keys = [&config.public.tls_key, &config.ops.tls_key];
    let keys = keys.into_iter().filter(|file| !file.as_os_str().is_empty());
    for file in keys.chain(&config.secret_files) {
        if let Some(warning) = private_files::warning(file)? {
            tracing::warn!("{warning}");
        }
    }
    Ok(())
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

/// Listens as the settings of this section say, and puts the port into them that was chosen for port 0. A
/// task reloads a renewed certificate.
fn listen(section: &str, settings: &mut Listener) -> Result<(TcpListener, Option<TlsIdentity>)> {
    let listener = http_server::listen(settings.listen)
        .map_err(|error| anyhow!("{section}.listen: cannot listen on {}: {error}", settings.listen))?;
    settings.listen = listener.local_addr()?;
    if !settings.has_tls() {
        return Ok((listener, None));
    }
    let Listener { tls_certificate, tls_key, .. } = settings;
    let tls = TlsIdentity::load(tls_certificate, tls_key)
        .map_err(|error| anyhow!("{section}.tls_certificate and {section}.tls_key: {error}"))?;
    tokio::spawn(tls.clone().keep_fresh());
    Ok((listener, Some(tls)))
}

async fn keep_house(state: AppState) {
    // Removing rows can take long, so nothing else waits for it.
    tokio::join!(keep_counts(&state), keep_clean(&state), keep_refusals_few(&state), keep_rolled_up(&state));
}

/// Counts the servers, and writes what was counted of requests.
async fn keep_counts(state: &AppState) {
    let store = &state.store;
    let mut instances = tokio::time::interval(INSTANCES_INTERVAL);
    let mut replays = tokio::time::interval(REPLAYS_INTERVAL);
    let mut key_uses = tokio::time::interval(KEY_USES_INTERVAL);
    for interval in [&mut instances, &mut replays, &mut key_uses] {
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    loop {
        tokio::select! {
            _ = instances.tick() => state.share_rate_limits().await,
            _ = replays.tick() => {
                if let Err(error) = store.write_replays().await {
                    tracing::warn!(%error, "counts of replays could not be stored; they are lost");
                }
                if let Err(error) = store.write_refusals().await {
                    tracing::warn!(%error, "refusals could not be stored; next attempt in a second");
                }
            }
            _ = key_uses.tick() => {
                if let Err(error) = store.write_key_uses().await {
                    tracing::warn!(%error, "uses of keys could not be stored; next attempt in 30 seconds");
                }
            }
        }
    }
}

/// Removes expired rows.
async fn keep_clean(state: &AppState) {
    let mut cleaning = tokio::time::interval(HOUSEKEEPING_INTERVAL);
    loop {
        cleaning.tick().await;
        clean(&state.store, state.config.image.unused_ttl, state.config.notify.keep).await;
    }
}

/// Removes old refusals. A flood of them does not wait for an hour.
async fn keep_refusals_few(state: &AppState) {
    let mut removing = tokio::time::interval(REFUSALS_INTERVAL);
    removing.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        removing.tick().await;
        if let Err(error) = state.store.remove_old_refusals().await {
            tracing::warn!(%error, "old refusals could not be removed; next attempt in a minute");
        }
    }
}

/// Adds new exchanges to the sums of their hours. It leaves the database to the exchanges most of the time, also when it
/// has much to add.
async fn keep_rolled_up(state: &AppState) {
    let mut rolling = tokio::time::interval(ROLL_UP_INTERVAL);
    rolling.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rolling.tick().await;
        loop {
            let began = tokio::time::Instant::now();
            match state.store.roll_up_some_sales().await {
                Ok(true) => tokio::time::sleep(began.elapsed() * ROLL_UP_PAUSES).await,
                Ok(false) => break,
                Err(error) => {
                    tracing::warn!(%error, "exchanges could not be added to the sums of their hours");
                    break;
                }
            }
        }
    }
}

async fn clean(store: &Store, unused_ttl: Duration, events_keep: Duration) {
    for (expired, outcome) in [
        ("old answers of the admin API", store.forget_old_requests().await),
        ("expired tokens", store.forget_expired_tokens().await),
        ("expired login codes", store.forget_expired_login_codes().await),
        ("old sign-in attempts", store.forget_old_console_attempts().await),
        ("ended console sessions", store.forget_ended_console_sessions().await),
        ("old counts of replays", store.forget_old_replays().await),
        ("old uses of keys", store.forget_old_key_uses().await),
        ("old events", store.remove_old_events(events_keep).await),
        ("old minutes of health", store.forget_old_health().await),
        ("old faults of sandbox apps", store.forget_test_worlds().await),
        ("unused images", store.sweep_unused_images(unused_ttl).await),
    ] {
        if let Err(error) = outcome {
            tracing::warn!(%error, "{expired} could not be removed; next attempt in an hour");
        }
    }
}

/// Ends at SIGTERM, or at Ctrl-C.
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Warns of an operator's listener that others can listen in on.
fn warn_of_open_listener(listen: SocketAddr, has_tls: bool) {
    if is_open_to_listeners(listen, has_tls) {
        tracing::warn!(
            %listen,
            "the operator's listener is open to other machines without TLS: passwords and API keys can be read on the way"
        );
    }
}

/// Whether others can read what is sent to this address: other machines reach it, and it has no TLS
/// (contract 1.2.4).
fn is_open_to_listeners(address: SocketAddr, has_tls: bool) -> bool {
    !has_tls && !address.ip().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A warning at the start tells that passwords can be read on the way.
    #[test]
    fn an_operators_listener_on_other_machines_needs_tls() {
        for (address, has_tls, is_open) in [
            ("127.0.0.1:8081", false, false),
            ("[::1]:8081", false, false),
            ("0.0.0.0:8081", false, true),
            ("[::]:8081", false, true),
            ("192.0.2.7:8081", false, true),
            ("192.0.2.7:8081", true, false),
        ] {
            assert_eq!(is_open_to_listeners(address.parse().unwrap(), has_tls), is_open, "{address}");
        }
    }
}
