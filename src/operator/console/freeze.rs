//! The form that freezes a player's wallet, and the one that thaws it (contract 17).

use askama::Template;
use axum::extract::Path;
use axum::routing::{MethodRouter, get, post};
use domain::ids::{AppId, OpenId, Reason};
use domain::operation::freeze::FreezeCommand;
use domain::rights::Need;
use domain::text;

use super::i18n::parse_moment;
use super::page::{Page, Section, render};
use super::player::{find_player, player_path};
use super::request::{Answer, ConsoleRequest, lead_to};
use super::route::{ConsoleRoute, routes};
use crate::state::AppState;

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page_for(Need::Administer, "/console/apps/{app_id}/players/{open_id}/freeze") => form(true);
    change(Need::Administer, "/console/apps/{app_id}/players/{open_id}/freeze") => post(freeze);
    page_for(Need::Administer, "/console/apps/{app_id}/players/{open_id}/thaw") => form(false);
    change(Need::Administer, "/console/apps/{app_id}/players/{open_id}/thaw") => post(thaw);
};

/// What the page of a player tells after a change.
pub(super) const NOTICES: [(&str, &str); 2] = [
    (
        "freeze",
        "The wallet is frozen. Within a second, every server refuses what the game asks of its purses.",
    ),
    ("thaw", "The wallet is no longer frozen."),
];

#[derive(Template)]
#[template(path = "freeze.html")]
struct FreezePage<'a> {
    page: Page<'a>,
    app_id: &'a AppId,
    open_id: &'a OpenId,
    /// True to freeze, false to thaw.
    freezes: bool,
}

type PlayerNames = Path<(String, String)>;

fn form(freezes: bool) -> MethodRouter<AppState> {
    get(async move |Path(names): PlayerNames, request: ConsoleRequest| {
        let (app_id, open_id, _) = find_player(&request.state, &names).await?;
        let title =
            if freezes { text!("Freeze {open_id}?", open_id) } else { text!("Thaw {open_id}?", open_id) };
        let page = request.page(Section::PLAYERS, title);
        render(&FreezePage { page, app_id: &app_id, open_id: &open_id, freezes })
    })
}

async fn freeze(Path(names): PlayerNames, request: ConsoleRequest) -> Answer {
    let reason = request.fields.required("reason", Reason::parse)?;
    let until = request.fields.optional("until", parse_moment)?;
    change(&names, &request, FreezeCommand::Freeze { reason, until }, "freeze").await
}

async fn thaw(Path(names): PlayerNames, request: ConsoleRequest) -> Answer {
    let reason = Some(request.fields.required("reason", Reason::parse)?);
    change(&names, &request, FreezeCommand::Thaw { reason }, "thaw").await
}

async fn change(
    names: &(String, String),
    request: &ConsoleRequest,
    command: FreezeCommand,
    done: &str,
) -> Answer {
    let (app_id, open_id, _) = find_player(&request.state, names).await?;
    request.state.store.freeze_wallet(&request.operator()?, &app_id, &open_id, command).await?;
    let path = player_path(app_id.as_str(), open_id.as_str());
    lead_to(&format!("{path}?done={done}"))
}
