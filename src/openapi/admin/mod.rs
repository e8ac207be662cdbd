//! The description of the admin API: an OpenAPI 3.1 document and a page for people, made of its route table,
//! its kinds of problems and the parsers' own patterns and limits.

mod apps;
mod document;
mod exchanges;
mod images;
mod log;
mod orders;
mod page;
mod problems;
mod tokens;
mod wallets;

use std::fmt::Write as _;

use domain::ids::IdempotencyKey;

use super::json::{Json, object};
use super::operation::{Body, Content, Field, Operation, Parameter, Place, Success};
use crate::config::Config;
use crate::operator::admin::problem::Kind;
use crate::operator::admin::{Access, Endpoint, PAGE_ITEMS, PAGE_ITEMS_MAX, ROUTES, Route};

pub use document::document;
pub use page::page;
pub use problems::ProblemExample;

/// The API key of all examples. It is none.
pub const API_KEY: &str = "mtk_440db387e44d0ba1c4b1f4e2b2b6b3f7d3f9fd1d9d7dbe1b2f8e1f0c9a5b7c3d";
/// The id of the request in all examples of problems.
pub const REQUEST_ID: &str = "8d7b1d2e6a0f4c3b0000000000000001";
/// An idempotency key, as examples show it.
const IDEMPOTENCY_KEY: &str = "0b1f7c62-3f0e-4d0a-9a52-7a1f6a1c9e11";

/// A call of the admin API with its route.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its route.
    pub route: &'static Route,
    /// What is said of it.
    pub operation: Operation,
    /// Every problem that it can answer, each once.
    pub problems: Vec<ProblemExample>,
}

/// What is said of an endpoint alone.
struct Said {
    operation: Operation,
    problems: Vec<ProblemExample>,
}

/// Every call of the admin API, in the order of the route table, as these settings make it.
#[must_use]
pub fn calls(config: &Config) -> Vec<Call> {
    let calls = ROUTES.iter().map(|route| {
        let Said { mut operation, mut problems } = said(route.endpoint);
        if route.access == Access::Once {
            operation.parameters.push(idempotency_key().at(Place::Header));
        }
        problems.extend(problems::general(route, &operation, config));
        operation.id = route.endpoint.name();
        Call { route, operation, problems }
    });
    calls.collect()
}

fn said(endpoint: Endpoint) -> Said {
    match endpoint {
        Endpoint::ListApps => apps::list(),
        Endpoint::CreateApp => apps::create(),
        Endpoint::GetApp => apps::get(),
        Endpoint::ChangeApp => apps::change(),
        Endpoint::SetAppLimits => apps::set_limits(),
        Endpoint::SuspendApp => apps::suspend(),
        Endpoint::ResumeApp => apps::resume(),
        Endpoint::RotatePayKey => apps::rotate_pay_key(),
        Endpoint::RotateAppSecret => apps::rotate_secret(),
        Endpoint::PublishPackage => apps::publish(),
        Endpoint::AddPois => apps::add_pois(),
        Endpoint::AddPreorders => apps::add_preorders(),
        Endpoint::IssueToken => tokens::issue(),
        Endpoint::RevokeTokens => tokens::revoke(),
        Endpoint::AddUsers => wallets::add_users(),
        Endpoint::ListWallets => wallets::list(),
        Endpoint::GetWallet => wallets::get(),
        Endpoint::ListEntries => wallets::entries(),
        Endpoint::CreditWallet => wallets::credit(),
        Endpoint::GetExchange => exchanges::get(),
        Endpoint::GetOrder => orders::get(),
        Endpoint::ListOrders => orders::list(),
        Endpoint::ListImages => images::list(),
        Endpoint::GetImage => images::get(),
        Endpoint::BlockImage => images::block(),
        Endpoint::UnblockImage => images::unblock(),
        Endpoint::ListOperatorLog => log::list(),
        Endpoint::CheckSignature => exchanges::check_signature(),
    }
}

fn idempotency_key() -> Field {
    Field::required(
        "Idempotency-Key",
        super::operation::pattern(IdempotencyKey::PATTERN),
        IDEMPOTENCY_KEY,
        "A fresh name for this write, and the same for its repeats.",
    )
}

