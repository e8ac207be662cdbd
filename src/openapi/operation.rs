//! What is said of a call, before it becomes OpenAPI or a page: its fields, examples and refusals.
//! What a description can take from the code (limits, patterns, codes, texts) it takes from there.

use std::time::Duration;

use domain::fields::{Expected, Fields};
use store::StoreError;

use super::json::{Json, object};
use crate::body::{too_large, too_slow};
use crate::error::{Code, Refusal};

/// App id of all examples.
pub(super) const APP_ID: &str = "demo";
/// Player of all examples.
pub(super) const OPEN_ID: &str = "player-1";
/// Access token of all examples. It is none.
pub(super) const ACCESS_TOKEN: &str = "440db387e44d0ba1c4b1f4e2b2b6b3f7d3f9fd1d9d7dbe1b2f8e1f0c9a5b7c3d";
/// The moment of all examples, in milliseconds.
pub(super) const NOW_MILLIS: i64 = 1_800_000_000_000;
/// Picture of all examples.
pub const IMG_ID: &str = "3485da3dd58eb2ab68d81857411d8c4a7c0577a3785b0685";

/// A call: one method of one route.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Its name for generated clients.
    pub id: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The section's rules: paragraphs, lists with `- ` and code in backticks.
    pub description: String,
    /// What stands in path, query and header.
    pub parameters: Vec<Parameter>,
    /// The kinds of bodies it takes, the usual one first.
    pub bodies: Vec<Body>,
    /// Whether it needs a body.
    pub body_required: bool,
    /// What it answers when it succeeds.
    pub successes: Vec<Success>,
    /// Every refusal that it can answer, each once.
    pub refusals: Vec<RefusalExample>,
}

/// Where a parameter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A segment of the path.
    Path,
    /// The query.
    Query,
    /// A header.
    Header,
}

impl Place {
    /// The word of OpenAPI.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
        }
    }
}

/// A field with its place.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Where it stands.
    pub place: Place,
    /// What it is.
    pub field: Field,
}

/// A named value: a parameter, or a member of a body.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name on the wire.
    pub name: &'static str,
    /// Whether it must be there.
    pub required: bool,
    /// JSON Schema of it.
    pub schema: Json,
    /// What it means, and what the schema cannot say.
    pub description: String,
    /// A value of the example; none where the example leaves it out.
    pub example: Option<Json>,
}

/// A kind of body.
#[derive(Debug, Clone)]
pub struct Body {
    /// Its content type.
    pub media_type: &'static str,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// What a success looks like.
#[derive(Debug, Clone)]
pub struct Success {
    /// Name of the example, as the tests know it.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Status of HTTP.
    pub status: u16,
    /// What comes.
    pub content: Content,
    /// Headers that only this answer has, with a value.
    pub headers: Vec<(&'static str, &'static str, String)>,
}

/// The content of a success.
#[derive(Debug, Clone)]
pub enum Content {
    /// A JSON object like the example, with its schema.
    Json {
        /// JSON Schema of it.
        schema: Json,
        /// The example.
        example: Json,
    },
    /// A picture, whole or a part of it.
    Picture,
    /// Nothing.
    Empty,
}

/// One refusal, made by the code that makes it in earnest.
#[derive(Debug, Clone)]
pub struct RefusalExample {
    /// Name of the example, as the tests know it.
    pub name: &'static str,
    /// When it comes.
    pub summary: &'static str,
    /// The refusal.
    pub refusal: Refusal,
}

impl Field {
    /// A field that must be there.
    pub(super) fn required(
        name: &'static str,
        schema: Json,
        example: impl Into<Json>,
        description: impl Into<String>,
    ) -> Self {
        Self { name, required: true, schema, description: description.into(), example: Some(example.into()) }
    }

    /// A field that may be absent.
    pub(super) fn optional(name: &'static str, schema: Json, description: impl Into<String>) -> Self {
        Self { name, required: false, schema, description: description.into(), example: None }
    }

    /// The field with a value in the example.
    pub(super) fn example(mut self, value: impl Into<Json>) -> Self {
        self.example = Some(value.into());
        self
    }

