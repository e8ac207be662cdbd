//! The hash of a blob.

use std::fmt;

use pictures::Kept;
use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::error::{Result, StoreError};

/// SHA-256 of a blob. The public API never shows it: the id of an image is random (contract 5.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(transparent)]
pub struct BlobHash([u8; 32]);

impl BlobHash {
    /// Hashes these bytes. It takes long for a large picture.
    #[must_use]
    pub fn of(contents: &[u8]) -> Self {
        Self(Sha256::digest(contents).into())
    }

    /// The hash that these bytes are.
    pub(super) const fn kept(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The hash of an accepted picture, which was computed with the picture.
    pub(super) const fn of_kept(kept: &Kept) -> Self {
        Self(kept.content_sha256)
    }

    /// Starts to compare bytes with this hash.
    #[must_use]
    pub fn check(&self) -> BlobCheck {
        BlobCheck { expected: *self, hash: Sha256::new() }
    }

    pub(super) const fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_array(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Compares the bytes of a blob with its hash, piece by piece.
#[derive(Debug, Clone)]
pub struct BlobCheck {
    expected: BlobHash,
    hash: Sha256,
}

impl BlobCheck {
    /// Adds the next piece.
    ///
    /// # Errors
    /// The piece was the last one, and the bytes do not have the hash.
    pub fn add(&mut self, piece: &[u8], is_last: bool) -> Result<()> {
        self.hash.update(piece);
        if is_last && self.hash.clone().finalize()[..] != self.expected.0 {
            return Err(lost(&self.expected, "they are other bytes"));
        }
        Ok(())
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl Serialize for BlobHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The error of a blob that is missing or damaged.
pub(super) fn lost(contents: &BlobHash, what: &str) -> StoreError {
    StoreError::Internal(format!("the contents {contents} of a picture: {what}"))
}

impl schemars::JsonSchema for BlobHash {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BlobHash".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })
    }
}
