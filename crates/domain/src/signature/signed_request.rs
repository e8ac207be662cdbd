//! A request that is signed as a game server signs it (contract 3.2).

use serde::Serialize;

use super::PayKey;
use crate::fields::Fields;
use crate::wallet::canonical_string;

/// Fields that are never signed (contract 3.1).
const NOT_SIGNED: [&str; 2] = ["access_token", "sign"];

/// A signed request.
#[derive(Debug, Serialize)]
pub struct SignedRequest {
    // The command shows them in this order: each follows from the one before.
    string_to_sign: String,
    sign: String,
    /// Form-encoded, with `sign`.
    pub body: String,
}

impl SignedRequest {
    /// Signs all fields except those that are never signed.
    #[must_use]
    pub fn of(key: &PayKey, fields: &Fields) -> Self {
        let signed = fields.texts().filter(|(name, _)| !NOT_SIGNED.contains(name));
        let string_to_sign = canonical_string(signed);
        let sign = key.sign(&string_to_sign);
        let body = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields.texts().filter(|(name, _)| *name != "sign"))
            .append_pair("sign", &sign)
            .finish();
        Self { string_to_sign, sign, body }
    }
}
