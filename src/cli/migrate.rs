//! `minitill migrate`.

use serde_json::json;
use store::Store;

use super::{Context, Failure};

/// The migrations were applied when the store was opened; this tells so.
pub(super) async fn run(context: &Context, store: &Store) -> Result<(), Failure> {
    let pending = store.pending_migrations().await?.unwrap_or_default();
    context
        .output
        .print(&json!({ "pending": pending }), || "The database holds the schema of this program.".to_owned())
}
