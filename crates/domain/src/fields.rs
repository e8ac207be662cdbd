//! The fields of a request: from a query, a form, a JSON object or the command line. All requests
//! are read here, by the public API (contract 2.5), the admin API, the console and the command line.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::body::{BodyKind, without_mark};
use crate::redaction::redacted;
use crate::text;
use crate::text::Text;

/// The most fields of a request. No call needs so many.
const FIELDS_MAX: usize = 256;
/// Most elements of a list.
pub const LIST_ITEMS_MAX: usize = 1000;
/// How many characters of a value an error repeats.
const SHOWN_CHARS_MAX: usize = 64;
/// Fields whose value no answer and no log may repeat (contract 2.8).
const SECRET_FIELDS: [&str; 7] =
    ["access_token", "authorizer_access_token", "app_secret", "js_code", "secret", "sign", "user_ip"];

/// Whether no answer and no log may repeat the value of a field of this name (contract 2.8).
#[must_use]
pub fn is_secret(name: &str) -> bool {
    SECRET_FIELDS.contains(&name)
}

/// Whether a log must hide the value of a field: its name is nearly that of a secret, or a secret stands in the value.
#[must_use]
pub fn holds_secret(name: &str, value: &str) -> bool {
    let name = bare(name);
    SECRET_FIELDS.iter().any(|secret| bare(secret) == name || holds_pair(value, secret))
}

/// What was expected of a value that did not parse, in words that follow "expected".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected(pub Text);

impl Expected {
    /// A fixed expectation.
    #[must_use]
    pub const fn new(words: &'static str) -> Self {
        Self(Text::new(words))
    }

    /// One of these words.
    #[must_use]
    pub fn one_of(words: &[&str]) -> Self {
        let (last, others) = words.split_last().unwrap_or((&"nothing", &[]));
        Self(if others.is_empty() {
            Text::same(last)
        } else {
            text!("{others} or {last}", others = others.join(", "), last)
        })
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text!("expected {expected}", expected = self.0).english())
    }
}

impl std::error::Error for Expected {}

/// The reason why a field was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Name of the field.
    pub field: String,
    /// What is wrong with it.
    pub problem: FieldErrorKind,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// Required, and absent.
    Missing,
    /// Required, and absent; this name came, which differs from it by what is no letter, or by case.
    Misspelt {
        /// What came.
        came: String,
    },
    /// Required, and absent; its name stands in the value of another field, behind what is no `&`.
    Swallowed {
        /// The other field.
        by: String,
        /// Whether the other field has JSON.
        is_json: bool,
    },
    /// Absent, and so are the fields that may stand in its place.
    WithoutOthers(&'static str),
    /// Required, and empty.
    Empty,
    /// Required, and sent in another place of the request.
    Misplaced(Misplacement),
    /// Not a field of this request.
    Unknown {
        /// What was expected, as a sentence.
        expected: Text,
    },
    /// Of a wrong JSON type: a boolean, an object, a float.
    WrongType {
        /// What was expected.
        expected: Text,
        /// What came.
        got: Text,
    },
    /// Text that does not parse.
    Malformed {
        /// What was expected.
        expected: Text,
        /// What came; `None` where a value may not be repeated.
        got: Option<Text>,
    },
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text().english())
    }
}

impl FieldError {
    /// The error as a text, which begins with the field.
    #[must_use]
    pub fn text(&self) -> Text {
        let (field, problem) = (&self.field, self.problem.text());
        match &self.problem {
            FieldErrorKind::Missing
            | FieldErrorKind::WithoutOthers(_)
            | FieldErrorKind::Misspelt { .. }
            | FieldErrorKind::Swallowed { .. }
            | FieldErrorKind::Empty => text!("{field} {problem}", field, problem),
            FieldErrorKind::Misplaced(_)
            | FieldErrorKind::Unknown { .. }
            | FieldErrorKind::WrongType { .. }
            | FieldErrorKind::Malformed { .. } => text!("{field}: {problem}", field, problem),
        }
    }

    /// Whether text came that does not parse.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        matches!(self.problem, FieldErrorKind::Malformed { .. })
    }

    fn wrong_type(name: &str, Expected(expected): Expected, got: &FieldValue) -> Self {
        let problem = if is_secret(name) {
            FieldErrorKind::Malformed { expected, got: None }
        } else {
            FieldErrorKind::WrongType { expected, got: got.shown() }
        };
        Self { field: name.to_owned(), problem }
    }

    /// A field that is absent, as are `others`, which may stand in its place.
    #[must_use]
    pub fn without(name: &str, others: &'static str) -> Self {
        Self { field: name.to_owned(), problem: FieldErrorKind::WithoutOthers(others) }
    }

    /// A value that did not parse, or that parsed but is not acceptable.
    #[must_use]
    pub fn malformed(name: &str, expected: impl Into<Text>, value: &str) -> Self {
        let got = (!is_secret(name)).then(|| Text::same(shown(value)));
        Self { field: name.to_owned(), problem: FieldErrorKind::Malformed { expected: expected.into(), got } }
    }
}

