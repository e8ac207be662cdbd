//! Wallets and their ledgers: credits by the operator, and what there is to see.

use std::sync::Arc;

use futures_util::{Stream, TryStreamExt as _};
use serde::Serialize;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::{AsStoreError, Store, StoreError};
use crate::domain::exchange::{BalanceOutOfRange, Balances, Change};
use crate::domain::ids::{AppId, CreditRef, OpenId};
use crate::domain::ledger::{CREDIT, ChainHash, LedgerEntry, micros};

/// A wallet as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Wallet {
    /// The app.
    pub app_id: String,
    /// The player.
    pub open_id: String,
    /// Gifted currency.
    pub free_balance: i64,
    /// Charged currency.
    pub charge_balance: i64,
    /// Number of ledger entries.
    pub entries: i64,
}

/// One ledger entry as a statement shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LedgerLine {
    /// Its place in the wallet, from 1.
    pub seq: i64,
    /// `credit` or `exchange`.
    pub kind: String,
    /// Order number of an exchange.
    pub biz_no: Option<String>,
    /// Reference of a credit.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Change of the gifted purse.
    pub free_change: i64,
    /// Change of the charged purse.
    pub charge_change: i64,
    /// Gifted currency after it.
    pub free_balance: i64,
    /// Charged currency after it.
    pub charge_balance: i64,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

/// A credit to be made.
#[derive(Debug, Clone)]
pub struct Credit {
    /// Whose wallet; it is made where there is none.
    pub open_id: OpenId,
    /// Gifted currency to add.
    pub free: i64,
    /// Charged currency to add.
    pub charge: i64,
    /// The operator's reference, unique in the app.
    pub reference: CreditRef,
    /// For people.
    pub note: String,
}

/// What became of a credit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreditOutcome {
    /// The wallet holds it; `replayed` when an earlier call with the same ref made it.
    Done {
        /// Both purses right after the credit.
        balances: Balances,
        /// Whether nothing was done now.
        replayed: bool,
    },
    /// The ref was used for another player or other amounts.
    RefConflict,
    /// A purse would hold more than 64 bits, or an amount is negative.
    OutOfRange,
    /// There is no such app.
    UnknownApp,
}

/// Wallet row, locked for a change.
struct LockedWallet {
    balances: Balances,
    entry_count: i64,
    /// Hash of its last entry.
    chain_hash: ChainHash,
    /// Database time.
    at: OffsetDateTime,
}

impl Store {
    /// Makes each player known, with an empty wallet; known ones are fine. `false` when there is
    /// no such app.
    ///
    /// # Errors
    /// The database is away.
    pub async fn add_users(&self, app_id: &AppId, open_ids: &[OpenId]) -> Result<bool, StoreError> {
        let open_ids: Vec<String> = open_ids.iter().map(ToString::to_string).collect();
        sqlx::query!(
            "INSERT INTO wallets (app_id, open_id) SELECT app_id, unnest($2::text[]) FROM apps WHERE app_id = $1
             ON CONFLICT DO NOTHING",
            app_id.as_str(),
            &open_ids
        )
        .execute(&self.pool)
        .await?;
        self.app_exists(app_id).await
    }

    /// The wallet of a player, `None` when the app has none for this open id.
    ///
    /// # Errors
    /// The database is away.
    pub async fn wallet(&self, app_id: &AppId, open_id: &OpenId) -> Result<Option<Wallet>, StoreError> {
        Ok(sqlx::query_as!(
            Wallet,
            "SELECT app_id, open_id, free_balance, charge_balance, entry_count AS entries
             FROM wallets WHERE app_id = $1 AND open_id = $2",
            app_id.as_str(),
            open_id.as_str()
        )
        .fetch_optional(&self.pool)
        .await?)
    }

    /// Whether the app knows this player.
    ///
    /// # Errors
    /// The database is away.
    pub async fn is_known(&self, app_id: &AppId, open_id: &OpenId) -> Result<bool, StoreError> {
        Ok(self.wallet(app_id, open_id).await?.is_some())
    }

    /// The whole ledger of a wallet, oldest first, as it streams in.
    pub fn statement<'a>(
        &'a self,
        app_id: &'a AppId,
        open_id: &'a OpenId,
    ) -> impl Stream<Item = Result<LedgerLine, StoreError>> + 'a {
        sqlx::query!(
            r#"SELECT seq, kind, reference, free_change, charge_change, free_balance, charge_balance, at
               FROM ledger_entries WHERE app_id = $1 AND open_id = $2 ORDER BY seq"#,
            app_id.as_str(),
            open_id.as_str()
        )
        .fetch(&self.pool)
        .map_ok(|row| {
            let is_credit = row.kind == CREDIT;
            LedgerLine {
                seq: row.seq,
                kind: row.kind,
                biz_no: (!is_credit).then(|| row.reference.clone()),
                reference: is_credit.then_some(row.reference),
                free_change: row.free_change,
                charge_change: row.charge_change,
                free_balance: row.free_balance,
                charge_balance: row.charge_balance,
                at: row.at,
            }
        })
        .map_err(StoreError::from)
    }

    /// Credits a wallet, once for each ref (contract 8).
    ///
    /// # Errors
    /// The database is away.
    pub async fn credit(&self, app_id: &AppId, credit: Credit) -> Result<CreditOutcome, StoreError> {
        if !self.app_exists(app_id).await? {
            return Ok(CreditOutcome::UnknownApp);
        }
        let (app_id, credit) = (app_id.clone(), Arc::new(credit));
        let outcome = self
            .transaction(move |connection| {
                let (app_id, credit) = (app_id.clone(), Arc::clone(&credit));
                Box::pin(async move { write_credit(connection, &app_id, &credit).await })
            })
            .await;
        match outcome {
            Ok(outcome) => Ok(outcome),
            Err(CreditError::OutOfRange) => Ok(CreditOutcome::OutOfRange),
            Err(CreditError::Store(error)) => Err(error),
        }
    }
}

