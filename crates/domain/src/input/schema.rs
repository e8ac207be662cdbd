//! JSON Schemas of Rust types, as OpenAPI 3.1 has them.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

/// The schema of a type, and those that it refers to by their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    /// The schema, which may be a reference.
    pub root: Value,
    /// What stands among the document's components.
    pub named: BTreeMap<String, Value>,
}

fn generator(inline: bool) -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
        settings.inline_subschemas = inline;
    });
    settings.into_generator()
}

/// The schema of a type that is answered.
#[must_use]
pub fn schema<T: JsonSchema>() -> Schema {
    let mut generator = generator(false);
    let mut root = generator.subschema_for::<T>().to_value();
    tidy(&mut root);
    let mut named: BTreeMap<String, Value> = generator.take_definitions(true).into_iter().collect();
    named.values_mut().for_each(tidy);
    Schema { root, named }
}

/// The schema of a type, with whatever it refers to inside it.
pub(super) fn inline_schema<T: JsonSchema>() -> Value {
    let mut schema = generator(true).subschema_for::<T>().to_value();
    tidy(&mut schema);
    // What a field means stands beside its schema.
    schema.as_object_mut().and_then(|schema| schema.remove("description"));
    schema
}

/// Puts a schema into the form that generators of clients read. An enum is a list of its values, whether or not its
/// values have comments. Integers have a format of OpenAPI.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(values) = members.get("oneOf").and_then(constants) {
                members.remove("oneOf");
                members.insert("type".to_owned(), "string".into());
                members.insert("enum".to_owned(), values);
            }
            let rusts = ["int16", "uint8", "uint16", "uint32", "uint64", "uint"];
            if members.contains_key("enum") {
                for bound in ["minimum", "maximum"] {
                    members.remove(bound);
                }
            }
            if members.get("format").and_then(Value::as_str).is_some_and(|format| rusts.contains(&format)) {
                members.insert("format".to_owned(), "int64".into());
            }
            // That is what holds without the word.
            if members.get("additionalProperties") == Some(&Value::Bool(true)) {
                members.remove("additionalProperties");
            }
            members.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The texts of alternatives that are one text each.
fn constants(alternatives: &Value) -> Option<Value> {
    let texts = alternatives.as_array()?.iter();
    texts.map(|alternative| alternative.get("const").filter(|value| value.is_string()).cloned()).collect()
}
