//! The signature of a call (contract 3.2 and 3.7): what is signed and how it is checked. For one
//! that does not match it has the well-known mistake that explains it.

mod codings;
mod diagnosis;
mod mistake;
mod mistaken_strings;
mod miswritten;
mod other_rules;
mod product_info_texts;
mod signed_request;
mod tries;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

pub use diagnosis::{DiagnosisKeys, diagnose, first_difference};
pub use mistake::Mistake;
pub use signed_request::SignedRequest;

use crate::strays::without_strays;

/// A key that signs exchanges or requests to the judge of pictures. Its text is never shown.
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
    /// Never: HMAC accepts keys of every length.
    #[must_use]
    pub fn new(text: String) -> Self {
        let keyed = Hmac::new_from_slice(text.as_bytes()).expect("HMAC accepts keys of every length");
        Self { keyed, text }
    }

    /// Signs a canonical string: HMAC-SHA256 in lower-case hexadecimal.
    #[must_use]
    pub fn sign(&self, message: &str) -> String {
        let mut mac = self.keyed.clone();
        mac.update(message.as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }

    /// A key of bytes that need be no text.
    fn of_bytes(bytes: &[u8]) -> Self {
        let keyed = Hmac::new_from_slice(bytes).expect("HMAC accepts keys of every length");
        Self { keyed, text: String::new() }
    }

    /// This key with a text before and one after it.
    fn surrounded(&self, before: &str, after: &str) -> Self {
        Self::new([before, &self.text, after].concat())
    }

    /// Whether `sign` is this key's signature of `message`, in either case of hexadecimal;
    /// compared in constant time.
    #[must_use]
    pub fn verifies(&self, message: impl AsRef<[u8]>, sign: &Sign) -> bool {
        let mut mac = self.keyed.clone();
        mac.update(message.as_ref());
        // The same work for a text that can be no signature: no message is signed with zeros.
        mac.verify_slice(&sign.bytes.unwrap_or_default()).is_ok() && sign.bytes.is_some()
    }
}

/// A signature as it came: 64 hexadecimal digits, or something that matches no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sign {
    bytes: Option<[u8; 32]>,
    text: String,
}

impl Sign {
    /// Reads the `sign` field, decoded once from the form. One that was encoded twice is decoded again.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut bytes = [0; 32];
        if hex::decode_to_slice(text, &mut bytes).is_ok() {
            return Self { bytes: Some(bytes), text: text.to_owned() };
        }
        let decoded = percent_encoding::percent_decode_str(text).decode_utf8_lossy();
        let is_hex = hex::decode_to_slice(decoded.as_ref(), &mut bytes).is_ok();
        Self { bytes: is_hex.then_some(bytes), text: decoded.into_owned() }
    }
}

/// Base64 in either alphabet, with padding or without, in lines or not. A form decodes a plus sign to a space, so a
/// space at an end is read both ways.
fn of_base64(text: &str) -> impl Iterator<Item = Vec<u8>> {
    let text = text.replace(['\r', '\n'], "");
    let bare = bare(&text).to_owned();
    [text, bare].into_iter().filter_map(|text| {
        let text = text.trim_end_matches('=').replace([' ', '-'], "+").replace('_', "/");
        STANDARD_NO_PAD.decode(text).ok()
    })
}

/// A text without the stray and control characters around it.
fn bare(text: &str) -> &str {
    let shorter = without_strays(text.trim_matches(char::is_control));
    if shorter.len() == text.len() { text } else { bare(shorter) }
}

#[cfg(test)]
mod tests;
