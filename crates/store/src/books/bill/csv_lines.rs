//! The bill as CSV for programs (contract 13.4.1).

use std::borrow::Cow;
use std::fmt::Display;

use csv::{Writer, WriterBuilder};
use domain::csv::csv_text;
use domain::moment::rfc3339;

use super::{BillColumn, BillLine, BillSums, BillText, PIECE_BYTES};
use crate::error::StoreError;

/// Writes a bill as CSV, with times in UTC.
#[derive(Debug)]
pub(super) struct BillCsv;

impl BillText for BillCsv {
    fn begin(&mut self) -> Result<Vec<u8>, StoreError> {
        let mut csv = writer();
        csv.write_record(BillColumn::WORDS).map_err(|error| unwritten(&error))?;
        bytes(csv)
    }

    fn lines(&mut self, lines: &[BillLine]) -> Result<Vec<u8>, StoreError> {
        let mut csv = writer();
        for line in lines {
            csv.serialize((
                (rfc3339(line.at), text(line.open_id.as_deref()), line.seq, &line.kind),
                (line.biz_no.as_deref(), text(line.r#ref.as_deref())),
                (line.free_change, line.charge_change, line.free_balance, line.charge_balance),
                (text(line.zone_id.as_deref()), text(line.product_name.as_deref())),
            ))
            .map_err(|error| unwritten(&error))?;
        }
        bytes(csv)
    }

    fn end(&mut self, sums: &BillSums) -> Result<Vec<u8>, StoreError> {
        let BillSums { entries, free_change, charge_change } = sums;
        let mut csv = writer();
        csv.serialize(("sum", "", entries, "", "", "", free_change, charge_change, "", "", "", ""))
            .map_err(|error| unwritten(&error))?;
        bytes(csv)
    }
}

fn writer() -> Writer<Vec<u8>> {
    let piece = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8);
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
