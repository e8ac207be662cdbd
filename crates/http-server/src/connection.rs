//! One connection: hyper, the router behind it, and the watchdog beside it.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::header::{CONNECTION, HeaderValue};
use axum::http::{Request, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::Service;

use super::progress::{Phase, SharedProgress};
use super::socket::Socket;
use super::tls::Tls;
use super::wire::Wire;
use super::{Limits, stopped};

/// What hyper may hold of one connection, in each direction. A head fits in as well.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Serves the requests of one connection until it ends, runs into a limit, or `shutdown` fires and
/// the requests that have begun are answered. A handshake of TLS comes before, within the time that
/// a first byte may take.
pub(super) async fn run(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Tls>,
    router: Router,
    limits: Limits,
    shutdown: watch::Receiver<bool>,
) {
    let progress = SharedProgress::new(Instant::now());
    let mut stop = pin!(stopped(shutdown));
    let socket = match tls {
        None => Socket::plain(Wire::new(stream, progress.clone()), progress.clone()),
        Some(tls) => {
            let wire = Wire::beneath_tls(stream, progress.clone());
            let handshake = heeding(stop.as_mut(), &progress, tls.acceptor().accept(wire));
            match in_time(handshake, &progress, &limits).await {
                Ok(Ok(stream)) => Socket::tls(stream, progress.clone()),
                Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => return tracing::debug!("a TLS handshake ran out of time"),
            }
        }
    };
    let service = ConnectionService { router, peer, progress: progress.clone() };
    let mut connection = protocol(&limits).serve_connection(TokioIo::new(socket), service);
    match in_time(heeding(stop, &progress, &mut connection), &progress, &limits).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection ended early"),
        Err(phase) => {
            tracing::debug!(?phase, "a connection ran out of time");
            return;
        }
    }
    // hyper leaves the socket open when the client has offered to upgrade the connection.
    let mut socket = connection.into_parts().io.into_inner();
    if !socket.is_write_closed() && in_time(socket.shutdown(), &progress, &limits).await.is_err() {
        tracing::debug!("a connection ran out of time while it closed");
    }
}

/// `work`, and `progress` told when `stop` ends.
async fn heeding<Work: Future>(
    mut stop: Pin<&mut impl Future<Output = ()>>,
    progress: &SharedProgress,
    work: Work,
) -> Work::Output {
    let mut work = pin!(work);
    poll_fn(|context| {
        // Before hyper is polled, so that an answer made in this very poll says that it is the last.
        if !progress.lock().is_draining() && stop.as_mut().poll(context).is_ready() {
            progress.lock().drain(Instant::now());
        }
        work.as_mut().poll(context)
    })
    .await
}

/// The output of `work`, or the phase in which the connection ran out of time.
async fn in_time<Work: Future>(
    work: Work,
    progress: &SharedProgress,
    limits: &Limits,
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

fn protocol(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // hyper's own header time-out also runs between requests; the watchdog is exact.
        .header_read_timeout(None)
        // A client that closes its write side behind a request still gets the answer, and a client
        // that goes away does not cut a handler in the middle of its work.
        .half_close(true)
        .max_header_size(limits.header_bytes_max)
        .max_buf_size(BUFFER_BYTES_MAX.max(limits.header_bytes_max));
    builder
}

/// Ready once `deadline` has passed. The alarm is set anew only when it would ring too late: that
/// it rings too early, for a deadline of a former phase, is rare and costs less.
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

/// Hands each request of a connection to the router and notes when it begins and ends.
struct ConnectionService {
    router: Router,
    peer: SocketAddr,
    progress: SharedProgress,
}

impl hyper::service::Service<Request<Incoming>> for ConnectionService {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        self.progress.lock().request_begins(request.body().size_hint().exact(), Instant::now());
        request.extensions_mut().insert(ConnectInfo(self.peer));
        let answer = self.router.clone().call(request);
        let progress = self.progress.clone();
        Box::pin(async move {
            let mut answer = answer.await?;
            if progress.lock().answers_last() {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(answer.map(|body| AnswerBody { body, progress }))
        })
    }
}

/// The body of an answer. hyper drops it when it has all of it.
struct AnswerBody {
    body: Body,
    progress: SharedProgress,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.progress.lock().answer_ends(Instant::now());
    }
}
