//! The texts that libraries of other languages make of one JSON value: they differ in blanks, in the
//! order of keys, and in what they escape.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::value::RawValue;

/// Every other text of this array of flat objects.
pub(super) fn product_info_texts(text: &str) -> Vec<String> {
    let Ok(items) = serde_json::from_str::<Vec<BTreeMap<String, Box<RawValue>>>>(text) else {
        return Vec::new();
    };
    let sorted = serde_json::to_string(&items).unwrap_or_default();
    let mut texts = Vec::new();
    for source in [text, &sorted] {
        for bits in 0..8_u8 {
            let written = written(source, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
            texts.extend(written.filter(|written| written != text && !texts.contains(written)));
        }
    }
    texts
}

/// The tokens of a JSON text, written anew: with a blank after each comma and colon or without, with
/// slashes escaped or not, and with characters outside ASCII escaped or not.
fn written(source: &str, spaced: bool, slashes: bool, ascii: bool) -> Option<String> {
    let mut written = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = if first == '"' { string_length(rest)? } else { first.len_utf8() };
        let (token, after) = rest.split_at(length);
        rest = after;
        match first {
            '"' => write_string(&mut written, &serde_json::from_str::<String>(token).ok()?, slashes, ascii),
            ' ' | '\t' | '\r' | '\n' => {}
            ',' | ':' if spaced => written.extend([first, ' ']),
            other => written.push(other),
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

fn write_string(written: &mut String, value: &str, slashes: bool, ascii: bool) {
    let literal = serde_json::to_string(value).unwrap_or_default();
    for character in literal.chars() {
        match character {
            '/' if slashes => written.push_str("\\/"),
            _ if ascii && !character.is_ascii() => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(written, "\\u{unit:04x}");
                }
            }
            _ => written.push(character),
        }
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
        ] {
            assert!(texts.iter().any(|text| text == expected), "{expected} in {texts:?}");
        }
        let spaced = product_info_texts("[ {\"product_id\" : 1}\n]");
        assert!(spaced.contains(&r#"[{"product_id":1}]"#.to_owned()), "{spaced:?}");
        assert!(product_info_texts("[1]").is_empty() && product_info_texts("").is_empty());
    }
}
