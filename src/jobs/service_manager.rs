//! Tells the service manager, such as systemd, how the server is: `sd_notify` (contract 9.7.7). Without
//! `NOTIFY_SOCKET` nothing is told.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::MissedTickBehavior;

/// A shorter time between two signs of life would be work for nothing.
const SIGN_OF_LIFE_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Tells the service manager. A failure is logged and stops nothing.
pub(crate) fn tell(state: NotifyState<'static>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager could not be told how the server is");
    }
}

/// Gives three signs of life in the time that `WATCHDOG_USEC` allows, if it is set. As a task it stops
/// when the runtime does. It does not ask the database, which a new start would not bring back. Nor
/// does it ask the listeners, so that a flood of requests does not end the server.
pub(super) async fn keep_alive() {
    let Some(time) = sd_notify::watchdog_enabled() else { return };
    let mut interval = tokio::time::interval((time / 3).max(SIGN_OF_LIFE_INTERVAL_MIN));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        tell(NotifyState::Watchdog);
    }
}
