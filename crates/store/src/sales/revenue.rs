//! Revenue: what an app has taken and given back, by day, product and zone (contract 13.2.3).

use std::collections::BTreeMap;

use domain::fields::Expected;
use domain::ids::AppId;
use domain::moment::GivenMoment;
use domain::operation::books::{empty_span, too_many_rows};
use domain::operation::unknown_app;
use domain::period::{TimeSpan, TimeZone};
use serde::Serialize;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::roll_up::{of_hours, of_keys};
use crate::engine::Engine;
use crate::error::{OperationError, Result, StoreError};
use crate::store::Store;

/// The most rows of a report.
pub const REVENUE_ROWS_MAX: usize = 100_000;

domain::word_enum! {
    /// What revenue is grouped by.
    pub enum RevenueGroup {
        /// The day in the time zone of the report.
        Day = "day",
        /// The name of what was bought.
        ProductName = "product_name",
        /// The zone: what `zone_id` has before its first underscore.
        Zone = "zone",
    }
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct RevenueQuery {
    /// The app.
    pub app_id: AppId,
    /// At or after this moment; one without an offset is in `time_zone`.
    pub since: Option<GivenMoment>,
    /// Before this moment.
    pub until: Option<GivenMoment>,
    /// In the order of the columns. Empty: one sum.
    pub group: Vec<RevenueGroup>,
    /// The time zone in which days begin.
    pub time_zone: TimeZone,
}

impl RevenueQuery {
    /// Reads the names of groups, and gives them in the order of the columns.
    ///
    /// # Errors
    /// Another text, or a name that stands twice.
    pub fn parse_groups(text: &str) -> Result<Vec<RevenueGroup>, Expected> {
        let wrong = Expected::new("day, product_name and zone, each at most once, with commas between them");
        let groups: Result<Vec<_>, _> = text.split(',').map(RevenueGroup::parse).collect();
        let Ok(mut groups) = groups else { return Err(wrong) };
        let given = groups.len();
        groups.sort_unstable();
        groups.dedup();
        if groups.len() == given { Ok(groups) } else { Err(wrong) }
    }
}

/// Sums of exchanges and cancels. They are 64-bit integers; none is negative but `net`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct RevenueSums {
    /// Number of exchanges.
    pub count: i64,
    /// Gifted currency that exchanges took.
    pub free_taken: i64,
    /// Charged currency that exchanges took.
    pub charge_taken: i64,
    /// Gifted currency that cancels gave back.
    pub free_given_back: i64,
    /// Charged currency that cancels gave back.
    pub charge_given_back: i64,
    /// What was taken less what was given back, of both purses.
    pub net: i64,
}

/// The sums of one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct RevenueRow {
    /// The day, such as 2026-10-31. There if rows are grouped by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// The product. There if rows are grouped by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_name: Option<String>,
    /// The zone. There if rows are grouped by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The sums.
    #[serde(flatten)]
    pub sums: RevenueSums,
}

/// The revenue of an app in a span of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Revenue")]
pub struct RevenueReport {
    /// The app.
    #[schemars(with = "AppId")]
    pub app_id: String,
    /// The beginning of the span, which is in it. Null: from the first exchange on.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub since: Option<OffsetDateTime>,
    /// The end of the span, which is not in it. Null: to the last exchange.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub until: Option<OffsetDateTime>,
    /// The time zone of the days.
    pub time_zone: String,
    /// In the order of day, product and zone. A group without an exchange and a cancel has no row.
    pub rows: Vec<RevenueRow>,
    /// The sums of all rows.
    pub total: RevenueSums,
}

/// Sums that may need more than 64 bits on the way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WideSums([i128; 5]);

impl WideSums {
    fn add(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, other)| *sum += other);
    }

    fn narrow(self) -> Result<RevenueSums> {
        let [count, free_taken, charge_taken, free_given_back, charge_given_back] = self.0;
        let net = free_taken + charge_taken - free_given_back - charge_given_back;
        let narrow = |sum: i128| {
            i64::try_from(sum).map_err(|_| StoreError::Internal("a sum needs more than 64 bits".to_owned()))
        };
        Ok(RevenueSums {
            count: narrow(count)?,
            free_taken: narrow(free_taken)?,
            charge_taken: narrow(charge_taken)?,
            free_given_back: narrow(free_given_back)?,
            charge_given_back: narrow(charge_given_back)?,
            net: narrow(net)?,
        })
    }
}

/// Day, product and zone, those of them that rows are grouped by. A day is by its number in [`Days`].
pub(super) type GroupKey = (Option<i32>, Option<String>, Option<String>);

