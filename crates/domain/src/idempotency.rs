//! A request that takes effect once, however often it is sent: its name, what tells it from another
//! request of the same name, and what is known of its answer before the change is made.

use std::fmt;

use serde_json::{Map, Value};

use super::ids::{ApiKeyName, IdempotencyKey};

/// A request with an idempotency key.
#[derive(Clone, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// Whose it is: keys of two callers never meet.
    pub api_key: ApiKeyName,
    /// How the caller named it.
    pub idempotency_key: IdempotencyKey,
    /// SHA-256 of what it asks for.
    pub content: [u8; 32],
    /// Random; tells this try from repeats.
    pub attempt: [u8; 16],
    /// What its answer is encrypted with while it is kept.
    pub answer_key: [u8; 32],
    /// What is known of the answer beforehand.
    pub answer: Map<String, Value>,
}

impl IdempotentRequest {
    /// The whole answer: what was known beforehand, and what the change has told.
    #[must_use]
    pub fn answered(&self, told: Map<String, Value>) -> Value {
        let mut answer = self.answer.clone();
        answer.extend(told);
        Value::Object(answer)
    }
}

/// Neither the key nor the answer, which may hold a secret.
impl fmt::Debug for IdempotentRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotentRequest({} {})", self.api_key, self.idempotency_key)
    }
}
