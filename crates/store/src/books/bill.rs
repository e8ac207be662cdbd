//! The bill of a period (contract 13.4): each ledger entry of an app as a line of CSV, oldest first.

use std::borrow::Cow;
use std::fmt::Display;

use csv::{Writer, WriterBuilder};
use domain::csv::csv_text;
use domain::ids::AppId;
use domain::moment::{plain, rfc3339};
use domain::operation::unknown_app;
use domain::period::TimeSpan;
use futures_util::TryStreamExt as _;
use guarded_fetch::bulkhead::{AskedBack, Permit};
use sqlx::PgConnection;
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::error::{OperationError, StoreError};
use crate::store::Store;
use crate::wallet::CsvReader;

/// Bytes after which a piece ends, with the line in which they are reached.
const PIECE_BYTES: usize = 64 * 1024;

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

impl Store {
    /// The ledger entries of an app in a span of time as CSV, in the order of their times, and a last line with the
    /// sums.
    ///
    /// # Errors
    /// `Overloaded` while this process makes another of the app, or two of others, and their readers are quick.
    pub async fn bill(
        &self,
        app_id: &AppId,
        span: TimeSpan,
        reader: CsvReader,
    ) -> Result<Bill, OperationError> {
        let mut permit = self.bills.take(app_id).await?;
        let app_no = sqlx::query_scalar!("SELECT app_no FROM apps WHERE app_id = $1", app_id.as_str());
        let app_no = app_no.fetch_optional(&self.pool).await?;
        let app_no = app_no.ok_or_else(|| unknown_app(app_id))?;
        let connection = self.connect_without_limits().await?;
        let (out, pieces) = mpsc::channel(1);
        // A reader who hangs up does not end the work of the database, so the permit must last as long.
        tokio::spawn(async move {
            let end = write_bill(connection, app_no, span, reader, (&out, &mut permit)).await;
            // A reader who was too slow takes the end slowly too.
            drop(permit);
            // Nobody needs the end when the reader has gone.
            if let Some(end) = end.transpose() {
                let _ = out.send(end.map(BillPiece::End)).await;
            }
        });
        Ok(Bill(pieces))
    }
}

/// Gives the lines of a bill to its reader. `None`: the reader has gone. It fails when the reader is slow and others wait for
/// the permit.
async fn write_bill(
    mut connection: PgConnection,
    app_no: i32,
    TimeSpan { since, until }: TimeSpan,
    reader: CsvReader,
    (out, permit): (&Sender<Result<BillPiece, StoreError>>, &mut Permit),
) -> Result<Option<BillSums>, StoreError> {
    let mut lines = sqlx::query!(
        r#"SELECT at AS "at!", open_id, seq AS "seq!", kind AS "kind!", biz_no, ref,
                   free_change AS "free_change!", charge_change AS "charge_change!",
                   free_balance AS "free_balance!", charge_balance AS "charge_balance!", zone_id, product_name
               FROM bill_lines WHERE app_no = $1 AND at >= $2 AND at < $3 ORDER BY at, open_id, seq"#,
        app_no,
        since,
        until
    )
    .fetch(&mut connection);
    let mut csv = writer(reader.mark());
    csv.write_record(BillColumn::WORDS).map_err(|error| unwritten(&error))?;
    let mut sums = BillSums::default();
    while let Some(line) = lines.try_next().await? {
        // The writer passes on what it keeps when that is full, but for a byte or two.
        if csv.get_ref().len() >= PIECE_BYTES / 2 {
            let full = std::mem::replace(&mut csv, writer(""));
            let taken = permit.wait_for(out.send(Ok(BillPiece::Lines(bytes(full)?)))).await;
            match taken.map_err(|AskedBack| too_slow())? {
                Ok(()) => {}
                Err(_gone) => return Ok(None),
            }
        }
        let at = match reader {
            CsvReader::Program => rfc3339(line.at),
            CsvReader::Spreadsheet => plain(line.at),
        };
        csv.serialize((
            (at, text(line.open_id.as_deref()), line.seq, &line.kind),
            (line.biz_no.as_deref(), text(line.r#ref.as_deref())),
            (line.free_change, line.charge_change, line.free_balance, line.charge_balance),
            (text(line.zone_id.as_deref()), text(line.product_name.as_deref())),
        ))
        .map_err(|error| unwritten(&error))?;
        sums.entries += 1;
        sums.free_change += i128::from(line.free_change);
        sums.charge_change += i128::from(line.charge_change);
    }
    let BillSums { entries, free_change, charge_change } = sums;
    csv.serialize(("sum", "", entries, "", "", "", free_change, charge_change, "", "", "", ""))
        .map_err(|error| unwritten(&error))?;
    let last = permit.wait_for(out.send(Ok(BillPiece::Lines(bytes(csv)?)))).await;
    Ok(last.map_err(|AskedBack| too_slow())?.is_ok().then_some(sums))
}

fn too_slow() -> StoreError {
    StoreError::Unavailable("the reader of a bill was slow, and others waited for its place".to_owned())
}

/// A writer of the next piece, behind what stands before its first line.
fn writer(before: &str) -> Writer<Vec<u8>> {
    let mut piece = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8);
    piece.extend_from_slice(before.as_bytes());
    WriterBuilder::new().has_headers(false).buffer_capacity(PIECE_BYTES).from_writer(piece)
}

fn bytes(csv: Writer<Vec<u8>>) -> Result<Vec<u8>, StoreError> {
    csv.into_inner().map_err(|error| unwritten(&error))
}

/// Memory takes every line, so this is a fault of ours.
fn unwritten(error: &dyn Display) -> StoreError {
    StoreError::Internal(format!("no line of a bill: {error}"))
}

/// A text that is no formula. Null is empty.
fn text(text: Option<&str>) -> Cow<'_, str> {
    csv_text(text.unwrap_or_default())
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

    /// The value in a row of `bill_lines`, as the bill writes it for programs before formulas are made texts.
    pub(super) const fn sql(self) -> &'static str {
        match self {
            Self::At => {
                "rtrim(rtrim(to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US'), '0'), '.') || 'Z'"
            }
            Self::OpenId => "open_id",
            Self::Seq => "seq::text",
            Self::Kind => "kind",
            Self::BizNo => "biz_no",
            Self::Ref => "''",
            Self::FreeChange => "free_change::text",
            Self::ChargeChange => "charge_change::text",
            Self::FreeBalance => "free_balance::text",
            Self::ChargeBalance => "charge_balance::text",
            Self::ZoneId => "coalesce(zone_id, '')",
            Self::ProductName => "coalesce(product_name, '')",
        }
    }
}
