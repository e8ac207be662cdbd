//! Users of the operator's console: their names, their roles and what a password must be.

use std::fmt;

use serde::Serialize;

use super::fields::Expected;

/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Shortest password, in characters.
const PASSWORD_CHARS_MIN: usize = 12;
/// Longest password, in bytes: more than anybody types, and little to hash.
pub const PASSWORD_BYTES_MAX: usize = 1024;

/// The name that somebody signs in with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ConsoleUserName(String);

impl ConsoleUserName {
    /// Takes 1 to 64 of `0-9a-z._@-`: lower case, so that nobody is there twice.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._@-".contains(&byte);
        if (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Expected::new("a name of 1 to 64 of a-z, 0-9, '.', '_', '@' and '-'"))
        }
    }

    /// The text as it came.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ConsoleUserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for ConsoleUserName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text).map_err(|expected| format!("expected {}", expected.0))
    }
}

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
    /// Takes at least 12 characters, at most 1,024 bytes, and no control characters: one that cannot be
    /// typed again is of no use.
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
