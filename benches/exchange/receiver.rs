//! A receiver of events that takes everything at once, in a thread of its own.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Fallible;

const TAKEN: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

/// The receiver. It ends with the process.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    /// An address at which nobody listens.
    pub(crate) dead: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    events: AtomicU64,
    /// How long after its change each event came, while that is measured.
    delays: Mutex<Option<Vec<Duration>>>,
}

impl Receiver {
    pub(crate) fn start() -> Fallible<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let dead = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let seen = Arc::<Seen>::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let of_thread = Arc::clone(&seen);
        thread::spawn(move || {
            runtime.block_on(async move {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(take(stream, Arc::clone(&of_thread)));
                }
            });
        });
        Ok(Self { address, dead, seen })
    }

    /// The number of events that came.
    pub(crate) fn events(&self) -> u64 {
        self.seen.events.load(Ordering::Relaxed)
    }

    /// Measures from here on how late events come.
    pub(crate) fn measure(&self) {
        *self.delays() = Some(Vec::new());
    }

    /// The measurements.
    pub(crate) fn measured(&self) -> Vec<Duration> {
        self.delays().take().unwrap_or_default()
    }

    fn delays(&self) -> std::sync::MutexGuard<'_, Option<Vec<Duration>>> {
        self.seen.delays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes all events of a connection.
async fn take(mut stream: TcpStream, seen: Arc<Seen>) {
    let _ = stream.set_nodelay(true);
    let mut bytes = Vec::with_capacity(16 * 1024);
    loop {
        while let Some(length) = whole_request(&bytes) {
            seen.events.fetch_add(1, Ordering::Relaxed);
            if let Some(delays) = &mut *seen.delays.lock().unwrap_or_else(PoisonError::into_inner) {
                delays.extend(delay(&bytes[..length]));
            }
            bytes.drain(..length);
            if stream.write_all(TAKEN).await.is_err() {
                return;
            }
        }
        if !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
            return;
        }
    }
}

/// The length of the request that the bytes begin with, once it is whole.
fn whole_request(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).ok()?.to_ascii_lowercase();
    let (_, rest) = text.split_once("content-length:")?;
    let body: usize = rest.split("\r\n").next()?.trim().parse().ok()?;
    (bytes.len() >= head + body).then_some(head + body)
}

/// The time from the change that a request tells of until now.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures with the real clock")]
fn delay(request: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(request).ok()?;
    let (_, rest) = text.split_once(r#""timestamp":""#)?;
    let at = OffsetDateTime::parse(rest.split('"').next()?, &Rfc3339).ok()?;
    Duration::try_from(OffsetDateTime::from(SystemTime::now()) - at).ok()
}
