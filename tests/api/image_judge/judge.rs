//! A judge on loopback that answers what a test tells it to, however wrong.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A question as it came.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    /// Up to and with the empty line.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Question {
    /// The value of a header, whose name is in lower case; empty where it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        let line = |line: &'_ str| line.split_once(": ").is_some_and(|(known, _)| known == name);
        self.head.lines().find(|text| line(text)).map_or("", |line| &line[name.len() + 2..])
    }
}

/// What is answered.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// These bytes, then the end of the connection.
    Raw(Vec<u8>),
    /// These bytes once the gate is open.
    Gated(Vec<u8>),
    /// A good head, then bytes for ever.
    Endless,
    /// Nothing.
    Hanging,
    /// Nothing, and the question is not even read.
    HangingUnread,
}

impl Reply {
    pub(crate) fn raw(text: &str) -> Self {
        Self::Raw(text.as_bytes().to_vec())
    }

    pub(crate) fn status(status: &str) -> Self {
        Self::raw(&format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n"))
    }

    pub(crate) fn verdict(json: &str) -> Self {
        Self::raw(&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{json}", json.len()))
    }

    pub(crate) fn gated(json: &str) -> Self {
        match Self::verdict(json) {
            Self::Raw(bytes) => Self::Gated(bytes),
            other => other,
        }
    }
}

pub(crate) struct Judge {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

type Answering = dyn Fn(&Question, usize) -> Reply + Send + Sync;

struct Shared {
    answering: Box<Answering>,
    questions: Mutex<Vec<Question>>,
    connections: AtomicUsize,
    gate: watch::Sender<bool>,
}

impl Judge {
    /// Answers by how many questions came before.
    pub(crate) async fn saying(answer: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(Box::new(move |_, before| answer(before))).await
    }

    /// Answers by the question.
    pub(crate) async fn asked_about(answer: impl Fn(&Question) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(Box::new(move |question, _| answer(question))).await
    }

    async fn start(answering: Box<Answering>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            answering,
            questions: Mutex::default(),
            connections: AtomicUsize::new(0),
            gate: watch::Sender::new(false),
        });
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serving.connections.fetch_add(1, Ordering::SeqCst);
                let shared = serving.clone();
                tokio::spawn(async move { shared.answer(stream).await });
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn questions(&self) -> Vec<Question> {
        self.shared.questions.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// From now on gated replies are sent.
    pub(crate) fn open_gate(&self) {
        self.shared.gate.send_replace(true);
    }
}

impl Shared {
    async fn answer(&self, mut stream: TcpStream) -> Option<()> {
        let nothing = Question { head: String::new(), body: Vec::new() };
        if matches!((self.answering)(&nothing, 0), Reply::HangingUnread) {
            return std::future::pending().await;
        }
        let question = read(&mut stream).await?;
        let before = {
            let mut questions = self.questions.lock().unwrap();
            questions.push(question.clone());
            questions.len() - 1
        };
        match (self.answering)(&question, before) {
            Reply::Raw(bytes) => stream.write_all(&bytes).await.ok()?,
            Reply::Gated(bytes) => {
                self.gate.subscribe().wait_for(|is_open| *is_open).await.ok()?;
                stream.write_all(&bytes).await.ok()?;
            }
            Reply::Endless => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
                loop {
                    stream.write_all(&[b' '; 1024]).await.ok()?;
                }
            }
            Reply::Hanging | Reply::HangingUnread => std::future::pending().await,
        }
        stream.shutdown().await.ok()
    }
}

/// A head, and as many bytes as it announces.
async fn read(stream: &mut TcpStream) -> Option<Question> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let mut question = Question { head, body: bytes[end..].to_vec() };
    let length: usize = question.header("content-length").parse().ok()?;
    while question.body.len() < length {
        (stream.read_buf(&mut question.body).await.ok()? > 0).then_some(())?;
    }
    Some(question)
}
