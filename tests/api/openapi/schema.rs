//! JSON Schema, as far as the document of the API uses it. A keyword that is not known here fails the
//! test: nothing is passed over in silence.

use regex_lite::Regex;
use serde_json::Value;

/// Keywords that say something to people and demand nothing.
const ANNOTATIONS: [&str; 6] =
    ["description", "default", "format", "contentMediaType", "contentSchema", "components"];

/// What of `value` is not as `schema` says, with its place; references point into `root`.
pub(crate) fn faults(root: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let keywords = schema.as_object().expect("a schema is an object");
    let mut found = Vec::new();
    for (keyword, demand) in keywords {
        match keyword.as_str() {
            "$ref" => {
                let pointer = demand.as_str().unwrap().trim_start_matches('#');
                let target = root.pointer(pointer).unwrap_or_else(|| panic!("{pointer} is not there"));
                found.extend(faults(root, target, value, place));
            }
            "properties" => {
                for (name, member) in demand.as_object().unwrap() {
                    if let Some(inner) = value.get(name) {
                        found.extend(faults(root, member, inner, &format!("{place}/{name}")));
                    }
                }
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(faults(root, demand, item, &format!("{place}/{index}")));
                }
            }
            "oneOf" | "anyOf" => {
                let fits = |option: &&Value| faults(root, option, value, place).is_empty();
                let fitting = demand.as_array().unwrap().iter().filter(fits).count();
                if fitting == 0 || (keyword == "oneOf" && fitting > 1) {
                    found.push(format!("{place}: {fitting} of {keyword} fit {value}"));
                }
            }
            known if ANNOTATIONS.contains(&known) => {}
            simple if !is_met(simple, demand, value) => {
                found.push(format!("{place}: expected {simple} {demand}, got {value}"));
            }
            _ => {}
        }
    }
    found
}

/// A keyword that looks at the value alone. One for another type of value is always met.
fn is_met(keyword: &str, demand: &Value, value: &Value) -> bool {
    let limit = || demand.as_u64().unwrap();
    let characters = || value.as_str().map(|text| text.chars().count() as u64);
    let items = || value.as_array().map(|items| items.len() as u64);
    match keyword {
        "type" => match demand {
            Value::Array(types) => types.iter().any(|one| is_of(one.as_str().unwrap(), value)),
            one => is_of(one.as_str().unwrap(), value),
        },
        "const" => value == demand,
        "enum" => demand.as_array().unwrap().contains(value),
        "pattern" => value.as_str().is_none_or(|text| matches(demand.as_str().unwrap(), text)),
        "minLength" => characters().is_none_or(|length| length >= limit()),
        "maxLength" => characters().is_none_or(|length| length <= limit()),
        "minItems" => items().is_none_or(|length| length >= limit()),
        "maxItems" => items().is_none_or(|length| length <= limit()),
        "minimum" => value.as_i64().is_none_or(|number| number >= demand.as_i64().unwrap()),
        "maximum" => value.as_i64().is_none_or(|number| number <= demand.as_i64().unwrap()),
        "required" => value.as_object().is_none_or(|object| {
            demand.as_array().unwrap().iter().all(|name| object.contains_key(name.as_str().unwrap()))
        }),
        other => panic!("the keyword {other} is not known"),
    }
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("type {other} is not known"),
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}")).is_match(text)
}
