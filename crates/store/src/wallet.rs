//! Wallets and their ledgers: credits by operators, and reading.

mod change;
mod credit_forecast;
mod credit_list;
mod credits;
mod csv_file;
mod csv_quotes;
mod freeze;
mod gift;
mod income;
mod ledger;
mod search;
mod submit;

use domain::ids::{AppId, OpenId};
use domain::topup::CoinPair;
use futures_util::{Stream, TryStreamExt as _, stream};
use serde::Serialize;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::error::{Result, StoreError};
use crate::exchange_lookup::RefusalRecord;
use crate::store::Store;
use crate::wallet_no::random_wallet_no;

pub(crate) use change::write_change;
pub use credit_forecast::{CreditForecast, ForeseenCredit};
pub use credit_list::{CreditList, CreditOfList, ListFault};
pub use credits::{CREDITS_AT_ONCE, CREDITS_MAX, CreditResult, CreditsSource};
pub(crate) use csv_file::{
    LINE_BYTES_MAX, bare_cell, bare_id, bare_value, csv_fault, fault_line, fits_heading, heading_fault,
    is_separator_line, listed_id, names_of, not_csv, separator, shortened,
};
pub use csv_file::{NamedFaults, STATEMENT_HEADING, csv_line, csv_of, statement_line};
pub(crate) use csv_quotes::QuoteCheck;
pub(crate) use gift::begin as begin_gift;
pub use gift::{GIFT_LINES_MAX, Gift, GiftFault, GiftLine};
pub use income::Income;
pub use ledger::{ArchivedPart, ChangeRecord, EntryKind, LedgerFilter, LedgerPage, LedgerRow, WalletTotals};
pub use search::{PlayerCursor, PlayerFilter, PlayersPage};

/// How many entries [`Store::statement`] reads at a time.
const STATEMENT_PIECE: i64 = 1_000;

/// The present state of a wallet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, sqlx::FromRow, schemars::JsonSchema)]
pub struct Wallet {
    /// The app.
    #[schemars(with = "AppId")]
    pub app_id: String,
    /// The player.
    #[schemars(with = "OpenId")]
    pub open_id: String,
    /// Gifted currency.
    pub free_balance: i64,
    /// Charged currency.
    pub charge_balance: i64,
    /// Number of ledger entries.
    pub entries: i64,
    /// Whether an operator has frozen it (contract 17).
    pub frozen: bool,
    /// When the freeze ends by itself. `null` where it does not, and for a wallet that is not frozen.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub frozen_until: Option<OffsetDateTime>,
}

/// A wallet, and how its player was refused (contract 13.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct WalletDetail {
    /// The wallet.
    #[serde(flatten)]
    pub wallet: Wallet,
    /// What the wallet owes for refunds. `null` where it owes nothing.
    pub debt: Option<CoinPair>,
    /// Refusals of the player in the last 30 days, the newest first, at most 100. Some may be missing.
    pub refusals: Vec<RefusalRecord>,
}

/// A ledger entry of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct LedgerLine {
    /// Its sequence number in the wallet, from 1.
    pub seq: i64,
    /// What changed the wallet.
    #[schemars(with = "EntryKind")]
    pub kind: String,
    /// The number of a game's exchange, present or cancel.
    pub biz_no: Option<String>,
    /// The ref of an operator's credit, debit or cancel, or the payment of a top-up. A payment is its provider and the
    /// provider's id, with a slash between them.
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
    /// Database time.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: OffsetDateTime,
}

/// The line of a row of `ledger_entries`. Its reference is a ref or a `biz_no`, depending on its
/// kind.
macro_rules! ledger_line {
    ($row:expr) => {{
        let (biz_no, reference) = domain::ledger::told_reference(&$row.reference);
        let (biz_no, reference) = (biz_no.map(str::to_owned), reference.map(str::to_owned));
        LedgerLine {
            seq: $row.seq,
            kind: $row.kind,
            biz_no,
            reference,
            free_change: $row.free_change,
            charge_change: $row.charge_change,
            free_balance: $row.free_balance,
            charge_balance: $row.charge_balance,
            at: $row.at,
        }
    }};
}
use ledger_line;

