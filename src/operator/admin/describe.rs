//! What the descriptions of admin calls share: a builder, pages and common problems.

use std::marker::PhantomData;

use domain::fields::LIST_ITEMS_MAX;
use domain::ids::AppId;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::call::{Call, PAGE_ITEMS, PAGE_ITEMS_MAX};
use super::messages;
use super::problem::Problem;
use crate::openapi::{APP_ID, Content, Example, Field, Operation, Place, Success, schema};
use crate::state::AppState;

/// The moment of all examples.
pub(super) const MOMENT: &str = "2026-11-21T08:00:00Z";

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
    pub(super) fn body(mut self, fields: impl IntoIterator<Item = Field>) -> Self {
        self.operation = self.operation.body("application/json", fields.into_iter().collect());
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
