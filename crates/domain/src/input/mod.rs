//! The fields of a request, each once: the function that reads them also describes them, for the documents of both
//! APIs and for the signature.

mod field;
mod schema;

use std::fmt::Debug;

use schemars::JsonSchema;
use serde_json::Value;

pub use self::field::{Field, Place, Words, plain};
pub use self::schema::{Schema, schema};
use crate::fields::{Expected, FieldError, Fields};

type Parsed<T> = Result<T, Expected>;
/// A field that was read, or what is wrong with it.
pub(crate) type Read<T> = Result<T, FieldError>;

/// Names of fields that one request usually has.
const NAMES_USUAL: usize = 16;

/// What a reader of fields works on: the fields of a request, or no request at all. Without a request nothing is parsed
/// but the examples, and each field is described.
#[derive(Debug)]
pub struct Input<'a> {
    request: Option<&'a Fields>,
    names: Vec<&'static str>,
    described: Vec<Field>,
}

impl<'a> Input<'a> {
    /// The fields of a request.
    #[must_use]
    pub fn of(fields: &'a Fields) -> Self {
        Self { request: Some(fields), names: Vec::with_capacity(NAMES_USUAL), described: Vec::new() }
    }

    /// The fields that a reader reads, as it describes them.
    ///
    /// # Panics
    /// When the reader refuses its own examples.
    pub fn describe<T, E: Debug>(read: impl FnOnce(&mut Self) -> Result<T, E>) -> Vec<Field> {
        let mut input = Self { request: None, names: Vec::new(), described: Vec::new() };
        read(&mut input).map(drop).expect("a reader takes its examples");
        input.described
    }

    /// The names that were asked for.
    #[must_use]
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// Why a field has no value, where another one asks for it.
    #[must_use]
    pub fn absent(&self, name: &str) -> FieldError {
        self.request.map_or_else(|| Fields::default().absent(name), |fields| fields.absent(name))
    }

    /// What is wrong with a field that does not fit the others, as [`Fields::unfit`] tells it.
    #[must_use]
    pub fn unfit(&self, name: &str, expected: Expected) -> FieldError {
        match self.request {
            Some(fields) => fields.unfit(name, expected),
            None => self.absent(name),
        }
    }

    /// The field of this name, and what it means. It is read by a method of [`FieldReader`].
    pub fn field(&mut self, name: &'static str, description: impl Into<Words>) -> FieldReader<'_, 'a> {
        FieldReader { input: self, name, description: description.into(), example: None, demands: Vec::new() }
    }

    /// The same of a field whose meaning is put together. It costs nothing when a request is read.
    pub fn field_with(
        &mut self,
        name: &'static str,
        description: impl FnOnce() -> String,
    ) -> FieldReader<'_, 'a> {
        let description = if self.request.is_none() { description().into() } else { Words::default() };
        self.field(name, description)
    }
}

/// A field that is about to be read.
#[derive(Debug)]
pub struct FieldReader<'i, 'a> {
    input: &'i mut Input<'a>,
    name: &'static str,
    description: Words,
    example: Option<Value>,
    demands: Vec<(&'static str, Value)>,
}

impl<'a> FieldReader<'_, 'a> {
    /// The field with a value in the example.
    #[must_use]
    pub fn example(mut self, value: impl Into<Value>) -> Self {
        if self.input.request.is_none() {
            self.example = Some(value.into());
        }
        self
    }

    /// The field with one more demand of its schema, or another in its place; null takes one away.
    #[must_use]
    pub fn demand(mut self, keyword: &'static str, value: impl Into<Value>) -> Self {
        if self.input.request.is_none() {
            self.demands.push((keyword, value.into()));
        }
        self
    }

    /// The same of a demand that is put together. It costs nothing when a request is read.
    #[must_use]
    pub fn demand_with(mut self, keyword: &'static str, value: impl FnOnce() -> Value) -> Self {
        if self.input.request.is_none() {
            self.demands.push((keyword, value()));
        }
        self
    }