    /// The field as a parameter.
    pub(super) fn at(self, place: Place) -> Parameter {
        Parameter { place, field: self }
    }
}

impl Body {
    /// The example: its fields that have a value.
    #[must_use]
    pub fn example(&self) -> Json {
        let fields = self.fields.iter();
        Json::Object(
            fields.filter_map(|field| Some((field.name.to_owned(), field.example.clone()?))).collect(),
        )
    }
}

/// Text that matches a regular expression.
pub(super) fn pattern(pattern: &str) -> Json {
    object! { "type": "string", "pattern": pattern }
}

/// Text of so many characters; a limit in bytes is no smaller one in characters.
pub(super) fn text(min: usize, max: usize) -> Json {
    object! { "type": "string", "minLength": min, "maxLength": max }
}

/// An integer within limits.
pub(super) fn integer(minimum: i64, maximum: i64) -> Json {
    object! { "type": "integer", "format": "int64", "minimum": minimum, "maximum": maximum }
}

/// `app_id` and `access_token` as parameters of the query.
pub(super) fn credentials(required: bool) -> Vec<Parameter> {
    let field = |name, schema, example: &str, description: &str| {
        let field = Field::required(name, schema, example, description);
        Field { required, ..field }.at(Place::Query)
    };
    let either = if required { "" } else { " Here or in the body." };
    vec![
        field(
            "app_id",
            pattern(domain::ids::AppId::PATTERN),
            APP_ID,
            &format!("The app, {}.{either}", domain::ids::AppId::EXPECTED),
        ),
        field(
            "access_token",
            object! { "type": "string", "minLength": 1 },
            ACCESS_TOKEN,
            &format!("A token of the app from `/oauth2/access_token`.{either}"),
        ),
    ]
}

/// A refusal with a name.
pub(super) fn refused(name: &'static str, summary: &'static str, refusal: Refusal) -> RefusalExample {
    RefusalExample { name, summary, refusal }
}

/// A refusal with a code and a text of its own.
pub(super) fn said(name: &'static str, summary: &'static str, code: Code, text: &str) -> RefusalExample {
    refused(name, summary, Refusal::new(code, text))
}

/// What the parser of a field says of a value.
///
/// # Panics
/// When the parser takes it: then it is no example of a refusal.
pub(super) fn wrong_value<T: std::fmt::Debug>(
    code: Code,
    name: &'static str,
    value: &str,
    parse: impl FnOnce(&str) -> Result<T, Expected>,
) -> Refusal {
    let mut fields = Fields::default();
    fields.add_text(name.to_owned(), value.to_owned()).expect("an example holds no NUL");
    Refusal::field(code, &fields.required(name, parse).expect_err("the example is refused"))
}

/// The refusals of an access token, in the order of the checks.
pub(super) fn token_refusals() -> Vec<RefusalExample> {
    vec![
        said("app_id_missing", "No `app_id` came.", Code::Unauthorised, "app_id is missing"),
        said("access_token_missing", "No token came.", Code::Unauthorised, "access_token is missing"),
        said("unknown_app", "There is no such app.", Code::Unauthorised, "app_id: unknown app"),
        said(
            "access_token_unknown",
            "The token is not one of this app.",
            Code::Unauthorised,
            "access_token: expected a token of this app",
        ),
        said(
            "access_token_expired",
            "The token has expired.",
            Code::Unauthorised,
            "access_token: expired, request a new one",
        ),
        suspended(),
    ]
}

/// The refusal of an app that the operator has suspended.
pub(super) fn suspended() -> RefusalExample {
    said(
        "app_suspended",
        "The operator has suspended the app.",
        Code::Forbidden,
        "app_id: the app is suspended",
    )
}

/// The refusals that come at any time: too often, too large, too slow, a fault of ours, overload.
pub(super) fn general_refusals(body_bytes_max: usize, body_timeout: Duration) -> Vec<RefusalExample> {
    vec![
        refused(
            "rate_limited",
            "The app calls too often; wait as `Retry-After` says.",
            Refusal::rate_limited(Duration::from_secs(1)),
        ),
        refused("body_too_slow", "The body did not come in time.", too_slow(body_timeout)),
        refused("body_too_large", "The body is larger than accepted.", too_large(body_bytes_max)),
        refused("system_error", "A fault of ours.", Refusal::internal("")),
        refused(
            "unavailable",
            "The database is away, or it is overloaded. Safe to repeat, as `Retry-After` says.",
            Refusal::from(StoreError::Unavailable(String::new())),
        ),
    ]
}
