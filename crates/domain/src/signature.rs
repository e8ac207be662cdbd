//! The signature of an exchange: what is signed, how it is checked, and, for a sandbox app,
//! which well-known mistake explains one that does not match (contract 3, "Signature").

use std::sync::LazyLock;

use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;

use super::fields::Fields;

/// The fields that are signed when they are not empty (contract 3.1), in the order of its table.
pub const SIGNED_FIELDS: [&str; 13] = [
    "open_id",
    "app_id",
    "zone_id",
    "os",
    "ts",
    "user_ip",
    "amount",
    "pay_priority",
    "biz_no",
    "product_name",
    "product_info",
    "product_desc",
    "extension",
];

/// Room for the string of a usual exchange; a longer one costs another allocation.
const JOINED_BYTES_USUAL: usize = 512;

/// What a URL leaves as it is; everything else is percent-encoded.
const URL_ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The same in ASCII order, as they are joined.
static SIGNED_FIELDS_SORTED: LazyLock<[&str; SIGNED_FIELDS.len()]> = LazyLock::new(|| {
    let mut sorted = SIGNED_FIELDS;
    sorted.sort_unstable();
    sorted
});

/// Joins `name=value` with `&` in ASCII order of the names, leaving out empty values.
#[must_use]
pub fn canonical_string<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut present: Vec<_> = fields.filter(|(_, value)| !value.is_empty()).collect();
    present.sort_unstable();
    join(present.into_iter())
}

/// The string that the fields of an exchange must be signed with.
#[must_use]
pub fn exchange_string(fields: &Fields) -> String {
    join(SIGNED_FIELDS_SORTED.iter().filter_map(|name| Some((*name, fields.text(name)?))))
}

/// Whether a string of [`exchange_string`] could have been made of other money fields.
///
/// Nothing is escaped in it. Fields that decide money hold no `&` and `=`, so those before
/// `extension` and after `product_name` are clear. But a free text can hold what looks like
/// `open_id`, `os` and `pay_priority`. With an `extension` before them, nobody can decide which of
/// the two is meant: one signature would fit two players.
#[must_use]
pub fn is_ambiguous(string: &str) -> bool {
    let names_a_player = |(at, _): &(usize, &str)| {
        let mut pairs = string[at + 1..].split('&').skip(1);
        let is = |pair: Option<&str>, name: &str| {
            pair.and_then(|pair| pair.split_once('=')).is_some_and(|(known, _)| known == name)
        };
        let os = pairs.next();
        let next = pairs.next();
        let next = if is(next, "pay_priority") { pairs.next() } else { next };
        is(os, "os") && is(next, "product_desc")
    };
    string.contains("&extension=") && string.match_indices("&open_id=").filter(names_a_player).count() > 1
}

fn signed(fields: &Fields) -> impl Iterator<Item = (&str, &str)> {
    fields.texts().filter(|(name, _)| SIGNED_FIELDS.contains(name))
}

fn join<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut joined = String::with_capacity(JOINED_BYTES_USUAL);
    for (name, value) in fields {
        if !joined.is_empty() {
            joined.push('&');
        }
        joined.push_str(name);
        joined.push('=');
        joined.push_str(value);
    }
    joined
}

/// A key that signs exchanges or requests to the judge of pictures. Its text is never shown.
#[derive(Clone)]
pub struct PayKey {
    keyed: Hmac<Sha256>,
    text: String,
}

impl std::fmt::Debug for PayKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PayKey(..)")
    }
}

impl PayKey {
    /// The key made of this text's bytes.
    ///
    /// # Panics
    /// Never: HMAC accepts keys of every length.
    #[must_use]
    pub fn new(text: String) -> Self {
        let keyed = Hmac::new_from_slice(text.as_bytes()).expect("HMAC accepts keys of every length");
        Self { keyed, text }
    }

    /// Signs a canonical string: HMAC-SHA256 in lower-case hexadecimal.
    #[must_use]
    pub fn sign(&self, message: &str) -> String {
        let mut mac = self.keyed.clone();
        mac.update(message.as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }

    /// Whether `sign` is this key's signature of `message`, in either case of hexadecimal;
    /// compared in constant time.
    #[must_use]
    pub fn verifies(&self, message: &str, sign: &Sign) -> bool {
        let mut mac = self.keyed.clone();
        mac.update(message.as_bytes());
        // The same work for a text that can be no signature: no message is signed with zeros.
        mac.verify_slice(&sign.bytes.unwrap_or_default()).is_ok() && sign.bytes.is_some()
    }
}

/// A signature as it came: 64 hexadecimal digits, or something that matches no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sign {
    bytes: Option<[u8; 32]>,
    text: String,
}

impl Sign {
    /// Reads the `sign` field, decoded once from the form. One that was encoded twice is decoded again.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut bytes = [0; 32];
        if hex::decode_to_slice(text, &mut bytes).is_ok() {
            return Self { bytes: Some(bytes), text: text.to_owned() };
        }
        let decoded = percent_encoding::percent_decode_str(text).decode_utf8_lossy();
        let is_hex = hex::decode_to_slice(decoded.as_ref(), &mut bytes).is_ok();
        Self { bytes: is_hex.then_some(bytes), text: decoded.into_owned() }
    }

    fn is(&self, expected: &str) -> bool {
        self.text.eq_ignore_ascii_case(expected)
    }
}

