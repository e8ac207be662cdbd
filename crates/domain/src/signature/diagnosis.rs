//! The search for the mistake that explains a signature which does not match (contract 3.7.2). The most likely come
//! first, and the work is bounded.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use sha2::Sha256;

use super::codings::in_other_coding;
use super::mistaken_strings::{LIKELY_KINDS, MistakenStrings, UNLIKELY_KINDS, mistaken_strings};
use super::miswritten::miswritten;
use super::other_rules::other_rule;
use super::tries::SignTries;
use super::{Mistake, PayKey, Sign, of_base64};
use crate::key_uses::LiveKey;
use crate::secret::Secret;
use crate::strays::is_placeholder;
use crate::wallet::{WalletForm, string_to_sign};

/// What most people copy around a key.
const USUAL_AROUND_A_KEY: [(&str, &str); 5] = [("", "\n"), ("", " "), (" ", ""), ("", "\r\n"), ("", "\t")];
/// Characters that files, variables and pages bring along at either end of a key, or at both.
const STRAYS: [&str; 18] = [
    " ", "\n", "\r\n", "\r", "\t", "\"", "'", "\u{a0}", "\u{200b}", "\u{feff}", "\n\n", "\r\n\r\n", "\0",
    "`", ",", ";", "\u{3000}", "  ",
];
/// Ends that differ.
const PAIRS_OF_STRAYS: [(&str, &str); 12] = [
    ("\u{201c}", "\u{201d}"),
    ("\u{2018}", "\u{2019}"),
    ("<", ">"),
    ("[", "]"),
    ("{", "}"),
    ("(", ")"),
    ("\u{feff}", "\n"),
    ("\u{feff}", "\r\n"),
    ("\"", "\"\n"),
    ("'", "'\n"),
    (" ", "\n"),
    ("", " \n"),
];

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
    search(form, keys, &SignTries::new(sign))
}

pub(super) fn search(form: &WalletForm, keys: &DiagnosisKeys<'_>, tries: &SignTries<'_>) -> Option<Mistake> {
    let correct = string_to_sign(form);
    let by_live = |string: &str| keys.live.iter().any(|key| tries.fits(key, string));
    let of_kinds = |kinds: &'static [MistakenStrings]| {
        // No other sign can be that of a string.
        let strings = tries.sign.bytes.iter().flat_map(|_| mistaken_strings(form, &correct, kinds));
        let mut strings = strings.take_while(|_| tries.are_left());
        strings.find(|(_, string)| by_live(string)).map(|(mistake, _)| mistake)
    };
    let by_other_rule = || {
        let texts = keys.live.iter().map(|key| key.text.as_str());
        let mut texts = texts.chain(keys.app_secrets.iter().map(|secret| secret.expose()));
        texts.find_map(|key| other_rule(form, &correct, key, tries))
    };
    let ends = STRAYS.iter().flat_map(|stray| [("", *stray), (*stray, ""), (*stray, *stray)]);
    wrong_key(form, &correct, keys, tries)
        .or_else(|| of_kinds(&LIKELY_KINDS))
        .or_else(by_other_rule)
        .or_else(|| with_strays(&correct, keys, tries, ends.chain(PAIRS_OF_STRAYS)))
        .or_else(|| with_changed_key(&correct, keys, tries))
        .or_else(|| keys.live.iter().find_map(|key| in_other_coding(&correct, key, tries)))
        .or_else(|| of_kinds(&UNLIKELY_KINDS))
        .or_else(|| tries.sign.bytes.is_none().then(|| no_digest(&tries.sign.text)))
}

/// The likely mistakes that leave the string as it should be.
fn wrong_key(
    form: &WalletForm,
    correct: &str,
    keys: &DiagnosisKeys<'_>,
    tries: &SignTries<'_>,
) -> Option<Mistake> {
    let secrets = || keys.app_secrets.iter().map(|secret| secret.expose());
    let miswritten_by = |key: &PayKey| {
        if tries.takes_one() { miswritten(&tries.sign.text, &key.sign(correct)) } else { None }
    };
    if let Some(mistake) = keys.live.iter().find_map(|key| miswritten_by(key)) {
        return Some(mistake);
    }
    if secrets().any(|secret| tries.fits(&PayKey::new(secret.to_owned()), correct)) {
        return Some(Mistake::AppSecretAsKey);
    }
    let others = [
        (form.fields.text("access_token"), Mistake::AccessTokenAsKey),
        (form.fields.text("app_id"), Mistake::AppIdAsKey),
        (Some(""), Mistake::EmptyKey),
    ];
    let is_key =
        |text: Option<&str>| text.is_some_and(|text| tries.fits(&PayKey::new(text.to_owned()), correct));
    if let Some((_, mistake)) = others.into_iter().find(|(text, _)| is_key(*text)) {
        return Some(mistake);
    }
    if keys.retired.iter().any(|key| tries.fits(key, correct)) {
        return Some(Mistake::RetiredPayKey);
    }
    let message_as_key = PayKey::new(correct.to_owned());
    if keys.live.iter().any(|key| tries.fits(&message_as_key, &key.text)) {
        return Some(Mistake::KeyAndMessageSwapped);
    }
    if secrets().any(|secret| tries.is_hash::<Md5>(&format!("{correct}{secret}"))) {
        return Some(Mistake::Md5WithAppSecret);
    }
    with_strays(correct, keys, tries, USUAL_AROUND_A_KEY.into_iter())
}

/// The key with these texts before and behind it.
fn with_strays(
    correct: &str,
    keys: &DiagnosisKeys<'_>,
    tries: &SignTries<'_>,
    mut ends: impl Iterator<Item = (&'static str, &'static str)>,
) -> Option<Mistake> {
    let fits = |(before, after): (&str, &str)| {
        keys.live.iter().any(|key| tries.fits(&key.surrounded(before, after), correct))
    };
    ends.any(fits).then_some(Mistake::KeyWithStrays)
}

/// The key decoded, encoded, hashed or in another case.
fn with_changed_key(correct: &str, keys: &DiagnosisKeys<'_>, tries: &SignTries<'_>) -> Option<Mistake> {
    let changed = |text: &str| {
        let (md5, sha256) = (Md5::digest(text), Sha256::digest(text));
        let texts = [
            hex::encode(md5),
            hex::encode_upper(md5),
            hex::encode(sha256),
            STANDARD.encode(text),
            hex::encode(text),
            text.to_ascii_lowercase(),
            text.to_ascii_uppercase(),
        ];
        let decoded = hex::decode(text).into_iter().chain(of_base64(text).take(1));
        decoded
            .chain([md5.to_vec(), sha256.to_vec()])
            .chain(texts.map(String::into_bytes))
            .collect::<Vec<_>>()
    };
    let fits =
        |key: &PayKey| changed(&key.text).iter().any(|bytes| tries.fits(&PayKey::of_bytes(bytes), correct));
    keys.live.iter().any(|key| fits(key)).then_some(Mistake::KeyChanged)
}

/// What is said of a text that is no signature.
fn no_digest(text: &str) -> Mistake {
    if is_placeholder(text) { Mistake::Placeholder } else { Mistake::NoDigest }
}

/// The place where two strings begin to differ: the index of the first byte. `None` for equal strings.
#[must_use]
pub fn first_difference(one: &str, other: &str) -> Option<usize> {
    let common = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    (common < one.len().max(other.len())).then_some(common)
}
