//! The access token as the document tells it (contract 6).

use domain::ids::AppId;

use super::json::object;
use super::operation::{
    ACCESS_TOKEN, APP_ID, Body, Content, Field, Operation, Place, RefusalExample, Success, general_refusals,
    pattern, said, suspended,
};
use crate::config::Config;
use crate::error::Code;
use domain::app::TOKEN_LIFETIME;

pub(super) fn by_query(config: &Config) -> Operation {
    Operation {
        id: "getAccessToken",
        summary: "Get an access token, by query",
        parameters: fields().into_iter().map(|field| field.at(Place::Query)).collect(),
        ..operation(config)
    }
}

pub(super) fn by_body(config: &Config) -> Operation {
    let media_types = ["application/x-www-form-urlencoded", "application/json", "multipart/form-data"];
    let bodies = media_types.map(|media_type| Body { media_type, fields: fields() });
    let mut operation = Operation {
        id: "postAccessToken",
        summary: "Get an access token, by body",
        bodies: bodies.to_vec(),
        body_required: true,
        ..operation(config)
    };
    let general = general_refusals(config.http.body_bytes_max, config.http.body_timeout);
    operation.refusals.extend(general.into_iter().filter(is_about_the_body));
    operation
}

/// What both methods share; the refusals that need a body are not among them.
fn operation(config: &Config) -> Operation {
    let general = general_refusals(config.http.body_bytes_max, config.http.body_timeout);
    let without_body = general.into_iter().filter(|example| !is_about_the_body(example));
    let hours = TOKEN_LIFETIME.as_secs() / 3600;
    Operation {
        id: "",
        summary: "",
        description: format!(
            "An app exchanges its secret for a token that lives for {hours} hours. A new token does not end an old one."
        ),
        parameters: Vec::new(),
        bodies: Vec::new(),
        body_required: false,
        successes: vec![issued()],
        refusals: refusals().into_iter().chain(without_body).collect(),
    }
}

fn is_about_the_body(example: &RefusalExample) -> bool {
    example.name.starts_with("body_")
}

fn fields() -> Vec<Field> {
    let secret = "a31f0c5d9e7b42868b1c6f0e2d4a5978a31f0c5d9e7b42868b1c6f0e2d4a5978";
    vec![
        Field::required("app_id", pattern(AppId::PATTERN), APP_ID, "The app."),
        Field::required(
            "app_secret",
            object! { "type": "string", "minLength": 1 },
            secret,
            "The secret that the operator handed out.",
        ),
        Field::required(
            "grant_type",
            object! { "type": "string", "const": "client_credentials" },
            "client_credentials",
            "Always `client_credentials`.",
        ),
    ]
}

fn issued() -> Success {
    let lifetime = i64::try_from(TOKEN_LIFETIME.as_secs()).unwrap_or(i64::MAX);
    let schema = object! {
        "type": "object",
        "required": vec!["result", "error_msg", "access_token", "expires_in", "token_type"],
        "properties": object! {
            "result": object! { "const": 1 },
            "error_msg": object! { "const": "success" },
            "access_token": pattern("^[0-9a-f]{64}$"),
            "expires_in": object! { "const": lifetime, "description": "Seconds." },
            "token_type": object! { "const": "bearer" },
        },
    };
    let example = object! {
        "result": 1,
        "error_msg": "success",
        "access_token": ACCESS_TOKEN,
        "expires_in": lifetime,
        "token_type": "bearer",
    };
    Success {
        name: "issued",
        summary: "A token.",
        status: 200,
        content: Content::Json { schema, example },
        headers: Vec::new(),
    }
}

fn refusals() -> Vec<RefusalExample> {
    vec![
        said(
            "token_parameter",
            "A parameter is missing or wrong; the text says which.",
            Code::TokenParameter,
            "app_secret is missing",
        ),
        said(
            "token_credentials",
            "There is no such app, or the secret is not its.",
            Code::TokenCredentials,
            "app_id or app_secret is wrong",
        ),
        suspended(),
    ]
}