    /// Reads a value that may be absent.
    ///
    /// # Errors
    /// A value of a wrong type, or one that `parse` refuses.
    pub fn optional<T: JsonSchema>(self, parse: impl FnOnce(&str) -> Parsed<T>) -> Read<Option<T>> {
        self.optional_as::<T, T>(parse)
    }

    /// The same of a value that is absent where its text is empty.
    ///
    /// # Errors
    /// As [`FieldReader::optional`].
    pub fn or_empty<T: JsonSchema>(self, parse: impl FnOnce(&str) -> Parsed<T>) -> Read<Option<T>> {
        self.demand("minLength", Value::Null).optional(parse)
    }

    /// The same of a value that has the schema of another type.
    ///
    /// # Errors
    /// As [`FieldReader::optional`].
    pub fn optional_as<S: JsonSchema, T>(self, parse: impl FnOnce(&str) -> Parsed<T>) -> Read<Option<T>> {
        let name = self.name;
        self.came::<S>(false).map_or(Ok(None), |fields| fields.optional(name, parse))
    }

    /// Reads a value that must be there, and is this one in the example.
    ///
    /// # Errors
    /// Absent or empty, a value of a wrong type, or one that `parse` refuses.
    pub fn required<T: JsonSchema>(
        self,
        example: impl Into<Value>,
        parse: impl FnOnce(&str) -> Parsed<T>,
    ) -> Read<T> {
        self.required_as::<T, T>(example, parse)
    }

    /// The same of a value that has the schema of another type.
    ///
    /// # Errors
    /// As [`FieldReader::required`].
    pub fn required_as<S: JsonSchema, T>(
        self,
        example: impl Into<Value>,
        parse: impl FnOnce(&str) -> Parsed<T>,
    ) -> Read<T> {
        let name = self.name;
        if let Some(fields) = self.input.request {
            self.input.names.push(name);
            return fields.required(name, parse);
        }
        let example = example.into();
        let text = plain(&example);
        self.example(example).came::<S>(true);
        parse(&text).map_err(|expected| FieldError::malformed(name, expected.0, &text))
    }

    /// Reads an integer within limits that may be absent.
    ///
    /// # Errors
    /// A value of a wrong type, or outside the limits.
    pub fn integer(self, min: i64, max: i64) -> Read<Option<i64>> {
        let (name, asked) = (self.name, self.demand("minimum", min));
        let asked = if max < i64::MAX { asked.demand("maximum", max) } else { asked };
        asked.came::<i64>(false).map_or(Ok(None), |fields| fields.integer(name, min, max))
    }

    /// Reads an integer within limits that must be there, and is this one in the example.
    ///
    /// # Errors
    /// Absent, a value of a wrong type, or outside the limits.
    pub fn required_integer(self, example: i64, min: i64, max: i64) -> Read<i64> {
        let (name, asked) = (self.name, self.demand("minimum", min).demand("maximum", max));
        match asked.example(example).came::<i64>(true) {
            Some(fields) => fields.integer(name, min, max)?.ok_or_else(|| fields.absent(name)),
            None => Ok(example),
        }
    }

    /// Reads a yes or no that may be absent.
    ///
    /// # Errors
    /// A value of a wrong type.
    pub fn flag(self) -> Read<Option<bool>> {
        let name = self.name;
        self.came::<bool>(false).map_or(Ok(None), |fields| fields.flag(name))
    }

    /// The fields of the request; where there is none, describes the field, which has the schema of `S`.
    fn came<S: JsonSchema>(self, required: bool) -> Option<&'a Fields> {
        let Self { input, name, description, example, demands } = self;
        input.names.push(name);
        if input.request.is_none() {
            let field = Field { required, example, ..Field::optional::<S>(name, description) };
            let demand = |field: Field, (keyword, value)| field.demand(keyword, value);
            input.described.push(demands.into_iter().fold(field, demand));
        }
        input.request
    }
}
