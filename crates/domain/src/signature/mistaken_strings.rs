//! The strings that the well-known mistakes of building one lead to (contract 3.7.2).

use std::collections::HashSet;

use super::Mistake;
use super::codings::{UrlCoding, decoded, escape, unescape};
use super::other_rules::{HTML_ESCAPES, changed_strings, other_joins};
use super::product_info_texts::product_info_texts;
use crate::wallet::{WalletForm, canonical_string, join};

/// How many fields outside the list are tried one by one.
const UNLISTED_FIELDS_MAX: usize = 16;
/// A field that has a default.
const PAY_PRIORITY: &str = "pay_priority";
/// What is no part of any string.
const CREDENTIALS: [&str; 2] = ["sign", "access_token"];

/// The fields of a call that are signed.
pub(super) struct SignedParts<'a> {
    form: &'a WalletForm,
    correct: &'a str,
    /// Those that are not empty, as they came.
    pub(super) sent: Vec<(&'a str, &'a str)>,
    /// The same in the order of the string.
    pub(super) sorted: Vec<(&'a str, &'a str)>,
}

type Strings = Vec<(Mistake, String)>;

/// The strings of one kind of mistake.
pub(super) type MistakenStrings = fn(&SignedParts<'_>) -> Strings;

/// The kinds of mistakes, the most likely first.
pub(super) const LIKELY_KINDS: [MistakenStrings; 14] = [
    values_encoded,
    other_fields,
    around_the_string,
    unlisted_fields,
    encoded_in_another_way,
    unsigned_fields,
    body_encoded_otherwise,
    items_written_anew,
    nulls,
    |parts| other_joins(&parts.sent, &parts.sorted),
    bodies,
    with_path,
    ampersands,
    one_value_encoded,
];

/// Kinds with many strings, each of which few people make.
pub(super) const UNLIKELY_KINDS: [MistakenStrings; 3] =
    [|parts| changed_strings(&parts.sorted), items_escaped, encoded_twice];

/// Every string but the right one, each once.
pub(super) fn mistaken_strings<'a>(
    form: &'a WalletForm,
    correct: &'a str,
    kinds: &'static [MistakenStrings],
) -> impl Iterator<Item = (Mistake, String)> {
    let sent: Vec<_> = form.signed().filter(|(_, value)| !value.is_empty()).collect();
    let mut sorted = sent.clone();
    sorted.sort_unstable();
    let parts = SignedParts { form, correct, sent, sorted };
    let mut known = HashSet::from([correct.to_owned()]);
    let strings = kinds.iter().flat_map(move |kind| kind(&parts));
    strings.filter(move |(_, string)| known.insert(string.clone()))
}

impl SignedParts<'_> {
    /// The string of these fields with other values.
    fn with(&self, change: impl Fn(&str, &str) -> String) -> String {
        let changed: Vec<_> = self.sorted.iter().map(|(name, value)| (*name, change(name, value))).collect();
        canonical_string(changed.iter().map(|(name, value)| (*name, value.as_str())))
    }

    /// The body without its signature, encoded anew.
    fn body(&self, coding: &UrlCoding) -> String {
        encoded_join(self.form.fields.texts().filter(|(name, _)| *name != "sign"), coding)
    }

    /// All values changed, and each that changes alone.
    fn with_each(&self, mistake: Mistake, change: impl Fn(&str) -> String) -> Strings {
        let changing = self.sorted.iter().filter(|(_, value)| change(value) != *value).map(|(name, _)| *name);
        let each = changing.map(|chosen| {
            self.with(|name, value| if name == chosen { change(value) } else { value.to_owned() })
        });
        let all = self.with(|_, value| change(value));
        std::iter::once(all).chain(each).map(|string| (mistake, string)).collect()
    }
}

fn values_encoded(parts: &SignedParts<'_>) -> Strings {
    let encoded = |coding: &UrlCoding| (Mistake::ValuesEncoded, parts.with(|_, value| coding.encode(value)));
    UrlCoding::ALL[..2].iter().map(encoded).collect()
}

