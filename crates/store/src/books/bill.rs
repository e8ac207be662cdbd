//! The bill of a period (contract 13.4): each ledger entry of an app, oldest first, as lines of text or as a workbook.

mod csv_lines;
mod workbook;
mod workbook_rows;

use std::fmt;

use domain::ids::{AppId, OpenId};
use domain::operation::books::too_many_entries;
use domain::operation::wallet::unknown_player;
use domain::period::TimeSpan;
use futures_util::{Stream, TryStreamExt as _};
use guarded_fetch::bulkhead::{AskedBack, Permit};
use serde::Serialize;
use sqlx::PgConnection;
use time::OffsetDateTime;
use tokio::sync::mpsc::{self, Receiver, Sender};

use self::csv_lines::BillCsv;
use self::workbook::{ENTRIES_AT_ONCE, give_workbook};
pub use self::workbook::{SheetStyle, SheetWords, WORKBOOK_ENTRIES_MAX, revenue_headings};
use crate::app_number::number_of;
use crate::error::{OperationError, StoreError};
use crate::store::Store;
use crate::transaction::snapshot_of;
use crate::wallet::LedgerFilter;

domain::word_enum! {
    /// The columns of the bill, in their order.
    pub enum BillColumn {
        /// Database time.
        At = "at",
        /// The player.
        OpenId = "open_id",
        /// Sequence number in the wallet.
        Seq = "seq",
        /// Kind of the entry.
        Kind = "kind",
        /// Number of a game.
        BizNo = "biz_no",
        /// Ref of an operator.
        Ref = "ref",
        /// Change of the gifted purse.
        FreeChange = "free_change",
        /// Change of the charged purse.
        ChargeChange = "charge_change",
        /// Gifted currency after it.
        FreeBalance = "free_balance",
        /// Charged currency after it.
        ChargeBalance = "charge_balance",
        /// Zone and role.
        ZoneId = "zone_id",
        /// What was bought.
        ProductName = "product_name",
    }
}

/// The sums of a bill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BillSums {
    /// Number of entries.
    pub entries: u64,
    /// Sum of the changes of gifted purses.
    pub free_change: i128,
    /// Sum of the changes of charged purses.
    pub charge_change: i128,
}

/// What comes of a bill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BillPiece {
    /// Whole lines, about 64 KiB.
    Lines(Vec<u8>),
    /// The bill is complete. Nothing comes after it.
    End(BillSums),
}

/// A bill names at most this many wallets whose archived entries it reads. With more it reads those of all.
const ARCHIVED_WALLETS_MAX: i64 = 50_000;
/// Bytes after which a piece ends, with the lines in which they are reached.
const PIECE_BYTES: usize = 64 * 1024;

/// A bill that is being made. It waits for whoever reads it, and has three pieces in memory at most. It ends with its
/// reader.
#[derive(Debug)]
pub struct Bill(Receiver<Result<BillPiece, StoreError>>);

impl Bill {
    /// What comes next: pieces, and then the end.
    ///
    /// # Errors
    /// The bill stays without its end. The last line, which has the sums, has not come.
    pub async fn next(&mut self) -> Result<BillPiece, StoreError> {
        let gone = || Err(StoreError::Internal("the task of a bill has ended".to_owned()));
        self.0.recv().await.unwrap_or_else(gone)
    }
}

/// A ledger entry of a bill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BillLine {
    /// Database time.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// The player.
    pub open_id: Option<String>,
    /// Sequence number in the wallet.
    pub seq: i64,
    /// Kind of the entry.
    pub kind: String,
    /// Number of a game.
    pub biz_no: Option<String>,
    /// Ref of an operator.
    pub r#ref: Option<String>,
    /// Change of the gifted purse.
    pub free_change: i64,
    /// Change of the charged purse.
    pub charge_change: i64,
    /// Gifted currency after it.
    pub free_balance: i64,
    /// Charged currency after it.
    pub charge_balance: i64,
    /// Zone and role.
    pub zone_id: Option<String>,
    /// What was bought.
    pub product_name: Option<String>,
}

/// Writes a bill as text.
pub trait BillText: Send {
    /// The text in front of the lines.
    fn begin(&mut self) -> Result<Vec<u8>, StoreError>;
    /// Some lines.
    ///
    /// # Errors
    /// None is known, because it writes into memory.
    fn lines(&mut self, lines: &[BillLine]) -> Result<Vec<u8>, StoreError>;
    /// The text behind the lines.
    fn end(&mut self, sums: &BillSums) -> Result<Vec<u8>, StoreError>;
}

