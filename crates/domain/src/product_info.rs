//! `product_info`: the items of an exchange. The JSON text is checked and stored unchanged (contract 3.5).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::fields::{Expected, FieldError, Fields, Members, UnreadableFields, parse_integer, with_bound};
use crate::text;
use crate::text::Text;

/// Largest `product_info`, in bytes.
pub const BYTES_MAX: usize = 16 * 1024;
/// Most items in one exchange.
pub const ITEMS_MAX: usize = 100;
/// Items of the example.
pub const EXAMPLE: &str = r#"[{"product_id":1001,"product_num":1,"product_type":0}]"#;
/// The members of an item, in the order of contract 3.5.
pub(crate) const MEMBERS: [&str; 5] =
    ["product_id", "product_num", "product_type", "product_start_time", "product_period"];
/// `product_type` of a time-limited item, which must say when it is valid.
const TIME_LIMITED: i64 = 1;

/// The JSON text of 1 to 100 items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProductInfo(String);

impl ProductInfo {
    /// Accepts the JSON text of an array of items. Other keys in an item are ignored, and so is a byte-order mark.
    ///
    /// # Errors
    /// The first thing wrong with it, naming the item and its field.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        items(text)?;
        Ok(Self(text.to_owned()))
    }

    /// The text as it came.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One item (contract 3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Item {
    /// Id of the item.
    pub product_id: i64,
    /// How many.
    pub product_num: i64,
    /// 0 one-time, 1 time-limited, 2 permanent.
    pub product_type: i64,
    /// From when it is valid, in Unix milliseconds.
    pub product_start_time: Option<i64>,
    /// Until when, likewise.
    pub product_period: Option<i64>,
}

/// The JSON Schema of the items (contract 3.5).
#[must_use]
pub fn items_schema() -> Value {
    let item = schemars::schema_for!(Item).to_value();
    let mut properties = item["properties"].clone();
    for (name, minimum) in
        [("product_id", 0), ("product_num", 1), ("product_start_time", 0), ("product_period", 0)]
    {
        properties[name]["type"] = "integer".into();
        properties[name]["minimum"] = minimum.into();
    }
    properties["product_type"]["enum"] = json!([0, 1, 2]);
    let required = ["product_id", "product_num", "product_type"];
    let item = json!({ "type": "object", "required": required, "properties": properties });
    json!({ "type": "array", "minItems": 1, "maxItems": ITEMS_MAX, "items": item })
}

/// The items in a text that a [`ProductInfo`] is made of, in their order.
///
/// # Errors
/// Those of [`ProductInfo::parse`].
pub fn items(text: &str) -> Result<Vec<Item>, Expected> {
    if text.len() > BYTES_MAX {
        return Err(Expected::new("at most 16384 bytes"));
    }
    let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|_| not_an_array(text))?;
    if !(1..=ITEMS_MAX).contains(&items.len()) {
        return Err(Expected(text!(
            "an array of 1 to 100 item objects, not of {count}",
            count = items.len()
        )));
    }
    let read = |(index, item): (usize, &&RawValue)| {
        plain_item(item.get()).map_or_else(|| read_item(item.get()), Ok).map_err(|fault| {
            Expected(text!("item objects as the interface defines them ([{index}]: {fault})", index, fault))
        })
    };
    items.iter().enumerate().map(read).collect()
}

/// What was expected where a text of no JSON array came, with the place where it stops to be JSON.
fn not_an_array(text: &str) -> Expected {
    let Err(error) = serde_json::from_str::<&RawValue>(text) else {
        return Expected::new("the JSON text of an array of 1 to 100 item objects");
    };
    let fault = text!("a fault at line {line} column {column}", line = error.line(), column = error.column());
    Expected(text!("the JSON text of an array of 1 to 100 item objects ({fault})", fault))
}

