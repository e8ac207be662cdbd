//! Health history: what instances saw, minute by minute (contract 16.1). It outlives them.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::health::{HealthMinute, HealthProblem, HealthSpan};
use futures_util::TryStreamExt as _;
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::error::{Result, StoreError};
use crate::store::Store;

/// How long minutes are kept.
const KEPT_DAYS: i32 = 30;

impl Store {
    /// Writes minutes. One that is there already is replaced: an instance that stops tells its last minute twice.
    pub async fn write_health(&self, minutes: &[HealthMinute]) -> Result<()> {
        let problems: Vec<String> = minutes
            .iter()
            .map(|minute| {
                minute.problems().into_iter().map(HealthProblem::as_str).collect::<Vec<_>>().join(" ")
            })
            .collect();
        sqlx::query!(
            "INSERT INTO health_minutes (at, instance, problems, seen)
             SELECT at, instance, string_to_array(problems, ' '), seen
             FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::jsonb[]) AS told (at, instance, problems, seen)
             ON CONFLICT (at, instance) DO UPDATE SET problems = excluded.problems, seen = excluded.seen",
            &minutes.iter().map(|minute| minute.at).collect::<Vec<_>>(),
            &minutes.iter().map(|minute| minute.instance.clone()).collect::<Vec<_>>(),
            &problems,
            &minutes.iter().map(|minute| Json(minute.clone())).collect::<Vec<_>>() as _
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// The minutes of all instances that began in a span of time, oldest first.
    pub async fn health(&self, since: OffsetDateTime, until: OffsetDateTime) -> Result<Vec<HealthMinute>> {
        let mut minutes = Vec::new();
        self.each_health_minute(since, until, |minute| minutes.push(minute)).await?;
        Ok(minutes)
    }

    /// Gives each minute of all instances that began in a span of time, oldest first. A month of them is never in memory.
    pub async fn each_health_minute(
        &self,
        since: OffsetDateTime,
        until: OffsetDateTime,
        mut take: impl FnMut(HealthMinute),
    ) -> Result<()> {
        let mut rows = sqlx::query_scalar!(
            r#"SELECT seen AS "seen: Json<HealthMinute>" FROM health_minutes WHERE at >= $1 AND at < $2
               ORDER BY at, instance"#,
            since,
            until
        )
        .fetch(&self.pool);
        while let Some(Json(minute)) = rows.try_next().await? {
            take(minute);
        }
        Ok(())
    }

    /// What was wrong in each span of this length from `since` on, oldest first. A span that nobody told of is left out.
    pub async fn health_spans(
        &self,
        since: OffsetDateTime,
        until: OffsetDateTime,
        length: Duration,
    ) -> Result<Vec<HealthSpan>> {
        let rows = sqlx::query!(
            r#"SELECT date_bin(make_interval(secs => $3), at, $1) AS "at!", problems, count(*) AS "minutes!"
               FROM health_minutes WHERE at >= $1 AND at < $2 GROUP BY 1, 2"#,
            since,
            until,
            length.as_secs_f64()
        );
        let mut spans: BTreeMap<OffsetDateTime, HealthSpan> = BTreeMap::new();
        for row in rows.fetch_all(&self.pool).await? {
            let new =
                || HealthSpan { at: row.at, told: 0, problems: BTreeMap::new(), levels: BTreeMap::new() };
            let span = spans.entry(row.at).or_insert_with(new);
            span.told += row.minutes;
            let mut worst = None;
            for problem in &row.problems {
                let problem =
                    HealthProblem::parse(problem).map_err(|_| StoreError::damaged("health_minutes"))?;
                *span.problems.entry(problem).or_default() += row.minutes;
                worst = worst.into_iter().chain([problem.level()]).min();
            }
            if let Some(level) = worst {
                *span.levels.entry(level).or_default() += row.minutes;
            }
        }
        Ok(spans.into_values().collect())
    }

    /// Deletes minutes that are older than 30 days. Returns how many.
    pub async fn forget_old_health(&self) -> Result<u64> {
        let gone = sqlx::query!(
            "DELETE FROM health_minutes WHERE at < now() - make_interval(days => $1)",
            KEPT_DAYS
        );
        Ok(gone.execute(&self.pool).await?.rows_affected())
    }
}