impl FieldErrorKind {
    /// The problem as a text, without the field.
    #[must_use]
    pub fn text(&self) -> Text {
        match self {
            Self::Missing => text!("is missing"),
            Self::WithoutOthers(others) => text!("is missing; without it, expected {others}", others),
            Self::Misspelt { came } => text!("is missing; {came} came", came = shown(came)),
            Self::Swallowed { by, is_json: true } => {
                text!("is missing; it came inside the JSON of {by}: send that as it is", by = shown_plain(by))
            }
            Self::Swallowed { by, is_json: false } => {
                text!(
                    "is missing; it came in the value of {by}: join fields with \"&\"",
                    by = shown_plain(by)
                )
            }
            Self::Empty => text!("is empty"),
            Self::Misplaced(Misplacement { expected, got }) => {
                let (expected, got) = (Text::new(expected), Text::new(got));
                text!("expected in the {expected}, it came in the {got}", expected, got)
            }
            Self::Unknown { expected } => expected.clone(),
            Self::WrongType { expected, got } | Self::Malformed { expected, got: Some(got) } => {
                text!("expected {expected}, got {got}", expected, got)
            }
            Self::Malformed { expected, got: None } => text!("expected {expected}", expected),
        }
    }
}

/// The place of a request where fields were expected, and the other place where some came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misplacement {
    /// Where they are read: `query`, `form`.
    pub expected: &'static str,
    /// Where they came: `query`, `body`.
    pub got: &'static str,
}

/// The reason why a body or a query has no readable fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnreadableFields {
    /// Not UTF-8 after decoding.
    NotUtf8(Text),
    /// A NUL character.
    Nul(Text),
    /// The same name twice.
    Twice(Text),
    /// More than a request may have.
    TooMany,
    /// A body of another kind.
    WrongKind {
        /// What was expected.
        expected: Text,
        /// What came.
        got: BodyKind,
    },
    /// Not one JSON object whose values have types.
    NotJson(String),
    /// Not a JSON object.
    NotAnObject(Text),
}

impl UnreadableFields {
    /// The reason as a text.
    #[must_use]
    pub fn text(&self) -> Text {
        match self {
            Self::NotUtf8(what) => text!("{what}: expected UTF-8 text", what),
            Self::Nul(what) => text!("{what}: expected text without NUL characters", what),
            Self::Twice(what) => text!("{what}: expected once, given twice", what),
            Self::TooMany => text!("expected at most {max} fields", max = FIELDS_MAX),
            Self::WrongKind { expected, got } => {
                text!("body: expected {expected}, got {got}", expected, got = got.name())
            }
            Self::NotJson(fault) => text!("body: expected one JSON object: {fault}", fault),
            Self::NotAnObject(got) => text!("body: expected a JSON object, got {got}", got),
        }
    }
}

impl fmt::Display for UnreadableFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text().english())
    }
}

impl std::error::Error for UnreadableFields {}

/// One value as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldValue {
    /// Text.
    Text(String),
    /// A JSON number, exactly as it was written.
    Number(String),
    /// JSON `null`.
    Null,
    /// Yes or no.
    Flag(bool),
    /// A list.
    List(Vec<FieldValue>),
    /// A JSON object with its members in order. Only the strict typing has it.
    Object(Vec<(String, FieldValue)>),
    /// A JSON value of a type that no field has, and its name.
    Other(&'static str),
}

impl FieldValue {
    /// The value as an error repeats it.
    fn shown(&self) -> Text {
        match self {
            Self::Text(text) => Text::same(shown(text)),
            Self::Number(number) => Text::same(shown_plain(number)),
            Self::Null => Text::same("null"),
            Self::Flag(flag) => Text::same(flag),
            Self::List(items) => text!("a list of {count}", count = items.len()),
            Self::Object(_) => text!("an object"),
            Self::Other(kind) => Text::new(kind),
        }
    }
}

/// How strictly values are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Typing {
    /// The public API: a number may come as text, an identifier as an integer, and empty is absent.
    #[default]
    Loose,
    /// The admin API and the command line: every value has its type, and nothing is converted.
    Strict,
    /// A form of the console: text alone, without the blanks around it; a list has one value a line.
    Form,
}

/// How a request changes a value that may be absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Update<T> {
    /// It stays as it is: the field did not come.
    #[default]
    Unchanged,
    /// There is none afterwards: the field came and is empty.
    Cleared,
    /// This value.
    To(T),
}

impl<T> Update<T> {
    /// The value afterwards.
    pub fn after(self, before: Option<T>) -> Option<T> {
        match self {
            Self::Unchanged => before,
            Self::Cleared => None,
            Self::To(value) => Some(value),
        }
    }
}

/// The fields of one request in the order they came, each name once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    values: Vec<(String, FieldValue)>,
    typing: Typing,
    /// Names that came in a place where they are not read. Most requests have none.
    misplaced: Vec<(String, Misplacement)>,
    /// Fields that have another name at another endpoint. Most requests have none.
    renamed: Vec<RenamedField>,
}

