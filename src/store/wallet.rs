//! Wallets and their ledgers: credits by the operator, and what there is to see.

mod credit;
mod entry;

use futures_util::{Stream, TryStreamExt as _};
use serde::Serialize;
use time::OffsetDateTime;

use super::{Store, StoreError};
use crate::domain::exchange::Balances;
use crate::domain::ids::{AppId, CreditRef, OpenId};
use crate::domain::ledger::CREDIT;

pub use credit::ImportSummary;
pub(super) use entry::chain_on;

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

impl Store {
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
}
