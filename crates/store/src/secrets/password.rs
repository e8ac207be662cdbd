//! Passwords of the console's users, stored as argon2id hashes.

use std::fmt;

use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use domain::console_user::NewPassword;

use super::random_bytes;

/// Memory of one hash. 19 MiB, two passes and one lane are the minimum that OWASP recommends.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const SALT_BYTES: usize = 16;

/// The stored hash of a password: a PHC string with algorithm, parameters, salt and hash.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(String);

/// A password could not be hashed, because memory ran out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the password could not be hashed: {0}")]
pub struct Unhashable(String);

impl PasswordHash {
    /// Hashes a password with a new salt. It takes some 20 ms of a core and 19 MiB.
    pub fn of(password: &NewPassword) -> Result<Self, Unhashable> {
        let salt = random_bytes::<SALT_BYTES>();
        let hash = argon2id()?.hash_password_with_salt(password.as_str().as_bytes(), &salt);
        hash.map(|hash| Self(hash.to_string())).map_err(|error| Unhashable(error.to_string()))
    }

    /// A hash that no password fits. It is verified for an unknown name, so that the time of an
    /// answer does not show which names exist.
    #[must_use]
    pub fn of_nobody() -> Self {
        let salt = "AAAAAAAAAAAAAAAAAAAAAA";
        let hash = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        Self(format!("$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p=1${salt}${hash}"))
    }

    /// A stored hash.
    #[must_use]
    pub fn kept(text: String) -> Self {
        Self(text)
    }

    /// The PHC string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Verifies a password with the parameters of the hash. It costs as much as hashing.
    #[must_use]
    pub fn fits(&self, password: &str) -> bool {
        Argon2::default().verify_password(password.as_bytes(), self.0.as_str()).is_ok()
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash")
    }
}

fn argon2id() -> Result<Argon2<'static>, Unhashable> {
    let params = Params::new(MEMORY_KIB, PASSES, 1, None).map_err(|error| Unhashable(error.to_string()))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

#[cfg(test)]
mod tests {
    use domain::console_user::ConsoleUserName;

    use super::*;

    #[test]
    fn a_hash_fits_its_password_alone_and_has_its_own_salt() {
        let name = ConsoleUserName::parse("alice").unwrap();
        let password = NewPassword::parse("correct horse battery", &name).unwrap();
        let (hash, other) = (PasswordHash::of(&password).unwrap(), PasswordHash::of(&password).unwrap());
        assert!(hash.as_str().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        assert_ne!(hash, other);
        assert!(hash.fits("correct horse battery") && !hash.fits("correct horse batter") && !hash.fits(""));
        assert!(!format!("{hash:?}").contains("argon2"));
    }

    #[test]
    fn a_hash_of_nobody_is_well_formed_and_fits_nothing() {
        let nobody = PasswordHash::of_nobody();
        assert!(
            argon2::password_hash::phc::PasswordHash::new(nobody.as_str()).is_ok(),
            "else it would be compared at once"
        );
        assert!(!nobody.fits("") && !nobody.fits("correct horse battery"));
        assert!(!PasswordHash::kept("damaged".to_owned()).fits("damaged"));
    }
}
