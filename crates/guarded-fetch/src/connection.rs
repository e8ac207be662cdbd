//! One connection to one of several addresses, and one GET on it.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::FetchSettings;
use super::error::FetchError;
use super::target::Target;
use super::tls::Tls;

/// Addresses of one host that are tried.
const ADDRESSES_TRIED_MAX: usize = 16;
/// The least time an address gets before the next one is tried.
const ADDRESS_TIME_MIN: Duration = Duration::from_millis(250);
/// Bytes of an answer's header.
const HEADER_BYTES_MAX: usize = 32 * 1024;
/// Lines of an answer's header.
pub(super) const HEADER_LINES_MAX: usize = 100;
/// Bytes that a connection reads ahead.
pub(super) const READ_BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Bytes of an answer beside its body: headers, interim answers, the framing of chunks.
const BESIDE_BODY_BYTES_MAX: u64 = 128 * 1024;

/// The content codings of IANA's registry that change the bytes, and names in use for them.
const CODINGS: [&str; 16] = [
    "gzip",
    "x-gzip",
    "deflate",
    "x-deflate",
    "br",
    "brotli",
    "zstd",
    "x-zstd",
    "compress",
    "x-compress",
    "dcb",
    "dcz",
    "bzip2",
    "exi",
    "pack200-gzip",
    "aes128gcm",
];

/// The answer of an origin.
#[derive(Debug)]
pub(super) enum Reply {
    /// The whole body of a 200.
    Body(Bytes),
    /// The `Location` of a redirect, not checked yet.
    Redirect(Bytes),
}

/// A TCP or TLS connection.
pub(super) trait OriginStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> OriginStream for S {}

/// Connects to one of these addresses, sends one GET and reads its answer. The caller has checked the
/// addresses, and bounds the time after the connection is open. The connection closes when this ends
/// or is dropped.
pub(super) async fn get(
    target: &Target,
    addresses: &[SocketAddr],
    tls: &Tls,
    settings: &FetchSettings,
) -> Result<Reply, FetchError> {
    let request = get_request(target, settings)?;
    let stream = open(target, addresses, settings.connect_timeout, tls).await?;
    // Interim answers (100, 103) have no end of their own and count as neither header nor body. The
    // connection seems closed at this limit. Twice the body, so that chunks may cost as much as
    // they carry.
    let received_bytes_max = u64::try_from(settings.bytes_max).unwrap_or(u64::MAX).saturating_mul(2);
    let (reader, writer) = tokio::io::split(stream);
    let reader = reader.take(received_bytes_max.saturating_add(BESIDE_BODY_BYTES_MAX));
    let (mut sender, connection) = http1::Builder::new()
        .max_headers(HEADER_LINES_MAX)
        .max_header_size(HEADER_BYTES_MAX)
        .max_buf_size(READ_BUFFER_BYTES_MAX)
        // Old servers write both, and browsers read them. The connection carries one answer, so nothing can hide
        // behind a line that two programs read differently.
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .handshake(TokioIo::new(tokio::io::join(reader, writer)))
        .await
        .map_err(|error| failure(&error))?;
    let answering = async {
        let response = sender.send_request(request).await.map_err(|error| failure(&error))?;
        read(response, settings.bytes_max).await
    };
    // Driven here and not in a task of its own, so that nothing outlives the fetch. The connection's
    // error reaches `answering` too, after the data before it.
    let driving = async {
        let _ = connection.await;
        pending::<Infallible>().await
    };
    tokio::select! {
        answer = answering => answer,
        never = driving => match never {},
    }
}

/// Connects to one of these addresses, with TLS if the target is https, within `time` in all.
pub(super) async fn open(
    target: &Target,
    addresses: &[SocketAddr],
    time: Duration,
    tls: &Tls,
) -> Result<Box<dyn OriginStream>, FetchError> {
    if !target.is_https() {
        return Ok(Box::new(connect(addresses, time).await?));
    }
    let connector = tls.connector().await?;
    let server_name = target.server_name()?;
    let connecting = async {
        let stream = connect(addresses, time).await?;
        connector.connect(server_name, stream).await.map_err(|_| FetchError::Tls)
    };
    let stream = timeout(time, connecting).await.map_err(|_| FetchError::ConnectTimedOut)??;
    Ok(Box::new(stream))
}

