//! The number of an app, by which the tables of money name it.

use domain::ids::AppId;
use domain::operation::unknown_app;
use sqlx::PgExecutor;

use crate::error::{OperationError, Result};

/// The number of an app. `None` when there is no such app.
pub(super) async fn number_if_any(executor: impl PgExecutor<'_>, app_id: &AppId) -> Result<Option<i32>> {
    let app_no = sqlx::query_scalar!("SELECT app_no FROM apps WHERE app_id = $1", app_id.as_str());
    Ok(app_no.fetch_optional(executor).await?)
}

/// The number of an app, which must be there.
pub(super) async fn number_of(executor: impl PgExecutor<'_>, app_id: &AppId) -> Result<i32, OperationError> {
    Ok(number_if_any(executor, app_id).await?.ok_or_else(|| unknown_app(app_id))?)
}
