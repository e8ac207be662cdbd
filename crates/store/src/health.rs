//! Health history: what instances saw, minute by minute (contract 16.1). It outlives them.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::health::{ChartSpan, HealthMinute, HealthPoint, HealthPoints, HealthProblem, HealthSpan};
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
        let rows = sqlx::query_scalar!(
            r#"SELECT seen AS "seen: Json<HealthMinute>" FROM health_minutes WHERE at >= $1 AND at < $2
               ORDER BY at, instance"#,
            since,
            until
        );
        Ok(rows.fetch_all(&self.pool).await?.into_iter().map(|Json(minute)| minute).collect())
    }

    /// What all instances saw in each step of the time from `since` on, oldest first (contract 16.3.5). The database adds up
    /// what [`HealthPoints::add`] does: a month of minutes would take too long to read.
    pub async fn health_points(&self, since: OffsetDateTime, span: ChartSpan) -> Result<Vec<HealthPoint>> {
        let (until, step) = (since + span.length(), span.step().as_secs_f64());
        let sums = sqlx::query!(
            r#"SELECT step AS "step!", count(*) AS "minutes!", sum(succeeded)::bigint AS "succeeded!",
                   sum(weighted) / sum(weight)::float8 AS p50_ms, max(p99_ms) AS p99_ms, max(round_trip_ms) AS round_trip_ms,
                   bool_or(started) AS "started!", max(queue)::bigint AS queue, max(connections)::bigint AS connections,
                   max(database_connections)::bigint AS database_connections
               FROM (
                   SELECT date_bin(make_interval(secs => $3), at, $1) AS step, sum((seen->>'succeeded')::bigint) AS succeeded,
                       sum((seen->>'p50_ms')::float8 * w.weight) AS weighted,
                       sum(w.weight) FILTER (WHERE seen->>'p50_ms' IS NOT NULL) AS weight,
                       max((seen->>'p99_ms')::float8) AS p99_ms,
                       max((seen->>'round_trip_ms')::float8) FILTER (WHERE (seen->>'database_up')::boolean)
                           AS round_trip_ms,
                       bool_or(coalesce((seen->>'started')::boolean, false)) AS started,
                       sum((seen->>'queue')::bigint) AS queue, sum((seen->>'connections')::bigint) AS connections,
                       sum((seen->>'database_connections')::bigint) AS database_connections
                   FROM health_minutes
                   CROSS JOIN LATERAL (
                       SELECT greatest(1, (seen->>'succeeded')::bigint + coalesce(sum(count::bigint), 0)) AS weight
                       FROM jsonb_each_text(seen->'refused') AS refused (code, count)) w
                   WHERE at >= $1 AND at < $2
                   GROUP BY at
               ) minutes
               GROUP BY step"#,
            since,
            until,
            step
        );
        let mut points = HealthPoints::new(since, span).finish();
        let sums = sums.fetch_all(&self.pool).await?;
        for row in sums {
            let Some(point) = points.iter_mut().find(|point| point.at == row.step) else { continue };
            (point.minutes, point.succeeded, point.started) = (row.minutes, row.succeeded, row.started);
            (point.p50_ms, point.p99_ms, point.round_trip_ms) = (row.p50_ms, row.p99_ms, row.round_trip_ms);
            (point.queue, point.connections) = (row.queue, row.connections);
            point.database_connections = row.database_connections;
        }
        let refused = sqlx::query!(
            r#"SELECT date_bin(make_interval(secs => $3), at, $1) AS "step!", code AS "code!", sum(count::bigint)::bigint AS "count!"
               FROM health_minutes CROSS JOIN LATERAL jsonb_each_text(seen->'refused') AS refused (code, count)
               WHERE at >= $1 AND at < $2 GROUP BY 1, 2"#,
            since,
            until,
            step
        );
        for row in refused.fetch_all(&self.pool).await? {
            let code = row.code.parse().map_err(|_| StoreError::damaged("health_minutes"))?;
            if let Some(point) = points.iter_mut().find(|point| point.at == row.step) {
                point.refused.insert(code, row.count);
            }
        }
        for told in self.health_spans(since, until, span.step()).await? {
            if let Some(point) = points.iter_mut().find(|point| point.at == told.at) {
                point.problems = told.problems;
            }
        }
        Ok(points)
    }

    /// The faults in each span of this length from `since` on, oldest first. A span that no instance reported is
    /// left out.
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
