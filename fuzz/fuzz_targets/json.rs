//! A JSON body as fields: what was read is what another reader finds there, no name stands twice, and
//! written down again it reads the same.

#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use domain::fields::{Expected, Fields};
use serde_json::{Map, Value};

fn taken(text: &str) -> Result<String, Expected> {
    Ok(text.to_owned())
}

fuzz_target!(|data: &[u8]| {
    let Ok(fields) = Fields::from_json(data) else { return };
    let names: BTreeSet<&str> = fields.texts().map(|(name, _)| name).collect();
    assert!(names.len() == fields.texts().count() && names.len() <= 256);
    assert!(fields.texts().all(|(name, text)| !name.contains('\0') && !text.contains('\0')));

    let texts = fields.texts().map(|(name, text)| (name.to_owned(), Value::from(text)));
    let written = Value::Object(texts.collect::<Map<_, _>>()).to_string();
    let again = Fields::from_json(written.as_bytes()).expect("what was read can be written");
    assert!(fields.texts().all(|(name, text)| again.texts().any(|known| known == (name, text))));

    // The other reader knows no number above all floats, and reads what is nested.
    let Ok(Value::Object(object)) = serde_json::from_slice(data) else { return };
    for (name, value) in &object {
        let got = fields.optional(name, taken);
        match value {
            Value::Null => assert_eq!(got, Ok(None)),
            Value::String(text) => assert_eq!(got, Ok(Some(text.clone()).filter(|text| !text.is_empty()))),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => assert!(got.is_err()),
            // Minus zero and what has a fraction or an exponent is no integer, however it reads.
            Value::Number(number) => match got {
                Ok(text) => {
                    assert!(number.is_f64() || text == number.as_u64().map(|value| value.to_string()))
                }
                Err(_) => assert!(!number.is_u64()),
            },
        }
    }
});
