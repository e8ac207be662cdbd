//! The mark of an app's receivers: a form, which a browser may send twice, does nothing once they have changed.

use domain::ids::AppId;
use domain::operation::receiver::{ReceiverCommand, receivers_changed};
use sha2::{Digest as _, Sha256};
use sqlx::{PgConnection, PgExecutor};

use super::command::ReceiverUpdate;
use crate::error::{OperationError, Result};
use crate::store::Store;

impl Store {
    /// A mark of the receivers of an app and of their secrets. Another receiver or another secret makes another mark.
    pub async fn receivers_mark(&self, app_id: &AppId) -> Result<String> {
        read_mark(&self.pool, app_id).await
    }
}

impl ReceiverUpdate {
    /// Refuses a command of a form whose page showed other receivers.
    pub(super) async fn require_mark(
        &self,
        connection: &mut PgConnection,
        command: &ReceiverCommand,
        seen: &str,
    ) -> Result<(), OperationError> {
        // The locks make forms and commands take turns, so the mark holds until the commit.
        self.lock_app(connection).await?;
        if let ReceiverCommand::RotateSecret(id) = command {
            self.locked(connection, id).await?;
        }
        let is_same = read_mark(connection, &self.app_id).await? == seen;
        if is_same { Ok(()) } else { Err(receivers_changed(&self.app_id).into()) }
    }
}

async fn read_mark(executor: impl PgExecutor<'_>, app_id: &AppId) -> Result<String> {
    let rows = sqlx::query!(
        "SELECT receiver_id, secret_made_at FROM receivers WHERE app_id = $1 ORDER BY receiver_id",
        app_id.as_str()
    );
    let mut hash = Sha256::new();
    for row in rows.fetch_all(executor).await? {
        hash.update(row.receiver_id);
        hash.update(row.secret_made_at.unix_timestamp_nanos().to_be_bytes());
    }
    Ok(hex::encode(&hash.finalize()[..8]))
}
