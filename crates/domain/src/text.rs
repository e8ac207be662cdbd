//! Texts for people that come in several languages (contract 14): an English pattern, and what stands in it.
//! The pattern is the key of its twin in the catalogue, `locales/zh.po`. Here is English alone.

use std::fmt::Display;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A text in no language yet. It is no `Display`, so that nobody puts its English into another language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    pattern: &'static str,
    /// In a box: errors have texts, and are small where nothing is wrong.
    values: Option<Box<Values>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Values(Vec<(&'static str, Value)>);

/// The first character of the scripts of East Asia.
const CHINESE_FROM: char = '\u{2e80}';

/// The value at a place of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The same in every language: a name, a number, what came.
    Same(String),
    /// A text of its own.
    Text(Text),
    /// A moment.
    Moment(OffsetDateTime),
}

/// A moment at a place of a pattern: RFC 3339 in UTC, unless a face has a clock of its own ([`Text::with_moments`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextMoment(pub OffsetDateTime);

impl TextMoment {
    /// As people and scripts read it: RFC 3339 in UTC.
    #[must_use]
    pub fn english(self) -> String {
        self.0.format(&Rfc3339).unwrap_or_else(|_| self.0.to_string())
    }
}

/// Makes a [`Text`]: the English pattern, then a value for each place in it. `{name}` is a place.
///
/// `text!("{field}: expected at most {max} bytes", field, max = 5)`
#[macro_export]
macro_rules! text {
    ($pattern:literal $(, $name:ident $(= $value:expr)?)* $(,)?) => {{
        const {
            assert!(
                $crate::text::has_places($pattern, &[$(stringify!($name)),*]),
                "the values of a text are not those of its places"
            );
        }
        $crate::text::Text::with($pattern, vec![
            $((stringify!($name), {
                use $crate::text::AsValue as _;
                ($crate::text!(@value $name $(, $value)?)).as_value()
            })),*
        ])
    }};
    (@value $name:ident) => { $name };
    (@value $name:ident, $value:expr) => { $value };
}

impl Text {
    /// A text without places.
    #[must_use]
    pub const fn new(words: &'static str) -> Self {
        Self { pattern: words, values: None }
    }

    /// A pattern with its values. [`text!`](crate::text!) checks that they fit.
    #[must_use]
    pub fn with(pattern: &'static str, values: Vec<(&'static str, Value)>) -> Self {
        let values = Some(values).filter(|values| !values.is_empty());
        Self { pattern, values: values.map(|values| Box::new(Values(values))) }
    }

    /// What is the same in every language.
    #[must_use]
    pub fn same(words: impl Display) -> Self {
        Self::with("{words}", vec![("words", Value::Same(words.to_string()))])
    }

    /// The text with its moments as `show` writes them.
    #[must_use]
    pub fn with_moments(mut self, show: &impl Fn(OffsetDateTime) -> String) -> Self {
        for (_, value) in self.values.iter_mut().flat_map(|values| values.0.iter_mut()) {
            *value = match value {
                Value::Moment(moment) => Value::Same(show(*moment)),
                Value::Text(part) => Value::Text(part.clone().with_moments(show)),
                Value::Same(_) => continue,
            };
        }
        self
    }

    /// The text in English.
    #[must_use]
    pub fn english(&self) -> String {
        self.in_words_of(&|pattern| pattern)
    }

    /// The text in the words that a catalogue gives for its patterns.
    pub fn in_words_of<'a>(&self, twin: &impl Fn(&'a str) -> &'a str) -> String {
        let pattern = twin(self.pattern);
        let Some(values) = &self.values else { return pattern.to_owned() };
        fill(pattern, |name, text| {
            match values.0.iter().find(|(known, _)| *known == name) {
                Some((_, Value::Same(words))) => text.push_str(words),
                Some((_, Value::Moment(moment))) => text.push_str(&TextMoment(*moment).english()),
                Some((_, Value::Text(part))) => {
                    let words = part.in_words_of(twin);
                    // Chinese has a blank in front of digits and Latin letters, and none in front of itself.
                    let is_chinese = |letter: char| letter >= CHINESE_FROM;
                    if words.starts_with(is_chinese) && text.trim_end_matches(' ').ends_with(is_chinese) {
                        text.truncate(text.trim_end_matches(' ').len());
                    }
                    text.push_str(&words);
                }
                None => return false,
            }
            true
        })
    }
}

