//! The kinds of mistakes that people make, each in the forms that languages and tools give it (contract 3.7.2). What is
//! signed is written out here, so that it is an oracle of its own.

use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::signature::diagnosis::search;
use crate::signature::tries::{SignTries, TRIES_MAX};

const SECRET: &str = "secret";

fn mac<M: Mac + KeyInit>(key: &str, message: impl AsRef<[u8]>) -> Vec<u8> {
    <M as KeyInit>::new_from_slice(key.as_bytes())
        .unwrap()
        .chain_update(message)
        .finalize()
        .into_bytes()
        .to_vec()
}

fn sha256(message: impl AsRef<[u8]>) -> Vec<u8> {
    mac::<Hmac<Sha256>>(KEY, message)
}

/// What is said of this sign, and how many tries it took. A rotation is under way: the key is the former of two.
fn said(form: &WalletForm, sign: &str) -> (Option<Mistake>, usize) {
    let live = ["newer", KEY].map(|key| LiveKey::from(PayKey::new(key.to_owned())));
    let secrets = [LiveKey::from(Secret::new(SECRET.to_owned()))];
    let keys = DiagnosisKeys { live: &live, retired: &[], app_secrets: &secrets };
    let sign = Sign::new(sign);
    let tries = SignTries::new(&sign);
    (search(form, &keys, &tries), tries.made())
}

fn of_body(body: &str) -> WalletForm {
    exchange(Fields::from_urlencoded(body.as_bytes()).unwrap())
}

/// A form with this name and these items, and its string.
fn sent(name: &str, items: &str) -> (WalletForm, String) {
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let body = format!(
        "access_token=t&open_id=o1&app_id=a1&amount=5&biz_no=b1&product_name={}&product_info={}&sign=x",
        encode(name),
        encode(items)
    );
    let string = format!("amount=5&app_id=a1&biz_no=b1&open_id=o1&product_info={items}&product_name={name}");
    let form = of_body(&body);
    assert_eq!(string_to_sign(&form), string);
    (form, string)
}

fn assert_said(form: &WalletForm, sign: &str, mistake: Mistake, what: &str) {
    assert_eq!(said(form, sign).0, Some(mistake), "{what:?}");
}

#[test]
fn base64_of_each_hash_is_named_with_strays_around_it() {
    let (form, correct) = sent("剑", "[{}]");
    let right = STANDARD.encode(sha256(&correct));
    for text in [
        format!("{right}\n"),
        format!("{right}\r\n"),
        format!(" {right}\n"),
        format!("\"{right}\""),
        format!("{}\n{}\n", &right[..20], &right[20..]),
        right.replace('+', " "),
    ] {
        assert_said(&form, &text, Mistake::Base64, &text);
    }
    for (bytes, mistake) in [
        (mac::<Hmac<sha1::Sha1>>(KEY, &correct), Mistake::AnotherHash),
        (mac::<Hmac<Md5>>(KEY, &correct), Mistake::AnotherHash),
        (mac::<Hmac<sha2::Sha512>>(KEY, &correct), Mistake::AnotherHash),
        (Md5::digest(&correct).to_vec(), Mistake::AnotherHash),
        (Md5::digest(format!("{correct}{KEY}")).to_vec(), Mistake::KeyInText),
        (Md5::digest(format!("{correct}{SECRET}")).to_vec(), Mistake::Md5WithAppSecret),
    ] {
        assert_said(&form, &STANDARD.encode(&bytes), mistake, "base64");
        assert_said(&form, &format!("{}\n", STANDARD.encode(&bytes)), mistake, "base64 and a line end");
        assert_said(&form, &hex::encode(&bytes).to_uppercase(), mistake, "hex");
    }
    assert_said(&form, &format!("{}\u{1a}", hex::encode(sha256(&correct))), Mistake::StraysAroundSign, "^Z");
}

