//! Signatures by the rules of other platforms (contract 3.7.2). These have other hashes, the key in the text, other
//! joins, and characters that were lost on the way.

use hmac::Hmac;
use md5::Md5;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::Mistake;
use super::codings::UrlCoding;
use super::product_info_texts::{escape_json, object_texts, quoted};
use super::tries::SignTries;
use crate::wallet::{WalletForm, canonical_string, join};

/// Names of the key behind the string, as other platforms have them.
const KEY_NAMES: [&str; 14] = [
    "key",
    "pay_key",
    "secret",
    "app_secret",
    "app_key",
    "secretKey",
    "appSecret",
    "secret_key",
    "payKey",
    "appKey",
    "signKey",
    "sign_key",
    "paySecret",
    "app_pay_key",
];

/// The mistake of a server that signs this text with this key by another rule.
pub(super) fn other_rule(
    form: &WalletForm,
    correct: &str,
    key: &str,
    tries: &SignTries<'_>,
) -> Option<Mistake> {
    let is_plain_hash = |text: &str| {
        tries.is_hash::<Md5>(text)
            || tries.is_hash::<Sha1>(text)
            || tries.is_hash::<Sha256>(text)
            || tries.is_hash::<Sha512>(text)
    };
    let is_another = is_plain_hash(correct)
        || tries.is_keyed_hash::<Hmac<Md5>>(key, correct)
        || tries.is_keyed_hash::<Hmac<Sha1>>(key, correct)
        || tries.is_keyed_hash::<Hmac<Sha224>>(key, correct)
        || tries.is_keyed_hash::<Hmac<Sha384>>(key, correct)
        || tries.is_keyed_hash::<Hmac<Sha512>>(key, correct);
    if is_another {
        return Some(Mistake::AnotherHash);
    }
    let around = [
        format!("{correct}{key}"),
        format!("{correct}&{key}"),
        format!("{key}{correct}"),
        format!("{key}&{correct}"),
        format!("{key}{correct}{key}"),
    ];
    let named = KEY_NAMES.iter().map(|name| format!("{correct}&{name}={key}"));
    let among = KEY_NAMES.iter().take(2).map(|name| {
        let signed = form.signed().filter(|(_, value)| !value.is_empty());
        canonical_string(signed.chain([(*name, key)]))
    });
    let mut texts = around.into_iter().chain(named).chain(among);
    texts
        .any(|text| is_plain_hash(&text) || tries.is_keyed_hash::<Hmac<Sha256>>(key, &text))
        .then_some(Mistake::KeyInText)
}

/// The strings of servers that join the fields otherwise.
pub(super) fn other_joins(sent: &[(&str, &str)], sorted: &[(&str, &str)]) -> Vec<(Mistake, String)> {
    let values =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(_, value)| (*value).to_owned()).collect::<Vec<_>>();
    let named =
        |equals: &str| sorted.iter().map(|(name, value)| [name, equals, value].concat()).collect::<Vec<_>>();
    let mut by_value = values(sorted);
    by_value.sort_unstable();
    let (of_sorted, of_sent) = (values(sorted), values(sent));
    let (equals, colons) = (named("="), named(":"));
    let json = |pairs: &[(&str, &str)]| {
        let member = |(name, value): &(&str, &str)| format!("{}:{}", quoted(name), quoted(value));
        format!("{{{}}}", pairs.iter().map(member).collect::<Vec<_>>().join(","))
    };
    let mut strings = Vec::new();
    for separator in ["&", "", "|", ",", "\n", ";"] {
        strings.push(of_sorted.join(separator));
        strings.push(equals.join(separator));
        strings.push(colons.join(separator));
    }
    strings.extend([
        by_value.join("&"),
        by_value.concat(),
        of_sent.concat(),
        of_sent.join("&"),
        named("").concat(),
    ]);
    strings.extend([", ", " & ", "&&", "\r\n", "&amp;"].map(|separator| equals.join(separator)));
    // PHP's http_build_query, where its separator is that of a page.
    let encode = |(name, value): &(&str, &str)| format!("{name}={}", UrlCoding::PHP.encode(value));
    strings.push(sorted.iter().map(encode).collect::<Vec<_>>().join("&amp;"));
    strings.extend([sorted, sent].iter().flat_map(|pairs| object_texts(&json(pairs))));
    strings.into_iter().map(|string| (Mistake::AnotherJoin, string)).collect()
}

/// The strings of servers that change characters of the values.
pub(super) fn changed_strings(pairs: &[(&str, &str)]) -> Vec<(Mistake, String)> {
    let mut strings = Vec::new();
    for change in CHANGES.iter().chain(&HTML_ESCAPES) {
        let changed: Vec<(&str, String)> = pairs.iter().map(|(name, value)| (*name, change(value))).collect();
        if changed.iter().zip(pairs).any(|((_, changed), (_, value))| changed != value) {
            let changed = || changed.iter().map(|(name, value)| (*name, value.as_str()));
            // A value of which nothing is left is left out, or not.
            strings.push((Mistake::CharactersLost, canonical_string(changed())));
            strings.push((Mistake::CharactersLost, join(changed())));
        }
    }
    strings
}

/// The changes that servers make to a text on its way, unasked.
const CHANGES: [fn(&str) -> String; 19] = [
    // A text in Latin-1 or ASCII has no other characters, and UTF-16 counts some as two.
    |text| text.chars().map(|character| if character.is_ascii() { character } else { '?' }).collect(),
    |text| text.encode_utf16().map(|unit| u8::try_from(unit).map_or('?', char::from)).collect(),
    |text| text.chars().filter(char::is_ascii).collect(),
    // MySQL's utf8 and old fonts know no characters of four bytes.
    |text| text.chars().filter(|character| character.len_utf8() < 4).collect(),
    |text| text.chars().map(|character| if character.len_utf8() < 4 { character } else { '?' }).collect(),
    |text| {
        text.chars().map(|character| if character.len_utf8() < 4 { character } else { '\u{fffd}' }).collect()
    },
    // UTF-8 that was read as Latin-1.
    |text| text.bytes().map(char::from).collect(),
    |text| encoding_rs::WINDOWS_1252.decode_without_bom_handling(text.as_bytes()).0.into_owned(),
    |text| encoding_rs::GBK.decode_without_bom_handling(text.as_bytes()).0.into_owned(),
    // Decoded once more than it was encoded.
    |text| text.replace('+', " "),
    |text| text.trim().to_owned(),
    |text| text.split_whitespace().collect::<Vec<_>>().join(" "),
    // Line ends of another system.
    |text| text.replace("\r\n", "\n"),
    |text| text.replace("\r\n", "\n").replace('\n', "\r\n"),
    |text| text.replace(['\r', '\n'], ""),
    // Escapes for SQL.
    |text| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\'', "\\'"),
    // Escapes for JSON, as Python and PHP, .NET, and Go write them.
    |text| escape_json(text, |letter| !letter.is_ascii(), false),
    |text| escape_json(text, |letter| !letter.is_ascii(), true),
    |text| escape_json(text, |letter| "<>&".contains(letter), false),
];

/// Escapes for HTML, with the quotes of PHP, Python, Go and XML.
pub(super) const HTML_ESCAPES: [fn(&str) -> String; 5] = [
    |text| html(text).replace('"', "&quot;"),
    |text| html(text).replace('"', "&quot;").replace('\'', "&#039;"),
    |text| html(text).replace('"', "&quot;").replace('\'', "&#x27;"),
    |text| html(text).replace('"', "&#34;").replace('\'', "&#39;"),
    |text| html(text).replace('"', "&quot;").replace('\'', "&#39;"),
];

fn html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