/// A pattern with its places filled in. `put` writes the value of a place, unless there is none of that name.
pub fn fill(pattern: &str, mut put: impl FnMut(&str, &mut String) -> bool) -> String {
    let mut text = String::with_capacity(pattern.len() * 2);
    let mut rest = pattern;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find('}').unwrap_or(0);
        if end > 0 && put(&rest[1..end], &mut text) {
            rest = &rest[end + 1..];
        } else {
            text.push('{');
            rest = &rest[1..];
        }
    }
    text.push_str(rest);
    text
}

/// Whether a pattern has a place for each of these names, and no other. Names are of a-z and _.
#[must_use]
pub const fn has_places(pattern: &str, names: &[&str]) -> bool {
    let bytes = pattern.as_bytes();
    let (mut at, mut places) = (0, 0_u64);
    while at < bytes.len() {
        if bytes[at] == b'{' {
            let mut end = at + 1;
            while end < bytes.len() && (bytes[end].is_ascii_lowercase() || bytes[end] == b'_') {
                end += 1;
            }
            if end > at + 1 && end < bytes.len() && bytes[end] == b'}' {
                let mut name = 0;
                while name < names.len() && !is_slice(bytes, at + 1, end, names[name].as_bytes()) {
                    name += 1;
                }
                if name == names.len() {
                    return false;
                }
                places |= 1 << name;
            }
        }
        at += 1;
    }
    places.count_ones() as usize == names.len()
}

const fn is_slice(bytes: &[u8], from: usize, to: usize, other: &[u8]) -> bool {
    if to - from != other.len() {
        return false;
    }
    let mut at = 0;
    while at < other.len() {
        if bytes[from + at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

impl From<&'static str> for Text {
    fn from(words: &'static str) -> Self {
        Self::new(words)
    }
}

/// A value that can stand at a place of a pattern.
#[doc(hidden)]
pub trait AsValue {
    fn as_value(&self) -> Value;
}

impl AsValue for Text {
    fn as_value(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl AsValue for TextMoment {
    fn as_value(&self) -> Value {
        Value::Moment(self.0)
    }
}

impl<T: Display + ?Sized> AsValue for T {
    fn as_value(&self) -> Value {
        Value::Same(self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_filled_in_the_words_of_a_language() {
        let what = Text::new("pictures");
        let text = text!("{name}: at most {max} {what}{name} {}", name = "a{max}", max = 5, what);
        assert_eq!(text.english(), "a{max}: at most 5 picturesa{max} {}");
        let twin = |pattern| match pattern {
            "pictures" => "图片",
            _ => "{max} {what}，共 {what} {name} {other} {",
        };
        assert_eq!(text.in_words_of(&twin), "5 图片，共图片 a{max} {other} {");
        assert_eq!(Text::same("{max}").english(), "{max}");
    }

    #[test]
    fn a_moment_is_in_utc_or_by_the_clock_of_a_face() {
        let at = crate::moment::parse("2026-11-30T13:38:09Z").unwrap();
        let text = text!("{why}!", why = text!("it ends at {at}", at = TextMoment(at)));
        assert_eq!(text.english(), "it ends at 2026-11-30T13:38:09Z!");
        assert_eq!(text.with_moments(&|at| at.year().to_string()).english(), "it ends at 2026!");
    }

    #[test]
    fn the_values_are_those_of_the_places() {
        assert!(has_places("{a} {b_c} {a} {} {", &["b_c", "a"]) && has_places("", &[]));
        assert!(!has_places("{a}", &[]) && !has_places("{a}", &["a", "b"]) && !has_places("{ab}", &["a"]));
    }
}
