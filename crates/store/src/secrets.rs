//! Secrets (contract 9.4): random tokens and keys, hashes, and the master keys that encrypt stored
//! secrets.

mod cipher;
mod key_file;
mod keyring;
mod master_key;
mod password;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::ids::ImgId;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest, Sha256};

pub use cipher::Cipher;
pub use key_file::{MasterKeyError, keep_only, put_in_front, random_master_key};
pub use keyring::Keyring;
pub use master_key::{CheckpointKey, MasterKey, WrongKey};
pub use password::{Unhashable, hash_password, password_fits, password_of_nobody};

const KEY_TEXT_CHARS: usize = 32;
/// The prefix of every API key, so that people and scanners recognise one.
const API_KEY_PREFIX: &str = "mtk_";

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

/// A new pay key or app secret: 32 letters and digits.
#[must_use]
pub fn random_key_text() -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = String::with_capacity(KEY_TEXT_CHARS);
    while text.len() < KEY_TEXT_CHARS {
        for byte in random_bytes::<32>() {
            // 248 is four times 62. Larger bytes are dropped, so that every letter has the same
            // probability.
            if byte < 248 && text.len() < KEY_TEXT_CHARS {
                text.push(char::from(LETTERS[usize::from(byte) % LETTERS.len()]));
            }
        }
    }
    text
}

/// A new access token or login code: 256 random bits in hexadecimal.
#[must_use]
pub fn random_token() -> String {
    hex::encode(random_bytes::<32>())
}

/// A new session key: 128 random bits in base64 (contract 11.2).
#[must_use]
pub fn random_session_key() -> String {
    BASE64_STANDARD.encode(random_bytes::<16>())
}

/// A new image id.
#[must_use]
pub fn random_img_id() -> ImgId {
    ImgId::from_random(random_bytes())
}

/// The stored hash of an access token or a login code.
#[must_use]
pub fn token_hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// A new API key: `mtk_` and 256 random bits in hexadecimal.
#[must_use]
pub fn random_api_key() -> String {
    format!("{API_KEY_PREFIX}{}", random_token())
}

/// True when a text has the form of an API key.
#[must_use]
pub fn is_api_key(text: &str) -> bool {
    text.strip_prefix(API_KEY_PREFIX).is_some_and(|digits| {
        digits.len() == 64
            && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

/// The key that encrypts stored answers of the admin API. It is derived from the caller's API key,
/// which is not stored. So the database and the master key together open no answer.
///
/// # Panics
/// Never: HMAC takes keys of every length.
#[must_use]
pub fn answer_key(api_key: &str) -> [u8; 32] {
    let keyed = Hmac::<Sha256>::new_from_slice(api_key.as_bytes()).expect("HMAC takes keys of every length");
    keyed.chain_update(b"minitill answer 1").finalize().into_bytes().into()
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

    #[test]
    fn a_key_of_the_admin_api_is_known_when_it_is_seen() {
        assert!(is_api_key(&random_api_key()));
        let digits = "0a".repeat(32);
        assert!(is_api_key(&format!("mtk_{digits}")));
        for other in
            [digits.clone(), format!("mtk_{digits}0"), format!("mtk_{}", "0A".repeat(32)), String::new()]
        {
            assert!(!is_api_key(&other), "{other}");
        }
    }

    #[test]
    fn an_answer_opens_with_its_callers_key_and_in_its_context_only() {
        let (key, other) = (Cipher::new(&answer_key("a")), Cipher::new(&answer_key("b")));
        let sealed = key.seal("request 1", "secret");
        assert_eq!(key.open("request 1", &sealed).as_deref(), Some("secret"));
        assert_eq!((key.open("request 2", &sealed), other.open("request 1", &sealed)), (None, None));
    }
}
