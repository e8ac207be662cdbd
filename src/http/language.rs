//! The catalogue of texts (contract 14.1 and 14.2): English stands where a text is made, and its Chinese twin in
//! `locales/zh.po`, under the English pattern.

use std::collections::HashMap;
use std::sync::LazyLock;

use domain::language::Language;
use domain::text::Text;

const ZH: &str = include_str!("../../locales/zh.po");

/// Between the context of a pattern and the pattern, as in the files of gettext.
const CONTEXT_ENDS: char = '\u{4}';

static TWINS: LazyLock<HashMap<String, String>> = LazyLock::new(|| entries(ZH).into_iter().collect());

/// A text in the words of a language.
#[must_use]
pub fn of(language: Language, text: &Text) -> String {
    match language {
        Language::En => text.english(),
        Language::Zh => text.in_words_of(&|pattern| twin(Language::Zh, pattern)),
    }
}

/// The words of a text in each language.
pub const WORDS: [fn(&Text) -> String; 2] = [Text::english, chinese];

/// The function that gives the words of a text in a language.
#[must_use]
pub fn words(language: Language) -> fn(&Text) -> String {
    match language {
        Language::En => Text::english,
        Language::Zh => chinese,
    }
}

fn chinese(text: &Text) -> String {
    of(Language::Zh, text)
}

/// The twin of an English pattern, or the pattern itself where the catalogue has none: it is a name.
#[must_use]
pub fn twin(language: Language, pattern: &str) -> &str {
    match language {
        Language::En => pattern,
        Language::Zh => TWINS.get(pattern).map_or(pattern, String::as_str),
    }
}

/// The twin of a pattern that has another one in this context.
#[must_use]
pub fn twin_in(language: Language, context: &str, pattern: &'static str) -> &'static str {
    let key = format!("{context}{CONTEXT_ENDS}{pattern}");
    match language {
        Language::En => pattern,
        Language::Zh => TWINS.get(&key).map_or(pattern, String::as_str),
    }
}

/// Every pattern of the catalogue with its twin.
#[must_use]
pub fn catalogue() -> Vec<(String, String)> {
    entries(ZH)
}

/// The entries of a file of gettext (PO): `msgctxt`, `msgid`, `msgstr`, and lines that continue them. The first entry, whose
/// `msgid` is empty, is the header of the file.
fn entries(po: &str) -> Vec<(String, String)> {
    let mut entries: Vec<(String, String)> = Vec::new();
    let (mut is_key, mut context) = (true, String::new());
    for line in po.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let quoted = if let Some(rest) = line.strip_prefix("msgctxt ") {
            context = unquoted(rest) + &CONTEXT_ENDS.to_string();
            continue;
        } else if let Some(rest) = line.strip_prefix("msgid ") {
            entries.push((std::mem::take(&mut context), String::new()));
            is_key = true;
            rest
        } else if let Some(rest) = line.strip_prefix("msgstr ") {
            is_key = false;
            rest
        } else {
            line
        };
        if let Some((key, words)) = entries.last_mut() {
            (if is_key { key } else { words }).push_str(&unquoted(quoted));
        }
    }
    entries.retain(|(key, _)| !key.is_empty());
    entries
}

/// The text of a quoted line: a backslash stands before a quote and a backslash.
fn unquoted(quoted: &str) -> String {
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(next) = chars.next() {
        match next {
            '\\' => text.extend(chars.next()),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use domain::app::{AppLimits, AppSettings};
    use domain::code::Code;
    use domain::console_user::Role;
    use domain::fields::{Expected, FieldError};
    use domain::ledger::ReferenceKind;
    use domain::order::{GoodsKind, OrderStatus};
    use domain::order_center::Tab;
    use domain::signature::Mistake;

    use super::*;

    #[test]
    fn entries_are_read_as_gettext_writes_them() {
        let po = "# words\nmsgid \"\"\nmsgstr \"Language: zh\"\n\nmsgid \"a \\\"b\\\" \\\\ \"\n\"{c}\"\nmsgstr \"甲\"\n\"{c}\"\n";
        assert_eq!(entries(po), [("a \"b\" \\ {c}".to_owned(), "甲{c}".to_owned())]);
    }

    /// Words of tables, which the console looks up by their value.
    #[test]
    fn the_tables_of_the_domain_have_twins() {
        let mut words: Vec<&str> = Vec::new();
        for field in AppSettings::FIELDS.into_iter().chain(AppLimits::FIELDS) {
            words.extend([field.title, field.help]);
        }
        words.extend(Code::ALL.map(|code| code.row().meaning));
        words.extend(Mistake::WORDS);
        words.extend(Tab::ALL.map(Tab::title));
        words.extend(ReferenceKind::WORDS.into_iter().chain(GoodsKind::WORDS).chain(Role::WORDS));
        let codes = OrderStatus::CODES.map(|code| OrderStatus::from_code(i16::try_from(code).unwrap()));
        words.extend(codes.map(|status| status.unwrap().meaning()));
        let without: Vec<_> = words.into_iter().filter(|word| twin(Language::Zh, word) == *word).collect();
        assert!(without.is_empty(), "locales/zh.po has no twin of {without:?}");
    }

    #[test]
    fn a_text_is_in_its_language_as_a_whole() {
        let text = FieldError::malformed("ts", Expected::one_of(&["0", "1", "2"]).0, "x").text();
        assert_eq!(of(Language::En, &text), "ts: expected 0, 1 or 2, got \"x\"");
        assert_eq!(of(Language::Zh, &text), "ts：应为 0, 1 或 2，收到 \"x\"");
        assert_eq!(twin_in(Language::Zh, "sign-in", "Code"), "验证码");
        assert_eq!(twin(Language::Zh, "Code"), "代码");
    }
}