#[test]
fn strays_around_the_key_and_the_string_are_named() {
    let (form, correct) = sent("剑", "[{}]");
    for key in [
        " k ",
        "\nk",
        "k\r",
        "k\n\n",
        "\u{a0}k",
        "k\u{a0}",
        "\u{200b}k",
        "k\u{200b}",
        "\u{feff}k",
        "k\u{feff}",
        "\"k\"",
        "'k'",
        "\u{201c}k\u{201d}",
        "\u{feff}k\r\n",
        "k\0",
        "\tk\t",
        "<k>",
    ] {
        let sign = hex::encode(mac::<Hmac<Sha256>>(&key.replace('k', KEY), &correct));
        assert_said(&form, &sign, Mistake::KeyWithStrays, key);
    }
    for (before, after) in
        [("", "\n"), ("", "\r\n"), ("\u{feff}", ""), ("\u{feff}", "\n"), ("", " "), ("\"", "\"")]
    {
        let sign = hex::encode(sha256(format!("{before}{correct}{after}")));
        assert_said(&form, &sign, Mistake::StraysAroundString, &format!("{before}{after}"));
    }
}

/// Each row: the name that came, and the string as it was signed.
#[test]
fn values_that_were_encoded_or_changed_are_named() {
    let base = |name: &str| sent(name, "[{}]").1;
    let encoded = |items: &str, name: &str| base(name).replace("[{}]", items);
    let name = "it's (剑)/two ~words";
    for (came, signed, mistake) in [
        // .NET, JavaScript, Python.
        (name, encoded("%5b%7b%7d%5d", "it%27s+(%e5%89%91)%2ftwo+%7ewords"), Mistake::ValuesEncoded),
        (name, encoded("%5B%7B%7D%5D", "it's%20(%E5%89%91)%2Ftwo%20~words"), Mistake::ValuesEncoded),
        (name, encoded("%5B%7B%7D%5D", "it%27s%20%28%E5%89%91%29/two%20~words"), Mistake::ValuesEncoded),
        (name, encoded("%5B%7B%7D%5D", "it%27s%20%28%u5251%29/two%20%7Ewords"), Mistake::ValuesEncoded),
        ("剑", encoded("%255B%257B%257D%255D", "%25E5%2589%2591"), Mistake::ValuesEncoded),
        (
            "剑",
            "amount%3D5%26app_id%3Da1%26biz_no%3Db1%26open_id%3Do1%26product_info%3D%5B%7B%7D%5D%26product_name%3D%E5%89%91"
                .to_owned(),
            Mistake::ValuesEncoded,
        ),
        // The body.
        ("%E5%89%91", base("剑"), Mistake::BodyEncodedTwice),
        ("%E5%89%91+a", base("剑 a"), Mistake::BodyEncodedTwice),
        ("%u5251", base("剑"), Mistake::BodyEscaped),
        ("ab /c==", base("ab+/c=="), Mistake::PlusNotEscaped),
        // Characters.
        ("it's", base("it&#39;s"), Mistake::CharactersLost),
        ("it's", base("it&#x27;s"), Mistake::CharactersLost),
        ("it's", base("it&#039;s"), Mistake::CharactersLost),
        ("it's", base("it\\'s"), Mistake::CharactersLost),
        ("a\r\nb", base("a\nb"), Mistake::CharactersLost),
        ("a\nb", base("a\r\nb"), Mistake::CharactersLost),
        ("é", base("Ã©"), Mistake::CharactersLost),
        // JSON of Python and PHP, of .NET, and of Go.
        ("币<", base("\\u5e01<"), Mistake::CharactersLost),
        ("币<", base("\\u5E01<"), Mistake::CharactersLost),
        ("币<&>", base("币\\u003c\\u0026\\u003e"), Mistake::CharactersLost),
    ] {
        let (form, _) = sent(came, "[{}]");
        assert_said(&form, &hex::encode(sha256(&signed)), mistake, &signed);
    }
}

#[test]
fn other_codings_of_the_string_are_named() {
    let (form, correct) = sent("é", "[{}]");
    let latin: Vec<u8> = correct.chars().map(|letter| u8::try_from(u32::from(letter)).unwrap()).collect();
    let wide: Vec<u8> = correct.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for bytes in [latin, wide] {
        assert_said(&form, &hex::encode(sha256(bytes)), Mistake::OtherCoding, "é");
    }
}

