//! `GET /img/{imgId}`: pictures for the order center and its users.
//!
//! Whoever knows an id may see the picture. Its bytes never change, but it may be blocked, so caches
//! keep it for the time of `image.cache_max_age`. Nothing that a picture could hold is ever run.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use domain::fields::is_canonical_integer;
use domain::ids::ImgId;
use domain::text;
use futures_util::{StreamExt as _, stream};
use http_range_header::{EndPosition, StartPosition, SyntacticallyCorrectRange};
use pictures::{Format, Thumbnail};
use serde_json::json;
use store::{BlobCheck, BlobHash, PART_BYTES, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::extract::query_fields;
use crate::config::Config;
use crate::http::refusal::{Code, Refusal};
use crate::images::small_copies::{THUMBNAIL_WIDTHS, thumbnail_width};
use crate::openapi::{Content, Example, Field, IMG_ID, Operation, Place, Success, refusals};
use crate::state::AppState;

/// For how long a cache may show a picture once more while it asks again, in seconds.
const STALE_SECONDS: u32 = 86_400;
/// What a slow reader has of a picture in memory.
const SMALL_PIECE_BYTES: u64 = 8 * 1024;
/// A reader that takes a piece within this time may get a large one next.
const QUICK: Duration = Duration::from_millis(250);

/// A header of every answer of `/img/`, refusals too. Without it, a game in a browser cannot make a texture of a
/// picture of another origin (contract 5.7.11).
pub(super) const OF_ANY_ORIGIN: (HeaderName, HeaderValue) =
    (header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));

