//! Secrets: random tokens and keys, and the master key that encrypts what must be read back
//! (contract 9). Pay keys and app secrets are AES-256-GCM with the app id as associated data.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use hmac::{Hmac, Mac as _};
use sha2::{Digest, Sha256};

use crate::domain::ids::{AppId, ImgId};

const NONCE_BYTES: usize = 12;
const KEY_TEXT_CHARS: usize = 32;
/// What the row of `master_key_check` decrypts to under the right key.
const CHECK_TEXT: &str = "minitill master key";
const CHECK_CONTEXT: &str = "master_key_check";
/// What the key that signs checkpoints is derived for.
const CHECKPOINT_CONTEXT: &[u8] = b"minitill checkpoint 1";

/// HMAC-SHA256 under the key that signs checkpoints, ready to take in the text.
pub type CheckpointKey = Hmac<Sha256>;

/// Random bytes from the operating system.
///
/// # Panics
/// When the operating system has no random source; nothing here is safe without one.
#[must_use]
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
    bytes
}

/// A fresh pay key or app secret: 32 letters and digits.
#[must_use]
pub fn random_key_text() -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = String::with_capacity(KEY_TEXT_CHARS);
    while text.len() < KEY_TEXT_CHARS {
        for byte in random_bytes::<32>() {
            // 248 is four times 62: larger bytes are dropped, so that every letter is as likely.
            if byte < 248 && text.len() < KEY_TEXT_CHARS {
                text.push(char::from(LETTERS[usize::from(byte) % LETTERS.len()]));
            }
        }
    }
    text
}

/// A fresh access token: 256 random bits in hexadecimal.
#[must_use]
pub fn random_token() -> String {
    hex::encode(random_bytes::<32>())
}

/// A fresh image id.
#[must_use]
pub fn random_img_id() -> ImgId {
    ImgId::from_random(random_bytes())
}

/// What is stored of an access token.
#[must_use]
pub fn token_hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// The master key, ready to use.
#[derive(Clone)]
pub struct Keyring {
    cipher: Aes256Gcm,
    checkpoint_key: CheckpointKey,
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keyring(..)")
    }
}

/// A secret in the database that the master key does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret in the database does not open with this master key")]
pub struct WrongKey;

/// Why there is no usable master key.
#[derive(Debug, thiserror::Error)]
pub enum MasterKeyError {
    /// Not 64 hexadecimal digits.
    #[error("{0}: expected 64 hexadecimal digits")]
    Malformed(String),
    /// The file cannot be read or made.
    #[error("the master key file {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Keyring {
    /// The key of this text; `origin` names where it came from in the error.
    ///
    /// # Errors
    /// Anything but 64 hexadecimal digits.
    pub fn parse(text: &str, origin: &str) -> Result<Self, MasterKeyError> {
        let mut key = [0; 32];
        hex::decode_to_slice(text.trim(), &mut key)
            .map_err(|_| MasterKeyError::Malformed(origin.to_owned()))?;
        let derived = keyed(&key).chain_update(CHECKPOINT_CONTEXT).finalize().into_bytes();
        Ok(Self { cipher: Aes256Gcm::new(&key.into()), checkpoint_key: keyed(&derived.into()) })
    }

    /// The key in this file; `None` when there is no such file.
    ///
    /// # Errors
    /// A file that cannot be read or holds something else.
    pub fn read(path: &Path) -> Result<Option<Self>, MasterKeyError> {
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, &path.display().to_string()).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(MasterKeyError::File { path: path.to_owned(), source }),
        }
    }

    /// Makes a new key in this file, readable by its owner only. Where another process made one
    /// meanwhile, that one is taken.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path) -> Result<Self, MasterKeyError> {
        let fault = |source| MasterKeyError::File { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(fault)?;
        }
        // Written beside and linked into place: nobody ever reads half a key.
        let draft = path.with_extension(format!("new-{}", std::process::id()));
        let text = format!("{}\n", hex::encode(random_bytes::<32>()));
        let _ = fs::remove_file(&draft);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(fault)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(fault)?;
        let linked = fs::hard_link(&draft, path);
        let _ = fs::remove_file(&draft);
        match linked {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(fault(error)),
        }
        Self::read(path)?.ok_or_else(|| fault(io::ErrorKind::NotFound.into()))
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

    /// What signs the checkpoints of audits: a key of its own, derived from the master key.
    #[must_use]
    pub fn checkpoint_key(&self) -> CheckpointKey {
        self.checkpoint_key.clone()
    }

    /// What to store so that [`Keyring::fits`] can tell this key from others.
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
        let nonce = random_bytes::<NONCE_BYTES>();
        let payload = Payload { msg: secret.as_bytes(), aad: context.as_bytes() };
        let sealed = self
            .cipher
            .encrypt(&Nonce::from(nonce), payload)
            .expect("AES-GCM encrypts texts of less than 64 GiB");
        [nonce.as_slice(), &sealed].concat()
    }

    fn open_text(&self, context: &str, sealed: &[u8]) -> Result<String, WrongKey> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(WrongKey)?;
        let payload = Payload { msg: sealed, aad: context.as_bytes() };
        let bytes = self.cipher.decrypt(&Nonce::from(*nonce), payload).map_err(|_| WrongKey)?;
        String::from_utf8(bytes).map_err(|_| WrongKey)
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

    fn keyring(digit: &str) -> Keyring {
        Keyring::parse(&digit.repeat(64), "test").unwrap()
    }

    #[test]
    fn a_secret_opens_with_its_key_and_its_app_only() {
        let (app, other) = (AppId::parse("a").unwrap(), AppId::parse("b").unwrap());
        let sealed = keyring("1").seal(&app, "pay key");
        assert_eq!(keyring("1").open(&app, &sealed), Ok("pay key".to_owned()));
        assert_eq!(keyring("1").open(&other, &sealed), Err(WrongKey));
        assert_eq!(keyring("2").open(&app, &sealed), Err(WrongKey));
        let mut damaged = sealed.clone();
        damaged[20] ^= 1;
        assert_eq!(keyring("1").open(&app, &damaged), Err(WrongKey));
        assert_eq!(keyring("1").open(&app, &sealed[..5]), Err(WrongKey));
        assert_ne!(sealed, keyring("1").seal(&app, "pay key"), "a nonce is used once");
    }

    #[test]
    fn a_check_value_tells_keys_apart() {
        assert!(keyring("1").fits(&keyring("1").check_value()));
        assert!(!keyring("2").fits(&keyring("1").check_value()));
    }

    #[test]
    fn a_key_file_is_made_once_and_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = std::env::temp_dir().join(format!("minitill-key-{}", std::process::id()));
        let path = folder.join("master.key");
        assert!(Keyring::read(&path).unwrap().is_none());
        let first = Keyring::create(&path).unwrap();
        assert!(Keyring::create(&path).unwrap().fits(&first.check_value()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "short").unwrap();
        assert!(matches!(Keyring::read(&path), Err(MasterKeyError::Malformed(_))));
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Computed by Python's `hmac` from the derivation that the checkpoint's format documents.
    #[test]
    fn a_checkpoint_is_signed_under_a_key_derived_from_the_master_key() {
        let signature = keyring("1").checkpoint_key().chain_update(b"text").finalize().into_bytes();
        assert_eq!(
            hex::encode(signature),
            "d6083cd59d84bea0ae0715cac0a1730c6a3f85c6125782990a6a17b35ea84860"
        );
    }

    #[test]
    fn random_texts_have_their_length_and_alphabet() {
        let key = random_key_text();
        assert!(key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_eq!(random_token().len(), 64);
        assert_ne!(random_token(), random_token());
    }
}
