//! The bill of a period as a file over HTTP (contract 13.4), for the console and the admin API.

use std::fmt::Display;

use axum::body::Body;
use axum::response::Response;
use domain::ids::AppId;
use domain::operation::books::existing_span;
use domain::period::{Period, TimeZone};
use futures_util::stream;
use store::{Bill, BillFormat, BillPiece, OperationError, SheetStyle, SheetWords, Store};

use super::download::report_file;
use super::workbook::FileFormat;

/// The name of its file, without its ending.
pub(super) fn bill_name(app_id: impl Display, period: impl Display) -> String {
    format!("bill-{app_id}-{period}")
}

/// The bill of a period, with headings in these words where it has some.
///
/// # Errors
/// What fails before the first piece.
pub(super) async fn bill_file(
    store: &Store,
    app_id: &AppId,
    (period, zone): (Period, &TimeZone),
    (format, words): (FileFormat, SheetWords),
) -> Result<Response, OperationError> {
    let made = match format {
        FileFormat::Csv => BillFormat::csv(),
        FileFormat::Xlsx => BillFormat::Workbook(SheetStyle { words, zone: zone.clone() }),
    };
    let bill = store.bill(app_id, existing_span(period, zone)?, made).await?;
    file_of(bill, format, &bill_name(app_id, period)).await
}

/// A file of this name, made as fast as the caller reads it. The listener drops a caller who reads too slowly, and the bill
/// ends with its body. A workbook has its first piece when all entries are there.
///
/// # Errors
/// What fails before the first piece. What fails later cuts the connection, so the caller sees that the file is not
/// complete.
pub(super) async fn file_of(
    mut bill: Bill,
    format: FileFormat,
    name: &str,
) -> Result<Response, OperationError> {
    let first = bill.next().await?;
    let pieces = stream::try_unfold((Some(first), bill), |(first, mut bill)| async move {
        let piece = match first {
            Some(first) => first,
            // The name of the file may be that of a player, whom the log never has.
            None => bill.next().await.inspect_err(|error| tracing::warn!(%error, "a file was cut off"))?,
        };
        match piece {
            BillPiece::Lines(lines) => Ok(Some((lines, (None, bill)))),
            BillPiece::End(_) => Ok::<_, store::StoreError>(None),
        }
    });
    Ok(report_file(name, format, Body::from_stream(pieces)))
}
