//! The signature of an exchange: what is signed, how it is checked, and, for a sandbox app,
//! which well-known mistake explains one that does not match (contract 3, "Signature").

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;

use super::fields::Fields;

/// The fields that are signed when they are not empty (spec 5), in the order of the spec's table.
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

/// What a URL leaves as it is; everything else is percent-encoded.
const URL_ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

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
    canonical_string(signed(fields))
}

/// Whether a string of [`exchange_string`] could have been made of other money fields.
///
/// Nothing is escaped in it. Fields that decide money hold no `&` and `=`, so those before
/// `extension` and behind `product_name` stand where they stand; but a free text can hold what
/// looks like `open_id`, `os` and `pay_priority`, and with an `extension` before them it cannot be
/// told which of the two is meant: one signature would fit two players.
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
    let mut joined = String::new();
    for (name, value) in fields {
        let separator = if joined.is_empty() { "" } else { "&" };
        let _ = write!(joined, "{separator}{name}={value}");
    }
    joined
}

/// A key that signs exchanges, ready to use. Its text stays inside.
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
    /// Never: HMAC takes keys of every length.
    #[must_use]
    pub fn new(text: String) -> Self {
        let keyed = Hmac::new_from_slice(text.as_bytes()).expect("HMAC takes keys of every length");
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
        mac.verify_slice(&sign.0.unwrap_or_default()).is_ok() && sign.0.is_some()
    }
}

/// A signature as it came: 64 hexadecimal digits, or something that matches no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sign(Option<[u8; 32]>, String);

