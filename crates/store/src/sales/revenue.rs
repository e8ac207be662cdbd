//! Revenue: what an app has taken and given back, by day, product and zone (contract 13.2.3).

use std::collections::BTreeMap;

use domain::fields::Expected;
use domain::ids::{AppId, Os, ProductText};
use domain::moment::GivenMoment;
use domain::operation::books::{empty_span, platforms_not_summed, too_many_rows};
use domain::operation::unknown_app;
use domain::period::TimeZone;
use domain::rights::Apps;
use serde::Serialize;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::list::Zone;
use super::roll_up::{exchanges, known_by_os, of_hours, of_keys};
use super::time_groups::TimeGroups;
use crate::engine::Engine;
use crate::error::{OperationError, Result, StoreError};
use crate::store::Store;

/// The most rows of a report.
pub const REVENUE_ROWS_MAX: usize = 100_000;
/// The most exchanges of whole hours that a report reads one by one. The sums of hours do not have players, nor
/// platforms before the upgrade that brought them.
pub const REPORT_ENTRIES_MAX: i64 = 200_000;

domain::word_enum! {
    /// What revenue is grouped by.
    pub enum RevenueGroup {
        /// The hour (UTC), which has the name that the clock of the report shows.
        Hour = "hour",
        /// The day in the time zone of the report.
        Day = "day",
        /// The week in the time zone of the report, by its Monday.
        Week = "week",
        /// The app.
        App = "app_id",
        /// The name of what was bought.
        ProductName = "product_name",
        /// The zone: what `zone_id` has before its first underscore.
        Zone = "zone",
        /// The platform of the player.
        Os = "os",
    }
}

impl RevenueGroup {
    /// Whether it is a length of time. A report has one of them at most.
    #[must_use]
    pub const fn is_time(self) -> bool {
        matches!(self, Self::Hour | Self::Day | Self::Week)
    }
}

/// The items that are counted: one by its name, or all that have a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemFilter {
    /// The name, or a part of it.
    pub text: ProductText,
    /// Whether it may be a part. Upper and lower case of ASCII are the same then.
    pub is_part: bool,
}

/// What is counted. The default is everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RevenueFilter {
    /// Only of this zone. The role of a whole `zone_id` does not count.
    pub zone: Option<Zone>,
    /// Only of these items.
    pub item: Option<ItemFilter>,
    /// Only of players on this platform.
    pub os: Option<Os>,
}

/// The request.
#[derive(Debug, Clone)]
pub struct RevenueQuery {
    /// The apps.
    pub apps: Apps,
    /// What of them is counted.
    pub filter: RevenueFilter,
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
        let wrong = Expected::new(
            "one of hour, day and week, app_id, product_name, zone and os, each at most once, with commas between them",
        );
        let groups: Result<Vec<_>, _> = text.split(',').map(RevenueGroup::parse).collect();
        let Ok(mut groups) = groups else { return Err(wrong) };
        let given = groups.len();
        groups.sort_unstable();
        groups.dedup();
        let times = groups.iter().filter(|group| group.is_time()).count();
        if groups.len() == given && times <= 1 { Ok(groups) } else { Err(wrong) }
    }

    /// The length of time of each row, where rows have one.
    fn time(&self) -> Option<RevenueGroup> {
        self.group.iter().copied().find(|group| group.is_time())
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
    /// The hour, such as 2026-10-31T08:00+08:00. There if rows are grouped by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hour: Option<String>,
    /// The day, such as 2026-10-31. There if rows are grouped by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// The Monday of the week, such as 2026-10-26. There if rows are grouped by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub week: Option<String>,
    /// The app. There if rows are grouped by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AppId>")]
    pub app_id: Option<String>,
    /// The product. There if rows are grouped by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_name: Option<String>,
    /// The zone. There if rows are grouped by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The platform. There if rows are grouped by it. Empty: it is not known, because the exchange was archived long ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// The sums.
    #[serde(flatten)]
    pub sums: RevenueSums,
}

