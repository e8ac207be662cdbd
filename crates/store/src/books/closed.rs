//! Closed periods (contract 13.3.9): who closed the books of a month, when, and what the statement was. A closed period
//! whose statement would differ now is found by a job and by the audit.

use domain::audit::{Check, Findings};
use domain::ids::AppId;
use domain::operation::books::{closed_in_another_zone, does_not_tie, figures_changed, months_do_not_meet};
use domain::operator::Operator;
use domain::period::{Period, TimeZone};
use domain::text::Text;
use serde::Serialize;
use serde_json::json;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::statement::{Statement, StatementSums};
use crate::error::{OperationError, Result, StoreError};
use crate::operator_log::{LogLine, OperatorAction};
use crate::store::Store;

/// A month whose books were closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ClosedPeriod {
    /// The app.
    #[schemars(with = "AppId")]
    pub app_id: String,
    /// The month.
    pub month: String,
    /// The IANA name of the time zone that gives the month its limits.
    pub time_zone: String,
    /// SHA-256 of the statement at the close.
    pub sha256: String,
    /// `command_line`, `console` or `api_key`: where it was closed.
    pub closed_by_kind: String,
    /// Name of the operator who closed it.
    pub closed_by: String,
    /// When it was closed.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub closed_at: OffsetDateTime,
    /// When the statement was last compared with one of that moment.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub compared_at: OffsetDateTime,
    /// Whether that comparison found another statement.
    pub differs: bool,
}

/// Reads closed periods. `$rest` is the condition and the order.
macro_rules! closed_periods {
    ($rest:literal $(, $parameter:expr)*) => {
        sqlx::query_as!(
            ClosedPeriod,
            r#"SELECT app_id, month, time_zone, encode(sha256, 'hex') AS "sha256!", closed_by_kind, closed_by, closed_at,
                   compared_at, differs
               FROM closed_periods WHERE "# + $rest
            $(, $parameter)*
        )
    };
}

impl Store {
    /// Closes the books of a month: keeps its statement, who closed it and when. A month that is closed is answered as
    /// the first close recorded it, whatever was shown. `shown` is the SHA-256 of the statement that was shown before.
    ///
    /// # Errors
    /// The month has not ended, was closed in another time zone, or its statement does not tie, or is not the one that was
    /// shown. `Overloaded` as for [`Store::period_statement`].
    pub async fn close_period(
        &self,
        operator: &Operator,
        app_id: &AppId,
        month: Period,
        zone: &TimeZone,
        shown: Option<&str>,
    ) -> Result<ClosedPeriod, OperationError> {
        if let Some(first) = self.closed_period(app_id, month).await? {
            return first.in_zone(zone);
        }
        let statement = self.foresee_close(app_id, month, zone).await?;
        let context = (operator.clone(), app_id.clone(), statement, shown.map(str::to_owned));
        let closed = self.transaction(context, |connection, (operator, app_id, statement, shown)| {
            Box::pin(write_close(connection, operator, app_id, statement, shown.as_deref()))
        });
        closed.await?.in_zone(zone)
    }

    /// The statement that a close of this month would keep. Nothing is closed.
    ///
    /// # Errors
    /// The month has not ended, or its statement does not tie. `Overloaded` as for [`Store::period_statement`].
    pub async fn foresee_close(
        &self,
        app_id: &AppId,
        month: Period,
        zone: &TimeZone,
    ) -> Result<Statement, OperationError> {
        let statement = self.period_statement(app_id, month, zone).await?;
        if !statement.ties {
            return Err(does_not_tie(month.field(), month).into());
        }
        Ok(statement)
    }

    /// The close of a month. `None` for one that is not closed.
    pub async fn closed_period(&self, app_id: &AppId, month: Period) -> Result<Option<ClosedPeriod>> {
        let closed = closed_periods!("app_id = $1 AND month = $2", app_id.as_str(), month.to_string());
        Ok(closed.fetch_optional(&self.pool).await?)
    }

    /// The closed months of an app, the newest first.
    ///
    /// # Errors
    /// There is no such app, or the database is away.
    pub async fn closed_periods(&self, app_id: &AppId) -> Result<Vec<ClosedPeriod>, OperationError> {
        let closed = closed_periods!("app_id = $1 ORDER BY month DESC", app_id.as_str());
        let closed = closed.fetch_all(&self.pool).await?;
        if closed.is_empty() && self.find_app(app_id).await?.is_none() {
            return Err(domain::operation::unknown_app(app_id).into());
        }
        Ok(closed)
    }

