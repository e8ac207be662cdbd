//! The statement of a period (contract 13.3). It has what was in all purses of an app, what came in and went out, and
//! what is there at the end. It says whether the ledger has the same.

use std::fmt::Write as _;

use domain::ids::AppId;
use domain::ledger::ReferenceKind;
use domain::moment::rfc3339;
use domain::operation::books::{existing_span, not_closed, sums_too_large};
use domain::period::{Period, TimeSpan, TimeZone};
use domain::text;
use domain::text::TextMoment;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use sqlx::{Connection as _, PgConnection};
use time::OffsetDateTime;

use super::completeness::{COMPLETE_AFTER, Completeness, completeness};
use crate::app_number::number_of;
use crate::error::{OperationError, StoreError};
use crate::store::Store;
use crate::transaction::snapshot_of;

/// Credits of operators by the way they came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "StatementCredits")]
pub struct Credits {
    /// By `minitill wallet credit`.
    pub command: i64,
    /// By `minitill wallet import`.
    pub import: i64,
    /// By the admin API, one or many at once.
    pub api: i64,
    /// By the console.
    pub console: i64,
}

/// One purse of all players in a period: gifted or charged currency. Each figure is 0 or more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "StatementFlows")]
pub struct Flows {
    /// What was there at the beginning.
    pub opening: i64,
    /// What operators added.
    pub credits: Credits,
    /// What payments brought.
    pub topups: i64,
    /// What games added.
    pub presents: i64,
    /// What exchanges took.
    pub exchanges: i64,
    /// What games and operators gave back of exchanges.
    pub cancels: i64,
    /// What operators took.
    pub debits: i64,
    /// What refunds of payments took.
    pub refunds: i64,
    /// What top-ups settled of debts.
    pub settlements: i64,
    /// What was there at the end.
    pub closing: i64,
}

/// The statement of a period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Statement {
    /// The app.
    #[schemars(with = "AppId")]
    pub app_id: String,
    /// The day or the month.
    pub period: String,
    /// The IANA name of the time zone that gives the period its limits.
    pub time_zone: String,
    /// The first moment of the period.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: OffsetDateTime,
    /// The first moment after it.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub until: OffsetDateTime,
    /// Gifted currency.
    pub free: Flows,
    /// Charged currency.
    pub charge: Flows,
    /// Number of wallets at the end.
    pub wallets: i64,
    /// Whether the figures tie to the ledger. They do where each wallet holds the sum of its entries, and the credits
    /// of the operator's log are those of the ledger.
    pub ties: bool,
    /// The statement as text. It is the same whenever it is made.
    pub document: String,
    /// SHA-256 of the text before its last line, in hexadecimal. The last line has it too.
    pub sha256: String,
}

impl Store {
    /// The statement of a period that is closed. It reads the whole ledger of the app, its archives too.
    ///
    /// # Errors
    /// `Overloaded` while this process makes another of the app, or two of others.
    pub async fn period_statement(
        &self,
        app_id: &AppId,
        period: Period,
        zone: &TimeZone,
    ) -> Result<Statement, OperationError> {
        let (store, of, zone) = (self.clone(), app_id.clone(), zone.clone());
        self.in_turn_of_statements(app_id, async move { store.make_statement(of, period, &zone).await }).await
    }

    /// Reads the books of an app when the app has its turn among the statements.
    ///
    /// # Errors
    /// `Overloaded` where the turn does not come in time; and those of the work.
    pub(crate) async fn in_turn_of_statements<T: Send + 'static>(
        &self,
        app_id: &AppId,
        work: impl Future<Output = Result<T, OperationError>> + Send + 'static,
    ) -> Result<T, OperationError> {
        let permit = self.statements.take(app_id).await?;
        // A caller who hangs up does not end the work of the database, so the permit must last as long.
        let task = tokio::spawn(async move {
            let _permit = permit;
            work.await
        });
        task.await.unwrap_or_else(|fault| {
            Err(StoreError::Internal(format!("the task of a statement ended: {fault}")).into())
        })
    }

    async fn make_statement(
        &self,
        app_id: AppId,
        period: Period,
        zone: &TimeZone,
    ) -> Result<Statement, OperationError> {
        let app_no = number_of(&self.pool, &app_id).await?;
        let span = existing_span(period, zone)?;
        let mut connection = self.connect_without_limits().await?;
        let state = completeness(&mut connection, self.engine.get(), span.until).await?;
        must_be_closed(state, period, zone, span)?;
        let mut snapshot = snapshot_of(&mut connection).await?;
        let sums = StatementSums::read(&mut snapshot, &app_id, app_no, span).await?;
        snapshot.rollback().await?;
        connection.close().await?;
        sums.statement(&app_id, period, zone, span)
    }
}

