//! The start of a gift: by one person, or by the second one who confirms it.

use domain::ids::{AppId, CreditRef};
use domain::operation::wallet::{gift_differs, needs_second_person, unknown_gift};
use domain::operator::Operator;
use serde_json::json;
use sqlx::PgConnection;

use super::{Gift, GiftDigest, PIECE_LINES, find, lines_after};
use crate::alone_limit::require_within;
use crate::error::{OperationError, StoreError};
use crate::operator_log::{LogLine, OperatorAction};
use crate::store::Store;

impl Store {
    /// Starts a gift. It is credited by a server soon afterwards. `false` when it was started before.
    ///
    /// # Errors
    /// There is no such gift, the operator needs a second person for its sum, or the database is away.
    pub async fn start_gift(
        &self,
        operator: &Operator,
        app_id: &AppId,
        name: &CreditRef,
    ) -> Result<bool, OperationError> {
        let context = (operator.clone(), app_id.clone(), name.clone());
        self.transaction(context, |connection, (operator, app_id, name)| {
            Box::pin(begin(connection, operator, app_id, name))
        })
        .await
    }
}

/// Marks a gift as started, with its line in the operator's log. `false` when it was started before.
pub(crate) async fn begin(
    connection: &mut PgConnection,
    operator: &Operator,
    app_id: &AppId,
    name: &CreditRef,
) -> Result<bool, OperationError> {
    let locked = sqlx::query_scalar!(
        "SELECT gift FROM gifts WHERE app_id = $1 AND gift = $2 FOR UPDATE",
        app_id.as_str(),
        name.as_str()
    );
    locked.fetch_optional(&mut *connection).await.map_err(StoreError::from)?;
    let gift = find(&mut *connection, app_id, name).await?.ok_or_else(|| unknown_gift(app_id, name))?;
    if gift.started_at.is_some() {
        return Ok(false);
    }
    require_as_shown(connection, app_id, &gift).await?;
    sqlx::query!(
        "UPDATE gifts SET started_by = $3, asked_by = $4, started_at = clock_timestamp() WHERE app_id = $1 AND gift = $2",
        app_id.as_str(),
        name.as_str(),
        operator.name(),
        operator.asked_by()
    )
    .execute(&mut *connection)
    .await
    .map_err(StoreError::from)?;
    let after =
        json!({ "ref": name.as_str(), "lines": gift.lines, "free": gift.free, "charge": gift.charge });
    let line = LogLine::new(operator, OperatorAction::GiftStart, name.as_str()).of_app(app_id);
    line.after(after).note(&gift.reason).record(&mut *connection).await?;
    require_within(connection, operator, needs_second_person).await?;
    Ok(true)
}

/// Refuses a gift whose lines are not those that were shown: its name is their digest.
async fn require_as_shown(
    connection: &mut PgConnection,
    app_id: &AppId,
    gift: &Gift,
) -> Result<(), OperationError> {
    let mut digest = GiftDigest::new(gift.create, &gift.reason);
    let mut after = 0;
    loop {
        let of = (app_id.as_str(), gift.name.as_str());
        let lines = lines_after(&mut *connection, of, after, PIECE_LINES).await?;
        let Some(last) = lines.last() else { break };
        after = last.line;
        for line in &lines {
            digest.add(&line.open_id, (line.free, line.charge), &line.reference);
        }
    }
    if digest.name() == gift.name.as_str() { Ok(()) } else { Err(gift_differs(&gift.name).into()) }
}