/// More of the fields than are signed, or others of their order or case.
fn other_fields(parts: &SignedParts<'_>) -> Strings {
    let (form, fields, signed_fields) = (parts.form, &parts.form.fields, parts.form.call.signed_fields());
    let mut sorted: Vec<_> = form.signed().collect();
    sorted.sort_unstable();
    // Absent fields are empty too: some servers write them all.
    let all = signed_fields.sorted.iter().map(|name| (*name, fields.text(name).unwrap_or_default()));
    let table_order = signed_fields.names.iter().filter_map(|name| Some((*name, fields.text(name)?)));
    let is_with_token = |(name, value): &(&str, &str)| {
        !value.is_empty() && (*name == "access_token" || form.call.signs(name))
    };
    let with_token = || fields.texts().filter(is_with_token);
    let token = fields.text("access_token").unwrap_or_default();
    let as_sent = fields.texts().filter(|(name, value)| *name != "sign" && !value.is_empty());
    let renamed = |rename: fn(&str) -> String| {
        let pairs: Vec<_> = parts.sorted.iter().map(|(name, value)| (rename(name), *value)).collect();
        canonical_string(pairs.iter().map(|(name, value)| (name.as_str(), *value)))
    };
    let mut strings = vec![
        (Mistake::EmptyFieldsKept, join(sorted.iter().copied())),
        (Mistake::EmptyFieldsKept, join(all.clone())),
        (Mistake::AccessTokenIncluded, canonical_string(with_token())),
        (Mistake::AccessTokenIncluded, format!("{}&access_token={token}", parts.correct)),
        (Mistake::NotSorted, join(parts.sent.iter().copied())),
        (Mistake::NotSorted, join(table_order)),
        (Mistake::NotSorted, join(with_token())),
        (Mistake::NotSorted, join(as_sent)),
        (Mistake::NotSorted, join(parts.sorted.iter().rev().copied())),
        (Mistake::UpperCaseNames, renamed(str::to_ascii_uppercase)),
        (Mistake::CamelCaseNames, renamed(camel_case)),
        (Mistake::TokenAndEmptyFields, joined_with(("access_token", token), sorted.iter().copied())),
        (Mistake::TokenAndEmptyFields, joined_with(("access_token", token), all)),
    ];
    if form.call.signs(PAY_PRIORITY) && fields.text(PAY_PRIORITY).is_none() {
        let with = |value| canonical_string(parts.sorted.iter().copied().chain([(PAY_PRIORITY, value)]));
        strings.extend(["0", "1"].map(|value| (Mistake::PriorityNotSent, with(value))));
    }
    strings
}

/// These fields and one more in the order of their names, empty ones too.
fn joined_with<'a>(more: (&'a str, &'a str), pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut pairs: Vec<_> = pairs.chain([more]).collect();
    pairs.sort_unstable();
    join(pairs.into_iter())
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |camel, word| {
        let mut letters = word.chars();
        camel.chars().chain(letters.next().map(|first| first.to_ascii_uppercase())).chain(letters).collect()
    })
}

fn around_the_string(parts: &SignedParts<'_>) -> Strings {
    let ends = [
        ("", "\n"),
        ("", "\r\n"),
        ("\u{feff}", ""),
        ("", " "),
        (" ", ""),
        ("\n", ""),
        ("\"", "\""),
        ("'", "'"),
        ("", "\0"),
        ("", "\r"),
        ("", "\n\n"),
        ("", "\u{1a}"),
        ("\u{feff}", "\n"),
        ("\u{feff}", "\r\n"),
    ];
    let strays =
        ends.map(|(before, after)| (Mistake::StraysAroundString, [before, parts.correct, after].concat()));
    let separators = [("", "&"), ("&", ""), ("?", ""), ("", "&&")];
    let separators =
        separators.map(|(before, after)| (Mistake::SeparatorAtEnd, [before, parts.correct, after].concat()));
    strays.into_iter().chain(separators).collect()
}