#[test]
fn items_in_the_forms_of_libraries_are_named() {
    let items = r#"[{"product_id":1,"name":"it's <剑>"}]"#;
    let (form, correct) = sent("n", items);
    for other in [
        "[\n  {\n    \"product_id\": 1,\n    \"name\": \"it's <剑>\"\n  }\n]",
        "[\n    {\n        \"product_id\": 1,\n        \"name\": \"it's <剑>\"\n    }\n]",
        "[\n\t{\n\t\t\"product_id\": 1,\n\t\t\"name\": \"it's <剑>\"\n\t}\n]",
        r#"[{"product_id":1,"name":"it\u0027s \u003c剑\u003e"}]"#,
        r#"[{"product_id":1,"name":"it's \u003c剑\u003e"}]"#,
        r#"[{"product_id":1,"name":"it\u0027s \u003C\u5251\u003E"}]"#,
        r#"[{\"product_id\":1,\"name\":\"it's <剑>\"}]"#,
        r#""[{\"product_id\":1,\"name\":\"it's <剑>\"}]""#,
        r#"[{"product_id":"1","name":"it's <剑>"}]"#,
        r#"[{"product_id":1.0,"name":"it's <剑>"}]"#,
        r#"[{"product_id":1,"product_num":null,"product_type":null,"product_start_time":null,"product_period":null,"name":"it's <剑>"}]"#,
        "[{\"product_id\":1,\"name\":\"it's <剑>\"}]\n",
    ] {
        let sign = hex::encode(sha256(correct.replace(items, other)));
        assert_said(&form, &sign, Mistake::ProductInfoReserialised, other);
    }
}

#[test]
fn other_joins_and_keys_in_the_text_are_named() {
    let (form, correct) = sent("n", "[{}]");
    let joined = |separator: &str| correct.replace('&', separator);
    let reversed: Vec<&str> = correct.rsplit('&').collect();
    for (signed, mistake) in [
        (joined(","), Mistake::AnotherJoin),
        (joined(";"), Mistake::AnotherJoin),
        (joined("|"), Mistake::AnotherJoin),
        (joined("\n"), Mistake::AnotherJoin),
        (correct.replace('=', ":"), Mistake::AnotherJoin),
        (joined(",").replace('=', ":"), Mistake::AnotherJoin),
        (reversed.join("&"), Mistake::NotSorted),
        (
            "access_token=t&open_id=o1&app_id=a1&amount=5&biz_no=b1&product_name=n&product_info=[{}]"
                .to_owned(),
            Mistake::NotSorted,
        ),
        (correct.replace("&open_id", &format!("&key={KEY}&open_id")), Mistake::KeyInText),
        (format!("{correct}&secretKey={KEY}"), Mistake::KeyInText),
        (format!("{correct}&appSecret={KEY}"), Mistake::KeyInText),
        (format!("{correct}&secret_key={KEY}"), Mistake::KeyInText),
        (format!("{correct}&payKey={KEY}"), Mistake::KeyInText),
        (
            "amount=5&appId=a1&bizNo=b1&openId=o1&productInfo=[{}]&productName=n".to_owned(),
            Mistake::CamelCaseNames,
        ),
        (correct.replace("&open_id", "&extension=null&open_id"), Mistake::NullSigned),
        (correct.replace("&open_id", "&extension=None&open_id"), Mistake::NullSigned),
    ] {
        assert_said(&form, &hex::encode(sha256(&signed)), mistake, &signed);
    }
    let upper = hex::encode(Md5::digest(format!("{correct}&secretKey={KEY}"))).to_uppercase();
    assert_said(&form, &upper, Mistake::KeyInText, "MD5");
}

