//! The id of a request: the header `x-request-id` that came, or a fresh one (contract 2.8).

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use domain::redaction::holds_credential;
use store::secrets::random_bytes;

/// The header that carries a request's id.
pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest request id that is echoed.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// The id of a request, among its extensions.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) HeaderValue);

impl RequestId {
    /// The id as text.
    pub(crate) fn as_text(&self) -> String {
        self.0.to_str().unwrap_or_default().to_owned()
    }
}

/// The id that came, or a fresh one: what looks like a credential is not echoed (contract 2.8.5).
pub(crate) fn request_id(request: &Request) -> HeaderValue {
    let sent = request.headers().get(&REQUEST_ID).filter(|value| {
        (1..=REQUEST_ID_BYTES_MAX).contains(&value.len())
            && value.as_bytes().iter().all(u8::is_ascii_graphic)
            && !value.to_str().is_ok_and(holds_credential)
    });
    sent.cloned().unwrap_or_else(next_request_id)
}

/// An id of our own: what is random of it was asked for once, the rest counts.
fn next_request_id() -> HeaderValue {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| u64::from_be_bytes(random_bytes()));
    static MADE: AtomicU64 = AtomicU64::new(0);
    let bytes = u128::from(*PROCESS) << 64 | u128::from(MADE.fetch_add(1, Ordering::Relaxed));
    let mut text = [0; 32];
    // The text is twice as long as the bytes, and hexadecimal is visible ASCII.
    let _ = hex::encode_to_slice(bytes.to_be_bytes(), &mut text);
    HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("none"))
}