/// The string with all fields that are not in the list, and with each of them alone.
fn unlisted_fields(parts: &SignedParts<'_>) -> Strings {
    let (form, fields) = (parts.form, &parts.form.fields);
    let is_unlisted = |name: &str| !form.call.signs(name) && !CREDENTIALS.contains(&name);
    let unlisted: Vec<&str> = fields.texts().map(|(name, _)| name).filter(|name| is_unlisted(name)).collect();
    // A name that is almost one of the list is the cause itself.
    let meant =
        |name: &str| Mistake::renamed(form.call, name).filter(|(field, _)| fields.text(field).is_none());
    let named = |name: &str| meant(name).map_or(Mistake::UnlistedFieldsSigned, |(_, renamed)| renamed);
    let first = unlisted
        .iter()
        .find_map(|name| meant(name))
        .map_or(Mistake::UnlistedFieldsSigned, |(_, renamed)| renamed);
    let right_names =
        fields.texts().map(|(name, value)| (meant(name).map_or(name, |(field, _)| field), value));
    let right_names = canonical_string(right_names.filter(|(name, _)| form.call.signs(name)));
    let with = |chosen: &dyn Fn(&str) -> bool| {
        canonical_string(fields.texts().filter(|(name, _)| form.call.signs(name) || chosen(name)))
    };
    let all = [with(&|name| is_unlisted(name)), with(&|name| name != "sign"), right_names];
    let each = unlisted.iter().take(UNLISTED_FIELDS_MAX);
    let each = each.map(|unlisted| (named(unlisted), with(&|name| name == *unlisted)));
    all.into_iter().map(|string| (first, string)).chain(each).collect()
}

fn encoded_in_another_way(parts: &SignedParts<'_>) -> Strings {
    let values = UrlCoding::ALL.iter().map(|coding| parts.with(|_, value| coding.encode(value)));
    let values = values.chain([parts.with(|_, value| escape(value))]);
    let whole = UrlCoding::ALL.iter().map(|coding| coding.encode(parts.correct));
    values.chain(whole).map(|string| (Mistake::ValuesEncoded, string)).collect()
}

/// One of the texts alone. It comes behind [`body_encoded_otherwise`], which says more of a `+` for a blank.
fn one_value_encoded(parts: &SignedParts<'_>) -> Strings {
    let of_each = |chosen: &'static str| {
        let change = move |coding: &UrlCoding| {
            parts.with(|name, value| if name == chosen { coding.encode(value) } else { value.to_owned() })
        };
        UrlCoding::ALL.iter().map(move |coding| (Mistake::ValuesEncoded, change(coding)))
    };
    ["product_info", "product_name"].into_iter().flat_map(of_each).collect()
}

fn encoded_twice(parts: &SignedParts<'_>) -> Strings {
    let twice = |coding: &UrlCoding, value: &str| coding.encode(&coding.encode(value));
    let strings = UrlCoding::ALL.iter().map(|coding| parts.with(|_, value| twice(coding, value)));
    // Of values that are encoded, the string is encoded as a whole.
    let whole =
        UrlCoding::ALL.iter().map(|coding| coding.encode(&parts.with(|_, value| coding.encode(value))));
    strings.chain(whole).map(|string| (Mistake::ValuesEncoded, string)).collect()
}

fn unsigned_fields(parts: &SignedParts<'_>) -> Strings {
    let without = |left_out: &str| join(parts.sorted.iter().copied().filter(|(name, _)| *name != left_out));
    let call = parts.form.call;
    parts
        .sorted
        .iter()
        .filter_map(|(name, _)| Some((Mistake::unsigned(call, name)?, without(name))))
        .collect()
}

/// The body without its signature, in the order in which it was sent and as usual languages encode it: with all fields,
/// and with those that are signed.
fn bodies(parts: &SignedParts<'_>) -> Strings {
    let of_signed = |coding| encoded_join(parts.sent.iter().copied(), coding);
    let bodies = UrlCoding::ALL.iter().flat_map(|coding| [parts.body(coding), of_signed(coding)]);
    bodies.map(|body| (Mistake::BodySigned, body)).collect()
}

/// These pairs with their values encoded.
fn encoded_join<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>, coding: &UrlCoding) -> String {
    let pairs: Vec<_> = pairs.map(|(name, value)| (name, coding.encode(value))).collect();
    join(pairs.iter().map(|(name, value)| (*name, value.as_str())))
}

