//! All that the database holds about a player, as one zip for a request about personal data (contract 13.6).
//!
//! Each kind of rows is a file of JSON and one of CSV. All files are of one moment of the database. A file is written
//! while its rows are read, so the export needs the same memory for any number of rows.

mod events;
mod rows;

use std::borrow::Cow;
use std::io::{self, Seek, Write};

use csv::WriterBuilder;
use domain::csv::csv_text;
use domain::ids::{AppId, OpenId};
use domain::moment::rfc3339;
use domain::operation::player::nothing_recorded;
use domain::operator::Operator;
use futures_util::TryStreamExt as _;
use indexmap::IndexMap;
use serde_json::{Map, Value};
use sqlx::PgConnection;
use time::OffsetDateTime;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::app_number::number_if_any;
use crate::error::{OperationError, StoreError};
use crate::operator_log::{LogLine, OperatorAction};
use crate::store::Store;
use crate::topup::orders_of_wallet;
use crate::transaction::snapshot_of;

domain::word_enum! {
    /// A kind of rows of an export. The word is the name of its files.
    pub enum ExportedRows {
        /// Balances.
        Wallet = "wallet",
        /// Ledger entries, archived ones too, numbers that a query has closed, and orders of top-ups.
        LedgerEntries = "ledger_entries",
        /// Refused exchanges, presents and cancels.
        Refusals = "refusals",
        /// Replays of exchanges.
        Replays = "replays",
        /// What the game of a sandbox app says that it shipped.
        Shipments = "shipments",
        /// Orders.
        Orders = "orders",
        /// Reports that made or changed an order.
        OrderEvents = "order_events",
        /// Payment numbers of orders.
        OrderPayments = "order_payments",
        /// Login codes that were not used.
        LoginCodes = "login_codes",
        /// Payments for top-ups.
        TopupPayments = "topup_payments",
        /// Refunds of these payments, and what is still owed for them.
        TopupRefunds = "topup_refunds",
        /// Events of the feed.
        Events = "events",
        /// Changes that waited for a second person.
        ChangeRequests = "change_requests",
        /// Lines of gifts.
        GiftLines = "gift_lines",
        /// Lines of the operator's log.
        OperatorLog = "operator_log",
    }
}

/// How many rows of each kind an export has.
pub type ExportedCounts = IndexMap<&'static str, u64>;

/// Why there is no whole export.
#[derive(Debug)]
pub enum ExportError {
    /// Nothing is recorded of the player, or the store has failed.
    Operation(OperationError),
    /// The export could not be written.
    Output(io::Error),
}

