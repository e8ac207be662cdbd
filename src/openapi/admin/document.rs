//! The description of the admin API as an OpenAPI 3.1 document.

use std::collections::{BTreeMap, BTreeSet};

use super::problems::{self, ProblemExample};
use super::{Call, calls, introduction, problem_json, text};
use crate::config::Config;
use crate::openapi::json::{Json, object};
use crate::openapi::operation::{Content, Success};
use crate::openapi::{body_json, parameter_json, paths_json, reference};
use crate::operator::admin::Access;

/// The document of the admin API, as these settings make it.
#[must_use]
pub fn document(config: &Config) -> Json {
    let calls = calls(config);
    let shared = shared_examples(&calls);
    let operations =
        calls.iter().map(|call| (call.route.path, call.route.method, operation_json(call, &shared)));
    let paths = paths_json(operations);
    let schemas = calls.iter().map(|call| (schema_name(call), success(call).0.clone()));
    let schemas = schemas.chain([("Problem".to_owned(), problems::schema())]);
    object! {
        "openapi": "3.1.0",
        "info": object! {
            "title": "Minitill: the admin API",
            "summary": "What an operator does with the command line, as JSON",
            "description": introduction(),
            "version": env!("CARGO_PKG_VERSION"),
        },
        "servers": vec![object! {
            "url": config.ops.base_url(),
            "description": "The operator's listener (the setting ops.listen)",
        }],
        "security": vec![object! { "apiKey": Json::List(Vec::new()) }],
        "paths": paths,
        "components": object! {
            "securitySchemes": object! { "apiKey": object! {
                "type": "http",
                "scheme": "bearer",
                "description": "A key of `minitill api-key create`. One of the role viewer may only GET.",
            } },
            "schemas": Json::Object(schemas.collect()),
            "examples": Json::Object(shared.into_iter().map(|(name, example)| (name.to_owned(), example)).collect()),
        },
    }
}

fn success(call: &Call) -> (&Json, &Json) {
    let success = call.operation.successes.first().expect("every call has its success");
    match &success.content {
        Content::Json { schema, example } => (schema, example),
        Content::Picture | Content::Empty => panic!("every success of the admin API is JSON"),
    }
}

fn schema_name(call: &Call) -> String {
    format!("{}Success", call.operation.id)
}

/// The examples of problems that read the same wherever they stand, by name.
fn shared_examples(calls: &[Call]) -> BTreeMap<&'static str, Json> {
    let mut shared: BTreeMap<&'static str, Json> = BTreeMap::new();
    let mut differing = BTreeSet::new();
    for example in calls.iter().flat_map(|call| &call.problems) {
        let json = example_json(example);
        if *shared.entry(example.name).or_insert_with(|| json.clone()) != json {
            differing.insert(example.name);
        }
    }
    shared.retain(|name, _| !differing.contains(name));
    shared
}

fn example_json(example: &ProblemExample) -> Json {
    object! { "summary": example.summary, "value": problem_json(example) }
}

fn operation_json(call: &Call, shared: &BTreeMap<&'static str, Json>) -> Json {
    let operation = &call.operation;
    let mut json = object! {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": operation.description.as_str(),
        "parameters": operation.parameters.iter().map(parameter_json).collect::<Vec<_>>(),
    };
    if let Some(body) = operation.bodies.first() {
        let content = object! { "application/json": strict(body_json(body)) };
        json = json.with("requestBody", object! { "required": operation.body_required, "content": content });
    }
    let done =
        operation.successes.iter().map(|success| (success.status.to_string(), success_json(call, success)));
    let statuses: BTreeSet<u16> =
        call.problems.iter().map(|example| example.problem.kind.status().as_u16()).collect();
    let refused =
        statuses.into_iter().map(|status| (status.to_string(), problems_json(call, status, shared)));
    json.with("responses", Json::Object(done.chain(refused).collect()))
}

/// The schema of a body that takes no member but those it names.
fn strict(body: Json) -> Json {
    let Json::Object(members) = body else { return body };
    let closed = members.into_iter().map(|(name, value)| {
        let value = if name == "schema" { value.with("additionalProperties", false) } else { value };
        (name, value)
    });
    Json::Object(closed.collect())
}

fn success_json(call: &Call, success: &Success) -> Json {
    let header = |description: &str| object! { "description": description, "schema": text() };
    let mut headers = vec![("X-Request-Id".to_owned(), header("The id that came, or a fresh one."))];
    if call.route.access == Access::Once {
        let told = header("`true` when another try has made the change.");
        headers.push(("Idempotent-Replayed".to_owned(), told));
    }
    for (name, description, _) in &success.headers {
        headers.push(((*name).to_owned(), header(description)));
    }
    let example = self::success(call).1.clone();
    let content = object! {
        "schema": reference("schemas", &schema_name(call)),
        "examples": object! {}.with(success.name, object! { "value": example }),
    };
    object! {
        "description": success.summary,
        "headers": Json::Object(headers),
        "content": object! { "application/json": content },
    }
}

fn problems_json(call: &Call, status: u16, shared: &BTreeMap<&'static str, Json>) -> Json {
    let of_status = call.problems.iter().filter(|example| example.problem.kind.status().as_u16() == status);
    let mut words = Vec::new();
    let mut examples = Vec::new();
    for example in of_status {
        words.push(example.summary);
        let told = if shared.contains_key(example.name) {
            reference("examples", example.name)
        } else {
            example_json(example)
        };
        examples.push((example.name.to_owned(), told));
    }
    let content = object! {
        "schema": reference("schemas", "Problem"),
        "examples": Json::Object(examples),
    };
    object! {
        "description": words.join(" "),
        "content": object! { "application/problem+json": content },
    }
}
