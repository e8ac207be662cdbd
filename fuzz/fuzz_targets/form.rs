//! Form decoding: never a panic, and what was read reads the same when it is encoded again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use domain::fields::Fields;

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fuzz_target!(|data: &[u8]| {
    let Ok(fields) = Fields::from_urlencoded(data) else { return };
    let pairs: Vec<_> =
        fields.texts().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    assert_eq!(Fields::from_urlencoded(pairs.join("&").as_bytes()), Ok(fields));
});
