//! All that is recorded of a player as a file, and the form that erases a player (contract 13.6 and 13.7).

use std::io::Seek as _;

use askama::Template;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::http::header;
use axum::response::IntoResponse as _;
use axum::routing::{get, post};
use domain::ids::{AppId, OpenId, Reason};
use domain::operation::player::ErasedPlayer;
use domain::rights::Need;
use domain::text;
use futures_util::stream;
use store::{ExportError, StoreError};
use tokio::io::AsyncReadExt as _;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use zip::ZipWriter;

use super::super::reconcile_upload::nameless;
use super::error::ConsoleError;
use super::page::{Page, Section, Shown as _, render};
use super::player::{no_player, player_path};
use super::request::{Answer, ConsoleRequest};
use super::route::ConsoleRoute;

pub(super) const ROUTES: &[ConsoleRoute] = &[
    ConsoleRoute::proven(Need::Administer, "/console/apps/{app_id}/players/{open_id}/export", || {
        post(export)
    }),
    ConsoleRoute::page_for(Need::Administer, "/console/apps/{app_id}/players/{open_id}/erase", || get(form)),
    ConsoleRoute::proven(Need::Administer, "/console/apps/{app_id}/players/{open_id}/erase", || post(erase)),
];

/// Bytes of the file that are sent at once.
const PIECE_BYTES: usize = 64 * 1024;

type PlayerNames = Path<(String, String)>;

fn named(names: &(String, String)) -> Result<(AppId, OpenId), ConsoleError> {
    let none = |_| no_player(names);
    Ok((AppId::parse(&names.0).map_err(none)?, OpenId::parse(&names.1).map_err(none)?))
}

/// The zip of `minitill player export`. It is in a temporary file without a name, and sent once it is complete. A thread of
/// its own compresses it.
async fn export(Path(names): PlayerNames, request: ConsoleRequest) -> Answer {
    let (app_id, open_id) = named(&names)?;
    let name = format!("attachment; filename=\"player-{open_id}.zip\"");
    let (operator, store) = (request.operator()?, request.state.store.clone());
    let make = move || {
        let mut file = nameless(&std::env::temp_dir()).map_err(ExportError::Output)?;
        let out = ZipWriter::new(&file);
        Handle::current().block_on(store.export_player(&operator, &app_id, &open_id, out))?;
        file.rewind().map_err(ExportError::Output)?;
        Ok::<_, ExportError>(file)
    };
    let made = request.search(true, async { Ok(spawn_blocking(make).await) }).await?;
    let made = made.map_err(|fault| StoreError::Internal(format!("no export: {fault}")))?;
    let file = made.map_err(|error| match error {
        ExportError::Operation(error) => ConsoleError::from(error),
        ExportError::Output(error) => StoreError::Internal(format!("no export: {error}")).into(),
    })?;
    let pieces = stream::try_unfold(tokio::fs::File::from_std(file), |mut file| async move {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let read = (&mut file).take(PIECE_BYTES as u64).read_to_end(&mut piece).await?;
        Ok::<_, std::io::Error>((read > 0).then(|| (Bytes::from(piece), file)))
    });
    let headers = [(header::CONTENT_TYPE, "application/zip"), (header::CONTENT_DISPOSITION, name.as_str())];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

#[derive(Template)]
#[template(path = "erase.html")]
struct ErasePage<'a> {
    page: Page<'a>,
    app_id: &'a AppId,
    open_id: &'a OpenId,
    /// What was done, once it is.
    erased: Option<ErasedPlayer>,
}

async fn form(Path(names): PlayerNames, request: ConsoleRequest) -> Answer {
    let (app_id, open_id) = named(&names)?;
    let page = request.page(Section::PLAYERS, text!("Erase {open_id}?", open_id));
    render(&ErasePage { page, app_id: &app_id, open_id: &open_id, erased: None })
}

async fn erase(Path(names): PlayerNames, request: ConsoleRequest) -> Answer {
    let (app_id, open_id) = named(&names)?;
    let reason = request.fields.required("reason", Reason::parse)?;
    let operator = request.operator()?.because(&reason);
    let erased = request.state.store.erase_player(&operator, &app_id, &open_id).await?;
    let page = request.page(Section::PLAYERS, text!("The player is erased"));
    render(&ErasePage { page, app_id: &app_id, open_id: &open_id, erased: Some(erased) })
}
