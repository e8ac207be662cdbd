//! Users of the operator's console: their names, their roles and what a password must be.

use std::fmt;
use std::time::Duration;

use zxcvbn::{Score, zxcvbn};

use super::fields::Expected;
use super::ids::{made_of, text_type};

/// Shortest password, in characters.
const PASSWORD_CHARS_MIN: usize = 12;
/// The least score of zxcvbn: more than 10^8 guesses. Its scores end at 4.
const SCORE_MIN: Score = Score::Three;
/// Shortest part of a name that no password may have in it.
const NAME_PART_MIN: usize = 4;
/// Longest id of a user at an OpenID Connect provider, in bytes (OpenID Connect Core, section 2).
pub const SUBJECT_BYTES_MAX: usize = 255;
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
    /// The rights of a user of the console, or of an API key: [`Role::may`].
    pub enum Role {
        /// Reads and changes nothing.
        Viewer = "viewer",
        /// Gives exchanges back too, up to a limit.
        Support = "support",
        /// Reads and closes periods too: revenue, statements and bills.
        Finance = "finance",
        /// Tells of payments for top-ups too.
        Payments = "payments",
        /// Changes keys, packages, receivers, prices and settings of apps too.
        Developer = "developer",
        /// Changes what operators can change.
        Admin = "admin",
    }
}

/// A user whom an OpenID Connect provider has signed in. The issuer and the subject are the identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvidedUser {
    /// The provider.
    pub issuer: String,
    /// The provider's id of the user, at most [`SUBJECT_BYTES_MAX`] bytes.
    pub subject: String,
    /// Names for a new user, the best first. The first that nobody has is taken.
    pub names: Vec<ConsoleUserName>,
    /// The role that the user's groups give.
    pub role: Role,
    /// Time since the user proved to the provider who they are. `None` when the provider does not say.
    pub authenticated: Option<Duration>,
}

/// Who an OpenID Connect provider says that somebody is, whatever their groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvidedIdentity {
    /// The provider.
    pub issuer: String,
    /// The provider's id of the user.
    pub subject: String,
}

/// A password that may be given to a user. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct NewPassword(String);

impl NewPassword {
    /// Accepts at least 12 characters, at most 1,024 bytes, and no control characters, which nobody can
    /// type again. It must not be common, not be made of the name, and not begin with a byte-order mark.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str, name: &ConsoleUserName) -> Result<Self, Expected> {
        let fits = text.chars().count() >= PASSWORD_CHARS_MIN && text.len() <= PASSWORD_BYTES_MAX;
        if !fits || text.chars().any(char::is_control) {
            return Err(Expected::new(
                "a password of at least 12 characters and at most 1,024 bytes, without control characters",
            ));
        }
        // A file or a shell put it there. Nobody can type it at the sign-in.
        if text.starts_with('\u{feff}') {
            return Err(Expected::new("a password without a byte-order mark before it"));
        }
        let lower = text.to_lowercase();
        let mut parts = name.as_str().split(['.', '_', '@', '-']).filter(|part| part.len() >= NAME_PART_MIN);
        let is_of_name = parts.any(|part| lower.contains(part));
        if is_of_name || zxcvbn(text, &[name.as_str(), "minitill"]).score() < SCORE_MIN {
            return Err(Expected::new(
                "a password that is hard to guess: not a common one, not a pattern, and not made of the name",
            ));
        }
        Ok(Self(text.to_owned()))
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

/// The stored hash of a password: a PHC string with algorithm, parameters, salt and hash.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(String);

impl PasswordHash {
    /// The hash that this PHC string is.
    #[must_use]
    pub const fn kept(text: String) -> Self {
        Self(text)
    }

    /// The PHC string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash")
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

    fn parsed(text: &str) -> Result<NewPassword, Expected> {
        NewPassword::parse(text, &ConsoleUserName::parse("alice.smith@studio.example").unwrap())
    }

    #[test]
    fn a_password_has_twelve_characters_whatever_their_bytes() {
        let fits = |text: &str| parsed(text).is_ok();
        let long = format!("correct horse battery{}", "x".repeat(1024 - 21));
        assert!(fits("äöü sieben ß") && fits(&long));
        assert!(!fits("äöü sieben!") && !fits(&format!("{long}x")) && !fits("correct\thorse battery"));
        assert_eq!(format!("{:?}", parsed("correct horse battery").unwrap()), "NewPassword");
    }

    /// Rule 8.6.14: blanks are of the password, and a mark that nobody types is refused by its name.
    #[test]
    fn a_password_has_no_byte_order_mark_before_it() {
        let told = parsed("\u{feff}correct horse battery").err().map(|expected| expected.0.english());
        assert_eq!(told.as_deref(), Some("a password without a byte-order mark before it"));
        assert_eq!(parsed(" correct horse battery ").unwrap().as_str(), " correct horse battery ");
    }

    /// Rule 8.6.14: a password that many people have, a pattern, or one made of the name is refused.
    #[test]
    fn a_password_is_hard_to_guess() {
        let common = [
            "123456789012",
            "passwordpassword",
            "qwertyuiop123",
            "aaaaaaaaaaaa",
            "password1234",
            "q1w2e3r4t5y6",
            "administrator",
            "minitillminitill",
            "Smith, trombone kettle",
        ];
        for common in common {
            let expected = parsed(common).err().map(|expected| expected.0.english()).unwrap_or_default();
            assert!(expected.starts_with("a password that is hard to guess"), "{common}: {expected}");
        }
        for good in ["correct horse battery", "tr0mbone!kettle", "xK3#mq9$Lw2p"] {
            assert!(parsed(good).is_ok(), "{good}");
        }
    }
}