impl Sign {
    /// Takes the `sign` field, decoded once from the form; one that was encoded twice is decoded again.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let decoded = percent_encoding::percent_decode_str(text).decode_utf8_lossy();
        let mut bytes = [0; 32];
        let is_hex = hex::decode_to_slice(decoded.as_ref(), &mut bytes).is_ok();
        Self(is_hex.then_some(bytes), decoded.to_ascii_lowercase())
    }

    fn is(&self, expected: &str) -> bool {
        self.1 == expected
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
    let mut all: Vec<_> =
        SIGNED_FIELDS.iter().map(|name| (*name, fields.text(name).unwrap_or_default())).collect();
    all.sort_unstable();
    let table_order = SIGNED_FIELDS.iter().filter_map(|name| fields.text(name).map(|value| (*name, value)));
    let with_token =
        fields.texts().filter(|(name, _)| *name == "access_token" || SIGNED_FIELDS.contains(name));
    let upper: Vec<(String, &str)> =
        present().map(|(name, value)| (name.to_ascii_uppercase(), value)).collect();
    vec![
        (Mistake::ValuesEncoded, encoded_by(|value| utf8_percent_encode(value, URL_ENCODED).to_string())),
        (Mistake::ValuesEncoded, encoded_by(form_encoded)),
        (Mistake::EmptyFieldsKept, join(sorted.into_iter())),
        (Mistake::EmptyFieldsKept, join(all.into_iter())),
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
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const KEY: &str = "B7Y0c6E5bCKMEQOsvCExziNhq16ObGqh";

    #[test]
    fn the_vectors_of_the_contract() {
        for (string, sign) in [
            (
                "buy_quantity=100&currency_type=CNY&extension={}&os=android&third_party_trade_no=123456&zone_id=fu001_role001",
                "c16908b30bf05f54f7aa89326308fa9ed9c98c96d6aa58be682a3b75e4f2a907",
            ),
            (
                "app_id=kwaiApp001&buy_quantity=99&currency_type=USD&extension={}&open_id=open001&os=android&third_party_trade_no=third001&user_ip=127.0.0.1&zone_id=server1_role1",
                "d8e898cc271725ea93b38801418759ffb0a36b2a16a5078dc08e8fc13890758a",
            ),
        ] {
            let pairs: Vec<(&str, &str)> =
                string.split('&').map(|pair| pair.split_once('=').unwrap()).rev().collect();
            assert_eq!(canonical_string(pairs.into_iter()), string);
            assert_eq!(PayKey::new(KEY.to_owned()).sign(string), sign);
        }
    }

    fn request() -> Fields {
        Fields::from_urlencoded(
            b"access_token=t&open_id=o1&app_id=a1&zone_id=z_r&os=ios&ts=1700000000000&user_ip=1.2.3.4&amount=5&pay_priority=\
              &biz_no=b1&product_name=two+words&product_info=%5B%7B%7D%5D&product_desc=d&extension=&sign=x&else=1",
        )
        .unwrap()
    }

    #[test]
    fn empty_unsigned_and_unknown_fields_stay_out_of_the_string() {
        assert_eq!(
            exchange_string(&request()),
            "amount=5&app_id=a1&biz_no=b1&open_id=o1&os=ios&product_desc=d&product_info=[{}]&product_name=two words\
             &ts=1700000000000&user_ip=1.2.3.4&zone_id=z_r"
        );
    }

    #[test]
    fn either_case_of_hexadecimal_and_a_twice_encoded_sign_verify() {
        let key = PayKey::new(KEY.to_owned());
        let sign = key.sign("a=b");
        let encoded = sign.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
        for text in [sign.clone(), sign.to_ascii_uppercase(), encoded] {
            assert!(key.verifies("a=b", &Sign::new(&text)), "{text}");
        }
        for text in
            ["", "00", &sign[1..], &format!("{sign}00"), &sign.replace(|c: char| c.is_ascii_digit(), "g")]
        {
            assert!(!key.verifies("a=b", &Sign::new(text)), "{text}");
        }
    }

    #[test]
    fn each_mistake_is_named_and_anything_else_is_not() {
        let fields = request();
        let (live, retired) = (
            [PayKey::new(KEY.to_owned()), PayKey::new("older".to_owned())],
            [PayKey::new("oldest".to_owned())],
        );
        let keys = DiagnosisKeys { live: &live, retired: &retired, app_secret: "secret" };
        let correct = exchange_string(&fields);
        let named = |sign: String| diagnose(&fields, &keys, &Sign::new(&sign));
        assert_eq!(named(PayKey::new("secret".to_owned()).sign(&correct)), Some(Mistake::AppSecretAsKey));
        assert_eq!(named(retired[0].sign(&correct)), Some(Mistake::RetiredPayKey));
        assert_eq!(named(PayKey::new(correct.clone()).sign(KEY)), Some(Mistake::KeyAndMessageSwapped));
        assert_eq!(
            named(hex::encode(Md5::digest(format!("{correct}secret")))),
            Some(Mistake::Md5WithAppSecret)
        );
        for key in &live {
            let by_string = |string: &str| named(key.sign(string));
            let encoded = correct.replace("[{}]", "%5B%7B%7D%5D");
            assert_eq!(by_string(&encoded.replace("two words", "two%20words")), Some(Mistake::ValuesEncoded));
            assert_eq!(by_string(&encoded.replace("two words", "two+words")), Some(Mistake::ValuesEncoded));
            let kept = correct
                .replace("&os=ios", "&os=ios&pay_priority=")
                .replace("&open_id", "&extension=&open_id");
            assert_eq!(by_string(&kept), Some(Mistake::EmptyFieldsKept));
            assert_eq!(
                by_string(&correct.replace("amount=5&", "access_token=t&amount=5&")),
                Some(Mistake::AccessTokenIncluded)
            );
            let as_sent = "open_id=o1&app_id=a1&zone_id=z_r&os=ios&ts=1700000000000&user_ip=1.2.3.4&amount=5\
                           &biz_no=b1&product_name=two words&product_info=[{}]&product_desc=d";
            assert_eq!(by_string(as_sent), Some(Mistake::NotSorted));
            let upper: Vec<String> = correct
                .split('&')
                .map(|pair| {
                    pair.split_once('=')
                        .map(|(name, value)| format!("{}={value}", name.to_uppercase()))
                        .unwrap()
                })
                .collect();
            assert_eq!(by_string(&upper.join("&")), Some(Mistake::UpperCaseNames));
            assert_eq!(by_string("something else"), None);
        }
        assert_eq!(named("00".repeat(32)), None);
    }

    /// Every way to read a canonical string as money fields, found by trying all of them.
    fn readings(string: &str) -> BTreeSet<Vec<String>> {
        let pairs: Vec<&str> = string.split('&').collect();
        let money = |pair: &str, name: &str| {
            pair.split_once('=')
                .filter(|(known, value)| *known == name && !value.contains('='))
                .map(|(_, value)| value.to_owned())
        };
        let at = |index: usize, name: &str| pairs.get(index).and_then(|pair| money(pair, name));
        let named = |index: usize, name: &str| {
            pairs.get(index).is_some_and(|pair| pair.starts_with(&format!("{name}=")))
        };
        let last = pairs.len() - 3;
        let (Some(amount), Some(app_id), Some(biz_no)) = (at(0, "amount"), at(1, "app_id"), at(2, "biz_no"))
        else {
            return BTreeSet::new();
        };
        let (Some(ts), Some(user_ip), Some(zone_id)) =
            (at(last, "ts"), at(last + 1, "user_ip"), at(last + 2, "zone_id"))
        else {
            return BTreeSet::new();
        };
        let mut found = BTreeSet::new();
        for player in 3..last {
            // Before the player stands nothing, or the extension.
            if player > 3 && !named(3, "extension") {
                continue;
            }
            let (Some(open_id), Some(os)) = (at(player, "open_id"), at(player + 1, "os")) else { continue };
            for priority in [at(player + 2, "pay_priority"), None] {
                let next = player + 2 + usize::from(priority.is_some());
                // Somewhere behind it, in this order, the free texts begin.
                let begins = |from: usize, name: &str| (from..last).find(|index| named(*index, name));
                let described = named(next, "product_desc").then_some(next);
                let listed = described.and_then(|index| begins(index + 1, "product_info"));
                if listed.and_then(|index| begins(index + 1, "product_name")).is_some() {
                    let priority = priority.unwrap_or_default();
                    let fields =
                        [&amount, &app_id, &biz_no, &open_id, &os, &priority, &ts, &user_ip, &zone_id];
                    found.insert(fields.into_iter().cloned().collect());
                }
            }
        }
        found
    }

    fn free_text() -> impl Strategy<Value = String> {
        // Whole players are likely, so that most cases come close to what must be told apart.
        let pieces = [
            "x",
            "&",
            "=",
            "&os=pc",
            "&ts=1",
            "&product_name=n",
            "&open_id=evil&os=pc&product_desc=d",
            "&open_id=evil&os=pc&pay_priority=1&product_desc=d",
            "&open_id=evil&os=pc&product_desc=d&product_info=i",
            "&open_id=evil&pay_priority=1&product_desc=d",
        ];
        prop::collection::vec(prop::sample::select(pieces.to_vec()), 1..8)
            .prop_map(|pieces| format!("t{}", pieces.concat()))
    }

    #[test]
    fn a_text_that_names_another_player_is_ambiguous() {
        let one = "amount=1&app_id=a&biz_no=b&extension=e&open_id=poor&os=x&product_desc=d&open_id=rich&os=x&product_desc=d\
                   &product_info=i&product_name=n&ts=1&user_ip=u&zone_id=z";
        assert_eq!(readings(one).len(), 2);
        assert!(is_ambiguous(one));
        // Without an extension there is one way to read it.
        let without = one.replace("&extension=e", "");
        assert_eq!(readings(&without).len(), 1);
        assert!(!is_ambiguous(&without));
        assert!(!is_ambiguous(&one.replace("open_id=rich", "openid=rich")));
    }

    proptest! {
        /// Money fields cannot be moved from one to another under the same signature.
        #[test]
        fn equal_canonical_strings_mean_equal_money_fields(
            extension in prop::option::of(free_text()), description in free_text(), info in free_text(),
            name in free_text(), priority in prop::option::of("[01]"),
        ) {
            let mut fields = Fields::default();
            for (field, value) in [
                ("amount", "1"), ("app_id", "a"), ("biz_no", "b"), ("open_id", "o"), ("os", "s"), ("ts", "2"), ("user_ip", "u"),
                ("zone_id", "z"), ("extension", extension.as_deref().unwrap_or_default()), ("product_desc", &description),
                ("product_info", &info), ("product_name", &name), ("pay_priority", priority.as_deref().unwrap_or_default()),
            ] {
                fields.add_text(field.to_owned(), value.to_owned()).unwrap();
            }
            let string = exchange_string(&fields);
            let readings = readings(&string);
            let meant: Vec<String> = ["1", "a", "b", "o", "s", priority.as_deref().unwrap_or_default(), "2", "u", "z"]
                .map(str::to_owned).to_vec();
            prop_assert!(readings.contains(&meant), "{string}");
            prop_assert!(is_ambiguous(&string) || readings.len() == 1, "{string} reads as {readings:?}");
        }
    }
}
