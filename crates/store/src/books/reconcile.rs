//! Compares the bill of an app with the books of others (contract 13.5): what is only here, only there, or differs.
//!
//! Their file goes into a temporary table, and PostgreSQL joins it with the ledger. So neither the file nor the ledger has
//! to fit into memory. What the database finds to differ as bytes is compared again by the meaning of its column.

#![expect(clippy::disallowed_methods, reason = "the macros do not know temporary tables")]

use std::io;

use domain::ids::AppId;
use domain::moment;
use domain::period::{TimeSpan, TimeZone};
use domain::text::Text;
use futures_util::TryStreamExt as _;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _};
use time::OffsetDateTime;

use super::book_column::{BookColumn, BookNumber, BookRows, ComparedBooks, ComparedBy, FileColumn};
use super::their_file::{FileRefusal, TheirFile};
use crate::app_number::number_of;
use crate::error::{OperationError, StoreError};
use crate::store::Store;

/// Bytes of lines that are sent in a piece.
const PIECE_BYTES: usize = 1 << 20;
/// Lines that are read in a row and not sent.
const LINES_OF_A_TURN: i64 = 1000;

/// Why nothing was compared.
#[derive(Debug)]
pub enum ReconcileError<C = BookColumn> {
    /// There is no such app, or the store has failed.
    Operation(OperationError),
    /// The file is not acceptable. The words name it, the line and the field.
    File(FileRefusal<C>),
    /// The result could not be written.
    Output(io::Error),
}

impl<C, E: Into<OperationError>> From<E> for ReconcileError<C> {
    fn from(error: E) -> Self {
        Self::Operation(error.into())
    }
}

impl<C> From<FileRefusal<C>> for ReconcileError<C> {
    fn from(refusal: FileRefusal<C>) -> Self {
        Self::File(refusal)
    }
}

impl<C> From<io::Error> for ReconcileError<C> {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// A field that differs.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Difference {
    #[serde(flatten)]
    #[expect(missing_docs, reason = "its members are described")]
    pub number: BookNumber,
    /// The column, or `lines` for a number that has several lines there.
    pub field: &'static str,
    /// Its value here.
    pub here: String,
    /// Its value there.
    pub there: String,
    /// What keeps the value there from being one of this field.
    #[serde(skip)]
    pub fault: Option<Text>,
}

/// The field of a number that has more than one line there.
pub(super) const LINES: &str = "lines";

/// What a comparison has found.
#[derive(Debug)]
pub struct Reconciled<B: ComparedBooks = ComparedBy> {
    pub(super) connection: PgConnection,
    by: B,
    pub(super) columns: Vec<B::Column>,
    /// The time zone of their times without an offset.
    zone: TimeZone,
    /// Numbers in their file.
    there: i64,
    /// Lines of their file without a number, which are not compared.
    pub without_number: i64,
    /// Numbers of their file that are here in another period, which are not compared.
    pub of_other_periods: i64,
    /// Numbers that are only there.
    pub only_there: i64,
    /// Numbers that are only here.
    pub(super) only_here: i64,
}

/// How a number of the temporary table `compared` was found.
#[derive(Debug, Clone, Copy)]
pub(super) enum MatchKind {
    OnlyHere = 1,
    OnlyThere = 2,
    /// In both, but here in another period.
    OtherPeriod = 3,
    /// In both, and the bytes differ.
    Both = 4,
}

impl Store {
    /// Compares what [`ComparedBooks`] of the file says with an app, of all times or of a span of time.
    ///
    /// # Errors
    /// A line of the file that is not acceptable.
    pub async fn reconcile<B: ComparedBooks>(
        &self,
        app_id: &AppId,
        span: Option<TimeSpan>,
        mut file: TheirFile<B>,
    ) -> Result<Reconciled<B>, ReconcileError<B::Column>> {
        let app_no = number_of(&self.pool, app_id).await?;
        let mut connection = self.connect_without_limits().await?;
        let columns = file.columns();
        make_tables(&mut connection, &columns).await?;
        let without_number = send(&mut connection, &columns, &mut file).await?;
        connection.execute(sqlx::raw_sql("ANALYZE their_lines")).await?;
        compare(&mut connection, (file.by(), &columns), app_no, span).await?;
        let counts = sqlx::query(
            "SELECT (SELECT count(DISTINCT number) FROM their_lines), count(*) FILTER (WHERE found = 3),
                 count(*) FILTER (WHERE found = 2), count(*) FILTER (WHERE found = 1) FROM compared",
        );
        let counts = counts.fetch_one(&mut connection).await?;
        Ok(Reconciled {
            connection,
            by: file.by().clone(),
            columns,
            zone: file.zone(),
            there: counts.try_get(0)?,
            without_number,
            of_other_periods: counts.try_get(1)?,
            only_there: counts.try_get(2)?,
            only_here: counts.try_get(3)?,
        })
    }
}