impl RevenueRow {
    /// The name that a row has for one of the groups that it is of.
    #[must_use]
    pub fn name(&self, group: RevenueGroup) -> &str {
        let name = match group {
            RevenueGroup::Hour => &self.hour,
            RevenueGroup::Day => &self.day,
            RevenueGroup::Week => &self.week,
            RevenueGroup::App => &self.app_id,
            RevenueGroup::ProductName => &self.product_name,
            RevenueGroup::Zone => &self.zone,
            RevenueGroup::Os => &self.os,
        };
        name.as_deref().unwrap_or_default()
    }
}

/// The revenue of apps in a span of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Revenue")]
pub struct RevenueReport {
    /// The app. Null: the sums are of several apps.
    #[schemars(with = "Option<AppId>")]
    pub app_id: Option<String>,
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
    /// In the order of time, app, product, zone and platform. A group without an exchange and a cancel has no row.
    pub rows: Vec<RevenueRow>,
    /// The sums of all rows.
    pub total: RevenueSums,
    /// Players who have bought something. Null: the apps have more than 200,000 exchanges in that time.
    pub payers: Option<i64>,
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

/// Time, app, product, zone and platform, those of them that rows are grouped by. A time is by its number in
/// [`TimeGroups`].
type GroupKey = (Option<i32>, Option<String>, Option<String>, Option<String>, Option<String>);

/// The sums of a group as the database gives them. They are text, because they may need more than 64 bits.
pub(super) struct GroupRow {
    pub(super) time: Option<i32>,
    pub(super) app_no: Option<i32>,
    pub(super) product_name: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) os: Option<String>,
    pub(super) count: String,
    pub(super) free_taken: String,
    pub(super) charge_taken: String,
    pub(super) free_given_back: String,
    pub(super) charge_given_back: String,
}

/// What a report is made of.
#[expect(clippy::struct_excessive_bools, reason = "each is a parameter of the statements")]
pub(super) struct RevenueScope {
    /// The apps by their numbers.
    pub(super) apps: BTreeMap<i32, String>,
    pub(super) app_nos: Vec<i32>,
    pub(super) by_time: bool,
    pub(super) by_app: bool,
    pub(super) by_product: bool,
    pub(super) by_zone: bool,
    pub(super) by_os: bool,
    pub(super) times: TimeGroups,
    /// A zone without a role.
    pub(super) zone: Option<String>,
    pub(super) item: Option<String>,
    /// Whether `item` is a part of a name.
    pub(super) is_part: bool,
    pub(super) os: Option<String>,
}

impl RevenueScope {
    /// Whether sums by platform are needed.
    pub(super) const fn is_of_os(&self) -> bool {
        self.by_os || self.os.is_some()
    }

    /// What is asked for of these apps, whose entries lie in this span.
    fn new(query: &RevenueQuery, apps: BTreeMap<i32, String>, span: Option<Span>) -> Self {
        let has = |group| query.group.contains(&group);
        let times = query.time().zip(span);
        let zone = query.filter.zone.as_ref().map(|zone| zone.without_role().to_owned());
        Self {
            app_nos: apps.keys().copied().collect(),
            apps,
            by_time: query.time().is_some(),
            by_app: has(RevenueGroup::App),
            by_product: has(RevenueGroup::ProductName),
            by_zone: has(RevenueGroup::Zone),
            by_os: has(RevenueGroup::Os),
            times: times
                .map(|(group, span)| TimeGroups::new(group, &query.time_zone, span))
                .unwrap_or_default(),
            zone,
            item: query.filter.item.as_ref().map(|item| item.text.to_string()),
            is_part: query.filter.item.as_ref().is_some_and(|item| item.is_part),
            os: query.filter.os.as_ref().map(ToString::to_string),
        }
    }
}

/// Groups while they are added up.
#[derive(Default)]
pub(super) struct Groups(BTreeMap<GroupKey, WideSums>);

impl Groups {
    fn add(&mut self, scope: &RevenueScope, rows: Vec<GroupRow>) -> Result<()> {
        for row in rows {
            let texts =
                [row.count, row.free_taken, row.charge_taken, row.free_given_back, row.charge_given_back];
            let mut sums = [0; 5];
            for (sum, text) in sums.iter_mut().zip(texts) {
                *sum = text.parse().map_err(|_| StoreError::damaged("sales"))?;
            }
            let app_id = row.app_no.and_then(|app_no| scope.apps.get(&app_no)).cloned();
            let key = (row.time, app_id, row.product_name, row.zone, row.os);
            self.0.entry(key).or_default().add(WideSums(sums));
        }
        Ok(())
    }
}