/// A field that has another name at another endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RenamedField {
    /// The name that it has in [`Fields`].
    name: &'static str,
    /// The name that it has in the request.
    sent: &'static str,
    /// The name of the other endpoint.
    other: &'static str,
    /// Whether that one came.
    has_other: bool,
}

impl Fields {
    /// Reads `a=b&c=d` with percent and plus decoding, as a query or a form body has it.
    ///
    /// # Errors
    /// Bytes that are not UTF-8, NUL, a name given twice, too many fields.
    pub fn from_urlencoded(encoded: &[u8]) -> Result<Self, UnreadableFields> {
        let mut fields = Self::default();
        for pair in without_mark(encoded).split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            let mut halves = pair.splitn(2, |byte| *byte == b'=');
            let (name, value) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
            let name = decode(name).ok_or_else(|| UnreadableFields::NotUtf8(text!("a field name")))?;
            check_name(&name)?;
            let value = decode(value).ok_or_else(|| UnreadableFields::NotUtf8(shown_name(&name)))?;
            fields.add_text(name, value)?;
        }
        Ok(fields)
    }

    /// Reads the body of a call that takes a form alone, whatever its content type says. Blanks before it and line ends
    /// around it do not count: they come from the file that the body was made of.
    ///
    /// # Errors
    /// As [`Fields::from_urlencoded`], and a body of another kind.
    pub fn from_form_body(body: &[u8]) -> Result<Self, UnreadableFields> {
        match BodyKind::of(body) {
            BodyKind::Form | BodyKind::Nothing => {
                Self::from_urlencoded(without_line_end(without_mark(body).trim_ascii_start()))
            }
            got => Err(no_form(got)),
        }
    }

    /// Reads a form of the console, or the query of a page.
    ///
    /// # Errors
    /// As [`Fields::from_urlencoded`].
    pub fn from_form(encoded: &[u8]) -> Result<Self, UnreadableFields> {
        Ok(Self { typing: Typing::Form, ..Self::from_urlencoded(encoded)? })
    }

    /// Reads one JSON object. Only the top level matters; what is nested is kept as a type.
    ///
    /// # Errors
    /// As [`Fields::from_urlencoded`], and anything that is not one JSON object.
    pub fn from_json(body: &[u8]) -> Result<Self, UnreadableFields> {
        let body = without_mark(body);
        match BodyKind::of(body) {
            // What it is instead of an object is told by the parser.
            BodyKind::Json | BodyKind::Nothing | BodyKind::JsonText | BodyKind::PlainText => {}
            got => return Err(UnreadableFields::WrongKind { expected: text!("a JSON object"), got }),
        }
        let text = std::str::from_utf8(body).map_err(|_| UnreadableFields::NotUtf8(Text::same("body")))?;
        if text.contains('\0') {
            return Err(UnreadableFields::Nul(Text::same("body")));
        }
        let object: Members<&RawValue> =
            serde_json::from_str(text).map_err(|error| json_fault(text, &error))?;
        let mut fields = Self::default();
        for (name, raw) in object.0 {
            check_name(&name)?;
            match json_value(&name, raw.get())? {
                FieldValue::Text(text) => fields.add_text(name, text)?,
                value => fields.push(name, value)?,
            }
        }
        Ok(fields)
    }

    /// Reads one JSON object whose values have their types: `"5"` is no number, and nothing is
    /// converted. An empty body has no fields.
    ///
    /// # Errors
    /// Anything that is not one JSON object, a name given twice, too many fields.
    pub fn from_strict_json(body: &[u8]) -> Result<Self, UnreadableFields> {
        let body = without_mark(body);
        let mut members = if body.trim_ascii().is_empty() {
            Vec::new()
        } else {
            match BodyKind::of(body) {
                BodyKind::Json | BodyKind::Nothing | BodyKind::PlainText => {}
                got => return Err(UnreadableFields::WrongKind { expected: text!("a JSON object"), got }),
            }
            let object: Members<FieldValue> =
                serde_json::from_slice(body).map_err(|error| UnreadableFields::NotJson(error.to_string()))?;
            object.0
        };
        // Errors name the fields in one order, whatever the order of the object.
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut fields = Self::typed([]);
        for (name, value) in members {
            fields.push(name, value)?;
        }
        Ok(fields)
    }

    /// Fields with values of their types, each name once.
    #[must_use]
    pub fn typed<const N: usize>(values: [(&str, FieldValue); N]) -> Self {
        let values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { values, typing: Typing::Strict, misplaced: Vec::new(), renamed: Vec::new() }
    }

    /// Adds a text field, as a multipart body brings them one by one.
    ///
    /// # Errors
    /// NUL, a name given twice, too many fields.
    pub fn add_text(&mut self, name: String, value: String) -> Result<(), UnreadableFields> {
        if value.contains('\0') || name.contains('\0') {
            return Err(UnreadableFields::Nul(shown_name(&name)));
        }
        self.push(name, FieldValue::Text(value))
    }

    /// Adds a field.
    ///
    /// # Errors
    /// A name given twice, too many fields.
    pub fn push(&mut self, name: String, value: FieldValue) -> Result<(), UnreadableFields> {
        if self.get(&name).is_some() {
            return Err(UnreadableFields::Twice(shown_name(&name)));
        }
        if self.values.len() == FIELDS_MAX {
            return Err(UnreadableFields::TooMany);
        }
        self.values.push((name, value));
        Ok(())
    }

    /// Takes each of these names that has no value here from `others`, where it came. What came in its stead comes along,
    /// so that [`Fields::absent`] can tell it.
    pub fn complete(&mut self, names: &[&str], others: &Self) {
        for name in names.iter().filter(|name| self.text(name).is_none()).collect::<Vec<_>>() {
            let instead = || others.mistaken_for(name).map(|(came, _)| came);
            let came = if others.get(name).is_some() { Some(*name) } else { instead() };
            if let Some((came, value)) = came.and_then(|came| Some((came, others.get(came)?))) {
                self.values.retain(|(known, _)| known != came);
                self.values.push((came.to_owned(), value.clone()));
            }
        }
    }

    /// The same with other names: of each pair, what came under the second is read as the first. What came under the
    /// first itself is not read.
    #[must_use]
    pub fn renamed(mut self, names: &[(&'static str, &'static str)]) -> Self {
        for (name, sent) in names {
            let has_other = self.text(name).is_some();
            self.renamed.push(RenamedField { name, sent, other: name, has_other });
            self.values.retain(|(known, _)| known != name);
            let values = self.values.iter_mut().map(|(known, _)| known);
            let misplaced = self.misplaced.iter_mut().map(|(known, _)| known);
            for known in values.chain(misplaced).filter(|known| known == sent) {
                (*name).clone_into(known);
            }
        }
        self
    }

    /// Notes that the second name of each pair is that of another endpoint, so that [`Fields::absent`] can tell it.
    #[must_use]
    pub fn named_elsewhere(mut self, names: &[(&'static str, &'static str)]) -> Self {
        for (name, other) in names {
            let has_other = self.text(other).is_some();
            self.renamed.push(RenamedField { name, sent: name, other, has_other });
        }
        self
    }

    /// Notes what came in a place where it is not read, so that [`Fields::absent`] can tell it.
    #[must_use]
    pub fn beside(mut self, others: &Self, place: Misplacement) -> Self {
        let others = others.texts().filter(|(_, value)| !value.is_empty());
        self.misplaced.extend(others.map(|(name, _)| (name.to_owned(), place)));
        self
    }

    /// The first of these names that came in another place alone.
    #[must_use]
    pub fn misplaced(&self, mut names: impl Iterator<Item = &'static str>) -> Option<FieldError> {
        if self.misplaced.is_empty() {
            return None;
        }
        let is_misplaced = |error: &FieldError| matches!(error.problem, FieldErrorKind::Misplaced(_));
        names.find_map(|name| Some(self.absent(name)).filter(is_misplaced))
    }

    /// The first of these names that is absent and came after all, under another name or in the value of another field.
    #[must_use]
    pub fn mistaken(&self, names: impl Iterator<Item = &'static str>) -> Option<FieldError> {
        let mut absent = names.filter(|name| self.get(name).is_none());
        absent.find_map(|name| {
            let (_, problem) = self.mistaken_for(name)?;
            Some(FieldError { field: name.to_owned(), problem })
        })
    }

    /// Why a required field has no value: it is empty, came in another place, or is missing.
    #[must_use]
    pub fn absent(&self, name: &str) -> FieldError {
        let place = self.misplaced.iter().find(|(known, _)| known == name);
        let problem = match (self.get(name), place) {
            (Some(FieldValue::Text(_)), _) => FieldErrorKind::Empty,
            (None, Some((_, place))) => FieldErrorKind::Misplaced(*place),
            (_, _) => self.mistaken_for(name).map_or(FieldErrorKind::Missing, |(_, problem)| problem),
        };
        FieldError { field: name.to_owned(), problem }
    }

    /// How a field that is absent came after all: under a name that is nearly right, or in the value of another field.
    /// Neither is a credential, because both are told.
    fn mistaken_for(&self, name: &str) -> Option<(&str, FieldErrorKind)> {
        let renamed = self.renamed.iter().find(|renamed| renamed.name == name);
        let sent = renamed.map_or(name, |renamed| renamed.sent);
        let wanted = bare(sent);
        let came = || self.texts().filter(|(came, _)| *came != name);
        let misspelt = |came: &str| FieldErrorKind::Misspelt { came: came.to_owned() };
        let nearly = came().find(|(came, _)| bare(came) == wanted).map(|(came, _)| (came, misspelt(came)));
        let swallowed = || {
            let (by, value) = came().find(|(_, value)| holds_pair(value, sent))?;
            let is_json = value.trim_start().starts_with(['{', '[']);
            let as_sent =
                self.renamed.iter().find(|renamed| renamed.name == by).map_or(by, |renamed| renamed.sent);
            Some((by, FieldErrorKind::Swallowed { by: as_sent.to_owned(), is_json }))
        };
        let elsewhere = || {
            let RenamedField { other, .. } = renamed.filter(|renamed| renamed.has_other)?;
            Some((*other, misspelt(other)))
        };
        nearly.or_else(swallowed).or_else(elsewhere)
    }

    /// Refuses every other field. Otherwise a wrong name of an optional field would be a change that
    /// nobody asked for.
    ///
    /// # Errors
    /// One for each unknown field.
    pub fn only(&self, known: &[&str]) -> Result<&Self, Vec<FieldError>> {
        let expected = if known.is_empty() {
            text!("no field is expected here")
        } else {
            text!("unknown field, expected {names}", names = known.join(", "))
        };
        let unknown = self.values.iter().filter(|(name, _)| !known.contains(&name.as_str()));
        let errors: Vec<_> = unknown
            .map(|(name, _)| FieldError {
                field: shown_plain(name),
                problem: FieldErrorKind::Unknown { expected: expected.clone() },
            })
            .collect();
        if errors.is_empty() { Ok(self) } else { Err(errors) }
    }

    /// The text fields with their values, in the order they came: what a signature is made of.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().filter_map(|(name, value)| match value {
            FieldValue::Text(text) | FieldValue::Number(text) => Some((name.as_str(), text.as_str())),
            FieldValue::Null
            | FieldValue::Flag(_)
            | FieldValue::List(_)
            | FieldValue::Object(_)
            | FieldValue::Other(_) => None,
        })
    }

    /// The value of a text field that came and is not empty. Ill-typed values count as absent.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts().find(|(known, text)| *known == name && !text.is_empty()).map(|(_, text)| text)
    }

    /// Whether these are the fields of a form of the console.
    #[must_use]
    pub fn is_form(&self) -> bool {
        self.typing == Typing::Form
    }

    fn get(&self, name: &str) -> Option<&FieldValue> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// A text, parsed. Empty clears it where the typing has no `null`.
    ///
    /// # Errors
    /// A value of a wrong type, or one that `parse` refuses.
    pub fn update<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Expected>,
    ) -> Result<Update<T>, FieldError> {
        let is_empty = |text: &str| self.typing != Typing::Strict && text.is_empty();
        match self.get(name) {
            None => Ok(Update::Unchanged),
            Some(FieldValue::Null) => Ok(Update::Cleared),
            Some(FieldValue::Text(text)) if is_empty(self.trimmed(text)) => Ok(Update::Cleared),
            Some(value) => self.parse(name, value, parse).map(Update::To),
        }
    }

    /// A number, parsed from its digits; else as [`Fields::update`].
    ///
    /// # Errors
    /// A value of a wrong type, or one that `parse` refuses.
    pub fn number<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Expected>,
    ) -> Result<Update<T>, FieldError> {
        match (self.typing, self.get(name)) {
            (Typing::Strict, Some(value @ FieldValue::Number(number))) => parse(number)
                .map(Update::To)
                .map_err(|expected| FieldError::wrong_type(name, expected, value)),
            (Typing::Strict, Some(FieldValue::Null)) => Ok(Update::Cleared),
            (Typing::Strict, Some(value)) => Err(wrong_type(name, value, parse)),
            (_, _) => self.update(name, parse),
        }
    }

    /// An optional integer within limits.
    ///
    /// # Errors
    /// A value of a wrong type, or outside the limits.
    pub fn integer(&self, name: &str, min: i64, max: i64) -> Result<Option<i64>, FieldError> {
        let expected = Expected(text!("an integer from {min} to {max}", min, max));
        let parse = |text: &str| parse_integer(text, min, max, "").map_err(|_| expected);
        Ok(self.number(name, parse)?.after(None))
    }

    /// An optional field, parsed. Absent, `null` and (where nothing else is empty text) empty are `None`.
    ///
    /// # Errors
    /// A value of a wrong type, or one that `parse` refuses.
    pub fn optional<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Expected>,
    ) -> Result<Option<T>, FieldError> {
        Ok(self.update(name, parse)?.after(None))
    }

    /// A field that may come empty, parsed; `None` where it did not come.
    ///
    /// # Errors
    /// A value of a wrong type, or one that `parse` refuses.
    pub fn present<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Expected>,
    ) -> Result<Option<T>, FieldError> {
        match self.get(name) {
            None | Some(FieldValue::Null) => Ok(None),
            Some(value) => self.parse(name, value, parse).map(Some),
        }
    }

    /// A required field, parsed.
    ///
    /// # Errors
    /// Absent or empty, a value of a wrong type, or one that `parse` refuses.
    pub fn required<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Expected>,
    ) -> Result<T, FieldError> {
        if self.typing == Typing::Form {
            // A person who filled in a form needs to know what to write, not that it is missing.
            let value = self.get(name).cloned().unwrap_or(FieldValue::Text(String::new()));
            return self.parse(name, &value, parse);
        }
        self.optional(name, parse)?.ok_or_else(|| self.absent(name))
    }

    /// Yes or no. In a form it is a box that was ticked: a box that was not ticked does not come, so
    /// the field `shown` names the boxes that the page had.
    ///
    /// # Errors
    /// A value of a wrong type.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, FieldError> {
        let parse = |text: &str| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(Expected::new("true or false")),
        };
        match (self.typing, self.get(name)) {
            (Typing::Form, Some(_)) => Ok(Some(true)),
            (Typing::Form, None) => {
                let shown = self.text("shown").unwrap_or_default();
                Ok(shown.split(' ').any(|box_name| box_name == name).then_some(false))
            }
            (Typing::Strict, None | Some(FieldValue::Null)) => Ok(None),
            (Typing::Strict, Some(FieldValue::Flag(flag))) => Ok(Some(*flag)),
            (Typing::Strict, Some(value)) => Err(wrong_type(name, value, parse)),
            (Typing::Loose, _) => self.optional(name, parse),
        }
    }

    /// A list of at most [`LIST_ITEMS_MAX`] texts, each parsed. In a form they are lines.
    ///
    /// # Errors
    /// A value of a wrong type, or one that `parse` refuses.
    pub fn list<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, Expected>,
    ) -> Result<Option<Vec<T>>, FieldError> {
        self.list_from(0, name, parse)
    }

    /// The same of a list that is required and holds something.
    ///
    /// # Errors
    /// As [`Fields::list`], and a list that is absent or empty.
    pub fn required_list<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, Expected>,
    ) -> Result<Vec<T>, FieldError> {
        self.list_from(1, name, parse)?.ok_or_else(|| self.absent(name))
    }

    fn list_from<T>(
        &self,
        min: usize,
        name: &str,
        parse: impl Fn(&str) -> Result<T, Expected>,
    ) -> Result<Option<Vec<T>>, FieldError> {
        let expected = Expected(text!("a list of {min} to {max} texts", min, max = LIST_ITEMS_MAX));
        let items = match (self.typing, self.get(name)) {
            (Typing::Form, value) => return lines(min, name, value, parse),
            (_, None | Some(FieldValue::Null)) => return Ok(None),
            (_, Some(FieldValue::List(items))) if (min..=LIST_ITEMS_MAX).contains(&items.len()) => items,
            (_, Some(value)) => return Err(FieldError::wrong_type(name, expected, value)),
        };
        let parsed = items
            .iter()
            .enumerate()
            .map(|(index, item)| self.parse(&format!("{name}[{index}]"), item, |text| parse(text)));
        parsed.collect::<Result<_, _>>().map(Some)
    }

    /// A required list of 1 to `max` objects, each read by `read`. An object with other members than `known` is refused.
    ///
    /// # Errors
    /// A value of a wrong type, another number of objects, or what `read` refuses. The error names the object.
    pub fn required_objects<T>(
        &self,
        name: &str,
        max: usize,
        known: &[&str],
        read: impl Fn(&Self) -> Result<T, FieldError>,
    ) -> Result<Vec<T>, FieldError> {
        let expected = Expected(text!("a list of 1 to {max} objects", max));
        let items = match self.get(name) {
            Some(FieldValue::List(items)) if (1..=max).contains(&items.len()) => items,
            None | Some(FieldValue::Null) => return Err(self.absent(name)),
            Some(value) => return Err(FieldError::wrong_type(name, expected, value)),
        };
        let read_one = |(index, item): (usize, &FieldValue)| {
            Self::read_object(&format!("{name}[{index}]"), item, |fields| {
                fields.only(known).map_err(|mut errors| errors.swap_remove(0))?;
                read(fields)
            })
        };
        items.iter().enumerate().map(read_one).collect()
    }

    /// A required object, read by `read`. It may have more members than are read.
    ///
    /// # Errors
    /// Absent, a value of a wrong type, or what `read` refuses. The error names the object and its member.
    pub fn required_object<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Self) -> Result<T, FieldError>,
    ) -> Result<T, FieldError> {
        match self.get(name) {
            None | Some(FieldValue::Null) => Err(self.absent(name)),
            Some(value) => Self::read_object(name, value, read),
        }
    }

    /// Reads the members of the object at `place`.
    fn read_object<T>(
        place: &str,
        value: &FieldValue,
        read: impl FnOnce(&Self) -> Result<T, FieldError>,
    ) -> Result<T, FieldError> {
        let FieldValue::Object(members) = value else {
            return Err(FieldError::wrong_type(place, Expected::new("an object"), value));
        };
        let of_object = |error: FieldError| FieldError { field: format!("{place}.{}", error.field), ..error };
        let mut fields = Self::typed([]);
        for (name, value) in members {
            let twice = || FieldError::malformed(name, "each name once", name);
            fields.push(name.clone(), value.clone()).map_err(|_| of_object(twice()))?;
        }
        read(&fields).map_err(of_object)
    }

    /// A value that came, as text of its typing.
    fn parse<T>(
        &self,
        name: &str,
        value: &FieldValue,
        parse: impl FnOnce(&str) -> Result<T, Expected>,
    ) -> Result<T, FieldError> {
        let text = match value {
            FieldValue::Text(text) => self.trimmed(text),
            // An identifier may come as an integer; a float, sign or exponent is wrong everywhere.
            FieldValue::Number(number) if self.typing == Typing::Loose && is_canonical_integer(number) => {
                number
            }
            value => return Err(wrong_type(name, value, parse)),
        };
        parse(text).map_err(|expected| FieldError::malformed(name, expected.0, text))
    }

    fn trimmed<'a>(&self, text: &'a str) -> &'a str {
        if self.typing == Typing::Form { text.trim() } else { text }
    }
}

