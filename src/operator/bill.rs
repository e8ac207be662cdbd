//! The bill of a period as a file over HTTP (contract 13.4), for the console and the admin API.

use std::fmt::Display;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use domain::ids::AppId;
use domain::period::{Period, TimeZone};
use futures_util::stream;
use store::{BillPiece, CsvReader, OperationError, Store};

/// The media type of a bill.
pub(super) const CSV: &str = "text/csv; charset=utf-8";

/// What says that a bill is a file, and which.
pub(super) fn disposition(app_id: impl Display, period: impl Display) -> String {
    format!("attachment; filename=\"bill-{app_id}-{period}.csv\"")
}

/// The bill, made as fast as the caller reads it. The listener drops a caller who reads too slowly, and the bill ends
/// with its body.
///
/// # Errors
/// What fails before the first piece. What fails later cuts the connection, so the caller sees that the file is not
/// complete.
pub(super) async fn bill_file(
    store: &Store,
    app_id: &AppId,
    period: Period,
    zone: &TimeZone,
    reader: CsvReader,
) -> Result<Response, OperationError> {
    let mut bill = store.bill(app_id, period.span(zone), reader).await?;
    let first = bill.next().await?;
    let of = (app_id.clone(), period);
    let pieces = stream::try_unfold((Some(first), bill, of), |(first, mut bill, of)| async move {
        let piece = match first {
            Some(first) => first,
            None => bill.next().await.inspect_err(|error| {
                tracing::warn!(app_id = %of.0, period = %of.1, %error, "a bill was cut off");
            })?,
        };
        match piece {
            BillPiece::Lines(lines) => Ok(Some((lines, (None, bill, of)))),
            BillPiece::End(_) => Ok::<_, store::StoreError>(None),
        }
    });
    let disposition = disposition(app_id, period);
    let headers = [(header::CONTENT_TYPE, CSV), (header::CONTENT_DISPOSITION, disposition.as_str())];
    Ok((headers, Body::from_stream(pieces)).into_response())
}
