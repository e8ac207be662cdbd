//! Master keys: what encrypts pay keys and app secrets, AES-256-GCM with the app id as associated
//! data (contract 9). While a key is being replaced, several are at hand and all of them decrypt.

use std::path::{Path, PathBuf};

use domain::ids::AppId;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest, Sha256};

use super::cipher::Cipher;
use super::key_file::{self, MasterKeyError};

/// More keys than any rotation needs: a new one, and what unfinished rotations have left.
const KEYS_MAX: usize = 8;
/// What a row of `master_key_check` decrypts to under the right key.
const CHECK_TEXT: &str = "minitill master key";
const CHECK_CONTEXT: &str = "master_key_check";
/// What the key that signs checkpoints is derived for.
const CHECKPOINT_CONTEXT: &[u8] = b"minitill checkpoint 1";

/// HMAC-SHA256 under the key that signs checkpoints, ready to take in the text.
pub type CheckpointKey = Hmac<Sha256>;

/// One master key, ready to use.
#[derive(Clone)]
pub struct MasterKey {
    id: String,
    cipher: Cipher,
    checkpoint_key: CheckpointKey,
}

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MasterKey({})", self.id)
    }
}

/// The master keys at hand: one, and in a rotation several. Never empty.
#[derive(Debug, Clone)]
pub struct Keyring {
    keys: Vec<MasterKey>,
    /// Where they were read from, unless from a setting.
    file: Option<PathBuf>,
}

/// A secret in the database that no master key at hand opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret in the database does not open with this master key")]
pub struct WrongKey;

impl MasterKey {
    /// The key of 64 hexadecimal digits, or `None`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut key = [0; 32];
        hex::decode_to_slice(text, &mut key).ok()?;
        // 64 bits of a hash of 256 random bits: enough to tell keys apart, nothing to find one by.
        let id = hex::encode(&Sha256::digest([b"minitill master key id".as_slice(), &key].concat())[..8]);
        let derived = keyed(&key).chain_update(CHECKPOINT_CONTEXT).finalize().into_bytes();
        Some(Self { id, cipher: Cipher::new(&key), checkpoint_key: keyed(&derived.into()) })
    }

    /// A name for people and for the operator's log: 16 hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Encrypts a secret of an app.
    #[must_use]
    pub fn seal(&self, app_id: &AppId, secret: &str) -> Vec<u8> {
        self.seal_text(app_id.as_str(), secret)
    }

    /// Decrypts a secret of an app.
    ///
    /// # Errors
    /// Another key, another app, or damaged bytes.
    pub fn open(&self, app_id: &AppId, sealed: &[u8]) -> Result<String, WrongKey> {
        self.open_text(app_id.as_str(), sealed)
    }

    /// What signs the checkpoints of audits: a key of its own, derived from this one.
    #[must_use]
    pub fn checkpoint_key(&self) -> CheckpointKey {
        self.checkpoint_key.clone()
    }

    /// What to store so that [`MasterKey::fits`] can tell this key from others.
    #[must_use]
    pub fn check_value(&self) -> Vec<u8> {
        self.seal_text(CHECK_CONTEXT, CHECK_TEXT)
    }

    /// Whether a stored check value was made with this key.
    #[must_use]
    pub fn fits(&self, check_value: &[u8]) -> bool {
        self.open_text(CHECK_CONTEXT, check_value).is_ok_and(|text| text == CHECK_TEXT)
    }

    fn seal_text(&self, context: &str, secret: &str) -> Vec<u8> {
        self.cipher.seal(context, secret)
    }

    fn open_text(&self, context: &str, sealed: &[u8]) -> Result<String, WrongKey> {
        self.cipher.open(context, sealed).ok_or(WrongKey)
    }
}

impl Keyring {
    /// The keys of this text, separated by commas or white space; `origin` names where it came
    /// from in the error.
    ///
    /// # Errors
    /// Anything but 1 to 8 keys of 64 hexadecimal digits each.
    pub fn parse(text: &str, origin: &str) -> Result<Self, MasterKeyError> {
        let keys = key_file::texts(text).map(MasterKey::parse).collect::<Option<Vec<_>>>();
        let keys = keys.filter(|keys| (1..=KEYS_MAX).contains(&keys.len()));
        keys.map(|keys| Self { keys, file: None }).ok_or_else(|| MasterKeyError::Malformed(origin.to_owned()))
    }

    /// The keys in this file; `None` when there is no such file.
    ///
    /// # Errors
    /// A file that cannot be read or holds something else.
    pub fn read(path: &Path) -> Result<Option<Self>, MasterKeyError> {
        let Some(text) = key_file::read(path)? else { return Ok(None) };
        let keyring = Self::parse(&text, &path.display().to_string())?;
        Ok(Some(Self { file: Some(path.to_owned()), ..keyring }))
    }

    /// Makes a new key in this file, readable by its owner only. Where another process made one
    /// meanwhile, that one is taken.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path) -> Result<Self, MasterKeyError> {
        key_file::create(path)?;
        Self::read(path)?.ok_or_else(|| MasterKeyError::gone(path))
    }

    /// The key that a rotation makes the one that encrypts.
    ///
    /// # Panics
    /// Never: there is always a key.
    #[must_use]
    pub fn first(&self) -> &MasterKey {
        self.keys.first().expect("a keyring is made of one key or more")
    }

    /// Every key at hand.
    #[must_use]
    pub fn keys(&self) -> &[MasterKey] {
        &self.keys
    }

    /// The file the keys came from; `None` when it was a setting.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The key at hand that made a stored check value.
    #[must_use]
    pub fn fitting(&self, check_value: &[u8]) -> Option<&MasterKey> {
        self.keys.iter().find(|key| key.fits(check_value))
    }

    /// Decrypts a secret of an app with whichever key opens it.
    ///
    /// # Errors
    /// None does.
    pub fn open(&self, app_id: &AppId, sealed: &[u8]) -> Result<String, WrongKey> {
        self.keys.iter().find_map(|key| key.open(app_id, sealed).ok()).ok_or(WrongKey)
    }
}

/// HMAC under a key, which is filled up with zeros to a block, as RFC 2104 says.
fn keyed(key: &[u8; 32]) -> CheckpointKey {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    CheckpointKey::new(&block.into())
}

#[cfg(test)]
mod tests {
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
