//! The problems that calls can answer, each made by the code that makes it in earnest.

use std::time::Duration;

use domain::ids::AppId;
use store::StoreError;

use crate::body::{too_large, too_slow};
use crate::config::Config;
use crate::openapi::json::{Json, object};
use crate::openapi::operation::{APP_ID, Operation};
use crate::operator::admin::problem::{Kind, Problem};
use crate::operator::admin::{Access, Route, messages};

/// A problem with the name that tests know it by.
#[derive(Debug, Clone)]
pub struct ProblemExample {
    /// Its name among the examples of its call.
    pub name: &'static str,
    /// When it comes.
    pub summary: &'static str,
    /// The problem.
    pub problem: Problem,
}

pub(super) fn example(name: &'static str, summary: &'static str, problem: Problem) -> ProblemExample {
    ProblemExample { name, summary, problem }
}

/// There is no such app.
pub(super) fn no_app() -> ProblemExample {
    let app_id = AppId::parse(APP_ID).expect("the app of the examples has an id");
    example("no_app", "There is no such app.", messages::no_app(&app_id))
}

/// A wrong field.
pub(super) fn wrong_field(name: &'static str, problem: &str) -> ProblemExample {
    example("invalid_field", "A field is wrong; `errors` names it.", Problem::field(name, problem))
}

/// What every call of such a route can answer.
pub(super) fn general(route: &Route, operation: &Operation, config: &Config) -> Vec<ProblemExample> {
    let mut problems = vec![
        example("key_missing", "No API key came.", messages::key_missing()),
        example("key_unknown", "There is no such API key.", messages::key_unknown()),
        example("key_revoked", "The API key was revoked.", messages::key_revoked()),
    ];
    if route.access != Access::Read {
        problems.extend(of_writes(operation, config));
    }
    if route.access == Access::Once {
        problems.push(example(
            "idempotency_key_missing",
            "No idempotency key came, or none that can be one.",
            messages::idempotency_key_missing(),
        ));
        problems.push(example(
            "idempotency_key_reused",
            "The idempotency key was used for another request within a day.",
            messages::idempotency_key_reused(super::IDEMPOTENCY_KEY),
        ));
    }
    problems.push(example("system_error", "A fault of the service.", Problem::internal("")));
    problems.push(example(
        "unavailable",
        "The database is away, or too busy. Safe to repeat, as `Retry-After` says.",
        Problem::from(StoreError::Unavailable(String::new())),
    ));
    problems
}

fn of_writes(operation: &Operation, config: &Config) -> Vec<ProblemExample> {
    let fields = operation.bodies.iter().flat_map(|body| &body.fields);
    let fields: Vec<&str> = fields.map(|field| field.name).collect();
    let (bytes_max, timeout): (usize, Duration) = (config.http.body_bytes_max, config.http.body_timeout);
    vec![
        example("viewers_key", "The API key may only GET.", messages::viewers_key("dashboard")),
        example("unreadable", "The body is no JSON object.", messages::unreadable("[]")),
        example("unknown_field", "A field is not known.", messages::unknown_field(&fields)),
        example("body_too_slow", "The body did not come in time.", Problem::from(too_slow(timeout))),
        example("body_too_large", "The body is larger than accepted.", Problem::from(too_large(bytes_max))),
        example("not_json", "The body is of another type.", messages::not_json()),
    ]
}

pub(super) fn schema() -> Json {
    let text = || object! { "type": "string" };
    let error = object! {
        "type": "object",
        "required": vec!["field", "detail"],
        "properties": object! { "field": text(), "detail": text() },
    };
    let types: Vec<String> = Kind::ALL.iter().map(|kind| kind.uri()).collect();
    let statuses: std::collections::BTreeSet<u32> =
        Kind::ALL.iter().map(|kind| u32::from(kind.status().as_u16())).collect();
    object! {
        "type": "object",
        "required": vec!["type", "title", "status", "detail", "instance"],
        "properties": object! {
            "type": object! { "type": "string", "format": "uri-reference", "enum": types },
            "title": text(),
            "status": object! { "type": "integer", "enum": statuses.into_iter().collect::<Vec<_>>() },
            "detail": text(),
            "instance": object! { "type": "string", "format": "uri-reference", "description": "The request's id." },
            "errors": object! { "type": "array", "items": error },
        },
    }
}