/// A text of items with `replaced` carried out on what a game has added to them: names, texts and numbers. The members of
/// contract 3.5 stay: they are numbers, whatever they are equal to. A text that is not of items is replaced as a whole.
#[must_use]
pub fn with_additions_replaced(text: &str, replaced: &impl Fn(&str) -> String) -> String {
    let Ok(items) = serde_json::from_str::<Vec<Members<&RawValue>>>(text) else { return replaced(text) };
    let mut is_changed = false;
    let mut member = |(name, value): &(String, &RawValue)| {
        if MEMBERS.contains(&name.as_str()) {
            return format!("{}:{value}", json!(name));
        }
        let (name_after, value_after) = (replaced(name), addition_replaced(value.get(), replaced));
        is_changed |= name_after != *name || value_after != value.get();
        format!("{}:{value_after}", json!(name_after))
    };
    let items: Vec<String> = items
        .iter()
        .map(|Members(members)| {
            let members: Vec<String> = members.iter().map(&mut member).collect();
            format!("{{{}}}", members.join(","))
        })
        .collect();
    // Blanks go with a change alone.
    if is_changed { format!("[{}]", items.join(",")) } else { text.to_owned() }
}

fn addition_replaced(json: &str, replaced: &impl Fn(&str) -> String) -> String {
    // What no program can hold, such as 1e999, becomes a text.
    let before = serde_json::from_str(json).unwrap_or_else(|_| Value::String(json.to_owned()));
    let after = value_replaced(before.clone(), replaced);
    if after == before { json.to_owned() } else { after.to_string() }
}

fn value_replaced(value: Value, replaced: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(replaced(&text)),
        Value::Number(number) if !number.is_f64() => {
            let before = number.to_string();
            let after = replaced(&before);
            if after == before { Value::Number(number) } else { Value::String(after) }
        }
        Value::Array(values) => {
            Value::Array(values.into_iter().map(|value| value_replaced(value, replaced)).collect())
        }
        Value::Object(members) => {
            let members = members.into_iter();
            Value::Object(
                members.map(|(name, value)| (replaced(&name), value_replaced(value, replaced))).collect(),
            )
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
    }
}

/// An item as most games send it: an object of the members alone, each an integer. It is [`read_item`] that tells what is
/// wrong with any other.
fn plain_item(json: &str) -> Option<Item> {
    #[derive(Deserialize)]
    #[serde(remote = "Item", deny_unknown_fields)]
    #[expect(clippy::struct_field_names, reason = "they are those of the wire")]
    struct PlainItem {
        product_id: i64,
        product_num: i64,
        product_type: i64,
        product_start_time: Option<i64>,
        product_period: Option<i64>,
    }
    // A list of the values would be taken, too.
    if !json.starts_with('{') {
        return None;
    }
    let item = PlainItem::deserialize(&mut serde_json::Deserializer::from_str(json)).ok()?;
    let is_limited = item.product_type == TIME_LIMITED;
    let fits = item.product_id >= 0
        && item.product_num >= 1
        && (0..=2).contains(&item.product_type)
        && [item.product_start_time, item.product_period]
            .iter()
            .all(|moment| moment.map_or(!is_limited, |moment| moment >= 0));
    fits.then_some(item)
}

fn read_item(json: &str) -> Result<Item, Text> {
    let item = Fields::from_json(json.as_bytes()).map_err(|error| match error {
        UnreadableFields::NotAnObject(got) => text!("expected a JSON object, got {got}", got),
        UnreadableFields::NotJson(fault) => text!("expected one JSON object: {fault}", fault),
        other => other.text(),
    })?;
    read_item_fields(&item).map_err(|error| error.text())
}

