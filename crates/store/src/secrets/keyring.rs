//! The loaded master keys. During a rotation there are several, and all of them decrypt.

use std::path::{Path, PathBuf};

use domain::console_user::ConsoleUserName;
use domain::ids::AppId;

use super::key_file::{self, MasterKeyError};
use super::master_key::{MasterKey, WrongKey};

/// The maximum number of keys. No rotation needs more, not even after unfinished ones.
const KEYS_MAX: usize = 8;
/// The loaded master keys: one, or several during a rotation. It is never empty.
#[derive(Debug, Clone)]
pub struct Keyring {
    keys: Vec<MasterKey>,
    /// The file that they come from. `None` for a setting.
    file: Option<PathBuf>,
}

impl Keyring {
    /// Parses 1 to 8 keys of 64 hexadecimal digits, separated by commas or white space. The error
    /// names `origin`.
    pub fn parse(text: &str, origin: &str) -> Result<Self, MasterKeyError> {
        let keys = key_file::texts(text).map(MasterKey::parse).collect::<Option<Vec<_>>>();
        let keys = keys.filter(|keys| (1..=KEYS_MAX).contains(&keys.len()));
        keys.map(|keys| Self { keys, file: None }).ok_or_else(|| MasterKeyError::Malformed(origin.to_owned()))
    }

    /// Reads the keys of a file. `None` when there is no such file.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else.
    pub fn read(path: &Path) -> Result<Option<Self>, MasterKeyError> {
        let Some(text) = key_file::read(path)? else { return Ok(None) };
        let keyring = Self::parse(&text, &path.display().to_string())?;
        Ok(Some(Self { file: Some(path.to_owned()), ..keyring }))
    }

    /// Makes a file with a new key, readable only by its owner. When another process has made the
    /// file meanwhile, it returns that key.
    pub fn create(path: &Path) -> Result<Self, MasterKeyError> {
        key_file::create(path)?;
        Self::read(path)?.ok_or_else(|| MasterKeyError::gone(path))
    }

    /// The first key. A rotation makes it the key that encrypts.
    ///
    /// # Panics
    /// Never: there is always a key.
    #[must_use]
    pub fn first(&self) -> &MasterKey {
        self.keys.first().expect("a keyring is made of one key or more")
    }

    /// All loaded keys.
    #[must_use]
    pub fn keys(&self) -> &[MasterKey] {
        &self.keys
    }

    /// The file that the keys come from. `None` for a setting.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The loaded key that fits a stored check value.
    #[must_use]
    pub fn fitting(&self, check_value: &[u8]) -> Option<&MasterKey> {
        self.keys.iter().find(|key| key.fits(check_value))
    }

    /// Decrypts a secret of a console user with the key that opens it.
    pub fn open_of_user(&self, name: &ConsoleUserName, sealed: &[u8]) -> Result<String, WrongKey> {
        self.keys.iter().find_map(|key| key.open_of_user(name, sealed).ok()).ok_or(WrongKey)
    }

    /// Decrypts a secret of an app with the key that opens it.
    pub fn open(&self, app_id: &AppId, sealed: &[u8]) -> Result<String, WrongKey> {
        self.keys.iter().find_map(|key| key.open(app_id, sealed).ok()).ok_or(WrongKey)
    }
}

#[cfg(test)]
mod tests {
    use hmac::Mac as _;

    use super::*;

    fn keyring(digits: &[&str]) -> Keyring {
        let keys: Vec<String> = digits.iter().map(|digit| digit.repeat(64)).collect();
        Keyring::parse(&keys.join(","), "test").unwrap()
    }

    #[test]
    fn a_secret_opens_with_its_key_and_its_app_only() {
        let (app, other) = (AppId::parse("a").unwrap(), AppId::parse("b").unwrap());
        let (first, second) = (keyring(&["1"]), keyring(&["2"]));
        let sealed = first.first().seal(&app, "pay key");
        assert_eq!(first.open(&app, &sealed), Ok("pay key".to_owned()));
        assert_eq!(first.open(&other, &sealed), Err(WrongKey));
        assert_eq!(second.open(&app, &sealed), Err(WrongKey));
        let mut damaged = sealed.clone();
        damaged[20] ^= 1;
        assert_eq!(first.open(&app, &damaged), Err(WrongKey));
        assert_eq!(first.open(&app, &sealed[..5]), Err(WrongKey));
        assert_ne!(sealed, first.first().seal(&app, "pay key"), "a nonce is used once");
    }

    #[test]
    fn every_key_of_a_ring_decrypts() {
        let app = AppId::parse("a").unwrap();
        let both = keyring(&["2", "1"]);
        for digit in ["1", "2"] {
            let sealed = keyring(&[digit]).first().seal(&app, digit);
            assert_eq!(both.open(&app, &sealed), Ok(digit.to_owned()));
        }
    }

    /// Computed by Python's `hmac` from the derivation that the checkpoint's format documents.
    #[test]
    fn a_checkpoint_is_signed_under_a_key_derived_from_the_master_key() {
        let key = keyring(&["1"]).first().checkpoint_key();
        let signature = key.chain_update(b"text").finalize().into_bytes();
        assert_eq!(
            hex::encode(signature),
            "d6083cd59d84bea0ae0715cac0a1730c6a3f85c6125782990a6a17b35ea84860"
        );
    }

    #[test]
    fn a_check_value_tells_keys_apart() {
        let check = keyring(&["1"]).first().check_value();
        assert!(keyring(&["1"]).first().fits(&check) && !keyring(&["2"]).first().fits(&check));
        let both = keyring(&["2", "1"]);
        assert_eq!(both.fitting(&check).unwrap().id(), keyring(&["1"]).first().id());
        assert!(keyring(&["3"]).fitting(&check).is_none());
        assert_ne!(keyring(&["1"]).first().id(), keyring(&["2"]).first().id());
    }

    #[test]
    fn keys_are_64_digits_each_and_a_few_at_most() {
        let key = "1".repeat(64);
        let count = |text: &str| Keyring::parse(text, "test").map(|ring| ring.keys().len()).ok();
        assert_eq!(count(&format!(" {key}\n{}\r\n", "2".repeat(64))), Some(2));
        assert_eq!(count(&format!("{key}, {key}")), Some(2));
        for bad in ["", "11", &format!("{key},12"), &[key.as_str(); 9].join(",")] {
            assert_eq!(count(bad), None, "{bad}");
        }
    }
}
