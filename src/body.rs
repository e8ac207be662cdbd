//! Bodies of requests, read within a limit of bytes and of time (contract 2.7).

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use crate::config::Http;
use crate::error::{Code, Refusal};

/// Reads a body of at most `http.body_bytes_max` bytes within `http.body_timeout`.
///
/// # Errors
/// 413, 408, or a body that ends early.
pub async fn read_body(limits: &Http, body: Body) -> Result<Bytes, Refusal> {
    read_body_of(limits, body, limits.body_bytes_max).await
}

/// Reads a body of at most `bytes_max` bytes within `http.body_timeout`.
///
/// # Errors
/// 413, 408, or a body that ends early.
pub async fn read_body_of(limits: &Http, body: Body, bytes_max: usize) -> Result<Bytes, Refusal> {
    let reading = Limited::new(body, bytes_max).collect();
    let read = tokio::time::timeout(limits.body_timeout, reading).await;
    match read.map_err(|_| too_slow(limits.body_timeout))? {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(bytes_max)),
        Err(_) => Err(Refusal::new(Code::IllegalParameter, "body: expected a complete body")),
    }
}

/// 408 with the limit.
#[must_use]
pub fn too_slow(limit: Duration) -> Refusal {
    let seconds = limit.as_secs_f64();
    Refusal::transport(StatusCode::REQUEST_TIMEOUT, format!("body: expected within {seconds} s"))
}

/// 413 with the limit.
#[must_use]
pub fn too_large(bytes_max: usize) -> Refusal {
    Refusal::transport(StatusCode::PAYLOAD_TOO_LARGE, format!("body: expected at most {bytes_max} bytes"))
}
