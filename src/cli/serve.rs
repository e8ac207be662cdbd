//! `minitill serve` runs both listeners and the jobs until a signal stops the server.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use http_server::OpenConnections;
use sd_notify::NotifyState;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

use super::listen::{listen, warn_of_open_listener};
use super::running::Addresses;
use super::{Context, database};
use crate::config::private_files;
use crate::jobs::{Jobs, service_manager};
use crate::operator;
use crate::public::router;
use crate::state::AppState;

/// The nice value of the operators' thread: a third of the weight of the others, so that a busy machine still answers `readyz`.
const OPERATORS_NICE: i32 = 5;
/// The time from the signal to the exit, with a margin below the ten seconds of contract 9.
const EXIT_WITHIN: Duration = Duration::from_millis(9500);

pub(super) async fn run(context: &Context) -> Result<()> {
    let mut config = context.config.clone();
    let mut stop = pin!(stop_signal()?);
    if let Err(error) = http_server::raise_open_files_limit() {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    private_files::check(&config)?;
    // This comes before the database starts, so an address in use is reported at once.
    let (public, public_tls) = listen("public", &mut config.public)?;
    let (operator, operator_tls) = listen("ops", &mut config.ops)?;
    let opened = tokio::select! {
        opened = database::open_for_server(context) => opened?,
        () = &mut stop => return Ok(()),
    };
    // Its disk may be another than that of the settings.
    config.database.data_dir.clone_from(&opened.folder);
    let state = AppState::new(config.clone(), Arc::clone(&context.clock), opened.store.clone());
    state.prepare().await?;
    let (stop_public, public_stopped) = watch::channel(false);
    let (stop_operator, operator_stopped) = watch::channel(false);
    if !opened.is_private() && opened.store.may_rewrite_log().await? {
        tracing::warn!(
            "this server's role may rewrite the operator's log; give it a role of its own (docs/deployment.md, \"The database\")"
        );
    }
    warn_of_open_listener(config.ops.listen, operator_tls.is_some());
    let limits = config.server_limits();
    let _left = Addresses::of(&config).leave_in(&opened.folder);
    let jobs = Jobs::start(&state, public_stopped.clone());
    let (routes, connections) = (router::public(state.clone()), state.connections.clone());
    let serving = http_server::serve(public, public_tls, routes, limits.clone(), connections, public_stopped);
    let mut serving = tokio::spawn(serving);
    let routes = operator::operator(&state, operator_tls.clone());
    let connections = OpenConnections::default();
    let operators = operators_runtime()?;
    let operating = operators.spawn(http_server::serve(
        operator,
        operator_tls,
        routes,
        limits,
        connections,
        operator_stopped,
    ));
    let (public, operator) = (config.public.bound_url(), config.ops.bound_url());
    tracing::info!("ready: public {public}, operator {operator}; try `minitill demo`");
    service_manager::tell(NotifyState::Ready);
    let ended_early = tokio::select! {
        ended = &mut serving => Some(ended),
        () = stop => None,
    };
    tracing::info!("stopping: new connections are refused, requests in progress are finished");
    service_manager::tell(NotifyState::Stopping);
    let exit_by = Instant::now() + EXIT_WITHIN;
    let _ = stop_public.send(true);
    let drained = match ended_early {
        Some(ended) => ended,
        None => serving.await,
    };
    if let Some(tracer) = &state.tracer {
        tracer.flush().await;
    }
    let _ = stop_operator.send(true);
    jobs.stop(&state).await;
    operating.abort();
    opened.close(exit_by.saturating_duration_since(Instant::now())).await;
    operators.shutdown_background();
    let drained = drained.map_err(|fault| anyhow!("the server's task ended: {fault}"))??;
    tracing::info!(connections_cut = drained.connections_cut, "stopped");
    Ok(())
}

/// A thread of its own for the operator's listener. Thousands of operators' requests that become ready at once do not
/// stand before payments in the queues of the other threads, and where cores are few, payments get more of them.
fn operators_runtime() -> io::Result<Runtime> {
    let mut threads = Builder::new_multi_thread();
    threads.worker_threads(1).thread_name("operators").enable_all().on_thread_start(|| {
        // On Linux this is the thread's. A server that may not do so works as well.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::setpriority_process(None, OPERATORS_NICE);
    });
    threads.build()
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
