//! Errors of fields: what is wrong with one, and why a body or a query has no readable ones.

use std::fmt;

use super::{FIELDS_MAX, FieldValue, is_secret, shown, shown_plain};
use crate::body::BodyKind;
use crate::text;
use crate::text::Text;

/// The expected form of a value that did not parse, in words that follow "expected".
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

/// The fault of a field.
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
    /// Required, and absent; it stands in a form of which `=` and `&` are escaped as well.
    EscapedWhole,
    /// Required, and absent; it stands in JSON that is escaped and sent as a name.
    EscapedJson,
    /// Absent, and so are the fields that may stand in its place.
    WithoutOthers(&'static str),
    /// Required, and empty.
    Empty,
    /// Required, and sent in another place of the request.
    Misplaced(Misplacement),
    /// Not a field of this request.
    Unknown {
        /// The expected form, as a sentence.
        expected: Text,
    },
    /// Readable, and refused for this reason.
    Refused(Text),
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
        /// The value that came; `None` where it may not be repeated.
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
            | FieldErrorKind::EscapedWhole
            | FieldErrorKind::EscapedJson
            | FieldErrorKind::Empty => text!("{field} {problem}", field, problem),
            FieldErrorKind::Misplaced(_)
            | FieldErrorKind::Unknown { .. }
            | FieldErrorKind::Refused(_)
            | FieldErrorKind::WrongType { .. }
            | FieldErrorKind::Malformed { .. } => text!("{field}: {problem}", field, problem),
        }
    }

    /// Whether text came that does not parse.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        matches!(self.problem, FieldErrorKind::Malformed { .. })
    }

    pub(super) fn wrong_type(name: &str, Expected(expected): Expected, got: &FieldValue) -> Self {
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
        Self::not_parsed(name, expected.into(), || shown(value))
    }

    /// The same of a number of JSON, which is shown as it came: without quotes.
    #[must_use]
    pub fn malformed_number(name: &str, expected: impl Into<Text>, number: &str) -> Self {
        Self::not_parsed(name, expected.into(), || shown_plain(number))
    }

    fn not_parsed(name: &str, expected: Text, got: impl FnOnce() -> String) -> Self {
        let got = (!is_secret(name)).then(|| Text::same(got()));
        Self { field: name.to_owned(), problem: FieldErrorKind::Malformed { expected, got } }
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
            Self::EscapedWhole => text!("is missing; it came in a form that is escaped as a whole"),
            Self::EscapedJson => text!("is missing; it came in JSON that is escaped as a whole"),
            Self::Empty => text!("is empty"),
            Self::Misplaced(Misplacement { expected, got }) => {
                let (expected, got) = (Text::new(expected), Text::new(got));
                text!("expected in the {expected}, it came in the {got}", expected, got)
            }
            Self::Unknown { expected: told } | Self::Refused(told) => told.clone(),
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
    /// The place where they are read: `query`, `form`.
    pub expected: &'static str,
    /// The place where they came: `query`, `body`.
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

impl From<Expected> for Text {
    fn from(Expected(expected): Expected) -> Self {
        expected
    }
}