    /// At most `limit` closed periods of all apps whose last comparison found another statement.
    pub async fn differing_periods(&self, limit: u32) -> Result<Vec<ClosedPeriod>> {
        let found = closed_periods!("differs ORDER BY month DESC, app_id LIMIT $1", i64::from(limit));
        Ok(found.fetch_all(&self.pool).await?)
    }

    /// Compares the closed period that was not compared for the longest time, and for a day, with its statement now. Returns
    /// whether it compared one. Of many servers one takes it. One that fails is left alone until the others were compared.
    ///
    /// # Errors
    /// All others were compared, and this is why the first failed: `Overloaded` while other statements are made, for example.
    /// Or the database is away.
    pub async fn compare_a_closed_period(&self) -> Result<bool> {
        let taken = match self.take_closed_period().await {
            Ok(Some(taken)) => taken,
            Ok(None) => return self.closed_round.end().map_or(Ok(false), Err),
            Err(error) => {
                self.closed_round.end();
                return Err(error);
            }
        };
        if let Err(error) = self.compare_with(&taken).await {
            let TakenPeriod { app_id, month, before, compared_at, .. } = taken;
            // It was not compared. Where this fails too, the period waits for an hour.
            let put_back = sqlx::query!(
                "UPDATE closed_periods SET compared_at = $3 WHERE app_id = $1 AND month = $2 AND compared_at = $4",
                app_id,
                month,
                before,
                compared_at
            );
            let _ = put_back.execute(&self.pool).await;
            self.closed_round.failed(app_id, month, error);
        }
        Ok(true)
    }

