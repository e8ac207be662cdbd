//! The description of the public API: as OpenAPI 3.1 ([`document`]) and as a page for people ([`page`]).
//! That of the admin API ([`admin`]) is made of the same parts.
//!
//! It is made of the code: routes from [`ROUTES`], codes, statuses and texts from `error.rs` and
//! the handlers, limits and patterns from `domain`, and what the operator has set from the settings.
//! What is said of a call stands in one file each ([`operation`] has the types). Tests send every
//! example to a server and compare the answers.

pub mod admin;
mod exchange;
mod images;
pub mod json;
pub mod operation;
pub mod page;
mod report;
mod token;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use json::{Json, object};
use operation::{Body, Content, Field, Operation, Parameter, Success};

use crate::config::Config;
use crate::endpoint::Endpoint;
use crate::error::{Code, Envelope, ErrorStatus, Refusal};
use crate::public::router::{ROUTES, Route};

/// A call with its route and method.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its route.
    pub route: Route,
    /// GET, HEAD or POST.
    pub method: &'static str,
    /// What is said of it.
    pub operation: Operation,
}

/// Every call of the public listener, in the order of the route table, as these settings make it.
#[must_use]
pub fn calls(config: &Config) -> Vec<Call> {
    let calls = ROUTES.iter().flat_map(|route| route.methods.iter().map(move |method| (*route, *method)));
    calls
        .map(|(route, method)| Call {
            route,
            method,
            operation: operation_of(route.endpoint, method, config),
        })
        .collect()
}

fn operation_of(endpoint: Endpoint, method: &str, config: &Config) -> Operation {
    match endpoint {
        Endpoint::Exchange => exchange::operation(config),
        Endpoint::OrderReport => report::operation(config),
        Endpoint::UploadWithFile => images::with_file(config),
        Endpoint::UploadWithUrl => images::with_url(config),
        Endpoint::AccessToken if method == "GET" => token::by_query(config),
        Endpoint::AccessToken => token::by_body(config),
        Endpoint::Image => images::see(method == "HEAD"),
    }
}

/// The OpenAPI 3.1 document of the public API, as these settings make it.
#[must_use]
pub fn document(config: &Config) -> Json {
    let calls = calls(config);
    let operations = calls.iter().map(|call| (call.route.path, call.method, operation_json(call)));
    let paths = paths_json(operations);
    object! {
        "openapi": "3.1.0",
        "info": object! {
            "title": "Minitill",
            "summary": "Exchange of in-game currency, order reports and cover images",
            "description": introduction(),
            "version": env!("CARGO_PKG_VERSION"),
        },
        "servers": vec![object! {
            "url": config.public.base_url(),
            "description": "The public listener (the setting public.listen)",
        }],
        "paths": paths,
        "components": object! {
            "schemas": Json::Object(calls.iter().flat_map(schemas).collect()),
            "examples": Json::Object(calls.iter().flat_map(examples).collect()),
        },
    }
}

/// Operations, each with its path and method, as the object of their paths. Those of a path come one after the other.
fn paths_json<'a>(operations: impl Iterator<Item = (&'a str, &'a str, Json)>) -> Json {
    let mut paths: Vec<(String, Json)> = Vec::new();
    for (path, method, operation) in operations {
        let method = method.to_ascii_lowercase();
        match paths.last_mut() {
            Some((last, item)) if last == path => *item = item.clone().with(method, operation),
            Some(_) | None => paths.push((path.to_owned(), object! {}.with(method, operation))),
        }
    }
    Json::Object(paths)
}

/// What holds for every call (contract 2).
#[must_use]
pub fn introduction() -> String {
    let mut text = "\
        **Answers.** A business answer, good or bad, is one JSON object with status 200. `code` (exchange) or `result` \
        (all others) is 1 on success; else `msg` or `error_msg` names the field, what was expected and what came. Other \
        statuses are the transport's, in the same envelope: 404 for an unknown path, 405 with `Allow`, 408, 413, 500, and \
        503 with `Retry-After`. Only 400 for what is no HTTP and 431 for a head that is too large have no body.\n\n\
        **Statuses.** With the setting `http.error_status = \"platform\"` (the default) every business refusal is 200. With \
        `\"rest\"` each code has the status of the table; the bodies are the same.\n\n\
        **Reading.** Runs of slashes in a path count as one. Unknown fields are ignored. A name given twice is refused. \
        Empty text is as absent, and so is JSON `null`. A number may come as a decimal string and an identifier as an \
        integer. Integers have no sign, leading zero or exponent. Text is UTF-8 without NUL.\n\n\
        **Ids.** `X-Request-Id` is echoed, or made; the log repeats it.\n\n\
        | code | meaning | status with `rest` |\n|---|---|---|\n| 1 | success | 200 |\n"
        .to_owned();
    for code in Code::ALL {
        let status = Refusal::new(code, "").status(ErrorStatus::Rest).as_u16();
        let _ = writeln!(text, "| {} | {} | {status} |", code.number(), code.meaning());
    }
    text
}