impl Store {
    /// The revenue of apps.
    ///
    /// # Errors
    /// A field of the query does not fit, or the database does not answer.
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
    // A plan for any arguments expects a single row, and sorts all of them on disk.
    sqlx::query!("SET LOCAL plan_cache_mode = force_custom_plan").execute(&mut *connection).await?;
    let apps = apps_of(connection, &query.apps).await?;
    let app_id = Some(&apps).filter(|apps| apps.len() == 1).and_then(|apps| apps.values().next().cloned());
    let since = query.since.map(|since| query.time_zone.moment(since));
    let until = query.until.map(|until| query.time_zone.moment(until));
    if since.zip(until).is_some_and(|(since, until)| since >= until) {
        return Err(empty_span().into());
    }
    let span = span(connection, apps.keys(), since, until).await?;
    let is_by_hour = query.time() == Some(RevenueGroup::Hour);
    if is_by_hour && span.is_some_and(|(since, until)| (until - since).whole_hours() > HOURS_MAX) {
        return Err(too_many_rows(REVENUE_ROWS_MAX).into());
    }
    let scope = RevenueScope::new(query, apps, span);
    let groups = match span {
        Some(span) => groups(connection, &scope, span, engine).await?,
        None => Groups::default(),
    };
    if groups.0.len() > REVENUE_ROWS_MAX {
        return Err(too_many_rows(REVENUE_ROWS_MAX).into());
    }
    let (mut total, mut rows) = (WideSums::default(), Vec::with_capacity(groups.0.len()));
    for ((time, app_id, product_name, zone, os), sums) in groups.0 {
        total.add(sums);
        let name = time.map(|number| scope.times.name(number)).transpose()?;
        let of = |group| name.clone().filter(|_| query.time() == Some(group));
        rows.push(RevenueRow {
            hour: of(RevenueGroup::Hour),
            day: of(RevenueGroup::Day),
            week: of(RevenueGroup::Week),
            app_id,
            product_name,
            zone,
            os,
            sums: sums.narrow()?,
        });
    }
    Ok(RevenueReport {
        app_id,
        since,
        until,
        time_zone: query.time_zone.to_string(),
        rows,
        total: total.narrow()?,
        payers: None,
    })
}

/// The apps by their numbers. Each that is named must be there.
pub(super) async fn apps_of(
    connection: &mut PgConnection,
    apps: &Apps,
) -> Result<BTreeMap<i32, String>, OperationError> {
    let rows = sqlx::query!(
        "SELECT app_no, app_id FROM apps WHERE $1::text[] IS NULL OR app_id = ANY ($1)",
        apps.ids()
    );
    let rows = rows.fetch_all(connection).await.map_err(StoreError::from)?;
    let found: BTreeMap<i32, String> = rows.into_iter().map(|row| (row.app_no, row.app_id)).collect();
    for id in apps.listed() {
        if !found.values().any(|known| known == id) {
            return Err(unknown_app(id).into());
        }
    }
    Ok(found)
}

/// A span with both ends: the first is in it, the second is not.
pub(super) type Span = (OffsetDateTime, OffsetDateTime);

/// The part of a span in which the apps have entries, from hour to hour where an end is open. `None`: they have none.
pub(super) async fn span(
    connection: &mut PgConnection,
    app_nos: impl Iterator<Item = &i32>,
    since: Option<OffsetDateTime>,
    until: Option<OffsetDateTime>,
) -> Result<Option<Span>> {
    let mut all: Option<Span> = None;
    // An index gives the ends of one app. It does not give those of several at once.
    for app_no in app_nos {
        let ends = sqlx::query!(
            "SELECT date_trunc('hour', least(
                     (SELECT min(at) FROM ledger_entries WHERE app_no = $1),
                     (SELECT min(at) FROM archived_entries WHERE app_no = $1)), 'UTC') AS first,
                 date_trunc('hour', greatest(
                     (SELECT max(at) FROM ledger_entries WHERE app_no = $1),
                     (SELECT max(at) FROM archived_entries WHERE app_no = $1)), 'UTC') + interval '1 hour' AS last",
            app_no
        );
        let ends = ends.fetch_one(&mut *connection).await?;
        if let Some((first, last)) = ends.first.zip(ends.last) {
            all = Some(all.map_or((first, last), |(since, until)| (since.min(first), until.max(last))));
        }
    }
    let Some((first, last)) = all else { return Ok(None) };
    let span = (since.map_or(first, |since| since.max(first)), until.map_or(last, |until| until.min(last)));
    Ok(Some(span).filter(|(since, until)| since < until))
}

