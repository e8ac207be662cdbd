//! The fields of a request, whether they came in a query, a form or a JSON object, and the
//! rules of reading them that are the same everywhere (contract 2.5).

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// More fields than any call has use for; a request with more is refused unread.
const FIELDS_MAX: usize = 256;
/// How many characters of a value an error repeats.
const SHOWN_CHARS_MAX: usize = 64;
/// Fields whose value no answer and no log may repeat (contract 2.8).
const SECRET_FIELDS: [&str; 4] = ["access_token", "app_secret", "sign", "user_ip"];

/// Whether no answer and no log may repeat the value of a field of this name (contract 2.8).
#[must_use]
pub fn is_secret(name: &str) -> bool {
    SECRET_FIELDS.contains(&name)
}

/// What was expected of a value that did not parse, in words that follow "expected".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected(pub Cow<'static, str>);

impl Expected {
    /// A fixed expectation.
    #[must_use]
    pub const fn new(words: &'static str) -> Self {
        Self(Cow::Borrowed(words))
    }
}

/// Why a field could not be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Name of the field.
    pub field: String,
    /// What is wrong with it.
    pub problem: FieldProblem,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldProblem {
    /// Required, and absent or empty.
    Missing,
    /// Of a JSON type that has no place there: a boolean, an object, a float.
    WrongType {
        /// What was expected.
        expected: Cow<'static, str>,
        /// What came.
        got: String,
    },
    /// Text that does not parse.
    Malformed {
        /// What was expected.
        expected: Cow<'static, str>,
        /// What came; `None` where a value may not be repeated.
        got: Option<String>,
    },
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            FieldProblem::Missing => write!(f, "{} is missing", self.field),
            FieldProblem::WrongType { expected, got }
            | FieldProblem::Malformed { expected, got: Some(got) } => {
                write!(f, "{}: expected {expected}, got {got}", self.field)
            }
            FieldProblem::Malformed { expected, got: None } => {
                write!(f, "{}: expected {expected}", self.field)
            }
        }
    }
}

impl FieldError {
    fn missing(name: &str) -> Self {
        Self { field: name.to_owned(), problem: FieldProblem::Missing }
    }

    /// A value that parsed but is not acceptable, or did not parse.
    #[must_use]
    pub fn malformed(name: &str, expected: impl Into<Cow<'static, str>>, value: &str) -> Self {
        let got = (!is_secret(name)).then(|| shown(value));
        Self { field: name.to_owned(), problem: FieldProblem::Malformed { expected: expected.into(), got } }
    }
}

/// Why a body or a query could not be read as fields at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableFields {
    /// Not UTF-8 after decoding.
    #[error("{0}: expected UTF-8 text")]
    NotUtf8(String),
    /// A NUL character.
    #[error("{0}: expected text without NUL characters")]
    Nul(String),
    /// The same name twice.
    #[error("{0}: expected once, given twice")]
    Twice(String),
    /// More than a request may have.
    #[error("expected at most {FIELDS_MAX} fields")]
    TooMany,
    /// Not a JSON object.
    #[error("body: expected a JSON object, got {0}")]
    NotAnObject(String),
}

/// One value as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Text(String),
    /// A JSON number, exactly as it was written.
    Number(String),
    Null,
    /// A JSON value of a type that no field has, and what to call it.
    Other(&'static str),
}

/// The fields of one request in the order they came, each name once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, Value)>);

