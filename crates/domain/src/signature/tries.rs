//! A bounded search for what made a signature: everything that is computed counts.

use std::cell::Cell;

use hmac::digest::OutputSizeUser;
use hmac::{KeyInit, Mac};
use sha2::Digest;
use subtle::ConstantTimeEq as _;

use super::{PayKey, Sign, of_base64};

/// How many hashes and signatures a diagnosis computes at most.
pub(super) const TRIES_MAX: usize = 1000;

/// A signature as it came, and how often it may be compared yet.
pub(super) struct SignTries<'a> {
    pub(super) sign: &'a Sign,
    /// Its bytes, read as hexadecimal and as base64.
    readings: Vec<Vec<u8>>,
    left: Cell<usize>,
}

impl<'a> SignTries<'a> {
    pub(super) fn new(sign: &'a Sign) -> Self {
        let readings = hex::decode(&sign.text).into_iter().chain(of_base64(&sign.text)).collect();
        Self { sign, readings, left: Cell::new(TRIES_MAX) }
    }

    /// Whether another try may be made.
    pub(super) fn are_left(&self) -> bool {
        self.left.get() > 0
    }

    /// Takes one try. `false` when none is left.
    pub(super) fn takes_one(&self) -> bool {
        let is_left = self.are_left();
        self.left.set(self.left.get().saturating_sub(1));
        is_left
    }

    /// Whether this key signed this message.
    pub(super) fn fits(&self, key: &PayKey, message: impl AsRef<[u8]>) -> bool {
        self.sign.bytes.is_some() && self.takes_one() && key.verifies(message, self.sign)
    }

    /// Whether it is a hash of this text, in hexadecimal or base64.
    pub(super) fn is_hash<D: Digest>(&self, text: &str) -> bool {
        self.is_any(<D as Digest>::output_size(), || D::digest(text).to_vec())
    }

    /// Whether it is this kind of keyed hash of this text, in hexadecimal or base64.
    pub(super) fn is_keyed_hash<M: Mac + KeyInit + OutputSizeUser>(&self, key: &str, text: &str) -> bool {
        self.is_any(<M as OutputSizeUser>::output_size(), || {
            let keyed =
                <M as KeyInit>::new_from_slice(key.as_bytes()).expect("HMAC accepts keys of every length");
            keyed.chain_update(text).finalize().into_bytes().to_vec()
        })
    }

    /// Compares it with bytes, which are computed only where a reading has their length.
    fn is_any(&self, length: usize, bytes: impl FnOnce() -> Vec<u8>) -> bool {
        let mut fitting = self.readings.iter().filter(|reading| reading.len() == length).peekable();
        if fitting.peek().is_none() || !self.takes_one() {
            return false;
        }
        let bytes = bytes();
        fitting.any(|reading| reading.ct_eq(&bytes).into())
    }

    /// How many tries were made.
    #[cfg(test)]
    pub(super) fn made(&self) -> usize {
        TRIES_MAX - self.left.get()
    }
}
