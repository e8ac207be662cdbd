//! The string to sign, its vectors, and the mistakes that are recognised.

mod kinds;

use std::collections::BTreeSet;

use md5::{Digest as _, Md5};
use proptest::prelude::*;

use super::*;
use crate::fields::Fields;
use crate::ids::AppId;
use crate::key_uses::LiveKey;
use crate::secret::Secret;
use crate::wallet::{
    DeveloperTexts, PayPriority, Reading, WalletCall, WalletForm, WalletRequest, canonical_string,
    is_ambiguous, string_to_sign,
};

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

/// The calls of contract 10.1.3.
#[test]
fn the_vectors_of_the_other_calls() {
    for (call, string, sign) in [
        (
            WalletCall::Balance,
            "app_id=ks001&open_id=open001&os=android&ts=1700000000000&user_ip=127.0.0.1&zone_id=1_role1",
            "62740f9a990affd9037f03d7dba6ea03c952427da994e935b573fc9191684f45",
        ),
        (
            WalletCall::Cancel,
            "amount=40&app_id=ks001&biz_no=refund0001&open_id=open001&os=android&pay_biz_no=order0001\
             &ts=1700000000000&user_ip=127.0.0.1&zone_id=1_role1",
            "a31e745e9d7547cc6e218fa22119580b9a129049cc6101dfd0b5814f194e53d7",
        ),
        (
            WalletCall::Query,
            "app_id=ks001&biz_no=order0001&open_id=open001&ts=1700000000000",
            "eddd128bacae990557d0359fa39af13bc586266784c02fe097b7e7ff1d3000c5",
        ),
    ] {
        let sent = format!("{string}&access_token=t&close=&extension=&else=1&sign={sign}");
        let form = WalletForm { call, fields: Fields::from_urlencoded(sent.as_bytes()).unwrap() };
        assert_eq!(string_to_sign(&form), string);
        assert!(PayKey::new(KEY.to_owned()).verifies(string, &Sign::new(sign)));
    }
}

fn request() -> WalletForm {
    exchange(Fields::from_urlencoded(
        b"access_token=t&open_id=o1&app_id=a1&zone_id=z_r&os=ios&ts=1700000000000&user_ip=1.2.3.4&amount=5&pay_priority=\
          &biz_no=b1&product_name=two+words&product_info=%5B%7B%7D%5D&product_desc=d&extension=&sign=x&else=1",
    )
    .unwrap())
}

fn exchange(fields: Fields) -> WalletForm {
    WalletForm { call: WalletCall::Exchange, fields }
}

#[test]
fn the_fields_are_joined_in_ascii_order() {
    let form = request();
    assert_eq!(string_to_sign(&form), canonical_string(form.signed()));
}

