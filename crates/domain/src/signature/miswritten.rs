//! A right signature that is written wrong (contract 3.7.2): the bytes are right, and the text is not 64 digits.

use super::{Mistake, bare, of_base64};

/// The longest text before the digits that is a prefix: `HMAC-SHA256 Signature=`.
const PREFIX_BYTES_MAX: usize = 32;
/// The fewest digits that are a part of a signature, and no chance.
const PART_DIGITS_MIN: usize = 16;

/// The mistake in writing it, where `text` is a text of the signature that `right` is in hexadecimal.
pub(super) fn miswritten(text: &str, right: &str) -> Option<Mistake> {
    let bytes = hex::decode(right).ok()?;
    let short = || bytes.iter().map(|byte| format!("{byte:x}")).collect::<Vec<_>>().concat();
    let bare = bare(text).to_ascii_lowercase();
    if bare == right {
        return (bare.len() < text.len()).then_some(Mistake::StraysAroundSign);
    }
    let digits: String =
        bare.replace("0x", "").replace("\\x", "").chars().filter(char::is_ascii_hexdigit).collect();
    if digits == right {
        let is_prefix = bare.strip_suffix(right).is_some();
        return Some(if is_prefix { Mistake::PrefixBeforeSign } else { Mistake::SeparatorsInSign });
    }
    if bare.strip_suffix(right).is_some_and(|prefix| prefix.len() <= PREFIX_BYTES_MAX) {
        return Some(Mistake::PrefixBeforeSign);
    }
    // Behind 0x, or as it is: a number has no leading zeros, and neither has each byte.
    if digits.trim_start_matches('0') == right.trim_start_matches('0') || digits == short() {
        return Some(Mistake::ZerosMissing);
    }
    if [1, 2].iter().any(|width| digits == with_sign(&bytes, *width)) {
        return Some(Mistake::BytesWithSign);
    }
    if digits.len() >= PART_DIGITS_MIN && right.contains(&digits) {
        return Some(Mistake::PartOfSign);
    }
    if of_base64(text).any(|decoded| decoded == bytes) {
        return Some(Mistake::Base64);
    }
    let is_right = |text: Vec<u8>| text.eq_ignore_ascii_case(right.as_bytes());
    (hex::decode(&digits).is_ok_and(is_right) || of_base64(text).any(is_right))
        .then_some(Mistake::EncodedTwice)
}

/// Bytes as a language prints integers of 32 bits that have their sign, each with this many digits or more.
fn with_sign(bytes: &[u8], digits: usize) -> String {
    let word = |byte: &u8| format!("{:0digits$x}", i32::from(byte.cast_signed()));
    bytes.iter().map(word).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD;

    use super::*;

    const RIGHT: &str = "0a0bff7f9b2d71e4c05fa8360a0bff7f9b2d71e4c05fa8360a0bff7f9b2d7100";

    #[test]
    fn each_way_to_write_it_wrong_is_named() {
        let dashed = |separator: &str| {
            let pairs: Vec<&str> = (0..32).map(|at| &RIGHT[2 * at..2 * at + 2]).collect();
            pairs.join(separator)
        };
        let base64 = STANDARD_NO_PAD.encode(RIGHT);
        for (text, mistake) in [
            (RIGHT[1..].to_owned(), Mistake::ZerosMissing),
            (RIGHT.replace("0a0b", "ab").replace("00", "0"), Mistake::ZerosMissing),
            (dashed("-").to_uppercase(), Mistake::SeparatorsInSign),
            (dashed(":"), Mistake::SeparatorsInSign),
            (dashed(" "), Mistake::SeparatorsInSign),
            (format!("0x{}", dashed(", 0x")), Mistake::SeparatorsInSign),
            (format!("0x{RIGHT}"), Mistake::PrefixBeforeSign),
            (format!("0X{RIGHT}").to_uppercase(), Mistake::PrefixBeforeSign),
            (format!("sha256={RIGHT}"), Mistake::PrefixBeforeSign),
            (format!("HMAC-SHA256 {RIGHT}"), Mistake::PrefixBeforeSign),
            (format!("{RIGHT}\n"), Mistake::StraysAroundSign),
            (format!(" {RIGHT}"), Mistake::StraysAroundSign),
            (format!("\"{RIGHT}\""), Mistake::StraysAroundSign),
            (format!("{RIGHT}\u{1a}"), Mistake::StraysAroundSign),
            (RIGHT[..32].to_owned(), Mistake::PartOfSign),
            (RIGHT[32..].to_owned(), Mistake::PartOfSign),
            (RIGHT[16..32].to_uppercase(), Mistake::PartOfSign),
            (base64.clone(), Mistake::EncodedTwice),
            (format!("{}\n{}==", &base64[..76], &base64[76..]), Mistake::EncodedTwice),
            (hex::encode(RIGHT), Mistake::EncodedTwice),
            (with_sign(&hex::decode(RIGHT).unwrap(), 2), Mistake::BytesWithSign),
        ] {
            assert_eq!(miswritten(&text, RIGHT), Some(mistake), "{text}");
        }
        for other in ["", "0", "zz", &RIGHT[..15], &RIGHT.replace('a', "b"), &"00".repeat(32)] {
            assert_eq!(miswritten(other, RIGHT), None, "{other}");
        }
    }
}