/// Why a credit's transaction is rolled back.
enum CreditError {
    OutOfRange,
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
) -> Result<CreditOutcome, CreditError> {
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
    if let Some(outcome) = earlier_credit(connection, app_id, credit).await? {
        return Ok(outcome);
    }
    let change = wallet.balances.credit(credit.free, credit.charge)?;
    let seq = wallet.entry_count + 1;
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
    .execute(&mut *connection)
    .await?;
    if recorded.rows_affected() == 0 {
        // Another transaction has just used the ref for another wallet: look again.
        return Err(CreditError::Store(StoreError::Again));
    }
    write_entry(connection, &wallet, &credit_entry(app_id, credit, seq, change, wallet.at)).await?;
    Ok(CreditOutcome::Done { balances: change.after, replayed: false })
}

async fn earlier_credit(
    connection: &mut PgConnection,
    app_id: &AppId,
    credit: &Credit,
) -> Result<Option<CreditOutcome>, CreditError> {
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
        return Ok(Some(CreditOutcome::RefConflict));
    }
    let balances = Balances::new(row.free_balance, row.charge_balance)?;
    Ok(Some(CreditOutcome::Done { balances, replayed: true }))
}

fn credit_entry<'a>(
    app_id: &'a AppId,
    credit: &'a Credit,
    seq: i64,
    change: Change,
    at: OffsetDateTime,
) -> LedgerEntry<'a> {
    LedgerEntry {
        app_id: app_id.as_str(),
        open_id: credit.open_id.as_str(),
        seq,
        kind: CREDIT,
        reference: credit.reference.as_str(),
        free_change: change.free_change,
        charge_change: change.charge_change,
        free_balance: change.after.free(),
        charge_balance: change.after.charge(),
        at: micros(at),
    }
}

/// Locks a wallet until the end of the transaction and reads it as it stands then.
async fn lock_wallet(
    connection: &mut PgConnection,
    app_id: &AppId,
    open_id: &OpenId,
) -> Result<Option<LockedWallet>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT free_balance, charge_balance, entry_count, chain_length, chain_hash, clock_timestamp() AS "at!"
           FROM wallets WHERE app_id = $1 AND open_id = $2 FOR UPDATE"#,
        app_id.as_str(),
        open_id.as_str()
    )
    .fetch_optional(&mut *connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let balances =
        Balances::new(row.free_balance, row.charge_balance).map_err(|_| StoreError::damaged("wallets"))?;
    let chain_hash = ChainHash::try_from(row.chain_hash).map_err(|_| StoreError::damaged("wallets"))?;
    let chain_hash = if row.chain_length < row.entry_count {
        chain_on(connection, (app_id.as_str(), open_id.as_str()), row.chain_length, chain_hash).await?
    } else {
        chain_hash
    };
    Ok(Some(LockedWallet { balances, entry_count: row.entry_count, chain_hash, at: row.at }))
}

/// The hash of a wallet's last entry, where a program that knew no hashes has written behind
/// `chain_length`.
pub(super) async fn chain_on(
    connection: &mut PgConnection,
    (app_id, open_id): (&str, &str),
    chain_length: i64,
    mut chain_hash: ChainHash,
) -> Result<ChainHash, StoreError> {
    let mut rows = sqlx::query!(
        "SELECT seq, kind, reference, free_change, charge_change, free_balance, charge_balance, at
         FROM ledger_entries WHERE app_id = $1 AND open_id = $2 AND seq > $3 ORDER BY seq",
        app_id,
        open_id,
        chain_length
    )
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        let entry = LedgerEntry {
            app_id,
            open_id,
            seq: row.seq,
            kind: &row.kind,
            reference: &row.reference,
            free_change: row.free_change,
            charge_change: row.charge_change,
            free_balance: row.free_balance,
            charge_balance: row.charge_balance,
            at: micros(row.at),
        };
        chain_hash = entry.chain_hash(&chain_hash);
    }
    Ok(chain_hash)
}

/// Writes a ledger entry and the balances it leads to; the wallet must be locked.
async fn write_entry(
    connection: &mut PgConnection,
    wallet: &LockedWallet,
    entry: &LedgerEntry<'_>,
) -> Result<(), StoreError> {
    let chain_hash = entry.chain_hash(&wallet.chain_hash);
    sqlx::query!(
        "INSERT INTO ledger_entries (app_id, open_id, seq, kind, reference, free_change, charge_change,
                free_balance, charge_balance, at, chain_hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        entry.app_id,
        entry.open_id,
        entry.seq,
        entry.kind,
        entry.reference,
        entry.free_change,
        entry.charge_change,
        entry.free_balance,
        entry.charge_balance,
        wallet.at,
        chain_hash.as_slice()
    )
    .execute(&mut *connection)
    .await?;
    let updated = sqlx::query!(
        "UPDATE wallets SET free_balance = $3, charge_balance = $4, entry_count = $5, chain_length = $5,
                chain_hash = $6
         WHERE app_id = $1 AND open_id = $2 AND entry_count = $5::bigint - 1",
        entry.app_id,
        entry.open_id,
        entry.free_balance,
        entry.charge_balance,
        entry.seq,
        chain_hash.as_slice()
    )
    .execute(connection)
    .await?;
    if updated.rows_affected() != 1 {
        return Err(StoreError::Internal("a locked wallet changed under its lock".to_owned()));
    }
    Ok(())
}
