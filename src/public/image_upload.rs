//! The two ways to upload a cover image, by file and by URL, with one acceptance path
//! (contract 5.1 and 5.2).

use std::error::Error;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::BytesMut;
use domain::caller::Caller;
use domain::fields::{Expected, Fields};
use futures_util::{Stream, StreamExt as _, stream};
use guarded_fetch::bulkhead::Permit;
use guarded_fetch::{FetchError, TrustedUrl};
use pictures::{self, Unacceptable};
use telemetry::traces::{self, SpanKind};
use tokio::time::{Instant, timeout, timeout_at};

use super::extract::{fields_of_any_kind, multipart_boundary, query_fields};
use crate::body::{read_body, too_large, too_slow};
use crate::error::{Code, Refusal};
use crate::openapi::refusals;
use crate::public::auth::authenticate;
use crate::rate_limit::Limited;
use crate::state::{AppState, KIB};

mod acceptance;
mod describe;

use acceptance::accept;
pub(super) use describe::{describe_with_file, describe_with_url};

/// Largest multipart body: a picture, and room for parts that are skipped. What a client may send
/// behind its refusal, too (`server/socket.rs`), is counted up to 11 MB in all.
pub const UPLOAD_BODY_BYTES_MAX: usize = pictures::BYTES_MAX + 256 * 1024;
/// What an upload takes in memory beside the picture: the reader's buffer.
const BESIDE_PICTURE_BYTES: usize = 64 * 1024;
/// How long a sender may take before it is held to a pace.
const PACE_GRACE: Duration = Duration::from_secs(5);
/// What a body whose length is not announced is expected to bring, as far as its pace goes.
const PACE_BYTES: usize = 1024 * 1024;
/// Extensions a file name may have, where one is given (contract 5.1).
const EXTENSIONS: [&str; 3] = ["png", "jpg", "jpeg"];

/// `POST /openapi/mp/developer/file/img/uploadWithFile`.
///
/// # Errors
/// The codes of contract 7 that are marked images or all.
pub async fn upload_with_file(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let caller = authenticate(&state, &query_fields(&parts.uri)?, Limited::Uploads).await?;
    let boundary = multipart_boundary(&parts.headers)
        .ok_or_else(|| illegal("content type: expected multipart/form-data with a boundary"))?;
    let announced = body.size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if announced.is_some_and(|bytes| bytes > UPLOAD_BODY_BYTES_MAX) {
        return Err(too_large(UPLOAD_BODY_BYTES_MAX));
    }
    let picture_bytes = announced.unwrap_or(pictures::BYTES_MAX).min(pictures::BYTES_MAX);
    let permit = upload_permit(&state, &caller, picture_bytes + BESIDE_PICTURE_BYTES).await?;
    let time = state.config.http.body_timeout;
    let body = paced(body, announced.unwrap_or(PACE_BYTES), time);
    let bytes = read_file_part(body, boundary, picture_bytes).await?;
    accept(state, caller, bytes, permit).await
}

/// `POST /openapi/mp/developer/file/img/uploadWithUrl`.
///
/// # Errors
/// The codes of contract 7 that are marked images or all.
pub async fn upload_with_url(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let (query, trailing_url) = split_trailing_url(parts.uri.query().unwrap_or_default());
    let query = Fields::from_urlencoded(query.as_bytes())?;
    let names = ["app_id", "access_token"];
    let url_in_query = trailing_url.is_some() || query.text("url").is_some();
    // Credentials in the query are checked before the body is read.
    let mut caller = None;
    if names.iter().all(|name| query.text(name).is_some()) {
        caller = Some(authenticate(&state, &query, Limited::Uploads).await?);
    }
    let body = if caller.is_some() && url_in_query {
        Fields::default()
    } else {
        fields_of_any_kind(&parts.headers, read_body(&state.config.http, body).await?).await?
    };
    let caller = match caller {
        Some(caller) => caller,
        None => authenticate(&state, &merged_credentials(&query, &body)?, Limited::Uploads).await?,
    };
    let any_text = |text: &str| Ok::<_, Expected>(text.to_owned());
    let url = match trailing_url {
        Some(url) => url.to_owned(),
        None if url_in_query => query.required("url", any_text)?,
        None => body.required("url", any_text)?,
    };
    let trusted = caller.app().settings.sandbox.then(|| demo_picture(&state));
    let started = Instant::now();
    let fetched = state.fetcher.get(caller.app().id.as_str(), &url, trusted.as_ref()).await;
    trace_fetch(started, fetched.as_ref().err().copied());
    let fetched = fetched.map_err(|error| {
        state.metrics.fetch_refused(error);
        Refusal { cause: Some(error.cause().to_owned()), ..illegal_url() }
    })?;
    accept(state, caller, fetched.bytes, fetched.permit).await
}

