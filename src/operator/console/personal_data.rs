//! Requests about personal data: a player's export (contract 13.6) and erasure (contract 13.7).

use askama::Template;
use axum::extract::Path;
use axum::routing::{get, post};
use domain::fields::Expected;
use domain::ids::{AppId, OpenId, Reason};
use domain::operation::player::ErasedPlayer;
use domain::rights::Need;
use domain::text;

use super::super::player_export::export_file;
use super::page::{Page, Section, Shown as _, render};
use super::player::{find_recorded, player_path};
use super::request::{Answer, ConsoleRequest};
use super::route::{ConsoleRoute, routes};

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page_for(Need::Administer, "/console/apps/{app_id}/players/{open_id}/personal-data") => get(personal_data);
    proven(Need::Administer, "/console/apps/{app_id}/players/{open_id}/export") => post(export);
    proven(Need::Administer, "/console/apps/{app_id}/players/{open_id}/erase") => post(erase);
};

#[derive(Template)]
#[template(path = "personal_data.html")]
struct PersonalDataPage<'a> {
    page: Page<'a>,
    app_id: &'a AppId,
    open_id: &'a OpenId,
}

async fn personal_data(Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let (app_id, open_id, _) = find_recorded(&request.state, &names).await?;
    let page = request.page(Section::PLAYERS, text!("Personal data of {open_id}", open_id));
    render(&PersonalDataPage { page, app_id: &app_id, open_id: &open_id })
}

async fn export(Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let reason = request.fields.required("reason", Reason::parse)?;
    let (app_id, open_id, _) = find_recorded(&request.state, &names).await?;
    let operator = request.operator()?.because(&reason);
    Ok(export_file(&request.state.store, operator, app_id, open_id).await?)
}

/// What an erasure did.
#[derive(Template)]
#[template(path = "erased.html")]
struct ErasedPage<'a> {
    page: Page<'a>,
    erased: &'a ErasedPlayer,
}

async fn erase(Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let reason = request.fields.required("reason", Reason::parse)?;
    let (app_id, open_id, _) = find_recorded(&request.state, &names).await?;
    // Whoever types the id does not erase another player by a slip.
    let is_this_one = |typed: &str| {
        if typed == open_id.as_str() { Ok(()) } else { Err(Expected::new("the open_id of this player")) }
    };
    request.fields.required("open_id", is_this_one)?;
    let operator = request.operator()?.because(&reason);
    let erased = request.state.store.erase_player(&operator, &app_id, &open_id).await?;
    let page = request.page(Section::PLAYERS, text!("The player is erased"));
    render(&ErasedPage { page, erased: &erased })
}