/// The path before the string or the body, as other platforms sign it. Their clients send this segment.
fn with_path(parts: &SignedParts<'_>) -> Strings {
    let (correct, [rfc, of_forms, ..]) = (parts.correct, &UrlCoding::ALL);
    let path = format!("/api/kpay/minigame/{}", parts.form.call.segment());
    let strings = [
        format!("{path}&{correct}"),
        format!("{path}?{correct}"),
        format!("{path}{correct}"),
        format!("POST&{path}&{correct}"),
        format!("POST&{}&{}", rfc.encode(&path), rfc.encode(correct)),
        format!("POST\n{path}\n{correct}"),
        format!("{path}&{}", parts.body(of_forms)),
        format!("{path}&{}", parts.body(rfc)),
    ];
    strings.into_iter().map(|string| (Mistake::PathIncluded, string)).collect()
}

/// Values that came otherwise than they were signed.
fn body_encoded_otherwise(parts: &SignedParts<'_>) -> Strings {
    let mut strings = parts.with_each(Mistake::BodyEncodedTwice, decoded);
    strings.extend(parts.with_each(Mistake::BodyEncodedTwice, |value| decoded(&value.replace('+', " "))));
    strings.extend(parts.with_each(Mistake::PlusNotEscaped, |value| value.replace(' ', "+")));
    if parts.correct.contains("%u") {
        strings.extend(parts.with_each(Mistake::BodyEscaped, unescape));
    }
    strings
}

fn items_written_anew(parts: &SignedParts<'_>) -> Strings {
    let items = parts.form.fields.text("product_info").unwrap_or_default();
    let with = |text: &String| {
        parts.with(|name, value| if name == "product_info" { text.clone() } else { value.to_owned() })
    };
    product_info_texts(items).iter().map(|text| (Mistake::ProductInfoReserialised, with(text))).collect()
}

/// The items alone, with the escapes of a page.
fn items_escaped(parts: &SignedParts<'_>) -> Strings {
    let with = |change: &fn(&str) -> String| {
        parts.with(|name, value| if name == "product_info" { change(value) } else { value.to_owned() })
    };
    HTML_ESCAPES.iter().map(|change| (Mistake::CharactersLost, with(change))).collect()
}

/// An empty field as the word of a language for nothing: all of them, and each alone.
fn nulls(parts: &SignedParts<'_>) -> Strings {
    let names = parts.form.call.signed_fields().names.iter().copied();
    let empty: Vec<&str> = names.filter(|name| parts.form.fields.text(name).is_none()).collect();
    let with = |added: &[&str], word: &str| {
        let added: Vec<_> = added.iter().map(|name| (*name, word)).collect();
        (Mistake::NullSigned, canonical_string(parts.sorted.iter().copied().chain(added)))
    };
    let words = ["null", "undefined", "None", "nil"].into_iter();
    let each = |word| empty.chunks(1).chain([empty.as_slice()]).map(move |added| with(added, word));
    words.flat_map(each).collect()
}

/// What stands behind a signed field and is no field of the call may be the rest of its value.
fn ampersands(parts: &SignedParts<'_>) -> Strings {
    let form = parts.form;
    let glued = |is_name_alone: bool| {
        let mut pairs: Vec<(&str, String)> = Vec::new();
        let mut is_open = false;
        for (name, value) in form.fields.texts() {
            if form.call.signs(name) {
                pairs.push((name, value.to_owned()));
                is_open = true;
            } else if CREDENTIALS.contains(&name) {
                is_open = false;
            } else if let Some((_, rest)) = pairs.last_mut().filter(|_| is_open) {
                let equals = if value.is_empty() && is_name_alone { "" } else { "=" };
                rest.extend(["&", name, equals, value]);
            }
        }
        canonical_string(pairs.iter().map(|(name, value)| (*name, value.as_str())))
    };
    [true, false].map(|is_name_alone| (Mistake::AmpersandNotEscaped, glued(is_name_alone))).into()
}
