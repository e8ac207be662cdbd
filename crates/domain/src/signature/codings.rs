//! Encodings of a string before it is signed, or in the form. They are percent-encoding in the ways of other
//! languages, and codings of characters that are not UTF-8.

use std::fmt::Write as _;

use encoding_rs::{BIG5, EUC_KR, Encoding, GB18030, GBK, SHIFT_JIS, WINDOWS_1252};

use super::tries::SignTries;
use super::{Mistake, PayKey};

/// Codings that servers in the east and the west have as their default.
const CODINGS: [(&Encoding, Mistake); 6] = [
    (GBK, Mistake::GbkBytes),
    (GB18030, Mistake::GbkBytes),
    (WINDOWS_1252, Mistake::OtherCoding),
    (BIG5, Mistake::OtherCoding),
    (SHIFT_JIS, Mistake::OtherCoding),
    (EUC_KR, Mistake::OtherCoding),
];

/// A string that this key signed in another coding.
pub(super) fn in_other_coding(correct: &str, key: &PayKey, tries: &SignTries<'_>) -> Option<Mistake> {
    let other = CODINGS.iter().filter(|_| !correct.is_ascii());
    let other = other.map(|(coding, mistake)| (coding.encode(correct).0.into_owned(), *mistake));
    let units = |order: fn(u16) -> [u8; 2]| correct.encode_utf16().flat_map(order).collect::<Vec<u8>>();
    let wide =
        [u16::to_le_bytes, u16::to_be_bytes].into_iter().map(|order| (units(order), Mistake::OtherCoding));
    other.chain(wide).find(|(bytes, _)| tries.fits(key, bytes)).map(|(_, mistake)| mistake)
}

/// A way to percent-encode: what it keeps beside letters and digits, whether a blank is a plus sign, and the case of
/// its digits.
pub(super) struct UrlCoding {
    kept: &'static str,
    is_plus: bool,
    is_lower: bool,
}

impl UrlCoding {
    const fn new(kept: &'static str, is_plus: bool, is_lower: bool) -> Self {
        Self { kept, is_plus, is_lower }
    }

    /// PHP's urlencode.
    pub(super) const PHP: Self = Self::new("-._", true, false);

    /// The most usual first.
    pub(super) const ALL: [Self; 11] = [
        // RFC 3986: PHP's rawurlencode, .NET's EscapeDataString.
        Self::new("-._~", false, false),
        // Forms: Java's URLEncoder, browsers.
        Self::new("*-._", true, false),
        // JavaScript's encodeURIComponent.
        Self::new("-._~!'()*", false, false),
        // .NET's HttpUtility and WebUtility.
        Self::new("-._!*()", true, true),
        Self::new("-._!*()", true, false),
        // Python's quote; its quote_plus, and Go's QueryEscape.
        Self::new("-._~/", false, false),
        Self::new("-._~", true, false),
        Self::PHP,
        Self::new("-._~", false, true),
        Self::new("*-._", true, true),
        // JavaScript's encodeURI.
        Self::new("-._~!'()*;,/?:@&=+$#", false, false),
    ];

    pub(super) fn encode(&self, text: &str) -> String {
        let mut encoded = String::with_capacity(text.len() * 2);
        for byte in text.bytes() {
            match byte {
                b' ' if self.is_plus => encoded.push('+'),
                kept if kept.is_ascii_alphanumeric() || self.kept.as_bytes().contains(&kept) => {
                    encoded.push(char::from(kept));
                }
                // Writing to a string cannot fail.
                other if self.is_lower => drop(write!(encoded, "%{other:02x}")),
                other => drop(write!(encoded, "%{other:02X}")),
            }
        }
        encoded
    }
}

/// JavaScript's `escape`.
pub(super) fn escape(text: &str) -> String {
    let escaped = |unit: u16| match u8::try_from(unit) {
        Ok(kept) if kept.is_ascii_alphanumeric() || b"@*_+-./".contains(&kept) => {
            char::from(kept).to_string()
        }
        Ok(byte) => format!("%{byte:02X}"),
        Err(_) => format!("%u{unit:04X}"),
    };
    text.encode_utf16().map(escaped).collect()
}

/// The text that [`escape`] was given.
pub(super) fn unescape(text: &str) -> String {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let digits = |from: usize, to: usize| {
            rest.get(from..to).and_then(|digits| u16::from_str_radix(digits, 16).ok())
        };
        let (unit, length) = match (first, digits(1, 3), digits(2, 6)) {
            ('%', _, Some(unit)) if rest[1..].starts_with('u') => (Some(unit), 6),
            ('%', Some(unit), _) => (Some(unit), 3),
            _ => (None, first.len_utf8()),
        };
        match unit {
            Some(unit) => units.push(unit),
            None => units.extend(first.encode_utf16(&mut [0; 2]).iter()),
        }
        rest = &rest[length..];
    }
    String::from_utf16_lossy(&units)
}

/// The text that a percent-encoding was given; itself, where that is none in UTF-8.
pub(super) fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8()
        .map_or_else(|_| text.to_owned(), std::borrow::Cow::into_owned)
}
