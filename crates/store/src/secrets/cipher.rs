//! Encryption of texts with AES-256-GCM. A random nonce precedes each, and each is bound to a
//! context.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};

use super::random_bytes;

const NONCE_BYTES: usize = 12;

/// A cipher with its key.
#[derive(Clone)]
pub struct Cipher(Aes256Gcm);

impl Cipher {
    /// The cipher with this key.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        Self(Aes256Gcm::new(key.into()))
    }

    /// Encrypts a text. It opens only in the same context.
    ///
    /// # Panics
    /// Never: no text here has 64 GiB, the limit of AES-GCM.
    #[must_use]
    pub fn seal(&self, context: &str, text: &str) -> Vec<u8> {
        let nonce = random_bytes::<NONCE_BYTES>();
        let payload = Payload { msg: text.as_bytes(), aad: context.as_bytes() };
        let sealed =
            self.0.encrypt(&Nonce::from(nonce), payload).expect("AES-GCM encrypts texts of less than 64 GiB");
        [nonce.as_slice(), &sealed].concat()
    }

    /// Decrypts a text. `None` with another key, in another context, or when bytes are damaged.
    #[must_use]
    pub fn open(&self, context: &str, sealed: &[u8]) -> Option<String> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        let payload = Payload { msg: sealed, aad: context.as_bytes() };
        let bytes = self.0.decrypt(&Nonce::from(*nonce), payload).ok()?;
        String::from_utf8(bytes).ok()
    }
}