fn operation_json(call: &Call) -> Json {
    let operation = &call.operation;
    let mut json = object! {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": operation.description.as_str(),
        "parameters": operation.parameters.iter().map(parameter_json).collect::<Vec<_>>(),
    };
    if !operation.bodies.is_empty() {
        let contents = operation.bodies.iter().map(|body| (body.media_type.to_owned(), body_json(body)));
        let content = Json::Object(contents.collect());
        json = json.with("requestBody", object! { "required": operation.body_required, "content": content });
    }
    let responses =
        statuses(call).into_iter().map(|status| (status.to_string(), response_json(call, status)));
    json.with("responses", Json::Object(responses.collect()))
}

fn parameter_json(parameter: &Parameter) -> Json {
    let Parameter { place, field } = parameter;
    let json = object! {
        "name": field.name,
        "in": place.word(),
        "required": field.required,
        "description": field.description.as_str(),
        "schema": field.schema.clone(),
    };
    match &field.example {
        Some(example) => json.with("example", example.clone()),
        None => json,
    }
}

fn body_json(body: &Body) -> Json {
    let required: Vec<&str> =
        body.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let property = |field: &Field| {
        let description = field.description.as_str();
        (field.name.to_owned(), field.schema.clone().with("description", description))
    };
    let properties = Json::Object(body.fields.iter().map(property).collect());
    let mut schema = object! { "type": "object" };
    if !required.is_empty() {
        schema = schema.with("required", required);
    }
    let json = object! { "schema": schema.with("properties", properties) };
    if body.fields.iter().any(|field| field.name == "file") {
        // The bytes of a picture have no place in JSON.
        return json.with("encoding", object! { "file": object! { "contentType": "image/png, image/jpeg" } });
    }
    json.with("example", body.example())
}

/// The status that `example` has under each setting.
fn both_statuses(refusal: &Refusal) -> [u16; 2] {
    [ErrorStatus::Platform, ErrorStatus::Rest].map(|setting| refusal.status(setting).as_u16())
}

fn statuses(call: &Call) -> BTreeSet<u16> {
    let successes = call.operation.successes.iter().map(|success| success.status);
    let refusals = call.operation.refusals.iter().flat_map(|example| both_statuses(&example.refusal));
    successes.chain(refusals).collect()
}

fn response_json(call: &Call, status: u16) -> Json {
    let operation = &call.operation;
    let successes: Vec<&Success> =
        operation.successes.iter().filter(|success| success.status == status).collect();
    let refusals = operation.refusals.iter();
    let refusals: Vec<_> =
        refusals.filter(|example| both_statuses(&example.refusal).contains(&status)).collect();
    let mut response = object! { "description": meaning_of(call, status), "headers": headers(call, status) };
    let mut content = Vec::new();
    let mut schemas: Vec<Json> = Vec::new();
    let mut examples = Vec::new();
    for success in successes {
        match &success.content {
            Content::Json { .. } => {
                examples.push(success.name);
                if schemas.is_empty() {
                    schemas.push(reference("schemas", &format!("{}Success", operation.id)));
                }
            }
            Content::Picture => {
                for media_type in ["image/png", "image/jpeg"] {
                    content.push((media_type.to_owned(), object! {}));
                }
            }
            Content::Empty => {}
        }
    }
    if call.method != "HEAD" && !refusals.is_empty() {
        schemas.push(reference("schemas", &format!("{}Refusal", operation.id)));
        examples.extend(refusals.iter().map(|example| example.name));
    }
    if !schemas.is_empty() {
        let schema = if schemas.len() == 1 {
            schemas.remove(0)
        } else {
            object! { "oneOf": schemas }
        };
        let example =
            |name: &&str| ((*name).to_owned(), reference("examples", &format!("{}.{name}", operation.id)));
        let examples = Json::Object(examples.iter().map(example).collect());
        content.push(("application/json".to_owned(), object! { "schema": schema, "examples": examples }));
    }
    if !content.is_empty() {
        response = response.with("content", Json::Object(content));
    }
    response
}

fn reference(kind: &str, name: &str) -> Json {
    object! { "$ref": format!("#/components/{kind}/{name}") }
}

