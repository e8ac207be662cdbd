//! Paying players: how many players have bought something in a span of time (contract 13.2.9).

use domain::ids::Os;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::list::Zone;
use super::revenue::{REPORT_ENTRIES_MAX, RevenueFilter, RevenueQuery, RevenueReport, apps_of, span};
use crate::error::OperationError;
use crate::store::Store;

impl Store {
    /// The revenue of apps with their paying players, where the apps have at most [`REPORT_ENTRIES_MAX`] exchanges in that
    /// time.
    ///
    /// # Errors
    /// A field of the query does not fit, or the database does not answer.
    pub async fn revenue_with_payers(&self, query: RevenueQuery) -> Result<RevenueReport, OperationError> {
        let mut report = self.revenue(query.clone()).await?;
        let all = if query.filter == RevenueFilter::default() {
            report.total.count
        } else {
            let all = RevenueQuery { filter: RevenueFilter::default(), group: Vec::new(), ..query.clone() };
            self.revenue(all).await?.total.count
        };
        if all <= REPORT_ENTRIES_MAX {
            let payers = self.transaction(query, |connection, query| Box::pin(payers(connection, query)));
            report.payers = Some(payers.await?);
        }
        Ok(report)
    }

    /// When the first entry of the apps was made, down to the hour. `None`: there is none.
    ///
    /// # Errors
    /// An app that is named is not there, or the database does not answer.
    pub async fn first_entry(&self, query: RevenueQuery) -> Result<Option<OffsetDateTime>, OperationError> {
        self.transaction(query, |connection, query| {
            Box::pin(async move {
                let apps = apps_of(connection, &query.apps).await?;
                let all = span(connection, apps.keys(), None, None).await?;
                Ok::<_, OperationError>(all.map(|(first, _)| first))
            })
        })
        .await
    }
}

/// Players with an exchange that the query counts, each once for each app.
async fn payers(connection: &mut PgConnection, query: &RevenueQuery) -> Result<i64, OperationError> {
    let app_nos: Vec<i32> = apps_of(connection, &query.apps).await?.into_keys().collect();
    let [since, until] = [query.since, query.until].map(|end| end.map(|end| query.time_zone.moment(end)));
    let Some((since, until)) = span(connection, app_nos.iter(), since, until).await? else { return Ok(0) };
    let item = query.filter.item.as_ref();
    let players = sqlx::query_scalar!(
        r#"SELECT count(*) AS "players!" FROM (
               SELECT DISTINCT e.app_no, e.wallet_no FROM (
                   SELECT app_no, wallet_no, item_id, zone_id, os FROM ledger_entries
                   WHERE app_no = ANY ($1) AND at >= $2 AND at < $3 AND kind = 'exchange'
                   UNION ALL
                   SELECT app_no, wallet_no, item_id, zone_id, os FROM archived_entries
                   WHERE app_no = ANY ($1) AND at >= $2 AND at < $3 AND kind = 'exchange') e
               WHERE ($4::text IS NULL OR split_part(e.zone_id, '_', 1) = $4)
                   AND ($7::text IS NULL OR e.os = $7)
                   AND ($5::text IS NULL OR EXISTS (
                       SELECT FROM items i WHERE i.app_no = e.app_no AND i.item_id = e.item_id
                           AND (i.product_name = $5
                               OR $6 AND strpos(lower(i.product_name COLLATE "C"), lower($5 COLLATE "C")) > 0)))
           ) paying"#,
        &app_nos,
        since,
        until,
        query.filter.zone.as_ref().map(Zone::without_role),
        item.map(|item| item.text.as_str()),
        item.is_some_and(|item| item.is_part),
        query.filter.os.as_ref().map(Os::as_str)
    );
    Ok(players.fetch_one(connection).await?)
}
