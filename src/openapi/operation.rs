//! An operation: the description of a call by its face, with fields, answers, examples and refusals.
//! `R` is what the face answers instead of success.

use domain::input::{Field, Place, Schema, schema};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::WireRefusal;

/// A call: one method of one route.
#[derive(Debug, Clone)]
pub struct Operation<R> {
    /// One line.
    pub summary: &'static str,
    /// The rules of the call, in Markdown.
    pub description: String,
    /// The fields of path, query, header and body.
    pub fields: Vec<Field>,
    /// The content types that its body can have, the usual one first.
    pub media_types: &'static [&'static str],
    /// What it answers when it succeeds.
    pub successes: Vec<Success>,
    /// Every refusal that it can answer, each once.
    pub refusals: Vec<Example<R>>,
}

/// A row of a route table with its description.
#[derive(Debug, Clone)]
pub struct Described<T: 'static, R> {
    /// The row.
    pub route: &'static T,
    /// What is said of it.
    pub operation: Operation<R>,
}

/// The form of a success.
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
    /// Headers that only this answer has: name, meaning and a value.
    pub headers: Vec<(&'static str, &'static str, String)>,
}

/// The content of a success.
#[derive(Debug, Clone)]
pub enum Content {
    /// A JSON object like the example, with the schema of its type.
    Json {
        /// Schema of its type.
        schema: Schema,
        /// The example.
        example: Value,
    },
    /// A file of CSV.
    Csv {
        /// The example, a text.
        example: Value,
    },
    /// An archive of files.
    Zip,
    /// A picture, whole or a part of it.
    Picture,
    /// Nothing.
    Empty,
}

impl Content {
    /// The schema, where it is JSON.
    pub(super) fn schema(&self) -> Option<&Schema> {
        match self {
            Self::Json { schema, .. } => Some(schema),
            Self::Csv { .. } | Self::Zip | Self::Picture | Self::Empty => None,
        }
    }

    /// The example, where the document shows one.
    pub(super) fn example(&self) -> Option<&Value> {
        match self {
            Self::Json { example, .. } | Self::Csv { example } => Some(example),
            Self::Zip | Self::Picture | Self::Empty => None,
        }
    }
}

/// A refusal with the name of its example.
#[derive(Debug, Clone)]
pub struct Example<R> {
    /// Name of the example, as the tests know it.
    pub name: &'static str,
    /// When it comes.
    pub summary: &'static str,
    /// The refusal, made by the code that makes it in earnest.
    pub refusal: R,
}

impl<R> Example<R> {
    /// A refusal with the name that tests know it by, and when it comes.
    pub(crate) fn new(name: &'static str, summary: &'static str, refusal: impl Into<R>) -> Self {
        Self { name, summary, refusal: refusal.into() }
    }
}

impl<R> Operation<R> {
    /// An operation without fields and answers.
    pub(crate) fn new(summary: &'static str, description: impl Into<String>) -> Self {
        Self {
            summary,
            description: description.into(),
            fields: Vec::new(),
            media_types: &[],
            successes: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// The operation with more fields.
    pub(crate) fn with(mut self, place: Place, fields: impl IntoIterator<Item = Field>) -> Self {
        self.fields.extend(fields.into_iter().map(|field| Field { place, ..field }));
        self
    }

    /// The operation with a body of these fields, in any of these content types.
    pub(crate) fn body(
        self,
        media_types: &'static [&'static str],
        fields: impl IntoIterator<Item = Field>,
    ) -> Self {
        Self { media_types, ..self.with(Place::Body, fields) }
    }

    /// Its fields in this place.
    pub fn fields_in(&self, place: Place) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(move |field| field.place == place)
    }

    /// The operation with one more success.
    pub(crate) fn answers(mut self, success: Success) -> Self {
        self.successes.push(success);
        self
    }

    /// The operation with more refusals.
    pub(crate) fn refuses(mut self, examples: impl IntoIterator<Item = Example<R>>) -> Self {
        self.refusals.extend(examples);
        self
    }

    /// The operation with its refusals as they go over the wire.
    pub(crate) fn rendered(self, render: impl Fn(R) -> WireRefusal) -> Operation<WireRefusal> {
        let Self { summary, description, fields, media_types, successes, refusals } = self;
        let refusals = refusals.into_iter();
        let refusals = refusals.map(|shown| Example::new(shown.name, shown.summary, render(shown.refusal)));
        Operation { summary, description, fields, media_types, successes, refusals: refusals.collect() }
    }
}

impl Success {
    /// JSON of this type, as the example shows it.
    ///
    /// # Panics
    /// On a type that is no JSON.
    pub(crate) fn json<T: JsonSchema + Serialize>(
        name: &'static str,
        summary: &'static str,
        example: &T,
    ) -> Self {
        let example = serde_json::to_value(example).expect("an answer is JSON");
        Self::new(name, summary, 200, Content::Json { schema: schema::<T>(), example })
    }

    /// An answer without headers of its own.
    pub(crate) fn new(name: &'static str, summary: &'static str, status: u16, content: Content) -> Self {
        Self { name, summary, status, content, headers: Vec::new() }
    }

    /// The answer with a header that only it has.
    pub(crate) fn header(
        mut self,
        name: &'static str,
        meaning: &'static str,
        value: impl Into<String>,
    ) -> Self {
        self.headers.push((name, meaning, value.into()));
        self
    }
}