/// The sums of a group as the database gives them. They are text, because they may need more than 64 bits.
pub(super) struct GroupRow {
    pub(super) day: Option<i32>,
    pub(super) product_name: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) count: String,
    pub(super) free_taken: String,
    pub(super) charge_taken: String,
    pub(super) free_given_back: String,
    pub(super) charge_given_back: String,
}

/// What a report is made of.
pub(super) struct RevenueScope {
    pub(super) app_no: i32,
    pub(super) by_day: bool,
    pub(super) by_product: bool,
    pub(super) by_zone: bool,
    pub(super) days: Days,
}

/// The days of a report. The database counts with their beginnings, so that it need not know the time zone: its data may
/// be older than those of the statement and the bill.
#[derive(Debug, Default)]
pub(super) struct Days {
    names: Vec<String>,
    /// Of each day. `width_bucket` gives the number of a day by them, from 1 on.
    pub(super) starts: Vec<OffsetDateTime>,
}

impl Days {
    fn new(zone: &TimeZone, (since, until): Span) -> Self {
        let days = zone.days(TimeSpan { since, until });
        let (names, starts) = days.into_iter().map(|(day, start)| (day.to_string(), start)).unzip();
        Self { names, starts }
    }

    fn name(&self, number: i32) -> Result<String> {
        let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let name = place.and_then(|place| self.names.get(place));
        name.cloned().ok_or_else(|| StoreError::Internal("an entry outside its report".to_owned()))
    }

    /// The hours of a span in which a day begins, but not at their beginning: zones with half and quarter hours have them.
    pub(super) fn split_hours(&self, (since, until): Span) -> impl Iterator<Item = OffsetDateTime> {
        let starts = self.starts.iter().filter(|start| hour_before(**start) != **start);
        starts.map(|start| hour_before(*start)).filter(move |hour| (since..until).contains(hour))
    }
}

/// Groups while they are added up.
#[derive(Default)]
pub(super) struct Groups(BTreeMap<GroupKey, WideSums>);

impl Groups {
    pub(super) fn add(&mut self, rows: Vec<GroupRow>) -> Result<()> {
        for row in rows {
            let texts =
                [row.count, row.free_taken, row.charge_taken, row.free_given_back, row.charge_given_back];
            let mut sums = [0; 5];
            for (sum, text) in sums.iter_mut().zip(texts) {
                *sum = text.parse().map_err(|_| StoreError::damaged("sales"))?;
            }
            self.0.entry((row.day, row.product_name, row.zone)).or_default().add(WideSums(sums));
        }
        Ok(())
    }
}

impl Store {
    /// The revenue of an app.
    ///
    /// # Errors
    /// What does not fit in the query, or the database does not answer.
    pub async fn revenue(&self, query: RevenueQuery) -> Result<RevenueReport, OperationError> {
        let engine = self.engine.get();
        self.transaction(query, move |connection, query| Box::pin(report(connection, query, engine))).await
    }
}

