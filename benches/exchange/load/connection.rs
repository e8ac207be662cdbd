//! One connection to a server, and just enough HTTP to tell right answers from wrong ones.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How the body of a success begins: of the wallet, of an order report, and of a payment. One that was kept is answered 202.
const SUCCESS: [&[u8]; 3] = [br#"{"code":1,"#, br#"{"result":1,"#, br#"{"biz_no":"#];
/// An answer is shorter than this.
const ANSWER_BYTES: usize = 4096;

/// The content of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// The exchange was made now.
    Made,
    /// It had been made before.
    Replayed,
    /// Anything else: the body.
    Wrong(&'a [u8]),
}

pub(super) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::with_capacity(ANSWER_BYTES) })
    }

    /// Sends a request and waits for its answer. There is never a second one under way, so whatever
    /// comes belongs to this one.
    pub(super) async fn ask(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        self.received.clear();
        self.stream.write_all(request).await?;
        while !is_complete(&self.received)? {
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(judge(&self.received))
    }
}

fn is_complete(received: &[u8]) -> io::Result<bool> {
    let Some((head, body)) = split(received) else { return Ok(false) };
    let length = header(head, b"content-length").and_then(|value| str::from_utf8(value).ok()?.parse().ok());
    let length: usize =
        length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "an answer without a length"))?;
    Ok(body.len() >= length)
}

fn judge(answer: &[u8]) -> Answer<'_> {
    let Some((head, body)) = split(answer) else { return Answer::Wrong(answer) };
    if !(head.starts_with(b"HTTP/1.1 200 ") && SUCCESS.iter().any(|success| body.starts_with(success))) {
        return Answer::Wrong(body);
    }
    match header(head, b"idempotent-replayed") {
        None => Answer::Made,
        Some(b"true") => Answer::Replayed,
        Some(_) => Answer::Wrong(head),
    }
}

fn split(received: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = received.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some((&received[..end], &received[end + 4..]))
}

fn header<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    head.split(|&byte| byte == b'\n').find_map(|line| {
        let (found, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?;
        found.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
    })
}
