//! The string to sign, its vectors, and the mistakes that are recognised.

use std::collections::BTreeSet;

use md5::{Digest as _, Md5};
use proptest::prelude::*;

use super::*;
use crate::key_uses::LiveKey;
use crate::secret::Secret;

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
fn the_fields_are_joined_in_ascii_order() {
    assert!(SIGNED_FIELDS_SORTED.is_sorted());
    let fields = request();
    assert_eq!(exchange_string(&fields), canonical_string(signed(&fields)));
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
    for text in ["", "00", &sign[1..], &format!("{sign}00"), &sign.replace(|c: char| c.is_ascii_digit(), "g")]
    {
        assert!(!key.verifies("a=b", &Sign::new(text)), "{text}");
    }
}

#[test]
fn each_mistake_is_named_and_anything_else_is_not() {
    let fields = request();
    let (live, retired) = (
        [KEY, "older"].map(|key| LiveKey::from(PayKey::new(key.to_owned()))),
        [PayKey::new("oldest".to_owned())],
    );
    let secrets = ["secret", "former"].map(|secret| LiveKey::from(Secret::new(secret.to_owned())));
    let keys = DiagnosisKeys { live: &live, retired: &retired, app_secrets: &secrets };
    let correct = exchange_string(&fields);
    let named = |sign: String| diagnose(&fields, &keys, &Sign::new(&sign));
    for secret in ["secret", "former"] {
        assert_eq!(named(PayKey::new(secret.to_owned()).sign(&correct)), Some(Mistake::AppSecretAsKey));
        let by_md5 = hex::encode(Md5::digest(format!("{correct}{secret}")));
        assert_eq!(named(by_md5), Some(Mistake::Md5WithAppSecret));
    }
    assert_eq!(named(retired[0].sign(&correct)), Some(Mistake::RetiredPayKey));
    assert_eq!(named(PayKey::new(correct.clone()).sign(KEY)), Some(Mistake::KeyAndMessageSwapped));
    for key in &live {
        let by_string = |string: &str| named(key.sign(string));
        let encoded = correct.replace("[{}]", "%5B%7B%7D%5D");
        assert_eq!(by_string(&encoded.replace("two words", "two%20words")), Some(Mistake::ValuesEncoded));
        assert_eq!(by_string(&encoded.replace("two words", "two+words")), Some(Mistake::ValuesEncoded));
        let kept =
            correct.replace("&os=ios", "&os=ios&pay_priority=").replace("&open_id", "&extension=&open_id");
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
                pair.split_once('=').map(|(name, value)| format!("{}={value}", name.to_uppercase())).unwrap()
            })
            .collect();
        assert_eq!(by_string(&upper.join("&")), Some(Mistake::UpperCaseNames));
        assert_eq!(by_string("something else"), None);
        let base64 = |bytes: &str| STANDARD_NO_PAD.encode(hex::decode(bytes).unwrap());
        let right = base64(&key.sign(&correct));
        for text in [format!("{right}="), right.replace('+', "-").replace('/', "_"), right.replace('+', " ")]
        {
            assert_eq!(named(text), Some(Mistake::Base64));
        }
        assert_eq!(named(base64(&key.sign("something else"))), None);
        for (before, after) in [("", "\n"), ("", " "), (" ", ""), ("", "\r\n"), ("", "\t")] {
            let blank = key.surrounded(before, after).sign(&correct);
            assert_eq!(named(blank), Some(Mistake::KeyWithBlank), "{before:?} {after:?}");
        }
        let unlisted = correct.replace("&open_id", "&else=1&open_id");
        for string in [unlisted.clone(), format!("access_token=t&{unlisted}")] {
            assert_eq!(named(key.sign(&canonical(&string))), Some(Mistake::UnlistedFieldsSigned));
        }
        let python = correct.replace("[{}]", "[{ }]");
        assert_eq!(by_string(&python), None, "no library writes this");
    }
    assert_eq!(named("00".repeat(32)), None);
}

/// The same pairs in ASCII order.
fn canonical(string: &str) -> String {
    canonical_string(string.split('&').map(|pair| pair.split_once('=').unwrap()))
}

/// Texts outside ASCII, and items that a library has written anew.
#[test]
fn gbk_bytes_and_items_in_another_form_are_named() {
    let info = r#"[{"product_id":1,"product_num":1,"product_type":0,"name":"金币/a"}]"#;
    let mut fields = Fields::default();
    for (name, value) in [("app_id", "a1"), ("product_info", info), ("product_name", "双倍卡")] {
        fields.add_text(name.to_owned(), value.to_owned()).unwrap();
    }
    let live = [LiveKey::from(PayKey::new(KEY.to_owned()))];
    let keys = DiagnosisKeys { live: &live, retired: &[], app_secrets: &[] };
    let named = |sign: String| diagnose(&fields, &keys, &Sign::new(&sign));
    let correct = exchange_string(&fields);
    let mut mac = live[0].keyed.clone();
    mac.update(&encoding_rs::GBK.encode(&correct).0);
    assert_eq!(named(hex::encode(mac.finalize().into_bytes())), Some(Mistake::GbkBytes));
    for other in [
        r#"[{"product_id": 1, "product_num": 1, "product_type": 0, "name": "\u91d1\u5e01/a"}]"#,
        r#"[{"product_id":1,"product_num":1,"product_type":0,"name":"\u91d1\u5e01\/a"}]"#,
        r#"[{"name":"金币/a","product_id":1,"product_num":1,"product_type":0}]"#,
    ] {
        let sign = live[0].sign(&correct.replace(info, other));
        assert_eq!(named(sign), Some(Mistake::ProductInfoReserialised), "{other}");
    }
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
    let named =
        |index: usize, name: &str| pairs.get(index).is_some_and(|pair| pair.starts_with(&format!("{name}=")));
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
                let fields = [&amount, &app_id, &biz_no, &open_id, &os, &priority, &ts, &user_ip, &zone_id];
                found.insert(fields.into_iter().cloned().collect());
            }
        }
    }
    found
}

fn free_text() -> impl Strategy<Value = String> {
    // Whole players are likely, so that most cases come close to what must be distinguished.
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
