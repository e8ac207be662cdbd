//! A game server that writes down what it is about to ask, and asks again until it knows.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::journal::Journal;
use crate::service::TestApp;
use crate::service::game::Game;

/// An answer that takes longer is counted as none.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long a caller waits before it asks again.
const PAUSE: Duration = Duration::from_millis(20);

/// What is asked for under a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    /// An exchange, with this `pay_priority`.
    Exchange(i16),
    Present,
    /// A cancel of this exchange.
    Cancel(String),
    /// That the number is closed.
    Close,
}

/// A change that somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) number: String,
    pub(crate) open_id: String,
    /// 0 for a number that is closed.
    pub(crate) amount: i64,
    pub(crate) wish: Wish,
}

impl Asked {
    pub(crate) fn exchange(number: String, open_id: impl Into<String>, amount: i64, priority: i16) -> Self {
        Self { number, open_id: open_id.into(), amount, wish: Wish::Exchange(priority) }
    }

    /// That the number of this is closed.
    pub(crate) fn close(&self) -> Self {
        Self { amount: 0, wish: Wish::Close, ..self.clone() }
    }

    pub(crate) fn is_close(&self) -> bool {
        self.wish == Wish::Close
    }
}

/// How a try ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reply {
    /// An answer came; `replayed` tells whether it had the header.
    Answer { status: u16, replayed: bool, body: String },
    /// None came: why.
    Silence(String),
}

/// The present addresses of the servers.
#[derive(Debug, Clone)]
pub(crate) struct Servers(Arc<Mutex<Vec<SocketAddr>>>);

/// The observations of all callers.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    acknowledged: AtomicUsize,
    unavailable: AtomicUsize,
    silent: AtomicUsize,
    slowest_millis: AtomicU64,
}

/// One caller with a connection that it keeps.
#[derive(Debug)]
pub(crate) struct Caller {
    app: Arc<TestApp>,
    journal: Arc<Journal>,
    meter: Arc<Meter>,
    connection: Option<(SocketAddr, TcpStream)>,
}

impl Reply {
    /// The code of a business answer; `None` when it is not known what became of the exchange.
    pub(crate) fn code(&self) -> Option<u64> {
        match self {
            Self::Answer { status: 200, body, .. } => {
                let body: Value = serde_json::from_str(body).ok()?;
                body.get("code")?.as_u64()
            }
            Self::Answer { .. } | Self::Silence(_) => None,
        }
    }

    /// Whether the exchange was acknowledged.
    pub(crate) fn is_success(&self) -> bool {
        self.code() == Some(1)
    }
}

impl Servers {
    pub(crate) fn new(addresses: &[SocketAddr]) -> Self {
        Self(Arc::new(Mutex::new(addresses.to_vec())))
    }

    /// A server moved.
    pub(crate) fn set(&self, index: usize, address: SocketAddr) {
        self.0.lock().unwrap()[index] = address;
    }

    /// They are gone through in turns.
    pub(crate) fn at(&self, turn: usize) -> SocketAddr {
        let addresses = self.0.lock().unwrap();
        addresses[turn % addresses.len()]
    }
}

impl Meter {
    /// Tries that were answered with success.
    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Tries that were answered 503.
    pub(crate) fn unavailable(&self) -> usize {
        self.unavailable.load(Ordering::SeqCst)
    }

    /// Tries that no answer came to.
    pub(crate) fn silent(&self) -> usize {
        self.silent.load(Ordering::SeqCst)
    }

    /// The longest that a try took to be answered.
    pub(crate) fn slowest(&self) -> Duration {
        Duration::from_millis(self.slowest_millis.load(Ordering::SeqCst))
    }

    fn count(&self, reply: &Reply, took: Duration) {
        match reply {
            Reply::Silence(_) => self.silent.fetch_add(1, Ordering::SeqCst),
            Reply::Answer { status: 503, .. } => self.unavailable.fetch_add(1, Ordering::SeqCst),
            Reply::Answer { .. } => {
                self.acknowledged.fetch_add(usize::from(reply.is_success()), Ordering::SeqCst)
            }
        };
        if matches!(reply, Reply::Answer { .. }) {
            self.slowest_millis.fetch_max(took.as_millis().try_into().unwrap(), Ordering::SeqCst);
        }
    }
}

