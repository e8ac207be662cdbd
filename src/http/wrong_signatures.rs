//! The rate of wrong signatures: an app over it waits for its refusals (contract 3.2.9).
//!
//! A token without a key is enough to send wrong signatures without end, on connections that go on as soon as they are
//! answered. A pause before the answer leaves the cores to payments. It needs no memory but that of a connection, of
//! which there is a limit already.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::gcra::Gcra;
use domain::ids::AppId;

/// Wrong signatures of an app that are answered at once in a second, by an instance. A game that is being tried sends less.
const AT_ONCE_PER_SECOND: u32 = 50;
/// The pause of the others. It is shorter than the time limit of any client that waits for a payment.
const PAUSE: Duration = Duration::from_secs(1);

/// How many wrong signatures each app sent. Only apps whose token was shown are here, so strangers cannot fill it.
#[derive(Debug, Default)]
pub struct WrongSignatures(Mutex<HashMap<AppId, Gcra>>);

impl WrongSignatures {
    /// Forgets what was counted.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Counts a wrong signature at `now` (monotonic). The pause before its answer, if there is one.
    #[must_use]
    pub fn pause(&self, app_id: &AppId, now: Duration) -> Option<Duration> {
        let mut apps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rate = apps.entry(app_id.clone()).or_default();
        rate.admit(now, AT_ONCE_PER_SECOND, 1).err().map(|_| PAUSE)
    }
}
