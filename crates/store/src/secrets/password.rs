//! Passwords of the console's users, stored as argon2id hashes.

use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use domain::console_user::{NewPassword, PasswordHash};

use super::random_bytes;

/// Memory of one hash. 19 MiB, two passes and one lane are the minimum that OWASP recommends.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const SALT_BYTES: usize = 16;

/// A password could not be hashed, because memory ran out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the password could not be hashed: {0}")]
pub struct Unhashable(String);

/// Hashes a password with a new salt. It takes some 20 ms of a core and 19 MiB.
pub fn hash_password(password: &NewPassword) -> Result<PasswordHash, Unhashable> {
    let salt = random_bytes::<SALT_BYTES>();
    let hash = argon2id()?.hash_password_with_salt(password.as_str().as_bytes(), &salt);
    hash.map(|hash| PasswordHash::kept(hash.to_string())).map_err(|error| Unhashable(error.to_string()))
}

/// A hash that no password fits. It is verified for an unknown name, so that the time of an answer does not show which
/// names exist.
#[must_use]
pub fn password_of_nobody() -> PasswordHash {
    let salt = "AAAAAAAAAAAAAAAAAAAAAA";
    let hash = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    PasswordHash::kept(format!("$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p=1${salt}${hash}"))
}

/// Verifies a password with the parameters of its hash. It costs as much as hashing.
#[must_use]
pub fn password_fits(hash: &PasswordHash, password: &str) -> bool {
    Argon2::default().verify_password(password.as_bytes(), hash.as_str()).is_ok()
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
        let (hash, other) = (hash_password(&password).unwrap(), hash_password(&password).unwrap());
        assert!(hash.as_str().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        assert_ne!(hash, other);
        assert!(
            password_fits(&hash, "correct horse battery")
                && !password_fits(&hash, "correct horse batter")
                && !password_fits(&hash, "")
        );
        assert!(!format!("{hash:?}").contains("argon2"));
    }

    #[test]
    fn a_hash_of_nobody_is_well_formed_and_fits_nothing() {
        let nobody = password_of_nobody();
        assert!(
            argon2::password_hash::phc::PasswordHash::new(nobody.as_str()).is_ok(),
            "else it would be compared at once"
        );
        assert!(!password_fits(&nobody, "") && !password_fits(&nobody, "correct horse battery"));
        assert!(!password_fits(&PasswordHash::kept("damaged".to_owned()), "damaged"));
    }
}
