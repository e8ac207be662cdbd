//! The differences between two JSON objects, for the operator's log.

use serde_json::{Map, Value};

/// One field that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldChange<'a> {
    /// Its name.
    pub field: &'a str,
    /// What it was; `None` where there was nothing.
    pub before: Option<&'a Value>,
    /// What it became; `None` where nothing is left.
    pub after: Option<&'a Value>,
}

/// The fields that differ. Anything but an object has no fields.
#[must_use]
pub fn changes<'a>(before: Option<&'a Value>, after: Option<&'a Value>) -> Vec<FieldChange<'a>> {
    let before = before.and_then(Value::as_object);
    let after = after.and_then(Value::as_object);
    let gone = before.into_iter().flat_map(Map::keys).filter(|name| value_of(after, name).is_none());
    let names = after.into_iter().flat_map(Map::keys).chain(gone);
    names
        .map(|name| FieldChange { field: name, before: value_of(before, name), after: value_of(after, name) })
        .filter(|change| change.before != change.after)
        .collect()
}

fn value_of<'a>(state: Option<&'a Map<String, Value>>, name: &str) -> Option<&'a Value> {
    state.and_then(|fields| fields.get(name))
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
        let change = |field: &str, before: Option<&str>, after: Option<&str>| {
            (field.to_owned(), before.map(str::to_owned), after.map(str::to_owned))
        };
        let listed = |before: Value, after: Value| {
            let listed =
                changes(Some(&before).filter(|v| !v.is_null()), Some(&after).filter(|v| !v.is_null()));
            let words = listed
                .iter()
                .map(|change| (change.field.to_owned(), change.before.map(words), change.after.map(words)));
            words.collect::<Vec<_>>()
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
