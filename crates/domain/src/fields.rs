//! The fields of a request: from a query, a form, a JSON object or the command line. All requests
//! are read here, by the public API (contract 2.5), the admin API, the console and the command line.

mod absent;
mod error;
mod form;
mod json;
mod lists;

use crate::redaction::redacted;
use crate::text;
use crate::text::Text;

use absent::{RenamedField, bare, holds_pair, is_in_pieces};
pub use error::{Expected, FieldError, FieldErrorKind, Misplacement, UnreadableFields};
pub use form::no_form;
pub(crate) use json::Members;

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
    let letters = bare(name);
    SECRET_FIELDS.iter().any(|secret| {
        let wanted = bare(secret);
        wanted == letters || is_in_pieces(name, &wanted) || holds_pair(value, secret)
    })
}

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
    /// A JSON object with its members in order, where its fields are read.
    Object(Vec<(String, FieldValue)>),
    /// A JSON object whose fields are not read, with their names: a refusal tells a field that came in it.
    Unread(Vec<String>),
    /// JSON text that has half of a surrogate pair.
    NotUtf8,
    /// A JSON object that cannot be read. It is a fault only where it is read.
    Broken(UnreadableFields),
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
            Self::NotUtf8 => text!("text"),
            Self::Object(_) | Self::Unread(_) | Self::Broken(_) => text!("an object"),
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

impl Fields {
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
            | FieldValue::Unread(_)
            | FieldValue::NotUtf8
            | FieldValue::Broken(_)
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

    /// Yes or no. In a form it is a box that was ticked. A box that was not ticked does not come, so the field `shown`
    /// names the boxes that the page had.
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
        parse(text).map_err(|expected| match value {
            FieldValue::Number(number) => FieldError::malformed_number(name, expected.0, number),
            _ => FieldError::malformed(name, expected.0, text),
        })
    }

    /// What is wrong with a field that does not fit the others: its value as it came, or that there is none.
    #[must_use]
    pub fn unfit(&self, name: &str, Expected(expected): Expected) -> FieldError {
        match self.get(name) {
            Some(FieldValue::Text(text)) if !text.is_empty() => FieldError::malformed(name, expected, text),
            Some(FieldValue::Number(number)) => FieldError::malformed_number(name, expected, number),
            _ => self.absent(name),
        }
    }

    fn trimmed<'a>(&self, text: &'a str) -> &'a str {
        if self.typing == Typing::Form { text.trim() } else { text }
    }
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

/// What was expected of an integer, with the bound of 64 bits where only that is broken.
#[must_use]
pub fn with_bound(text: &str, Expected(expected): Expected) -> Expected {
    let is_above = is_canonical_integer(text) && text.parse::<i64>().is_err();
    Expected(if is_above {
        text!("{expected} and at most {max}", expected, max = i64::MAX)
    } else {
        expected
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
