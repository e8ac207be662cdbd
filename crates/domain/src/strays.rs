//! Stray characters around a credential that does not fit: what a file, a variable or a page of a wiki brought
//! along (contract 2.11). They are named, and the value is not shown.

use crate::fields::Expected;
use crate::text;
use crate::text::Text;

/// Quotes of keyboards, word processors and shells.
const QUOTES: &str = "\"'`\u{201c}\u{201d}\u{2018}\u{2019}\u{ab}\u{bb}\u{300c}\u{300d}\u{ff02}\u{ff07}";
const BEARER: &str = "bearer ";
/// The last words of the names that come before a credential, where a whole pair, header or variable was copied: of
/// `access_token`, `STRIPE_WEBHOOK_SECRET`, `js_code`, `api-key`.
const NAMES_OF_CREDENTIALS: [&str; 4] = ["token", "secret", "code", "key"];
/// What secrets begin with.
const BEGINNINGS_OF_SECRETS: [&str; 2] = ["whsec_", "mtk_"];

/// What templates have around the name of a place.
const PLACES: [(&str, &str); 9] = [
    ("{", "}"),
    ("{{", "}}"),
    ("${", "}"),
    ("#{", "}"),
    ("<", ">"),
    ("[", "]"),
    ("%", "%"),
    ("$", ""),
    (":", ""),
];
/// Words in place of a signature: its own name, and what languages print for nothing.
const PLACEHOLDERS: [&str; 11] = [
    "sign",
    "signature",
    "your_sign",
    "your_signature",
    "undefined",
    "null",
    "none",
    "nil",
    "nan",
    "false",
    "%s",
];
/// The longest name of a place.
const PLACEHOLDER_BYTES_MAX: usize = 40;

/// A kind of characters that belong to no credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stray {
    Blank,
    LineEnd,
    Quotes,
    Bearer,
    ZeroWidth,
    Separator,
    Brackets,
}

impl Stray {
    fn of(character: char) -> Option<Self> {
        Some(match character {
            '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}' => Self::LineEnd,
            unseen if is_zero_width(unseen) => Self::ZeroWidth,
            ',' | ';' | '&' | '\u{ff0c}' | '\u{ff1b}' => Self::Separator,
            '<' | '>' | '{' | '}' | '[' | ']' | '(' | ')' => Self::Brackets,
            blank if blank.is_whitespace() => Self::Blank,
            quote if is_quote(quote) => Self::Quotes,
            _ => return None,
        })
    }

    fn name(self) -> Text {
        match self {
            Self::Blank => text!("a blank"),
            Self::LineEnd => text!("a line end"),
            Self::Quotes => text!("quotes"),
            Self::Bearer => text!("\"Bearer\""),
            Self::ZeroWidth => text!("a zero-width character"),
            Self::Separator => text!("a separator"),
            Self::Brackets => text!("brackets"),
        }
    }
}

fn is_quote(character: char) -> bool {
    QUOTES.contains(character)
}

/// Whether a quote stands at an end of this value.
#[must_use]
pub fn has_quotes(value: &str) -> bool {
    value.starts_with(is_quote) || value.ends_with(is_quote)
}

