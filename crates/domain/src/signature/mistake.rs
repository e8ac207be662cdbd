//! Well-known mistakes of signing: which one explains a signature that does not match (contract 3.7.2).

use encoding_rs::GBK;
use md5::{Digest as _, Md5};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::miswritten::miswritten;
use super::other_rules::{other_rule, other_strings};
use super::product_info_texts::product_info_texts;
use super::{PayKey, Sign};
use crate::key_uses::LiveKey;
use crate::secret::Secret;
use crate::wallet::{WalletForm, canonical_string, join, string_to_sign};

/// What a URL leaves as it is; everything else is percent-encoded.
const URL_ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// What people copy around a key.
const AROUND_A_KEY: [(&str, &str); 5] = [("", "\n"), ("", " "), (" ", ""), ("", "\r\n"), ("", "\t")];
/// How many fields outside the list are tried one by one.
const UNLISTED_FIELDS_MAX: usize = 16;

macro_rules! mistakes {
    ($($(#[doc = $summary:literal])+ $name:ident: $text:literal;)+) => {
        /// What an app's server most likely did wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mistake {
            $($(#[doc = $summary])+ $name,)+
        }

        impl Mistake {
            /// Every mistake.
            pub const ALL: [Self; [$(Self::$name),+].len()] = [$(Self::$name),+];

            /// The mistake in words.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

mistakes! {
    /// Values were URL-encoded before signing.
    ValuesEncoded: "values were URL-encoded before signing; sign them as they are";
    /// Empty fields were kept.
    EmptyFieldsKept: "empty fields were kept; leave them out of the string";
    /// `access_token` was signed too.
    AccessTokenIncluded: "access_token was included; it is not signed";
    /// The fields were not sorted by name.
    NotSorted: "the fields were not sorted; join them in ASCII order of their names";
    /// The names were in upper case.
    UpperCaseNames: "the field names were in upper case; sign them as they are sent";
    /// Key and message were swapped.
    KeyAndMessageSwapped: "key and message were swapped; the pay key is the HMAC key";
    /// The app secret was the key.
    AppSecretAsKey: "the app secret was used as the key; sign with the pay key";
    /// A pay key was used that a rotation has retired.
    RetiredPayKey: "the pay key is retired; sign with the current one";
    /// MD5 of the string with the app secret appended.
    Md5WithAppSecret:
        "MD5 with the app secret appended was used; exchanges are signed with HMAC-SHA256 and the pay key";
    /// Leading zeros are missing, of the number or of each byte.
    ZerosMissing: "the signature is right but written wrong: leading zeros are missing; write two digits for each byte";
    /// There are separators between the bytes.
    SeparatorsInSign: "the signature is right but written wrong: there are separators between its bytes; leave them out";
    /// There is a prefix, as `0x`.
    PrefixBeforeSign: "the signature is right but written wrong: there is a prefix, as 0x or sha256=; leave it out";
    /// Blanks, line ends or quotes are around it.
    StraysAroundSign: "the signature is right but written wrong: a blank, a line end or quotes are around it";
    /// Bytes above 127 were written as negative numbers.
    BytesWithSign: "the signature is right but written wrong: bytes above 127 begin with ffffff; write two digits for each byte";
    /// Only a part of the digits came.
    PartOfSign: "the signature is right but a part of it is missing; send all 64 digits";
    /// The digits were encoded once more.
    EncodedTwice: "the signature is right but encoded twice; send its 64 hexadecimal digits as they are";
    /// A separator was kept at an end of the string.
    SeparatorAtEnd: "the string began or ended with a separator; join the fields with & between them alone";
    /// The key was put into the text.
    KeyInText: "the key was put into the string; it is the key of HMAC-SHA256 and no part of the string";
    /// Another hash was used.
    AnotherHash: "another hash was used; sign with HMAC-SHA256 and the pay key";
    /// The fields were joined in another way.
    AnotherJoin: "the fields were joined without their names or separators; join name=value with &";
    /// Characters were lost or changed before signing.
    CharactersLost: "characters were lost or changed before signing; sign each value as it is sent, in UTF-8";
    /// The signature is base64.
    Base64: "the signature is in base64; send it in hexadecimal";
    /// The string was encoded as GBK.
    GbkBytes: "the string was encoded in GBK; sign its bytes in UTF-8";
    /// The key had a blank or a line end around it.
    KeyWithBlank: "the key had a blank or a line end around it; use the key alone";
    /// Fields outside the list were signed.
    UnlistedFieldsSigned: "fields were signed that are not in the list of signed fields; leave them out";
    /// `product_info` was serialised again after signing, or before.
    ProductInfoReserialised:
        "product_info was signed in another form than it was sent in; make its text once, sign and send that";
    /// The key of another app was used.
    AnotherAppsKey: "the pay key of another app was used; sign with the key of this app_id";
}

/// The keys of an app that a diagnosis tries.
#[derive(Debug)]
pub struct DiagnosisKeys<'a> {
    /// Keys that are valid now.
    pub live: &'a [LiveKey<PayKey>],
    /// Keys that rotations have retired.
    pub retired: &'a [PayKey],
    /// App secrets that are valid now.
    pub app_secrets: &'a [LiveKey<Secret>],
}

/// Finds the one mistake that explains a signature which no live key verifies.
#[must_use]
pub fn diagnose(form: &WalletForm, keys: &DiagnosisKeys<'_>, sign: &Sign) -> Option<Mistake> {
    let correct = string_to_sign(form);
    wrong_key(&correct, keys, sign).or_else(|| {
        let matches =
            |(_, string): &(Mistake, String)| keys.live.iter().any(|key| key.verifies(string, sign));
        mistaken_strings(form).into_iter().find(matches).map(|(mistake, _)| mistake)
    })
}

/// The mistakes that leave the string as it should be.
fn wrong_key(correct: &str, keys: &DiagnosisKeys<'_>, sign: &Sign) -> Option<Mistake> {
    let by_live = |sign: &Sign, bytes: &[u8]| keys.live.iter().any(|key| key.verifies(bytes, sign));
    let secrets = || keys.app_secrets.iter().map(|secret| secret.expose());
    let miswritten_by = |key: &PayKey| miswritten(&sign.text, &key.sign(correct));
    if let Some(mistake) = keys.live.iter().find_map(|key| miswritten_by(key)) {
        return Some(mistake);
    }
    if secrets().any(|secret| PayKey::new(secret.to_owned()).verifies(correct, sign)) {
        return Some(Mistake::AppSecretAsKey);
    }
    if keys.retired.iter().any(|key| key.verifies(correct, sign)) {
        return Some(Mistake::RetiredPayKey);
    }
    let message_as_key = PayKey::new(correct.to_owned());
    if keys.live.iter().any(|key| message_as_key.verifies(&key.text, sign)) {
        return Some(Mistake::KeyAndMessageSwapped);
    }
    if secrets().any(|secret| sign.is(&hex::encode(Md5::digest(format!("{correct}{secret}"))))) {
        return Some(Mistake::Md5WithAppSecret);
    }
    if sign.as_base64().is_some_and(|sign| by_live(&sign, correct.as_bytes())) {
        return Some(Mistake::Base64);
    }
    if by_live(sign, &GBK.encode(correct).0) {
        return Some(Mistake::GbkBytes);
    }
    let texts = keys.live.iter().map(|key| key.text.as_str()).chain(secrets());
    if let Some(mistake) = texts.into_iter().find_map(|key| other_rule(correct, key, sign)) {
        return Some(mistake);
    }
    let with_blank = |key: &PayKey| {
        AROUND_A_KEY.iter().any(|(before, after)| key.surrounded(before, after).verifies(correct, sign))
    };
    keys.live.iter().any(|key| with_blank(key)).then_some(Mistake::KeyWithBlank)
}

/// The strings that the well-known mistakes of building it lead to.
fn mistaken_strings(form: &WalletForm) -> Vec<(Mistake, String)> {
    let (fields, signed_fields) = (&form.fields, form.call.signed_fields());
    let present = || form.signed().filter(|(_, value)| !value.is_empty());
    let encoded_by = |encode: fn(&str) -> String| {
        let encoded: Vec<(&str, String)> = present().map(|(name, value)| (name, encode(value))).collect();
        canonical_string(encoded.iter().map(|(name, value)| (*name, value.as_str())))
    };
    let mut sorted: Vec<_> = form.signed().collect();
    sorted.sort_unstable();
    // Absent fields are empty too: some servers write them all.
    let all = signed_fields.sorted.iter().map(|name| (*name, fields.text(name).unwrap_or_default()));
    let table_order = signed_fields.names.iter().filter_map(|name| Some((*name, fields.text(name)?)));
    let with_token = fields.texts().filter(|(name, _)| *name == "access_token" || form.call.signs(name));
    let upper: Vec<(String, &str)> =
        present().map(|(name, value)| (name.to_ascii_uppercase(), value)).collect();
    let mut strings = vec![
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
    ];
    let in_order: Vec<(&str, &str)> = {
        let mut pairs: Vec<_> = present().collect();
        pairs.sort_unstable();
        pairs
    };
    strings.extend(other_strings(&in_order));
    strings.extend(with_unlisted_fields(form).map(|string| (Mistake::UnlistedFieldsSigned, string)));
    for text in product_info_texts(fields.text("product_info").unwrap_or_default()) {
        let replaced =
            present().map(|(name, value)| (name, if name == "product_info" { &text } else { value }));
        strings.push((Mistake::ProductInfoReserialised, canonical_string(replaced)));
    }
    strings
}

/// The string with all fields that are not in the list, and with each of them alone.
fn with_unlisted_fields(form: &WalletForm) -> impl Iterator<Item = String> {
    let fields = &form.fields;
    let is_unlisted = |name: &str| !form.call.signs(name) && !["sign", "access_token"].contains(&name);
    let unlisted: Vec<&str> = fields.texts().map(|(name, _)| name).filter(|name| is_unlisted(name)).collect();
    let with = move |chosen: &dyn Fn(&str) -> bool| {
        canonical_string(fields.texts().filter(|(name, _)| form.call.signs(name) || chosen(name)))
    };
    let all = [with(&|name| is_unlisted(name)), with(&|name| name != "sign")];
    let each = unlisted.into_iter().take(UNLISTED_FIELDS_MAX);
    all.into_iter().chain(each.map(move |unlisted| with(&|name| name == unlisted)))
}

fn form_encoded(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}

/// Where two strings begin to differ: the index of the first byte. `None` for equal strings.
#[must_use]
pub fn first_difference(one: &str, other: &str) -> Option<usize> {
    let common = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    (common < one.len().max(other.len())).then_some(common)
}