/// What an app's server most likely did wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// Values were URL-encoded before signing.
    ValuesEncoded,
    /// Empty fields were kept.
    EmptyFieldsKept,
    /// `access_token` was signed too.
    AccessTokenIncluded,
    /// The fields were not sorted by name.
    NotSorted,
    /// The names were in upper case.
    UpperCaseNames,
    /// Key and message were swapped.
    KeyAndMessageSwapped,
    /// The app secret was the key.
    AppSecretAsKey,
    /// A pay key was used that a rotation has retired.
    RetiredPayKey,
    /// MD5 of the string with the app secret appended.
    Md5WithAppSecret,
}

impl Mistake {
    /// The mistake in words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::ValuesEncoded => "values were URL-encoded before signing; sign them as they are",
            Self::EmptyFieldsKept => "empty fields were kept; leave them out of the string",
            Self::AccessTokenIncluded => "access_token was included; it is not signed",
            Self::NotSorted => "the fields were not sorted; join them in ASCII order of their names",
            Self::UpperCaseNames => "the field names were in upper case; sign them as they are sent",
            Self::KeyAndMessageSwapped => "key and message were swapped; the pay key is the HMAC key",
            Self::AppSecretAsKey => "the app secret was used as the key; sign with the pay key",
            Self::RetiredPayKey => "the pay key is retired; sign with the current one",
            Self::Md5WithAppSecret => {
                "MD5 with the app secret appended was used; exchanges are signed with HMAC-SHA256 and the pay key"
            }
        }
    }
}

/// The keys of an app that a diagnosis tries.
#[derive(Debug)]
pub struct DiagnosisKeys<'a> {
    /// Keys that are valid now.
    pub live: &'a [PayKey],
    /// Keys that rotations have retired.
    pub retired: &'a [PayKey],
    /// The app secret.
    pub app_secret: &'a str,
}

/// Finds the one mistake that explains a signature which no live key verifies.
#[must_use]
pub fn diagnose(fields: &Fields, keys: &DiagnosisKeys<'_>, sign: &Sign) -> Option<Mistake> {
    let correct = exchange_string(fields);
    let with_secret = PayKey::new(keys.app_secret.to_owned());
    if with_secret.verifies(&correct, sign) {
        return Some(Mistake::AppSecretAsKey);
    }
    if keys.retired.iter().any(|key| key.verifies(&correct, sign)) {
        return Some(Mistake::RetiredPayKey);
    }
    let message_as_key = PayKey::new(correct.clone());
    if keys.live.iter().any(|key| message_as_key.verifies(&key.text, sign)) {
        return Some(Mistake::KeyAndMessageSwapped);
    }
    if sign.is(&hex::encode(Md5::digest(format!("{correct}{}", keys.app_secret)))) {
        return Some(Mistake::Md5WithAppSecret);
    }
    let matches = |(_, string): &(Mistake, String)| keys.live.iter().any(|key| key.verifies(string, sign));
    mistaken_strings(fields).into_iter().find(matches).map(|(mistake, _)| mistake)
}

/// The strings that the well-known mistakes of building it lead to.
fn mistaken_strings(fields: &Fields) -> Vec<(Mistake, String)> {
    let present = || signed(fields).filter(|(_, value)| !value.is_empty());
    let encoded_by = |encode: fn(&str) -> String| {
        let encoded: Vec<(&str, String)> = present().map(|(name, value)| (name, encode(value))).collect();
        canonical_string(encoded.iter().map(|(name, value)| (*name, value.as_str())))
    };
    let mut sorted: Vec<_> = signed(fields).collect();
    sorted.sort_unstable();
    // Absent fields are empty too: some servers write them all.
    let all = SIGNED_FIELDS_SORTED.iter().map(|name| (*name, fields.text(name).unwrap_or_default()));
    let table_order = SIGNED_FIELDS.iter().filter_map(|name| Some((*name, fields.text(name)?)));
    let with_token =
        fields.texts().filter(|(name, _)| *name == "access_token" || SIGNED_FIELDS.contains(name));
    let upper: Vec<(String, &str)> =
        present().map(|(name, value)| (name.to_ascii_uppercase(), value)).collect();
    vec![
        (Mistake::ValuesEncoded, encoded_by(|value| utf8_percent_encode(value, URL_ENCODED).to_string())),
        (Mistake::ValuesEncoded, encoded_by(form_encoded)),
        (Mistake::EmptyFieldsKept, join(sorted.into_iter())),
        (Mistake::EmptyFieldsKept, join(all)),
        (Mistake::AccessTokenIncluded, canonical_string(with_token)),
        (Mistake::NotSorted, join(present())),
        (Mistake::NotSorted, join(table_order)),
        (
            Mistake::UpperCaseNames,
            canonical_string(upper.iter().map(|(name, value)| (name.as_str(), *value))),
        ),
    ]
}

fn form_encoded(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}

#[cfg(test)]
mod tests;
