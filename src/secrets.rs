//! Secrets: random tokens and keys, and the master keys that encrypt what must be read back
//! (contract 9).

mod key_file;
mod keyring;
mod password;

use sha2::{Digest, Sha256};

use crate::domain::ids::ImgId;

pub use key_file::{MasterKeyError, keep_only, put_in_front, random_master_key};
pub use keyring::{CheckpointKey, Keyring, MasterKey, WrongKey};
pub use password::{PasswordHash, Unhashable};

const KEY_TEXT_CHARS: usize = 32;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_texts_have_their_length_and_alphabet() {
        let key = random_key_text();
        assert!(key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_eq!(random_token().len(), 64);
        assert_ne!(random_token(), random_token());
    }
}
