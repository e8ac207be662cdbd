//! The two ways to upload a cover image, by file and by URL, with one acceptance path
//! (contract 5.1 and 5.2).

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::BytesMut;
use domain::body::BodyKind;
use domain::caller::Caller;
use domain::fields::{Fields, Misplacement, UnreadableFields, shown};
use domain::text;
use domain::text::Text;
use futures_util::{Stream, TryStreamExt as _};
use guarded_fetch::bulkhead::Permit;
use guarded_fetch::{FetchError, TrustedUrl};
use pictures::{self, Unacceptable};
use telemetry::traces::{self, SpanKind};
use tokio::time::{Instant, timeout};

use super::called_app::note_fields;
use super::extract::{fields_of_any_kind, header_credentials, query_with};
use crate::http::body::{
    BoxedError, PACE_BYTES, announced_bytes, paced, read_body, read_start, refuse_announced, too_large,
    too_slow_at_pace,
};
use crate::http::multipart::{self, PartHead};
use crate::http::rate_limit::Limited;
use crate::http::refusal::{Advice, Code, FetchAdvice, Refusal};
use crate::openapi::refusals;
use crate::public::auth::{CREDENTIALS, authenticate};
use crate::state::{AppState, KIB};

mod acceptance;
mod describe;

use acceptance::accept;
pub(super) use describe::{describe_with_file, describe_with_url};

/// Largest multipart body: a picture, and room for parts that are skipped. What a client may send
/// behind its refusal, too (`crates/http-server/src/socket.rs`), is counted up to 11 MB in all.
pub const UPLOAD_BODY_BYTES_MAX: usize = pictures::BYTES_MAX + 256 * 1024;
/// What an upload takes in memory beside the picture: the reader's buffer.
const BESIDE_PICTURE_BYTES: usize = 64 * 1024;
/// How much of the beginning of a body is kept, to tell what is wrong with the head of a part.
const START_BYTES_MAX: usize = 8 * 1024;
/// How many parts the refusal of a body without the part `file` names.
const PARTS_NAMED_MAX: usize = 10;
/// Extensions a file name may have, where one is given (contract 5.1).
const EXTENSIONS: [&str; 3] = ["png", "jpg", "jpeg"];

/// `POST /openapi/mp/developer/file/img/uploadWithFile`.
///
/// # Errors
/// The codes of contract 7.1 that are marked images or all.
pub async fn upload_with_file(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let (query, body) = query_with(&CREDENTIALS, &state.config.http, &parts, body).await?;
    let caller = authenticate(&state, &query, Limited::Uploads).await?;
    state.disk_space.admit(state.clock.monotonic()).await?;
    let boundary = match multipart::boundary(&parts.headers) {
        Ok(boundary) => boundary,
        Err(refusal) => {
            let start = read_start(&state.config.http, body).await;
            return Err(with_kind(refusal, BodyKind::of(&start)));
        }
    };
    refuse_announced(&body, UPLOAD_BODY_BYTES_MAX)?;
    let announced = announced_bytes(&body);
    let picture_bytes = announced.unwrap_or(pictures::BYTES_MAX).min(pictures::BYTES_MAX);
    let permit = upload_permit(&state, &caller, picture_bytes + BESIDE_PICTURE_BYTES).await?;
    let time = state.config.http.body_timeout;
    let body = paced(body, announced.unwrap_or(PACE_BYTES), time);
    let bytes = read_file_part(body, boundary, picture_bytes).await?;
    accept(state, caller, "file", bytes, permit).await
}

