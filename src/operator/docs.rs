//! The descriptions of both APIs, as OpenAPI documents and as pages.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;

use super::admin;
use super::admin::problem::ProblemKind;
use crate::http::json::json_response;
use crate::openapi::viewer::{self, ViewerPage};
use crate::public;
use crate::state::AppState;

/// The routes of documents and pages.
pub(super) fn routes() -> Router<AppState> {
    let admin_document =
        async |State(state): State<AppState>| json_response(StatusCode::OK, &admin::document(&state.config));
    public::docs::routes(Some(("docs/admin", "the admin API")))
        .route("/admin/openapi.json", get(admin_document))
        .route("/docs/admin", get(admin_page))
}

async fn admin_page() -> Response {
    let kinds = ProblemKind::ALL.map(|kind| {
        let words = format!("<b>{} {}.</b> {}", kind.status().as_u16(), kind.title(), kind.remedy());
        (format!("problem-{}", kind.name()), words.replace('`', ""))
    });
    let note = format!("{} The page forgets the API key when it is closed.", viewer::SENDS_IN_EARNEST);
    viewer::response(&ViewerPage {
        title: "Minitill: the admin API",
        document: "../admin/openapi.json",
        files: "",
        other: Some(("../docs", "the public API")),
        sends: true,
        signs: false,
        note: &note,
        places: &kinds,
    })
}
