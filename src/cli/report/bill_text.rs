//! A bill as a table for people, and as JSON (contract 13.4.4).

use domain::ids::AppId;
use domain::moment::rfc3339;
use serde_json::{Value, json};
use store::{BillColumn, BillLine, BillSums, BillText, StoreError};

use crate::cli::table::tab_separated;

/// Cells with tabs between them.
pub(super) struct BillTable;

impl BillText for BillTable {
    fn begin(&mut self) -> Result<Vec<u8>, StoreError> {
        Ok(line(&BillColumn::WORDS.map(str::to_owned)))
    }

    fn lines(&mut self, lines: &[BillLine]) -> Result<Vec<u8>, StoreError> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let cells = lines.iter().map(|entry| {
            line(&[
                rfc3339(entry.at),
                text(&entry.open_id),
                entry.seq.to_string(),
                entry.kind.clone(),
                text(&entry.biz_no),
                text(&entry.r#ref),
                entry.free_change.to_string(),
                entry.charge_change.to_string(),
                entry.free_balance.to_string(),
                entry.charge_balance.to_string(),
                text(&entry.zone_id),
                text(&entry.product_name),
            ])
        });
        Ok(cells.flatten().collect())
    }

    fn end(&mut self, sums: &BillSums) -> Result<Vec<u8>, StoreError> {
        let BillSums { entries, free_change, charge_change } = sums;
        let (entries, free, charge) =
            (entries.to_string(), free_change.to_string(), charge_change.to_string());
        let cells = ["sum", "", &entries, "", "", "", &free, &charge, "", "", "", ""].map(str::to_owned);
        Ok(line(&cells))
    }
}

fn line(cells: &[String]) -> Vec<u8> {
    (tab_separated(cells) + "\n").into_bytes()
}

/// An object for each entry: all in one object, or one a line.
pub(super) enum BillJson {
    /// One object with all entries and their sums.
    Object {
        app_id: AppId,
        /// Whether no entry was written yet.
        is_first: bool,
    },
    /// A line for each entry.
    Lines,
}

impl BillText for BillJson {
    fn begin(&mut self) -> Result<Vec<u8>, StoreError> {
        Ok(match self {
            Self::Object { app_id, .. } => format!("{{\"app_id\":\"{app_id}\",\"entries\":[").into_bytes(),
            Self::Lines => Vec::new(),
        })
    }

    fn lines(&mut self, lines: &[BillLine]) -> Result<Vec<u8>, StoreError> {
        let mut text = Vec::new();
        for line in lines {
            if let Self::Object { is_first, .. } = self
                && !std::mem::take(is_first)
            {
                text.push(b',');
            }
            serde_json::to_writer(&mut text, line)
                .map_err(|error| StoreError::Internal(error.to_string()))?;
            if matches!(self, Self::Lines) {
                text.push(b'\n');
            }
        }
        Ok(text)
    }

    fn end(&mut self, sums: &BillSums) -> Result<Vec<u8>, StoreError> {
        let [free, charge] = [sums.free_change, sums.charge_change].map(number);
        Ok(match self {
            Self::Object { .. } => {
                format!("],\"free_change\":{free},\"charge_change\":{charge}}}\n").into_bytes()
            }
            Self::Lines => Vec::new(),
        })
    }
}

/// A sum, as text where it needs more than 64 bits.
pub(in crate::cli) fn number(sum: i128) -> Value {
    i64::try_from(sum).map_or_else(|_| Value::from(sum.to_string()), Value::from)
}

/// What is said of a file with entries.
pub(in crate::cli) fn told(file: &std::path::Path, sums: &BillSums) -> (Value, String) {
    let BillSums { entries, free_change, charge_change } = sums;
    let [free, charge] = [*free_change, *charge_change].map(number);
    (
        json!({ "file": file, "entries": entries, "free_change": free, "charge_change": charge }),
        format!("{}: {entries} entries", file.display()),
    )
}
