//! One request on one connection of its own.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::refused::Refused;
use super::target::Target;
use super::tls::Tls;

/// Addresses of one host that are tried.
const ADDRESSES_TRIED_MAX: usize = 16;
/// The least time an address gets before the next one is tried.
const ADDRESS_TIME_MIN: Duration = Duration::from_millis(250);
/// Header of an answer.
const HEADER_BYTES_MAX: usize = 32 * 1024;
/// Header lines of an answer.
const HEADER_LINES_MAX: usize = 100;
/// What is read from a connection before it is taken over.
const READ_BUFFER_BYTES_MAX: usize = 64 * 1024;
/// What a connection may bring beside the body: headers, interim answers, the framing of chunks.
const BESIDE_BODY_BYTES_MAX: u64 = 128 * 1024;
/// Who asks.
const USER_AGENT: &str = concat!("minitill/", env!("CARGO_PKG_VERSION"));

/// What one request and its answer keep to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Time to connect, to all addresses and with TLS together.
    pub(super) connect_timeout: Duration,
    /// Bytes of the answer's body.
    pub(super) bytes_max: usize,
}

/// What an origin answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// The whole body of a 200.
    Body(Bytes),
    /// The `Location` of a redirect, not judged yet.
    Redirect(Bytes),
}

/// Connects to one of these addresses, sends one request and reads its answer.
///
/// The addresses are the caller's to judge, and so is the time of all that comes after connecting.
pub(super) async fn send(
    target: &Target,
    addresses: &[SocketAddr],
    limits: Limits,
    tls: &Tls,
    request: Request<Full<Bytes>>,
) -> Result<Answer, Refused> {
    let connect_timeout = limits.connect_timeout;
    if !target.is_https() {
        let stream = connect(addresses, connect_timeout).await?;
        return exchange(stream, request, limits.bytes_max).await;
    }
    let connector = tls.connector().await?;
    let server_name = target.server_name()?;
    let connecting = async {
        let stream = connect(addresses, connect_timeout).await?;
        connector.connect(server_name, stream).await.map_err(|_| Refused::Tls)
    };
    let stream = timeout(connect_timeout, connecting).await.map_err(|_| Refused::ConnectTimedOut)??;
    exchange(stream, request, limits.bytes_max).await
}

/// Connects to the first address that accepts, within `time` in all. Each address gets an equal
/// share of the time that is left, so that one that does not answer leaves some to the others.
async fn connect(addresses: &[SocketAddr], time: Duration) -> Result<TcpStream, Refused> {
    let tried = addresses.len().min(ADDRESSES_TRIED_MAX);
    let deadline = Instant::now() + time;
    let mut refused = Refused::ConnectFailed;
    for (address, to_go) in addresses.iter().zip((1..=tried).rev()) {
        let left = deadline.saturating_duration_since(Instant::now());
        let to_go = u32::try_from(to_go).unwrap_or(u32::MAX);
        let share = (left / to_go).max(ADDRESS_TIME_MIN).min(left);
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(_)) => refused = Refused::ConnectFailed,
            Err(_) => refused = Refused::ConnectTimedOut,
        }
    }
    Err(refused)
}

/// Sends the request and reads the answer. The connection closes when this ends or is dropped.
async fn exchange<S>(stream: S, request: Request<Full<Bytes>>, bytes_max: usize) -> Result<Answer, Refused>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    // Interim answers (100, 103) have no end of their own and count as neither header nor body. The
    // connection seems closed at this limit. Twice the body, so that chunks may cost as much as
    // they carry.
    let received_bytes_max = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_mul(2);
    let (reader, writer) = tokio::io::split(stream);
    let reader = reader.take(received_bytes_max.saturating_add(BESIDE_BODY_BYTES_MAX));
    let (mut sender, connection) = http1::Builder::new()
        .max_headers(HEADER_LINES_MAX)
        .max_header_size(HEADER_BYTES_MAX)
        .max_buf_size(READ_BUFFER_BYTES_MAX)
        .handshake(TokioIo::new(tokio::io::join(reader, writer)))
        .await
        .map_err(|error| failure(&error))?;
    let answering = async {
        let response = sender.send_request(request).await.map_err(|error| failure(&error))?;
        read(response, bytes_max).await
    };
    // Driven here and not in a task of its own, so that nothing outlives the fetch. What the
    // connection ended with reaches `answering` too, after what was read before.
    let driving = async {
        let _ = connection.await;
        pending::<Infallible>().await
    };
    tokio::select! {
        answer = answering => answer,
        never = driving => match never {},
    }
}

/// A GET without a body: no cookies, no authorisation, nothing of the caller's but host and path.
pub(super) fn get_request(target: &Target) -> Result<Request<Full<Bytes>>, Refused> {
    request(target, "image/png, image/jpeg", Bytes::new())
}

/// A request with what every request of ours says of itself.
pub(super) fn request(
    target: &Target,
    accept: &'static str,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Refused> {
    let mut request = Request::new(Full::new(body));
    *request.uri_mut() = Uri::from(target.path_and_query()?);
    let headers = request.headers_mut();
    headers.insert(header::HOST, target.host_header()?);
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    Ok(request)
}

/// Reads an answer: a redirect to follow, or the body of a 200, counted as it streams.
async fn read(response: Response<Incoming>, bytes_max: usize) -> Result<Answer, Refused> {
    match response.status() {
        StatusCode::OK => {}
        StatusCode::MOVED_PERMANENTLY
        | StatusCode::FOUND
        | StatusCode::SEE_OTHER
        | StatusCode::TEMPORARY_REDIRECT
        | StatusCode::PERMANENT_REDIRECT => return location(&response).map(Answer::Redirect),
        _ => return Err(Refused::Status),
    }
    // Nothing is decompressed: a small answer must not become a large one.
    if !all_are(&response, &header::CONTENT_ENCODING, "identity")
        || !all_are(&response, &header::TRANSFER_ENCODING, "chunked")
    {
        return Err(Refused::Encoded);
    }
    let mut body = response.into_body();
    // What Content-Length announces.
    let announced = body.size_hint().exact().map_or(Ok(bytes_max), usize::try_from);
    let expected = announced.ok().filter(|expected| *expected <= bytes_max).ok_or(Refused::TooLarge)?;
    // All at once: growing would copy, and take up to twice as much. The kernel gives memory only
    // for what is written.
    let mut bytes = BytesMut::with_capacity(expected);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failure(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > bytes_max - bytes.len() {
            return Err(Refused::TooLarge);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Answer::Body(bytes.freeze()))
}

/// The one `Location`; with two, nobody knows where the redirect leads.
fn location(response: &Response<Incoming>) -> Result<Bytes, Refused> {
    let mut locations = response.headers().get_all(header::LOCATION).iter();
    match (locations.next(), locations.next()) {
        (Some(location), None) => Ok(Bytes::copy_from_slice(location.as_bytes())),
        (None | Some(_), _) => Err(Refused::Location),
    }
}

/// Whether a header is absent or lists nothing but `expected`.
fn all_are(response: &Response<Incoming>, name: &HeaderName, expected: &str) -> bool {
    response.headers().get_all(name).iter().all(|value| {
        let mut parts = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        parts.all(|part| part.is_empty() || part.eq_ignore_ascii_case(expected.as_bytes()))
    })
}

fn failure(error: &hyper::Error) -> Refused {
    if error.is_parse_too_large() { Refused::HeaderTooLarge } else { Refused::Broken }
}