/// A character without a shape of its own. It is what Unicode lets programs ignore (the property Default Ignorable Code
/// Point), a mark of an interlinear note, or the empty pattern of Braille.
pub(crate) const fn is_zero_width(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// A character for private use, or one that Unicode keeps free of meaning. Fonts show nothing for it, or all of them alike.
fn is_without_shape(character: char) -> bool {
    matches!(character, '\u{e000}'..='\u{f8ff}' | '\u{fdd0}'..='\u{fdef}' | '\u{f0000}'..='\u{10ffff}')
        || u32::from(character) & 0xfffe == 0xfffe
}

/// Whether a character is a blank, a control, or one without a shape of its own.
#[must_use]
pub fn shows_nothing(character: char) -> bool {
    character.is_whitespace()
        || character.is_control()
        || is_zero_width(character)
        || is_without_shape(character)
}

/// A value without the stray characters around it.
#[must_use]
pub fn without_strays(value: &str) -> &str {
    let mut rest = value;
    while let Some((_, shorter)) = first_stray(rest) {
        rest = shorter;
    }
    rest
}

/// A value without blanks and zero-width characters around it.
#[must_use]
pub fn without_unseen(value: &str) -> &str {
    value.trim_matches(|character: char| character.is_whitespace() || is_zero_width(character))
}

/// The fault of a number that must be written alike wherever it is written. It would be another number with a blank at an
/// end, or with another blank than that of the keyboard. So it would with a character that nobody sees. `None` for all else.
pub(crate) fn unseen(number: &str) -> Option<Expected> {
    let is_unseen = |character: char| {
        is_zero_width(character)
            || is_without_shape(character)
            || (character.is_whitespace() && character != ' ')
    };
    if without_unseen(number) != number {
        Some(Expected::new("no blank or unseen character around it"))
    } else if number.contains(is_unseen) {
        Some(Expected::new("no unseen character in it"))
    } else {
        None
    }
}

/// A stray character at one end of a value, and the value without it.
fn first_stray(value: &str) -> Option<(Stray, &str)> {
    if value.get(..BEARER.len()).is_some_and(|start| start.eq_ignore_ascii_case(BEARER)) {
        return Some((Stray::Bearer, &value[BEARER.len()..]));
    }
    let (first, last) = (value.chars().next()?, value.chars().next_back()?);
    match (Stray::of(first), Stray::of(last)) {
        (Some(stray), _) => Some((stray, &value[first.len_utf8()..])),
        (None, Some(stray)) => Some((stray, &value[..value.len() - last.len_utf8()])),
        (None, None) => None,
    }
}

/// The stray characters around this value, in words that follow "it has" and precede "around it". `None` where there
/// are none.
#[must_use]
pub fn around(value: &str) -> Option<Text> {
    let mut found: Vec<Stray> = Vec::new();
    let mut rest = value;
    while let Some((stray, shorter)) = first_stray(rest) {
        rest = shorter;
        if !found.contains(&stray) {
            found.push(stray);
        }
    }
    let mut names = found.into_iter().map(Stray::name);
    let first = names.next()?;
    Some(names.fold(first, |some, more| text!("{some} and {more}", some, more)))
}

/// The name of the field that came in the value of a credential, behind a separator that is none.
#[must_use]
pub fn swallowed(value: &str) -> Option<&str> {
    value.split([';', ',', '&', '?', '|', '\\', '\r', '\n', '\t', ' ']).skip(1).find_map(|pair| {
        let (name, _) = pair.strip_prefix("u0026").unwrap_or(pair).split_once('=')?;
        let is_name = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
        ((2..=32).contains(&name.len()) && name.chars().all(is_name)).then_some(name)
    })
}

/// What a credential that does not fit is instead, in words that follow "it". `None` where nothing is known.
#[must_use]
pub fn mistaken(value: &str) -> Option<Text> {
    if has_name(value) {
        Some(text!("has a name before it: send the value alone"))
    } else {
        is_placeholder(value).then(|| text!("is a placeholder, which nothing replaced"))
    }
}

/// Whether a name stands before a value.
fn has_name(value: &str) -> bool {
    let Some((name, rest)) = value.split_once(['=', ':', ' ']) else { return false };
    let last = name.rsplit(['_', '-']).next().unwrap_or_default();
    // Behind a text in base64 stands `=` alone.
    let is_value = !rest.trim_matches(['=', ' ']).is_empty();
    let is_secret = BEGINNINGS_OF_SECRETS.iter().any(|start| rest.trim_start().starts_with(*start));
    is_secret || (is_value && NAMES_OF_CREDENTIALS.iter().any(|word| word.eq_ignore_ascii_case(last)))
}

/// Whether a text stands for a credential: a place in a template, or a word for it or for nothing.
#[must_use]
pub fn is_placeholder(text: &str) -> bool {
    let text = text.trim();
    let behind = BEGINNINGS_OF_SECRETS.iter().find_map(|start| text.strip_prefix(*start));
    let is_masked = |text: &str| {
        let first = text.chars().next().filter(|first| "xX*.".contains(*first));
        text.len() > 2 && text.chars().all(|character| Some(character) == first)
    };
    // The name of a setting, as it stands in code.
    let constant = text.strip_prefix("process.env.").unwrap_or(text);
    let is_constant = NAMES_OF_CREDENTIALS.iter().any(|name| constant.ends_with(&name.to_ascii_uppercase()))
        && constant.bytes().all(|letter| letter.is_ascii_uppercase() || letter == b'_');
    let is_bare_mask = text.len() <= PLACEHOLDER_BYTES_MAX && is_masked(text);
    if is_constant || is_bare_mask || behind.is_some_and(is_masked) {
        return true;
    }
    let text = behind.unwrap_or(text);
    // A real one has digits, or is longer.
    let is_yours = |start: &str| {
        let letters = |letter: u8| letter.is_ascii_alphabetic() || b"_-".contains(&letter);
        text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
            && text.len() <= PLACEHOLDER_BYTES_MAX
            && text.bytes().all(letters)
    };
    let is_name = |name: &str| {
        // With digits it may be a signature in brackets.
        let is_of_name = |letter: char| letter.is_alphabetic() || " _-.".contains(letter);
        !name.is_empty() && name.len() <= PLACEHOLDER_BYTES_MAX && name.chars().all(is_of_name)
    };
    let inside = |(before, after): &(&str, &str)| text.strip_prefix(before)?.strip_suffix(after);
    PLACES.iter().filter_map(inside).any(is_name)
        || PLACEHOLDERS.iter().any(|word| text.eq_ignore_ascii_case(word))
        || ["your_", "your-"].into_iter().any(is_yours)
}

/// A refusal of a credential, and the stray characters around it.
#[must_use]
pub fn told(refusal: Text, strays: Option<Text>) -> Text {
    match strays {
        Some(strays) => text!("{refusal}; it has {strays} around it", refusal, strays),
        None => refusal,
    }
}

/// A refusal of a credential with what is around it, or else with what it is instead.
#[must_use]
pub fn explained(refusal: Text, credential: &str) -> Text {
    match (around(credential), mistaken(credential)) {
        (None, Some(mistaken)) => text!("{refusal}; it {mistaken}", refusal, mistaken),
        (strays, _) => told(refusal, strays),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_in_a_credential_is_named() {
        for (value, expected) in [
            ("abc;product_info=[]", Some("product_info")),
            ("abc?app_id=a1", Some("app_id")),
            ("abc\\u0026open_id=o1", Some("open_id")),
            ("abc\nts=1", Some("ts")),
            ("abc==", None),
            ("ab/cd+ef=", None),
            ("", None),
        ] {
            assert_eq!(swallowed(value), expected, "{value:?}");
        }
    }

    /// Rule 2.11.2.
    #[test]
    fn what_came_in_place_of_a_credential_is_named() {
        let (named, placeholder) =
            ("has a name before it: send the value alone", "is a placeholder, which nothing replaced");
        for (value, expected) in [
            ("access_token=abc", Some(named)),
            ("token abc", Some(named)),
            ("APP_SECRET: abc", Some(named)),
            ("STRIPE_WEBHOOK_SECRET=whsec_abc", Some(named)),
            ("webhook_secret: abc", Some(named)),
            ("api_key=mtk_abc", Some(named)),
            ("X-Api-Key: abc", Some(named)),
            ("PAY_KEY=abc", Some(named)),
            ("STRIPE=whsec_abc", Some(named)),
            ("YOUR_ACCESS_TOKEN", Some(placeholder)),
            ("null", Some(placeholder)),
            ("whsec_xxxxxxxx", Some(placeholder)),
            ("whsec_...", Some(placeholder)),
            ("whsec_your_secret", Some(placeholder)),
            ("mtk_YOUR_KEY", Some(placeholder)),
            ("whsec_xxxxxxxy", None),
            ("whsec_", None),
            ("my_key==", None),
            ("abc=def", None),
            ("token", None),
            ("tokenabc", None),
            ("code=", None),
            ("币", None),
            ("", None),
        ] {
            assert_eq!(mistaken(value).map(|text| text.english()).as_deref(), expected, "{value:?}");
        }
    }

    #[test]
    fn a_placeholder_is_one() {
        for text in [
            "{sign}",
            "${sign}",
            "{{ sign }}",
            "<your sign>",
            "[object Promise]",
            "SIGN",
            "null",
            ":sign",
            "YOUR_ACCESS_TOKEN",
        ] {
            assert!(is_placeholder(text), "{text}");
        }
        for text in ["", "xyz", "{}", "signs", "{sign", "your_1", "5d41402abc4b2a76b9719d911017c592"] {
            assert!(!is_placeholder(text), "{text}");
        }
    }

    #[test]
    fn what_is_around_a_value_is_named() {
        for (value, expected) in [
            ("abc", None),
            ("a b", None),
            ("", None),
            ("abc\n", Some("a line end")),
            ("abc\r\n", Some("a line end")),
            (" abc", Some("a blank")),
            ("\u{a0}abc\u{3000}", Some("a blank")),
            ("\"abc\"", Some("quotes")),
            ("\u{201c}abc\u{201d}", Some("quotes")),
            ("Bearer abc", Some("\"Bearer\"")),
            ("\u{feff}abc", Some("a zero-width character")),
            ("abc\u{200b}", Some("a zero-width character")),
            ("\u{3164}abc\u{ffa0}\u{115f}", Some("a zero-width character")),
            ("\u{2800}abc\u{fe0f}\u{e0041}", Some("a zero-width character")),
            ("\u{fff9}abc\u{fffb}\u{180c}", Some("a zero-width character")),
            ("abc,", Some("a separator")),
            ("{{abc}}", Some("brackets")),
            ("\"abc\" \n", Some("quotes and a line end and a blank")),
            ("bearer \"abc\"", Some("\"Bearer\" and quotes")),
        ] {
            assert_eq!(around(value).map(|text| text.english()).as_deref(), expected, "{value:?}");
        }
    }
}
