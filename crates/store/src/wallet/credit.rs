//! Operators add players and credit wallets, once for each ref (contract 8.3). A change and its
//! line in the operator's log are one transaction.

use domain::exchange::{BalanceOutOfRange, Balances};
use domain::ids::{AppId, OpenId};
use domain::ledger::{CREDIT, LedgerEntry, micros};
use domain::operator::Operator;
use serde::Serialize;
use serde_json::json;
use sqlx::PgConnection;

use super::entry::{LockedWallet, lock_wallet, write_entry};
use super::{Credit, CreditOutcome};
use crate::operator_log::{Action, LogLine, answer, record, record_with_answer};
use crate::{AsStoreError, Store, StoreError};

/// The result of an import, for its line in the operator's log.
#[derive(Debug, Clone, Serialize)]
pub struct ImportSummary {
    /// Name of the file.
    pub file: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Number of lines.
    pub rows: u64,
    /// Number of new credits.
    pub credited: u64,
    /// Number of credits that an earlier call had made.
    pub replayed: u64,
    /// Gifted currency of the new credits, as text: a sum may need more than 64 bits.
    pub free: String,
    /// Charged currency of the new credits, as text.
    pub charge: String,
    /// True when the whole file was imported.
    pub complete: bool,
}

impl Store {
    /// Adds players with empty wallets. It accepts known players. `false` when there is no such
    /// app.
    pub async fn add_users(
        &self,
        operator: &Operator,
        app_id: &AppId,
        open_ids: &[OpenId],
    ) -> Result<bool, StoreError> {
        let open_ids: Vec<String> = open_ids.iter().map(ToString::to_string).collect();
        let context = (operator.clone(), app_id.clone(), open_ids);
        let added: Result<(), StoreError> = self
            .transaction(context, move |connection, (operator, app_id, open_ids)| {
                Box::pin(async move {
                    let added = sqlx::query_scalar!(
                        "INSERT INTO wallets (app_id, open_id)
                     SELECT app_id, unnest($2::text[]) FROM apps WHERE app_id = $1
                     ON CONFLICT DO NOTHING RETURNING open_id",
                        app_id.as_str(),
                        open_ids
                    )
                    .fetch_all(&mut *connection)
                    .await?;
                    if added.is_empty() {
                        return Ok(());
                    }
                    let line = LogLine {
                        app_id: Some(app_id),
                        after: Some(json!({ "open_ids": added })),
                        ..LogLine::new(operator, Action::UserAdd, app_id.as_str())
                    };
                    record(connection, line).await
                })
            })
            .await;
        added?;
        self.app_exists(app_id).await
    }

    /// Credits a wallet, once for each ref (contract 8.3.3).
    pub async fn credit(
        &self,
        operator: &Operator,
        app_id: &AppId,
        credit: Credit,
    ) -> Result<CreditOutcome, StoreError> {
        self.credit_as(Action::WalletCredit, operator, app_id, credit).await
    }

    /// Credits a wallet for a line of an import. [`Store::log_import`] records the file.
    pub async fn import_credit(
        &self,
        operator: &Operator,
        app_id: &AppId,
        credit: Credit,
    ) -> Result<CreditOutcome, StoreError> {
        self.credit_as(Action::WalletImportCredit, operator, app_id, credit).await
    }

    /// Writes the one line that stands for all credits of an import.
    pub async fn log_import(
        &self,
        operator: &Operator,
        app_id: &AppId,
        summary: ImportSummary,
    ) -> Result<(), StoreError> {
        let context = (operator.clone(), app_id.clone(), summary);
        self.transaction(context, move |connection, (operator, app_id, summary)| {
            Box::pin(async move {
                let line = LogLine {
                    app_id: Some(app_id),
                    after: Some(json!(summary)),
                    ..LogLine::new(operator, Action::WalletImport, &summary.sha256)
                };
                record(connection, line).await
            })
        })
        .await
    }

    async fn credit_as(
        &self,
        action: Action,
        operator: &Operator,
        app_id: &AppId,
        credit: Credit,
    ) -> Result<CreditOutcome, StoreError> {
        if !self.app_exists(app_id).await? {
            return Ok(CreditOutcome::UnknownApp);
        }
        let context = (operator.clone(), app_id.clone(), credit);
        let outcome = self
            .transaction(context, move |connection, (operator, app_id, credit)| {
                Box::pin(async move {
                    let outcome = write_credit(connection, app_id, credit).await?;
                    if let CreditWrite::Now { before, after } = outcome {
                        let line = credit_line(action, operator, app_id, credit, before, after);
                        let answer = answer([
                            ("free_balance", after.free().into()),
                            ("charge_balance", after.charge().into()),
                            ("replayed", false.into()),
                        ]);
                        record_with_answer(connection, line, answer).await?;
                    }
                    Ok(outcome.into())
                })
            })
            .await;
        match outcome {
            Ok(outcome) => Ok(outcome),
            Err(CreditError::OutOfRange) => Ok(CreditOutcome::OutOfRange),
            Err(CreditError::RefConflict) => Ok(CreditOutcome::RefConflict),
            Err(CreditError::Store(error)) => Err(error),
        }
    }
}

