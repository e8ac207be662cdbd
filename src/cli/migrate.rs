//! `minitill migrate` migrates the database to the schema of this program.

use anyhow::Result;
use serde_json::json;
use store::Store;

use super::Context;

/// Reports the result: opening the store has already applied the migrations.
pub(super) async fn run(context: &Context, store: &Store) -> Result<()> {
    let pending = store.pending_migrations().await?.unwrap_or_default();
    context.output.print(&json!({ "pending": pending }), "The database has the schema of this program.")
}