/// A status in words.
fn meaning_of(call: &Call, status: u16) -> String {
    let operation = &call.operation;
    let mut words: Vec<String> = Vec::new();
    let of_status = |success: &&Success| success.status == status;
    words.extend(operation.successes.iter().filter(of_status).map(|success| success.summary.to_owned()));
    let [mut always, mut platform, mut rest] = [const { BTreeSet::new() }; 3];
    for example in &operation.refusals {
        let number = example.refusal.code.number();
        match both_statuses(&example.refusal).map(|with_setting| with_setting == status) {
            [true, true] => always.insert(number),
            [true, false] => platform.insert(number),
            [false, true] => rest.insert(number),
            [false, false] => continue,
        };
    }
    let list =
        |numbers: BTreeSet<u32>| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let settings = [
        (always, String::new()),
        (platform, " with `http.error_status = \"platform\"`".to_owned()),
        (rest, " with `http.error_status = \"rest\"`".to_owned()),
    ];
    for (numbers, setting) in settings {
        if !numbers.is_empty() {
            words.push(format!("Refused{setting}: {}.", list(numbers)));
        }
    }
    words.join(" ")
}

fn headers(call: &Call, status: u16) -> Json {
    let text =
        |description: &str| object! { "description": description, "schema": object! { "type": "string" } };
    let id = text("The id that came, or a fresh one.").with("required", true);
    let mut headers = vec![("X-Request-Id".to_owned(), id)];
    let waits = |refusal: &Refusal| refusal.retry_after.is_some() && both_statuses(refusal).contains(&status);
    if call.operation.refusals.iter().any(|example| waits(&example.refusal)) {
        let seconds = object! {
            "description": "Whole seconds to wait; there when waiting helps (10000305 and 503).",
            "schema": object! { "type": "integer", "minimum": 1 },
        };
        headers.push(("Retry-After".to_owned(), seconds));
    }
    for success in call.operation.successes.iter().filter(|success| success.status == status) {
        for (name, description, example) in &success.headers {
            headers.push(((*name).to_owned(), text(description).with("example", example.as_str())));
        }
    }
    Json::Object(headers)
}

/// The schemas of a call's answers.
fn schemas(call: &Call) -> Vec<(String, Json)> {
    let operation = &call.operation;
    let mut schemas = Vec::new();
    for success in &operation.successes {
        if let Content::Json { schema, .. } = &success.content {
            schemas = vec![(format!("{}Success", operation.id), schema.clone())];
        }
    }
    if call.method == "HEAD" {
        return schemas;
    }
    let codes: BTreeSet<u32> =
        operation.refusals.iter().map(|example| example.refusal.code.number()).collect();
    let (number, words) = names(call.route.envelope);
    let code = object! { "type": "integer", "enum": codes.into_iter().collect::<Vec<_>>() };
    let said = object! { "type": "string", "minLength": 1 };
    let mut properties = object! {}.with(number, code).with(words, said);
    if operation.refusals.iter().any(|example| example.refusal.data.is_some()) {
        let text = || object! { "type": "string" };
        let data = object! {
            "type": "object",
            "description": "Of a sandbox app's wrong signature alone.",
            "required": vec!["string_to_sign", "bytes"],
            "properties": object! {
                "string_to_sign": text(), "bytes": object! { "type": "integer" }, "mistake": text(),
            },
        };
        properties = properties.with("data", data);
    }
    let schema = object! { "type": "object", "required": vec![number, words], "properties": properties };
    schemas.push((format!("{}Refusal", operation.id), schema));
    schemas
}

fn names(envelope: Envelope) -> (&'static str, &'static str) {
    match envelope {
        Envelope::Exchange => ("code", "msg"),
        Envelope::Open => ("result", "error_msg"),
    }
}

/// The body of a refusal.
#[must_use]
pub fn refusal_json(envelope: Envelope, refusal: &Refusal) -> Json {
    let (number, words) = names(envelope);
    let json = object! {}.with(number, refusal.code.number()).with(words, refusal.message.as_str());
    match &refusal.data {
        Some(data) => json.with("data", Json::from_value(data)),
        None => json,
    }
}

fn examples(call: &Call) -> Vec<(String, Json)> {
    if call.method == "HEAD" {
        return Vec::new();
    }
    let operation = &call.operation;
    let named = |name: &str, summary: &str, value: Json| {
        (format!("{}.{name}", operation.id), object! { "summary": summary, "value": value })
    };
    let successes = operation.successes.iter().filter_map(|success| match &success.content {
        Content::Json { example, .. } => Some(named(success.name, success.summary, example.clone())),
        Content::Picture | Content::Empty => None,
    });
    let refusals = operation.refusals.iter().map(|example| {
        named(example.name, example.summary, refusal_json(call.route.envelope, &example.refusal))
    });
    successes.chain(refusals).collect()
}