fn must_be_closed(
    state: Completeness,
    period: Period,
    zone: &TimeZone,
    TimeSpan { until: end, .. }: TimeSpan,
) -> Result<(), OperationError> {
    let zone = zone.as_str();
    let (field, until, period) = (period.field(), TextMoment(end), period.to_string());
    let why = match state {
        Completeness::Complete => return Ok(()),
        Completeness::NotEnded => {
            text!("{period} has not ended in {zone}: it ends at {until}", period, zone, until)
        }
        Completeness::TooYoung => text!(
            "{period} ended at {until}: entries may come until {complete_at}",
            period,
            until,
            complete_at = TextMoment(end + COMPLETE_AFTER)
        ),
        Completeness::Written => text!(
            "entries of {period} may still come: a transaction that writes to the ledger does not end",
            period
        ),
    };
    Err(not_closed(field, why).into())
}

/// The sums of one purse.
#[derive(Debug, Default)]
struct Purse {
    opening: i128,
    credits: i128,
    topups: i128,
    presents: i128,
    exchanges: i128,
    cancels: i128,
    debits: i128,
    refunds: i128,
    settlements: i128,
    /// In the order of [`Credits`].
    sources: [i128; 4],
}

/// What the ledger and the operator's log say.
#[derive(Debug, Default)]
pub(super) struct StatementSums {
    free: Purse,
    charge: Purse,
    wallets: i64,
    wallets_that_differ: i64,
}

impl StatementSums {
    pub(super) async fn read(
        connection: &mut PgConnection,
        app_id: &AppId,
        app_no: i32,
        TimeSpan { since, until }: TimeSpan,
    ) -> Result<Self, StoreError> {
        let mut sums = Self::default();
        let kinds = sqlx::query!(
            r#"SELECT kind AS "kind!", at < $2 AS "is_before!", sum(free_change)::text AS "free!",
                   sum(charge_change)::text AS "charge!"
               FROM numbers WHERE app_no = $1 AND seq IS NOT NULL AND at < $3 GROUP BY 1, 2"#,
            app_no,
            since,
            until
        );
        for row in kinds.fetch_all(&mut *connection).await? {
            // What was there before is of any kind.
            let kind = (!row.is_before).then(|| ReferenceKind::parse(&row.kind)).transpose();
            let kind = kind.map_err(|_| StoreError::damaged("ledger_entries"))?;
            for (purse, sum) in [(&mut sums.free, &row.free), (&mut sums.charge, &row.charge)] {
                purse.add(kind, number(sum)?)?;
            }
        }
        // A line names its ref whenever it was written. So nothing depends on the clock that gave the line its time.
        let sources = sqlx::query!(
            r#"WITH made AS (
                   SELECT '!' || (after ->> 'ref') AS reference, operator_kind AS source
                   FROM operator_log WHERE app_id = $1 AND action = 'wallet.credit'
                   UNION ALL
                   SELECT '!' || (credit ->> 1), CASE operator_kind WHEN 'command_line' THEN 'import' ELSE operator_kind END
                   FROM operator_log CROSS JOIN LATERAL json_array_elements(credits) AS credit
                   WHERE app_id = $1 AND action = 'wallet.credits'
               )
               SELECT source AS "source!", sum(n.free_change)::text AS "free!", sum(n.charge_change)::text AS "charge!"
               FROM (SELECT reference, free_change, charge_change FROM numbers
                     WHERE app_no = $2 AND kind = 'credit' AND at >= $3 AND at < $4) n
               JOIN made USING (reference) GROUP BY source"#,
            app_id.as_str(),
            app_no,
            since,
            until
        );
        for row in sources.fetch_all(&mut *connection).await? {
            let place = match row.source.as_str() {
                "command_line" => 0,
                "import" => 1,
                "api_key" => 2,
                "console" => 3,
                _ => return Err(StoreError::damaged("operator_log")),
            };
            sums.free.sources[place] += number(&row.free)?;
            sums.charge.sources[place] += number(&row.charge)?;
        }
        let wallets = sqlx::query!(
            r#"SELECT count(*) FILTER (WHERE w.created_at < $2 OR e.first_at < $2) AS "known!",
                   count(*) FILTER (WHERE (w.free_balance, w.charge_balance, w.entry_count)
                       IS DISTINCT FROM (coalesce(e.free, 0), coalesce(e.charge, 0), coalesce(e.entries, 0))) AS "differ!"
               FROM (SELECT * FROM wallets WHERE app_no = $1) w
               FULL JOIN (
                   SELECT wallet_no, count(*) AS entries, sum(free_change) AS free, sum(charge_change) AS charge,
                       min(at) AS first_at
                   FROM numbers WHERE app_no = $1 AND seq IS NOT NULL GROUP BY wallet_no) e USING (wallet_no)"#,
            app_no,
            until
        );
        let wallets = wallets.fetch_one(connection).await?;
        (sums.wallets, sums.wallets_that_differ) = (wallets.known, wallets.differ);
        Ok(sums)
    }

    pub(super) fn statement(
        &self,
        app_id: &AppId,
        period: Period,
        zone: &TimeZone,
        TimeSpan { since, until }: TimeSpan,
    ) -> Result<Statement, OperationError> {
        let flows = |purse: &Purse| purse.flows().ok_or_else(|| sums_too_large(period.field(), period));
        let is_by_source = |purse: &Purse| purse.sources.iter().sum::<i128>() == purse.credits;
        let mut statement = Statement {
            app_id: app_id.to_string(),
            period: period.to_string(),
            time_zone: zone.to_string(),
            since,
            until,
            free: flows(&self.free)?,
            charge: flows(&self.charge)?,
            wallets: self.wallets,
            ties: self.wallets_that_differ == 0 && is_by_source(&self.free) && is_by_source(&self.charge),
            document: String::new(),
            sha256: String::new(),
        };
        let text = statement.text();
        statement.sha256 = hex::encode(Sha256::digest(&text));
        statement.document = format!("{text}sha256: {}", statement.sha256);
        Ok(statement)
    }
}