/// Whole hours come from the roll-up and from what it does not have yet. The ends, and hours in which a day begins, come
/// from the ledger. So do hours that are not known by platform, where platforms are asked for.
async fn groups(
    connection: &mut PgConnection,
    scope: &RevenueScope,
    (since, until): Span,
    engine: Engine,
) -> Result<Groups, OperationError> {
    let mut groups = Groups::default();
    let (mut first, last) = (hour_after(since), hour_before(until));
    if scope.is_of_os() && engine != Engine::Citus {
        let known = known_by_os(connection).await?;
        if first < known && exchanges(connection, scope, (first, known.min(last))).await? > REPORT_ENTRIES_MAX
        {
            let field = if scope.by_os { "group" } else { "os" };
            return Err(platforms_not_summed(field, known, REPORT_ENTRIES_MAX).into());
        }
        first = first.max(known);
    }
    if engine == Engine::Citus || first >= last {
        groups.add(scope, of_ledger(connection, scope, (since, until)).await?)?;
        return Ok(groups);
    }
    let mut of_the_ledger = vec![(since, first), (last, until)];
    of_the_ledger.extend(scope.times.split_hours((first, last)).map(|hour| (hour, hour + HOUR)));
    for part in of_the_ledger.into_iter().filter(|(since, until)| since < until) {
        groups.add(scope, of_ledger(connection, scope, part).await?)?;
    }
    groups.add(scope, of_hours(connection, scope, (first, last)).await?)?;
    groups.add(scope, of_keys(connection, scope, (first, last)).await?)?;
    Ok(groups)
}

pub(super) const HOUR: time::Duration = time::Duration::hours(1);
/// The most hours of a report by hour: with one row each it would have too many.
const HOURS_MAX: i64 = 100_000;

/// The beginning of the hour of a moment (UTC).
pub(super) fn hour_before(moment: OffsetDateTime) -> OffsetDateTime {
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
        r#"SELECT CASE WHEN $4 THEN width_bucket(s.at, $8::timestamptz[]) END AS time,
               CASE WHEN $5 THEN s.app_no END AS app_no, CASE WHEN $6 THEN i.product_name END AS product_name,
               CASE WHEN $7 THEN split_part(s.zone_id, '_', 1) END AS zone, CASE WHEN $12 THEN s.os END AS os,
               sum(s.count)::text AS "count!", sum(s.free_taken)::text AS "free_taken!",
               sum(s.charge_taken)::text AS "charge_taken!", sum(s.free_given_back)::text AS "free_given_back!",
               sum(s.charge_given_back)::text AS "charge_given_back!"
           FROM sales s JOIN items i ON i.app_no = s.app_no AND i.item_id = s.item_id
           WHERE s.app_no = ANY ($1) AND s.at >= $2 AND s.at < $3
               AND ($9::text IS NULL OR split_part(s.zone_id, '_', 1) = $9)
               AND ($10::text IS NULL OR i.product_name = $10
                   OR $11 AND strpos(lower(i.product_name COLLATE "C"), lower($10 COLLATE "C")) > 0)
               AND ($13::text IS NULL OR s.os = $13)
           GROUP BY 1, 2, 3, 4, 5"#,
        &scope.app_nos,
        since,
        until,
        scope.by_time,
        scope.by_app,
        scope.by_product,
        scope.by_zone,
        &scope.times.starts,
        scope.zone,
        scope.item,
        scope.is_part,
        scope.by_os,
        scope.os
    );
    Ok(rows.fetch_all(connection).await?)
}
