//! The OpenAPI document of the admin API: the rows of the route table with their descriptions, and what
//! every call of a kind can answer.

use std::fmt::Write as _;

use domain::fields::{FieldValue, Fields};
use domain::ids::IdempotencyKey;
use domain::rights::Need;
use serde_json::json;
use store::StoreError;

use super::REFUND_TOPUP;
use super::describe::{PAGE_ITEMS, PAGE_ITEMS_MAX, segment};
use super::messages::example;
use super::problem::{Problem, ProblemBody, ProblemKind};
use super::routes::{AdminRoute, ROUTES, RouteEffect};
use crate::config::Config;
use crate::http::body::{too_large, too_slow, too_slow_for_pace};
use crate::openapi::{self, Api, Document, Example, Field, Operation, Place, WireRefusal, schema};
use crate::operator::Reach;

/// The API key of all examples. It is not valid.
pub const API_KEY: &str = "mtk_440db387e44d0ba1c4b1f4e2b2b6b3f7d3f9fd1d9d7dbe1b2f8e1f0c9a5b7c3d";
/// The id of the request in all examples of problems.
pub const EXAMPLE_REQUEST_ID: &str = "8d7b1d2e6a0f4c3b0000000000000001";
/// An idempotency key, as examples show it.
pub(super) const EXAMPLE_IDEMPOTENCY_KEY: &str = "0b1f7c62-3f0e-4d0a-9a52-7a1f6a1c9e11";

/// A row of the route table with its description.
pub type DescribedRoute = openapi::Described<AdminRoute, Problem>;

/// Every call of the admin API, in the order of the route table, as these settings make it.
#[must_use]
pub fn calls(config: &Config) -> Vec<DescribedRoute> {
    let calls = ROUTES.iter().map(|route| {
        let names = route.path.split('/').filter_map(|name| name.strip_prefix('{')?.strip_suffix('}'));
        let (segments, mut missing): (Vec<_>, Vec<_>) = names.map(segment).unzip();
        let mut operation = (route.describe)().with(Place::Path, segments);
        if route.access == RouteEffect::Once {
            let words = "A new key for this write, and the same for its repeats.";
            let key = Field::required::<IdempotencyKey>("Idempotency-Key", EXAMPLE_IDEMPOTENCY_KEY, words);
            operation = operation.with(Place::Header, [key]);
        }
        operation.fields.sort_by_key(|field| field.place);
        // A refund may come before its payment.
        if route.id == REFUND_TOPUP {
            missing.truncate(1);
        }
        operation.refusals.splice(0..0, missing.pop());
        let general = general(route, &operation, config);
        DescribedRoute { route, operation: operation.refuses(general) }
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
        api_key: Some("A key of `minitill api-key create`. Its role and its apps say what it may do."),
        strict: true,
        tags: &TAGS,
        refusal_type: "application/problem+json",
        refusals_in_words,
        calls: calls(config).into_iter().map(rendered).collect(),
        webhooks: Vec::new(),
    };
    api.document()
}

const TAGS: [(&str, &str); 9] = [
    ("Apps", "Apps: their settings, keys, tokens and what they offer."),
    ("Players", "The players of an app, their wallets and ledger entries."),
    ("Exchanges", "What was sold under an order number, and why a signature does not match."),
    ("Top-ups", "Prices, and payments that providers tell of."),
    ("Reports", "What an app has sold, in sums, and its books."),
    ("Orders", "Orders, as developers have reported them."),
    ("Images", "Uploaded images, and blocks of pictures."),
    ("Operator log", "What operators did."),
    ("Operators", "Users of the console, API keys, requests of a second person, and how the till is."),
];

fn rendered(DescribedRoute { route, mut operation }: DescribedRoute) -> openapi::DocumentedCall {
    if route.access == RouteEffect::Once {
        for success in &mut operation.successes {
            let words = "`true` when another try has made the change.";
            success.headers.push(("Idempotent-Replayed", words, "true".to_owned()));
        }
    }
    let operation = operation.rendered(|problem| WireRefusal {
        status: problem.kind.status().as_u16(),
        code: problem.kind.name().to_owned(),
        body: json!(problem.body(EXAMPLE_REQUEST_ID)),
        waits: problem.kind == ProblemKind::Unavailable,
    });
    let refusal = schema::<ProblemBody<'static>>();
    openapi::DocumentedCall {
        id: route.id,
        method: route.method,
        path: route.path,
        tag: route.tag,
        operation,
        refusal,
    }
}

fn refusals_in_words(refusals: &[&Example<WireRefusal>]) -> String {
    refusals.iter().map(|example| example.summary).collect::<Vec<_>>().join(" ")
}

/// The answers that every call of such a route can have.
fn general(route: &AdminRoute, operation: &Operation<Problem>, config: &Config) -> Vec<Example<Problem>> {
    let mut problems = vec![example::key_missing(), example::key_unknown(), example::key_revoked()];
    if route.need != Need::Read {
        problems.push(example::not_for_role());
    }
    if route.reach() == Reach::AllApps {
        problems.push(example::all_apps_only());
    }
    if route.access == RouteEffect::File {
        let (bytes_max, timeout) = (route.access.body_bytes_max(), config.http.body_timeout);
        problems.extend([
            Example::new("body_too_slow", "The body comes too slowly.", too_slow_for_pace(timeout)),
            Example::new("body_too_large", "The body is larger than accepted.", too_large(bytes_max)),
            example::not_csv(),
        ]);
    } else if route.access != RouteEffect::Read {
        let known = operation.fields_in(Place::Body).map(|field| field.name);
        let colour = Fields::typed([("colour", FieldValue::Text("red".to_owned()))]);
        let unknown = colour.only(&known.collect::<Vec<_>>()).expect_err("the example has an unknown field");
        let unreadable = Fields::from_strict_json(b"[]").expect_err("the example is no JSON object");
        let (bytes_max, timeout) = (route.access.body_bytes_max(), config.http.body_timeout);
        problems.extend([
            Example::new("unreadable", "The body is not a JSON object.", unreadable),
            Example::new("unknown_field", "A field is not known.", unknown),
            Example::new("body_too_slow", "The body did not come in time.", too_slow(timeout)),
            Example::new("body_too_large", "The body is larger than accepted.", too_large(bytes_max)),
            example::not_json(),
        ]);
    }
    if route.access == RouteEffect::Once {
        problems.extend([example::idempotency_key_missing(), example::idempotency_key_reused()]);
    }
    problems.extend([
        Example::new("system_error", "A fault of the service.", Problem::internal("")),
        Example::new(
            "unavailable",
            "The database is not available, or too busy. It is safe to repeat, as `Retry-After` says.",
            StoreError::unavailable(""),
        ),
    ]);
    problems
}

/// The rules of every call.
fn introduction() -> String {
    let mut text = format!(
        "\
        **Keys.** `minitill api-key create NAME --role admin` prints a key once. Send it as `Authorization: Bearer mtk_...`. \
        The operator's log names the key.\n\n\
        **Roles.** A key of the role viewer reads. support also gives exchanges back, finance also reads reports, payments also tells of \
        payments for top-ups, developer also changes keys, packages, receivers, prices and settings of apps, and admin does everything. With `--app` a key is for \
        some apps: lists have those alone, and each other app is answered as an unknown one.\n\n\
        **Bodies.** Each body is one JSON object, at most 64 KiB, but where a file is taken. An unknown field is refused by its name, and so is a name \
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
    for kind in ProblemKind::ALL {
        let _ = writeln!(text, "| `{}` | {} | {} |", kind.uri(), kind.status().as_u16(), kind.remedy());
    }
    text
}
