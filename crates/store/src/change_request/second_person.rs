//! Who is a second person, and what one person may do alone, by the operator's log. The counts are read when the head of the
//! log is locked, so of two changes at the same time the later one sees the other.

use domain::console_user::Role;
use domain::operation::account::{asker_lost_right, perhaps_one_person};
use domain::operation::wallet::needs_second_person;
use domain::operator::{Operator, OperatorKind};
use domain::rights::{Need, Rights};
use sqlx::{PgConnection, PgExecutor};

use super::{ChangeRequest, RequestedChange};
use crate::error::{OperationError, Result, StoreError};
use crate::store::Store;

impl Store {
    /// Whether this operator needs a second person to move this many coins now.
    pub async fn needs_second_person(&self, operator: &Operator, coins: i64) -> Result<bool> {
        let Some(max) = operator.alone_max() else { return Ok(false) };
        Ok(moved(&self.pool, operator).await?.saturating_add(coins) > max)
    }
}

/// Refuses what brings an operator above what one person moves in 24 hours. The line of the change must be written.
pub(crate) async fn require_within(
    connection: &mut PgConnection,
    operator: &Operator,
) -> Result<(), OperationError> {
    let Some(max) = operator.alone_max() else { return Ok(()) };
    if moved(connection, operator).await? > max { Err(needs_second_person(max).into()) } else { Ok(()) }
}

/// How many coins a person has moved in the last 24 hours without a second one: a user of the console together with all API
/// keys that the user made. A key of the command line is somebody of its own.
async fn moved(executor: impl PgExecutor<'_>, operator: &Operator) -> Result<i64> {
    if operator.kind() == OperatorKind::CommandLine {
        return Ok(0);
    }
    Ok(sqlx::query_scalar!(
        r#"WITH keys AS (
               SELECT subject AS key, coalesce(after ->> 'asked_by', operator) AS maker FROM operator_log
               WHERE action = 'api_key.create' AND operator_kind = 'console'
           ), person AS (
               SELECT coalesce((SELECT maker FROM keys WHERE $1 = 'api_key' AND key = $2),
                   CASE WHEN $1 = 'console' THEN $2 END) AS name
           ), faces AS (
               SELECT $1::text AS kind, $2::text AS name
               UNION SELECT 'console', name FROM person WHERE name IS NOT NULL
               UNION SELECT 'api_key', key FROM keys JOIN person ON maker = name
           )
           SELECT least(coalesce(sum(
               CASE WHEN l.action = 'wallet.credits' THEN (l.after ->> 'free')::numeric + (l.after ->> 'charge')::numeric
                   ELSE abs((l.after ->> 'free_balance')::numeric - (l.before ->> 'free_balance')::numeric)
                       + abs((l.after ->> 'charge_balance')::numeric - (l.before ->> 'charge_balance')::numeric) END
               ), 0), 9223372036854775807)::bigint AS "moved!"
           FROM operator_log l JOIN faces f ON l.operator_kind = f.kind AND l.operator = f.name
           WHERE l.action IN ('wallet.credit', 'wallet.credits', 'wallet.debit', 'wallet.cancel')
               AND l.at > clock_timestamp() - interval '24 hours'
               AND NOT EXISTS (
                   SELECT 1 FROM console_requests r
                   WHERE r.app_id = l.app_id AND r.ref = l.after ->> 'ref' AND r.state = 'confirmed'
                       AND l.action <> 'wallet.credits')"#,
        operator.kind().as_str(),
        operator.name()
    )
    .fetch_one(executor)
    .await?)
}

/// Refuses a confirmation by who may be the same person as who asked: one has made or changed the account of the other in
/// the last 30 days, or both accounts go back to one person, who was shown their passwords. What the command line does
/// does not count: whoever can use it needs no console.
pub(super) async fn require_two_people(
    connection: &mut PgConnection,
    asked_by: &str,
    confirmer: &str,
) -> Result<(), OperationError> {
    let is_one = sqlx::query_scalar!(
        r#"WITH RECURSIVE touched AS (
               SELECT l.subject, coalesce(l.after ->> 'asked_by', l.operator) AS hand, l.action = 'console_user.add' AS is_made
               FROM operator_log l LEFT JOIN console_users u ON u.name = l.subject
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

/// Whether a key of this role is made by two people.
pub(crate) fn makes_two_people(operator: &Operator, role: Role) -> bool {
    operator.alone_max().is_some() && role == Role::Admin
}