#[test]
fn empty_unsigned_and_unknown_fields_stay_out_of_the_string() {
    assert_eq!(
        string_to_sign(&request()),
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
    let form = request();
    let (live, retired) = (
        [KEY, "older"].map(|key| LiveKey::from(PayKey::new(key.to_owned()))),
        [PayKey::new("oldest".to_owned())],
    );
    let secrets = ["secret", "former"].map(|secret| LiveKey::from(Secret::new(secret.to_owned())));
    let keys = DiagnosisKeys { live: &live, retired: &retired, app_secrets: &secrets };
    let correct = string_to_sign(&form);
    let named = |sign: String| diagnose(&form, &keys, &Sign::new(&sign));
    for secret in ["secret", "former"] {
        assert_eq!(named(PayKey::new(secret.to_owned()).sign(&correct)), Some(Mistake::AppSecretAsKey));
        let by_md5 = hex::encode(Md5::digest(format!("{correct}{secret}")));
        assert_eq!(named(by_md5), Some(Mistake::Md5WithAppSecret));
    }
    for (key, mistake) in
        [("t", Mistake::AccessTokenAsKey), ("a1", Mistake::AppIdAsKey), ("", Mistake::EmptyKey)]
    {
        assert_eq!(named(PayKey::new(key.to_owned()).sign(&correct)), Some(mistake));
    }
    for other in ["xyz", "5d41402abc4b2a76b9719d911017c592", "c2lnbmF0dXJl"] {
        assert_eq!(named(other.to_owned()), Some(Mistake::NoDigest), "{other}");
    }
    assert_eq!(named("ab".repeat(32)), None);
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
        assert_eq!(named(base64(&key.sign("something else"))), Some(Mistake::NoDigest));
        for (before, after) in [("", "\n"), ("", " "), (" ", ""), ("", "\r\n"), ("", "\t")] {
            let blank = key.surrounded(before, after).sign(&correct);
            assert_eq!(named(blank), Some(Mistake::KeyWithStrays), "{before:?} {after:?}");
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

/// Contract 3.7.2: what the servers of other platforms sign, and what is right but written wrong.
#[test]
fn the_rules_of_other_platforms_are_named() {
    let form = request();
    let live = [KEY, "older"].map(|key| LiveKey::from(PayKey::new(key.to_owned())));
    let keys = DiagnosisKeys { live: &live, retired: &[], app_secrets: &[] };
    let correct = string_to_sign(&form);
    let named = |sign: String| diagnose(&form, &keys, &Sign::new(&sign));
    for key in &live {
        let by_string = |string: &str| named(key.sign(string));
        for (string, mistake) in [
            (format!("{correct}&"), Mistake::SeparatorAtEnd),
            (format!("&{correct}"), Mistake::SeparatorAtEnd),
            (format!("{correct}&key={}", key.text), Mistake::KeyInText),
            (correct.replace('&', ""), Mistake::AnotherJoin),
            ("5&a1&b1&o1&ios&d&[{}]&two words&1700000000000&1.2.3.4&z_r".to_owned(), Mistake::AnotherJoin),
        ] {
            assert_eq!(by_string(&string), Some(mistake), "{string}");
        }
        for text in [format!("{correct}{}", key.text), format!("{0}{correct}{0}", key.text)] {
            assert_eq!(named(hex::encode(Md5::digest(&text))), Some(Mistake::KeyInText));
            assert_eq!(named(hex::encode(Sha256::digest(&text)).to_uppercase()), Some(Mistake::KeyInText));
        }
        assert_eq!(named(hex::encode(Sha256::digest(&correct))), Some(Mistake::AnotherHash));
        let mut sha1 = Hmac::<sha1::Sha1>::new_from_slice(key.text.as_bytes()).unwrap();
        sha1.update(correct.as_bytes());
        assert_eq!(named(hex::encode(sha1.finalize().into_bytes())), Some(Mistake::AnotherHash));
        let right = key.sign(&correct);
        assert_eq!(named(format!("0x{right}")), Some(Mistake::PrefixBeforeSign));
        assert_eq!(named(right[..32].to_owned()), Some(Mistake::PartOfSign));
    }
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
    let form = exchange(fields);
    let named = |sign: String| diagnose(&form, &keys, &Sign::new(&sign));
    let correct = string_to_sign(&form);
    for lost in ["???", "", "\u{5361}"] {
        let is_lost = lost != "\u{5361}";
        let changed: String = match lost {
            "???" => correct.chars().map(|letter| if letter.is_ascii() { letter } else { '?' }).collect(),
            _ => correct.chars().filter(char::is_ascii).collect(),
        };
        let signed = if is_lost { changed } else { correct.bytes().map(char::from).collect() };
        assert_eq!(named(live[0].sign(&signed)), Some(Mistake::CharactersLost), "{signed}");
    }
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
        // Before the player stands nothing, or a text of the developer.
        if player > 3 && !DeveloperTexts::NAMES.into_iter().any(|name| name < "open_id" && named(3, name)) {
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
    /// Money fields cannot be moved from one to another under the same signature. The name of another text of the developer
    /// must sort between those of `biz_no` and `open_id`, or of `product_desc` and `ts`.
    #[test]
    fn equal_canonical_strings_mean_equal_money_fields(
        texts in prop::collection::vec(prop::option::of(free_text()), DeveloperTexts::NAMES.len()),
        description in free_text(), info in free_text(), name in free_text(), priority in prop::option::of("[01]"),
    ) {
        let mut fields = Fields::default();
        for (field, text) in DeveloperTexts::NAMES.into_iter().zip(texts) {
            fields.add_text(field.to_owned(), text.unwrap_or_default()).unwrap();
        }
        for (field, value) in [
            ("amount", "1"), ("app_id", "a"), ("biz_no", "b"), ("open_id", "o"), ("os", "s"), ("ts", "2"), ("user_ip", "u"),
            ("zone_id", "z"), ("product_desc", &description), ("product_info", &info), ("product_name", &name),
            ("pay_priority", priority.as_deref().unwrap_or_default()),
        ] {
            fields.add_text(field.to_owned(), value.to_owned()).unwrap();
        }
        let string = string_to_sign(&exchange(fields));
        let readings = readings(&string);
        let meant: Vec<String> = ["1", "a", "b", "o", "s", priority.as_deref().unwrap_or_default(), "2", "u", "z"]
            .map(str::to_owned).to_vec();
        prop_assert!(readings.contains(&meant), "{string}");
        prop_assert!(is_ambiguous(&string) || readings.len() == 1, "{string} reads as {readings:?}");
    }

    /// A signature fits one call alone. But for the exchange, whose older clients send what they like in texts, it fits
    /// one request of that call.
    #[test]
    fn a_string_of_one_call_is_none_of_another(
        sent in prop::sample::select(WalletCall::ALL.to_vec()), texts in prop::collection::vec(call_text(), 3),
        has_extension in any::<bool>(), has_description in any::<bool>(),
    ) {
        let item = format!("[{{\"product_id\":1,\"product_num\":1,\"product_type\":0,\"x\":\"{}\"}}]", texts[2]);
        let values = [
            ("amount", "1"), ("app_id", "a"), ("biz_no", "b"), ("pay_biz_no", "p"), ("open_id", "o"), ("os", "s"),
            ("ts", "1700000000"), ("user_ip", "192.0.2.1"), ("zone_id", "z_r"), ("product_info", item.as_str()),
            ("product_name", texts[1].as_str()),
            ("product_desc", if has_description || sent == WalletCall::Exchange { texts[1].as_str() } else { "" }),
        ];
        let text = if has_extension { texts[0].as_str() } else { "" };
        let of_developer = DeveloperTexts::NAMES.map(|name| (name, text));
        let signed = values.into_iter().chain(of_developer).filter(|(name, _)| sent.signs(name));
        let form = form_of(sent, signed);
        let string = string_to_sign(&form);
        let reading = Reading::new(PayPriority::ChargedFirst, 1_700_000_000_000);
        let is_taken = |form: &WalletForm| {
            let is_app = form.fields.text("app_id").is_some_and(|app_id| AppId::parse(app_id).is_ok());
            is_app && WalletRequest::parse(form, &reading).is_ok()
        };
        if !is_taken(&form) {
            return Ok(());
        }
        for call in WalletCall::ALL {
            for values in splits(&string, &call.signed_fields().sorted) {
                let other = form_of(call, values.into_iter());
                let is_same = call == sent
                    && (call == WalletCall::Exchange || other.signed().all(|(name, value)| form.fields.text(name) == Some(value)));
                prop_assert!(is_same || !is_taken(&other), "{sent:?} reads as {call:?}: {string}");
            }
        }
    }
}

fn form_of<'a>(call: WalletCall, values: impl Iterator<Item = (&'a str, &'a str)>) -> WalletForm {
    let mut fields = Fields::default();
    for (name, value) in values {
        fields.add_text(name.to_owned(), value.to_owned()).unwrap();
    }
    WalletForm { call, fields }
}

/// Every way to read a string as fields with these names, which stand in this order.
fn splits<'a>(string: &'a str, names: &[&'a str]) -> Vec<Vec<(&'a str, &'a str)>> {
    let mut found = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let Some(rest) = string.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) else { continue };
        found.push(vec![(*name, rest)]);
        for (end, _) in rest.match_indices('&') {
            for more in splits(&rest[end + 1..], &names[place + 1..]) {
                found.push([vec![(*name, &rest[..end])], more].concat());
            }
        }
    }
    found
}

fn call_text() -> impl Strategy<Value = String> {
    let pieces = [
        "x",
        "&",
        "=",
        "&os=s",
        "&ts=1700000000",
        "&product_name=n",
        "&product_info=[]",
        "&product_desc=d",
        "&zone_id=z_r",
        "&open_id=evil&os=s",
        "&user_ip=192.0.2.1",
        "&pay_biz_no=p",
        "&else=1",
        "&close=1",
        "&extension=e",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 1..5)
        .prop_map(|pieces| format!("t{}", pieces.concat()))
}