/// One or more values in the lines of a field of a form.
fn lines<T>(
    min: usize,
    name: &str,
    value: Option<&FieldValue>,
    parse: impl Fn(&str) -> Result<T, Expected>,
) -> Result<Option<Vec<T>>, FieldError> {
    let Some(FieldValue::Text(text)) = value else { return Ok(None) };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if !(min..=LIST_ITEMS_MAX).contains(&lines.len()) {
        let expected = text!("{min} to {max} lines", min, max = LIST_ITEMS_MAX);
        let got = Some(text!("\"{count} lines\"", count = lines.len()));
        return Err(FieldError {
            field: name.to_owned(),
            problem: FieldErrorKind::Malformed { expected, got },
        });
    }
    let parsed = lines.into_iter().map(|line| {
        let on_each = |Expected(expected)| {
            FieldError::malformed(name, text!("{expected} on each line", expected), line)
        };
        parse(line).map_err(on_each)
    });
    parsed.collect::<Result<_, _>>().map(Some)
}

/// Only the parser knows what it expects. So it gets text that no parser accepts.
fn wrong_type<T>(
    name: &str,
    got: &FieldValue,
    parse: impl FnOnce(&str) -> Result<T, Expected>,
) -> FieldError {
    let expected = parse("\0").err().unwrap_or(Expected::new("text"));
    FieldError::wrong_type(name, expected, got)
}

