//! The file of an archive, compressed with gzip. The first line has the names of its columns. Then comes a line for
//! each row, as PostgreSQL's COPY writes text. The rows of a wallet are together, its ledger entries in their order.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, IntoInnerError, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::str::FromStr;

use domain::ledger::{ChainHash, LedgerEntry, micros};
use domain::wallet::DeveloperTexts;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use crate::digesting::Digesting;

/// The columns of `ledger_entries` that this program reads. Every file has them.
const READ_COLUMNS: [&str; 15] = [
    "app_no",
    "wallet_no",
    "seq",
    "at",
    "kind",
    "reference",
    "of_biz_no",
    "remaining",
    "item_id",
    "pay_priority",
    "free_change",
    "charge_change",
    "free_balance",
    "charge_balance",
    "chain_hash",
];
/// The columns of `ledger_entries` that it keeps and does not read, with the texts of the developer before the last. A file
/// from before one of them lacks it.
const KEPT_COLUMNS: ([&str; 4], [&str; 1]) = (["ts", "zone_id", "os", "user_ip"], ["remark"]);
/// The player, whom every file has, and texts for readers of the file.
const PLAYER_COLUMNS: [&str; 4] = ["open_id", "product_name", "product_info", "product_desc"];
/// A batch ends with the wallet that reaches this number of rows.
const BATCH_ROWS: usize = 5_000;
const BUFFER_BYTES: usize = 256 * 1024;
/// A time as PostgreSQL writes it in UTC.
const UTC: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second][optional [.[subsecond]]]+00");

/// A row of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArchiveRow {
    pub(super) app_no: i32,
    pub(super) wallet_no: i64,
    /// `None` for a closed number.
    pub(super) seq: Option<i64>,
    pub(super) at: OffsetDateTime,
    pub(super) kind: String,
    pub(super) reference: String,
    pub(super) of_biz_no: Option<String>,
    pub(super) remaining: Option<i64>,
    pub(super) item_id: Option<[u8; 16]>,
    pub(super) pay_priority: Option<i16>,
    pub(super) free_change: i64,
    pub(super) charge_change: i64,
    pub(super) free_balance: i64,
    pub(super) charge_balance: i64,
    pub(super) chain_hash: Option<ChainHash>,
    pub(super) open_id: String,
}

impl ArchiveRow {
    /// The ledger entry of this row. `None` for a closed number.
    pub(super) fn entry(&self) -> Option<LedgerEntry<'_>> {
        Some(LedgerEntry {
            app_no: self.app_no,
            wallet_no: self.wallet_no,
            seq: self.seq?,
            kind: &self.kind,
            reference: &self.reference,
            of_biz_no: self.of_biz_no.as_deref(),
            remaining: self.remaining,
            item_id: self.item_id,
            pay_priority: self.pay_priority,
            free_change: self.free_change,
            charge_change: self.charge_change,
            free_balance: self.free_balance,
            charge_balance: self.charge_balance,
            at: micros(self.at),
        })
    }

    fn parse(line: &[u8], columns: &ArchiveColumns) -> Option<Self> {
        let mut values: Vec<Option<String>> = line.split(|byte| *byte == b'\t').map(unescaped).collect();
        if values.len() != columns.names.len() {
            return None;
        }
        // In the order of `READ_COLUMNS`, and then the player.
        let [
            app_no,
            wallet_no,
            seq,
            at,
            kind,
            reference,
            of_biz_no,
            remaining,
            item_id,
            pay_priority,
            free_change,
            charge_change,
            free_balance,
            charge_balance,
            chain_hash,
            open_id,
        ] = columns.read.map(|place| values[place].take());
        Some(Self {
            app_no: app_no?.parse().ok()?,
            wallet_no: wallet_no?.parse().ok()?,
            seq: parsed(seq).ok()?,
            at: PrimitiveDateTime::parse(&at?, UTC).ok()?.assume_utc(),
            kind: kind?,
            reference: reference?,
            of_biz_no,
            remaining: parsed(remaining).ok()?,
            item_id: bytes(item_id)?,
            pay_priority: parsed(pay_priority).ok()?,
            free_change: free_change?.parse().ok()?,
            charge_change: charge_change?.parse().ok()?,
            free_balance: free_balance?.parse().ok()?,
            charge_balance: charge_balance?.parse().ok()?,
            chain_hash: bytes(chain_hash)?,
            open_id: open_id?,
        })
    }
}

/// The columns of a file, by the names in its first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArchiveColumns {
    names: Vec<&'static str>,
    /// The places of [`READ_COLUMNS`], and then that of the player.
    read: [usize; READ_COLUMNS.len() + 1],
}

impl ArchiveColumns {
    /// The columns of a file that this program writes.
    pub(super) fn written() -> Self {
        Self::of(known_columns().collect()).expect("the program reads what it writes")
    }

