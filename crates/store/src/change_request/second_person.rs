//! The second person of a request: who may be the same person as whoever asked, and whether they may still ask, by the
//! operator's log.

use domain::operation::account::{asker_lost_right, perhaps_one_person};
use domain::rights::{Need, Rights};
use sqlx::PgConnection;

use super::{ChangeRequest, RequestedChange};
use crate::error::{OperationError, StoreError};

/// Refuses a confirmation by who may be the same person as who asked. That is so if one has made or changed the account
/// of the other in the last 30 days. It is so, too, if both accounts go back to one person, who was shown their
/// passwords. What the command line does does not count: whoever can use it needs no console.
pub(super) async fn require_two_people(
    connection: &mut PgConnection,
    asked_by: &str,
    confirmer: &str,
) -> Result<(), OperationError> {
    let is_one = sqlx::query_scalar!(
        r#"WITH RECURSIVE touched AS (
               SELECT l.subject, coalesce(l.after ->> 'asked_by', l.operator) AS hand, l.action = 'console_user.add' AS is_made
               FROM operator_log l
               -- A user of a provider who was made again is the same person; others may be somebody new.
               LEFT JOIN console_users u ON u.name = l.subject AND u.oidc_issuer IS NULL
               WHERE l.action IN ('console_user.add', 'console_user.set_role', 'console_user.reset_second_factor')
                   AND l.operator_kind = 'console' AND l.at > clock_timestamp() - interval '30 days'
                   AND l.at >= coalesce(u.created_at, '-infinity')
           ), behind (name, hand) AS (
               SELECT name, name FROM unnest(ARRAY[$1, $2]) AS name
               UNION SELECT b.name, t.hand FROM behind b JOIN touched t ON t.subject = b.hand AND t.is_made
           )
           SELECT EXISTS (SELECT 1 FROM behind a JOIN behind b ON a.hand = b.hand WHERE a.name = $1 AND b.name = $2)
               OR EXISTS (
                   SELECT 1 FROM touched t JOIN behind b ON b.hand = t.hand
                   WHERE b.name IN ($1, $2) AND t.subject IN ($1, $2) AND t.subject <> b.name) AS "is_one!""#,
        asked_by,
        confirmer
    );
    let is_one = is_one.fetch_one(connection).await.map_err(StoreError::from)?;
    if is_one { Err(perhaps_one_person(asked_by).into()) } else { Ok(()) }
}

/// Refuses to confirm what whoever asked may no longer ask for: they are gone, or their role or apps do not allow it.
pub(super) async fn require_right(
    connection: &mut PgConnection,
    request: &ChangeRequest,
) -> Result<(), OperationError> {
    let user = sqlx::query!(
        "SELECT role, apps FROM console_users WHERE name = $1 AND created_at <= $2 FOR SHARE",
        request.asked_by,
        request.asked_at
    );
    let user = user.fetch_optional(connection).await.map_err(StoreError::from)?;
    let rights = user.map(|user| Rights::stored(&user.role, &user.apps)).transpose();
    let rights = rights.map_err(|_| StoreError::damaged("console_users.role"))?;
    let may_ask = |rights: &Rights| match &request.change {
        RequestedChange::Account(_) => rights.is_everything(),
        RequestedChange::Gift { app_id, .. } => {
            rights.role.may(Need::Money) && rights.apps.has(app_id.as_str())
        }
        RequestedChange::Wallet { app_id, command, give_back_max, .. } => {
            // Whoever asked without a limit was an admin then.
            let gives_back = command.given_back().is_some() && give_back_max.is_some();
            let need = if gives_back { Need::GiveBack } else { Need::Money };
            rights.role.may(need) && rights.apps.has(app_id.as_str())
        }
    };
    if rights.as_ref().is_some_and(may_ask) {
        Ok(())
    } else {
        Err(asker_lost_right(&request.asked_by).into())
    }
}
