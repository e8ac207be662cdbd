//! JSON whose members stay in the order in which they are written: a document for people.

use serde::ser::{Serialize, SerializeMap as _, Serializer};

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer; the API has no other numbers.
    Integer(i64),
    /// Text.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object, each name once.
    Object(Vec<(String, Json)>),
}

/// An object, written as it reads: `object! { "type": "string" }`.
macro_rules! object {
    ($($name:literal: $value:expr),* $(,)?) => {
        $crate::openapi::json::Json::Object(vec![
            $(($name.to_owned(), $crate::openapi::json::Json::from($value))),*
        ])
    };
}
pub(super) use object;

impl Json {
    /// The object with one member more, at its end.
    ///
    /// # Panics
    /// On anything but an object: the document is written by this module alone.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Self>) -> Self {
        let Self::Object(members) = &mut self else { panic!("only an object has members") };
        members.push((name.into(), value.into()));
        self
    }

    /// A member of an object.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.members().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The members of an object in their order; none for anything else.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Self)> {
        let members = if let Self::Object(members) = self { members.as_slice() } else { &[] };
        members.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// A value of the usual kind, its members in order of their names; what is no integer becomes text.
    #[must_use]
    pub fn from_value(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => {
                number.as_i64().map_or_else(|| Self::Text(number.to_string()), Self::Integer)
            }
            serde_json::Value::String(text) => Self::Text(text.clone()),
            serde_json::Value::Array(items) => Self::List(items.iter().map(Self::from_value).collect()),
            serde_json::Value::Object(members) => Self::Object(
                members.iter().map(|(name, value)| (name.clone(), Self::from_value(value))).collect(),
            ),
        }
    }

    /// A text as it is, anything else as compact JSON.
    #[must_use]
    pub fn plain(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Null | Self::Bool(_) | Self::Integer(_) | Self::List(_) | Self::Object(_) => self.compact(),
        }
    }

    /// On one line, as it goes over the wire.
    ///
    /// # Panics
    /// Never: every value of this type is JSON.
    #[must_use]
    pub fn compact(&self) -> String {
        serde_json::to_string(self).expect("every value of this type is JSON")
    }

    /// On many lines.
    ///
    /// # Panics
    /// Never: every value of this type is JSON.
    #[must_use]
    pub fn pretty(&self) -> String {
        serde_json::to_string_pretty(self).expect("every value of this type is JSON")
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Integer(value) => serializer.serialize_i64(*value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<i32> for Json {
    fn from(value: i32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<u32> for Json {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<usize> for Json {
    fn from(value: usize) -> Self {
        Self::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Json {
    fn from(items: Vec<T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}