fn read_item_fields(item: &Fields) -> Result<Item, FieldError> {
    let product_id = item.required("product_id", |text| {
        parse_integer(text, 0, i64::MAX, "an integer, 0 or more").map_err(|fault| with_bound(text, fault))
    })?;
    let product_num = item.required("product_num", |text| {
        parse_integer(text, 1, i64::MAX, "an integer, 1 or more").map_err(|fault| with_bound(text, fault))
    })?;
    let product_type = item.required("product_type", |text| parse_integer(text, 0, 2, "0, 1 or 2"))?;
    let moment = |name: &str| {
        let parse = |text: &str| {
            let moment = parse_integer(text, 0, i64::MAX, "an integer of milliseconds");
            moment.map_err(|fault| with_bound(text, fault))
        };
        if product_type == TIME_LIMITED {
            item.required(name, parse).map(Some)
        } else {
            item.optional(name, parse)
        }
    };
    let (product_start_time, product_period) = (moment("product_start_time")?, moment("product_period")?);
    Ok(Item { product_id, product_num, product_type, product_start_time, product_period })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fault(text: &str) -> String {
        ProductInfo::parse(text).unwrap_err().0.english()
    }

    #[test]
    fn items_of_every_type_are_taken_and_other_keys_ignored() {
        for good in [
            r#"[{"product_id":0,"product_num":1,"product_type":0}]"#,
            r#"[{"product_id":"7","product_num":"2","product_type":"2","x":{"y":[1.5]},"z":null}]"#,
            r#" [ {"product_id":1,"product_num":1,"product_type":1,"product_start_time":1700000000000,"product_period":1800000000000} ] "#,
            r#"[{"product_id":1,"product_num":1,"product_type":0,"product_start_time":null,"product_period":""}]"#,
        ] {
            assert_eq!(ProductInfo::parse(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn items_are_read_as_they_were_sent() {
        let text = r#"[{"product_id":"7","product_num":2,"product_type":1,"product_start_time":5,"product_period":6},{"product_id":8,"product_num":1,"product_type":2,"x":1}]"#;
        let limited = Item {
            product_id: 7,
            product_num: 2,
            product_type: 1,
            product_start_time: Some(5),
            product_period: Some(6),
        };
        let permanent = Item {
            product_id: 8,
            product_num: 1,
            product_type: 2,
            product_start_time: None,
            product_period: None,
        };
        assert_eq!(items(text).unwrap(), [limited, permanent]);
    }

    /// Contract 13.7.4: what a game adds may name a player; what contract 3.5 names are numbers.
    #[test]
    fn additions_are_replaced_and_members_stay() {
        let replaced = |text: &str| with_additions_replaced(text, &|text| text.replace("600", "x"));
        let items = r#" [{"product_id":600,"product_num":"600","product_type":0,"product_start_time":600}, {"to":1} ] "#;
        assert_eq!(replaced(items), items);
        assert_eq!(
            replaced(
                r#"[{"product_id":600, "600":[600, "to 600"], "who":{"id":600,"is":true}},{"by":1.50}]"#
            ),
            r#"[{"product_id":600,"x":["x","to x"],"who":{"id":"x","is":true}},{"by":1.50}]"#
        );
        assert_eq!(replaced(r#"[{"a":600.5,"b":[1e999,600]}]"#), r#"[{"a":600.5,"b":"[1e999,x]"}]"#);
        assert_eq!(replaced("600 [damaged"), "x [damaged");
    }

    #[test]
    fn an_item_of_integers_is_read_at_once() {
        let limited =
            r#"{"product_id":1,"product_num":1,"product_type":1,"product_start_time":0,"product_period":5}"#;
        assert!(plain_item(&EXAMPLE[1..EXAMPLE.len() - 1]).is_some() && plain_item(limited).is_some());
        assert_eq!(plain_item("[1,1,0,null,null]"), None);
    }

    proptest! {
        /// What is read at once is read alike by what tells faults.
        #[test]
        fn a_plain_item_is_read_as_any_other(
            members in prop::collection::vec((
                prop::sample::select(&["product_id", "product_num", "product_type", "product_start_time",
                    "product_period", "product\\u005fid", "x", "\\u0000"][..]),
                prop::sample::select(&["0", "1", "2", "3", "-1", "-0", "1.0", "1e1", "\"1\"", "null", "true", "[]",
                    "9223372036854775807", "9223372036854775808"][..])), 0..7),
            whole in any::<bool>(),
        ) {
            let known = MEMBERS.iter().map(|name| (*name, "1")).filter(|_| whole);
            let mut members: Vec<_> = members.into_iter().chain(known).collect();
            if whole {
                members.sort_by_key(|(name, _)| *name);
                members.dedup_by_key(|(name, _)| *name);
            }
            let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            let json = format!("{{{}}}", members.join(","));
            if let Some(item) = plain_item(&json) {
                prop_assert_eq!(read_item(&json), Ok(item));
            }
        }
    }

    #[test]
    fn what_is_wrong_with_an_item_is_named() {
        let item = |body: &str| fault(&format!("[{{{body}}}]"));
        assert!(item(r#""product_num":1,"product_type":0"#).contains("[0]: product_id is missing"));
        assert!(
            item(r#""product_id":-1,"product_num":1,"product_type":0"#)
                .contains("product_id: expected an integer, 0 or more, got -1")
        );
        assert!(item(r#""product_id":1,"product_num":0,"product_type":0"#).contains("product_num: expected"));
        for (above, expected, got) in [
            (
                r#""product_id":9223372036854775808"#,
                "product_id: expected an integer, 0",
                "9223372036854775808",
            ),
            (
                r#""product_id":1,"product_num":"9223372036854775808""#,
                "product_num: expected an integer, 1",
                r#""9223372036854775808""#,
            ),
        ] {
            let told = format!("[0]: {expected} or more and at most 9223372036854775807, got {got}");
            assert!(item(above).contains(&told), "{}", item(above));
        }
        assert!(
            item(r#""product_id":1,"product_num":1.0,"product_type":0"#).contains("product_num: expected")
        );
        assert!(
            item(r#""product_id":1,"product_num":1,"product_type":3"#)
                .contains("product_type: expected 0, 1 or 2")
        );
        assert!(
            item(r#""product_id":1,"product_num":1,"product_type":1,"product_period":5"#)
                .contains("product_start_time is missing")
        );
        assert!(
            item(r#""product_id":1,"product_num":1,"product_type":1,"product_start_time":5"#)
                .contains("product_period is missing")
        );
        assert!(
            item(r#""product_id":1,"product_id":1,"product_num":1,"product_type":0"#)
                .contains("product_id: expected once, given twice")
        );
        assert!(fault("[1]").contains("([0]: expected a JSON object, got"), "{}", fault("[1]"));
        assert!(fault("[[{}]]").contains("([0]: expected a JSON object, got"), "{}", fault("[[{}]]"));
        for text in ["", "{}", "[", "null", "[{}] x"] {
            assert!(fault(text).contains("the JSON text of an array"), "{text}");
        }
        let array = "the JSON text of an array of 1 to 100 item objects";
        assert_eq!(fault("{}"), array);
        assert_eq!(fault(r#""\ud800""#), array);
        assert_eq!(fault("[{\"a\":1,}]"), format!("{array} (a fault at line 1 column 9)"));
        assert_eq!(fault("[{}]\nx"), format!("{array} (a fault at line 2 column 1)"));
        let half = item(r#""product_id":1,"product_num":1,"product_type":0,"\udc00":"""#);
        assert!(half.contains("([0]: a field name: expected UTF-8 text)"), "{half}");
        assert!(fault("[]").contains("not of 0"));
    }

    #[test]
    fn a_hundred_items_and_sixteen_kibibytes_are_the_limits() {
        let item = r#"{"product_id":1,"product_num":1,"product_type":0}"#;
        let of = |count: usize| format!("[{}]", vec![item; count].join(","));
        assert!(ProductInfo::parse(&of(100)).is_ok());
        assert!(fault(&of(101)).contains("not of 101"));
        let padded = |bytes: usize| format!("[{item}{}]", " ".repeat(bytes - item.len() - 2));
        assert!(ProductInfo::parse(&padded(16_384)).is_ok());
        assert!(fault(&padded(16_385)).contains("at most 16384 bytes"));
    }
}
