//! Bodies of requests, read within a limit of bytes and of time (contract 2.7).

use std::error::Error;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use bytes::BytesMut;
use domain::body::content_coding;
use domain::fields::shown;
use domain::text;
use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::time::{Instant, timeout_at};

use crate::config::Http;
use crate::http::refusal::{Code, Refusal};

/// How long a refusal waits for a body that it need not have.
const START_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a sender may take before it is held to a pace.
const PACE_GRACE: Duration = Duration::from_secs(5);
/// What a body whose length is not announced is expected to bring, as far as its pace goes.
pub const PACE_BYTES: usize = 1024 * 1024;

/// The largest body of a call that takes neither a file nor many lines (contract 2.7.1). It holds the longest
/// exchange, with every byte of its values escaped.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// Refuses a body whose bytes are encoded, before it is read (contract 2.10.2). Nothing is decoded: a few bytes would
/// become many.
///
/// # Errors
/// 10000200 with the coding.
pub fn refuse_coding(request: &Request) -> Result<(), Refusal> {
    let values = request.headers().get_all(header::CONTENT_ENCODING).iter();
    match content_coding(values.map(|value| value.to_str().unwrap_or("?"))) {
        Some(coding) if !request.body().is_end_stream() => Err(coded(coding)),
        Some(_) | None => Ok(()),
    }
}

/// The refusal of a body with this content coding.
#[must_use]
pub fn coded(coding: &str) -> Refusal {
    let text = text!("content-encoding: expected none, got {coding}", coding = shown(coding));
    Refusal::new(Code::IllegalParameter, text)
}

/// The same on the operator's listener, which answers 415.
///
/// # Errors
/// 415 with the coding.
pub fn refuse_coding_as_type(request: &Request) -> Result<(), Refusal> {
    let as_type = |refusal| Refusal { transport: Some(StatusCode::UNSUPPORTED_MEDIA_TYPE), ..refusal };
    refuse_coding(request).map_err(as_type)
}

/// Reads a body of at most [`BODY_BYTES_MAX`] within `http.body_timeout`.
///
/// # Errors
/// 413, 408, or a body that ends early.
pub async fn read_body(limits: &Http, body: Body) -> Result<Bytes, Refusal> {
    read_body_of(limits, body, BODY_BYTES_MAX).await
}

/// Reads a body of at most `bytes_max` bytes within `http.body_timeout`. One that announces more is not asked for.
///
/// # Errors
/// 413, 408, or a body that ends early.
pub async fn read_body_of(limits: &Http, body: Body, bytes_max: usize) -> Result<Bytes, Refusal> {
    refuse_announced(&body, bytes_max)?;
    let reading = Limited::new(body, bytes_max).collect();
    let read = tokio::time::timeout(limits.body_timeout, reading).await;
    match read.map_err(|_| too_slow(limits.body_timeout))? {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(bytes_max)),
        Err(_) => Err(Refusal::new(Code::IllegalParameter, "body: expected a complete body")),
    }
}

/// The start of a body that is refused anyway, so that the refusal can name what stands in it. It has at
/// most [`BODY_BYTES_MAX`], and less when the body ends, stalls or breaks.
pub async fn read_start(limits: &Http, body: Body) -> Bytes {
    let mut start = BytesMut::new();
    let reading = async {
        let mut data = body.into_data_stream();
        while let Some(Ok(chunk)) = data.next().await {
            let room = BODY_BYTES_MAX - start.len();
            start.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if start.len() == BODY_BYTES_MAX {
                break;
            }
        }
    };
    // What has come until then is enough to look at.
    let _ = tokio::time::timeout(limits.body_timeout.min(START_TIMEOUT), reading).await;
    start.freeze()
}