/// Adds the span of a fetch. It has the outcome and never the address.
fn trace_fetch(started: Instant, error: Option<FetchError>) {
    if let Some(trace) = traces::current() {
        let outcome = error.map_or("fetched", FetchError::cause);
        trace.add(
            "fetch",
            SpanKind::Client,
            (started, Instant::now()),
            vec![("minitill.fetch.outcome", outcome.into())],
        );
    }
}

refusals! { Refusal:
    /// There is no part `file`.
    file_missing() => illegal("file is missing");
    /// No `url` came.
    url_missing() => illegal("url is missing");
    // It must not tell what is inside the network.
    /// The link is not a link, leads to no public address, or nothing could be fetched. One text for every cause.
    illegal_url() =>
        Refusal::new(Code::IllegalUrl, "url: expected a picture on a public http or https address");
}

/// Waits for permits for the memory of this upload, for a bounded time.
async fn upload_permit(state: &AppState, caller: &Caller, bytes: usize) -> Result<Permit, Refusal> {
    let kib = u32::try_from(bytes).unwrap_or(u32::MAX).div_ceil(KIB);
    let waiting = state.upload_memory.acquire(caller.app().id.as_str(), kib);
    timeout(state.config.http.body_timeout, waiting)
        .await
        .map_err(|_| Refusal::unavailable("the service is overloaded, try again", "no memory for an upload"))
}

/// The data of a body as it comes, for as long as the sender keeps up the pace at which `expected`
/// bytes arrive within `time`: what takes up memory for long must bring something for it. Ends with
/// [`TooSlow`], and in any case after `time`.
fn paced(body: Body, expected: usize, time: Duration) -> impl Stream<Item = Result<Bytes, BoxedError>> {
    let grace = PACE_GRACE.min(time);
    let start = Instant::now();
    stream::try_unfold((body.into_data_stream(), 0), move |(mut data, received)| async move {
        let (part, whole) = (u32::try_from(received), u32::try_from(expected.max(1)));
        let (part, whole) = (part.unwrap_or(u32::MAX), whole.unwrap_or(u32::MAX));
        let earned = time.saturating_sub(grace).mul_f64(f64::from(part.min(whole)) / f64::from(whole));
        match timeout_at(start + grace + earned, data.next()).await {
            Err(_) => Err(TooSlow(time).into()),
            Ok(None) => Ok(None),
            Ok(Some(Err(error))) => Err(error.into()),
            Ok(Some(Ok(chunk))) => {
                let received = received + chunk.len();
                Ok(Some((chunk, (data, received))))
            }
        }
    })
}

type BoxedError = Box<dyn Error + Send + Sync>;

/// A body that does not come within this time, or not at the pace for it.
#[derive(Debug, thiserror::Error)]
#[error("the body comes too slowly")]
struct TooSlow(Duration);

/// The URL of the demonstration's picture, the only URL of Minitill's own that may be fetched.
fn demo_picture(state: &AppState) -> TrustedUrl {
    TrustedUrl { url: state.config.demo_picture_url(), address: state.config.ops.reachable() }
}

fn illegal(text: impl Into<String>) -> Refusal {
    Refusal::new(Code::IllegalParameter, text)
}