impl LedgerLine {
    /// The entry's `biz_no` or ref.
    #[must_use]
    pub fn number(&self) -> &str {
        self.biz_no.as_deref().or(self.reference.as_deref()).unwrap_or_default()
    }
}

/// Makes an empty wallet for a player who has none. A wallet registers the player in the app.
pub(super) async fn make_known(
    connection: &mut PgConnection,
    app_id: &AppId,
    open_id: &OpenId,
) -> Result<()> {
    sqlx::query!(
        "INSERT INTO wallets (app_no, open_id, wallet_no) SELECT app_no, $2, $3 FROM apps WHERE app_id = $1
         ON CONFLICT (app_no, open_id) DO NOTHING",
        app_id.as_str(),
        open_id.as_str(),
        random_wallet_no()
    )
    .execute(connection)
    .await?;
    Ok(())
}

impl Store {
    /// The wallet of a player. `None` when the app has no such wallet.
    pub async fn wallet(&self, app_id: &AppId, open_id: &OpenId) -> Result<Option<Wallet>> {
        Ok(sqlx::query_as!(
            Wallet,
            r#"SELECT app_id AS "app_id!", open_id AS "open_id!", free_balance AS "free_balance!",
                    charge_balance AS "charge_balance!", entry_count AS "entries!",
                    coalesce(frozen_until > now(), false) AS "frozen!",
                    CASE WHEN frozen_until > now() AND isfinite(frozen_until) THEN frozen_until END AS frozen_until
             FROM players WHERE app_id = $1 AND open_id = $2"#,
            app_id.as_str(),
            open_id.as_str()
        )
        .fetch_optional(&self.pool)
        .await?)
    }

    /// True when the app knows this player.
    pub async fn is_known(&self, app_id: &AppId, open_id: &OpenId) -> Result<bool> {
        Ok(self.wallet(app_id, open_id).await?.is_some())
    }

    /// Streams the entries of a wallet that match `filter`, oldest first. It reads piece by piece, so a
    /// slow reader holds no session. Entries that are added meanwhile may come at the end.
    pub fn statement(
        &self,
        app_id: &AppId,
        open_id: &OpenId,
        filter: LedgerFilter,
    ) -> impl Stream<Item = Result<LedgerRow>> + Send + use<> {
        let start = (self.clone(), app_id.clone(), open_id.clone(), filter, Some(0));
        stream::try_unfold(start, |(store, app_id, open_id, filter, after)| async move {
            let Some(mut after) = after else { return Ok(None) };
            if after == 0 {
                let archived = store.archived_part(&app_id, &open_id).await?;
                after = archived.map_or(0, |archived| archived.entries);
            }
            // Before the entries: so the piece has each entry up to this number.
            let last = store.wallet(&app_id, &open_id).await?.map_or(0, |wallet| wallet.entries);
            let end = after + STATEMENT_PIECE;
            let mut piece =
                store.ledger_rows(&app_id, &open_id, &filter, (after + 1, end), STATEMENT_PIECE).await?;
            // Entries that left the ledger after the look at the archives would be missing here.
            let archived = store.archived_part(&app_id, &open_id).await?;
            if archived.is_some_and(|archived| archived.entries > after) {
                let cause = "the entries of this wallet are being archived; repeat the statement";
                return Err(StoreError::unavailable(cause));
            }
            piece.reverse();
            let after = (end < last).then_some(end);
            let piece = stream::iter(piece.into_iter().map(Ok));
            Ok::<_, StoreError>(Some((piece, (store, app_id, open_id, filter, after))))
        })
        .try_flatten()
    }
}