/// What a browser is told that asks before it sends headers of its own, such as `Range` of several parts.
const PREFLIGHT: [(HeaderName, HeaderValue); 3] = [
    (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD")),
    // The star does not stand for this one (Fetch, "CORS protocol and credentials").
    (header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*, Authorization")),
    (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400")),
];

/// The headers of every picture.
const HEADERS: [(HeaderName, HeaderValue); 4] = [
    // A picture is shown and nothing else, wherever it is opened.
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    // Pages of other origins may show it.
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("cross-origin")),
    (header::ACCEPT_RANGES, HeaderValue::from_static("bytes")),
];

/// `GET` and `HEAD /img/{imgId}`, with `w` for a small copy.
///
/// # Errors
/// 404 for an id that is unknown or blocked, 400 for another width or a query that cannot be read, 500
/// and 503.
pub async fn image(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    // A browser or cache that asks for a picture must see by the status that it gets none.
    let query = query_fields(request.uri())
        .map_err(|fault| Refusal::transport(StatusCode::BAD_REQUEST, fault.text()))?;
    let width = query.text("w").map(asked_width).transpose()?;
    let name = request.uri().path().rsplit('/').next().unwrap_or_default();
    let Ok(img_id) = ImgId::parse(name) else { return Err(no_such_image()) };
    let image = state.store.image(&img_id).await?.filter(|image| !image.is_blocked);
    let image = image.ok_or_else(no_such_image)?;
    let asked = ImageRequest::new(&request, &img_id, width, state.config.image.cache_max_age);
    if asked.has_it {
        // Its length stays untold: that of no bytes would be told of the picture (RFC 9110, 8.6).
        let nothing = stream::empty::<Result<Bytes, StoreError>>();
        return Ok(answer(StatusCode::NOT_MODIFIED, &asked, Body::from_stream(nothing)));
    }
    match width {
        // A small copy is never larger than the picture.
        Some(width) if width < image.side => {
            let Thumbnail { format, bytes } = state.picture_work.small_copy(&image, width).await?;
            let length = bytes.len() as u64;
            let part = asked.part(length);
            let body = match part.range.clone() {
                None => Body::empty(),
                Some(range) if length <= SMALL_PIECE_BYTES => slice(bytes, &range).into(),
                Some(range) => {
                    // A slow reader must not hold all of it.
                    drop(bytes);
                    streamed(state, BytesOf::SmallCopy(image.contents, width), range, length).await?
                }
            };
            Ok(partial(&asked, format, &part, body))
        }
        Some(_) | None => {
            let part = asked.part(image.byte_length);
            let body = match part.range.clone() {
                None => Body::empty(),
                Some(range) => {
                    streamed(state, BytesOf::Picture(image.contents), range, image.byte_length).await?
                }
            };
            Ok(partial(&asked, image.format, &part, body))
        }
    }
}

/// The answer to the preflight of a browser, an `OPTIONS` that says which method it is about (contract 5.7.11). It tells
/// nothing of the image.
pub(super) fn preflight(asked: &HeaderMap) -> Option<Response> {
    if !asked.contains_key(header::ORIGIN) || !asked.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().extend(PREFLIGHT);
    Some(response)
}

fn asked_width(text: &str) -> Result<u32, Refusal> {
    thumbnail_width(text).ok_or_else(|| {
        let widths = THUMBNAIL_WIDTHS.map(|width| width.to_string()).join(", ");
        let shown = domain::fields::shown(text);
        Refusal::transport(
            StatusCode::BAD_REQUEST,
            text!("w: expected one of {widths}, got {shown}", widths, shown),
        )
    })
}

// An id that was never given out and a picture that is blocked are the same to a stranger.
refusals! { Refusal:
    /// The image is unknown or blocked.
    no_such_image() => Refusal {
        transport: Some(StatusCode::NOT_FOUND),
        ..Refusal::new(Code::ImageNotFound, "imgId: there is no such image; expected an imgId that an upload answered")
    };
}

/// The conditions and the range in the headers of a request (RFC 9110, 13 and 14).
struct ImageRequest {
    etag: HeaderValue,
    /// The caller has these very bytes.
    has_it: bool,
    /// The `Range` header, where it is to be followed.
    range: Option<HeaderValue>,
    /// For how long caches keep the answer.
    caching: String,
}

impl ImageRequest {
    fn new(request: &Request, img_id: &ImgId, width: Option<u32>, max_age: Duration) -> Self {
        let headers = request.headers();
        let small = width.map(|width| format!("-{width}")).unwrap_or_default();
        let etag = format!("\"{img_id}{small}\"");
        let known = headers.get_all(header::IF_NONE_MATCH).iter();
        let known = known.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        // Weak comparison, as RFC 9110 has it for this header.
        let has_it = known.map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag);
        // A range of other bytes than the caller has a part of would make a broken file.
        let is_the_same = headers.get(header::IF_RANGE).is_none_or(|tag| tag.as_bytes() == etag.as_bytes());
        let is_get = request.method() == Method::GET;
        let range = headers.get(header::RANGE).filter(|_| is_get && is_the_same).cloned();
        let etag = HeaderValue::from_str(&etag).unwrap_or(HeaderValue::from_static("\"\""));
        let caching =
            format!("public, max-age={}, stale-while-revalidate={STALE_SECONDS}", max_age.as_secs());
        Self { etag, has_it, range, caching }
    }

    /// What to send of `length` bytes. A header that makes no sense, or asks for several ranges, is
    /// as none.
    fn part(&self, length: u64) -> SentRange {
        let range = self.range.as_ref().and_then(|range| range.to_str().ok()).map(in_usual_form);
        let range = range.as_deref();
        if range.is_some_and(is_of_no_bytes) {
            return SentRange { status: StatusCode::RANGE_NOT_SATISFIABLE, range: None, length };
        }
        let ranges = range.and_then(|text| http_range_header::parse_range_header(text).ok());
        let last = length.saturating_sub(1);
        let range = match ranges.as_ref().map(|ranges| ranges.ranges.as_slice()) {
            Some([SyntacticallyCorrectRange { start, end }]) => first_and_last(*start, *end, last),
            _ => None,
        };
        let (status, range) = match range {
            None => (StatusCode::OK, Some(0..=last)),
            Some((first, _)) if first > last => (StatusCode::RANGE_NOT_SATISFIABLE, None),
            Some((first, last)) => (StatusCode::PARTIAL_CONTENT, Some(first..=last)),
        };
        SentRange { status, range, length }
    }
}

/// A header as the parser reads it. Its unit is in small letters, and it has no position above 64 bits, because every
/// picture ends before (RFC 9110, 14.1).
fn in_usual_form(range: &str) -> String {
    let Some((unit, positions)) =
        range.split_once('=').filter(|(unit, _)| unit.eq_ignore_ascii_case("bytes"))
    else {
        return range.to_owned();
    };
    let clipped = |position: &str| {
        let is_above = is_canonical_integer(position) && position.parse::<u64>().is_err();
        if is_above { u64::MAX.to_string() } else { position.to_owned() }
    };
    let positions: Vec<_> = positions.split('-').map(clipped).collect();
    format!("{}={}", unit.to_ascii_lowercase(), positions.join("-"))
}

/// Whether a header asks for the last 0 bytes, which the parser takes for a mistake.
fn is_of_no_bytes(range: &str) -> bool {
    range
        .strip_prefix("bytes=-")
        .is_some_and(|count| !count.is_empty() && count.bytes().all(|digit| digit == b'0'))
}

/// The first and the last byte of a range, of bytes up to `last`; nothing for one that ends before it begins.
fn first_and_last(start: StartPosition, end: EndPosition, last: u64) -> Option<(u64, u64)> {
    match (start, end) {
        (StartPosition::Index(first), EndPosition::Index(end)) if end < first => None,
        (StartPosition::Index(first), EndPosition::Index(end)) => Some((first, end.min(last))),
        (StartPosition::Index(first), EndPosition::LastByte) => Some((first, last)),
        // Of fewer bytes than are asked for, all.
        (StartPosition::FromLast(count), _) => Some(((last + 1).saturating_sub(count), last)),
    }
}

/// The bytes of a picture that are sent.
struct SentRange {
    status: StatusCode,
    /// None of them, where a range was asked for that is not there.
    range: Option<RangeInclusive<u64>>,
    /// Of the whole.
    length: u64,
}

fn partial(asked: &ImageRequest, format: Format, part: &SentRange, body: Body) -> Response {
    let mut response = answer(part.status, asked, body);
    let Some(range) = &part.range else {
        set(&mut response, header::CONTENT_RANGE, &format!("bytes */{}", part.length));
        // It is no answer to whoever asks for another part.
        response.headers_mut().remove(header::ETAG);
        set(&mut response, header::CACHE_CONTROL, "no-store");
        return response;
    };
    let (start, end) = (range.start(), range.end());
    set(&mut response, header::CONTENT_TYPE, format.media_type());
    set(&mut response, header::CONTENT_LENGTH, &(end - start + 1).to_string());
    if part.status == StatusCode::PARTIAL_CONTENT {
        set(&mut response, header::CONTENT_RANGE, &format!("bytes {start}-{end}/{}", part.length));
    }
    response
}

fn answer(status: StatusCode, asked: &ImageRequest, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::ETAG, asked.etag.clone());
    response.headers_mut().extend(HEADERS);
    set(&mut response, header::CACHE_CONTROL, &asked.caching);
    response
}

fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// What is sent.
#[derive(Clone, Copy)]
enum BytesOf {
    Picture(BlobHash),
    /// Of a picture, of this width.
    SmallCopy(BlobHash, u32),
}

/// The bytes, a piece at a time, as fast as the caller takes them. The first one is there before the
/// answer begins.
async fn streamed(
    state: AppState,
    bytes_of: BytesOf,
    range: RangeInclusive<u64>,
    length: u64,
) -> Result<Body, StoreError> {
    let (position, end) = (*range.start(), *range.end() + 1);
    let check = match bytes_of {
        BytesOf::Picture(contents) if position == 0 && end == length => Some(contents.check()),
        BytesOf::Picture(_) | BytesOf::SmallCopy(..) => None,
    };
    let one = Arc::new(Semaphore::new(1));
    let mut pieces = Pieces { state, bytes_of, position, end, check, one, loaded: None };
    let first = pieces.next().await?;
    let rest = stream::try_unfold(pieces, |mut pieces| async move {
        if pieces.position >= pieces.end {
            return Ok(None);
        }
        let piece = pieces.next().await?;
        Ok(Some((piece, pieces)))
    });
    Ok(Body::from_stream(stream::once(async move { Ok::<_, StoreError>(first) }).chain(rest)))
}

/// What is still to be sent of a picture.
struct Pieces {
    state: AppState,
    bytes_of: BytesOf,
    position: u64,
    end: u64,
    /// Of a whole picture the last piece is sent only if all of them are the right bytes. So a caller has the picture,
    /// or knows that it has not.
    check: Option<BlobCheck>,
    /// The right to have one piece in memory.
    one: Arc<Semaphore>,
    /// When the last piece was there.
    loaded: Option<Instant>,
}

