//! Ctrl-C and SIGTERM end the run in good order: servers, PostgreSQL and data do not stay behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

use super::Fallible;

static ASKED: AtomicBool = AtomicBool::new(false);

/// From now on a signal does not end the process; [`check`] tells of it.
pub fn watch() {
    thread::spawn(|| -> Fallible<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let (mut interrupt, mut terminate) =
                (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                ASKED.store(true, Ordering::Relaxed);
            }
        })
    });
}

/// An error once the run has been told to end.
pub fn check() -> Fallible<()> {
    if ASKED.load(Ordering::Relaxed) { Err("interrupted".into()) } else { Ok(()) }
}