/// How many bytes a body announces. `None` where it announces no length.
#[must_use]
pub fn announced_bytes(body: &Body) -> Option<usize> {
    body.size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Refuses a body that announces more than `bytes_max` bytes.
///
/// # Errors
/// 413 with the limit.
pub fn refuse_announced(body: &Body, bytes_max: usize) -> Result<(), Refusal> {
    if announced_bytes(body).is_some_and(|bytes| bytes > bytes_max) {
        Err(too_large(bytes_max))
    } else {
        Ok(())
    }
}

/// The data of a body as it comes, for as long as the sender keeps up the pace at which `expected` bytes arrive within
/// `time`. What takes up memory for long must bring something for it. Ends with [`TooSlow`], and in any case after
/// `time`.
pub fn paced(body: Body, expected: usize, time: Duration) -> impl Stream<Item = Result<Bytes, BoxedError>> {
    let grace = PACE_GRACE.min(time);
    let start = Instant::now();
    stream::try_unfold((body.into_data_stream(), 0), move |(mut data, received)| async move {
        let (part, whole) = (u32::try_from(received), u32::try_from(expected.max(1)));
        let (part, whole) = (part.unwrap_or(u32::MAX), whole.unwrap_or(u32::MAX));
        let earned = time.saturating_sub(grace).mul_f64(f64::from(part.min(whole)) / f64::from(whole));
        match timeout_at(start + grace + earned, data.next()).await {
            Err(_) => {
                let of_pace = grace + earned < time;
                let pace = of_pace.then(|| pace(expected, time.saturating_sub(grace)));
                Err(TooSlow { time, pace }.into())
            }
            Ok(None) => Ok(None),
            Ok(Some(Err(error))) => Err(error.into()),
            Ok(Some(Ok(chunk))) => {
                let received = received + chunk.len();
                Ok(Some((chunk, (data, received))))
            }
        }
    })
}

/// A fault of a body on its way.
pub type BoxedError = Box<dyn Error + Send + Sync>;

/// The bytes a second at which so many arrive within a time, rounded up.
fn pace(expected: usize, time: Duration) -> u128 {
    let millis = time.as_millis().max(1);
    (expected as u128 * 1000).div_ceil(millis)
}

/// A body that does not come within this time, or not at the pace for it.
#[derive(Debug, thiserror::Error)]
#[error("the body comes too slowly")]
pub struct TooSlow {
    /// The time for all of it.
    pub time: Duration,
    /// The bytes a second that were expected after the first seconds. `None` where the time itself was over.
    pub pace: Option<u128>,
}

/// 408 with the limit.
#[must_use]
pub fn too_slow(limit: Duration) -> Refusal {
    let seconds = limit.as_secs_f64();
    Refusal::transport(StatusCode::REQUEST_TIMEOUT, text!("body: expected within {seconds} s", seconds))
}

/// 408 of a body that was held to a pace, with the limit, and with the pace where the time was not over.
#[must_use]
pub fn too_slow_at_pace(fault: &TooSlow) -> Refusal {
    let seconds = fault.time.as_secs_f64();
    match fault.pace {
        None => too_slow(fault.time),
        Some(pace) => Refusal::transport(
            StatusCode::REQUEST_TIMEOUT,
            text!(
                "body: expected within {seconds} s, and it comes too slowly for that: after the first {grace} s at least {pace} bytes a second are expected",
                seconds,
                grace = PACE_GRACE.as_secs(),
                pace
            ),
        ),
    }
}

/// 408 of a large body, which must bring 1 MiB within this limit.
#[must_use]
pub fn too_slow_for_pace(limit: Duration) -> Refusal {
    let seconds = limit.as_secs_f64();
    Refusal::transport(StatusCode::REQUEST_TIMEOUT, text!("body: expected 1 MiB within {seconds} s", seconds))
}

/// 413 with the limit.
#[must_use]
pub fn too_large(bytes_max: usize) -> Refusal {
    Refusal::transport(
        StatusCode::PAYLOAD_TOO_LARGE,
        text!("body: expected at most {bytes_max} bytes", bytes_max),
    )
}