/// `POST /openapi/mp/developer/file/img/uploadWithUrl`.
///
/// # Errors
/// The codes of contract 7.1 that are marked images or all.
pub async fn upload_with_url(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let (query, trailing_url) = split_trailing_url(parts.uri.query().unwrap_or_default());
    let mut fields = Fields::from_urlencoded(query.as_bytes())?;
    let url_in_query = trailing_url.is_some() || fields.text("url").is_some();
    // Credentials in the query are checked before the body is read.
    let mut caller = None;
    if CREDENTIALS.iter().all(|name| fields.text(name).is_some()) {
        caller = Some(authenticate_with_url(&state, &fields, trailing_url).await?);
    }
    if caller.is_none() || !url_in_query {
        let body = read_body(&state.config.http, body).await?;
        let body = fields_of_any_kind(&parts.headers, body).await?;
        fields.complete(&["app_id", "access_token", "url"], &body);
        let place = Misplacement { expected: "query or body", got: "header" };
        fields = fields.beside(&header_credentials(&parts.headers), place);
        if caller.is_some() {
            // The app was known before its body.
            note_fields(&fields);
        }
    }
    let caller = match caller {
        Some(caller) => caller,
        None => authenticate_with_url(&state, &fields, trailing_url).await?,
    };
    state.disk_space.admit(state.clock.monotonic()).await?;
    let url = match trailing_url {
        Some(url) => url.to_owned(),
        None => fields.required("url", |text| Ok(text.to_owned()))?,
    };
    let is_sandbox = caller.app().settings.sandbox;
    let trusted = is_sandbox.then(|| demo_picture(&state));
    let started = Instant::now();
    let fetched = state.fetcher.get(caller.app().id.as_str(), &url, trusted.as_ref()).await;
    trace_fetch(started, fetched.as_ref().err().copied());
    let fetched = fetched.map_err(|error| {
        state.metrics.fetch_refused(error);
        let advice = is_sandbox.then(|| Advice::Fetch(FetchAdvice { cause: cause_for_sandbox(error) }));
        Refusal { cause: Some(error.cause().to_owned()), data: advice, ..illegal_url() }
    })?;
    accept(state, caller, "url", fetched.bytes, fetched.permit).await
}

/// Checks the credentials. The URL that stands unencoded at the end of the query is no field. It is noted as one for
/// the list of the last calls (contract 18.3.2).
async fn authenticate_with_url(
    state: &AppState,
    fields: &Fields,
    trailing_url: Option<&str>,
) -> Result<Caller, Refusal> {
    let caller = authenticate(state, fields, Limited::Uploads).await;
    if let Some(url) = trailing_url {
        let mut noted = Fields::default();
        // What cannot be a field is not logged.
        let _ = noted.add_text("url".to_owned(), url.to_owned());
        note_fields(&noted);
    }
    caller
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

/// The cause of a failed fetch for a sandbox app (contract 5.3.17). Whatever would tell one address from
/// another has one name.
fn cause_for_sandbox(error: FetchError) -> &'static str {
    match error {
        FetchError::Url | FetchError::UrlTooLong | FetchError::UserInfo => "url_unreadable",
        FetchError::Scheme | FetchError::Downgrade => "scheme_not_allowed",
        FetchError::Port => "port_not_allowed",
        FetchError::Status | FetchError::Location => "status_not_200",
        FetchError::TooLarge | FetchError::HeaderTooLarge => "too_large",
        FetchError::Busy | FetchError::TimedOut => "too_slow",
        FetchError::TooManyRedirects => "too_many_redirects",
        FetchError::Encoded => "encoded",
        FetchError::NameNotFound
        | FetchError::AddressNotPublic
        | FetchError::ConnectFailed
        | FetchError::ConnectTimedOut
        | FetchError::NoCertificateStore
        | FetchError::Tls
        | FetchError::Broken => "not_reachable",
    }
}

