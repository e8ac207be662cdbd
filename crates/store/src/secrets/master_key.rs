//! A master key (contract 9.4). It encrypts pay keys, app secrets and the secrets of second
//! factors with AES-256-GCM. The app id or the user is the associated data.

use domain::console_user::ConsoleUserName;
use domain::ids::AppId;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use super::cipher::Cipher;

/// A row of `master_key_check` decrypts to this text under the right key.
const CHECK_TEXT: &str = "minitill master key";
const CHECK_CONTEXT: &str = "master_key_check";
/// The purpose in the derivation of the key that signs checkpoints.
const CHECKPOINT_CONTEXT: &[u8] = b"minitill checkpoint 1";

/// HMAC-SHA256 under the key that signs checkpoints.
pub type CheckpointKey = Hmac<Sha256>;

/// A master key.
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

/// No loaded master key opens a secret of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret in the database does not open with this master key")]
pub struct WrongKey;

impl MasterKey {
    /// Parses a key of 64 hexadecimal digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut key = [0; 32];
        hex::decode_to_slice(text, &mut key).ok()?;
        // 64 bits of a hash of 256 random bits identify a key, and do not help to find it.
        let id = hex::encode(&Sha256::digest([b"minitill master key id".as_slice(), &key].concat())[..8]);
        let derived = keyed(&key).chain_update(CHECKPOINT_CONTEXT).finalize().into_bytes();
        Some(Self { id, cipher: Cipher::new(&key), checkpoint_key: keyed(&derived.into()) })
    }

    /// The id of the key for people and the operator's log: 16 hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Encrypts a secret of an app.
    #[must_use]
    pub fn seal(&self, app_id: &AppId, secret: &str) -> Vec<u8> {
        self.cipher.seal(app_id.as_str(), secret)
    }

    /// Decrypts a secret of an app.
    ///
    /// # Errors
    /// Another key, another app, or damaged bytes.
    pub fn open(&self, app_id: &AppId, sealed: &[u8]) -> Result<String, WrongKey> {
        self.cipher.open(app_id.as_str(), sealed).ok_or(WrongKey)
    }

    /// Encrypts a secret of a console user.
    #[must_use]
    pub fn seal_of_user(&self, name: &ConsoleUserName, secret: &str) -> Vec<u8> {
        self.cipher.seal(&context_of_user(name), secret)
    }

    /// Decrypts a secret of a console user.
    ///
    /// # Errors
    /// Another key, another user, or damaged bytes.
    pub fn open_of_user(&self, name: &ConsoleUserName, sealed: &[u8]) -> Result<String, WrongKey> {
        self.cipher.open(&context_of_user(name), sealed).ok_or(WrongKey)
    }

    /// The derived key that signs the checkpoints of audits.
    #[must_use]
    pub fn checkpoint_key(&self) -> CheckpointKey {
        self.checkpoint_key.clone()
    }

    /// A value to store, with which [`MasterKey::fits`] recognises this key.
    #[must_use]
    pub fn check_value(&self) -> Vec<u8> {
        self.cipher.seal(CHECK_CONTEXT, CHECK_TEXT)
    }

    /// True when a stored check value was made with this key.
    #[must_use]
    pub fn fits(&self, check_value: &[u8]) -> bool {
        self.cipher.open(CHECK_CONTEXT, check_value).is_some_and(|text| text == CHECK_TEXT)
    }
}

/// The associated data of a user's secrets. No app id has a blank.
fn context_of_user(name: &ConsoleUserName) -> String {
    format!("console user {name}")
}

/// HMAC under a key. The key is filled up with zeros to a block (RFC 2104).
fn keyed(key: &[u8; 32]) -> CheckpointKey {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    CheckpointKey::new(&block.into())
}
