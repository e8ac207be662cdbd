//! The bill of a period (contract 13.4): each ledger entry of an app as a line of CSV, oldest first.

use std::borrow::Cow;
use std::io::{self, Write};

use csv::WriterBuilder;
use domain::csv::csv_text;
use domain::ids::AppId;
use domain::moment::{plain, rfc3339};
use domain::period::TimeSpan;
use futures_util::TryStreamExt as _;

use crate::{CsvReader, Store, StoreError};

/// Bytes that are written at once.
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

/// Why a bill is not complete.
#[derive(Debug, thiserror::Error)]
pub enum BillError {
    /// There is no such app. Nothing was written.
    #[error("there is no app {0}")]
    UnknownApp(AppId),
    /// The bill could not be written.
    #[error(transparent)]
    Output(#[from] io::Error),
    /// The store has failed.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for BillError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<sqlx::Error> for BillError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<csv::Error> for BillError {
    fn from(error: csv::Error) -> Self {
        Self::Output(error.into())
    }
}

impl Store {
    /// Writes the ledger entries of an app in a span of time as CSV, in the order of their times, and a last line with
    /// the sums. It holds one piece in memory, however many entries there are.
    ///
    /// # Errors
    /// There is no such app, or `out` fails. The last line is only there when all is well.
    pub async fn bill(
        &self,
        app_id: &AppId,
        TimeSpan { since, until }: TimeSpan,
        reader: CsvReader,
        mut out: impl Write + Send,
    ) -> Result<BillSums, BillError> {
        let app_no = sqlx::query_scalar!("SELECT app_no FROM apps WHERE app_id = $1", app_id.as_str());
        let app_no = app_no.fetch_optional(&self.pool).await?;
        let app_no = app_no.ok_or_else(|| BillError::UnknownApp(app_id.clone()))?;
        let mut connection = self.connect_without_limits().await?;
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
        out.write_all(reader.mark().as_bytes())?;
        let mut csv = WriterBuilder::new().has_headers(false).buffer_capacity(PIECE_BYTES).from_writer(out);
        csv.write_record(BillColumn::WORDS)?;
        let mut sums = BillSums::default();
        while let Some(line) = lines.try_next().await? {
            let at = match reader {
                CsvReader::Program => rfc3339(line.at),
                CsvReader::Spreadsheet => plain(line.at),
            };
            csv.serialize((
                (at, text(line.open_id.as_deref()), line.seq, &line.kind),
                (line.biz_no.as_deref(), text(line.r#ref.as_deref())),
                (line.free_change, line.charge_change, line.free_balance, line.charge_balance),
                (text(line.zone_id.as_deref()), text(line.product_name.as_deref())),
            ))?;
            sums.entries += 1;
            sums.free_change += i128::from(line.free_change);
            sums.charge_change += i128::from(line.charge_change);
        }
        let BillSums { entries, free_change, charge_change } = sums;
        let sum = ("sum", "", entries, "", "", "", free_change, charge_change, "", "", "", "");
        csv.serialize(sum)?;
        csv.flush()?;
        Ok(sums)
    }
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
