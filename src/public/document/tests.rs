use std::sync::LazyLock;

use domain::ids::{AppId, BizNo, ImgId, OpenId, OrderNo, Os, ZoneId};
use domain::wallet::{Amount, Timestamp};
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::openapi::Place;

#[path = "../../../tests/api/openapi/schema.rs"]
mod schema;

fn defaults() -> Config {
    Config::load(None, std::iter::empty()).unwrap()
}

/// Whether the schema of a field takes a value.
fn takes(schema: &Value, value: &Value) -> bool {
    schema::faults(schema, schema, value, "").is_empty()
}

/// The document's text about a field.
fn told(id: &str, field: &str) -> Value {
    let call = calls(&defaults()).into_iter().find(|call| call.route.id == id).unwrap();
    let field = call.operation.fields.into_iter().find(|known| known.name == field).unwrap();
    field.schema
}

/// The fields whose whole rule the document tells, with the parsers that hold it.
type Told = (&'static str, &'static str, fn(&str) -> bool);
const TOLD: [Told; 8] = [
    ("exchange", "app_id", |text| AppId::parse(text).is_ok()),
    ("exchange", "open_id", |text| OpenId::parse(text).is_ok()),
    ("exchange", "biz_no", |text| BizNo::parse(text).is_ok()),
    ("exchange", "os", |text| Os::parse(text).is_ok()),
    ("exchange", "ts", |text| Timestamp::parse(text).is_ok()),
    ("exchange", "zone_id", |text| ZoneId::parse(text).is_ok()),
    ("reportOrder", "out_order_no", |text| OrderNo::parse(text).is_ok()),
    ("reportOrder", "product_cover_img_id", |text| ImgId::parse(text).is_ok()),
];

#[test]
fn a_pattern_of_the_document_takes_what_the_parser_takes() {
    for (id, field, parses) in TOLD {
        let told = told(id, field);
        let lengths = [0, 1, 5, 6, 9, 10, 11, 12, 13, 14, 32, 33, 47, 48, 49, 63, 64, 65, 126, 127, 128, 129];
        let mut texts: Vec<String> = Vec::new();
        for letter in ["a", "1", "0", "G", "_", "-", "*", "."] {
            texts.extend(lengths.iter().map(|length| letter.repeat(*length)));
            // Zones of the greatest length.
            texts.extend(lengths.iter().map(|length| format!("z_{}", letter.repeat(*length))));
        }
        texts.extend(["_r", "z_", "z__", "a\n", "é", "\u{7f}_a", "a_\u{85}", "１"].map(str::to_owned));
        for text in texts {
            assert_eq!(takes(&told, &text.as_str().into()), parses(&text), "{id} {field}: {text:?}");
        }
    }
}

/// The schemas of [`TOLD`].
static SCHEMAS: LazyLock<Vec<Value>> = LazyLock::new(|| TOLD.map(|(id, field, _)| told(id, field)).to_vec());

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_pattern_of_the_document_takes_what_the_parser_takes_of_any_text(
        text in prop_oneof!["[0-9A-Za-z_.*-]{0,70}", "\\PC{0,12}", "[0-9a-f]{47,49}", "[a&=_\\x00-\\x20\u{80}-\u{a0}]{0,8}"],
    ) {
        for ((id, field, parses), told) in TOLD.into_iter().zip(SCHEMAS.iter()) {
            prop_assert_eq!(takes(told, &text.as_str().into()), parses(&text), "{} {}", id, field);
        }
    }
}

#[test]
fn the_limits_of_numbers_are_those_of_the_parsers() {
    let amount = told("exchange", "amount");
    for value in [-1, 0, 1, 1_000_000_000_000, 1_000_000_000_001_i64] {
        assert_eq!(takes(&amount, &value.into()), Amount::parse(&value.to_string()).is_ok(), "{value}");
    }
    let status = told("reportOrder", "order_status");
    for value in 0..=20_i64 {
        let parses = domain::order::OrderStatus::parse(&value.to_string()).is_ok();
        assert_eq!(takes(&status, &value.into()), parses, "{value}");
    }
}

#[test]
fn every_segment_in_braces_is_a_parameter_and_every_name_stands_once() {
    let mut ids = BTreeSet::new();
    for call in calls(&defaults()) {
        let operation = &call.operation;
        let id = call.route.id;
        assert!(ids.insert(id), "{id} twice");
        let in_path = operation.fields_in(Place::Path);
        let told: Vec<String> = in_path.map(|parameter| format!("{{{}}}", parameter.name)).collect();
        let braced: Vec<&str> =
            call.route.path.split('/').filter(|segment| segment.starts_with('{')).collect();
        assert_eq!(told, braced, "{id}");
        let mut names = BTreeSet::new();
        let successes = operation.successes.iter().map(|success| success.name);
        for name in successes.chain(operation.refusals.iter().map(|example| example.name)) {
            assert!(names.insert(name), "{id}: {name} twice");
        }
    }
}

/// Contract 7.1: the code table names each endpoint that answers a code.
#[test]
fn every_refusal_of_a_call_is_of_a_code_of_its_endpoint() {
    for call in calls(&defaults()) {
        for example in call.operation.refusals {
            let (id, code) = (call.route.id, example.refusal.code);
            let name = example.name;
            assert!(code.row().endpoints.contains(&call.route.endpoint), "{id} answers {code:?}: {name}");
        }
    }
}

#[test]
fn every_code_is_shown_by_some_call() {
    let calls = calls(&defaults());
    for code in Code::ALL {
        let shown = calls.iter().flat_map(|call| &call.operation.refusals);
        assert!(shown.into_iter().any(|example| example.refusal.code == code), "{code:?}");
    }
}

#[test]
fn every_example_of_a_field_is_one_that_its_schema_takes() {
    for call in calls(&defaults()) {
        for field in call.operation.fields {
            let Some(example) = &field.example else { continue };
            assert!(takes(&field.schema, example), "{} {}", call.route.id, field.name);
        }
    }
}
