//! API keys of the admin API: a list with the last use of each key, and the forms that make and revoke one.

use askama::Template;
use axum::response::{IntoResponse as _, Redirect};
use axum::routing::{get, post};
use domain::ids::ApiKeyName;
use domain::operation::key::ApiKeyCommand;
use domain::rights::Need;
use store::ApiKeySummary;

use super::i18n::Moment as _;
use super::page::{Page, Section, Shown as _, render};
use super::request::{Answer, ConsoleRequest};
use super::route::ConsoleRoute;
use super::shown_once::ShownOnce;
use super::users::rights;

pub(super) const ROUTES: &[ConsoleRoute] = &[
    ConsoleRoute::page(PATH, || get(list)),
    ConsoleRoute::proven(Need::Administer, PATH, || post(create)),
    ConsoleRoute::proven(Need::Administer, "/console/api-keys/revoke", || post(revoke)),
];

const PATH: &str = Section::API_KEYS.path;

/// What the page tells after a change.
const NOTICES: [(&str, &str); 1] = [("revoked", "The key is revoked. Every server refuses it from now on.")];

#[derive(Template)]
#[template(path = "api_keys.html")]
struct ApiKeysPage<'a> {
    page: Page<'a>,
    keys: &'a [ApiKeySummary],
}

async fn list(visit: ConsoleRequest) -> Answer {
    let keys = visit.state.store.api_keys().await?;
    let page = Page { notice: visit.notice(NOTICES), ..visit.page(Section::API_KEYS, "API keys") };
    render(&ApiKeysPage { page, keys: &keys })
}

async fn create(visit: ConsoleRequest) -> Answer {
    let name = visit.fields.required("name", ApiKeyName::parse)?;
    let rights = rights(&visit).await?;
    let command = ApiKeyCommand::Create(name.clone(), rights);
    let made = visit.state.store.change_api_keys(&visit.operator()?, command).await?;
    let key = made.api_key.map(|key| key.expose().to_owned()).unwrap_or_default();
    let what_next = [
        "Programs send it to the admin API, in the header Authorization: Bearer.",
        "The operator log names the key with each change that it makes.",
    ];
    let shown = ShownOnce {
        owner: ("Name", name.as_str(), PATH),
        secrets: &[("API key", key)],
        what_next: &what_next,
        rotation: None,
    };
    shown.render(&visit, Section::API_KEYS, "API key")
}

async fn revoke(visit: ConsoleRequest) -> Answer {
    let name = visit.fields.required("name", ApiKeyName::parse)?;
    visit.state.store.change_api_keys(&visit.operator()?, ApiKeyCommand::Revoke(name)).await?;
    Ok(Redirect::to("/console/api-keys?done=revoked").into_response())
}