/// Contract 3.7.2: the path, the body as it is sent, and an object of JSON.
#[test]
fn a_path_and_a_body_that_were_signed_are_named() {
    let body = "access_token=t&open_id=o1&amount=5&extension=&product_name=a+b&product_info=%5B%5D";
    let form = of_body(&format!("{body}&sign=x"));
    let (path, correct) = ("/api/kpay/minigame/pay", "amount=5&open_id=o1&product_info=[]&product_name=a b");
    assert_eq!(string_to_sign(&form), correct);
    let encoded = "amount%3D5%26open_id%3Do1%26product_info%3D%5B%5D%26product_name%3Da%20b";
    for (signed, mistake) in [
        (format!("{path}&{correct}"), Mistake::PathIncluded),
        (format!("{path}?{correct}"), Mistake::PathIncluded),
        (format!("{path}{correct}"), Mistake::PathIncluded),
        (format!("POST&{path}&{correct}"), Mistake::PathIncluded),
        (format!("POST&%2Fapi%2Fkpay%2Fminigame%2Fpay&{encoded}"), Mistake::PathIncluded),
        (format!("POST\n{path}\n{correct}"), Mistake::PathIncluded),
        (format!("{path}&{body}"), Mistake::PathIncluded),
        (format!("{path}&{}", body.replace('+', "%20")), Mistake::PathIncluded),
        (body.to_owned(), Mistake::BodySigned),
        (body.replace('+', "%20"), Mistake::BodySigned),
        ("open_id=o1&amount=5&product_name=a+b&product_info=%5B%5D".to_owned(), Mistake::BodySigned),
        (
            r#"{"open_id":"o1","amount":"5","product_name":"a b","product_info":"[]"}"#.to_owned(),
            Mistake::AnotherJoin,
        ),
        (
            r#"{"amount": "5", "open_id": "o1", "product_info": "[]", "product_name": "a b"}"#.to_owned(),
            Mistake::AnotherJoin,
        ),
    ] {
        assert_said(&form, &hex::encode(sha256(&signed)), mistake, &signed);
    }
    let form = WalletForm { call: WalletCall::Query, ..of_body("app_id=a1&biz_no=b1") };
    let signed = "/api/kpay/minigame/query&app_id=a1&biz_no=b1";
    assert_said(&form, &hex::encode(sha256(signed)), Mistake::PathIncluded, signed);
}

#[test]
fn a_field_that_was_not_signed_is_named() {
    let values = "zone_id=z_r&os=ios&ts=1700000000000&user_ip=1.2.3.4&pay_priority=1&product_desc=d&extension=e&pay_biz_no=p\
                  &close=1&product_id=i";
    let body = format!("open_id=o1&app_id=a1&amount=5&biz_no=b1&product_name=n&product_info=[]&{values}");
    let mut named = BTreeSet::new();
    for call in WalletCall::ALL {
        let form = WalletForm { call, fields: Fields::from_urlencoded(body.as_bytes()).unwrap() };
        let correct = string_to_sign(&form);
        for pair in correct.split('&') {
            let rest: Vec<&str> = correct.split('&').filter(|other| *other != pair).collect();
            let (name, _) = pair.split_once('=').unwrap();
            let expected = format!("{name} was not signed; sign every field that is not empty");
            let sign = hex::encode(sha256(rest.join("&")));
            let mistake = said(&form, &sign).0.unwrap();
            assert_eq!(*mistake.english(), *expected, "{call:?}");
            named.insert(name.to_owned());
        }
    }
    assert_eq!(named.len(), 16, "{named:?}");
}

#[test]
fn a_field_under_another_name_is_named() {
    let string = "amount=5&app_id=a1&biz_no=b1&open_id=o1&product_info=[]&product_name=n&user_ip=1";
    for (field, other) in [
        ("open_id", "openId"),
        ("user_ip", "userIp"),
        ("biz_no", "BIZ_NO"),
        ("amount", "Amount"),
        ("open_id", "openid"),
    ] {
        let body = string.replace(&format!("{field}="), &format!("{other}="));
        let form = of_body(&format!("{body}&access_token=t"));
        let expected = format!("a field came under another name; it is called {field}");
        for signed in [canonical(&body), string.to_owned()] {
            let mistake = said(&form, &hex::encode(sha256(&signed))).0.unwrap();
            assert_eq!(*mistake.english(), *expected, "{signed}");
        }
        // Beside the right name it is one field too many.
        let form = of_body(&format!("{string}&{other}=7&access_token=t"));
        let signed = canonical(&format!("{string}&{other}=7"));
        assert_said(&form, &hex::encode(sha256(&signed)), Mistake::UnlistedFieldsSigned, &signed);
    }
}

