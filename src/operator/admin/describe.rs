//! What the descriptions of admin calls share: pages, common problems, and the document.

use std::fmt::Write as _;
use std::marker::PhantomData;

use domain::ids::{AppId, IdempotencyKey};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use store::StoreError;

use super::call::{Call, PAGE_ITEMS, PAGE_ITEMS_MAX};
use super::input::LIST_ITEMS_MAX;
use super::messages;
use super::problem::{Kind, Problem, ProblemBody};
use super::routes::{Access, ROUTES, Route};
use crate::body::{too_large, too_slow};
use crate::config::Config;
use crate::openapi::{
    self, APP_ID, Api, Content, Document, Example, Field, Operation, Place, Refused, Success, schema,
};
use crate::state::AppState;

/// The API key of all examples. It is not valid.
pub const API_KEY: &str = "mtk_440db387e44d0ba1c4b1f4e2b2b6b3f7d3f9fd1d9d7dbe1b2f8e1f0c9a5b7c3d";
/// The id of the request in all examples of problems.
pub const EXAMPLE_REQUEST_ID: &str = "8d7b1d2e6a0f4c3b0000000000000001";
/// The moment of all examples.
pub(super) const MOMENT: &str = "2026-11-21T08:00:00Z";
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

/// A description of a call whose handler answers `A`.
pub(super) struct Described<A> {
    operation: Operation<Problem>,
    answer: PhantomData<fn() -> A>,
}

/// What is said of a call whose handler answers `A`, with the name, the meaning and the JSON of its example.
pub(super) fn describe<A: JsonSchema>(
    summary: &'static str,
    description: impl Into<String>,
    (name, meaning): (&'static str, &'static str),
    example: Value,
) -> Described<A> {
    let success = Success::new(name, meaning, 200, Content::Json { schema: schema::<A>(), example });
    Described { operation: Operation::new(summary, description).answers(success), answer: PhantomData }
}

impl<A> Described<A> {
    /// With these segments of the path.
    pub(super) fn path<const N: usize>(self, fields: [Field; N]) -> Self {
        Self { operation: self.operation.with(Place::Path, fields), ..self }
    }

    /// With these fields of the query.
    pub(super) fn query(self, fields: impl IntoIterator<Item = Field>) -> Self {
        Self { operation: self.operation.with(Place::Query, fields), ..self }
    }

    /// With `limit` and `after` in the query.
    pub(super) fn paged(self) -> Self {
        let limit = Field::optional::<i64>("limit", "How many at most.").example(PAGE_ITEMS);
        let limit =
            limit.demand("minimum", 1).demand("maximum", PAGE_ITEMS_MAX).demand("default", PAGE_ITEMS);
        self.query([limit, Field::optional::<String>("after", "`next` of the page before.")])
    }

    /// With a body of one JSON object that has these members alone.
    pub(super) fn body<const N: usize>(mut self, fields: [Field; N]) -> Self {
        self.operation = self.operation.body("application/json", fields.into());
        self.operation.bodies.iter_mut().for_each(|body| body.strict = true);
        self
    }

    /// With these problems.
    pub(super) fn refuses<const N: usize>(self, examples: [Example<Problem>; N]) -> Self {
        Self { operation: self.operation.refuses(examples), ..self }
    }

    /// As an answer of 201 that leads to what was made.
    pub(super) fn created(mut self, location: &'static str) -> Self {
        for success in &mut self.operation.successes {
            success.status = 201;
            success.headers.push(("Location", "Where it is.", location.to_owned()));
        }
        self
    }

    /// The description of a handler that answers what it says.
    pub(super) fn of(self, _: impl AsyncFn(&AppState, &Call) -> Result<A, Problem>) -> Operation<Problem> {
        self.operation
    }
}

/// A page of a list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    /// What to send as `after` for the next page. It is null on the last page.
    pub(super) next: Option<String>,
}

/// `app_id` as a segment of the path.
pub(super) fn app_in_path() -> Field {
    Field::required::<AppId>("app_id", APP_ID, "The app.")
}

/// A list of 1 to 1,000 texts of this type.
pub(super) fn list<T: JsonSchema>(name: &'static str, example: &[&str], description: &str) -> Field {
    let field = Field::required::<Vec<T>>(name, example.to_vec(), description);
    field.demand("minItems", 1).demand("maxItems", LIST_ITEMS_MAX)
}

/// A moment in a query.
pub(super) fn moment(name: &'static str, description: &str) -> Field {
    Field::optional::<String>(name, description).demand("format", "date-time")
}

/// The app of the examples.
///
/// # Panics
/// Never: the app of the examples has an id.
pub(super) fn app_id() -> AppId {
    AppId::parse(APP_ID).expect("the app of the examples has an id")
}

/// A problem with the name that tests know it by.
pub(super) fn problem(name: &'static str, summary: &'static str, problem: Problem) -> Example<Problem> {
    Example { name, summary, refusal: problem }
}

/// There is no such app.
pub(super) fn no_app() -> Example<Problem> {
    problem("no_app", "There is no such app.", messages::no_app(&app_id()))
}

/// A wrong field.
pub(super) fn wrong_field(name: &'static str, detail: &str) -> Example<Problem> {
    problem("invalid_field", "A field is wrong; `errors` names it.", Problem::field(name, detail))
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