/// Each credential from the query, else from the body.
fn merged_credentials(query: &Fields, body: &Fields) -> Result<Fields, Refusal> {
    let mut merged = Fields::default();
    for name in ["app_id", "access_token"] {
        if let Some(value) = query.text(name).or_else(|| body.text(name)) {
            merged.add_text(name.to_owned(), value.to_owned())?;
        }
    }
    Ok(merged)
}

/// Splits an unencoded `url=` off the end of a query: real clients write it there as it is, `&`
/// and all (contract 5). It is the last parameter when no credential stands only after it. Gives the
/// query before it, and the URL as it stands there.
#[must_use]
pub fn split_trailing_url(query: &str) -> (&str, Option<&str>) {
    let start = if query.starts_with("url=") { Some(0) } else { query.find("&url=").map(|at| at + 1) };
    let Some(start) = start else { return (query, None) };
    let (before, rest) = (&query[..start], &query[start + "url=".len()..]);
    let value = rest.split('&').next().unwrap_or_default();
    let holds = |text: &str, name: &str| text.split('&').any(|pair| pair.split('=').next() == Some(name));
    let credential_after =
        ["app_id", "access_token"].iter().any(|name| holds(rest, name) && !holds(before, name));
    if value.contains("://") && !credential_after {
        (before.trim_end_matches('&'), Some(rest))
    } else {
        (query, None)
    }
}

/// Streams the parts of a multipart body and gives the one named `file`, at most
/// [`pictures::BYTES_MAX`] bytes; the others are skipped unread (contract 5). Room for `expected` bytes
/// is made when the part begins.
///
/// # Errors
/// No such part or two, a file name that does not end as it should, a body that is too long, does
/// not arrive, or is no multipart body.
pub async fn read_file_part(
    body: impl Stream<Item = Result<Bytes, BoxedError>> + Send + 'static,
    boundary: String,
    expected: usize,
) -> Result<Bytes, Refusal> {
    let constraints = multer::Constraints::new()
        .size_limit(multer::SizeLimit::new().whole_stream(UPLOAD_BODY_BYTES_MAX as u64));
    let mut multipart = multer::Multipart::with_constraints(body, boundary, constraints);
    let mut file = None;
    while let Some(mut part) = multipart.next_field().await.map_err(|error| unreadable(&error))? {
        if part.name() != Some("file") {
            continue;
        }
        if file.is_some() {
            return Err(illegal("file: expected once, given twice"));
        }
        check_file_name(part.file_name())?;
        // All at once: growing would copy, and take up to twice as much. The kernel gives memory
        // only for what is written.
        let mut bytes = BytesMut::with_capacity(expected.min(pictures::BYTES_MAX));
        while let Some(chunk) = part.chunk().await.map_err(|error| unreadable(&error))? {
            if bytes.len() + chunk.len() > pictures::BYTES_MAX {
                let fault = Unacceptable::TooLong { bytes: bytes.len() + chunk.len() };
                return Err(illegal(format!("file: {fault}")));
            }
            bytes.extend_from_slice(&chunk);
        }
        file = Some(bytes.freeze());
    }
    file.ok_or_else(file_missing)
}

fn unreadable(error: &multer::Error) -> Refusal {
    if let multer::Error::StreamReadFailed(cause) = error
        && let Some(TooSlow(limit)) = cause.downcast_ref()
    {
        return too_slow(*limit);
    }
    match error {
        multer::Error::StreamSizeExceeded { .. } => too_large(UPLOAD_BODY_BYTES_MAX),
        other => illegal(format!("body: expected a complete multipart body ({other})")),
    }
}

fn check_file_name(file_name: Option<&str>) -> Result<(), Refusal> {
    let Some(name) = file_name.filter(|name| !name.is_empty()) else { return Ok(()) };
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    if extension.is_some_and(|extension| EXTENSIONS.contains(&extension.as_str())) {
        Ok(())
    } else {
        let shown = domain::fields::shown(name);
        Err(illegal(format!("file: expected a file name that ends in png, jpg or jpeg, got {shown}")))
    }
}

#[cfg(test)]
mod tests;
