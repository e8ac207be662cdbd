//! A receiver of events on loopback. It keeps what came, and answers as a test tells it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::PATIENCE;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Notification {
    /// Up to and with the empty line.
    pub head: String,
    pub body: String,
    pub at: Instant,
}

impl Notification {
    /// The value of a header, whose name is in lower case; empty where it is absent.
    pub fn header(&self, name: &str) -> &str {
        let headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.into_iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.body))
    }

    /// The id of the event, in either format.
    pub fn id(&self) -> String {
        match self.header("webhook-id") {
            "" => self.json()["message_id"].as_str().unwrap_or_default().to_owned(),
            id => id.to_owned(),
        }
    }

    /// A text of `data`.
    pub fn data(&self, name: &str) -> String {
        self.json()["data"][name].as_str().unwrap_or_default().to_owned()
    }
}

/// What is answered.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: String,
    body: Vec<u8>,
    after: Duration,
    is_held: bool,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self { status, headers: String::new(), body: Vec::new(), after: Duration::ZERO, is_held: false }
    }

    /// What takes a notification of the standard format.
    pub fn taken() -> Self {
        Self::status(204)
    }

    /// What takes this notification of the platform's format.
    pub fn taken_by_id(notification: &Notification) -> Self {
        Self::status(200).body(format!(r#"{{"result":1,"message_id":"{}"}}"#, notification.id()))
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers = format!("{}{name}: {value}\r\n", self.headers);
        self
    }

    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// It comes after this time.
    pub fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    /// It comes when the receiver is released.
    pub fn held(self) -> Self {
        Self { is_held: true, ..self }
    }

    fn bytes(&self) -> Vec<u8> {
        let length = match self.status {
            204 => String::new(),
            _ => format!("content-length: {}\r\n", self.body.len()),
        };
        let head = format!("HTTP/1.1 {} x\r\n{}{length}\r\n", self.status, self.headers);
        [head.as_bytes(), &self.body].concat()
    }
}

type Answering = Arc<dyn Fn(&Notification, usize) -> Reply + Send + Sync>;

/// The receiver. Its tasks end with the test's runtime.
pub struct Receiver {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    answering: Mutex<Answering>,
    received: watch::Sender<Vec<Notification>>,
    connections: AtomicUsize,
    is_released: watch::Sender<bool>,
}

impl Receiver {
    /// Takes everything.
    pub async fn taking() -> Self {
        Self::answering(|_, _| Reply::taken()).await
    }

    /// Takes everything in the platform's format.
    pub async fn taking_by_id() -> Self {
        Self::answering(|notification, _| Reply::taken_by_id(notification)).await
    }

    /// Answers by the notification, and by how many came before it.
    pub async fn answering(answer: impl Fn(&Notification, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            answering: Mutex::new(Arc::new(answer)),
            received: watch::Sender::default(),
            connections: AtomicUsize::new(0),
            is_released: watch::Sender::new(false),
        });
        let serving = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serving.connections.fetch_add(1, Ordering::SeqCst);
                let shared = Arc::clone(&serving);
                tokio::spawn(async move { shared.serve(stream).await });
            }
        });
        Self { address, shared }
    }

    /// Answers in another way from now on.
    pub fn answers(&self, answer: impl Fn(&Notification, usize) -> Reply + Send + Sync + 'static) {
        *self.shared.answering.lock().unwrap() = Arc::new(answer);
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests, in their order.
    pub fn received(&self) -> Vec<Notification> {
        self.shared.received.borrow().clone()
    }

    /// Waits until this many came. Gives all that came.
    pub async fn until_received(&self, count: usize) -> Vec<Notification> {
        self.until(&format!("{count} notifications come"), |received| received.len() >= count).await
    }

    /// Waits until this holds of what came. Gives all that came.
    pub async fn until(&self, what: &str, holds: impl Fn(&[Notification]) -> bool) -> Vec<Notification> {
        let mut received = self.shared.received.subscribe();
        let waiting = tokio::time::timeout(PATIENCE, received.wait_for(|received| holds(received))).await;
        let came = waiting.map(|known| known.unwrap().clone());
        came.unwrap_or_else(|_| panic!("expected that {what}, got {:#?}", self.received()))
    }

    /// Connections that were accepted.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// From now on replies that were held are sent.
    pub fn release(&self) {
        self.shared.is_released.send_replace(true);
    }
}

impl Shared {
    /// Answers requests until the other side closes.
    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut bytes = Vec::new();
        loop {
            let notification = read(&mut stream, &mut bytes).await?;
            let mut before = 0;
            self.received.send_modify(|received| {
                before = received.len();
                received.push(notification.clone());
            });
            let answering = Arc::clone(&self.answering.lock().unwrap());
            let reply = answering(&notification, before);
            tokio::time::sleep(reply.after).await;
            if reply.is_held {
                self.is_released.subscribe().wait_for(|is_released| *is_released).await.ok()?;
            }
            stream.write_all(&reply.bytes()).await.ok()?;
        }
    }
}

/// One request; `bytes` holds what came behind the one before.
async fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<Notification> {
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        (stream.read_buf(bytes).await.ok()? > 0).then_some(())?;
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let mut notification = Notification { head, body: String::new(), at: Instant::now() };
    let length: usize = notification.header("content-length").parse().ok()?;
    while bytes.len() < end + length {
        (stream.read_buf(bytes).await.ok()? > 0).then_some(())?;
    }
    notification.body = String::from_utf8(bytes[end..end + length].to_vec()).ok()?;
    bytes.drain(..end + length);
    Some(notification)
}
