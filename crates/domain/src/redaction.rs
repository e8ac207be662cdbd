//! Redaction: what looks like a credential is not repeated, wherever it was put (contract 2.8.5).

use std::borrow::Cow;

/// How many characters of a credential are shown: enough to find it in the own files.
const SHOWN_CHARS: usize = 4;
/// A run of this many hexadecimal digits may be a token, a signature or a login code. All have 64, and the cut of a long
/// value leaves less. The id of a picture has 48.
const HEX_DIGITS_MIN: usize = 56;
/// Length of the keys that Minitill makes.
const KEY_CHARS: usize = 32;
/// Letters and digits that an escape leaves around a key, such as `u0022` for a quote.
const ESCAPES_CHARS_MAX: usize = 10;
/// Beginnings of credentials that say what they are.
const PREFIXES: [&str; 2] = ["mtk_", "whsec_"];
/// A text that people type has few different characters. A random one has many.
const DIFFERENT_HEX_MIN: usize = 9;
const DIFFERENT_CHARS_MIN: usize = 14;
/// A random text of 32 letters and digits has 19 such changes in the mean.
const CLASS_CHANGES_MIN: usize = 10;

/// A text without its credentials: of each, only the first characters are left.
#[must_use]
pub fn redacted(text: &str) -> Cow<'_, str> {
    let is_of_credential =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '/' | '+');
    let mut redacted = String::new();
    let (mut rest, mut kept) = (text, 0);
    while let Some(start) = rest.find(is_of_credential) {
        let run = &rest[start..];
        let run = &run[..run.find(|character| !is_of_credential(character)).unwrap_or(run.len())];
        let at = text.len() - rest.len() + start;
        if is_credential(run) {
            redacted.push_str(&text[kept..at + SHOWN_CHARS]);
            redacted.push_str("...");
            kept = at + run.len();
        }
        rest = &text[at + run.len()..];
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    redacted.push_str(&text[kept..]);
    Cow::Owned(redacted)
}

/// Whether a text is, or holds, what looks like a credential.
#[must_use]
pub fn holds_credential(text: &str) -> bool {
    matches!(redacted(text), Cow::Owned(_))
}

fn is_credential(run: &str) -> bool {
    let has_prefix = PREFIXES
        .iter()
        .any(|prefix| run.strip_prefix(prefix).is_some_and(|rest| rest.len() >= KEY_CHARS / 2));
    has_prefix || run.split(|character: char| !character.is_ascii_alphanumeric()).any(is_token_or_key)
}

fn is_token_or_key(word: &str) -> bool {
    let digits = word.split(|character: char| !character.is_ascii_hexdigit());
    let is_token = |digits: &str| {
        digits.len() >= HEX_DIGITS_MIN && different(&digits.to_ascii_lowercase()) >= DIFFERENT_HEX_MIN
    };
    // Long names and numbers change seldom between digits and letters of either case.
    let has_key_length = word.len() == KEY_CHARS
        || (KEY_CHARS..=KEY_CHARS + ESCAPES_CHARS_MAX).contains(&word.len())
            && class_changes(word) >= CLASS_CHANGES_MIN;
    let is_key = has_key_length
        && word.bytes().any(|byte| byte.is_ascii_uppercase())
        && word.bytes().any(|byte| byte.is_ascii_lowercase())
        && different(word) >= DIFFERENT_CHARS_MIN;
    is_key || digits.max_by_key(|digits| digits.len()).is_some_and(is_token)
}

/// How often a word changes between digits, capital letters and small ones.
fn class_changes(word: &str) -> usize {
    let class = |byte: u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase());
    word.as_bytes().windows(2).filter(|pair| class(pair[0]) != class(pair[1])).count()
}

/// How many different characters a text has.
fn different(text: &str) -> usize {
    let seen = text.bytes().fold(0_u128, |seen, byte| seen | 1 << (byte & 127));
    seen.count_ones() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "a31f0c5d9e7b42868b1c6f0e2d4a5978a31f0c5d9e7b42868b1c6f0e2d4a5978";
    const KEY: &str = "B7Y0c6E5bCKMEQOsvCExziNhq16ObGqh";

    #[test]
    fn credentials_are_cut_wherever_they_stand() {
        for (text, expected) in [
            (TOKEN.to_owned(), "a31f..."),
            (format!("got \"{TOKEN}\""), "got \"a31f...\""),
            (TOKEN.to_uppercase(), "A31F..."),
            (format!("x: mtk_{TOKEN}, y"), "x: mtk_..., y"),
            (format!("got \"mtk_{}\"...", &TOKEN[..60]), "got \"mtk_...\"..."),
            (format!("Bearer {}", &TOKEN[..57]), "Bearer a31f..."),
            (format!("{KEY} and {KEY}"), "B7Y0... and B7Y0..."),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned(), "whse..."),
            (format!("\\u0022{KEY}\\u0022"), "\\u002...\\u0022"),
            (format!("%22{KEY}"), "%22B7..."),
            (format!("x{KEY}"), "xB7Y..."),
        ] {
            assert_eq!(redacted(&text), expected);
            assert!(holds_credential(&text), "{text}");
        }
    }

    #[test]
    fn what_people_send_is_repeated() {
        for text in [
            "",
            "order-20270115-1",
            &"a".repeat(100),
            &"0".repeat(48),
            &TOKEN[..49],
            "01234567-89ab-cdef-0123-456789abcdef",
            "0123456789abcdef0123456789abcdef",
            "20261125123456789012345",
            "checkoutSessionAsyncPaymentSucceeded",
            "Game01ExchangeOrder20261126123456789",
            "/openapi/mp/developer/file/img/uploadWithFile",
            "封面封面封面封面封面封面封面封面封面封面封面封面",
        ] {
            assert_eq!(redacted(text), text);
        }
    }
}
