//! The supervising thread: it starts PostgreSQL, starts it again whenever it dies, and stops it.
//!
//! One thread does all of that. The signal that ends PostgreSQL with its parent is bound to the
//! thread that forked it, so that thread must live as long as PostgreSQL.

use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, RunningPostgres};
use crate::error::{ClusterError, IoContext};
use crate::options::ClusterOptions;
use crate::owner::Ownership;
use crate::stop_request::{STOP_WITHIN, StopRequest};

/// How often the thread checks that PostgreSQL still runs.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The pause before the second start in a row, and the longest pause.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// After this time in use, the next start has no pause.
const STEADY: Duration = Duration::from_mins(1);

/// The handle of the thread. PostgreSQL stops when it is dropped.
#[derive(Debug)]
pub(super) struct Supervisor {
    stop: Sender<Duration>,
    thread: Option<JoinHandle<()>>,
}

impl Supervisor {
    /// Makes the cluster if there is none, starts PostgreSQL, and waits until it accepts
    /// connections. Returns the folder of the socket as well.
    pub(super) fn start(
        ownership: Ownership,
        folder: PathBuf,
        options: &ClusterOptions,
    ) -> Result<(Self, PathBuf), ClusterError> {
        let (stop, stop_receiver) = mpsc::channel();
        let (report, reported) = mpsc::sync_channel(1);
        let (name, is_durable) = (options.name, options.is_durable);
        let run = move || {
            let mut stop = StopRequest::new(stop_receiver);
            match start_first(folder, (name, is_durable), &ownership, &mut stop) {
                Ok((cluster, running)) => {
                    if report.send(Ok(cluster.socket_dir().to_owned())).is_ok() {
                        watch(&cluster, running, &ownership, &mut stop);
                    }
                    cluster.tidy();
                }
                Err(error) => {
                    // The lock goes first: the program may try again as soon as it has the error.
                    drop(ownership);
                    let _ = report.send(Err(error));
                }
            }
        };
        let thread = thread::Builder::new().name("cluster-owner".to_owned()).spawn(run);
        let thread = thread.doing("start the thread for", "PostgreSQL".as_ref())?;
        let socket_dir = reported.recv().unwrap_or(Err(ClusterError::SupervisorEnded))?;
        Ok((Self { stop, thread: Some(thread) }, socket_dir))
    }

    /// Stops PostgreSQL within `limit` and waits for that. A second call does nothing.
    pub(super) fn stop(&mut self, limit: Duration) {
        let Some(thread) = self.thread.take() else { return };
        // Both fail only if the thread has ended, and its PostgreSQL with it.
        let _ = self.stop.send(limit);
        let _ = thread.join();
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.stop(STOP_WITHIN);
    }
}

fn start_first(
    folder: PathBuf,
    (name, is_durable): (&str, bool),
    ownership: &Ownership,
    stop: &mut StopRequest,
) -> Result<(Cluster, RunningPostgres), ClusterError> {
    let cluster = Cluster::prepare(folder, name, is_durable)?;
    let running = cluster.start(stop)?.ok_or(ClusterError::SupervisorEnded)?;
    ownership.publish(Some(running.pid()))?;
    Ok((cluster, running))
}

/// Keeps PostgreSQL running until the program requests a stop. Starts it again and again, with growing
/// pauses.
fn watch(cluster: &Cluster, mut running: RunningPostgres, ownership: &Ownership, stop: &mut StopRequest) {
    let mut since = Instant::now();
    let mut pause = Duration::ZERO;
    while !stop.wait(CHECK_INTERVAL) {
        let Some(status) = running.ended() else { continue };
        tracing::error!(process = running.pid(), %status, "PostgreSQL died and is started again");
        if since.elapsed() >= STEADY {
            pause = Duration::ZERO;
        }
        let died = Instant::now();
        running = loop {
            if stop.wait(pause) {
                return;
            }
            pause = next_pause(pause);
            match cluster.start(stop) {
                Ok(Some(running)) => break running,
                Ok(None) => return,
                Err(error) => tracing::error!(%error, "PostgreSQL does not start"),
            }
        };
        // After an error commands cannot attach until the next restart. The server goes on.
        if let Err(error) = ownership.publish(Some(running.pid())) {
            tracing::error!(%error, "commands cannot see that PostgreSQL is back");
        }
        since = Instant::now();
        tracing::info!(process = running.pid(), after = ?died.elapsed(), "PostgreSQL is back");
    }
    running.stop(stop.limit());
}

fn next_pause(pause: Duration) -> Duration {
    (pause * 2).clamp(PAUSE_FIRST, PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let mut pauses = vec![Duration::ZERO];
        for _ in 0..8 {
            pauses.push(next_pause(pauses[pauses.len() - 1]));
        }
        assert!(pauses.is_sorted());
        assert_eq!(pauses[1], PAUSE_FIRST);
        assert_eq!(pauses[8], PAUSE_MAX);
    }
}
