//! Recent activity of apps, for their list (contract 8.6.56).

use std::collections::HashMap;

use domain::ids::AppId;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::engine::Engine;
use crate::error::Result;
use crate::store::Store;

/// The last exchange is sought among the newest entries of an app, at most this many. An older one is known by its hour.
const ENTRIES_LOOKED_THROUGH: i64 = 1_000;

/// What an app has done of late.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AppActivity {
    /// How often properly signed changes were refused.
    pub refused: i64,
    /// Time of the last exchange. Its hour, where the app has 1,000 newer ledger entries. `None`: there was none.
    pub last_exchange_at: Option<OffsetDateTime>,
}

impl Store {
    /// The activity of these apps by their ids: refusals since a moment, and the last exchange.
    pub async fn app_activity<'a>(
        &self,
        apps: impl Iterator<Item = &'a AppId>,
        since: OffsetDateTime,
    ) -> Result<HashMap<String, AppActivity>> {
        let apps: Vec<String> = apps.map(ToString::to_string).collect();
        let engine = self.engine.get();
        let mut connection = self.pool.acquire().await?;
        let refused = sqlx::query!(
            r#"SELECT app_id, sum(count)::bigint AS "refused!" FROM exchange_refusals
               WHERE app_id = ANY ($1) AND last_at >= $2 GROUP BY app_id"#,
            &apps,
            since
        );
        let refused = refused.fetch_all(&mut *connection).await?;
        let refused: HashMap<_, _> = refused.into_iter().map(|row| (row.app_id, row.refused)).collect();
        let numbers = sqlx::query!("SELECT app_id, app_no FROM apps WHERE app_id = ANY ($1)", &apps);
        let mut activity = HashMap::new();
        for app in numbers.fetch_all(&mut *connection).await? {
            let last_exchange_at = last_exchange(&mut connection, engine, app.app_no).await?;
            let refused = refused.get(&app.app_id).copied().unwrap_or_default();
            activity.insert(app.app_id, AppActivity { refused, last_exchange_at });
        }
        Ok(activity)
    }
}

/// The time of the last exchange of an app. A statement for each app is a range of an index for each.
async fn last_exchange(
    connection: &mut PgConnection,
    engine: Engine,
    app_no: i32,
) -> Result<Option<OffsetDateTime>> {
    let newest = sqlx::query_scalar!(
        "SELECT max(e.at) FROM (
             SELECT at, kind FROM ledger_entries WHERE app_no = $1 ORDER BY at DESC LIMIT $2) e
         WHERE e.kind = 'exchange'",
        app_no,
        ENTRIES_LOOKED_THROUGH
    );
    let newest = newest.fetch_one(&mut *connection).await?;
    if newest.is_some() || engine == Engine::Citus {
        return Ok(newest);
    }
    let hour = sqlx::query_scalar!(
        "SELECT max(hour) FROM sales_hours WHERE app_no = $1 AND cut = 2 AND count > 0",
        app_no
    );
    Ok(hour.fetch_one(connection).await?)
}
