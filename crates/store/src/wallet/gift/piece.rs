//! The work of a started gift: pieces of it in their order, each with the mark of its end in one transaction.

use domain::ids::{AppId, CreditRef, OpenId};
use domain::operation::wallet::{Credit, CreditStatus};
use domain::operator::{Operator, OperatorKind};
use serde_json::{Map, json};
use sqlx::PgConnection;

use super::{GiftLine, lines_after};
use crate::engine::Engine;
use crate::error::{OperationError, Result, StoreError};
use crate::store::Store;
use crate::wallet::credits::{CREDITS_AT_ONCE, CreditResult, CreditsSource, make_credits};

impl Store {
    /// Credits the next lines of a gift that was started, of the oldest one. `false` when there is none, or when other servers
    /// are at work on each.
    pub async fn credit_gift_lines(&self) -> Result<bool> {
        let engine = self.engine.get();
        let done = self.transaction((), move |connection, ()| Box::pin(credit_piece(connection, engine)));
        let has_done = done.await.map_err(|error| match error {
            OperationError::Store(error) => error,
            OperationError::Refused(refusal) => StoreError::Internal(refusal.text.english()),
        })?;
        if has_done {
            self.events.notify_one();
        }
        Ok(has_done)
    }
}

async fn credit_piece(connection: &mut PgConnection, engine: Engine) -> Result<bool, OperationError> {
    let gift = sqlx::query!(
        r#"SELECT g.app_id, a.app_no, gift, create_wallets, reason, started_by AS "started_by!", asked_by, done_through
           FROM gifts g JOIN apps a ON a.app_id = g.app_id
           WHERE started_at IS NOT NULL AND ended_at IS NULL ORDER BY started_at LIMIT 1 FOR UPDATE OF g SKIP LOCKED"#
    );
    let Some(gift) = gift.fetch_optional(&mut *connection).await.map_err(StoreError::from)? else {
        return Ok(false);
    };
    let of = (gift.app_id.as_str(), gift.gift.as_str());
    let lines = lines_after(&mut *connection, of, gift.done_through, CREDITS_AT_ONCE).await?;
    let damaged = |_| StoreError::damaged("gift_lines");
    let credit = |line: &GiftLine| -> Result<Credit> {
        Ok(Credit {
            open_id: OpenId::parse(&line.open_id).map_err(damaged)?,
            free: line.free,
            charge: line.charge,
            reference: CreditRef::stored(&line.reference).map_err(damaged)?,
            note: gift.reason.clone(),
            create: gift.create_wallets,
        })
    };
    let credits = lines.iter().map(credit).collect::<Result<Vec<_>>>()?;
    let app_id = AppId::parse(&gift.app_id).map_err(damaged)?;
    let made = if credits.is_empty() {
        None
    } else {
        let made = make_credits(connection, engine, (&app_id, gift.app_no), &credits).await?;
        mark_others(connection, of, &lines, &made.results).await?;
        Some(made)
    };
    let through = lines.last().map_or(gift.done_through, |line| line.line);
    sqlx::query!(
        "UPDATE gifts SET done_through = $3, ended_at = CASE WHEN $4 THEN clock_timestamp() END
         WHERE app_id = $1 AND gift = $2",
        gift.app_id,
        gift.gift,
        through,
        lines.len() < CREDITS_AT_ONCE
    )
    .execute(&mut *connection)
    .await
    .map_err(StoreError::from)?;
    // Last, because nothing is locked after the head of the log.
    if let Some(made) = made {
        let operator = Operator::new(OperatorKind::Console, &gift.started_by).map_err(damaged)?;
        let mut facts = Map::from_iter([("gift".to_owned(), json!(gift.gift))]);
        facts.extend(gift.asked_by.map(|asked_by| ("asked_by".to_owned(), json!(asked_by))));
        let source = CreditsSource { subject: gift.gift, facts, note: gift.reason };
        made.log(connection, &operator, &app_id, &source).await?;
    }
    Ok(true)
}

/// Marks the lines that were not credited with what became of them.
async fn mark_others(
    connection: &mut PgConnection,
    (app_id, gift): (&str, &str),
    lines: &[GiftLine],
    results: &[CreditResult],
) -> Result<()> {
    let outcomes = lines.iter().zip(results).map(|(line, result)| (line.line, CreditStatus::of(result)));
    let (others, outcomes): (Vec<_>, Vec<_>) = outcomes
        .filter(|(_, status)| *status != CreditStatus::Credited)
        .map(|(line, status)| (line, status.as_str().to_owned()))
        .unzip();
    if others.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "UPDATE gift_lines l SET outcome = k.outcome FROM unnest($3::int[], $4::text[]) AS k (line, outcome)
         WHERE l.app_id = $1 AND l.gift = $2 AND l.line = k.line",
        app_id,
        gift,
        &others,
        &outcomes
    )
    .execute(connection)
    .await?;
    Ok(())
}
