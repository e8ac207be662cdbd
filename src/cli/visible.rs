//! Texts of others for people to read: characters that steer a terminal are shown escaped, wherever a command prints them
//! (contract 8.1.7). JSON and CSV have rules of their own.

use std::borrow::Cow;

/// A text in one line: a line end and a tab are escaped, too.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// A text of this program that has lines and tabs of its own. A text of others in it is a [`visible`] one.
pub(super) fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| matches!(character, '\n' | '\t'))
}

fn escaped(text: &str, is_kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_shown = |character: char| !steers(character) || is_kept(character);
    if text.chars().all(is_shown) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_shown(character) {
            shown.push(character);
        } else {
            shown.extend(character.escape_default());
        }
    }
    shown.into()
}

/// Whether a terminal acts on the character instead of showing it: controls, line ends, marks of direction, and what has no shape.
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_escaped_and_nothing_else() {
        let plain = "Sword \u{2694}\u{fe0f} \u{5251} \u{1f468}\u{200d}\u{1f469} \\ 'x'";
        assert_eq!((visible(plain), visible_lines(plain)), (plain.into(), plain.into()));
        let title = "\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}gnp.\u{2066}\u{200f}\u{7f}\u{2028}";
        let escaped = r"\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}gnp.\u{2066}\u{200f}\u{7f}\u{2028}";
        assert_eq!((visible(title), visible_lines(title)), (escaped.into(), escaped.into()));
        assert_eq!(visible("a\r\nb\tc"), r"a\r\nb\tc");
        assert_eq!(visible_lines("a\r\nb\tc"), "a\\r\nb\tc");
    }
}
