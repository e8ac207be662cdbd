//! Fields of a JSON object: loose for the public API and for callbacks, strict for the admin API.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{FIELDS_MAX, FieldValue, Fields, UnreadableFields, check_name, shown_name};
use crate::body::{BodyKind, without_mark};
use crate::text;
use crate::text::Text;

/// How many objects within each other are read. Stripe's metadata is the third below a body.
const NESTED_MAX: usize = 3;

impl Fields {
    /// Reads one JSON object. Only the top level matters; of an object in it the names are kept, of a list the type.
    ///
    /// # Errors
    /// As [`Fields::from_urlencoded`], and anything that is not one JSON object.
    pub fn from_json(body: &[u8]) -> Result<Self, UnreadableFields> {
        Self::from_json_with(0, body)
    }

    /// The same with the objects in it, for [`Fields::required_object`], which tells what is wrong with one that it reads.
    /// What is nested deeper is not read.
    ///
    /// # Errors
    /// As [`Fields::from_json`].
    pub fn from_nested_json(body: &[u8]) -> Result<Self, UnreadableFields> {
        Self::from_json_with(NESTED_MAX, body)
    }

    fn from_json_with(nested: usize, body: &[u8]) -> Result<Self, UnreadableFields> {
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
            match json_value(raw.get(), nested) {
                FieldValue::NotUtf8 => return Err(UnreadableFields::NotUtf8(shown_name(&name))),
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
            let object: Members<FieldValue> = serde_json::from_slice(body).map_err(|error| {
                // The parser's own words would name a place that helps nobody.
                let is_array = body.trim_ascii_start().starts_with(b"[");
                if is_array {
                    UnreadableFields::NotAnObject(text!("an array"))
                } else {
                    UnreadableFields::NotJson(error.to_string())
                }
            })?;
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
}

/// A value, with `nested` objects within each other.
fn json_value(raw: &str, nested: usize) -> FieldValue {
    match raw.as_bytes().first() {
        Some(b'"') => serde_json::from_str(raw).map_or(FieldValue::NotUtf8, FieldValue::Text),
        Some(b'{') if nested > 0 => {
            nested_members(raw, nested - 1).map_or_else(FieldValue::Broken, FieldValue::Object)
        }
        Some(b'{') => FieldValue::Unread(names_in(raw)),
        Some(b'[') => FieldValue::Other("an array"),
        Some(b't') => FieldValue::Other("true"),
        Some(b'f') => FieldValue::Other("false"),
        Some(b'n') => FieldValue::Null,
        _ => FieldValue::Number(raw.to_owned()),
    }
}

/// The members of an object in a text that is JSON. So only their names or their number may be wrong.
fn nested_members(raw: &str, nested: usize) -> Result<Vec<(String, FieldValue)>, UnreadableFields> {
    let object: Members<&RawValue> = serde_json::from_str(raw).map_err(|error| json_fault(raw, &error))?;
    let read = |(name, raw): (String, &RawValue)| (name, json_value(raw.get(), nested));
    Ok(object.0.into_iter().map(read).collect())
}

/// The names in an object that is not read. One that cannot be read has none: whatever stands in it is no fault.
fn names_in(raw: &str) -> Vec<String> {
    let object: Result<Members<IgnoredAny>, _> = serde_json::from_str(raw);
    object.map(|object| object.0.into_iter().map(|(name, _)| name).collect()).unwrap_or_default()
}

fn json_fault(text: &str, error: &serde_json::Error) -> UnreadableFields {
    // Half of a surrogate pair is JSON. In a value it does not stop the parser, so it stands in a name.
    let is_object = text.trim_start().starts_with('{');
    if is_object && error.is_syntax() && serde_json::from_str::<&RawValue>(text).is_ok() {
        return UnreadableFields::NotUtf8(text!("a field name"));
    }
    let got = match (text.trim_start().as_bytes().first(), error.is_data()) {
        (None, _) => text!("nothing"),
        (Some(b'{'), true) => return UnreadableFields::TooMany,
        (Some(b'['), _) => text!("an array"),
        (Some(b'"'), true) => text!("text"),
        (Some(b'n'), true) => Text::same("null"),
        (Some(b't'), true) => Text::same("true"),
        (Some(b'f'), true) => Text::same("false"),
        (Some(_), true) => text!("a number"),
        (Some(_), false) if BodyKind::of(text.as_bytes()) == BodyKind::PlainText => {
            BodyKind::PlainText.name()
        }
        (Some(_), false) => {
            text!("a fault at line {line} column {column}", line = error.line(), column = error.column())
        }
    };
    UnreadableFields::NotAnObject(got)
}

/// The members of one JSON object in order, duplicates included.
pub(crate) struct Members<V>(pub(crate) Vec<(String, V)>);

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
