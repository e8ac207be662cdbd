//! API keys of the admin API: a list with the last use of each key, and the forms that make and revoke one.

use askama::Template;
use axum::routing::{get, post};
use domain::ids::ApiKeyName;
use domain::operation::account::AccountChange;
use domain::operation::key::{ApiKeyCommand, NewApiKey};
use domain::rights::Need;
use store::ApiKeySummary;
use store::secrets::{random_api_key, token_hash};

use super::account_change;
use super::i18n::Moment as _;
use super::page::{Page, Section, Shown as _, render};
use super::request::{Answer, ConsoleRequest, lead_to};
use super::route::{ConsoleRoute, routes};
use super::shown_once::ShownOnce;
use super::users::rights;

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page(PATH) => get(list);
    proven(Need::Administer, PATH) => post(create);
    proven(Need::Administer, "/console/api-keys/revoke") => post(revoke);
};

const PATH: &str = Section::API_KEYS.path;

/// What the page tells after a change.
const NOTICES: [(&str, &str); 1] = [("revoked", "The key is revoked. Every server refuses it from now on.")];

#[derive(Template)]
#[template(path = "api_keys.html")]
struct ApiKeysPage<'a> {
    page: Page<'a>,
    keys: &'a [ApiKeySummary],
}

async fn list(request: ConsoleRequest) -> Answer {
    let keys = request.state.store.api_keys().await?;
    let page = Page { notice: request.notice(NOTICES), ..request.page(Section::API_KEYS, "API keys") };
    render(&ApiKeysPage { page, keys: &keys })
}

async fn create(request: ConsoleRequest) -> Answer {
    let name = request.fields.required("name", ApiKeyName::parse)?;
    let rights = rights(&request).await?;
    let alone_max = request.fields.integer("second_person_above", 1, i64::MAX)?;
    let new = NewApiKey { name: name.clone(), rights, alone_max };
    let waits = account_change::key_needs_second_person(&request, &new);
    let key = if waits {
        let key = random_api_key();
        let change = AccountChange::CreateKey(new, token_hash(&key));
        account_change::ask(&request, change).await?;
        key
    } else {
        let command = ApiKeyCommand::Create(new);
        let made = request.state.store.change_api_keys(&request.operator()?, command).await?;
        made.api_key.map(|key| key.expose().to_owned()).unwrap_or_default()
    };
    let mut what_next = vec![
        "Programs send it to the admin API, in the header Authorization: Bearer.",
        "The operator log names the key with each change that it makes.",
    ];
    what_next.extend(waits.then_some(account_change::SECRET_WAITS));
    let shown = ShownOnce {
        owner: ("Name", name.as_str(), PATH),
        secrets: &[("API key", key)],
        what_next: &what_next,
        rotation: None,
    };
    shown.render(&request, Section::API_KEYS, "API key")
}

async fn revoke(request: ConsoleRequest) -> Answer {
    let name = request.fields.required("name", ApiKeyName::parse)?;
    request.state.store.change_api_keys(&request.operator()?, ApiKeyCommand::Revoke(name)).await?;
    lead_to("/console/api-keys?done=revoked")
}