async fn report(
    connection: &mut PgConnection,
    query: &RevenueQuery,
    engine: Engine,
) -> Result<RevenueReport, OperationError> {
    // All parts of the report are of one moment.
    sqlx::query!("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        .execute(&mut *connection)
        .await?;
    // To compile the statements would take longer than most reports.
    sqlx::query!("SET LOCAL jit = off").execute(&mut *connection).await?;
    let app_no = app_no(connection, &query.app_id).await?.ok_or_else(|| unknown_app(&query.app_id))?;
    let since = query.since.map(|since| query.time_zone.moment(since));
    let until = query.until.map(|until| query.time_zone.moment(until));
    if since.zip(until).is_some_and(|(since, until)| since >= until) {
        return Err(empty_span().into());
    }
    let has = |group| query.group.contains(&group);
    let span = span(connection, app_no, since, until).await?;
    let by_day = has(RevenueGroup::Day);
    let scope = RevenueScope {
        app_no,
        by_day,
        by_product: has(RevenueGroup::ProductName),
        by_zone: has(RevenueGroup::Zone),
        days: span.filter(|_| by_day).map(|span| Days::new(&query.time_zone, span)).unwrap_or_default(),
    };
    let groups = match span {
        Some(span) => groups(connection, &scope, span, engine).await?,
        None => Groups::default(),
    };
    if groups.0.len() > REVENUE_ROWS_MAX {
        return Err(too_many_rows(REVENUE_ROWS_MAX).into());
    }
    let (mut total, mut rows) = (WideSums::default(), Vec::with_capacity(groups.0.len()));
    for ((day, product_name, zone), sums) in groups.0 {
        total.add(sums);
        let day = day.map(|number| scope.days.name(number)).transpose()?;
        rows.push(RevenueRow { day, product_name, zone, sums: sums.narrow()? });
    }
    Ok(RevenueReport {
        app_id: query.app_id.to_string(),
        since,
        until,
        time_zone: query.time_zone.to_string(),
        rows,
        total: total.narrow()?,
    })
}

pub(super) async fn app_no(connection: &mut PgConnection, app_id: &AppId) -> Result<Option<i32>> {
    let app_no = sqlx::query_scalar!("SELECT app_no FROM apps WHERE app_id = $1", app_id.as_str());
    Ok(app_no.fetch_optional(connection).await?)
}

/// A span with both ends: the first is in it, the second is not.
type Span = (OffsetDateTime, OffsetDateTime);

/// The part of a span in which the app has entries, from hour to hour where an end is open. `None`: it has none.
async fn span(
    connection: &mut PgConnection,
    app_no: i32,
    since: Option<OffsetDateTime>,
    until: Option<OffsetDateTime>,
) -> Result<Option<Span>> {
    let ends = sqlx::query!(
        "SELECT date_trunc('hour', least(
                 (SELECT min(at) FROM ledger_entries WHERE app_no = $1),
                 (SELECT min(at) FROM archived_entries WHERE app_no = $1)), 'UTC') AS first,
             date_trunc('hour', greatest(
                 (SELECT max(at) FROM ledger_entries WHERE app_no = $1),
                 (SELECT max(at) FROM archived_entries WHERE app_no = $1)), 'UTC') + interval '1 hour' AS last",
        app_no
    );
    let ends = ends.fetch_one(connection).await?;
    let Some((first, last)) = ends.first.zip(ends.last) else { return Ok(None) };
    let span = (since.map_or(first, |since| since.max(first)), until.map_or(last, |until| until.min(last)));
    Ok(Some(span).filter(|(since, until)| since < until))
}

/// Whole hours come from the roll-up and from what it does not have yet. The ends, and hours in which a day begins, come
/// from the ledger.
async fn groups(
    connection: &mut PgConnection,
    scope: &RevenueScope,
    (since, until): Span,
    engine: Engine,
) -> Result<Groups> {
    let mut groups = Groups::default();
    let (first, last) = (hour_after(since), hour_before(until));
    if engine == Engine::Citus || first >= last {
        groups.add(of_ledger(connection, scope, (since, until)).await?)?;
        return Ok(groups);
    }
    let mut of_the_ledger = vec![(since, first), (last, until)];
    if scope.by_day {
        of_the_ledger.extend(scope.days.split_hours((first, last)).map(|hour| (hour, hour + HOUR)));
    }
    for part in of_the_ledger.into_iter().filter(|(since, until)| since < until) {
        groups.add(of_ledger(connection, scope, part).await?)?;
    }
    groups.add(of_hours(connection, scope, (first, last)).await?)?;
    groups.add(of_keys(connection, scope, (first, last)).await?)?;
    Ok(groups)
}

const HOUR: time::Duration = time::Duration::hours(1);

/// The beginning of the hour of a moment (UTC).
fn hour_before(moment: OffsetDateTime) -> OffsetDateTime {
    moment.truncate_to_hour()
}

/// The first beginning of an hour at or after a moment.
fn hour_after(moment: OffsetDateTime) -> OffsetDateTime {
    let before = hour_before(moment);
    if before == moment { moment } else { before + HOUR }
}

/// The sums of a span as the ledger has them.
pub(super) async fn of_ledger(
    connection: &mut PgConnection,
    scope: &RevenueScope,
    (since, until): Span,
) -> Result<Vec<GroupRow>> {
    let rows = sqlx::query_as!(
        GroupRow,
        r#"SELECT CASE WHEN $4 THEN width_bucket(s.at, $7::timestamptz[]) END AS day,
               CASE WHEN $5 THEN i.product_name END AS product_name,
               CASE WHEN $6 THEN split_part(s.zone_id, '_', 1) END AS zone,
               sum(s.count)::text AS "count!", sum(s.free_taken)::text AS "free_taken!",
               sum(s.charge_taken)::text AS "charge_taken!", sum(s.free_given_back)::text AS "free_given_back!",
               sum(s.charge_given_back)::text AS "charge_given_back!"
           FROM sales s JOIN items i ON i.app_no = s.app_no AND i.item_id = s.item_id
           WHERE s.app_no = $1 AND s.at >= $2 AND s.at < $3
           GROUP BY 1, 2, 3"#,
        scope.app_no,
        since,
        until,
        scope.by_day,
        scope.by_product,
        scope.by_zone,
        &scope.days.starts
    );
    Ok(rows.fetch_all(connection).await?)
}