/// What a bill is made into.
pub enum BillFormat {
    /// Text, which comes while it is made.
    Text(Box<dyn BillText>),
    /// A workbook, which comes when all entries are there.
    Workbook(SheetStyle),
}

impl BillFormat {
    /// CSV for programs, with times in UTC.
    #[must_use]
    pub fn csv() -> Self {
        Self::Text(Box::new(BillCsv))
    }
}

impl fmt::Debug for BillFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text",
            Self::Workbook(_) => "Workbook",
        })
    }
}

impl Store {
    /// The ledger entries of an app in a span of time, in the order of their times, with their sums.
    ///
    /// # Errors
    /// `Overloaded` while this process makes another of the app, or two of others, and their readers are quick. A workbook
    /// would have too many entries.
    pub async fn bill(
        &self,
        app_id: &AppId,
        span: TimeSpan,
        format: BillFormat,
    ) -> Result<Bill, OperationError> {
        let permit = self.bills.take(app_id).await?;
        let app_no = number_of(&self.pool, app_id).await?;
        let mut connection = self.connect_without_limits().await?;
        if matches!(format, BillFormat::Workbook(_)) {
            must_fit(&mut connection, app_no, span).await?;
        }
        let (out, pieces) = mpsc::channel(1);
        // A reader who hangs up does not end the work of the database, so the permit must last as long.
        tokio::spawn(async move {
            let mut reader = BillReader { out, permit };
            let end = make_bill(connection, app_no, span, format, &mut reader).await;
            reader.end(end).await;
        });
        Ok(Bill(pieces))
    }

    /// The ledger entries of a wallet that match a filter as a workbook. It needs a permit of bills.
    ///
    /// # Errors
    /// `Overloaded` as for a bill. The workbook would have too many entries.
    pub async fn wallet_workbook(
        &self,
        app_id: &AppId,
        open_id: &OpenId,
        filter: LedgerFilter,
        style: SheetStyle,
    ) -> Result<Bill, OperationError> {
        let permit = self.bills.take(app_id).await?;
        let wallet = self.wallet(app_id, open_id).await?.ok_or_else(|| unknown_player(app_id, open_id))?;
        if wallet.entries > WORKBOOK_ENTRIES_MAX {
            return Err(too_many_entries(WORKBOOK_ENTRIES_MAX).into());
        }
        let rows = self.statement(app_id, open_id, filter);
        let (out, pieces) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut reader = BillReader { out, permit };
            let end = give_workbook(rows, style, &mut reader).await;
            reader.end(end).await;
        });
        Ok(Bill(pieces))
    }
}

/// Refuses a span with more entries than a workbook has room for.
async fn must_fit(
    connection: &mut PgConnection,
    app_no: i32,
    TimeSpan { since, until }: TimeSpan,
) -> Result<(), OperationError> {
    let entries = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
               SELECT FROM numbers WHERE app_no = $1 AND seq IS NOT NULL AND at >= $2 AND at < $3 LIMIT $4) counted"#,
        app_no,
        since,
        until,
        WORKBOOK_ENTRIES_MAX + 1
    );
    if entries.fetch_one(connection).await? > WORKBOOK_ENTRIES_MAX {
        return Err(too_many_entries(WORKBOOK_ENTRIES_MAX).into());
    }
    Ok(())
}

/// Makes a bill, and ends the session. An archive that is written meanwhile moves entries, so the bill is of one moment.
async fn make_bill(
    mut connection: PgConnection,
    app_no: i32,
    span: TimeSpan,
    format: BillFormat,
    reader: &mut BillReader,
) -> Result<Option<BillSums>, StoreError> {
    let mut snapshot = snapshot_of(&mut connection).await?;
    let wallet_nos = archived_wallets(&mut snapshot, app_no, span).await?;
    let lines = lines(&mut snapshot, app_no, span, wallet_nos.as_deref());
    match format {
        BillFormat::Text(text) => write_bill(lines, text, reader).await,
        BillFormat::Workbook(style) => give_workbook(lines, style, reader).await,
    }
}

