//! The calls that a game server signs (contract 3 and 10), and the fields that each signs. The string to sign of a form
//! joins them in ASCII order of their names (contract 3.2).

use std::sync::LazyLock;

use super::fields::{DeveloperTexts, Reading};
use super::purses::PayPriority;
use super::request::WalletRequest;
use crate::app_settings::Scope;
use crate::endpoint::Endpoint;
use crate::examples::NOW_MILLIS;
use crate::fields::{FieldError, Fields};
use crate::input::Input;
use crate::ledger::ReferenceKind;
use crate::text;

/// Room for the string of a usual exchange; a longer one costs another allocation.
const JOINED_BYTES_USUAL: usize = 512;

/// The signed field that names the player. What is joined before it decides whether a string has one reading.
const PLAYER: &str = "open_id";

/// A call of the wallet. It signs its fields with the pay key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WalletCall {
    /// Deducts currency in exchange for items (contract 3).
    Exchange,
    /// Adds gifted currency (contract 10).
    Present,
    /// Gives back an exchange, or a part of it (contract 10).
    Cancel,
    /// Shows both purses (contract 10).
    Balance,
    /// Shows what became of a `biz_no`, and can close an unknown one (contract 10).
    Query,
    /// Orders a top-up, which moves no coins (contract 19.2).
    Topup,
}

/// The fields of a call that are signed when they are not empty: those that it reads, and `app_id`.
#[derive(Debug)]
pub struct SignedFields {
    /// In the order of the contract's table.
    pub names: Vec<&'static str>,
    /// In ASCII order, as they are joined.
    pub sorted: Vec<&'static str>,
    /// Those that may be empty or absent.
    optional: Vec<&'static str>,
}

impl SignedFields {
    fn of(call: WalletCall) -> Self {
        let reading = Reading::new(PayPriority::ChargedFirst, NOW_MILLIS);
        let fields = Input::describe(|input| WalletRequest::read(call, input, &reading));
        let mut names: Vec<_> = fields.iter().map(|field| field.name).collect();
        // The table of the exchange names the player before the app.
        names.insert(usize::from(call == WalletCall::Exchange), "app_id");
        let mut sorted = names.clone();
        sorted.sort_unstable();
        let optional = fields.iter().filter(|field| !field.required).map(|field| field.name).collect();
        Self { names, sorted, optional }
    }
}

static SIGNED_FIELDS: LazyLock<[SignedFields; 6]> = LazyLock::new(|| WalletCall::ALL.map(SignedFields::of));

impl WalletCall {
    /// Every call.
    pub const ALL: [Self; 6] =
        [Self::Exchange, Self::Present, Self::Cancel, Self::Balance, Self::Query, Self::Topup];

    /// The call that has these fields. An exchange, where they fit none.
    #[must_use]
    pub fn of(fields: &Fields) -> Self {
        let has = |name| fields.text(name).is_some();
        let buys = has("product_info") || has("product_name");
        if has("product_id") && !buys {
            return Self::Topup;
        }
        match (has("pay_biz_no"), buys, has("amount"), has("biz_no")) {
            (true, ..) => Self::Cancel,
            (false, false, true, _) => Self::Present,
            (false, false, false, true) => Self::Query,
            (false, false, false, false) if has("open_id") => Self::Balance,
            (false, true, ..) | (false, false, false, false) => Self::Exchange,
        }
    }

    /// Its endpoint.
    #[must_use]
    pub const fn endpoint(self) -> Endpoint {
        match self {
            Self::Exchange => Endpoint::Exchange,
            Self::Present => Endpoint::Present,
            Self::Cancel => Endpoint::Cancel,
            Self::Balance => Endpoint::Balance,
            Self::Query => Endpoint::Query,
            Self::Topup => Endpoint::Topup,
        }
    }

    /// The scope that the app needs for it.
    #[must_use]
    pub const fn scope(self) -> Option<Scope> {
        match self {
            Self::Present => Some(Scope::Present),
            Self::Cancel => Some(Scope::Cancel),
            Self::Topup => Some(Scope::Topup),
            Self::Exchange | Self::Balance | Self::Query => None,
        }
    }

    /// Its change of a wallet. `None` for a call that moves no coins.
    #[must_use]
    pub const fn change(self) -> Option<ReferenceKind> {
        match self {
            Self::Exchange => Some(ReferenceKind::Exchange),
            Self::Present => Some(ReferenceKind::Present),
            Self::Cancel => Some(ReferenceKind::Cancel),
            Self::Balance | Self::Query | Self::Topup => None,
        }
    }

    /// The last segment of its path.
    #[must_use]
    pub const fn segment(self) -> &'static str {
        match self {
            Self::Exchange => "pay",
            Self::Present => "present",
            Self::Cancel => "cancel",
            Self::Balance => "balance",
            Self::Query => "query",
            Self::Topup => "topup",
        }
    }

    /// The fields that it signs.
    #[must_use]
    pub fn signed_fields(self) -> &'static SignedFields {
        // The calls stand in `ALL` as they are declared.
        &SIGNED_FIELDS[self as usize]
    }

    /// True for a field that it signs.
    #[must_use]
    pub fn signs(self, name: &str) -> bool {
        self.signed_fields().names.contains(&name)
    }

    /// The fields that it must have beside its credentials, in the order of the table.
    pub fn required_fields(self) -> impl Iterator<Item = &'static str> {
        let SignedFields { names, optional, .. } = self.signed_fields();
        names.iter().copied().filter(|name| !optional.contains(name)).chain(["sign"])
    }
}