/// Connects to the first address that accepts, within `time` in all. Each address gets an equal part
/// of the time that is left, so that a silent address leaves time for the others.
async fn connect(addresses: &[SocketAddr], time: Duration) -> Result<TcpStream, FetchError> {
    let tried = addresses.len().min(ADDRESSES_TRIED_MAX);
    let deadline = Instant::now() + time;
    let mut error = FetchError::ConnectFailed;
    for (address, to_go) in addresses.iter().zip((1..=tried).rev()) {
        let left = deadline.saturating_duration_since(Instant::now());
        let to_go = u32::try_from(to_go).unwrap_or(u32::MAX);
        let part = (left / to_go).max(ADDRESS_TIME_MIN).min(left);
        match timeout(part, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Without it a request in two writes waits for an acknowledgement.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(_)) => error = FetchError::ConnectFailed,
            Err(_) => error = FetchError::ConnectTimedOut,
        }
    }
    Err(error)
}

/// A GET without a body. It holds no cookies and no authorisation, only host and path of the URL.
fn get_request(target: &Target, settings: &FetchSettings) -> Result<Request<Empty<Bytes>>, FetchError> {
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = Uri::from(target.path_and_query()?);
    let headers = request.headers_mut();
    headers.insert(header::HOST, target.host_header()?);
    headers.insert(header::USER_AGENT, HeaderValue::from_static(settings.user_agent));
    headers.insert(header::ACCEPT, HeaderValue::from_static(settings.accept));
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    Ok(request)
}

/// Reads an answer: a redirect to follow, or the body of a 200.
async fn read(response: Response<Incoming>, bytes_max: usize) -> Result<Reply, FetchError> {
    match response.status() {
        StatusCode::OK => {}
        StatusCode::MOVED_PERMANENTLY
        | StatusCode::FOUND
        | StatusCode::SEE_OTHER
        | StatusCode::TEMPORARY_REDIRECT
        | StatusCode::PERMANENT_REDIRECT => return location(&response).map(Reply::Redirect),
        _ => return Err(FetchError::Status),
    }
    let (parts, body) = response.into_parts();
    read_body(&parts.headers, body, bytes_max).await.map(Reply::Body)
}

/// Reads a body, and counts it as it streams.
pub(super) async fn read_body(
    headers: &HeaderMap,
    mut body: Incoming,
    bytes_max: usize,
) -> Result<Bytes, FetchError> {
    // Nothing is decompressed: a small answer must not become a large one.
    if [header::CONTENT_ENCODING, header::TRANSFER_ENCODING].iter().any(|name| is_coded(headers, name)) {
        return Err(FetchError::Encoded);
    }
    // What Content-Length announces.
    let announced = body.size_hint().exact().map_or(Ok(bytes_max), usize::try_from);
    let expected = announced.ok().filter(|expected| *expected <= bytes_max).ok_or(FetchError::TooLarge)?;
    // All at once: growing would copy, and take up to twice as much. The kernel gives memory when it
    // is written.
    let mut bytes = BytesMut::with_capacity(expected);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failure(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > bytes_max - bytes.len() {
            return Err(FetchError::TooLarge);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

/// Reads the first `bytes_max` bytes of a body, as far as they come before the deadline. The rest is left unread, and its
/// connection is closed.
pub(super) async fn read_beginning(mut body: Incoming, bytes_max: usize, deadline: Instant) -> Bytes {
    let mut bytes = BytesMut::new();
    while let Ok(Some(Ok(frame))) = timeout_at(deadline, body.frame()).await {
        let Ok(data) = frame.into_data() else { continue };
        let left = bytes_max - bytes.len();
        bytes.extend_from_slice(&data[..data.len().min(left)]);
        if data.len() > left {
            break;
        }
    }
    bytes.freeze()
}

/// The one `Location`; with two, nobody knows where the redirect leads.
fn location(response: &Response<Incoming>) -> Result<Bytes, FetchError> {
    let mut locations = response.headers().get_all(header::LOCATION).iter();
    match (locations.next(), locations.next()) {
        (Some(location), None) => Ok(Bytes::copy_from_slice(location.as_bytes())),
        (None | Some(_), _) => Err(FetchError::Location),
    }
}

/// Whether a header names a coding that changes the bytes. Other words do not count: object stores repeat what an uploader
/// wrote there, such as `aws-chunked` or `utf-8`, and the bytes are as they were.
fn is_coded(headers: &HeaderMap, name: &HeaderName) -> bool {
    let values = headers.get_all(name).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let mut codings =
        values.map(|value| value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii());
    codings.any(|coding| CODINGS.iter().any(|known| coding.eq_ignore_ascii_case(known.as_bytes())))
}

pub(super) fn failure(error: &hyper::Error) -> FetchError {
    if error.is_parse_too_large() { FetchError::HeaderTooLarge } else { FetchError::Broken }
}