    /// The columns that a first line names.
    ///
    /// # Errors
    /// A name comes twice, one is missing that this program reads, or it does not know one.
    fn parse(first_line: &str) -> Result<Self, String> {
        let mut names = Vec::new();
        let mut unknown = None;
        for name in first_line.split('\t') {
            match known_columns().find(|known| *known == name) {
                Some(known) => names.push(known),
                None => drop(unknown.get_or_insert(name)),
            }
        }
        let columns = Self::of(names).ok_or_else(|| "this is no archive of this program".to_owned())?;
        match unknown {
            Some(name) => Err(format!("this program does not know its column {name}; use a later version")),
            None => Ok(columns),
        }
    }

    /// Columns of these names. `None` where one comes twice, or one is missing that this program reads.
    fn of(names: Vec<&'static str>) -> Option<Self> {
        let is_once = names.iter().collect::<HashSet<_>>().len() == names.len();
        let place = |name: &&str| names.iter().position(|own| own == name);
        let read = READ_COLUMNS.iter().chain(&["open_id"]).map(place).collect::<Option<Vec<_>>>()?;
        let read = read.try_into().ok().filter(|_| is_once)?;
        Some(Self { names, read })
    }

    /// All of them, for a statement.
    pub(super) fn all(&self) -> String {
        self.names.join(", ")
    }

    /// Those of `ledger_entries`, for a statement. Each begins with `prefix`.
    pub(super) fn of_entries(&self, prefix: &str) -> String {
        let own = self.names.iter().filter(|name| !PLAYER_COLUMNS.contains(name));
        own.map(|name| format!("{prefix}{name}")).collect::<Vec<_>>().join(", ")
    }

    fn first_line(&self) -> String {
        self.names.join("\t")
    }
}

/// Every column that this program knows, in the order in which it writes them.
fn known_columns() -> impl Iterator<Item = &'static str> {
    let (before_texts, after_texts) = KEPT_COLUMNS;
    let kept = before_texts.into_iter().chain(DeveloperTexts::NAMES).chain(after_texts);
    READ_COLUMNS.into_iter().chain(kept).chain(PLAYER_COLUMNS)
}

/// A number, or null.
fn parsed<T: FromStr>(text: Option<String>) -> Result<Option<T>, T::Err> {
    text.map(|text| text.parse()).transpose()
}

/// Bytes of this length as PostgreSQL writes them, `\x` and hexadecimal digits, or null.
#[expect(clippy::option_option, reason = "the outer one is an error, as in the whole line")]
fn bytes<const N: usize>(text: Option<String>) -> Option<Option<[u8; N]>> {
    let Some(text) = text else { return Some(None) };
    hex::decode(text.strip_prefix("\\x")?).ok()?.try_into().ok().map(Some)
}

/// A column without the escapes of COPY. `None` for null.
fn unescaped(column: &[u8]) -> Option<String> {
    if column == b"\\N" {
        return None;
    }
    let mut text = Vec::with_capacity(column.len());
    let mut rest = column.iter();
    while let Some(byte) = rest.next() {
        let byte = if *byte == b'\\' { rest.next().map_or(b'\\', |byte| escaped(*byte)) } else { *byte };
        text.push(byte);
    }
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The byte that stands in COPY as a backslash and this letter.
fn escaped(letter: u8) -> u8 {
    match letter {
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        other => other,
    }
}

/// Writes a file.
pub(super) struct ArchiveWriter(BufWriter<GzEncoder<Digesting<Sha256, File>>>);

impl ArchiveWriter {
    /// Starts a file with its first line. Only its owner may read it, because it names players.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let mut out =
            BufWriter::with_capacity(BUFFER_BYTES, GzEncoder::new(hashing(file), Compression::default()));
        writeln!(out, "{}", ArchiveColumns::written().first_line())?;
        Ok(Self(out))
    }

    /// Adds lines.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.0.write_all(lines)
    }

    /// Ends the file, and returns its SHA-256. It is on disk then.
    pub(super) fn finish(self) -> io::Result<FileDigest> {
        let Digesting { digest, inner } =
            self.0.into_inner().map_err(IntoInnerError::into_error)?.finish()?;
        inner.sync_all()?;
        Ok(digest.finalize().into())
    }
}

/// Rows of whole wallets.
#[derive(Debug, Default)]
pub(super) struct ArchiveBatch {
    pub(super) rows: Vec<ArchiveRow>,
    /// The lines of these rows.
    pub(super) lines: Vec<u8>,
}

/// Reads a file batch by batch.
pub(super) struct Reader {
    lines: BufReader<GzDecoder<BufReader<Digesting<Sha256, File>>>>,
    columns: ArchiveColumns,
    /// The first line of the next wallet.
    next: Option<(ArchiveRow, Vec<u8>)>,
    number: u64,
}

