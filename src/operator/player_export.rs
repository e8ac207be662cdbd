//! The export of a player as a file of the console and of the admin API (contract 13.6).

use std::fs::File;
use std::io::{self, Read as _, Seek as _};

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::Response;
use domain::ids::{AppId, OpenId};
use domain::operator::Operator;
use futures_util::stream;
use store::{ExportError, OperationError, Store, StoreError};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use zip::ZipWriter;

use super::download::download;
use super::reconcile_upload::nameless;
use crate::openapi::ZIP;

/// Bytes of the file in one piece of the answer.
const PIECE_BYTES: usize = 64 * 1024;

/// The zip, with its headers. It is in a temporary file without a name first. So a slow reader holds no session of the
/// database, and every fault is told before the first byte.
///
/// # Errors
/// Nothing is recorded of the player, the database is away, or there is no room for the file.
pub(super) async fn export_file(
    store: &Store,
    operator: Operator,
    app_id: AppId,
    open_id: OpenId,
) -> Result<Response, OperationError> {
    let (store, runtime) = (store.clone(), Handle::current());
    let name = export_name(app_id.as_str(), open_id.as_str());
    let writing = spawn_blocking(move || {
        let mut file = nameless(&std::env::temp_dir())?;
        runtime.block_on(store.export_player(&operator, &app_id, &open_id, ZipWriter::new(&mut file)))?;
        file.rewind()?;
        let bytes = file.metadata()?.len();
        Ok::<_, ExportError>((file, bytes))
    });
    let written = writing.await.map_err(|fault| StoreError::Internal(format!("an export ended: {fault}")))?;
    let (file, bytes) = written.map_err(|error| match error {
        ExportError::Operation(error) => error,
        ExportError::Output(error) => {
            StoreError::unavailable(format!("no room for an export: {error}")).into()
        }
    })?;
    let mut response = download(&name, ZIP, Body::from_stream(pieces(file)));
    response.headers_mut().insert(header::CONTENT_LENGTH, bytes.into());
    Ok(response)
}

/// The name of the file.
pub(super) fn export_name(app_id: &str, open_id: &str) -> String {
    format!("player-{app_id}-{open_id}.zip")
}

fn pieces(file: File) -> impl stream::Stream<Item = io::Result<Bytes>> {
    stream::try_unfold(file, |mut file| async move {
        let reading = spawn_blocking(move || {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            let limit = u64::try_from(PIECE_BYTES).unwrap_or(u64::MAX);
            file.by_ref().take(limit).read_to_end(&mut piece).map(|_| (piece, file))
        });
        let (piece, file) = reading.await.map_err(io::Error::other)??;
        Ok((!piece.is_empty()).then(|| (Bytes::from(piece), file)))
    })
}
