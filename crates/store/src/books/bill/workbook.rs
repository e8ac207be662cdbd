//! Ledger entries as a workbook for spreadsheets: a row for each, and their sums by day (contract 13.8).

use std::collections::BTreeMap;
use std::io::{self, Write};

use domain::ledger::EXCHANGE;
use domain::period::TimeZone;
use domain::text;
use domain::text::Text;
use futures_util::{Stream, TryStreamExt as _};
use spreadsheet::{SheetCell, SheetColumn, Workbook, WorkbookError};
use time::{Date, OffsetDateTime};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::spawn_blocking;

use super::{BillReader, BillSums};
use crate::error::StoreError;
use crate::wallet::EntryKind;

const CANCEL: &str = EntryKind::Cancel.as_str();

/// The most entries of a workbook. Its temporary files have about 600 bytes for each.
pub const WORKBOOK_ENTRIES_MAX: i64 = 5_000_000;
/// Entries that are handed on at once.
pub(super) const ENTRIES_AT_ONCE: usize = 500;
/// Bytes of a workbook that are handed on at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Gives the words of a text in the language of a workbook.
pub type SheetWords = fn(&Text) -> String;

/// How a workbook speaks: the words of its headings, and the clock of its times.
#[derive(Debug, Clone)]
pub struct SheetStyle {
    /// Its language.
    pub words: SheetWords,
    /// The time zone of its times and days.
    pub zone: TimeZone,
}

impl SheetStyle {
    /// The style of the command line and the admin API.
    #[must_use]
    pub const fn english(zone: TimeZone) -> Self {
        Self { words: Text::english, zone }
    }

    /// A column with this heading.
    #[must_use]
    pub fn column(&self, heading: &Text, width: u8) -> SheetColumn {
        SheetColumn { heading: (self.words)(heading), width }
    }

    /// The column of a time. Its heading names the time zone.
    #[must_use]
    pub fn time_column(&self) -> SheetColumn {
        self.column(&text!("Time ({zone})", zone = self.zone), 24)
    }

    /// A cell with a moment, as the clock of the time zone shows it.
    #[must_use]
    pub fn moment(&self, at: OffsetDateTime) -> SheetCell<'static> {
        SheetCell::Moment(self.zone.clock(at))
    }
}

/// A row of a workbook: a ledger entry.
pub(super) trait WorkbookRow: Send + 'static {
    /// The columns of all rows.
    fn columns(style: &SheetStyle) -> Vec<SheetColumn>;
    /// The cells, in the order of the columns.
    fn cells<'a>(&'a self, style: &SheetStyle) -> Vec<SheetCell<'a>>;
    /// What sums are made of.
    fn changes(&self) -> EntryChanges<'_>;
}

/// What sums are made of.
pub(super) struct EntryChanges<'a> {
    pub(super) at: OffsetDateTime,
    pub(super) kind: &'a str,
    pub(super) free: i64,
    pub(super) charge: i64,
}

/// What goes to the thread that writes the workbook.
enum Given<Row> {
    Rows(Vec<Row>),
    /// There are no more.
    End,
}

/// The headings of a report of revenue, and of the sums of a bill.
#[must_use]
pub fn revenue_headings() -> [Text; 6] {
    [
        text!("Exchanges"),
        text!("Gifted coins taken"),
        text!("Charged coins taken"),
        text!("Gifted coins given back"),
        text!("Charged coins given back"),
        text!("Net"),
    ]
}

/// The sums of a day or of all days: entries and changes, and those of exchanges and cancels as in a report of revenue.
#[derive(Debug, Clone, Copy, Default)]
struct DaySums([i128; 9]);

impl DaySums {
    fn add(&mut self, EntryChanges { kind, free, charge, .. }: &EntryChanges<'_>) {
        let (free, charge) = (i128::from(*free), i128::from(*charge));
        let (count, taken, given) = match *kind {
            EXCHANGE => (1, [-free, -charge], [0, 0]),
            CANCEL => (0, [0, 0], [free, charge]),
            _ => (0, [0, 0], [0, 0]),
        };
        let net = taken[0] + taken[1] - given[0] - given[1];
        let new = [1, free, charge, count, taken[0], taken[1], given[0], given[1], net];
        self.0.iter_mut().zip(new).for_each(|(sum, new)| *sum += new);
    }

