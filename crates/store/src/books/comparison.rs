//! A comparison with the books of others whose lists are bounded, for faces that show it whole (contract 13.5.7).

use std::fs::File;

use domain::ids::AppId;
use domain::period::TimeSpan;
use guarded_fetch::bulkhead::Permit;
use serde::Serialize;

use super::bill::SheetWords;
use super::book_column::{BookColumn, BookNumber, ComparedBooks as _, ComparedBy};
use super::reconcile::{Difference, MatchKind, ReconcileError};
use super::their_file::TheirFile;
use crate::error::StoreError;
use crate::store::Store;

/// Bytes of the texts in a list of differences. A value there may be as long as a line of their file.
const DIFFERENCES_BYTES_MAX: usize = 1 << 20;

/// What a comparison has found. Its lists are in the order of the numbers, and may end early. Its counts are of all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Comparison {
    /// Whether nothing differs: all counts but `matched` are zero.
    pub ties: bool,
    /// Numbers that are in both and do not differ.
    pub matched: i64,
    /// Numbers that are only here.
    pub only_here_count: i64,
    /// Numbers that are only in their file.
    pub only_there_count: i64,
    /// Numbers that are in both and differ in a field.
    pub differs_count: i64,
    /// Whether the lists have all that the counts count.
    pub complete: bool,
    /// The first numbers that are only here.
    pub only_here: Vec<BookNumber>,
    /// The first numbers that are only in their file.
    pub only_there: Vec<BookNumber>,
    /// The first fields that differ.
    pub differs: Vec<Difference>,
    /// Columns of the bill that the file has, and that were compared.
    pub compared_columns: Vec<&'static str>,
    /// Columns of the file that the bill does not have.
    pub ignored_columns: Vec<String>,
    /// Lines of the file without a number, which were not compared.
    pub without_number: i64,
    /// Numbers of the file that are of another period here, which were not compared.
    pub of_other_periods: i64,
}

/// The books that are compared with a file.
#[derive(Debug, Clone)]
pub struct ComparisonQuery {
    /// The app.
    pub app_id: AppId,
    /// Only what happened here in this span of time.
    pub span: Option<TimeSpan>,
    /// What is compared by.
    pub by: ComparedBy,
    /// Names of columns of the file, each with the column that it is.
    pub map: Vec<(String, BookColumn)>,
    /// The languages in which a bill's workbook may have its headings.
    pub languages: &'static [SheetWords],
    /// Members that a list has at most.
    pub members_max: u16,
}

impl Store {
    /// A permit to take a file of this app and compare it.
    ///
    /// # Errors
    /// `Overloaded` while this process takes another of the app, or two of others.
    pub async fn comparison_permit(&self, app_id: &AppId) -> Result<Permit, StoreError> {
        self.comparisons.take(app_id).await
    }

    /// Compares an app with an open file, from the beginning of the file. It reads the whole ledger of the app, its
    /// archives too.
    ///
    /// # Errors
    /// There is no such app, or the file is not acceptable.
    pub async fn comparison(
        &self,
        permit: Permit,
        compared: ComparisonQuery,
        file: File,
    ) -> Result<Comparison, ReconcileError> {
        let store = self.clone();
        // A caller who hangs up does not end the work of the database, so the permit must last as long.
        let task = tokio::spawn(async move {
            let _permit = permit;
            store.compare(compared, file).await
        });
        task.await.unwrap_or_else(|fault| {
            Err(StoreError::Internal(format!("the task of a comparison ended: {fault}")).into())
        })
    }

    async fn compare(&self, compared: ComparisonQuery, file: File) -> Result<Comparison, ReconcileError> {
        let ComparisonQuery { app_id, span, by, map, languages, members_max } = compared;
        let file = TheirFile::read(file, "file", (by, &map), languages)?;
        let ignored_columns = file.ignored().to_vec();
        let columns = [by.column()].into_iter().chain(file.columns());
        let compared_columns = columns.map(BookColumn::as_str).collect();
        let mut found = self.reconcile(&app_id, span, file).await?;
        let max = i64::from(members_max);
        let ours = found.first(MatchKind::OnlyHere, max).await?;
        let theirs = found.first(MatchKind::OnlyThere, max).await?;
        let (mut differs, mut room, mut all_differences) = (Vec::new(), DIFFERENCES_BYTES_MAX, true);
        let each = |difference: &Difference| {
            let Difference { number, here, there, .. } = difference;
            let bytes = number.as_str().len() + here.len() + there.len();
            all_differences = all_differences && bytes <= room && differs.len() < usize::from(members_max);
            if all_differences {
                room -= bytes;
                differs.push(difference.clone());
            }
            Ok(())
        };
        let (matched, differs_count) = found.each_difference(each).await?;
        let comparison = Comparison {
            ties: (found.only_here, found.only_there, differs_count) == (0, 0, 0),
            matched,
            only_here_count: found.only_here,
            only_there_count: found.only_there,
            differs_count,
            complete: all_differences && found.only_here <= max && found.only_there <= max,
            only_here: ours,
            only_there: theirs,
            differs,
            compared_columns,
            ignored_columns,
            without_number: found.without_number,
            of_other_periods: found.of_other_periods,
        };
        found.close().await?;
        Ok(comparison)
    }
}
