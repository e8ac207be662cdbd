//! Counts of replays, for operators. Nothing depends on them.
//!
//! The writers count in memory after they have answered. Once a second one statement writes the
//! counts. When a process dies or the database does not answer, counts are lost, but never an
//! exchange.

use crate::counts::TakenCounts;
use crate::error::Result;
use crate::removal::remove_piece;
use crate::store::Store;

/// How long a count is stored after the last replay.
const KEPT_DAYS: i32 = 30;

impl Store {
    /// Writes the replays that this process has counted since the last call. The server calls it
    /// once a second. When the write fails, the counts are lost.
    pub async fn write_replays(&self) -> Result<()> {
        let TakenCounts { counts: counted, uncounted } = self.replays.take();
        if uncounted > 0 {
            tracing::warn!(uncounted, "more exchanges were replayed in a second than are counted");
        }
        if counted.is_empty() {
            return Ok(());
        }
        let app_ids: Vec<_> = counted.iter().map(|(app_id, ..)| app_id.to_string()).collect();
        let biz_nos: Vec<_> = counted.iter().map(|(_, biz_no, _)| biz_no.clone()).collect();
        let counts: Vec<_> = counted.iter().map(|(.., count)| *count).collect();
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

    /// Deletes a piece of the counts whose last replay was 30 days ago. There is no index for it: it
    /// would cost every count more than this hourly scan of a small table.
    pub async fn forget_old_replays(&self) -> Result<u64> {
        Ok(remove_piece!(self, "exchange_replays", "last_at < now() - make_interval(days => $2)", KEPT_DAYS))
    }
}
