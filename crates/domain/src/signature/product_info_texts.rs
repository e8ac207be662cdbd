//! The texts that libraries of other languages make of one JSON value. They differ in blanks, in the
//! order of keys, and in what they escape.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::value::RawValue;

use crate::fields::Members;
use crate::product_info::MEMBERS;

/// The places where a library puts blanks.
#[derive(Clone, Copy)]
enum JsonBlanks {
    None,
    /// One behind each comma and colon.
    Spaced,
    /// A line for each value, each level deeper by this text.
    Indented(&'static str),
}

/// How a library writes JSON.
#[derive(Clone, Copy)]
struct JsonStyle {
    blanks: JsonBlanks,
    /// The characters that it writes as `\u` and four digits.
    escaped: fn(char) -> bool,
    /// Whether those digits are in upper case.
    is_upper: bool,
    /// Whether a slash has a backslash.
    has_slashes: bool,
    number: fn(&str) -> String,
}

impl JsonStyle {
    const PLAIN: Self = Self {
        blanks: JsonBlanks::None,
        escaped: |_| false,
        is_upper: false,
        has_slashes: false,
        number: |number| number.to_owned(),
    };
    const ASCII: Self = Self { escaped: |letter| !letter.is_ascii(), ..Self::PLAIN };
    const PHP: Self = Self { has_slashes: true, ..Self::ASCII };
    const SLASHES: Self = Self { has_slashes: true, ..Self::PLAIN };
    const GO: Self = Self { escaped: |letter| "<>&\u{2028}\u{2029}".contains(letter), ..Self::PLAIN };

    const fn with(self, blanks: JsonBlanks) -> Self {
        Self { blanks, ..self }
    }

