//! The limit of what one person does alone (contract 8.6.40 and 8.6.44), by the operator's log. The sums are read when
//! the head of the log is locked. So of two changes at the same time the later one sees the other.

use domain::operation::OperationRefusal;
use domain::operator::{Operator, OperatorKind};
use sqlx::{PgConnection, PgExecutor};

use crate::error::{OperationError, Result};
use crate::store::Store;

impl Store {
    /// Whether this operator needs a second person to move this many coins now.
    pub async fn needs_second_person(&self, operator: &Operator, coins: i64) -> Result<bool> {
        let Some(max) = operator.alone_max() else { return Ok(false) };
        Ok(moved(&self.pool, operator).await?.saturating_add(coins) > max)
    }
}

/// Refuses with `refusal` what brings an operator above what one person moves in 24 hours. The line of the change must be
/// written.
pub(crate) async fn require_within(
    connection: &mut PgConnection,
    operator: &Operator,
    refusal: fn(i64) -> OperationRefusal,
) -> Result<(), OperationError> {
    let Some(max) = operator.alone_max() else { return Ok(()) };
    if moved(connection, operator).await? > max { Err(refusal(max).into()) } else { Ok(()) }
}

/// How many coins a person has moved in the last 24 hours without a second one. A person is a user of the console
/// together with all API keys that the user made. A key of the command line is somebody of its own, and so is one with
/// a limit of its own.
async fn moved(executor: impl PgExecutor<'_>, operator: &Operator) -> Result<i64> {
    if operator.kind() == OperatorKind::CommandLine {
        return Ok(0);
    }
    Ok(sqlx::query_scalar!(
        r#"WITH keys AS (
               SELECT subject AS key, coalesce(after ->> 'asked_by', operator) AS maker FROM operator_log
               WHERE action = 'api_key.create' AND operator_kind = 'console'
                   -- A key with a limit of its own is somebody of its own.
                   AND after ->> 'second_person_above' IS NULL
           ), person AS (
               SELECT coalesce((SELECT maker FROM keys WHERE $1 = 'api_key' AND key = $2),
                   CASE WHEN $1 = 'console' THEN $2 END) AS name
           ), faces AS (
               SELECT $1::text AS kind, $2::text AS name
               UNION SELECT 'console', name FROM person WHERE name IS NOT NULL
               UNION SELECT 'api_key', key FROM keys JOIN person ON maker = name
           )
           SELECT least(coalesce(sum(
               CASE WHEN l.action IN ('wallet.credits', 'gift.start', 'topup.refund')
                   -- Lines of older versions have the purses alone.
                   OR l.action = 'topup.settle' AND l.after ? 'free' THEN (l.after ->> 'free')::numeric + (l.after ->> 'charge')::numeric
                   ELSE abs((l.after ->> 'free_balance')::numeric - (l.before ->> 'free_balance')::numeric)
                       + abs((l.after ->> 'charge_balance')::numeric - (l.before ->> 'charge_balance')::numeric) END
               ), 0), 9223372036854775807)::bigint AS "moved!"
           FROM operator_log l JOIN faces f ON l.operator_kind = f.kind AND l.operator = f.name
            WHERE l.action IN ('wallet.credit', 'wallet.credits', 'wallet.debit', 'wallet.cancel', 'topup.settle', 'gift.start', 'topup.refund')
                -- The start of a gift counts all of it.
                AND NOT (l.action = 'wallet.credits' AND l.after ? 'gift')
               AND l.at > clock_timestamp() - interval '24 hours'
               AND NOT EXISTS (
                   SELECT 1 FROM console_requests r
                   WHERE r.app_id = l.app_id AND r.ref = l.after ->> 'ref' AND r.state = 'confirmed'
                       -- A payment or a gift may have the ref of another change.
                       AND l.action = CASE r.kind WHEN 'gift' THEN 'gift.start' ELSE 'wallet.' || r.kind END)"#,
        operator.kind().as_str(),
        operator.name()
    )
    .fetch_one(executor)
    .await?)
}