impl Reader {
    /// Opens a file, and reads its first line.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = BufReader::with_capacity(BUFFER_BYTES, hashing(File::open(path)?));
        let mut lines = BufReader::with_capacity(BUFFER_BYTES, GzDecoder::new(file));
        let mut names = String::new();
        lines.read_line(&mut names)?;
        let columns = ArchiveColumns::parse(names.trim_end())
            .map_err(|fault| io::Error::new(io::ErrorKind::InvalidData, fault))?;
        Ok(Self { lines, columns, next: None, number: 1 })
    }

    /// The columns of the file.
    pub(super) fn columns(&self) -> &ArchiveColumns {
        &self.columns
    }

    /// SHA-256 of the file, after the last batch.
    pub(super) fn sha256(self) -> io::Result<FileDigest> {
        let mut file = self.lines.into_inner().into_inner();
        // What follows the compressed text, if anything does.
        io::copy(&mut file, &mut io::sink())?;
        Ok(file.into_inner().digest.finalize().into())
    }

    /// The next batch, or `None` at the end. Every file has the same batches whenever it is read.
    pub(super) fn batch(&mut self) -> io::Result<Option<ArchiveBatch>> {
        let mut batch = ArchiveBatch::default();
        while let Some((row, line)) = self.row()? {
            let is_of_wallet = batch.rows.last().is_none_or(|last| last.wallet_no == row.wallet_no);
            if !is_of_wallet && batch.rows.len() >= BATCH_ROWS {
                self.next = Some((row, line));
                break;
            }
            batch.rows.push(row);
            batch.lines.extend_from_slice(&line);
        }
        Ok(Some(batch).filter(|batch| !batch.rows.is_empty()))
    }

    fn row(&mut self) -> io::Result<Option<(ArchiveRow, Vec<u8>)>> {
        if let Some(next) = self.next.take() {
            return Ok(Some(next));
        }
        let mut line = Vec::new();
        if self.lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let row =
            ArchiveRow::parse(line.strip_suffix(b"\n").unwrap_or(&line), &self.columns).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("line {} is damaged", self.number))
            })?;
        Ok(Some((row, line)))
    }
}

/// SHA-256 of a file.
pub(super) type FileDigest = [u8; 32];

fn hashing<F>(file: F) -> Digesting<Sha256, F> {
    Digesting { digest: Sha256::new(), inner: file }
}

/// SHA-256 of a file.
pub(super) fn sha256(path: &Path) -> io::Result<FileDigest> {
    let mut file = hashing(File::open(path)?);
    io::copy(&mut file, &mut io::sink())?;
    Ok(file.digest.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_lack_a_kept_column_and_no_other() {
        let all = ArchiveColumns::written();
        assert_eq!(ArchiveColumns::parse(&all.first_line()), Ok(all.clone()));
        let without = |name: &str| {
            let names: Vec<&str> = all.names.iter().copied().filter(|own| *own != name).collect();
            names.join("\t")
        };
        for name in &all.names {
            let is_kept = ArchiveColumns::parse(&without(name)).is_ok();
            let is_read = READ_COLUMNS.contains(name) || *name == "open_id";
            assert_eq!(is_kept, !is_read, "{name}");
        }
        let first_line = all.first_line();
        let fault = |first_line: &str| ArchiveColumns::parse(first_line).unwrap_err();
        let unknown = "this program does not know its column note; use a later version";
        assert_eq!(fault(&format!("{first_line}\tnote")), unknown);
        for other in [&format!("{first_line}\tremark"), "", "a picture"] {
            assert_eq!(fault(other), "this is no archive of this program", "{other}");
        }
    }

    #[test]
    fn a_column_reads_as_copy_writes_it() {
        assert_eq!(unescaped(b"\\N"), None);
        for (column, text) in [
            (&b""[..], ""),
            (b"\\\\N", "\\N"),
            (b"a\\tb\\nc\\rd\\\\e", "a\tb\nc\rd\\e"),
            (b"\\b\\f\\v", "\u{8}\u{c}\u{b}"),
            ("\u{5e01}".as_bytes(), "\u{5e01}"),
        ] {
            assert_eq!(unescaped(column).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_time_reads_as_postgresql_writes_it() {
        let micros =
            |text| PrimitiveDateTime::parse(text, UTC).unwrap().assume_utc().unix_timestamp_nanos() / 1_000;
        assert_eq!(micros("2026-01-02 03:04:05.678901+00"), 1_767_323_045_678_901);
        assert_eq!(micros("2026-01-02 03:04:05.5+00"), 1_767_323_045_500_000);
        assert_eq!(micros("2026-01-02 03:04:05+00"), 1_767_323_045_000_000);
    }
}
