//! The OpenAPI document of the admin API: the rows of the route table with their descriptions, and what
//! every call of a kind can answer.

use std::fmt::Write as _;

use domain::ids::IdempotencyKey;
use store::StoreError;

use super::call::{PAGE_ITEMS, PAGE_ITEMS_MAX};
use super::describe::problem;
use super::messages;
use super::problem::{Kind, Problem, ProblemBody};
use super::routes::{Access, ROUTES, Route};
use crate::body::{too_large, too_slow};
use crate::config::Config;
use crate::openapi::{self, Api, Document, Example, Field, Operation, Place, Refused, schema};

/// The API key of all examples. It is not valid.
pub const API_KEY: &str = "mtk_440db387e44d0ba1c4b1f4e2b2b6b3f7d3f9fd1d9d7dbe1b2f8e1f0c9a5b7c3d";
/// The id of the request in all examples of problems.
pub const EXAMPLE_REQUEST_ID: &str = "8d7b1d2e6a0f4c3b0000000000000001";
/// An idempotency key, as examples show it.
const IDEMPOTENCY_KEY: &str = "0b1f7c62-3f0e-4d0a-9a52-7a1f6a1c9e11";

/// A row of the route table with its description.
#[derive(Debug, Clone)]
pub struct DescribedRoute {
    /// The row.
    pub route: &'static Route,
    /// What is said of it.
    pub operation: Operation<Problem>,
}

/// Every call of the admin API, in the order of the route table, as these settings make it.
#[must_use]
pub fn calls(config: &Config) -> Vec<DescribedRoute> {
    let calls = ROUTES.iter().map(|route| {
        let mut operation = (route.describe)();
        if route.access == Access::Once {
            let words = "A new key for this write, and the same for its repeats.";
            let key = Field::required::<IdempotencyKey>("Idempotency-Key", IDEMPOTENCY_KEY, words);
            operation = operation.with(Place::Header, [key]);
        }
        let problems = general(route, &operation, config);
        DescribedRoute { route, operation: operation.refuses(problems) }
    });
    calls.collect()
}

/// The document of the admin API, as these settings make it.
#[must_use]
pub fn document(config: &Config) -> Document {
    let api = Api {
        title: "Minitill: the admin API",
        summary: "What an operator does with the command line, as JSON",
        description: introduction(),
        server: (config.ops.base_url(), "The operator's listener (the setting ops.listen)"),
        api_key: Some("A key of `minitill api-key create`. A key of the role viewer may only GET."),
        tags: &TAGS,
        refusal_type: "application/problem+json",
        refusals_in_words,
        calls: calls(config).into_iter().map(rendered).collect(),
    };
    api.document()
}

const TAGS: [(&str, &str); 6] = [
    ("Apps", "Apps: their settings, keys, tokens and what they offer."),
    ("Players", "The players of an app, their wallets and ledger entries."),
    ("Exchanges", "What was sold under an order number, and why a signature does not match."),
    ("Orders", "Orders, as developers have reported them."),
    ("Images", "Uploaded images, and blocks of pictures."),
    ("Operator log", "What operators did."),
];

fn rendered(DescribedRoute { route, operation }: DescribedRoute) -> openapi::Call {
    let Operation { summary, description, parameters, bodies, mut successes, refusals } = operation;
    if route.access == Access::Once {
        for success in &mut successes {
            let words = "`true` when another try has made the change.";
            success.headers.push(("Idempotent-Replayed", words, "true".to_owned()));
        }
    }
    let refusals = refusals.into_iter().map(|Example { name, summary, refusal: problem }| {
        let status = problem.kind.status().as_u16();
        let body = serde_json::to_value(problem.body(EXAMPLE_REQUEST_ID)).unwrap_or_default();
        let waits = problem.kind == Kind::Unavailable;
        let refusal = Refused { statuses: [status; 2], code: problem.kind.name().to_owned(), body, waits };
        Example { name, summary, refusal }
    });
    let refusals = refusals.collect();
    let operation = Operation { summary, description, parameters, bodies, successes, refusals };
    let refusal = schema::<ProblemBody<'static>>();
    openapi::Call { id: route.id, method: route.method, path: route.path, tag: route.tag, operation, refusal }
}

