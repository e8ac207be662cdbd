//! A right signature that is written wrong (contract 3.7.2): the bytes are right, and the text is not 64 digits.

use std::cmp::Ordering;

use super::{Mistake, bare, of_base64};
use crate::strays::is_zero_width;

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
        return around_sign(text);
    }
    // Before the rest, because a prefix of zeros and a minus sign look like other mistakes.
    if is_big_integer(&bare, &bytes) {
        return Some(Mistake::BigInteger);
    }
    let digits: String =
        bare.replace("0x", "").replace("\\x", "").chars().filter(char::is_ascii_hexdigit).collect();
    if digits == right {
        return Some(match bare.split_once(right) {
            Some((_, "")) => Mistake::PrefixBeforeSign,
            Some(_) => Mistake::SeparatorAroundSign,
            None => Mistake::SeparatorsInSign,
        });
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
    if is_list_of(&bare, &bytes) {
        return Some(Mistake::BytesInList);
    }
    // Behind a prefix, as `v1,`, stands base64 too.
    let behind_prefix = text.split_once([',', ':', '=', ' ']).map(|(_, behind)| behind);
    if of_base64(text).chain(behind_prefix.into_iter().flat_map(of_base64)).any(|decoded| decoded == bytes) {
        return Some(Mistake::Base64);
    }
    let is_right = |text: Vec<u8>| {
        let is_base64 =
            std::str::from_utf8(&text).is_ok_and(|text| of_base64(text).any(|decoded| decoded == bytes));
        text.trim_ascii().eq_ignore_ascii_case(right.as_bytes()) || is_base64
    };
    (hex::decode(&digits).is_ok_and(is_right) || of_base64(text).any(is_right))
        .then_some(Mistake::EncodedTwice)
}

/// The text around the right digits. `None`: there is none.
fn around_sign(text: &str) -> Option<Mistake> {
    type Around = fn(char) -> bool;
    let mistakes: [(Around, Mistake); 3] = [
        (is_zero_width, Mistake::UnseenAroundSign),
        (|character| "&,;".contains(character), Mistake::SeparatorAroundSign),
        (|character| !character.is_ascii_hexdigit(), Mistake::StraysAroundSign),
    ];
    mistakes.into_iter().find(|(is_it, _)| text.chars().any(is_it)).map(|(_, mistake)| mistake)
}

/// Whether these digits are the bytes as a language prints an integer of any size. Java prints a minus sign. C# prints
/// a zero in front of a positive one, or the last byte first. In hexadecimal or decimal.
fn is_big_integer(text: &str, bytes: &[u8]) -> bool {
    let number = |bytes: &[u8]| hex::encode(bytes).trim_start_matches('0').to_owned();
    let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
    if let Some(digits) = text.strip_prefix('-') {
        return digits.trim_start_matches('0') == number(&negated(bytes))
            || [bytes, &reversed[..]].iter().any(|bytes| digits == decimal(&negated(bytes)));
    }
    let right = hex::encode(bytes);
    ["0", "00"].iter().any(|zeros| text.strip_prefix(*zeros) == Some(right.as_str()))
        || text.trim_start_matches('0') == number(&reversed)
        || [bytes, &reversed[..]].iter().any(|bytes| text == decimal(bytes))
}

/// The two's complement: from the last byte that is not zero, each one before it is inverted.
fn negated(bytes: &[u8]) -> Vec<u8> {
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    let negated = bytes.iter().enumerate().map(|(at, byte)| match at.cmp(&last) {
        Ordering::Less => !byte,
        Ordering::Equal => byte.wrapping_neg(),
        Ordering::Greater => 0,
    });
    negated.collect()
}

/// The number that these bytes are, the first of most weight, in decimal.
fn decimal(bytes: &[u8]) -> String {
    // The last digit comes first here.
    let mut digits = vec![0_u32];
    for byte in bytes {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            let value = *digit * 256 + carry;
            (*digit, carry) = (value % 10, value / 10);
        }
        while carry > 0 {
            digits.push(carry % 10);
            carry /= 10;
        }
    }
    digits.iter().rev().filter_map(|digit| char::from_digit(*digit, 10)).collect()
}