    /// The most usual first.
    const ALL: [Self; 19] = [
        Self::PLAIN,
        Self::PLAIN.with(JsonBlanks::Spaced),
        Self::PHP,
        Self::ASCII,
        Self::ASCII.with(JsonBlanks::Spaced),
        Self::SLASHES,
        Self::SLASHES.with(JsonBlanks::Spaced),
        Self::PHP.with(JsonBlanks::Spaced),
        Self::PLAIN.with(JsonBlanks::Indented("  ")),
        Self::PLAIN.with(JsonBlanks::Indented("    ")),
        Self::PLAIN.with(JsonBlanks::Indented("\t")),
        Self::ASCII.with(JsonBlanks::Indented("  ")),
        Self::ASCII.with(JsonBlanks::Indented("    ")),
        Self::PHP.with(JsonBlanks::Indented("    ")),
        // Gson, Go's json.Marshal, .NET's System.Text.Json.
        Self { escaped: |letter| "<>&='\u{2028}\u{2029}".contains(letter), ..Self::PLAIN },
        Self::GO,
        Self {
            escaped: |letter| !letter.is_ascii() || "<>&'+`\"".contains(letter),
            is_upper: true,
            ..Self::PLAIN
        },
        Self { number: |number| format!("\"{number}\""), ..Self::PLAIN },
        Self {
            number: |number| {
                if number.contains(['.', 'e', 'E']) { number.to_owned() } else { format!("{number}.0") }
            },
            ..Self::PLAIN
        },
    ];
}

/// In how many styles the less usual orders of keys are written.
const USUAL_STYLES: usize = 4;

/// In how many styles the items are written with members of `null` and without.
const STYLES_OF_NULLS: usize = 2;
/// In how many styles, beside that of Go, an object is written that is no item.
const OBJECT_STYLES: usize = 5;
const NULL: &str = "null";

/// Every other text of this array of flat objects.
pub(super) fn product_info_texts(text: &str) -> Vec<String> {
    let Ok(items) = serde_json::from_str::<Vec<BTreeMap<String, Box<RawValue>>>>(text) else {
        return Vec::new();
    };
    let sorted = serde_json::to_string(&items).unwrap_or_default();
    let sent: Vec<Members<&RawValue>> = serde_json::from_str(text).unwrap_or_default();
    let of_table = in_order(&sent, &MEMBERS);
    let mut texts = Vec::new();
    let mut add = |source: &str, styles: &[JsonStyle]| {
        let written = styles.iter().filter_map(|style| written(source, style));
        for written in written.filter(|written| written != text) {
            if !texts.contains(&written) {
                texts.push(written);
            }
        }
    };
    for source in [text, &sorted, &of_table] {
        add(source, &JsonStyle::ALL);
    }
    for source in other_orders(&sent) {
        add(&source, &JsonStyle::ALL[..USUAL_STYLES]);
    }
    for source in [without_nulls(&sent), with_nulls(&sent)] {
        add(&source, &JsonStyle::ALL[..STYLES_OF_NULLS]);
    }
    for source in [text, &sorted, &of_table] {
        texts.extend(PRINTS.iter().filter_map(|print| printed(source, print)));
    }
    // What JavaScript and PHP print where a text belongs.
    texts.extend([vec!["[object Object]"; items.len()].join(","), "Array".to_owned()]);
    // Written as a string of JSON, with its quotes and without.
    let quoted = serde_json::to_string(text).unwrap_or_default();
    let unquoted = quoted.trim_matches('"').to_owned();
    texts.extend([quoted, unquoted]);
    // Go's json.Encoder and echo end it with a line.
    texts.push(format!("{text}\n"));
    texts
}

/// The texts that usual languages make of this object of texts: JavaScript, Python, PHP, Go.
pub(super) fn object_texts(object: &str) -> Vec<String> {
    JsonStyle::ALL[..OBJECT_STYLES]
        .iter()
        .chain([&JsonStyle::GO])
        .filter_map(|style| written(object, style))
        .collect()
}

/// The items with these keys first in each, in this order, and its other keys behind them.
fn in_order(items: &[Members<&RawValue>], keys: &[&str]) -> String {
    let rank = |name: &str| keys.iter().position(|key| *key == name).unwrap_or(keys.len());
    array(items, |members| {
        let mut members: Vec<_> = members.iter().collect();
        members.sort_by_key(|(name, _)| rank(name));
        members.into_iter().map(|(name, value)| member(name, value.get())).collect()
    })
}

/// The items with all members of contract 3.5 first in each: `null` in place of one that did not come.
fn with_nulls(items: &[Members<&RawValue>]) -> String {
    array(items, |members| {
        let value =
            |name: &str| members.iter().find(|(known, _)| known == name).map(|(_, value)| value.get());
        let listed = MEMBERS.iter().map(|name| member(name, value(name).unwrap_or(NULL)));
        let others = members.iter().filter(|(name, _)| !MEMBERS.contains(&name.as_str()));
        listed.chain(others.map(|(name, value)| member(name, value.get()))).collect()
    })
}

/// The items without the members that are `null`.
fn without_nulls(items: &[Members<&RawValue>]) -> String {
    array(items, |members| {
        let kept = members.iter().filter(|(_, value)| value.get() != NULL);
        kept.map(|(name, value)| member(name, value.get())).collect()
    })
}

/// The array of the objects that have these members.
fn array(items: &[Members<&RawValue>], members_of: impl Fn(&[(String, &RawValue)]) -> Vec<String>) -> String {
    let objects = items.iter().map(|Members(members)| format!("{{{}}}", members_of(members).join(",")));
    format!("[{}]", objects.collect::<Vec<_>>().join(","))
}

fn member(name: &str, value: &str) -> String {
    format!("{}:{value}", quoted(name))
}

/// The items in every other order of three keys. More keys have too many orders.
fn other_orders(items: &[Members<&RawValue>]) -> Vec<String> {
    let names = items.first().map(|Members(members)| members.iter().map(|(name, _)| name.as_str()));
    let names: Vec<&str> = names.into_iter().flatten().collect();
    let [a, b, c] = names[..] else { return Vec::new() };
    let orders = [[a, c, b], [b, a, c], [b, c, a], [c, a, b], [c, b, a]];
    orders.iter().map(|keys| in_order(items, keys)).collect()
}

/// How a language prints a list of maps that is no JSON.
struct Print {
    /// The first and the last character of an object.
    ends: [&'static str; 2],
    colon: &'static str,
    comma: &'static str,
    string: fn(&str) -> String,
    /// How it writes `true`, `false` and `null`.
    words: [&'static str; 3],
}

/// Java, Python, Ruby in two forms, Go.
const PRINTS: [Print; 5] = [
    Print {
        ends: ["{", "}"],
        colon: "=",
        comma: ", ",
        string: str::to_owned,
        words: ["true", "false", "null"],
    },
    Print { ends: ["{", "}"], colon: ": ", comma: ", ", string: repr, words: ["True", "False", "None"] },
    Print { ends: ["{", "}"], colon: "=>", comma: ", ", string: quoted, words: ["true", "false", "nil"] },
    Print { ends: ["{", "}"], colon: " => ", comma: ", ", string: quoted, words: ["true", "false", "nil"] },
    Print {
        ends: ["map[", "]"],
        colon: ":",
        comma: " ",
        string: str::to_owned,
        words: ["true", "false", "<nil>"],
    },
];

pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// A string as Python's `repr` writes it.
fn repr(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
    match (text.contains('\''), text.contains('"')) {
        (true, false) => format!("\"{escaped}\""),
        (_, _) => format!("'{}'", escaped.replace('\'', "\\'")),
    }
}

/// The tokens of a JSON text, printed.
fn printed(source: &str, print: &Print) -> Option<String> {
    let mut printed = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
        let length = match first {
            '"' => string_length(rest)?,
            part if is_part(part) => rest.find(|letter| !is_part(letter)).unwrap_or(rest.len()),
            other => other.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        match token {
            "{" => printed.push_str(print.ends[0]),
            "}" => printed.push_str(print.ends[1]),
            ":" => printed.push_str(print.colon),
            "," => printed.push_str(print.comma),
            "true" => printed.push_str(print.words[0]),
            "false" => printed.push_str(print.words[1]),
            "null" => printed.push_str(print.words[2]),
            " " | "\t" | "\r" | "\n" => {}
            string if first == '"' => {
                printed.push_str(&(print.string)(&serde_json::from_str::<String>(string).ok()?));
            }
            other => printed.push_str(other),
        }
    }
    Some(printed)
}

/// The tokens of a JSON text, written anew.
fn written(source: &str, style: &JsonStyle) -> Option<String> {
    let mut written = String::with_capacity(source.len());
    let mut rest = source;
    let mut depth = 0_usize;
    let line = |depth: usize| match style.blanks {
        JsonBlanks::Indented(indent) => format!("\n{}", indent.repeat(depth)),
        JsonBlanks::None | JsonBlanks::Spaced => String::new(),
    };
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest)?,
            '-' | '0'..='9' => {
                rest.find(|letter: char| !"+-.eE0123456789".contains(letter)).unwrap_or(rest.len())
            }
            other => other.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        match (first, style.blanks) {
            ('"', _) => write_string(&mut written, &serde_json::from_str::<String>(token).ok()?, style),
            ('-' | '0'..='9', _) => written.push_str(&(style.number)(token)),
            (' ' | '\t' | '\r' | '\n', _) => {}
            ('[' | '{', _) => {
                written.push(first);
                rest = rest.trim_start();
                if !rest.starts_with([']', '}']) {
                    depth += 1;
                    written.push_str(&line(depth));
                }
            }
            (']' | '}', _) => {
                if !written.ends_with(['[', '{']) {
                    depth = depth.saturating_sub(1);
                    written.push_str(&line(depth));
                }
                written.push(first);
            }
            (',', JsonBlanks::Indented(_)) => {
                written.push(',');
                written.push_str(&line(depth));
            }
            (',', JsonBlanks::Spaced) | (':', JsonBlanks::Spaced | JsonBlanks::Indented(_)) => {
                written.extend([first, ' ']);
            }
            (other, _) => written.push(other),
        }
    }
    Some(written)
}

/// The length of the string literal that a text begins with, both quotes included.
fn string_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })?;
    Some(end + 2)
}

