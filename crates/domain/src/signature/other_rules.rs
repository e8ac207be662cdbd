//! Signatures by the rules of other platforms (contract 3.7.2): other hashes, the key in the text, other joins, and
//! characters that were lost on the way.

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::{Mistake, Sign};
use crate::wallet::{canonical_string, join};

/// The mistake of a server that signs this text with this key by another rule.
pub(super) fn other_rule(correct: &str, key: &str, sign: &Sign) -> Option<Mistake> {
    let is_hash = |text: &str| hashes(text.as_bytes()).iter().any(|hash| sign.is(hash));
    let signed = |text: &str| hmac_hex::<Hmac<Sha256>>(key, text);
    if [format!("{correct}&"), format!("&{correct}"), format!("?{correct}")]
        .iter()
        .any(|text| sign.is(&signed(text)))
    {
        return Some(Mistake::SeparatorAtEnd);
    }
    let with_key = [
        format!("{correct}{key}"),
        format!("{correct}&{key}"),
        format!("{key}{correct}"),
        format!("{key}&{correct}"),
        format!("{key}{correct}{key}"),
        format!("{correct}&key={key}"),
        format!("{correct}&pay_key={key}"),
        format!("{correct}&secret={key}"),
        format!("{correct}&app_secret={key}"),
        format!("{correct}&app_key={key}"),
    ];
    if with_key.iter().any(|text| is_hash(text) || sign.is(&signed(text))) {
        return Some(Mistake::KeyInText);
    }
    let others = [
        hmac_hex::<Hmac<Md5>>(key, correct),
        hmac_hex::<Hmac<Sha1>>(key, correct),
        hmac_hex::<Hmac<Sha224>>(key, correct),
        hmac_hex::<Hmac<Sha384>>(key, correct),
        hmac_hex::<Hmac<Sha512>>(key, correct),
    ];
    (others.iter().any(|hash| sign.is(hash)) || is_hash(correct)).then_some(Mistake::AnotherHash)
}

/// The strings of servers that join or change the values otherwise.
pub(super) fn other_strings(pairs: &[(&str, &str)]) -> Vec<(Mistake, String)> {
    let values = |separator: &str| pairs.iter().map(|(_, value)| *value).collect::<Vec<_>>().join(separator);
    let mut by_value: Vec<&str> = pairs.iter().map(|(_, value)| *value).collect();
    by_value.sort_unstable();
    let without_and: String = pairs.iter().flat_map(|(name, value)| [*name, "=", *value]).collect();
    let without_both: String = pairs.iter().flat_map(|(name, value)| [*name, *value]).collect();
    let mut strings: Vec<(Mistake, String)> = [
        values("&"),
        values(""),
        values("|"),
        values(","),
        by_value.join("&"),
        by_value.concat(),
        without_and,
        without_both,
    ]
    .into_iter()
    .map(|string| (Mistake::AnotherJoin, string))
    .collect();
    for change in CHANGES {
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

/// What servers do to a text on its way, unasked.
const CHANGES: [fn(&str) -> String; 10] = [
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
    // Decoded once more than it was encoded.
    |text| text.replace('+', " "),
    |text| text.split_whitespace().collect::<Vec<_>>().join(" "),
    |text| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;"),
];

/// The hashes of a text without a key, in hexadecimal.
fn hashes(text: &[u8]) -> [String; 4] {
    [
        hex::encode(Md5::digest(text)),
        hex::encode(Sha1::digest(text)),
        hex::encode(Sha256::digest(text)),
        hex::encode(Sha512::digest(text)),
    ]
}

fn hmac_hex<M: Mac + KeyInit>(key: &str, text: &str) -> String {
    let keyed = <M as KeyInit>::new_from_slice(key.as_bytes()).expect("HMAC accepts keys of every length");
    hex::encode(keyed.chain_update(text).finalize().into_bytes())
}
