//! The columns of `apps` that an operator sets. A row is read as JSON by the names of the columns, so a
//! new column is named here in one statement alone.

use domain::app::{AppLimits, AppSettings};
use domain::ids::AppId;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::error::Result;

/// The values of these columns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AppColumns {
    #[serde(flatten)]
    pub(crate) settings: AppSettings,
    #[serde(flatten)]
    pub(crate) limits: AppLimits,
}

/// A row of `apps` without its secret.
#[derive(Debug, Deserialize)]
pub(crate) struct AppRow {
    pub(super) app_id: AppId,
    #[serde(flatten)]
    pub(crate) columns: AppColumns,
    #[serde(with = "time::serde::rfc3339::option")]
    suspended_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    pub(super) created_at: OffsetDateTime,
}

impl AppRow {
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended_at.is_some()
    }
}

/// Writes every column that an operator sets.
pub(super) async fn write_columns(
    connection: &mut PgConnection,
    app_id: &AppId,
    columns: &AppColumns,
) -> Result<()> {
    sqlx::query!(
        "UPDATE apps SET name = new.name, category = new.category, scopes = new.scopes,
                sandbox = new.sandbox, preorder_check = new.preorder_check, language = new.language,
                exchanges_per_second = new.exchanges_per_second, reads_per_second = new.reads_per_second,
                reports_per_second = new.reports_per_second,
                uploads_per_second = new.uploads_per_second, tokens_per_second = new.tokens_per_second,
                logins_per_second = new.logins_per_second, image_bytes_per_day = new.image_bytes_per_day,
                image_bytes_max = new.image_bytes_max, images_per_day = new.images_per_day, images_max = new.images_max
         FROM jsonb_populate_record(NULL::apps, $2) AS new WHERE apps.app_id = $1",
        app_id.as_str(),
        json!(columns)
    )
    .execute(connection)
    .await?;
    Ok(())
}
