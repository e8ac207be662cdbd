//! The string to sign and its signature. It holds each signed field that is not empty, once, in the order of the names,
//! and nothing else. Where no value holds `&` or `=` it reads back as the fields. The order in which they came does not
//! matter. The signature of one string fits no other.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use domain::fields::Fields;
use domain::signature::{PayKey, Sign};
use domain::wallet::{WalletCall, WalletForm, is_ambiguous, string_to_sign};

fuzz_target!(|data: &[u8]| {
    let Ok(fields) = Fields::from_urlencoded(data) else { return };
    for call in WalletCall::ALL {
        holds(WalletForm { call, fields: fields.clone() });
    }
});

fn holds(form: WalletForm) {
    let string = string_to_sign(&form);
    let WalletForm { call, fields } = form;
    let signed: BTreeMap<&str, &str> =
        fields.texts().filter(|(name, value)| call.signs(name) && !value.is_empty()).collect();
    let joined: Vec<String> = signed.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(string, joined.join("&"));
    if signed.values().all(|value| !value.contains(['&', '='])) {
        let read: BTreeMap<&str, &str> = string.split('&').filter_map(|pair| pair.split_once('=')).collect();
        assert_eq!(read, signed);
        assert!(!is_ambiguous(&string));
    }

    let mut reversed = Fields::default();
    for (name, value) in fields.texts().collect::<Vec<_>>().into_iter().rev() {
        reversed.add_text(name.to_owned(), value.to_owned()).expect("it was read before");
    }
    assert_eq!(string_to_sign(&WalletForm { call, fields: reversed }), string);

    let key = PayKey::new("key".to_owned());
    let sign = Sign::new(&key.sign(&string));
    assert!(key.verifies(&string, &sign) && !key.verifies(&format!("{string}x"), &sign));
    assert!(!PayKey::new("other".to_owned()).verifies(&string, &sign));
    let theirs = Sign::new(fields.text("sign").unwrap_or_default());
    let _ = key.verifies(&string, &theirs);
}
