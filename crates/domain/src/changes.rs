//! The differences between two JSON objects in words, for the operator's log.

use serde_json::{Map, Value};

/// One field that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldChange {
    /// Its name.
    pub field: String,
    /// What it was; `None` where there was nothing.
    pub before: Option<String>,
    /// What it became; `None` where nothing is left.
    pub after: Option<String>,
}

/// The fields that differ. Anything but an object has no fields.
#[must_use]
pub fn changes(before: Option<&Value>, after: Option<&Value>) -> Vec<FieldChange> {
    let none = Map::new();
    let before = before.and_then(Value::as_object).unwrap_or(&none);
    let after = after.and_then(Value::as_object).unwrap_or(&none);
    let names = after.keys().chain(before.keys().filter(|name| !after.contains_key(*name)));
    names
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| FieldChange {
            field: name.clone(),
            before: before.get(name).map(words),
            after: after.get(name).map(words),
        })
        .collect()
}

/// A value for people.
#[must_use]
pub fn words(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join(" "),
        Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_fields_that_differ_are_listed() {
        let change = |field: &str, before: Option<&str>, after: Option<&str>| FieldChange {
            field: field.to_owned(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
        };
        let listed = |before: Value, after: Value| {
            changes(Some(&before).filter(|v| !v.is_null()), Some(&after).filter(|v| !v.is_null()))
        };
        assert_eq!(
            listed(json!({"suspended": false, "same": 1}), json!({"suspended": true, "same": 1})),
            [change("suspended", Some("no"), Some("yes"))]
        );
        assert_eq!(listed(json!({"b": null}), json!({"b": 2})), [change("b", Some("none"), Some("2"))]);
        assert_eq!(listed(Value::Null, json!({"ids": ["p1", "p2"]})), [change("ids", None, Some("p1 p2"))]);
        assert_eq!(listed(json!({"reason": "r"}), Value::Null), [change("reason", Some("r"), None)]);
        assert_eq!(listed(Value::Null, Value::Null), []);
    }
}
