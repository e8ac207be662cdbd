//! The thread that owns PostgreSQL: it starts it, starts it again whenever it dies, and stops it.
//!
//! It is one thread for all of that because the signal that ends PostgreSQL with its parent follows the very thread
//! that made the process.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Error;
use super::cluster::{Cluster, Running};
use super::owner::Ownership;

/// How often the supervisor looks whether PostgreSQL still runs.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The pause before the second start in a row that fails, and the longest one; contract 9 allows 5 s in all.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A PostgreSQL that ran for this long died for a new reason.
const STEADY: Duration = Duration::from_mins(1);

/// The handle of the thread.
#[derive(Debug)]
pub(super) struct Supervisor {
    stop: Sender<Duration>,
    thread: Option<JoinHandle<()>>,
    socket_dir: PathBuf,
}

impl Supervisor {
    /// Makes the cluster where there is none, starts PostgreSQL, and returns when it accepts connections.
    pub(super) fn start(
        ownership: Ownership,
        folder: PathBuf,
        settings: Vec<(String, String)>,
    ) -> Result<Self, Error> {
        let (stop, asked) = mpsc::channel();
        let (tell, told) = mpsc::sync_channel(1);
        let run = move || {
            let mut stop = StopSignal { asked, limit: None };
            let started = Cluster::prepare(&folder, settings)
                .and_then(|cluster| Ok(cluster.start(&mut stop)?.map(|running| (cluster, running))))
                .and_then(|started| match started {
                    Some((cluster, running)) => {
                        ownership.tell(Some(running.pid()))?;
                        Ok((cluster, running))
                    }
                    None => Err(Error::SupervisorEnded),
                });
            match started {
                Ok((cluster, running)) => {
                    if tell.send(Ok(cluster.socket_dir().to_owned())).is_ok() {
                        watch(&cluster, running, &ownership, &mut stop);
                    }
                    cluster.tidy();
                }
                Err(error) => {
                    // Let go first: who hears of the failure may try again at once.
                    drop(ownership);
                    let _ = tell.send(Err(error));
                }
            }
        };
        let thread = thread::Builder::new().name("cluster-owner".to_owned()).spawn(run);
        let thread = thread.map_err(Error::io("start the thread for", "PostgreSQL".as_ref()))?;
        let socket_dir = told.recv().unwrap_or(Err(Error::SupervisorEnded))?;
        Ok(Self { stop, thread: Some(thread), socket_dir })
    }

    pub(super) fn socket_dir(&self) -> &std::path::Path {
        &self.socket_dir
    }

    /// Stops PostgreSQL within `limit` and waits for that. The second call does nothing.
    pub(super) fn stop(&mut self, limit: Duration) {
        let Some(thread) = self.thread.take() else { return };
        // Both fail only if the thread is gone already, and its PostgreSQL with it.
        let _ = self.stop.send(limit);
        let _ = thread.join();
    }
}

/// Keeps PostgreSQL running until it is asked to stop it.
fn watch(cluster: &Cluster, mut running: Running, ownership: &Ownership, stop: &mut StopSignal) {
    let mut since = Instant::now();
    let mut pause = Duration::ZERO;
    while !stop.wait(LOOK_AGAIN) {
        let Some(status) = running.ended() else { continue };
        tracing::error!(process = running.pid(), %status, "PostgreSQL died and is started again");
        if since.elapsed() >= STEADY {
            pause = Duration::ZERO;
        }
        let died = Instant::now();
        let Some(again) = restart(cluster, ownership, stop, &mut pause) else { return };
        running = again;
        since = Instant::now();
        tracing::info!(process = running.pid(), after = ?died.elapsed(), "PostgreSQL is back");
    }
    running.stop(stop.limit());
}

/// Tries until it succeeds, with growing pauses; `None` when it was asked to stop meanwhile.
fn restart(
    cluster: &Cluster,
    ownership: &Ownership,
    stop: &mut StopSignal,
    pause: &mut Duration,
) -> Option<Running> {
    loop {
        if stop.wait(*pause) {
            return None;
        }
        *pause = next_pause(*pause);
        match cluster.start(stop) {
            Ok(Some(running)) => {
                // Without this, commands do not attach until the next restart; the server itself can go on.
                if let Err(error) = ownership.tell(Some(running.pid())) {
                    tracing::error!(%error, "commands cannot be told that PostgreSQL is back");
                }
                return Some(running);
            }
            Ok(None) => return None,
            Err(error) => tracing::error!(%error, "PostgreSQL does not start"),
        }
    }
}

fn next_pause(pause: Duration) -> Duration {
    (pause * 2).clamp(PAUSE_FIRST, PAUSE_MAX)
}

/// The wish of the rest of the program that PostgreSQL stop.
#[derive(Debug)]
pub(super) struct StopSignal {
    asked: Receiver<Duration>,
    limit: Option<Duration>,
}

impl StopSignal {
    /// Waits this long for the wish; true, at once and from then on, when it is there.
    pub(super) fn wait(&mut self, time: Duration) -> bool {
        if self.limit.is_none() {
            self.limit = match self.asked.recv_timeout(time) {
                Ok(limit) => Some(limit),
                Err(RecvTimeoutError::Timeout) => None,
                // Nobody is left who could ask.
                Err(RecvTimeoutError::Disconnected) => Some(super::STOP_WITHIN),
            };
        }
        self.limit.is_some()
    }

    /// How long stopping may take.
    pub(super) fn limit(&self) -> Duration {
        self.limit.unwrap_or(super::STOP_WITHIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_within_what_the_contract_allows() {
        let mut pauses = vec![Duration::ZERO];
        for _ in 0..8 {
            pauses.push(next_pause(pauses[pauses.len() - 1]));
        }
        assert!(pauses.is_sorted());
        assert_eq!(pauses[1], PAUSE_FIRST);
        assert_eq!(pauses[8], PAUSE_MAX);
    }

    #[test]
    fn the_wish_to_stop_is_kept() {
        let (sender, asked) = mpsc::channel();
        let mut stop = StopSignal { asked, limit: None };
        assert!(!stop.wait(Duration::ZERO));
        sender.send(Duration::from_secs(3)).unwrap();
        assert!(stop.wait(Duration::ZERO) && stop.wait(Duration::ZERO));
        assert_eq!(stop.limit(), Duration::from_secs(3));
    }

    #[test]
    fn a_program_that_forgets_its_cluster_stops_it_too() {
        let (sender, asked) = mpsc::channel();
        drop(sender);
        assert!(StopSignal { asked, limit: None }.wait(Duration::from_mins(1)));
    }
}