/// The bytes of a request on a connection that is kept.
pub(crate) fn request_bytes(app: &TestApp, asked: &Asked) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let Asked { number, open_id, amount, wish } = asked;
    let game = match wish {
        Wish::Exchange(priority) => Game::new(app, open_id, number, *amount).with("pay_priority", priority),
        Wish::Present => Game::present(app, open_id, number, *amount),
        Wish::Cancel(of) => Game::cancel(app, open_id, number, of, *amount),
        Wish::Close => Game::query(app, open_id, number).with("close", 1),
    };
    let game = game.with("ts", now);
    let (path, body) = (game.path(), game.body());
    format!(
        "POST {path} HTTP/1.1\r\nhost: till\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

impl Caller {
    pub(crate) fn new(app: Arc<TestApp>, journal: Arc<Journal>, meter: Arc<Meter>) -> Self {
        Self { app, journal, meter, connection: None }
    }

    /// Connects, so that the next try is as quick as can be.
    pub(crate) async fn connect(&mut self, server: SocketAddr) {
        self.connection = Some((server, TcpStream::connect(server).await.unwrap()));
    }

    /// One try, written down before and after.
    pub(crate) async fn ask(&mut self, server: SocketAddr, asked: &Asked) -> Reply {
        self.journal.asking(asked);
        let request = request_bytes(&self.app, asked);
        let started = Instant::now();
        let reply = match tokio::time::timeout(ANSWER_WITHIN, self.send(server, &request)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => Reply::Silence(error.to_string()),
            Err(_) => Reply::Silence(format!("nothing for {ANSWER_WITHIN:?}")),
        };
        if matches!(reply, Reply::Silence(_)) {
            self.connection = None;
        }
        self.meter.count(&reply, started.elapsed());
        self.journal.told(asked, &reply);
        reply
    }

    /// Asks the servers in turns, with the same number, until it is known what became of it; `None` when that takes
    /// longer than `within`.
    pub(crate) async fn settle(
        &mut self,
        servers: &Servers,
        asked: &Asked,
        within: Duration,
    ) -> Option<Reply> {
        let started = Instant::now();
        let last = asked.number.as_bytes().last().copied().unwrap_or(0);
        // A close goes to another server than what it races.
        let mut turn = asked.number.len() + usize::from(last) + usize::from(asked.is_close());
        while started.elapsed() < within {
            let reply = self.ask(servers.at(turn), asked).await;
            if reply.code().is_some() {
                return Some(reply);
            }
            turn += 1;
            tokio::time::sleep(PAUSE).await;
        }
        None
    }

    async fn send(&mut self, server: SocketAddr, request: &[u8]) -> io::Result<Reply> {
        // What is left of an earlier try that was given up could be taken for this one's answer. So it is taken out for
        // as long as it is used, and comes back only after a whole answer.
        let mut stream = match self.connection.take() {
            Some((address, stream)) if address == server => stream,
            Some(_) | None => {
                let stream = TcpStream::connect(server).await?;
                stream.set_nodelay(true)?;
                stream
            }
        };
        stream.write_all(request).await?;
        let (reply, keeps) = read_answer(&mut stream).await?;
        if keeps {
            self.connection = Some((server, stream));
        }
        Ok(reply)
    }
}

/// Reads one answer, and whether the connection is kept after it.
pub(crate) async fn read_answer(stream: &mut TcpStream) -> io::Result<(Reply, bool)> {
    let mut received = Vec::with_capacity(1024);
    loop {
        if let Some(answer) = take_apart(&received) {
            return Ok(answer);
        }
        if stream.read_buf(&mut received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn take_apart(received: &[u8]) -> Option<(Reply, bool)> {
    let text = std::str::from_utf8(received).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let header = |name: &str| {
        let mut lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let length: usize = header("content-length")?.parse().ok()?;
    if body.len() < length {
        return None;
    }
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let replayed = header("idempotent-replayed") == Some("true");
    let keeps = header("connection") != Some("close");
    Some((Reply::Answer { status, replayed, body: body.to_owned() }, keeps))
}
