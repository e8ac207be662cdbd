//! A client that sends exactly what a test says, on a real socket.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::PATIENCE;

/// A request as it goes over the wire.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    /// As text, where it is text.
    pub body: String,
    pub bytes: Vec<u8>,
}

impl Request {
    pub fn new(method: &str, target: &str) -> Self {
        Self { method: method.to_owned(), target: target.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    pub fn post(target: &str) -> Self {
        Self::new("POST", target)
    }

    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// A multipart body with parts as they are given: their head lines, then their bytes.
    pub fn multipart(self, parts: &[(&str, &[u8])]) -> Self {
        let mut body = Vec::new();
        for (head, bytes) in parts {
            body.extend_from_slice(format!("--test-boundary\r\n{head}\r\n\r\n").as_bytes());
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--test-boundary--\r\n");
        self.header("content-type", "multipart/form-data; boundary=test-boundary").body(body)
    }

    pub fn bytes(&self) -> Vec<u8> {
        let headers: Vec<String> =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let (method, target, length) = (&self.method, &self.target, self.body.len());
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{}content-length: {length}\r\n\r\n",
            headers.concat()
        );
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }

    pub async fn send(&self, address: SocketAddr) -> Answer {
        raw(address, &self.bytes()).await
    }
}

/// Sends bytes, reads until the server closes, and takes the answer apart.
pub async fn raw(address: SocketAddr, bytes: &[u8]) -> Answer {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.expect("the server listens");
        let (mut reading, mut writing) = stream.split();
        let mut received = Vec::new();
        // The answer may come before everything is sent.
        let (_, read) = tokio::join!(writing.write_all(bytes), reading.read_to_end(&mut received));
        read.expect("the answer is readable to its end");
        received
    };
    let received = tokio::time::timeout(PATIENCE, exchange).await.expect("an answer");
    Answer::parse(&received)
}

impl Answer {
    pub fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or_else(|| {
            panic!("expected an HTTP answer, got {:?}", String::from_utf8_lossy(bytes));
        });
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let body = String::from_utf8_lossy(&bytes[end + 4..]).into_owned();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .map(|line| line.split_once(':').unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Self { status, headers, body, bytes: bytes[end + 4..].to_vec() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The values of a header that may come several times.
    pub fn headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body, put together where it came in chunks.
    ///
    /// # Panics
    /// It was cut off.
    pub fn whole(&self) -> String {
        self.complete().expect("the body came to its end")
    }

    /// The same. `None`: it was cut off.
    pub fn complete(&self) -> Option<String> {
        String::from_utf8(self.complete_bytes()?).ok()
    }

    /// The same of a body that is no text.
    pub fn complete_bytes(&self) -> Option<Vec<u8>> {
        if self.header("transfer-encoding").is_none() {
            return Some(self.bytes.clone());
        }
        let (mut rest, mut whole) = (self.bytes.as_slice(), Vec::new());
        loop {
            let end = rest.windows(2).position(|bytes| bytes == b"\r\n")?;
            let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
            if length == 0 {
                return Some(whole);
            }
            whole.extend_from_slice(rest.get(end + 2..end + 2 + length)?);
            rest = rest.get(end + 2 + length + 2..)?;
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {:.1000?}", self.body))
    }

    /// `code` or `result`.
    pub fn code(&self) -> u64 {
        let json = self.json();
        json.get("code").or_else(|| json.get("result")).and_then(Value::as_u64).expect("a code or result")
    }

    /// `msg` or `error_msg`.
    pub fn message(&self) -> String {
        let json = self.json();
        let text = json.get("msg").or_else(|| json.get("error_msg")).and_then(Value::as_str);
        text.expect("a text").to_owned()
    }

    /// A business answer with this code and text, with the headers that every one has.
    #[track_caller]
    pub fn assert_refused(&self, code: u64, message: &str) {
        assert_eq!(
            (self.status, self.code(), self.message().as_str()),
            (200, code, message),
            "{}",
            self.body
        );
        self.assert_headers();
    }

    /// Exactly this body, and success.
    #[track_caller]
    pub fn assert_body(&self, body: &str) {
        assert_eq!((self.status, self.body.as_str()), (200, body));
        self.assert_headers();
    }

    #[track_caller]
    fn assert_headers(&self) {
        assert_eq!(self.header("content-type"), Some("application/json; charset=utf-8"));
        assert_eq!(self.header("cache-control"), Some("no-store"));
        assert!(self.header("x-request-id").is_some());
    }
}