impl<E: Into<OperationError>> From<E> for ExportError {
    fn from(error: E) -> Self {
        Self::Operation(error.into())
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<csv::Error> for ExportError {
    fn from(error: csv::Error) -> Self {
        Self::Output(error.into())
    }
}

impl From<zip::result::ZipError> for ExportError {
    fn from(error: zip::result::ZipError) -> Self {
        Self::Output(error.into())
    }
}

/// The player whose rows are exported.
#[derive(Debug, Clone)]
struct ExportedPlayer {
    app_id: String,
    open_id: String,
    /// `None` for an unknown app.
    app_no: Option<i32>,
    /// `None` for a player whom the app does not know.
    wallet_no: Option<i64>,
    /// The providers of the player's payments, and their ids there in the same order.
    payments: (Vec<String>, Vec<String>),
}

impl Store {
    /// Writes all that the database holds about a player as a zip, and returns how many rows of each kind there are. The
    /// operator's log has the export before its first byte is written.
    ///
    /// # Errors
    /// Nothing is known about the player, or `out` fails.
    pub async fn export_player(
        &self,
        operator: &Operator,
        app_id: &AppId,
        open_id: &OpenId,
        mut out: ZipWriter<impl Write + Seek + Send>,
    ) -> Result<ExportedCounts, ExportError> {
        let mut connection = self.connect_without_limits().await?;
        let mut snapshot = snapshot_of(&mut connection).await?;
        let (subject, at) = subject(&mut snapshot, app_id, open_id).await?;
        self.note_export(operator, app_id, open_id).await?;
        out.start_file("README.txt", options())?;
        out.write_all(readme(&subject, at).as_bytes())?;
        let mut counts = ExportedCounts::new();
        for part in ExportedRows::ALL {
            out.start_file(format!("{part}.json"), options())?;
            let mut json = JsonFile { out: &mut out, rows: 0 };
            write_rows(part, &mut snapshot, &subject, &mut json).await?;
            counts.insert(part.as_str(), json.end()?);
            out.start_file(format!("{part}.csv"), options())?;
            let mut csv = CsvTable { columns: part.columns(), writer: csv_writer(&mut out) };
            csv.writer.write_record(csv.columns.split(','))?;
            write_rows(part, &mut snapshot, &subject, &mut csv).await?;
            csv.writer.flush()?;
        }
        out.finish()?;
        snapshot.rollback().await?;
        Ok(counts)
    }

    async fn note_export(
        &self,
        operator: &Operator,
        app_id: &AppId,
        open_id: &OpenId,
    ) -> Result<(), StoreError> {
        let context = (operator.clone(), app_id.clone(), open_id.clone());
        self.transaction(context, |connection, (operator, app_id, open_id)| {
            let line = LogLine::new(operator, OperatorAction::PlayerExport, open_id.as_str()).of_app(app_id);
            Box::pin(line.record(connection))
        })
        .await
    }
}

/// A file may need more than four gibibytes.
fn options() -> SimpleFileOptions {
    SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .large_file(true)
        .unix_permissions(0o600)
}

/// Finds the player, and the moment of the export.
async fn subject(
    connection: &mut PgConnection,
    app_id: &AppId,
    open_id: &OpenId,
) -> Result<(ExportedPlayer, OffsetDateTime), ExportError> {
    // Apart, because on Citus the wallets lie on another node than what the last query reads.
    let app_no = number_if_any(&mut *connection, app_id).await?;
    let wallet_no = sqlx::query_scalar!(
        "SELECT wallet_no FROM wallets WHERE app_no = $1 AND open_id = $2",
        app_no,
        open_id.as_str()
    );
    let wallet_no = wallet_no.fetch_optional(&mut *connection).await?;
    let payments = payments_of(&mut *connection, app_no, wallet_no, open_id).await?;
    let found = sqlx::query!(
        r#"SELECT now() AS "at!",
               EXISTS (SELECT FROM exchange_refusals WHERE app_id = $1 AND open_id = $2)
               OR EXISTS (SELECT FROM orders WHERE app_id = $1 AND open_id = $2)
               OR EXISTS (SELECT FROM login_codes WHERE app_id = $1 AND open_id = $2)
               OR EXISTS (SELECT FROM console_requests WHERE app_id = $1 AND open_id = $2)
               OR EXISTS (SELECT FROM operator_log WHERE app_id = $1 AND subject = $2 AND action = 'login_code.issue')
               AS "is_named!""#,
        app_id.as_str(),
        open_id.as_str()
    );
    let found = found.fetch_one(connection).await?;
    if wallet_no.is_none() && !found.is_named {
        return Err(nothing_recorded(app_id, open_id).into());
    }
    let (app_id, open_id) = (app_id.to_string(), open_id.to_string());
    Ok((ExportedPlayer { app_id, open_id, app_no, wallet_no, payments }, found.at))
}

/// The providers of the payments of a player, and their ids there. A payment that names only one of the player's orders is
/// the player's, unless it was credited to somebody else.
async fn payments_of(
    connection: &mut PgConnection,
    app_no: Option<i32>,
    wallet_no: Option<i64>,
    open_id: &OpenId,
) -> Result<(Vec<String>, Vec<String>), StoreError> {
    let topup_orders = match (app_no, wallet_no) {
        (Some(app_no), Some(wallet_no)) => orders_of_wallet(connection, app_no, wallet_no).await?,
        _ => Vec::new(),
    };
    let payments = sqlx::query!(
        "SELECT provider, provider_order_id FROM topup_payments
         WHERE app_no = $1
             AND (wallet_no = $2 OR open_id = $3 OR wallet_no IS NULL AND open_id IS NULL AND biz_no = ANY ($4))",
        app_no,
        wallet_no,
        open_id.as_str(),
        &topup_orders
    );
    let payments = payments.fetch_all(connection).await?;
    Ok(payments.into_iter().map(|payment| (payment.provider, payment.provider_order_id)).unzip())
}

/// Writes the rows of a kind. Each is an object of JSON, as text.
async fn write_rows(
    part: ExportedRows,
    connection: &mut PgConnection,
    subject: &ExportedPlayer,
    file: &mut impl RowFile,
) -> Result<(), ExportError> {
    if part == ExportedRows::Events {
        return events::write(connection, subject, file).await;
    }
    let mut rows = rows::of(part, connection, subject);
    while let Some(row) = rows.try_next().await? {
        file.add(&row)?;
    }
    Ok(())
}

/// A file to which rows are written.
trait RowFile {
    /// Adds a row: the text of an object of JSON.
    fn add(&mut self, row: &str) -> Result<(), ExportError>;
}

/// A list of JSON, a row on each line.
struct JsonFile<'a, W> {
    out: &'a mut W,
    rows: u64,
}

impl<W: Write> RowFile for JsonFile<'_, W> {
    fn add(&mut self, row: &str) -> Result<(), ExportError> {
        self.out.write_all(if self.rows == 0 { b"[\n" } else { b",\n" })?;
        self.out.write_all(row.as_bytes())?;
        self.rows += 1;
        Ok(())
    }
}

impl<W: Write> JsonFile<'_, W> {
    fn end(self) -> Result<u64, ExportError> {
        self.out.write_all(if self.rows == 0 { b"[]\n" } else { b"\n]\n" })?;
        Ok(self.rows)
    }
}

/// CSV with these columns, named with commas between them.
struct CsvTable<W: Write> {
    columns: Cow<'static, str>,
    writer: csv::Writer<W>,
}

fn csv_writer<W: Write>(out: W) -> csv::Writer<W> {
    WriterBuilder::new().has_headers(false).from_writer(out)
}

impl<W: Write> RowFile for CsvTable<W> {
    fn add(&mut self, row: &str) -> Result<(), ExportError> {
        let row: Map<String, Value> = serde_json::from_str(row).map_err(io::Error::from)?;
        for column in self.columns.split(',') {
            match row.get(column) {
                None | Some(Value::Null) => self.writer.write_field("")?,
                Some(Value::String(text)) => self.writer.write_field(csv_text(text).as_bytes())?,
                // A number, or a part of JSON, which begins with a bracket.
                Some(other) => self.writer.write_field(other.to_string())?,
            }
        }
        self.writer.write_record(None::<&[u8]>)?;
        Ok(())
    }
}

fn readme(subject: &ExportedPlayer, at: OffsetDateTime) -> String {
    let ExportedPlayer { app_id, open_id, .. } = subject;
    let mut text = format!(
        "All that Minitill holds about the player {open_id} of the app {app_id}, at {at}.\n\n\
         Each name is a list in JSON and the same as CSV. Times are in UTC, amounts in coins. In CSV a text that a\n\
         spreadsheet would calculate has an apostrophe before it.\n\n",
        at = rfc3339(at)
    );
    for part in ExportedRows::ALL {
        text.extend([part.as_str(), "\n    ", &part.about(), "\n"]);
    }
    text
}