/// The form of a call.
#[derive(Debug, Clone)]
pub struct WalletForm {
    /// The call.
    pub call: WalletCall,
    /// Its fields as they came.
    pub fields: Fields,
}

impl WalletForm {
    /// The fields that the call signs, as they came.
    pub(crate) fn signed(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.texts().filter(|(name, _)| self.call.signs(name))
    }
}

/// Joins `name=value` with `&` in ASCII order of the names, leaving out empty values.
#[must_use]
pub fn canonical_string<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut present: Vec<_> = fields.filter(|(_, value)| !value.is_empty()).collect();
    present.sort_unstable();
    join(present.into_iter())
}

/// The string that the pay key signs (contract 3.2). It is `name=value` of each signed field that is not empty, in
/// ASCII order of the names, joined with `&`. Values stand as they were decoded from the form.
#[must_use]
pub fn string_to_sign(form: &WalletForm) -> String {
    let names = &form.call.signed_fields().sorted;
    join(names.iter().filter_map(|name| Some((*name, form.fields.text(name)?))))
}

/// Whether the [`string_to_sign`] of an exchange could have been made of other money fields.
///
/// Nothing is escaped in it. Fields that decide money hold no `&` and `=`, so those before and after all free texts are
/// clear. But a free text can hold what looks like `open_id`, `os` and `pay_priority`. With a text of the developer
/// before them, nobody can decide which of the two is meant: one signature would fit two players.
#[must_use]
pub fn is_ambiguous(string: &str) -> bool {
    reads_as_two_players(string, texts_before_player())
}

/// The names of the texts of the developer that are joined before the player.
fn texts_before_player() -> impl Iterator<Item = &'static str> {
    DeveloperTexts::NAMES.into_iter().filter(|name| *name < PLAYER)
}

/// Whether a string that may hold these texts before the player can be read as those of two players.
fn reads_as_two_players<'a>(string: &str, mut texts_before: impl Iterator<Item = &'a str>) -> bool {
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
    texts_before.any(|name| string.contains(&format!("&{name}=")))
        && string.match_indices("&open_id=").filter(names_a_player).count() > 1
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

/// Refuses free texts that make the string to sign ambiguous: nothing is escaped in it, so one signature could fit
/// two requests.
pub(super) fn check_texts(form: &WalletForm) -> Result<(), FieldError> {
    let names = DeveloperTexts::NAMES.iter().chain(&["product_desc", "product_info", "product_name"]);
    let mut texts = names.filter_map(|name| Some((*name, form.fields.text(name)?)));
    if form.call == WalletCall::Exchange {
        // Only a text that names a player needs the full check.
        if texts.any(|(_, text)| text.contains("&open_id=")) && is_ambiguous(&string_to_sign(form)) {
            let expected =
                text!("texts that cannot be taken for other signed fields (&open_id=, &os=, &product_desc=)");
            let sent = texts_before_player().map(|name| (name, form.fields.text(name).unwrap_or_default()));
            // The first one that came.
            let (name, text) = sent.min_by_key(|(_, text)| text.is_empty()).unwrap_or_default();
            return Err(FieldError::malformed(name, expected, text));
        }
        return Ok(());
    }
    // The other calls have no older clients, so their rule is simple. It also keeps the calls apart: no signature of one
    // call fits another.
    let names_a_field = |text: &str| {
        text.match_indices('&').any(|(at, _)| {
            let name = text[at + 1..].split_once('=').map(|(name, _)| name);
            name.is_some_and(|name| WalletCall::ALL.iter().any(|call| call.signs(name)))
        })
    };
    match texts.find(|(name, text)| form.call.signs(name) && names_a_field(text)) {
        Some((name, text)) => Err(FieldError::malformed(
            name,
            "a text without & in front of the name of a signed field and =",
            text,
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elsewhere a text could hold what looks like a money field, and one signature would fit two requests.
    #[test]
    fn the_name_of_a_text_of_the_developer_stands_where_no_money_field_can_be_meant() {
        for name in DeveloperTexts::NAMES {
            let is_before_player = "biz_no" < name && name < PLAYER;
            let is_after_money = "product_desc" < name && name < "ts";
            assert!(
                is_before_player || is_after_money,
                "{name} must sort elsewhere: CONTRIBUTING.md says where"
            );
        }
    }

    #[test]
    fn any_text_before_the_player_makes_a_second_player_ambiguous() {
        let two = "biz_no=b&memo=m&open_id=poor&os=x&product_desc=d&open_id=rich&os=x&product_desc=d&ts=1";
        assert!(reads_as_two_players(two, ["extension", "memo"].into_iter()));
        assert!(!reads_as_two_players(two, ["extension"].into_iter()));
        assert!(!reads_as_two_players(&two.replace("rich&os", "rich&so"), ["memo"].into_iter()));
    }

    #[test]
    fn the_fields_tell_the_call() {
        for (fields, call) in [
            ("open_id=o&amount=1&biz_no=b&product_info=[]", WalletCall::Exchange),
            ("open_id=o&amount=1&biz_no=b", WalletCall::Present),
            ("open_id=o&amount=1&biz_no=b&pay_biz_no=p", WalletCall::Cancel),
            ("open_id=o&biz_no=b", WalletCall::Query),
            ("open_id=o&biz_no=b&product_id=gems60", WalletCall::Topup),
            ("open_id=o&zone_id=z_r", WalletCall::Balance),
            ("", WalletCall::Exchange),
        ] {
            assert_eq!(
                WalletCall::of(&Fields::from_urlencoded(fields.as_bytes()).unwrap()),
                call,
                "{fields}"
            );
        }
    }
}
