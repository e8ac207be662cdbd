//! The request to stop PostgreSQL, from the program to the supervising thread.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// The time limit for stopping PostgreSQL if the program sets none.
pub const STOP_WITHIN: Duration = Duration::from_secs(8);

/// The receiving end. The program sends the time limit for stopping.
#[derive(Debug)]
pub(super) struct StopRequest {
    receiver: Receiver<Duration>,
    limit: Option<Duration>,
}

impl StopRequest {
    pub(super) fn new(receiver: Receiver<Duration>) -> Self {
        Self { receiver, limit: None }
    }

    /// Waits this long for the request. True at once if it has arrived before.
    pub(super) fn wait(&mut self, time: Duration) -> bool {
        if self.limit.is_none() {
            self.limit = match self.receiver.recv_timeout(time) {
                Ok(limit) => Some(limit),
                Err(RecvTimeoutError::Timeout) => None,
                // The program has dropped its cluster.
                Err(RecvTimeoutError::Disconnected) => Some(STOP_WITHIN),
            };
        }
        self.limit.is_some()
    }

    /// The time limit for stopping PostgreSQL.
    pub(super) fn limit(&self) -> Duration {
        self.limit.unwrap_or(STOP_WITHIN)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_request_to_stop_is_kept() {
        let (sender, receiver) = mpsc::channel();
        let mut stop = StopRequest::new(receiver);
        assert!(!stop.wait(Duration::ZERO));
        sender.send(Duration::from_secs(3)).unwrap();
        assert!(stop.wait(Duration::ZERO) && stop.wait(Duration::ZERO));
        assert_eq!(stop.limit(), Duration::from_secs(3));
    }

    #[test]
    fn a_program_that_drops_its_cluster_stops_it() {
        let (sender, receiver) = mpsc::channel();
        drop(sender);
        assert!(StopRequest::new(receiver).wait(Duration::from_mins(1)));
    }
}
