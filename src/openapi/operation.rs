//! What a face says of a call: its fields, its answers with examples, and its refusals.
//! `R` is what the face answers instead of success.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::schema::{Schema, inline_schema, schema};

/// A call: one method of one route.
#[derive(Debug, Clone)]
pub struct Operation<R> {
    /// One line.
    pub summary: &'static str,
    /// The rules of the call, in Markdown.
    pub description: String,
    /// What stands in path, query and header.
    pub parameters: Vec<Parameter>,
    /// The kinds of bodies it takes, the usual one first.
    pub bodies: Vec<Body>,
    /// What it answers when it succeeds.
    pub successes: Vec<Success>,
    /// Every refusal that it can answer, each once.
    pub refusals: Vec<Example<R>>,
}

/// Where a parameter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A segment of the path.
    Path,
    /// The query.
    Query,
    /// A header.
    Header,
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
    /// Its JSON Schema, without references.
    pub schema: Value,
    /// What it means, and what the schema cannot say.
    pub description: String,
    /// A value of the example; none where the example leaves it out.
    pub example: Option<Value>,
}

/// A kind of body.
#[derive(Debug, Clone)]
pub struct Body {
    /// Its content type.
    pub media_type: &'static str,
    /// Its fields.
    pub fields: Vec<Field>,
    /// Whether the request must have one.
    pub required: bool,
    /// Whether a field that is not among these is refused.
    pub strict: bool,
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
    /// A picture, whole or a part of it.
    Picture,
    /// Nothing.
    Empty,
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

impl<R> Operation<R> {
    /// An operation without fields and answers.
    pub fn new(summary: &'static str, description: impl Into<String>) -> Self {
        Self {
            summary,
            description: description.into(),
            parameters: Vec::new(),
            bodies: Vec::new(),
            successes: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// The operation with more parameters.
    #[must_use]
    pub fn with(mut self, place: Place, fields: impl IntoIterator<Item = Field>) -> Self {
        self.parameters.extend(fields.into_iter().map(|field| Parameter { place, field }));
        self
    }

    /// The operation with one more kind of body.
    #[must_use]
    pub fn body(mut self, media_type: &'static str, fields: Vec<Field>) -> Self {
        let required = fields.iter().any(|field| field.required);
        self.bodies.push(Body { media_type, fields, required, strict: false });
        self
    }

    /// The operation with one more success.
    #[must_use]
    pub fn answers(mut self, success: Success) -> Self {
        self.successes.push(success);
        self
    }

    /// The operation with more refusals.
    #[must_use]
    pub fn refuses(mut self, examples: impl IntoIterator<Item = Example<R>>) -> Self {
        self.refusals.extend(examples);
        self
    }
}

impl Success {
    /// JSON of this type, as the example shows it.
    ///
    /// # Panics
    /// On a type that is no JSON.
    pub fn json<T: JsonSchema + Serialize>(name: &'static str, summary: &'static str, example: &T) -> Self {
        let example = serde_json::to_value(example).expect("an answer is JSON");
        Self::new(name, summary, 200, Content::Json { schema: schema::<T>(), example })
    }

    /// An answer without headers of its own.
    #[must_use]
    pub fn new(name: &'static str, summary: &'static str, status: u16, content: Content) -> Self {
        Self { name, summary, status, content, headers: Vec::new() }
    }

    /// The answer with a header that only it has.
    #[must_use]
    pub fn header(mut self, name: &'static str, meaning: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, meaning, value.into()));
        self
    }
}

impl Field {
    /// A field that must be there, of this type.
    pub fn required<T: JsonSchema>(
        name: &'static str,
        example: impl Into<Value>,
        description: impl Into<String>,
    ) -> Self {
        let example = Some(example.into());
        Self { required: true, example, ..Self::optional::<T>(name, description) }
    }

    /// A field of this type that may be absent.
    pub fn optional<T: JsonSchema>(name: &'static str, description: impl Into<String>) -> Self {
        let description = description.into();
        Self { name, required: false, schema: inline_schema::<T>(), description, example: None }
    }

    /// The field with a value in the example.
    #[must_use]
    pub fn example(self, value: impl Into<Value>) -> Self {
        Self { example: Some(value.into()), ..self }
    }

    /// The field with one more demand, or another in its place.
    #[must_use]
    pub fn demand(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        self.schema[keyword] = value.into();
        self
    }

    /// The field, where empty text is as absent.
    #[must_use]
    pub fn or_empty(mut self) -> Self {
        self.schema.as_object_mut().and_then(|schema| schema.remove("minLength"));
        self
    }
}

impl Body {
    /// The example: its fields that have a value.
    #[must_use]
    pub fn example(&self) -> Map<String, Value> {
        let fields = self.fields.iter();
        fields.filter_map(|field| Some((field.name.to_owned(), field.example.clone()?))).collect()
    }
}

/// A value as it stands in a path, a query or a form.
#[must_use]
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
