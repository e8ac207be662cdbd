//! The load generator: a thread for each connection, one upload at a time on each.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Fallible;
use crate::picture::Template;
use crate::sample::Latency;

/// What frames the picture in its multipart body.
const BEFORE: &str = "--picture\r\nContent-Disposition: form-data; name=\"file\"; filename=\"cover.jpg\"\r\n\
                      Content-Type: image/jpeg\r\n\r\n";
const BEHIND: &str = "\r\n--picture--\r\n";
/// A server that has not answered for so long never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// The address and the path of uploads, and the next number of a picture.
pub(crate) struct Uploader {
    address: SocketAddr,
    path: String,
    next: AtomicU32,
}

/// The answers of a run.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Of every upload that was acknowledged.
    pub(crate) latencies: Vec<Latency>,
    /// The last that was acknowledged: its number and its id.
    pub(crate) last: Option<(u32, String)>,
    /// Wrong answers, by what they said.
    pub(crate) wrong: BTreeMap<String, u64>,
    /// From the first byte sent to the last answer.
    pub(crate) elapsed: Duration,
}

impl Uploader {
    pub(crate) fn new(address: SocketAddr, app_id: &str, access_token: &str) -> Self {
        let path = format!(
            "/openapi/mp/developer/file/img/uploadWithFile?app_id={app_id}&access_token={access_token}"
        );
        Self { address, path, next: AtomicU32::new(0) }
    }

    /// Uploads pictures that differ, on so many connections, each as soon as it has its answer.
    pub(crate) fn run(&self, template: &Template, connections: u32, lasting: Duration) -> Fallible<Answers> {
        let answers = Mutex::new(Answers::default());
        let started = Instant::now();
        thread::scope(|scope| {
            let running: Vec<_> = (0..connections)
                .map(|_| scope.spawn(|| self.upload_until(template, started + lasting, &answers)))
                .collect();
            running
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| "the load generator panicked")?)
        })?;
        let mut answers = answers.into_inner().map_err(|_| "the load generator panicked")?;
        answers.elapsed = started.elapsed();
        Ok(answers)
    }

    fn upload_until(&self, template: &Template, end: Instant, answers: &Mutex<Answers>) -> Fallible<()> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        while Instant::now() < end {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let since = Instant::now();
            let body = self.upload(&mut stream, template, number)?;
            let latency = Latency::of(since.elapsed());
            let mut answers = answers.lock().map_err(|_| "the load generator panicked")?;
            let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
            if let Some(img_id) = answer["data"]["imgId"].as_str() {
                answers.latencies.push(latency);
                answers.last = Some((number, img_id.to_owned()));
            } else {
                *answers.wrong.entry(String::from_utf8_lossy(&body).into_owned()).or_default() += 1;
            }
        }
        Ok(())
    }

    fn upload(&self, stream: &mut TcpStream, template: &Template, number: u32) -> io::Result<Vec<u8>> {
        let (before, changed, behind) = template.pieces(number);
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: till.example\r\nContent-Type: multipart/form-data; boundary=picture\r\n\
             Content-Length: {}\r\n\r\n{BEFORE}",
            self.path,
            BEFORE.len() + template.len() + BEHIND.len()
        );
        // What is small goes with what is before it, in one piece.
        stream.write_all(&[head.as_bytes(), before, &changed].concat())?;
        stream.write_all(behind)?;
        stream.write_all(BEHIND.as_bytes())?;
        read_answer(stream)
    }

    /// The bytes that are served under an id.
    pub(crate) fn fetch(&self, img_id: &str) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET /img/{img_id} HTTP/1.1\r\nHost: till.example\r\n\r\n")?;
        read_answer(&mut stream)
    }
}

/// The body of an answer, whose length is always announced.
fn read_answer(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut received = Vec::new();
    let mut buffer = vec![0; 65_536];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        received.extend_from_slice(&buffer[..count]);
        let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let length: usize = length.ok_or(io::ErrorKind::InvalidData)?;
        let mut body = received.split_off(end + 4);
        if body.len() < length {
            let missing = length - body.len();
            stream.take(missing as u64).read_to_end(&mut body)?;
        }
        return Ok(body);
    }
}