#[test]
fn an_ampersand_in_a_value_is_named() {
    for name in ["Sword & Shield", "a&b=c", "a&b&c=", "a&b="] {
        let body = format!("access_token=t&open_id=o1&amount=5&product_name={name}&product_info=[]&sign=x");
        let form = of_body(&body.replace(' ', "+"));
        let signed = format!("amount=5&open_id=o1&product_info=[]&product_name={name}");
        assert_ne!(string_to_sign(&form), signed);
        // Of two names, each with an equals sign or not, one form is tried.
        let is_tried = name != "a&b&c=";
        let expected = is_tried.then_some(Mistake::AmpersandNotEscaped);
        assert_eq!(said(&form, &hex::encode(sha256(&signed))).0, expected, "{name}");
    }
}

/// Contract 3.7.2: the token, empty fields, a default and separators of a page in the string.
#[test]
fn fields_too_many_and_separators_of_a_page_are_named() {
    let form = of_body(
        "access_token=t&open_id=o1&app_id=a1&amount=5&extension=&product_name=a+b&product_info=[{\"a\":1}]&sign=x",
    );
    let correct = "amount=5&app_id=a1&open_id=o1&product_info=[{\"a\":1}]&product_name=a b";
    assert_eq!(string_to_sign(&form), correct);
    let empty = correct.replace("&open_id", "&extension=&open_id");
    for (signed, mistake) in [
        (correct.replace('&', "&amp;"), Mistake::AnotherJoin),
        (
            "amount=5&amp;app_id=a1&amp;open_id=o1&amp;product_info=%5B%7B%22a%22%3A1%7D%5D&amp;product_name=a+b"
                .to_owned(),
            Mistake::AnotherJoin,
        ),
        (format!("{correct}&access_token=t"), Mistake::AccessTokenIncluded),
        (format!("access_token=t&{empty}"), Mistake::TokenAndEmptyFields),
        (
            "access_token=t&amount=5&app_id=a1&biz_no=&extension=&open_id=o1&os=&pay_priority=&product_desc=\
             &product_info=[{\"a\":1}]&product_name=a b&ts=&user_ip=&zone_id="
                .to_owned(),
            Mistake::TokenAndEmptyFields,
        ),
        (correct.replace("&product_info", "&pay_priority=0&product_info"), Mistake::PriorityNotSent),
        (correct.replace("&product_info", "&pay_priority=1&product_info"), Mistake::PriorityNotSent),
        (correct.replace("[{\"a\":1}]", "%5B%7B%22a%22%3A1%7D%5D"), Mistake::ValuesEncoded),
        (correct.replace("a b", "a%20b"), Mistake::ValuesEncoded),
        (correct.replace("a b", "a+b"), Mistake::PlusNotEscaped),
        // The orders of the table and of the request have tests of their own.
        (
            "product_name=a b&product_info=[{\"a\":1}]&open_id=o1&app_id=a1&amount=5".to_owned(),
            Mistake::NotSorted,
        ),
    ] {
        assert_said(&form, &hex::encode(sha256(&signed)), mistake, &signed);
    }
    let (form, correct) = sent("it's", r#"[{"a":"<b>"}]"#);
    for items in ["[{&quot;a&quot;:&quot;&lt;b&gt;&quot;}]", "[{&#34;a&#34;:&#34;&lt;b&gt;&#34;}]"] {
        let signed = correct.replace(r#"[{"a":"<b>"}]"#, items);
        assert_said(&form, &hex::encode(sha256(&signed)), Mistake::CharactersLost, &signed);
    }
}

/// Contract 3.7.2: what languages print of a list that is no JSON.
#[test]
fn items_that_were_printed_are_named() {
    let items = r#"[{"product_id":1,"name":"it's"},{"product_id":2,"name":null}]"#;
    let (form, correct) = sent("n", items);
    for other in [
        "[{product_id=1, name=it's}, {product_id=2, name=null}]",
        r#"[{'product_id': 1, 'name': "it's"}, {'product_id': 2, 'name': None}]"#,
        r#"[{"product_id"=>1, "name"=>"it's"}, {"product_id"=>2, "name"=>nil}]"#,
        "[map[name:it's product_id:1] map[name:<nil> product_id:2]]",
        "[object Object],[object Object]",
        "Array",
        // Gson and others leave out what is null.
        r#"[{"product_id":1,"name":"it's"},{"product_id":2}]"#,
        r#"[{"product_id": 1, "name": "it's"}, {"product_id": 2}]"#,
    ] {
        let sign = hex::encode(sha256(correct.replace(items, other)));
        assert_said(&form, &sign, Mistake::ProductInfoReserialised, other);
    }
}

/// Contract 3.7.2: the bytes of the key that are not those of its text.
#[test]
fn a_key_that_was_changed_is_named() {
    let (form, correct) = sent("n", "[{}]");
    let signed = |key: &[u8]| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.update(correct.as_bytes());
        hex::encode(mac.finalize().into_bytes())
    };
    for key in [
        STANDARD.decode(KEY).unwrap(),
        hex::encode(Md5::digest(KEY)).into_bytes(),
        hex::encode_upper(Md5::digest(KEY)).into_bytes(),
        Md5::digest(KEY).to_vec(),
        hex::encode(Sha256::digest(KEY)).into_bytes(),
        STANDARD.encode(KEY).into_bytes(),
        hex::encode(KEY).into_bytes(),
        KEY.to_lowercase().into_bytes(),
    ] {
        assert_said(&form, &signed(&key), Mistake::KeyChanged, &hex::encode(&key));
    }
    // A key of hexadecimal digits.
    let live = [LiveKey::from(PayKey::new("00ff".repeat(8)))];
    let keys = DiagnosisKeys { live: &live, retired: &[], app_secrets: &[] };
    let sign = Sign::new(&signed(&[0, 255].repeat(8)));
    assert_eq!(diagnose(&form, &keys, &sign), Some(Mistake::KeyChanged));
}

/// Contract 3.7.2: a text in place of a signature.
#[test]
fn a_placeholder_is_named() {
    let (form, _) = sent("n", "[{}]");
    for (sign, mistake) in [
        ("{sign}", Mistake::Placeholder),
        ("undefined", Mistake::Placeholder),
        ("{5d41402abc4b2a76b9719d911017c592}", Mistake::NoDigest),
    ] {
        assert_said(&form, sign, mistake, sign);
    }
}

/// A right signature of other content is explained by nothing but its form, and the work is bounded whatever comes.
#[test]
fn other_content_gets_no_mistake_and_the_tries_are_bounded() {
    // All kinds have their turn for this form, which all of them change.
    let (usual, _) = sent("两 it's <剑>/%41+a\r\n&", r#"[{"b":1,"a":"it's 剑/<a>"}]"#);
    let (_, other) = sent("other", "[{}]");
    let more: Vec<_> = (0..120).map(|at| format!("&f{at}=%2B+%25E5&openId{at}=")).collect();
    let more = more.concat();
    let many = of_body(&format!(
        "open_id=%25E5+1&zone_id=+%25u5251&os=%C3%A9'&ts=1&user_ip=+&amount=+5&biz_no=%3C&product_name=a+%25+b&product_info=%5B%5D\
         &product_desc=+'{more}"
    ));
    for (form, tries_most) in [(&usual, TRIES_MAX - 1), (&many, TRIES_MAX)] {
        let right = sha256(&other);
        for sign in [
            hex::encode(&right),
            STANDARD.encode(&right),
            hex::encode(&right[..20]),
            hex::encode(&right[..16]),
            String::new(),
            "x".repeat(8000),
        ] {
            let (mistake, tries) = said(form, &sign);
            let has_form = sign == hex::encode(&right);
            assert_eq!(mistake, (!has_form).then_some(Mistake::NoDigest), "{sign}");
            assert!(tries <= tries_most, "{tries}");
        }
    }
    // Keys that rotations have retired count too.
    let (sign, retired) =
        (Sign::new(&hex::encode(sha256(&other))), vec![PayKey::new("old".to_owned()); 2000]);
    let tries = SignTries::new(&sign);
    let keys = DiagnosisKeys { live: &[], retired: &retired, app_secrets: &[] };
    assert_eq!((search(&usual, &keys, &tries), tries.made()), (None, TRIES_MAX));
}