fn refusals_in_words(refusals: &[&Example<Refused>], _: u16) -> String {
    refusals.iter().map(|example| example.summary).collect::<Vec<_>>().join(" ")
}

/// What every call of such a route can answer.
fn general(route: &Route, operation: &Operation<Problem>, config: &Config) -> Vec<Example<Problem>> {
    let mut problems = vec![
        problem("key_missing", "No API key came.", messages::key_missing()),
        problem("key_unknown", "There is no such API key.", messages::key_unknown()),
        problem("key_revoked", "The API key was revoked.", messages::key_revoked()),
    ];
    if route.access != Access::Read {
        let fields = operation.bodies.iter().flat_map(|body| &body.fields);
        let fields: Vec<&str> = fields.map(|field| field.name).collect();
        let (bytes_max, timeout) = (config.http.body_bytes_max, config.http.body_timeout);
        problems.extend([
            problem("viewers_key", "The API key may only GET.", messages::viewers_key("dashboard")),
            problem("unreadable", "The body is not a JSON object.", messages::unreadable("[]")),
            problem("unknown_field", "A field is not known.", messages::unknown_field(&fields)),
            problem("body_too_slow", "The body did not come in time.", too_slow(timeout).into()),
            problem("body_too_large", "The body is larger than accepted.", too_large(bytes_max).into()),
            problem("not_json", "The body is of another type.", messages::not_json()),
        ]);
    }
    if route.access == Access::Once {
        problems.extend([
            problem(
                "idempotency_key_missing",
                "There is no idempotency key, or it is not valid.",
                messages::idempotency_key_missing(),
            ),
            problem(
                "idempotency_key_reused",
                "The idempotency key was used for another request within a day.",
                messages::idempotency_key_reused(IDEMPOTENCY_KEY),
            ),
        ]);
    }
    problems.extend([
        problem("system_error", "A fault of the service.", Problem::internal("")),
        problem(
            "unavailable",
            "The database is not available, or too busy. It is safe to repeat, as `Retry-After` says.",
            StoreError::Unavailable(String::new()).into(),
        ),
    ]);
    problems
}

/// What holds for every call.
fn introduction() -> String {
    let mut text = format!(
        "\
        **Keys.** `minitill api-key create NAME --role admin` prints a key once. Send it as `Authorization: Bearer mtk_...`. \
        A key of the role viewer may only GET. The operator's log names the key.\n\n\
        **Bodies.** Each body is one JSON object, at most 64 KiB. An unknown field is refused by its name, and so is a name \
        that is given twice. Nothing is converted: `\"5\"` is not a number. `null` is the same as absent.\n\n\
        **Writes take effect once.** Each POST that changes something needs an `Idempotency-Key`: a new key for each write, \
        the same key for its repeats. For a day a repeat gets the very same answer, with the secrets that are shown once, and \
        the header `Idempotent-Replayed: true`. It waits for a first try that is still under way. Other content under the same \
        key is 422. A refusal is not kept, because nothing was done. PUT, PATCH and DELETE need no key: to repeat one changes \
        nothing more.\n\n\
        **Pages.** A list answers `{{\"items\": [...], \"next\": ...}}` with {PAGE_ITEMS} items, or as many as `limit` says, \
        {PAGE_ITEMS_MAX} at most. Send `next` as `after` for the next page, until it is null. `Link` has the same address.\n\n\
        **Problems.** Every answer that is not a success is `application/problem+json` (RFC 9457): `type`, `title`, `status`, \
        `detail`, `instance` (the id of the request in the log), and `errors` with the fields at fault.\n\n"
    );
    text.push_str("| type | status | what to do |\n|---|---|---|\n");
    for kind in Kind::ALL {
        let _ = writeln!(text, "| `{}` | {} | {} |", kind.uri(), kind.status().as_u16(), kind.remedy());
    }
    text
}
