//! The string to sign of a call: its signed fields, joined in ASCII order of their names (contract 3.2).

use super::call::WalletForm;

/// Room for the string of a usual exchange; a longer one costs another allocation.
const JOINED_BYTES_USUAL: usize = 512;

/// Joins `name=value` with `&` in ASCII order of the names, leaving out empty values.
#[must_use]
pub fn canonical_string<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut present: Vec<_> = fields.filter(|(_, value)| !value.is_empty()).collect();
    present.sort_unstable();
    join(present.into_iter())
}

/// The string that the fields of a call must be signed with.
#[must_use]
pub fn string_to_sign(form: &WalletForm) -> String {
    let names = &form.call.signed_fields().sorted;
    join(names.iter().filter_map(|name| Some((*name, form.fields.text(name)?))))
}

/// Whether the [`string_to_sign`] of an exchange could have been made of other money fields.
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

pub(crate) fn join<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> String {
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