/// The name of a column in the temporary tables.
pub(super) fn name(side: &str, column: impl FileColumn) -> String {
    format!("{side}_{column}")
}

/// A part of a statement for each of these columns.
pub(super) fn list<C: FileColumn>(columns: &[C], part: impl Fn(C) -> String) -> String {
    columns.iter().map(|column| part(*column)).collect::<Vec<_>>().concat()
}

async fn make_tables(connection: &mut PgConnection, columns: &[impl FileColumn]) -> Result<(), StoreError> {
    let columns = list(columns, |column| format!(", {} text NOT NULL", name("there", column)));
    let sql = format!(
        "CREATE TEMPORARY TABLE their_lines (number text COLLATE \"C\" NOT NULL, line bigint NOT NULL{columns})"
    );
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
    Ok(())
}

/// Sends the lines of the file. Returns how many have no number.
async fn send<B: ComparedBooks>(
    connection: &mut PgConnection,
    columns: &[B::Column],
    file: &mut TheirFile<B>,
) -> Result<i64, ReconcileError<B::Column>> {
    let columns = list(columns, |column| format!(", {}", name("there", column)));
    let by = file.by().clone();
    let mut copy =
        connection.copy_in_raw(&format!("COPY their_lines (number, line{columns}) FROM STDIN")).await?;
    let (mut piece, mut without_number) = (Vec::with_capacity(PIECE_BYTES + 64 * 1024), 0);
    loop {
        let line = match file.next() {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(error) => {
                copy.abort("the file is not acceptable").await?;
                return Err(error.into());
            }
        };
        if line.number.is_empty() {
            without_number += 1;
            // Nothing is sent of such lines, so nothing else lets other tasks have their turn.
            if without_number % LINES_OF_A_TURN == 0 {
                tokio::task::yield_now().await;
            }
            continue;
        }
        escape(&mut piece, &by.key(&line));
        piece.extend_from_slice(format!("\t{}", line.line).as_bytes());
        for value in line.values() {
            piece.push(b'\t');
            escape(&mut piece, value);
        }
        piece.push(b'\n');
        if piece.len() >= PIECE_BYTES {
            copy.send(piece.as_slice()).await?;
            piece.clear();
        }
    }
    copy.send(piece.as_slice()).await?;
    copy.finish().await?;
    Ok(without_number)
}

/// Adds a text as COPY reads it.
fn escape(piece: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'\\' => piece.extend_from_slice(b"\\\\"),
            b'\t' => piece.extend_from_slice(b"\\t"),
            b'\n' => piece.extend_from_slice(b"\\n"),
            b'\r' => piece.extend_from_slice(b"\\r"),
            other => piece.push(other),
        }
    }
}

/// Makes the temporary table `compared`: each number but for those that are the same bytes in both.
async fn compare<B: ComparedBooks>(
    connection: &mut PgConnection,
    (by, columns): (&B, &[B::Column]),
    app_no: i32,
    span: Option<TimeSpan>,
) -> Result<(), StoreError> {
    let here = list(columns, |column| format!(", {} AS {}", column.sql(), name("here", column)));
    let differ = list(columns, |column| format!(" OR {} <> {}", name("there", column), name("here", column)));
    let both_sides = list(columns, |column| format!(", {}, {}", name("here", column), name("there", column)));
    let BookRows { relation, number, at, compared } = by.rows(columns);
    let is_in = if span.is_some() { format!("{at} >= $2 AND {at} < $3") } else { "true".to_owned() };
    let sql = format!(
        "CREATE TEMPORARY TABLE compared AS
         SELECT coalesce(t.number, o.number) AS number, t.lines,
             CASE WHEN t.number IS NULL THEN {only_here} WHEN o.number IS NULL THEN {only_there}
                 WHEN NOT o.is_in THEN {other} ELSE {both} END AS found{both_sides}
         FROM (
             SELECT * FROM (
                 SELECT *, row_number() OVER (PARTITION BY number ORDER BY line) AS place,
                     count(*) OVER (PARTITION BY number) AS lines
                 FROM their_lines) l
             WHERE place = 1) t
         FULL JOIN (
             SELECT {number} AS number, {is_in} AS is_in{here} FROM {relation}
             WHERE app_no = $1 AND {compared}) o
             ON o.number = t.number
         WHERE (t.number IS NULL AND o.is_in) OR o.number IS NULL
             OR (t.number IS NOT NULL AND (NOT o.is_in OR t.lines > 1{differ}))",
        only_here = MatchKind::OnlyHere as u8,
        only_there = MatchKind::OnlyThere as u8,
        other = MatchKind::OtherPeriod as u8,
        both = MatchKind::Both as u8,
    );
    // A statement that makes a table takes no parameters.
    let literal = |at: OffsetDateTime| format!("'{}'::timestamptz", moment::rfc3339(at));
    let sql = sql.replace("$1", &app_no.to_string());
    let sql = match span {
        Some(TimeSpan { since, until }) => sql.replace("$2", &literal(since)).replace("$3", &literal(until)),
        None => sql,
    };
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
    connection.execute(sqlx::raw_sql("ANALYZE compared")).await?;
    Ok(())
}

