//! Counts of replays, for operators. Nothing depends on them.
//!
//! The writers count in memory after they have answered. Once a second one statement writes the
//! counts. When a process dies or the database does not answer, counts are lost, but never an
//! exchange.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::ids::AppId;

use crate::{Result, Store};

/// Maximum number of `biz_no`s between two writes. It limits the memory (some 1 MB) and the
/// statement.
const BIZ_NOS_MAX: usize = 4096;
/// How long a count is stored after the last replay.
const KEPT_DAYS: i32 = 30;

/// The counts since the last write. It is cheap to clone, and all clones share the counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replays(Arc<Mutex<ReplayCounts>>);

#[derive(Debug, Default)]
struct ReplayCounts {
    by_biz_no: HashMap<(AppId, String), i64>,
    /// Replays without a count, because the map was full.
    uncounted: u64,
}

impl Replays {
    /// Counts replays. It holds the lock for some look-ups.
    pub(super) fn count(&self, biz_nos: Vec<(AppId, String)>) {
        if biz_nos.is_empty() {
            return;
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for biz_no in biz_nos {
            let has_room = counts.by_biz_no.len() < BIZ_NOS_MAX;
            if let Some(count) = counts.by_biz_no.get_mut(&biz_no) {
                *count += 1;
            } else if has_room {
                counts.by_biz_no.insert(biz_no, 1);
            } else {
                counts.uncounted += 1;
            }
        }
    }

    fn take(&self) -> ReplayCounts {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store {
    /// Writes the replays that this process has counted since the last call. The server calls it
    /// once a second. When the write fails, the counts are lost.
    pub async fn write_replays(&self) -> Result<()> {
        let ReplayCounts { by_biz_no, uncounted } = self.replays.take();
        if uncounted > 0 {
            tracing::warn!(uncounted, "more exchanges were replayed in a second than are counted");
        }
        if by_biz_no.is_empty() {
            return Ok(());
        }
        let mut counted: Vec<_> = by_biz_no.into_iter().collect();
        // Every process writes in the same order. So two of them never wait for each other.
        counted.sort_unstable();
        let app_ids: Vec<_> = counted.iter().map(|((app_id, _), _)| app_id.to_string()).collect();
        let biz_nos: Vec<_> = counted.iter().map(|((_, biz_no), _)| biz_no.clone()).collect();
        let counts: Vec<_> = counted.iter().map(|(_, count)| *count).collect();
        sqlx::query!(
            "INSERT INTO exchange_replays AS known (app_id, biz_no, replays, first_at, last_at)
             SELECT app_id, biz_no, replays, now(), now()
             FROM unnest($1::text[], $2::text[], $3::bigint[]) AS counted (app_id, biz_no, replays)
             ON CONFLICT (app_id, biz_no) DO UPDATE
             SET replays = known.replays + excluded.replays, last_at = excluded.last_at",
            &app_ids,
            &biz_nos,
            &counts
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Deletes counts whose last replay was 30 days ago. There is no index for it: it would cost
    /// every count more than this hourly scan of a small table.
    pub async fn forget_old_replays(&self) -> Result<u64> {
        let gone = sqlx::query!(
            "DELETE FROM exchange_replays WHERE last_at < now() - make_interval(days => $1)",
            KEPT_DAYS
        );
        Ok(gone.execute(&self.pool).await?.rows_affected())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn biz_no(text: &str) -> (AppId, String) {
        (AppId::parse("a").unwrap(), text.to_owned())
    }

    #[test]
    fn a_flood_of_distinct_biz_nos_cannot_grow_the_memory_and_known_ones_still_count() {
        let replays = Replays::default();
        for place in 0..BIZ_NOS_MAX + 10 {
            replays.count(vec![biz_no(&format!("n{place}"))]);
        }
        replays.count(vec![biz_no("n0"), biz_no("n0")]);
        let counts = replays.take();
        assert_eq!((counts.by_biz_no.len(), counts.uncounted), (BIZ_NOS_MAX, 10));
        assert_eq!(counts.by_biz_no[&biz_no("n0")], 3);
        assert!(replays.take().by_biz_no.is_empty(), "what was taken is not taken again");
    }
}