refusals! { Refusal:
    /// There is no part `file`.
    file_missing(others = r#""image""#) => illegal(text!("file is missing; the parts are: {others}", others));
    /// The same for a sandbox app: it gets the cause.
    illegal_url_sandbox() => Refusal {
        data: Some(Advice::Fetch(FetchAdvice { cause: cause_for_sandbox(FetchError::Port) })),
        ..illegal_url()
    };
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

/// The URL of the demonstration's picture, the only URL of Minitill's own that may be fetched.
fn demo_picture(state: &AppState) -> TrustedUrl {
    TrustedUrl { url: state.config.demo_picture_url(), address: state.config.ops.reachable() }
}

fn illegal(text: impl Into<Text>) -> Refusal {
    Refusal::new(Code::IllegalParameter, text)
}

/// Splits an unencoded `url=` off the end of a query: real clients write it there as it is, `&`
/// and all (contract 5.2.4 and 5.2.5). It is the last parameter when no credential stands only after it. Gives the
/// query before it, and the URL as it stands there.
#[must_use]
pub fn split_trailing_url(query: &str) -> (&str, Option<&str>) {
    let start = if query.starts_with("url=") { Some(0) } else { query.find("&url=").map(|at| at + 1) };
    let Some(start) = start else { return (query, None) };
    let (before, rest) = (&query[..start], &query[start + "url=".len()..]);
    let value = rest.split('&').next().unwrap_or_default();
    let holds = |text: &str, name: &str| text.split('&').any(|pair| pair.split('=').next() == Some(name));
    let credential_after = CREDENTIALS.iter().any(|name| holds(rest, name) && !holds(before, name));
    if value.contains("://") && !credential_after {
        (before.trim_end_matches('&'), Some(rest))
    } else {
        (query, None)
    }
}

/// Streams the parts of a multipart body and gives the one named `file`, at most
/// [`pictures::BYTES_MAX`] bytes; the others are skipped unread (contract 5.1.4). Room for `expected` bytes
/// is made when the part begins.
///
/// # Errors
/// There is no such part, or two. The file name does not end as it should. The body is too long,
/// does not arrive, or is no multipart body.
pub async fn read_file_part(
    body: impl Stream<Item = Result<Bytes, BoxedError>> + Send + 'static,
    boundary: String,
    expected: usize,
) -> Result<Bytes, Refusal> {
    let constraints = multer::Constraints::new()
        .size_limit(multer::SizeLimit::new().whole_stream(UPLOAD_BODY_BYTES_MAX as u64));
    let kind = Arc::new(OnceLock::new());
    let start: Arc<Mutex<Vec<u8>>> = Arc::default();
    let (seen, kept) = (Arc::clone(&kind), Arc::clone(&start));
    let body = body.inspect_ok(move |chunk| {
        keep_start(&mut kept.lock().unwrap_or_else(PoisonError::into_inner), chunk);
        match chunk.trim_ascii_start() {
            [] => BodyKind::Nothing,
            // A boundary, behind which the first part may be cut.
            [b'-', b'-', ..] => *seen.get_or_init(|| BodyKind::Multipart),
            _ => *seen.get_or_init(|| BodyKind::of(chunk)),
        };
    });
    let delimiter = multipart::delimiter(&boundary);
    let unreadable = |error| {
        let start = start.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = kind.get().copied().unwrap_or(BodyKind::Nothing);
        unreadable(&error, kind, (start.as_slice(), &delimiter[..]))
    };
    let mut multipart = multer::Multipart::with_constraints(body, boundary, constraints);
    let mut file = None;
    let mut others = Vec::new();
    while let Some(mut part) = multipart.next_field().await.map_err(unreadable)? {
        let PartHead { name, file_name } = PartHead::of(part.headers());
        if name.as_deref() != Some("file") {
            others
                .extend((others.len() < PARTS_NAMED_MAX).then(|| shown(name.as_deref().unwrap_or_default())));
            continue;
        }
        if file.is_some() {
            return Err(illegal("file: expected once, given twice"));
        }
        check_file_name(file_name.as_deref())?;
        multipart::check_transfer_coding(part.headers(), "file")?;
        // All at once: growing would copy, and take up to twice as much. The kernel gives memory
        // only for what is written.
        let mut bytes = BytesMut::with_capacity(expected.min(pictures::BYTES_MAX));
        while let Some(chunk) = part.chunk().await.map_err(unreadable)? {
            if bytes.len() + chunk.len() > pictures::BYTES_MAX {
                let fault = Unacceptable::TooLong { bytes: bytes.len() + chunk.len() };
                return Err(unacceptable("file", &fault));
            }
            bytes.extend_from_slice(&chunk);
        }
        file = Some(bytes.freeze());
    }
    file.ok_or_else(|| {
        if others.is_empty() { illegal("file is missing") } else { file_missing(others.join(", ")) }
    })
}

/// Adds a piece of a body to its kept beginning, up to [`START_BYTES_MAX`].
fn keep_start(start: &mut Vec<u8>, chunk: &[u8]) {
    let room = START_BYTES_MAX - start.len();
    start.extend_from_slice(&chunk[..chunk.len().min(room)]);
}

/// The refusal of a picture in this field. What is wrong with damaged bytes is told in English.
fn unacceptable(field: &str, reason: &Unacceptable) -> Refusal {
    illegal(match reason {
        Unacceptable::Empty => text!("{field}: the picture is empty; a PNG or JPEG is expected", field),
        Unacceptable::TooLong { bytes } => text!(
            "{field}: the picture is {bytes} bytes long; at most {max} are accepted",
            field,
            bytes,
            max = pictures::BYTES_MAX
        ),
        Unacceptable::OtherFormat { kind } => {
            text!("{field}: it is {kind}; a PNG or JPEG is expected", field, kind = Text::new(kind))
        }
        Unacceptable::UnknownFormat { first_bytes } => text!(
            "{field}: the picture is neither a PNG nor a JPEG: its first bytes are {first_bytes}",
            field,
            first_bytes
        ),
        Unacceptable::NoPixels { width, height } => text!(
            "{field}: the picture is {width}x{height} pixels; width and height must not be zero",
            field,
            width,
            height
        ),
        Unacceptable::NotSquare { width, height } => text!(
            "{field}: the picture is {width}x{height} pixels; width and height must be equal",
            field,
            width,
            height
        ),
        Unacceptable::TooManyPixels { side } => text!(
            "{field}: the picture is {side}x{side} pixels; at most {max} pixels in all are accepted",
            field,
            side,
            max = pictures::PIXELS_MAX
        ),
        Unacceptable::UnsupportedJpeg { kind } => text!(
            "{field}: the JPEG is {kind}, which is not accepted; save it as a baseline or progressive 8-bit JPEG",
            field,
            kind = Text::new(kind)
        ),
        Unacceptable::TooManyScans { scans_max } => {
            text!("{field}: the JPEG has more than {scans_max} scans; save it again", field, scans_max)
        }
        Unacceptable::Truncated { format, detail } => {
            text!("{field}: the {format} is cut: {detail}", field, format = format.name(), detail)
        }
        Unacceptable::Corrupt { format, detail } => {
            text!("{field}: the {format} is corrupt: {detail}", field, format = format.name(), detail)
        }
    })
}

/// The refusal with what the body is, where that is no multipart body.
fn with_kind(refusal: Refusal, kind: BodyKind) -> Refusal {
    if kind == BodyKind::Multipart {
        return refusal;
    }
    let message = text!("{refusal}; the body is {kind}", refusal = refusal.message, kind = kind.name());
    Refusal { message, ..refusal }
}

/// The refusal of a body of this kind that begins with these bytes and has this delimiter. Before the first boundary plain text
/// may stand (RFC 2046, 5.1.1).
fn unreadable(error: &multer::Error, kind: BodyKind, (start, delimiter): (&[u8], &[u8])) -> Refusal {
    if let multer::Error::StreamReadFailed(cause) = error
        && let Some(fault) = cause.downcast_ref()
    {
        return too_slow_at_pace(fault);
    }
    match error {
        multer::Error::StreamSizeExceeded { .. } => too_large(UPLOAD_BODY_BYTES_MAX),
        multer::Error::IncompleteStream if !matches!(kind, BodyKind::Multipart | BodyKind::PlainText) => {
            UnreadableFields::WrongKind { expected: Text::same("multipart/form-data"), got: kind }.into()
        }
        other => illegal(text!(
            "body: expected a complete multipart body ({fault})",
            fault = multipart::fault(other, start, delimiter)
        )),
    }
}

/// A name without a dot, as `blob`, says nothing, and so does one that cannot be decoded: then the bytes decide.
fn check_file_name(file_name: Option<&str>) -> Result<(), Refusal> {
    let Some(name) = file_name else { return Ok(()) };
    let Some((_, extension)) = name.rsplit_once('.') else { return Ok(()) };
    if EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    let shown = shown(name);
    Err(illegal(text!("file: expected a file name that ends in png, jpg or jpeg, got {shown}", shown)))
}

#[cfg(test)]
mod tests;