impl Fields {
    /// Reads `a=b&c=d` with percent and plus decoding, as a query or a form body has it.
    ///
    /// # Errors
    /// Bytes that are not UTF-8, NUL, a name given twice, too many fields.
    pub fn from_urlencoded(encoded: &[u8]) -> Result<Self, UnreadableFields> {
        let mut fields = Self::default();
        for pair in encoded.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            let mut halves = pair.splitn(2, |byte| *byte == b'=');
            let name = decode(halves.next().unwrap_or_default())
                .map_err(|fault| fault.named("a field name".to_owned()))?;
            let value =
                decode(halves.next().unwrap_or_default()).map_err(|fault| fault.named(shown_name(&name)))?;
            fields.push(name, Value::Text(value))?;
        }
        Ok(fields)
    }

    /// Reads one JSON object. Only the top level matters; what is nested is kept as a type.
    ///
    /// # Errors
    /// As [`Fields::from_urlencoded`], and anything that is not one JSON object.
    pub fn from_json(body: &[u8]) -> Result<Self, UnreadableFields> {
        let text = std::str::from_utf8(body).map_err(|_| UnreadableFields::NotUtf8("body".to_owned()))?;
        if text.contains('\0') {
            return Err(UnreadableFields::Nul("body".to_owned()));
        }
        let object: RawObject<'_> = serde_json::from_str(text).map_err(|error| json_fault(text, &error))?;
        let mut fields = Self::default();
        for (name, raw) in object.0 {
            if name.contains('\0') {
                return Err(UnreadableFields::Nul("a field name".to_owned()));
            }
            let value = json_value(&name, raw.get())?;
            fields.push(name, value)?;
        }
        Ok(fields)
    }

    /// Adds a text field, as a multipart body brings them one by one.
    ///
    /// # Errors
    /// NUL, a name given twice, too many fields.
    pub fn add_text(&mut self, name: String, value: String) -> Result<(), UnreadableFields> {
        if value.contains('\0') || name.contains('\0') {
            return Err(UnreadableFields::Nul(shown_name(&name)));
        }
        self.push(name, Value::Text(value))
    }

    fn push(&mut self, name: String, value: Value) -> Result<(), UnreadableFields> {
        if self.0.iter().any(|(known, _)| *known == name) {
            return Err(UnreadableFields::Twice(shown_name(&name)));
        }
        if self.0.len() == FIELDS_MAX {
            return Err(UnreadableFields::TooMany);
        }
        self.0.push((name, value));
        Ok(())
    }

    /// The text fields with their values, in the order they came: what a signature is made of.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(name, value)| match value {
            Value::Text(text) | Value::Number(text) => Some((name.as_str(), text.as_str())),
            Value::Null | Value::Other(_) => None,
        })
    }

    /// The value of a text field that came and is not empty. Ill-typed values count as absent.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts().find(|(known, text)| *known == name && !text.is_empty()).map(|(_, text)| text)
    }

    /// An optional field, parsed. Absent, `null` and empty are `None`.
    ///
    /// # Errors
    /// A value of a wrong type, or one that `parse` refuses.
    pub fn optional<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Expected>,
    ) -> Result<Option<T>, FieldError> {
        let Some((_, value)) = self.0.iter().find(|(known, _)| known == name) else { return Ok(None) };
        let text = match value {
            Value::Null => return Ok(None),
            Value::Text(text) if text.is_empty() => return Ok(None),
            Value::Text(text) => text,
            // An identifier may come as an integer; a float, sign or exponent has no place anywhere.
            Value::Number(number) if is_canonical_integer(number) => number,
            Value::Number(number) => return Err(wrong_type(name, shown_plain(number), parse)),
            Value::Other(kind) => return Err(wrong_type(name, (*kind).to_owned(), parse)),
        };
        parse(text).map(Some).map_err(|expected| FieldError::malformed(name, expected.0, text))
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
        self.optional(name, parse)?.ok_or_else(|| FieldError::missing(name))
    }
}

/// What the parser of the field expects is known only to the parser: ask it with text no parser takes.
fn wrong_type<T>(name: &str, got: String, parse: impl FnOnce(&str) -> Result<T, Expected>) -> FieldError {
    let expected = parse("\0").err().map_or(Cow::Borrowed("text"), |expected| expected.0);
    let problem = if is_secret(name) {
        FieldProblem::Malformed { expected, got: None }
    } else {
        FieldProblem::WrongType { expected, got }
    };
    FieldError { field: name.to_owned(), problem }
}

