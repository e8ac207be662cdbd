//! An idempotent request: it takes effect once, however often it is sent. It has an idempotency key, a
//! hash of its content, and the part of its answer that is known before the change.

use std::fmt;

use super::ids::{ApiKeyName, IdempotencyKey};

/// A request with an idempotency key.
#[derive(Clone, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// The API key of the caller. Two callers may use the same idempotency key.
    pub api_key: ApiKeyName,
    /// The name that the caller gave it.
    pub idempotency_key: IdempotencyKey,
    /// SHA-256 of what it asks for.
    pub content: [u8; 32],
    /// Random. It distinguishes this attempt from repeats.
    pub attempt: [u8; 16],
    /// The key that encrypts the stored answer.
    pub answer_key: [u8; 32],
}

/// It shows neither the key nor the answer, which may hold a secret.
impl fmt::Debug for IdempotentRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotentRequest({} {})", self.api_key, self.idempotency_key)
    }
}
