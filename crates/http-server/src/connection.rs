//! One connection: the TLS handshake, hyper with the handler behind it, and a watchdog beside it.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::header::{CONNECTION, HeaderValue};
use axum::http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConnection;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::Handler;
use crate::framing::HeadFault;
use crate::limits::ServerLimits;
use crate::progress::{Peer, Phase, SharedProgress};
use crate::socket::{Socket, Stream};
use crate::tls::TlsIdentity;
use crate::tracked_tcp::TrackedTcp;

/// How many bytes of a response a TLS session may hold.
const TLS_BYTES_MAX: usize = 16 * 1024;

/// Serves the requests of one connection until it ends or exceeds a limit. After `stop` ends, it
/// answers the requests that have begun and closes.
pub(super) async fn run(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsIdentity>,
    handler: impl Handler,
    limits: Arc<ServerLimits>,
    progress: SharedProgress,
    stop: impl Future<Output = ()>,
) {
    let mut stop = pin!(stop);
    let tcp = TrackedTcp::new(stream, progress.clone(), tls.is_some());
    let stream: Box<dyn Stream> = match tls {
        None => Box::new(tcp),
        Some(tls) => {
            let limited = |session: &mut ServerConnection| session.set_buffer_limit(Some(TLS_BYTES_MAX));
            // Without the box, every connection has room for a handshake.
            let handshake = Box::pin(tls.acceptor().accept_with(tcp, limited));
            let handshake = draining_after(stop.as_mut(), &progress, handshake);
            match in_time(handshake, &progress, &limits).await {
                Ok(Ok(stream)) => Box::new(stream),
                Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => return tracing::debug!("a TLS handshake ran out of time"),
            }
        }
    };
    let socket = Socket::new(stream, progress.clone(), limits.request_bytes_max);
    // Hands each request to the handler, and notes when it begins and ends.
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        // A head that came with the request before it is in hyper's hands already.
        let fault = progress.lock().request_begins(request.body().size_hint().exact(), Instant::now());
        request.extensions_mut().insert(Peer::new(peer, progress.clone()));
        let response = match fault {
            None => Ok(handler.clone().call(request.map(Body::new))),
            Some(fault) => Err(refused(fault)),
        };
        let progress = progress.clone();
        async move {
            let mut response = match response {
                Ok(response) => response.await?,
                Err(refusal) => refusal,
            };
            if fault.is_some() || progress.lock().is_last_response() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            // hyper drops the body when it has read all of it.
            let end = ResponseEnd(progress);
            Ok::<_, Infallible>(response.map(|body| {
                body.inspect_frame(move |_| {
                    let _ = &end;
                })
            }))
        }
    });
    let mut connection = http1_builder(&limits).serve_connection(TokioIo::new(socket), service);
    match in_time(draining_after(stop, &progress, &mut connection), &progress, &limits).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection ended early"),
        Err(phase) => return tracing::debug!(?phase, "a connection ran out of time"),
    }
    // After a request with an offer to upgrade, hyper ends without closing the socket.
    let mut socket = connection.into_parts().io.into_inner();
    if !socket.is_write_closed() && in_time(socket.shutdown(), &progress, &limits).await.is_err() {
        tracing::debug!("a connection ran out of time while it closed");
    }
}

/// The answer to a head with this fault.
fn refused(fault: HeadFault) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = match fault {
        HeadFault::BareLineFeed | HeadFault::Http2 => StatusCode::BAD_REQUEST,
        HeadFault::TransferCoding => StatusCode::NOT_IMPLEMENTED,
    };
    response
}

/// Runs `work`, and puts `progress` into the drain when `stop` ends.
async fn draining_after<Work: Future>(
    mut stop: Pin<&mut impl Future<Output = ()>>,
    progress: &SharedProgress,
    work: Work,
) -> Work::Output {
    let mut work = pin!(work);
    poll_fn(|context| {
        // This comes before hyper, because a response of this very poll must be marked as the last.
        if !progress.lock().is_draining() && stop.as_mut().poll(context).is_ready() {
            progress.lock().drain(Instant::now());
        }
        work.as_mut().poll(context)
    })
    .await
}

/// The watchdog: runs `work`, and gives the phase of the connection if its deadline passes first.
async fn in_time<Work: Future>(
    work: Work,
    progress: &SharedProgress,
    limits: &ServerLimits,
) -> Result<Work::Output, Phase> {
    let mut work = pin!(work);
    let mut alarm = pin!(sleep_until(Instant::now() + limits.header_timeout));
    poll_fn(|context| {
        if let Poll::Ready(output) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        let (phase, deadline) = {
            let progress = progress.lock();
            (progress.phase(), progress.deadline(limits))
        };
        poll_alarm(alarm.as_mut(), deadline, context).map(|()| Err(phase))
    })
    .await
}

/// Ready when `deadline` has passed.
///
/// The alarm is set again only if it would ring too late. It rarely rings too early, for the
/// deadline of a former phase, and that costs less than setting it at every poll.
fn poll_alarm(mut alarm: Pin<&mut Sleep>, deadline: Option<Instant>, context: &mut Context<'_>) -> Poll<()> {
    let Some(deadline) = deadline else { return Poll::Pending };
    if alarm.deadline() > deadline {
        alarm.as_mut().reset(deadline);
    }
    loop {
        ready!(alarm.as_mut().poll(context));
        if alarm.deadline() == deadline || Instant::now() >= deadline {
            return Poll::Ready(());
        }
        alarm.as_mut().reset(deadline);
    }
}

fn http1_builder(limits: &ServerLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // hyper's own time-out also runs between two requests. The watchdog is exact.
        .header_read_timeout(None)
        // A client that closes its write side after a request still gets the response. A client
        // that goes away does not cut a handler in the middle of its work.
        .half_close(true)
        .max_header_size(limits.header_bytes_max)
        // What hyper may hold of a connection in each direction. A head must fit in.
        .max_buf_size(limits.header_bytes_max);
    builder
}

/// Notes the end of a response when it is dropped.
struct ResponseEnd(SharedProgress);

impl Drop for ResponseEnd {
    fn drop(&mut self) {
        self.0.lock().response_ends(Instant::now());
    }
}