/// True for an integer in the form of the contract: digits, no sign, no leading zero.
#[must_use]
pub fn is_canonical_integer(text: &str) -> bool {
    text == "0"
        || (!text.starts_with('0') && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Longest text for people in one line, in bytes.
pub const LINE_BYTES_MAX: usize = 512;

/// A text for people, in one line.
///
/// # Errors
/// It is longer than [`LINE_BYTES_MAX`], or has control characters.
pub fn parse_line(text: &str) -> Result<String, Expected> {
    if text.len() <= LINE_BYTES_MAX && !text.contains(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(Expected::new("at most 512 bytes without control characters"))
    }
}

/// A canonical integer within limits, or what was expected.
///
/// # Errors
/// `expected`, when the text is none or lies outside.
pub fn parse_integer(text: &str, min: i64, max: i64, expected: &'static str) -> Result<i64, Expected> {
    let value = is_canonical_integer(text).then(|| text.parse::<i64>().ok()).flatten();
    value.filter(|value| (min..=max).contains(value)).ok_or(Expected::new(expected))
}

/// The reason of a body that is no form.
#[must_use]
pub fn no_form(got: BodyKind) -> UnreadableFields {
    UnreadableFields::WrongKind { expected: text!("a form (application/x-www-form-urlencoded)"), got }
}

/// A body without the line ends behind it.
fn without_line_end(body: &[u8]) -> &[u8] {
    let end = body.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    &body[..end]
}

/// Separators that were escaped for a page or for JSON, without the `&` that begins some of them.
const ESCAPED_SEPARATORS: [&str; 6] = ["amp;", "#038;", "#38;", "#x26;", "#X26;", "\\u0026"];

/// The letters and digits of a name, without what a separator left in front of it. Of `params[name]`, the name.
fn bare(name: &str) -> String {
    let name = ESCAPED_SEPARATORS.iter().fold(name, |name, escaped| name.trim_start_matches(escaped));
    let name = name.strip_suffix(']').and_then(|name| name.rsplit_once('[')).map_or(name, |(_, inner)| inner);
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Whether a value goes on with `name=`, behind a separator that is none.
fn holds_pair(value: &str, name: &str) -> bool {
    value.match_indices(name).any(|(at, _)| {
        let before = &value[..at];
        let is_behind_separator = before
            .ends_with(|before: char| !before.is_ascii_alphanumeric() && before != '_')
            || ESCAPED_SEPARATORS.iter().any(|escaped| before.ends_with(escaped));
        let after = value[at + name.len()..].trim_start_matches(['"', '\'', '\\', ' ']);
        is_behind_separator && after.starts_with(['=', ':'])
    })
}

/// A value as an error repeats it: quoted, escaped, cut, and without what looks like a credential.
#[must_use]
pub fn shown(value: &str) -> String {
    let value = redacted(value);
    let mut chars = value.chars();
    let head: String = chars.by_ref().take(SHOWN_CHARS_MAX).collect();
    let more = if chars.next().is_some() { "..." } else { "" };
    format!("{head:?}{more}")
}

fn shown_plain(value: &str) -> String {
    let quoted = shown(value);
    quoted.replace('"', "")
}

fn check_name(name: &str) -> Result<(), UnreadableFields> {
    if name.contains('\0') { Err(UnreadableFields::Nul(text!("a field name"))) } else { Ok(()) }
}

/// The name of a field in an error.
#[must_use]
pub fn shown_name(name: &str) -> Text {
    if name.is_empty() { text!("a field without a name") } else { Text::same(shown_plain(name)) }
}

/// Decodes plus signs and percent escapes once; broken escapes stand for themselves. `None`: the result
/// is not UTF-8.
fn decode(encoded: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(encoded.len());
    for (index, word) in encoded.split(|byte| *byte == b'+').enumerate() {
        if index > 0 {
            bytes.push(b' ');
        }
        // Every request is decoded, so what stands between two escapes is copied at once.
        let mut pieces = word.split(|byte| *byte == b'%');
        bytes.extend_from_slice(pieces.next().unwrap_or_default());
        for piece in pieces {
            let (byte, rest) = escaped(piece).unwrap_or((b'%', piece));
            bytes.push(byte);
            bytes.extend_from_slice(rest);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The byte of an escape, and what follows it. `None`: what stands behind the percent sign is no escape.
fn escaped(piece: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, rest) = piece.split_first_chunk::<2>()?;
    let mut byte = [0];
    hex::decode_to_slice(digits, &mut byte).ok()?;
    Some((byte[0], rest))
}

fn json_value(name: &str, raw: &str) -> Result<FieldValue, UnreadableFields> {
    Ok(match raw.as_bytes().first() {
        Some(b'"') => {
            let text = serde_json::from_str(raw);
            FieldValue::Text(text.map_err(|_| UnreadableFields::NotUtf8(shown_name(name)))?)
        }
        Some(b'{') => FieldValue::Other("an object"),
        Some(b'[') => FieldValue::Other("an array"),
        Some(b't') => FieldValue::Other("true"),
        Some(b'f') => FieldValue::Other("false"),
        Some(b'n') => FieldValue::Null,
        _ => FieldValue::Number(raw.to_owned()),
    })
}

fn json_fault(text: &str, error: &serde_json::Error) -> UnreadableFields {
    let got = match (text.trim_start().as_bytes().first(), error.is_data()) {
        (None, _) => text!("nothing"),
        (Some(b'{'), true) => return UnreadableFields::TooMany,
        (Some(b'['), _) => text!("an array"),
        (Some(b'"'), true) => text!("text"),
        (Some(b'n'), true) => Text::same("null"),
        (Some(b't'), true) => Text::same("true"),
        (Some(b'f'), true) => Text::same("false"),
        (Some(_), true) => text!("a number"),
        (Some(_), false) => {
            text!("a fault at line {line} column {column}", line = error.line(), column = error.column())
        }
    };
    UnreadableFields::NotAnObject(got)
}

/// The members of one JSON object in order, duplicates included.
struct Members<V>(Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Members<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfObject<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for OfObject<V> {
            type Value = Members<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    // One more than allowed is enough to refuse it with the right words.
                    if members.len() > FIELDS_MAX {
                        return Err(de::Error::custom("too many members"));
                    }
                    members.push((name, map.next_value::<V>()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(OfObject(PhantomData))
    }
}

impl<'de> Deserialize<'de> for FieldValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfAny;
        impl<'de> Visitor<'de> for OfAny {
            type Value = FieldValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_unit<E>(self) -> Result<FieldValue, E> {
                Ok(FieldValue::Null)
            }

            fn visit_bool<E>(self, flag: bool) -> Result<FieldValue, E> {
                Ok(FieldValue::Flag(flag))
            }

            fn visit_i64<E>(self, number: i64) -> Result<FieldValue, E> {
                Ok(FieldValue::Number(number.to_string()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<FieldValue, E> {
                Ok(FieldValue::Number(number.to_string()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<FieldValue, E> {
                Ok(FieldValue::Number(serde_json::json!(number).to_string()))
            }

            fn visit_str<E>(self, text: &str) -> Result<FieldValue, E> {
                Ok(FieldValue::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<FieldValue, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(FieldValue::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FieldValue, A::Error> {
                Members::deserialize(MapAccessDeserializer::new(map))
                    .map(|members| FieldValue::Object(members.0))
            }
        }
        deserializer.deserialize_any(OfAny)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Contract 2.5.10 and 3.2.1: decoded once, as every form decoder does it.
        #[test]
        fn a_value_is_decoded_as_a_form_decoder_would(
            encoded in prop::collection::vec(
                prop_oneof![Just(b'%'), Just(b'+'), Just(b'2'), Just(b'f'), Just(b'E'), any::<u8>()], 0..40),
        ) {
            let pair = [b"name=", &encoded[..]].concat();
            prop_assume!(!encoded.contains(&b'&'));
            let (_, expected) = form_urlencoded::parse(&pair).next().unwrap();
            match decode(&encoded) {
                Some(text) => prop_assert_eq!(text, expected),
                None => prop_assert!(expected.contains(char::REPLACEMENT_CHARACTER)),
            }
        }
    }
}