fn credit_line<'a>(
    action: Action,
    operator: &'a Operator,
    app_id: &'a AppId,
    credit: &'a Credit,
    before: Balances,
    after: Balances,
) -> LogLine<'a> {
    LogLine {
        app_id: Some(app_id),
        before: Some(json!({ "free_balance": before.free(), "charge_balance": before.charge() })),
        after: Some(json!({
            "free_balance": after.free(), "charge_balance": after.charge(), "ref": credit.reference.as_str(),
        })),
        note: &credit.note,
        ..LogLine::new(operator, action, credit.open_id.as_str())
    }
}

/// The result of a credit's transaction.
#[derive(Clone, Copy)]
enum CreditWrite {
    Now { before: Balances, after: Balances },
    Earlier { after: Balances },
}

impl From<CreditWrite> for CreditOutcome {
    fn from(written: CreditWrite) -> Self {
        match written {
            CreditWrite::Now { after, .. } => Self::Done { balances: after, replayed: false },
            CreditWrite::Earlier { after } => Self::Done { balances: after, replayed: true },
        }
    }
}

/// The reason why a credit's transaction is rolled back.
enum CreditError {
    OutOfRange,
    RefConflict,
    Store(StoreError),
}

impl From<StoreError> for CreditError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<sqlx::Error> for CreditError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<BalanceOutOfRange> for CreditError {
    fn from(BalanceOutOfRange: BalanceOutOfRange) -> Self {
        Self::OutOfRange
    }
}

impl AsStoreError for CreditError {
    fn is_again(&self) -> bool {
        matches!(self, Self::Store(StoreError::Again))
    }
}

async fn write_credit(
    connection: &mut PgConnection,
    app_id: &AppId,
    credit: &Credit,
) -> Result<CreditWrite, CreditError> {
    sqlx::query!(
        "INSERT INTO wallets (app_id, open_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        app_id.as_str(),
        credit.open_id.as_str()
    )
    .execute(&mut *connection)
    .await?;
    let wallet = lock_wallet(connection, app_id, &credit.open_id)
        .await?
        .ok_or(CreditError::Store(StoreError::Again))?;
    if let Some(earlier) = earlier_credit(connection, app_id, credit).await? {
        return Ok(earlier);
    }
    let (before, seq) = (wallet.balances, wallet.entry_count + 1);
    let change = before.credit(credit.free, credit.charge)?;
    record_credit(connection, app_id, credit, seq, &wallet).await?;
    let entry = LedgerEntry {
        app_id: app_id.as_str(),
        open_id: credit.open_id.as_str(),
        seq,
        kind: CREDIT,
        reference: credit.reference.as_str(),
        free_change: change.free_change,
        charge_change: change.charge_change,
        free_balance: change.after.free(),
        charge_balance: change.after.charge(),
        at: micros(wallet.at),
    };
    write_entry(connection, &wallet, &entry).await?;
    Ok(CreditWrite::Now { before, after: change.after })
}

async fn record_credit(
    connection: &mut PgConnection,
    app_id: &AppId,
    credit: &Credit,
    seq: i64,
    wallet: &LockedWallet,
) -> Result<(), CreditError> {
    let recorded = sqlx::query!(
        "INSERT INTO credits (app_id, ref, open_id, seq, note, created_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT DO NOTHING",
        app_id.as_str(),
        credit.reference.as_str(),
        credit.open_id.as_str(),
        seq,
        credit.note,
        wallet.at
    )
    .execute(connection)
    .await?;
    // Another transaction has just used the ref for another wallet, so the credit is tried again.
    if recorded.rows_affected() == 0 { Err(CreditError::Store(StoreError::Again)) } else { Ok(()) }
}

async fn earlier_credit(
    connection: &mut PgConnection,
    app_id: &AppId,
    credit: &Credit,
) -> Result<Option<CreditWrite>, CreditError> {
    let earlier = sqlx::query!(
        "SELECT c.open_id, e.free_change, e.charge_change, e.free_balance, e.charge_balance
         FROM credits c JOIN ledger_entries e USING (app_id, open_id, seq) WHERE c.app_id = $1 AND c.ref = $2",
        app_id.as_str(),
        credit.reference.as_str()
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = earlier else { return Ok(None) };
    let same = row.open_id == credit.open_id.as_str()
        && (row.free_change, row.charge_change) == (credit.free, credit.charge);
    if !same {
        return Err(CreditError::RefConflict);
    }
    Ok(Some(CreditWrite::Earlier { after: Balances::new(row.free_balance, row.charge_balance)? }))
}