    /// Takes the next period that has not failed. Other servers leave it alone for an hour. A server that stops in between
    /// delays the comparison by an hour at most.
    async fn take_closed_period(&self) -> Result<Option<TakenPeriod>> {
        let (apps, months) = self.closed_round.names();
        let taken = sqlx::query_as!(
            TakenPeriod,
            r#"WITH next AS (
                   SELECT app_id, month, compared_at FROM closed_periods
                   WHERE compared_at < now() - interval '1 day'
                       AND (app_id, month) NOT IN (SELECT * FROM unnest($1::text[], $2::text[]))
                   ORDER BY compared_at LIMIT 1 FOR UPDATE SKIP LOCKED)
               UPDATE closed_periods c SET compared_at = now() - interval '23 hours' FROM next
               WHERE c.app_id = next.app_id AND c.month = next.month
               RETURNING c.app_id, c.month, c.time_zone, c.statement, c.compared_at, next.compared_at AS "before!""#,
            &apps,
            &months
        );
        Ok(taken.fetch_optional(&self.pool).await?)
    }

    async fn compare_with(&self, taken: &TakenPeriod) -> Result<()> {
        let (app_id, month, zone) = parsed(&taken.app_id, &taken.month, &taken.time_zone)?;
        let now = document_now(self.period_statement(&app_id, month, &zone).await)?;
        sqlx::query!(
            "UPDATE closed_periods SET differs = $3, compared_at = now() WHERE app_id = $1 AND month = $2",
            taken.app_id,
            taken.month,
            now != taken.statement
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}

/// A period that is being compared.
struct TakenPeriod {
    app_id: String,
    month: String,
    time_zone: String,
    statement: String,
    /// The time that was set for it when it was taken.
    compared_at: OffsetDateTime,
    /// When it was compared before.
    before: OffsetDateTime,
}

impl ClosedPeriod {
    /// Itself, if it was closed in this time zone.
    fn in_zone(self, zone: &TimeZone) -> Result<Self, OperationError> {
        if self.time_zone == zone.as_str() {
            return Ok(self);
        }
        Err(closed_in_another_zone(self.month, self.time_zone).into())
    }

    /// The texts about the months before and after this one among those of its app. Each is there where its month was
    /// closed in a time zone in which it does not meet this one.
    ///
    /// # Errors
    /// A row of the database is damaged.
    pub fn unmet_months(&self, all: &[Self]) -> Result<Vec<Text>> {
        let (_, month, zone) = parsed(&self.app_id, &self.month, &self.time_zone)?;
        let mut told = Vec::new();
        for other in all {
            let (_, other_month, other_zone) = parsed(&other.app_id, &other.month, &other.time_zone)?;
            let (this, other) = ((month, &zone), (other_month, &other_zone));
            told.extend(months_do_not_meet(this, other).or_else(|| months_do_not_meet(other, this)));
        }
        Ok(told)
    }
}

/// Keeps this very statement, so what is kept is what was compared with `shown`. A close that somebody else made meanwhile
/// stands, whatever was shown.
async fn write_close(
    connection: &mut PgConnection,
    operator: &Operator,
    app_id: &AppId,
    statement: &Statement,
    shown: Option<&str>,
) -> Result<ClosedPeriod, OperationError> {
    let written = sqlx::query!(
        "INSERT INTO closed_periods (app_id, month, time_zone, sha256, statement, closed_by_kind, closed_by)
         VALUES ($1, $2, $3, decode($4, 'hex'), $5, $6, $7) ON CONFLICT DO NOTHING",
        app_id.as_str(),
        statement.period,
        statement.time_zone,
        statement.sha256,
        statement.document,
        operator.kind().as_str(),
        operator.name()
    );
    let is_as_shown = shown.is_none_or(|shown| shown == statement.sha256);
    let is_made = is_as_shown
        && written.execute(&mut *connection).await.map_err(StoreError::from)?.rows_affected() == 1;
    let closed = closed_periods!("app_id = $1 AND month = $2", app_id.as_str(), statement.period);
    let closed = closed.fetch_optional(&mut *connection).await.map_err(StoreError::from)?;
    let closed = closed.ok_or_else(|| figures_changed(&statement.period))?;
    // Otherwise somebody else was first, and that close stands.
    if is_made {
        let after = json!({ "time_zone": closed.time_zone, "sha256": closed.sha256 });
        let line = LogLine::new(operator, OperatorAction::PeriodClose, &closed.month).of_app(app_id);
        line.after(after).answer(&closed).record(connection).await?;
    }
    Ok(closed)
}

/// Names each closed period whose statement would differ now.
pub(crate) async fn compare_closed(connection: &mut PgConnection, findings: &mut Findings) -> Result<()> {
    let closed = sqlx::query!(
        "SELECT c.app_id, a.app_no, c.month, c.time_zone, c.statement FROM closed_periods c JOIN apps a USING (app_id)
         ORDER BY c.app_id, c.month"
    );
    for closed in closed.fetch_all(&mut *connection).await? {
        let (app_id, month, zone) = parsed(&closed.app_id, &closed.month, &closed.time_zone)?;
        let span = month.span(&zone);
        let sums = StatementSums::read(connection, &app_id, closed.app_no, span).await?;
        let now = document_now(sums.statement(&app_id, month, &zone, span))?;
        if now != closed.statement {
            findings.add(Check::ClosedPeriod, &closed.app_id, &closed.month, || {
                first_difference(&closed.statement, &now)
            });
        }
    }
    Ok(())
}

/// The document with which a closed period is compared. It is empty where what was a statement is none any more.
///
/// # Errors
/// The statement could not be read: nobody knows whether it differs.
fn document_now(made: Result<Statement, OperationError>) -> Result<String> {
    match made {
        Ok(statement) => Ok(statement.document),
        Err(OperationError::Store(error)) => Err(error),
        Err(OperationError::Refused(_)) => Ok(String::new()),
    }
}

/// The first line that differs, in one line.
fn first_difference(was: &str, now: &str) -> String {
    let words = |line: Option<&str>| {
        line.map_or_else(|| "none".to_owned(), |line| line.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let (mut was, mut now) = (was.lines(), now.lines());
    loop {
        let (was, now) = (was.next(), now.next());
        if was != now || was.is_none() {
            return format!(
                "the statement that was closed has {:?}; now it has {:?}",
                words(was),
                words(now)
            );
        }
    }
}

fn parsed(app_id: &str, month: &str, zone: &str) -> Result<(AppId, Period, TimeZone)> {
    let damaged = |_| StoreError::damaged("closed_periods");
    Ok((
        AppId::parse(app_id).map_err(damaged)?,
        Period::month(month).map_err(damaged)?,
        TimeZone::parse(zone).map_err(damaged)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_tells_that_a_statement_is_none_any_more() {
        let month = Period::month("2026-10").unwrap();
        let refused = does_not_tie(month.field(), month);
        assert_eq!(document_now(Err(refused.into())).unwrap(), "");
        let fault = StoreError::Internal("the database is away".to_owned());
        document_now(Err(fault.into())).unwrap_err();
    }
}