impl Purse {
    /// Adds the changes of a kind in the period. `None`: the changes before it.
    fn add(&mut self, kind: Option<ReferenceKind>, sum: i128) -> Result<(), StoreError> {
        match kind {
            None => self.opening += sum,
            Some(ReferenceKind::Credit) => self.credits += sum,
            Some(ReferenceKind::Topup) => self.topups += sum,
            Some(ReferenceKind::Present) => self.presents += sum,
            Some(ReferenceKind::Exchange) => self.exchanges -= sum,
            Some(ReferenceKind::Cancel) => self.cancels += sum,
            Some(ReferenceKind::Debit) => self.debits -= sum,
            Some(ReferenceKind::Refund) => self.refunds -= sum,
            Some(ReferenceKind::Settlement) => self.settlements -= sum,
            // They are no ledger entries, so they have no sequence number.
            Some(ReferenceKind::Closed | ReferenceKind::TopupOrder) => {
                return Err(StoreError::damaged("ledger_entries"));
            }
        }
        Ok(())
    }

    fn flows(&self) -> Option<Flows> {
        let figure = |figure: i128| i64::try_from(figure).ok();
        let closing = self.opening + self.credits + self.topups + self.presents - self.exchanges
            + self.cancels
            - self.debits
            - self.refunds
            - self.settlements;
        let [command, import, api, console] = self.sources;
        Some(Flows {
            opening: figure(self.opening)?,
            credits: Credits {
                command: figure(command)?,
                import: figure(import)?,
                api: figure(api)?,
                console: figure(console)?,
            },
            topups: figure(self.topups)?,
            presents: figure(self.presents)?,
            exchanges: figure(self.exchanges)?,
            cancels: figure(self.cancels)?,
            debits: figure(self.debits)?,
            refunds: figure(self.refunds)?,
            settlements: figure(self.settlements)?,
            closing: figure(closing)?,
        })
    }
}

impl Statement {
    /// The document without its last line.
    fn text(&self) -> String {
        let mut text = String::new();
        let head = [
            ("app", self.app_id.clone()),
            ("period", self.period.clone()),
            ("time zone", self.time_zone.clone()),
            ("since", rfc3339(self.since)),
            ("until", rfc3339(self.until)),
            ("wallets", self.wallets.to_string()),
        ];
        text.push_str("Statement of all wallets\n\n");
        for (name, value) in head {
            let _ = writeln!(text, "{name:<20}{value:>20}");
        }
        let _ = writeln!(text, "\n{:<20}{:>20}{:>20}", "", "gifted", "charged");
        let (free, charge) = (&self.free, &self.charge);
        // Months that were closed before there were such lines have none of them, and their statements must stay the same.
        let if_any = |line: (&'static str, i64, i64)| {
            Some(line).filter(|(_, free, charge)| (*free, *charge) != (0, 0))
        };
        let topups = if_any(("+ top-ups", free.topups, charge.topups));
        let refunds = if_any(("- refunds", free.refunds, charge.refunds));
        let settlements = if_any(("- settlements", free.settlements, charge.settlements));
        let before = [
            ("opening balance", free.opening, charge.opening),
            ("+ credits: command", free.credits.command, charge.credits.command),
            ("+ credits: import", free.credits.import, charge.credits.import),
            ("+ credits: api", free.credits.api, charge.credits.api),
            ("+ credits: console", free.credits.console, charge.credits.console),
        ];
        let after = [
            ("+ presents", free.presents, charge.presents),
            ("- exchanges", free.exchanges, charge.exchanges),
            ("+ cancels", free.cancels, charge.cancels),
            ("- debits", free.debits, charge.debits),
        ];
        let closing = [("closing balance", free.closing, charge.closing)];
        let lines = before.into_iter().chain(topups).chain(after).chain(refunds).chain(settlements);
        for (name, free, charge) in lines.chain(closing) {
            let _ = writeln!(text, "{name:<20}{free:>20}{charge:>20}");
        }
        let _ = writeln!(text, "\nties to the ledger: {}", if self.ties { "yes" } else { "no" });
        text
    }
}

fn number(text: &str) -> Result<i128, StoreError> {
    text.parse().map_err(|_| StoreError::damaged("ledger_entries"))
}