/// An operation of which only these parts differ; its id is that of its endpoint.
fn operation(summary: &'static str, description: impl Into<String>, success: Success) -> Operation {
    Operation {
        id: "",
        summary,
        description: description.into(),
        parameters: Vec::new(),
        bodies: Vec::new(),
        body_required: false,
        successes: vec![success],
        refusals: Vec::new(),
    }
}

impl Operation {
    /// The operation with parameters in path or query.
    fn with_parameters(self, parameters: Vec<Parameter>) -> Self {
        Self { parameters, ..self }
    }

    /// The operation with a body of one JSON object.
    fn with_body(self, fields: Vec<Field>) -> Self {
        let body_required = fields.iter().any(|field| field.required);
        Self { bodies: vec![Body { media_type: "application/json", fields }], body_required, ..self }
    }
}

/// The success of a call: one JSON object.
fn answers(name: &'static str, summary: &'static str, schema: Json, example: Json) -> Success {
    Success { name, summary, status: 200, content: Content::Json { schema, example }, headers: Vec::new() }
}

/// An object that has all of these members.
fn record(members: Vec<(&'static str, Json)>) -> Json {
    let required: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let properties = members.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    object! { "type": "object", "required": required, "properties": Json::Object(properties) }
}

/// A page of records.
fn page_of(items: Json) -> Json {
    let next = object! {
        "type": vec!["string", "null"],
        "description": "What to send as `after` for the next page; null on the last.",
    };
    record(vec![("items", list_of(items)), ("next", next)])
}

fn list_of(items: Json) -> Json {
    object! { "type": "array", "items": items }
}

fn text() -> Json {
    object! { "type": "string" }
}

fn text_or_null() -> Json {
    object! { "type": vec!["string", "null"] }
}

fn whole_number() -> Json {
    object! { "type": "integer", "format": "int64" }
}

fn flag() -> Json {
    object! { "type": "boolean" }
}

fn moment() -> Json {
    object! { "type": "string", "format": "date-time" }
}

/// Parameters of a page.
fn paging() -> Vec<Parameter> {
    let limit = object! {
        "type": "integer", "minimum": 1, "maximum": PAGE_ITEMS_MAX, "default": PAGE_ITEMS,
    };
    vec![
        Field::optional("limit", limit, "How many at most.").example(PAGE_ITEMS).at(Place::Query),
        Field::optional("after", text(), "`next` of the page before.").at(Place::Query),
    ]
}

/// What holds for every call.
#[must_use]
pub fn introduction() -> String {
    let mut text = format!(
        "\
        **Keys.** `minitill api-key create NAME --role admin` prints a key once; send it as `Authorization: Bearer mtk_...`. \
        One of the role viewer may only GET. The operator's log names the key.\n\n\
        **Bodies.** Each body is one JSON object, at most 64 KiB. A field that is not known is refused by name, a name given twice too, \
        and nothing is converted: `\"5\"` is no number. `null` is the same as absent.\n\n\
        **Writes take effect once.** Each POST that changes something needs an `Idempotency-Key`: a fresh one for each write, \
        the same for its repeats. For a day a repeat has the very same answer, shown-once secrets included, and the header \
        `Idempotent-Replayed: true`; it waits for a first try that is still under way. Another content under the same key is 422. What \
        was refused is not kept: nothing was done. PUT, PATCH and DELETE need none: to repeat one changes nothing more.\n\n\
        **Pages.** A list answers `{{\"items\": [...], \"next\": ...}}`, {PAGE_ITEMS} items unless `limit` says otherwise, \
        {PAGE_ITEMS_MAX} at most. Send `next` as `after` for the next page, until it is null; `Link` has the same address.\n\n\
        **Problems.** Whatever is no success is `application/problem+json` (RFC 9457): `type`, `title`, `status`, `detail`, \
        `instance`, which is the request's id in the log, and `errors` with the fields at fault.\n\n"
    );
    text.push_str("| type | status | what to do |\n|---|---|---|\n");
    for kind in Kind::ALL {
        let _ = writeln!(text, "| `{}` | {} | {} |", kind.uri(), kind.status().as_u16(), kind.remedy());
    }
    text
}

/// The body of a problem, with the request's id that all examples have.
#[must_use]
pub fn problem_json(example: &ProblemExample) -> Json {
    Json::from_value(&example.problem.body(REQUEST_ID))
}
