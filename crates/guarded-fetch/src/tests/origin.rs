//! A small origin on loopback that answers what a test tells it to, however wrong.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// More than any test needs; an origin that is asked more often stays silent.
const CONNECTIONS_MAX: usize = 1024;
const PORTS_TRIED_MAX: usize = 20;

/// Bytes to answer with, and what comes after them.
#[derive(Clone)]
pub(super) struct Reply {
    bytes: Vec<u8>,
    then: Then,
}

#[derive(Clone)]
enum Then {
    /// Ends the connection as the protocol wants it.
    Close,
    /// Ends the TCP connection without a word of TLS.
    Cut,
    Hang,
    /// Sends this for ever, with a pause before each.
    Repeat(Vec<u8>, Duration),
}

impl Reply {
    /// These bytes and nothing else.
    pub(super) fn raw(bytes: impl AsRef<[u8]>) -> Self {
        Self { bytes: bytes.as_ref().to_vec(), then: Then::Close }
    }

    /// A status line and header lines, each of which ends in CRLF.
    pub(super) fn head(status: &str, lines: &str) -> Self {
        Self::raw(format!("HTTP/1.1 {status}\r\n{lines}\r\n"))
    }

    /// A good answer with this body.
    pub(super) fn ok(body: &[u8]) -> Self {
        Self::head("200 OK", &format!("content-length: {}\r\n", body.len())).and(body)
    }

    /// A redirect.
    pub(super) fn redirect(status: &str, location: &str) -> Self {
        Self::head(status, &format!("location: {location}\r\ncontent-length: 0\r\n"))
    }

    /// More bytes.
    pub(super) fn and(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Cuts the connection.
    pub(super) fn then_cut(self) -> Self {
        Self { then: Then::Cut, ..self }
    }

    /// Leaves the connection open.
    pub(super) fn then_hang(self) -> Self {
        Self { then: Then::Hang, ..self }
    }

    /// Sends `bytes` again and again.
    pub(super) fn then_repeat(self, bytes: &[u8], pause: Duration) -> Self {
        Self { then: Then::Repeat(bytes.to_vec(), pause), ..self }
    }
}

#[derive(Default)]
struct Seen {
    connections: usize,
    requests: Vec<String>,
    server_names: Vec<Option<String>>,
}

/// The origin. Its task ends with the test's runtime.
pub(super) struct Origin {
    /// The address on which it listens.
    pub(super) address: SocketAddr,
    scheme: &'static str,
    seen: Arc<Mutex<Seen>>,
    closes: Arc<Semaphore>,
}

type Script = Arc<dyn Fn(&str) -> Reply + Send + Sync>;

async fn listener() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0)).await.unwrap()
}

/// Listeners at these addresses. Other programs listen too, so a port that is free at one may be taken at another.
async fn listeners_on_one_port(addresses: &[&str]) -> Vec<TcpListener> {
    for _ in 0..PORTS_TRIED_MAX {
        let (mut port, mut listeners) = (0, Vec::new());
        for address in addresses {
            let Ok(listener) = TcpListener::bind((*address, port)).await else { break };
            port = listener.local_addr().unwrap().port();
            listeners.push(listener);
        }
        if listeners.len() == addresses.len() {
            return listeners;
        }
    }
    panic!("no port is free at all of {addresses:?}")
}

impl Origin {
    /// Answers every request alike.
    pub(super) async fn always(reply: Reply) -> Self {
        Self::serve(move |_| reply.clone()).await
    }

    /// Answers by what was asked.
    pub(super) async fn serve(script: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(listener().await, None, Arc::new(script))
    }

    /// The same at the first of these addresses. At the others, on the same port, are origins whose every answer is a secret.
    pub(super) async fn beside_secrets(
        addresses: &[&str],
        script: impl Fn(&str) -> Reply + Send + Sync + 'static,
    ) -> (Self, Vec<Self>) {
        let mut listeners = listeners_on_one_port(addresses).await.into_iter();
        let origin = Self::start(listeners.next().unwrap(), None, Arc::new(script));
        let secret: Script = Arc::new(|_| Reply::ok(b"secret"));
        (origin, listeners.map(|listener| Self::start(listener, None, Arc::clone(&secret))).collect())
    }

    /// The same with TLS.
    pub(super) async fn serve_tls(
        acceptor: TlsAcceptor,
        script: impl Fn(&str) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start(listener().await, Some(acceptor), Arc::new(script))
    }

    fn start(listener: TcpListener, acceptor: Option<TlsAcceptor>, script: Script) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let closes = Arc::new(Semaphore::new(0));
        let origin = Self {
            address: listener.local_addr().unwrap(),
            scheme: if acceptor.is_some() { "https" } else { "http" },
            seen: Arc::clone(&seen),
            closes: Arc::clone(&closes),
        };
        tokio::spawn(async move {
            for _ in 0..CONNECTIONS_MAX {
                let (stream, _) = listener.accept().await.unwrap();
                seen.lock().unwrap().connections += 1;
                let (acceptor, script) = (acceptor.clone(), Arc::clone(&script));
                let (seen, closes) = (Arc::clone(&seen), Arc::clone(&closes));
                tokio::spawn(async move {
                    match acceptor {
                        None => answer(stream, &script, &seen).await,
                        Some(acceptor) => {
                            let Ok(stream) = acceptor.accept(stream).await else { return };
                            let name = stream.get_ref().1.server_name().map(str::to_owned);
                            seen.lock().unwrap().server_names.push(name);
                            answer(stream, &script, &seen).await;
                        }
                    }
                    closes.add_permits(1);
                });
            }
        });
        origin
    }

    /// A URL of this origin.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    /// Connections that were accepted.
    pub(super) fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    /// The head of each request, byte for byte.
    pub(super) fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().requests.clone()
    }

    /// The server name of each TLS handshake.
    pub(super) fn server_names(&self) -> Vec<Option<String>> {
        self.seen.lock().unwrap().server_names.clone()
    }

    /// Waits until a connection comes to its end.
    pub(super) async fn until_closed(&self) {
        super::ending(self.closes.acquire()).await.unwrap().forget();
    }
}

/// Reads one request and answers it. Gives up on whatever goes wrong: the other side hung up.
async fn answer<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, script: &Script, seen: &Mutex<Seen>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let reply = script(&head);
    seen.lock().unwrap().requests.push(head);
    if stream.write_all(&reply.bytes).await.is_err() || stream.flush().await.is_err() {
        return;
    }
    match reply.then {
        Then::Close => {
            let _ = stream.shutdown().await;
        }
        Then::Cut => {}
        Then::Hang => {
            let _ = stream.read_u8().await;
        }
        Then::Repeat(bytes, pause) => loop {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() {
                return;
            }
        },
    }
}