/// An integer as every field of the contract takes it: digits, no sign, no leading zero.
#[must_use]
pub fn is_canonical_integer(text: &str) -> bool {
    text == "0"
        || (!text.starts_with('0') && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A canonical integer within limits, or what was expected.
///
/// # Errors
/// `expected`, when the text is none or lies outside.
pub fn parse_integer(text: &str, min: i64, max: i64, expected: &'static str) -> Result<i64, Expected> {
    let value = is_canonical_integer(text).then(|| text.parse::<i64>().ok()).flatten();
    value.filter(|value| (min..=max).contains(value)).ok_or(Expected::new(expected))
}

/// A value as an error repeats it: quoted, escaped, cut.
#[must_use]
pub fn shown(value: &str) -> String {
    let mut chars = value.chars();
    let head: String = chars.by_ref().take(SHOWN_CHARS_MAX).collect();
    let more = if chars.next().is_some() { "..." } else { "" };
    format!("{head:?}{more}")
}

fn shown_plain(value: &str) -> String {
    let quoted = shown(value);
    quoted.replace('"', "")
}

fn shown_name(name: &str) -> String {
    if name.is_empty() { "a field without a name".to_owned() } else { shown_plain(name) }
}

/// Why bytes are no text.
enum NoText {
    NotUtf8,
    Nul,
}

impl NoText {
    fn named(self, name: String) -> UnreadableFields {
        match self {
            Self::NotUtf8 => UnreadableFields::NotUtf8(name),
            Self::Nul => UnreadableFields::Nul(name),
        }
    }
}

/// Decodes plus signs and percent escapes once; broken escapes stand for themselves. Every byte of
/// every exchange goes through here, so it makes one pass and one allocation.
fn decode(encoded: &[u8]) -> Result<String, NoText> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((first, behind)) = rest.split_first() {
        let (byte, behind) = match (first, behind) {
            (b'+', _) => (b' ', behind),
            (b'%', [high, low, behind @ ..]) => match (hex_digit(*high), hex_digit(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, behind),
                (_, _) => (b'%', &rest[1..]),
            },
            (byte, _) => (*byte, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    if bytes.contains(&0) {
        // Bytes that are no text at all are told first.
        return Err(if std::str::from_utf8(&bytes).is_ok() { NoText::Nul } else { NoText::NotUtf8 });
    }
    String::from_utf8(bytes).map_err(|_| NoText::NotUtf8)
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

fn json_value(name: &str, raw: &str) -> Result<Value, UnreadableFields> {
    Ok(match raw.as_bytes().first() {
        Some(b'"') => {
            let text: String =
                serde_json::from_str(raw).map_err(|_| UnreadableFields::NotUtf8(shown_name(name)))?;
            if text.contains('\0') {
                return Err(UnreadableFields::Nul(shown_name(name)));
            }
            Value::Text(text)
        }
        Some(b'{') => Value::Other("an object"),
        Some(b'[') => Value::Other("an array"),
        Some(b't') => Value::Other("true"),
        Some(b'f') => Value::Other("false"),
        Some(b'n') => Value::Null,
        _ => Value::Number(raw.to_owned()),
    })
}

fn json_fault(text: &str, error: &serde_json::Error) -> UnreadableFields {
    let got = match (text.trim_start().as_bytes().first(), error.is_data()) {
        (None, _) => "nothing".to_owned(),
        (Some(b'{'), true) => return UnreadableFields::TooMany,
        (Some(b'['), _) => "an array".to_owned(),
        (Some(b'"'), true) => "text".to_owned(),
        (Some(b'n'), true) => "null".to_owned(),
        (Some(b't'), true) => "true".to_owned(),
        (Some(b'f'), true) => "false".to_owned(),
        (Some(_), true) => "a number".to_owned(),
        (Some(_), false) => format!("a fault at line {} column {}", error.line(), error.column()),
    };
    UnreadableFields::NotAnObject(got)
}

/// The members of one JSON object in order, duplicates included, values unread.
struct RawObject<'a>(Vec<(String, &'a RawValue)>);

impl<'de> serde::Deserialize<'de> for RawObject<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RawObject<'de>;

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
                    members.push((name, map.next_value::<&RawValue>()?));
                }
                Ok(RawObject(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Contract 2.5 and 3: decoded once, as every form decoder does it.
        #[test]
        fn a_value_is_decoded_as_a_form_decoder_would(
            encoded in prop::collection::vec(
                prop_oneof![Just(b'%'), Just(b'+'), Just(b'2'), Just(b'f'), Just(b'E'), any::<u8>()], 0..40),
        ) {
            let spaced: Vec<u8> = encoded.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
            let expected: Vec<u8> = percent_encoding::percent_decode(&spaced).collect();
            match (decode(&encoded), String::from_utf8(expected)) {
                (Ok(text), Ok(expected)) => prop_assert_eq!(text, expected),
                (Err(NoText::Nul), Ok(expected)) => prop_assert!(expected.contains('\0')),
                (Err(NoText::NotUtf8), Err(_)) => {}
                (got, expected) => prop_assert!(false, "{:?} {:?}", got.is_ok(), expected),
            }
        }
    }
}