/// The wallets with archived entries in the span. The balances of such entries are sums from the first entry of the wallet
/// on, and the bill reads no other wallet for them. `None`: there are too many to name.
async fn archived_wallets(
    connection: &mut PgConnection,
    app_no: i32,
    TimeSpan { since, until }: TimeSpan,
) -> Result<Option<Vec<i64>>, StoreError> {
    let wallet_nos = sqlx::query_scalar!(
        "SELECT DISTINCT wallet_no FROM archived_entries WHERE app_no = $1 AND at >= $2 AND at < $3 LIMIT $4",
        app_no,
        since,
        until,
        ARCHIVED_WALLETS_MAX + 1
    );
    let wallet_nos = wallet_nos.fetch_all(connection).await?;
    let are_few = i64::try_from(wallet_nos.len()).is_ok_and(|count| count <= ARCHIVED_WALLETS_MAX);
    Ok(are_few.then_some(wallet_nos))
}

fn lines(
    connection: &mut PgConnection,
    app_no: i32,
    TimeSpan { since, until }: TimeSpan,
    wallet_nos: Option<&[i64]>,
) -> impl Stream<Item = Result<BillLine, StoreError>> + Send {
    let lines = sqlx::query_as!(
        BillLine,
        r#"SELECT at AS "at!", open_id, seq AS "seq!", kind AS "kind!", biz_no, ref,
                   free_change AS "free_change!", charge_change AS "charge_change!",
                   free_balance AS "free_balance!", charge_balance AS "charge_balance!", zone_id, product_name
               FROM bill_lines WHERE app_no = $1 AND at >= $2 AND at < $3
                   AND (NOT is_archived OR $4::bigint[] IS NULL OR wallet_no = ANY ($4))
               ORDER BY at, open_id, seq"#,
        app_no,
        since,
        until,
        wallet_nos
    );
    lines.fetch(connection).map_err(StoreError::from)
}

/// The reader of a bill, with the permit that lasts as long as the bill is made and read.
struct BillReader {
    out: Sender<Result<BillPiece, StoreError>>,
    permit: Permit,
}

impl BillReader {
    /// Whether the reader takes a piece: `false` when it has gone. It fails when the reader is slow and others wait for the
    /// permit.
    async fn take(&mut self, piece: Vec<u8>) -> Result<bool, StoreError> {
        let taken = self.permit.wait_for(self.out.send(Ok(BillPiece::Lines(piece)))).await;
        let too_slow = "the reader of a bill was slow, and others waited for its place";
        Ok(taken.map_err(|AskedBack| StoreError::unavailable(too_slow))?.is_ok())
    }

    fn has_gone(&self) -> bool {
        self.out.is_closed()
    }

    /// Gives the end. Nobody needs it when the reader has gone.
    async fn end(self, end: Result<Option<BillSums>, StoreError>) {
        // A reader who was too slow takes the end slowly too.
        drop(self.permit);
        if let Some(end) = end.transpose() {
            let _ = self.out.send(end.map(BillPiece::End)).await;
        }
    }
}

/// Gives the lines of a bill to its reader. `None`: the reader has gone.
async fn write_bill(
    lines: impl Stream<Item = Result<BillLine, StoreError>> + Send,
    mut text: Box<dyn BillText>,
    reader: &mut BillReader,
) -> Result<Option<BillSums>, StoreError> {
    let mut sums = BillSums::default();
    let mut piece = text.begin()?;
    let mut chunks = std::pin::pin!(lines.try_chunks(ENTRIES_AT_ONCE));
    while let Some(chunk) = chunks.try_next().await.map_err(|broken| broken.1)? {
        for line in &chunk {
            sums.entries += 1;
            sums.free_change += i128::from(line.free_change);
            sums.charge_change += i128::from(line.charge_change);
        }
        piece.append(&mut text.lines(&chunk)?);
        if piece.len() >= PIECE_BYTES && !reader.take(std::mem::take(&mut piece)).await? {
            return Ok(None);
        }
    }
    piece.append(&mut text.end(&sums)?);
    Ok(reader.take(piece).await?.then_some(sums))
}

impl BillColumn {
    /// Whether it has an integer.
    pub(super) const fn is_integer(self) -> bool {
        match self {
            Self::Seq | Self::FreeChange | Self::ChargeChange | Self::FreeBalance | Self::ChargeBalance => {
                true
            }
            Self::At
            | Self::OpenId
            | Self::Kind
            | Self::BizNo
            | Self::Ref
            | Self::ZoneId
            | Self::ProductName => false,
        }
    }
}
