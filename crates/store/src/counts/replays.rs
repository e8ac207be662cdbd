//! Replays of exchanges, counted by the writers after they have answered.

use domain::ids::AppId;

use super::{Counts, NamesMax, TakenCounts};

/// Maximum number of `biz_no`s between two writes. It limits the memory (some 1 MB) and the
/// statement.
const BIZ_NOS_MAX: usize = 4096;
/// The counts since the last write. It is cheap to clone, and all clones share the counts.
#[derive(Debug, Clone)]
pub(crate) struct Replays(Counts<String, i64>);

impl Default for Replays {
    fn default() -> Self {
        Self(Counts::new(NamesMax { all: BIZ_NOS_MAX, of_app: BIZ_NOS_MAX }))
    }
}

impl Replays {
    /// Counts replays. It holds the lock for some look-ups.
    pub(crate) fn count(&self, biz_nos: Vec<(AppId, String)>) {
        if !biz_nos.is_empty() {
            self.0.count(biz_nos.into_iter().map(|(app_id, biz_no)| (app_id, biz_no, 1)));
        }
    }

    /// Takes what was counted since the last call.
    pub(crate) fn take(&self) -> TakenCounts<String, i64> {
        self.0.take()
    }
}