/// Whether a text is a list of these bytes in decimal, with their sign or without.
fn is_list_of(text: &str, bytes: &[u8]) -> bool {
    let list = text.rsplit('[').next().unwrap_or_default();
    let byte = |number: &str| {
        let number = number.parse::<i16>().ok()?;
        u8::try_from(number).ok().or_else(|| i8::try_from(number).ok().map(i8::cast_unsigned))
    };
    let numbers = list.split([',', ' ', ';', '\n']).filter(|number| !number.is_empty());
    numbers.map(byte).eq(bytes.iter().map(|byte| Some(*byte)))
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
            (format!("{RIGHT}&"), Mistake::SeparatorAroundSign),
            (format!(" {RIGHT},"), Mistake::SeparatorAroundSign),
            (format!("{RIGHT}#"), Mistake::SeparatorAroundSign),
            (format!("{RIGHT}. "), Mistake::SeparatorAroundSign),
            (format!("{RIGHT}="), Mistake::SeparatorAroundSign),
            (format!("{RIGHT}:"), Mistake::SeparatorAroundSign),
            (format!("{RIGHT}%").to_uppercase(), Mistake::SeparatorAroundSign),
            (format!("({RIGHT})"), Mistake::StraysAroundSign),
            (format!("{RIGHT}}}"), Mistake::StraysAroundSign),
            (format!("[{RIGHT}"), Mistake::StraysAroundSign),
            (format!("<{RIGHT}>"), Mistake::StraysAroundSign),
            (format!("\u{200b}{RIGHT}"), Mistake::UnseenAroundSign),
            (format!("{RIGHT}\u{feff}\n"), Mistake::UnseenAroundSign),
            (format!("0{RIGHT}"), Mistake::BigInteger),
            (format!("00{RIGHT}").to_uppercase(), Mistake::BigInteger),
            (format!("v1,{RIGHT}"), Mistake::PrefixBeforeSign),
            (format!("v1,{}", STANDARD_NO_PAD.encode(hex::decode(RIGHT).unwrap())), Mistake::Base64),
            (format!("sha256={}=", STANDARD_NO_PAD.encode(hex::decode(RIGHT).unwrap())), Mistake::Base64),
            (hex::encode(STANDARD_NO_PAD.encode(hex::decode(RIGHT).unwrap())), Mistake::EncodedTwice),
            (STANDARD_NO_PAD.encode(format!("{RIGHT}\n")), Mistake::EncodedTwice),
            (STANDARD_NO_PAD.encode(format!("{RIGHT}\r\n")), Mistake::EncodedTwice),
        ] {
            assert_eq!(miswritten(&text, RIGHT), Some(mistake), "{text}");
        }
        assert!(Mistake::StraysAroundSign.english().ends_with("or brackets"));
        for other in ["", "0", "-", "[1, 2]", "zz", &RIGHT[..15], &RIGHT.replace('a', "b"), &"00".repeat(32)]
        {
            assert_eq!(miswritten(other, RIGHT), None, "{other}");
        }
    }

    /// What Java, C#, Python and JavaScript print of the bytes, written out here.
    #[test]
    fn numbers_of_other_languages_are_named() {
        // Java: new BigInteger(mac).toString(16).
        let right = format!("ff00{}8000", "00".repeat(28));
        let printed = format!("-ff{}8000", "ff".repeat(28));
        assert_eq!(miswritten(&printed, &right), Some(Mistake::BigInteger));
        let right = format!("80{}01", "00".repeat(30));
        assert_eq!(miswritten(&format!("-7f{}", "ff".repeat(31)), &right), Some(Mistake::BigInteger));
        assert_eq!(miswritten(&format!("-7f{}", "fe".repeat(31)), &right), None);
        // Python: int(sign, 16). Java: new BigInteger(mac).toString().
        let digits = "5789604461865809771178549250434395392663499233282028201972879200395656481996";
        assert_eq!(miswritten(&format!("{digits}9"), &right), Some(Mistake::BigInteger));
        assert_eq!(miswritten(&format!("-{digits}7"), &right), Some(Mistake::BigInteger));
        assert_eq!(miswritten(&format!("{digits}8"), &right), None);
        // C#: its integers begin with the last byte.
        let reversed = format!("01{}80", "00".repeat(30));
        for printed in [&reversed, &reversed[1..]] {
            assert_eq!(miswritten(printed, &right), Some(Mistake::BigInteger), "{printed}");
        }
        let list = |first: &str, between: &str| format!("{first}{}1", format!("0{between}").repeat(30));
        for printed in [
            format!("[{}]", list("-128, ", ", ")),
            format!("[{}]", list("128,", ",")),
            list("-128 ", " "),
            format!(r#"{{"type":"Buffer","data":[{}]}}"#, list("128,", ",")),
        ] {
            assert_eq!(miswritten(&printed, &right), Some(Mistake::BytesInList), "{printed}");
        }
        assert_eq!(miswritten(&list("-129,", ","), &right), None);
    }
}
