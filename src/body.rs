//! Bodies of requests, read within a limit of bytes and of time (contract 2.7).

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use bytes::BytesMut;
use domain::text;
use futures_util::StreamExt as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use crate::config::Http;
use crate::error::{Code, Refusal};

/// How long a refusal waits for a body that it need not have.
const START_TIMEOUT: Duration = Duration::from_secs(1);

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

/// The start of a body that is refused anyway, so that the refusal can name what stands in it. It has at
/// most `http.body_bytes_max` bytes, and less when the body ends, stalls or breaks.
pub async fn read_start(limits: &Http, body: Body) -> Bytes {
    let mut start = BytesMut::new();
    let reading = async {
        let mut data = body.into_data_stream();
        while let Some(Ok(chunk)) = data.next().await {
            let room = limits.body_bytes_max - start.len();
            start.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if start.len() == limits.body_bytes_max {
                break;
            }
        }
    };
    // What has come until then is enough to look at.
    let _ = tokio::time::timeout(limits.body_timeout.min(START_TIMEOUT), reading).await;
    start.freeze()
}

/// 408 with the limit.
#[must_use]
pub fn too_slow(limit: Duration) -> Refusal {
    let seconds = limit.as_secs_f64();
    Refusal::transport(StatusCode::REQUEST_TIMEOUT, text!("body: expected within {seconds} s", seconds))
}

/// 413 with the limit.
#[must_use]
pub fn too_large(bytes_max: usize) -> Refusal {
    Refusal::transport(
        StatusCode::PAYLOAD_TOO_LARGE,
        text!("body: expected at most {bytes_max} bytes", bytes_max),
    )
}
