//! Users of the operator's console: their names, their roles and what a password must be.

use std::fmt;

use super::fields::Expected;
use super::ids::{made_of, text_type};

/// Shortest password, in characters.
const PASSWORD_CHARS_MIN: usize = 12;
/// Longest password, in bytes: more than anybody types, and little to hash.
pub const PASSWORD_BYTES_MAX: usize = 1024;

text_type!(
    /// The name that somebody signs in with: in lower case, so that nobody is there twice.
    ConsoleUserName, "a name of 1 to 64 of a-z, 0-9, '.', '_', '@' and '-'",
    |text| {
        made_of(text, 1, 64, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._@-".contains(&byte))
    }
);

crate::word_enum! {
    /// What a user of the console, or an API key, may do.
    pub enum Role {
        /// Sees everything and changes nothing.
        Viewer = "viewer",
        /// Changes what operators can change.
        Admin = "admin",
    }
}

/// A password that may be given to a user. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct NewPassword(String);

impl NewPassword {
    /// Accepts at least 12 characters, at most 1,024 bytes, and no control characters, which nobody can
    /// type again.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let fits = text.chars().count() >= PASSWORD_CHARS_MIN && text.len() <= PASSWORD_BYTES_MAX;
        if fits && !text.chars().any(char::is_control) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Expected::new(
                "a password of at least 12 characters and at most 1,024 bytes, without control characters",
            ))
        }
    }

    /// The text as it came.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for NewPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NewPassword")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_lower_case() {
        let named = |name: &str| ConsoleUserName::parse(name).is_ok();
        assert!(named("a") && named("alice.b_c-1@studio.example") && named(&"a".repeat(64)));
        assert!(!named("") && !named("Alice") && !named("a b") && !named("é") && !named(&"a".repeat(65)));
    }

    #[test]
    fn a_password_has_twelve_characters_whatever_their_bytes() {
        let fits = |text: &str| NewPassword::parse(text).is_ok();
        assert!(fits("twelve chars") && fits(&"é".repeat(12)) && fits(&"x".repeat(1024)));
        assert!(!fits("eleven char") && !fits(&"é".repeat(11)) && !fits(&"x".repeat(1025)));
        assert!(!fits("twelve\tchars"));
        assert_eq!(format!("{:?}", NewPassword::parse("twelve chars").unwrap()), "NewPassword");
    }
}