    fn columns(style: &SheetStyle) -> Vec<SheetColumn> {
        let day = text!("Day ({zone})", zone = style.zone);
        let changes = [text!("Entries"), text!("Gifted change"), text!("Charged change")];
        let headings = changes.into_iter().chain(revenue_headings());
        let sums = headings.map(|heading| style.column(&heading, 16));
        std::iter::once(style.column(&day, 24)).chain(sums).collect()
    }
}

/// Makes a workbook of rows as they come, and gives its bytes to its reader when all are there. `None`: the reader has
/// gone.
pub(super) async fn give_workbook<Row: WorkbookRow>(
    rows: impl Stream<Item = Result<Row, StoreError>> + Send,
    style: SheetStyle,
    reader: &mut BillReader,
) -> Result<Option<BillSums>, StoreError> {
    let (given, taken) = mpsc::channel(1);
    let (bytes, mut pieces) = mpsc::channel(1);
    // It writes files and compresses, which would hold up what else this thread does.
    let making = spawn_blocking(move || make::<Row>(taken, &style, bytes));
    let mut chunks = std::pin::pin!(rows.try_chunks(ENTRIES_AT_ONCE));
    while let Some(chunk) = chunks.try_next().await.map_err(|broken| broken.1)? {
        if reader.has_gone() {
            return Ok(None);
        }
        if given.send(Given::Rows(chunk)).await.is_err() {
            break;
        }
    }
    // It has ended where this fails, and says why below.
    let _ = given.send(Given::End).await;
    while let Some(piece) = pieces.recv().await {
        if !reader.take(piece).await? {
            return Ok(None);
        }
    }
    match making.await {
        Ok(made) => made.map_err(|error| StoreError::Internal(error.to_string())),
        // The library stops so when it cannot write to a temporary file.
        Err(_) => Err(StoreError::Internal("a workbook cannot be written to its temporary files".to_owned())),
    }
}

/// Writes rows until their end. `None`: they have no end.
fn make<Row: WorkbookRow>(
    mut given: Receiver<Given<Row>>,
    style: &SheetStyle,
    out: Sender<Vec<u8>>,
) -> Result<Option<BillSums>, WorkbookError> {
    let mut book = Workbook::default();
    book.sheet(&(style.words)(&text!("Entries")), Row::columns(style))?;
    let (mut days, mut total) = (BTreeMap::<Date, DaySums>::new(), DaySums::default());
    loop {
        match given.blocking_recv() {
            Some(Given::Rows(rows)) => {
                for row in rows {
                    book.row(row.cells(style))?;
                    let changes = row.changes();
                    days.entry(style.zone.clock(changes.at).date()).or_default().add(&changes);
                    total.add(&changes);
                }
            }
            Some(Given::End) => break,
            None => return Ok(None),
        }
    }
    book.sheet(&(style.words)(&text!("Sums")), DaySums::columns(style))?;
    for (day, sums) in days {
        book.row(std::iter::once(SheetCell::Day(day)).chain(sums.0.map(SheetCell::Integer)))?;
    }
    let all = (style.words)(&text!("Total"));
    book.row(std::iter::once(SheetCell::Text(&all)).chain(total.0.map(SheetCell::Integer)))?;
    let mut out = PieceWriter { out, piece: Vec::with_capacity(PIECE_BYTES) };
    book.save(&mut out)?;
    out.hand_on()?;
    let [entries, free_change, charge_change, ..] = total.0;
    let entries = u64::try_from(entries).unwrap_or_default();
    Ok(Some(BillSums { entries, free_change, charge_change }))
}

/// Hands bytes on in pieces, as fast as the reader takes them.
struct PieceWriter {
    out: Sender<Vec<u8>>,
    piece: Vec<u8>,
}

impl PieceWriter {
    fn hand_on(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        self.out.blocking_send(piece).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.hand_on()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