fn write_string(written: &mut String, value: &str, style: &JsonStyle) {
    written.push('"');
    for character in value.chars() {
        if (style.escaped)(character) {
            push_escaped(written, character, style.is_upper);
        } else if character == '/' && style.has_slashes {
            written.push_str("\\/");
        } else {
            let literal = serde_json::to_string(&character).unwrap_or_default();
            written.push_str(literal.get(1..literal.len() - 1).unwrap_or_default());
        }
    }
    written.push('"');
}

/// A text with these characters escaped as JSON does it.
pub(super) fn escape_json(text: &str, escaped: fn(char) -> bool, is_upper: bool) -> String {
    let mut written = String::with_capacity(text.len());
    for character in text.chars() {
        if escaped(character) {
            push_escaped(&mut written, character, is_upper);
        } else {
            written.push(character);
        }
    }
    written
}

/// `\u` and four digits, for each unit of UTF-16.
fn push_escaped(written: &mut String, character: char, is_upper: bool) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        // Writing to a string cannot fail.
        let _ = if is_upper { write!(written, "\\u{unit:04X}") } else { write!(written, "\\u{unit:04x}") };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_texts_of_other_libraries() {
        let texts = product_info_texts(r#"[{"product_id":1,"name":"币/a"}]"#);
        for expected in [
            // Python: json.dumps
            r#"[{"product_id": 1, "name": "\u5e01/a"}]"#,
            // PHP: json_encode
            r#"[{"product_id":1,"name":"\u5e01\/a"}]"#,
            // Go: json.Marshal of a map
            r#"[{"name":"币/a","product_id":1}]"#,
            // Python: str
            "[{'product_id': 1, 'name': '币/a'}]",
            // Java: List<Map>.toString
            "[{product_id=1, name=币/a}]",
            // Ruby: inspect
            r#"[{"product_id"=>1, "name"=>"币/a"}]"#,
            // Go: fmt.Sprint
            "[map[name:币/a product_id:1]]",
            // JavaScript: String
            "[object Object]",
        ] {
            assert!(texts.iter().any(|text| text == expected), "{expected} in {texts:?}");
        }
        let spaced = product_info_texts("[ {\"product_id\" : 1}\n]");
        assert!(spaced.contains(&r#"[{"product_id":1}]"#.to_owned()), "{spaced:?}");
        let sent = r#"[{"product_type":0,"product_id":1,"product_num":2},{"product_num":4,"product_type":0,"product_id":3}]"#;
        for expected in [
            // The order of contract 3.5, and another of the six.
            r#"[{"product_id":1,"product_num":2,"product_type":0},{"product_id":3,"product_num":4,"product_type":0}]"#,
            r#"[{"product_num": 2, "product_id": 1, "product_type": 0}, {"product_num": 4, "product_id": 3, "product_type": 0}]"#,
        ] {
            assert!(product_info_texts(sent).iter().any(|text| text == expected), "{expected}");
        }
        let of_month = r#"[{"product_period":6,"note":"x","product_start_time":5,"product_type":1,"product_num":1,"product_id":7}]"#;
        let of_table = r#"[{"product_id":7,"product_num":1,"product_type":1,"product_start_time":5,"product_period":6,"note":"x"}]"#;
        assert!(product_info_texts(of_month).iter().any(|text| text == of_table));
        assert!(product_info_texts("[1]").is_empty() && product_info_texts("").is_empty());
    }
}
