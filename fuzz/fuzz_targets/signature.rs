//! The string to sign and its signature: never a panic; the order of the fields does not matter, and
//! the signature of one string fits no other.

#![no_main]

use libfuzzer_sys::fuzz_target;
use minitill::domain::fields::Fields;
use minitill::domain::signature::{PayKey, Sign, exchange_string, is_ambiguous};

fuzz_target!(|data: &[u8]| {
    let Ok(fields) = Fields::from_urlencoded(data) else { return };
    let string = exchange_string(&fields);
    let _ = is_ambiguous(&string);
    let mut reversed = Fields::default();
    for (name, value) in fields.texts().collect::<Vec<_>>().into_iter().rev() {
        reversed.add_text(name.to_owned(), value.to_owned()).expect("it was read before");
    }
    assert_eq!(exchange_string(&reversed), string);
    let key = PayKey::new("key".to_owned());
    let sign = Sign::new(&key.sign(&string));
    assert!(key.verifies(&string, &sign) && !key.verifies(&format!("{string}x"), &sign));
    let theirs = Sign::new(fields.text("sign").unwrap_or_default());
    let _ = key.verifies(&string, &theirs);
});
