//! Callbacks of payment providers, signed without the program's code.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::http::Request;

/// HMAC-SHA256.
pub fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

/// A callback of the standard format, signed at this Unix time as its specification says.
pub fn standard_at(path: &str, secret: &str, at: i64, body: &str) -> Request {
    let key = STANDARD.decode(secret.trim_start_matches("whsec_")).unwrap();
    let sign = STANDARD.encode(hmac(&key, format!("msg_1.{at}.{body}").as_bytes()));
    Request::post(path)
        .header("content-type", "application/json")
        .header("webhook-id", "msg_1")
        .header("webhook-timestamp", &at.to_string())
        .header("webhook-signature", &format!("v1,{sign}"))
        .body(body)
}