impl Pieces {
    /// Waits until the caller has taken the last piece, and reads the next one. So a reader holds one
    /// piece in memory: a small one, unless it was quick and there is room for a large one.
    async fn next(&mut self) -> Result<Bytes, StoreError> {
        let closed = |_| StoreError::Internal("nobody closes the semaphore".to_owned());
        let one = Arc::clone(&self.one).acquire_owned().await.map_err(closed)?;
        let is_quick = self.loaded.is_some_and(|loaded| loaded.elapsed() < QUICK);
        let large = Arc::clone(&self.state.large_pieces);
        let large = is_quick.then(|| large.try_acquire_owned().ok()).flatten();
        let bytes_max = if large.is_some() { PART_BYTES as u64 } else { SMALL_PIECE_BYTES };
        let end = self.end.min(self.position + bytes_max);
        // In a box: a reader that waits above has no room for a query.
        let bytes = Box::pin(self.read(end)).await?;
        self.position += bytes.len() as u64;
        if let Some(check) = &mut self.check {
            check.add(&bytes, self.position == self.end)?;
        }
        self.loaded = Some(Instant::now());
        Ok(Bytes::from_owner(Piece { bytes, _one: one, _large: large }))
    }

    /// Some of the bytes before `end`.
    async fn read(&self, end: u64) -> Result<Bytes, StoreError> {
        let store = &self.state.store;
        match &self.bytes_of {
            BytesOf::Picture(contents) => store.contents_piece(contents, self.position..end).await,
            BytesOf::SmallCopy(contents, width) => {
                store.thumbnail_piece(contents, *width, self.position, end - self.position).await
            }
        }
    }
}

/// A piece in memory, with what it takes up until the caller has it.
struct Piece {
    bytes: Bytes,
    _one: OwnedSemaphorePermit,
    _large: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn slice(bytes: Vec<u8>, range: &RangeInclusive<u64>) -> Bytes {
    let bytes = Bytes::from(bytes);
    let at = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(bytes.len());
    bytes.slice(at(*range.start())..at(*range.end() + 1))
}

/// The text of the API's document about `GET`.
pub(super) fn describe_get(_: &Config) -> Operation<Refusal> {
    let range = "One range of bytes. Several ranges, or one that makes no sense, get the whole picture.";
    let if_range = "The range is meant for this entity tag only.";
    let part = Success::new("part", "A part of it, where `Range` asked for one.", 206, Content::Picture);
    let behind = "The range begins behind the end.";
    describe("See a picture", Content::Picture)
        .with(
            Place::Header,
            [Field::optional::<String>("Range", range), Field::optional::<String>("If-Range", if_range)],
        )
        .answers(tagged(part))
        .answers(Success::new("range_not_satisfiable", behind, 416, Content::Empty))
}

/// The text of the API's document about `HEAD`.
pub(super) fn describe_head(_: &Config) -> Operation<Refusal> {
    describe("Ask about a picture", Content::Empty)
}

fn describe(summary: &'static str, content: Content) -> Operation<Refusal> {
    let description = "Whoever knows an id may see the picture: there are no credentials. The bytes behind an id never \
                       change, but the picture may be blocked: caches keep it as `Cache-Control` says. An unknown id and a blocked picture are both 404. Refusals \
                       have their own status here.";
    let img_id = Field::required::<ImgId>("img_id", IMG_ID, "The id that an upload answered.");
    let width = Field::optional::<i64>("w", "A small copy of at most this width, in pixels.");
    let tags = Field::optional::<String>("If-None-Match", "Entity tags that the caller has.");
    let wrong_width = asked_width("7").expect_err("the example is refused");
    Operation::new(summary, description)
        .with(Place::Path, [img_id])
        .with(Place::Query, [width.demand("enum", json!(THUMBNAIL_WIDTHS))])
        .with(Place::Header, [tags])
        .answers(tagged(Success::new("whole", "The picture, or its small copy.", 200, content)))
        .answers(tagged(Success::new("not_modified", "The caller has these bytes.", 304, Content::Empty)))
        .refuses([
            Example::new("wrong_width", "There is no small copy of this width.", wrong_width),
            example::no_such_image(),
        ])
}

fn tagged(success: Success) -> Success {
    success.header("ETag", "The picture's entity tag.", format!("\"{IMG_ID}\""))
}