impl<B: ComparedBooks> Reconciled<B> {
    /// The first numbers that are only here or only there, in their order.
    pub(super) async fn first(&mut self, found: MatchKind, max: i64) -> Result<Vec<BookNumber>, StoreError> {
        let sql =
            format!("SELECT number FROM compared WHERE found = {} ORDER BY number LIMIT {max}", found as u8);
        let numbers: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut self.connection).await?;
        Ok(numbers.iter().map(|number| self.by.shown(number)).collect())
    }

    /// Numbers that are only here, in their order.
    pub async fn each_only_here(
        &mut self,
        each: impl FnMut(&BookNumber) -> io::Result<()>,
    ) -> Result<i64, ReconcileError<B::Column>> {
        self.numbers(MatchKind::OnlyHere, each).await
    }

    /// Numbers that are only there, in their order.
    pub async fn each_only_there(
        &mut self,
        each: impl FnMut(&BookNumber) -> io::Result<()>,
    ) -> Result<i64, ReconcileError<B::Column>> {
        self.numbers(MatchKind::OnlyThere, each).await
    }

    async fn numbers(
        &mut self,
        found: MatchKind,
        mut each: impl FnMut(&BookNumber) -> io::Result<()>,
    ) -> Result<i64, ReconcileError<B::Column>> {
        let sql = format!("SELECT number FROM compared WHERE found = {} ORDER BY number", found as u8);
        let mut numbers = sqlx::query_scalar::<_, String>(AssertSqlSafe(sql)).fetch(&mut self.connection);
        let mut count = 0;
        while let Some(number) = numbers.try_next().await? {
            each(&self.by.shown(&number))?;
            count += 1;
        }
        Ok(count)
    }

    /// Fields that differ, in the order of the numbers. Returns how many numbers are in both and do not differ, and how
    /// many do.
    pub async fn each_difference(
        &mut self,
        mut each: impl FnMut(&Difference) -> io::Result<()>,
    ) -> Result<(i64, i64), ReconcileError<B::Column>> {
        let values =
            list(&self.columns, |column| format!(", {}, {}", name("here", column), name("there", column)));
        let both = MatchKind::Both as u8;
        let sql = format!("SELECT number, lines{values} FROM compared WHERE found = {both} ORDER BY number");
        let mut rows = sqlx::query(AssertSqlSafe(sql)).fetch(&mut self.connection);
        let mut differing = 0;
        while let Some(row) = rows.try_next().await? {
            let (number, lines): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
            let mut differences = Vec::new();
            if lines > 1 {
                differences.push((LINES, "1".to_owned(), lines.to_string(), None));
            }
            for (place, column) in self.columns.iter().enumerate() {
                let (here, there): (String, String) =
                    (row.try_get(2 + 2 * place)?, row.try_get(3 + 2 * place)?);
                if !column.is_same(&here, &there, &self.zone) {
                    let fault = column.fault(&here, &there);
                    differences.push((column.as_str(), column.shown(here), there, fault));
                }
            }
            differing += i64::from(!differences.is_empty());
            for (field, here, there, fault) in differences {
                each(&Difference { number: self.by.shown(&number), field, here, there, fault })?;
            }
        }
        Ok((self.there - self.only_there - self.of_other_periods - differing, differing))
    }

    /// Ends the session with its temporary tables.
    pub async fn close(self) -> Result<(), StoreError> {
        Ok(self.connection.close().await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_reads_back_what_was_escaped() {
        let mut piece = Vec::new();
        escape(&mut piece, "a\\N\tb\r\nc");
        assert_eq!(piece, b"a\\\\N\\tb\\r\\nc");
    }
}
