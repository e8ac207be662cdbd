//! The description of a field: its name, place, JSON Schema, meaning and example.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::schema::inline_schema;

/// The place of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A segment of the path.
    Path,
    /// The query.
    Query,
    /// A header.
    Header,
    /// The body.
    Body,
}

/// The description of a field.
pub type Words = Cow<'static, str>;

/// A named value: a parameter, or a member of a body.
#[derive(Debug, Clone, Serialize)]
pub struct Field {
    /// Its name on the wire.
    pub name: &'static str,
    /// Its place.
    #[serde(rename = "in")]
    pub place: Place,
    /// Whether it must be there.
    pub required: bool,
    /// Its meaning, and the rules that the schema cannot express.
    pub description: Words,
    /// Its JSON Schema, without references.
    pub schema: Value,
    /// A value of the example; none where the example leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
}

impl Field {
    /// A field that must be there, of this type.
    #[must_use]
    pub fn required<T: JsonSchema>(
        name: &'static str,
        example: impl Into<Value>,
        description: impl Into<Words>,
    ) -> Self {
        let example = Some(example.into());
        Self { required: true, example, ..Self::optional::<T>(name, description) }
    }

    /// A field of this type that may be absent.
    #[must_use]
    pub fn optional<T: JsonSchema>(name: &'static str, description: impl Into<Words>) -> Self {
        let (description, schema) = (description.into(), inline_schema::<T>());
        Self { name, place: Place::Body, required: false, description, schema, example: None }
    }

    /// The field with a value in the example.
    #[must_use]
    pub fn example(self, value: impl Into<Value>) -> Self {
        Self { example: Some(value.into()), ..self }
    }

    /// The field with one more demand, or another in its place; null takes one away.
    #[must_use]
    pub fn demand(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        self.schema[keyword] = value.into();
        if let Some(schema) = self.schema.as_object_mut() {
            schema.retain(|_, demand| !demand.is_null());
        }
        self
    }
}

/// A value as it stands in a path, a query or a form.
#[must_use]
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
