//! Commands of forms, which a browser may send twice.

use domain::ids::AppId;
use domain::operator::Operator;
use domain::receiver::{ReceiverCommand, ReceiverReport};
use sha2::{Digest as _, Sha256};
use sqlx::PgExecutor;

use super::command::{ReceiverError, ReceiverUpdate};
use crate::{Result, Store};

impl Store {
    /// A mark of the receivers of an app and of their secrets. Another receiver or another secret makes another mark.
    pub async fn receivers_mark(&self, app_id: &AppId) -> Result<String> {
        read_mark(&self.pool, app_id).await
    }

    /// Carries out a command of a form, which carries the mark that its page showed. `None` when the receivers have
    /// another mark now: the form was sent before, or somebody else has changed them. So a form that is sent twice
    /// neither adds a second receiver nor retires a secret that was just shown.
    ///
    /// # Errors
    /// The command does not fit what is there, or the database is away.
    pub async fn change_receivers_once(
        &self,
        operator: &Operator,
        app_id: &AppId,
        command: ReceiverCommand,
        mark: &str,
    ) -> Result<Option<ReceiverReport>, ReceiverError> {
        let update =
            ReceiverUpdate { store: self.clone(), operator: operator.clone(), app_id: app_id.clone() };
        self.transaction((update, command, mark.to_owned()), |connection, (update, command, mark)| {
            Box::pin(async move {
                // The locks make forms and commands take turns, so the mark holds until the commit.
                update.lock_app(connection).await?;
                if let ReceiverCommand::RotateSecret(id) = command {
                    update.locked(connection, id).await?;
                }
                if read_mark(&mut *connection, &update.app_id).await? != *mark {
                    return Ok(None);
                }
                update.carry_out(connection, command).await.map(Some)
            })
        })
        .await
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
