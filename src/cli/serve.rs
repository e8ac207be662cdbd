//! `minitill serve` runs both listeners and the jobs until a signal stops the server.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures_util::future::BoxFuture;
use http_server::OpenConnections;
use sd_notify::NotifyState;
use serde_json::json;
use store::Store;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::database::Opened;
use super::listen::{listen, warn_of_open_listener};
use super::running::Addresses;
use super::{Context, database};
use crate::config::{Config, private_files};
use crate::jobs::{Jobs, service_manager};
use crate::operator;
use crate::public::router;
use crate::sandbox_server::{Reset, SandboxServer};
use crate::state::AppState;

/// The nice value of the operators' thread: a third of the weight of the others, so that a busy machine still answers `readyz`.
const OPERATORS_NICE: i32 = 5;
/// The time from the signal to the exit, with a margin below the ten seconds of contract 9.
const EXIT_WITHIN: Duration = Duration::from_millis(9500);

/// The additional state of a sandbox server.
pub(super) struct Sandbox {
    pub(super) server: SandboxServer,
    /// The queue of requested resets.
    pub(super) resets: mpsc::Receiver<Reset>,
    /// Makes its seed.
    pub(super) plant: Box<dyn FnOnce(Store) -> BoxFuture<'static, Result<()>>>,
}

/// Runs a server, or a sandbox server (contract 18).
pub(super) async fn run(context: &Context, sandbox: Option<Sandbox>) -> Result<()> {
    let mut config = context.config.clone();
    let mut stop = pin!(stop_signal()?);
    if let Err(error) = http_server::raise_open_files_limit() {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    private_files::check(&config)?;
    // This comes before the database starts, so an address in use is reported at once.
    let (public, public_tls) = listen("public", &mut config.public, None, &context.clock)?;
    let (operator, operator_tls) = listen("ops", &mut config.ops, public_tls.as_ref(), &context.clock)?;
    let opened = tokio::select! {
        opened = open(context, sandbox.is_some()) => opened?,
        () = &mut stop => return Ok(()),
    };
    // Its disk may be another than that of the settings.
    config.database.data_dir.clone_from(&opened.folder);
    let (state, mut resets) = state_of(context, config.clone(), &opened, sandbox).await?;
    state.metrics.show_certificate("public", public_tls.as_ref());
    state.metrics.show_certificate("ops", operator_tls.as_ref());
    state.prepare().await?;
    let (stop_public, public_stopped) = watch::channel(false);
    let (stop_operator, operator_stopped) = watch::channel(false);
    warn_of(&config, &opened, operator_tls.is_some()).await?;
    let limits = config.server_limits();
    let addresses = Addresses { sandbox: resets.is_some(), ..Addresses::of(&config) };
    let _left = addresses.leave_in(&opened.folder);
    let mut jobs = Jobs::start(&state, public_stopped.clone());
    let (routes, connections) = (router::public(state.clone()), state.connections.clone());
    let stopped = public_stopped.clone();
    let serving = http_server::serve(public, public_tls, routes, limits.clone(), connections, stopped);
    let mut serving = tokio::spawn(serving);
    let routes = operator::operator(&state, operator_tls.clone());
    let connections = OpenConnections::default();
    let operators = operators_runtime()?;
    let operating = http_server::serve(operator, operator_tls, routes, limits, connections, operator_stopped);
    let operating = operators.spawn(operating);
    tell_ready(context, &config, resets.is_some())?;
    let ended_early = loop {
        tokio::select! {
            ended = &mut serving => break Some(ended),
            () = &mut stop => break None,
            Some(reset) = next_reset(&mut resets) => {
                let outcome;
                (jobs, outcome) = jobs.interrupted_by(&state, public_stopped.clone(), state.begin_anew()).await;
                reset.answer(outcome);
            }
        }
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

async fn open(context: &Context, is_sandbox: bool) -> Result<Opened> {
    if is_sandbox {
        database::open_for_sandbox(context).await
    } else {
        database::open_for_server(context).await
    }
}

/// The state of the server, and of a sandbox server where resets are asked for. A sandbox server has its seed then.
async fn state_of(
    context: &Context,
    config: Config,
    opened: &Opened,
    sandbox: Option<Sandbox>,
) -> Result<(AppState, Option<mpsc::Receiver<Reset>>)> {
    let store = opened.store.clone();
    let Some(Sandbox { server, resets, plant }) = sandbox else {
        return Ok((AppState::new(config, Arc::clone(&context.clock), store), None));
    };
    plant(store.clone()).await?;
    store.keep_seed().await?;
    Ok((AppState::of_sandbox_server(config, store, server), Some(resets)))
}

/// Warns of what makes a server easier to attack.
async fn warn_of(config: &Config, opened: &Opened, operator_has_tls: bool) -> Result<()> {
    if !opened.is_private() && opened.store.may_rewrite_log().await? {
        tracing::warn!(
            "this server's role may rewrite the operator's log; give it a role of its own (docs/deployment.md, \"The database\")"
        );
    }
    warn_of_open_listener(config.ops.listen, operator_has_tls);
    Ok(())
}

/// Tells whoever started the server that it is ready.
fn tell_ready(context: &Context, config: &Config, is_sandbox: bool) -> Result<()> {
    let (public, operator) = (config.public.bound_url(), config.ops.bound_url());
    service_manager::tell(NotifyState::Ready);
    if !is_sandbox {
        tracing::info!("ready: public {public}, operator {operator}; try `minitill demo`");
        return Ok(());
    }
    let folder = config.database.data_dir.display().to_string();
    let text = format!(
        "ready: public {public}, operator {operator}, data_dir {folder}; nothing is durable (fsync is off), and the folder is deleted when the server stops"
    );
    let value = json!({ "public": public, "operator": operator, "data_dir": folder, "durable": false });
    context.output.print(&value, text)
}

/// The next reset that is asked for. A normal server has none, ever.
async fn next_reset(resets: &mut Option<mpsc::Receiver<Reset>>) -> Option<Reset> {
    match resets {
        Some(resets) => resets.recv().await,
        None => std::future::pending().await,
    }
}

/// A thread of its own for the operator's listener. Thousands of operators' requests that become ready at once do not
/// stand before payments in the queues of the other threads. Where cores are few, payments get more of them.
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
