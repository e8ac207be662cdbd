//! Uploads that would take too much: of memory, of time, of the wire (contract 2.7, 5.1.6 and 5.1.7).

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::support::program::Program;
use crate::support::{Answer, PICTURE, Request, TestApp, TestTill, until};

/// How long half a gigabyte may take on a machine that is busy. It ends a test that hangs, and nothing is judged by it.
const PATIENCE: Duration = Duration::from_mins(5);
/// How long a body may take, where no sender is to be cut for its time.
const LONG_BODY: Duration = Duration::from_mins(10);
const HEAD: &str = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.png\"\r\n\r\n";
const TAIL: &str = "\r\n--b--\r\n";
const MEGABYTE: usize = 1_000_000;

/// The head of an upload by file, up to the lines that frame the body.
fn head(app: &TestApp, token: &str, framing: &str) -> String {
    format!(
        "POST /openapi/mp/developer/file/img/uploadWithFile?app_id={}&access_token={token} HTTP/1.1\r\nhost: till\r\n\
         content-type: multipart/form-data; boundary=b\r\n{framing}\r\n\r\n",
        app.id
    )
}

/// A picture of 10 MB: a good one, and bytes behind its end, which are allowed.
fn large_upload(app: &TestApp) -> Vec<u8> {
    let picture = [PICTURE, &vec![0; 10 * MEGABYTE - PICTURE.len()]].concat();
    let length = HEAD.len() + picture.len() + TAIL.len();
    let framing = format!("connection: close\r\ncontent-length: {length}");
    [head(app, &app.token, &framing).as_bytes(), HEAD.as_bytes(), &picture, TAIL.as_bytes()].concat()
}

/// Sends bytes and reads the answer to its end.
async fn send(address: SocketAddr, bytes: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut reading, mut writing) = stream.split();
    let mut received = Vec::new();
    let exchange = async { tokio::join!(writing.write_all(bytes), reading.read_to_end(&mut received)) };
    let (_, read) = timeout(PATIENCE, exchange).await.expect("an answer in time");
    read.expect("the answer is readable to its end");
    Answer::parse(&received)
}

/// The most memory that a process had so far, in bytes.
fn peak_memory(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells");
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Rule (contract 2.6 and 2.7): 50 uploads of 10 MB at once, of two apps, are all accepted and take
/// less than 400 MB. So do 50 uploads by chunks, whose length nobody knows before.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn fifty_large_uploads_at_once_stay_within_their_memory() {
    let till = TestTill::start().await;
    let apps = [till.app("a1").await, till.app("a2").await];
    // An upload waits for its room as long as a body may take.
    let program = Program::on(&till.database_url)
        .with("MINITILL_LIMITS__UPLOADS_PER_SECOND", "0")
        .with("MINITILL_HTTP__BODY_TIMEOUT", "10m");
    let server = program.serve(None).await;
    let (address, before) = (server.address, peak_memory(server.pid()));
    let uploads = apps.each_ref().map(|app| std::sync::Arc::new(large_upload(app)));
    let mut clients = JoinSet::new();
    for index in 0..50 {
        let upload = uploads[index % 2].clone();
        clients.spawn(async move { send(address, &upload).await });
    }
    for answer in clients.join_all().await {
        assert_eq!(answer.code(), 1, "{}", answer.body);
    }
    let grown = peak_memory(server.pid()) - before;
    println!("50 uploads of 10 MB at once: the server's memory grew by {} MB", grown / MEGABYTE);
    assert!(grown < 400 * MEGABYTE, "{} MB", grown / MEGABYTE);
}

/// Rule (contract 2.7): the same for 50 pictures of 10 MB that are fetched at once.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn fifty_large_fetches_at_once_stay_within_their_memory() {
    let origin = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin_address = origin.local_addr().unwrap();
    let picture = std::sync::Arc::new([PICTURE, &vec![0; 10 * MEGABYTE - PICTURE.len()]].concat());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = origin.accept().await {
            let picture = picture.clone();
            tokio::spawn(async move {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                // No length: the worst for whoever has to make room.
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
                let _ = stream.write_all(&picture).await;
            });
        }
    });
    let till = TestTill::start().await;
    let apps = [till.app("a1").await, till.app("a2").await, till.app("a3").await, till.app("a4").await];
    let program = Program::on(&till.database_url)
        .with("MINITILL_LIMITS__UPLOADS_PER_SECOND", "0")
        .with("MINITILL_FETCH__ALLOW_NETWORKS", "127.0.0.1/32")
        .with("MINITILL_FETCH__PORTS", &origin_address.port().to_string())
        .with("MINITILL_FETCH__TIMEOUT", "10m")
        .with("MINITILL_HTTP__BODY_TIMEOUT", "10m");
    let server = program.serve(None).await;
    let (address, before) = (server.address, peak_memory(server.pid()));
    let mut clients = JoinSet::new();
    for index in 0..50 {
        let app = &apps[index % 4];
        let query = format!("app_id={}&access_token={}&url=http://{origin_address}/x.png", app.id, app.token);
        let request = Request::post(&format!("/openapi/mp/developer/file/img/uploadWithUrl?{query}"));
        clients.spawn(async move { send(address, &request.bytes()).await });
    }
    for answer in clients.join_all().await {
        assert_eq!(answer.code(), 1, "{}", answer.body);
    }
    let grown = peak_memory(server.pid()) - before;
    println!("50 fetches of 10 MB at once: the server's memory grew by {} MB", grown / MEGABYTE);
    assert!(grown < 400 * MEGABYTE, "{} MB", grown / MEGABYTE);
}

/// Sends a head and then up to a gigabyte of body. Returns the answer, and how many bytes of the
/// body went out before the server stopped reading.
async fn send_a_gigabyte(address: SocketAddr, head: &str, opening: &str, chunk: &[u8]) -> (Answer, usize) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut reading, mut writing) = stream.split();
    let sending = async {
        let mut sent = 0;
        writing.write_all(format!("{head}{opening}").as_bytes()).await.unwrap();
        while sent < 1000 * MEGABYTE {
            match writing.write(&chunk[sent % chunk.len()..]).await {
                Ok(bytes) => sent += bytes,
                Err(_) => break,
            }
        }
        sent
    };
    let mut received = Vec::new();
    let (sent, _) = timeout(PATIENCE, async { tokio::join!(sending, reading.read_to_end(&mut received)) })
        .await
        .expect("the connection ends in time");
    (Answer::parse(&received), sent)
}

/// What the kernel may hold of a connection beside what the server read: both ends' buffers.
fn kernel_buffers() -> usize {
    ["tcp_rmem", "tcp_wmem"]
        .map(|name| {
            let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap();
            text.split_whitespace().last().unwrap().parse::<usize>().unwrap()
        })
        .iter()
        .sum()
}

/// Rule (contract 2.2 and 2.7): of an upload of a gigabyte at most 11 MB are read. It does not
/// matter whether its length is announced, or who sends it. The refusal reaches the client.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_gigabyte_is_cut_and_its_sender_gets_the_refusal() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let at_most = 11 * MEGABYTE + kernel_buffers() + 64 * 1024;
    let framed = [
        ("content-length: 1000000000", String::new(), vec![b'x'; 65_536]),
        ("transfer-encoding: chunked", format!("{:x}\r\n{HEAD}\r\n", HEAD.len()), {
            [b"8000\r\n".to_vec(), vec![b'x'; 0x8000], b"\r\n".to_vec()].concat()
        }),
    ];
    let send_all = async |head_of: fn(&TestApp, &str) -> String| {
        let sending = framed.iter().map(async |(framing, opening, chunk)| {
            let head = head_of(&app, framing);
            let (answer, sent) = send_a_gigabyte(till.address, &head, opening, chunk).await;
            (*framing, answer, sent)
        });
        futures_util::future::join_all(sending).await
    };
    let (known, strangers) = tokio::join!(send_all(head_of_its_app), send_all(head_of_a_stranger));
    for (framing, answer, sent) in known {
        println!("{framing}: {sent} bytes were taken");
        assert!(sent <= at_most, "{framing}: {sent} of at most {at_most} bytes");
        let is_chunked = framing.contains("chunked");
        // The file itself is too long before the body is, where its beginning is read at all.
        let expected = if is_chunked { (200, 10_000_200) } else { (413, 10_000_200) };
        assert_eq!((answer.status, answer.code()), expected, "{framing}: {}", answer.body);
        assert!(answer.message().contains("at most 10"), "{}", answer.body);
    }
    for (framing, answer, sent) in strangers {
        assert!(sent <= at_most, "{framing}: {sent} of at most {at_most} bytes");
        assert_eq!((answer.status, answer.code()), (200, 100_200_102), "{}", answer.body);
    }
}

fn head_of_its_app(app: &TestApp, framing: &str) -> String {
    head(app, &app.token, framing)
}

fn head_of_a_stranger(app: &TestApp, framing: &str) -> String {
    head(app, &"0".repeat(64), framing)
}

/// Rule: curl, as an ordinary client that reads while it sends, shows the refusal of a body that is
/// far too long. Without curl on the machine there is nothing to show.
#[tokio::test(flavor = "multi_thread")]
async fn curl_shows_the_refusal_of_a_huge_upload() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let url = |token: &str| {
        let (address, id) = (till.address, &app.id);
        format!(
            "http://{address}/openapi/mp/developer/file/img/uploadWithFile?app_id={id}&access_token={token}"
        )
    };
    for (token, expect, text) in [
        (app.token.as_str(), "Expect: 100-continue", "body: expected at most 10747904 bytes"),
        (app.token.as_str(), "Expect:", "body: expected at most 10747904 bytes"),
        ("0", "Expect:", "access_token"),
    ] {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--max-time", "300", "--header", expect, "--form", "file=@-;filename=a.png"]);
        curl.arg(url(token)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Some(shown) = tokio::task::spawn_blocking(|| fed_with_zeros(curl)).await.unwrap() else {
            println!("curl is not installed: nothing was tried");
            return;
        };
        assert!(shown.contains(text), "{expect}: {shown}");
    }
}

/// What a program prints that is given 64 MB to send; `None` when there is no such program.
fn fed_with_zeros(mut program: Command) -> Option<String> {
    let mut child = program.spawn().ok()?;
    let mut stdin = child.stdin.take().unwrap();
    let feeding = std::thread::spawn(move || {
        let _ = std::io::Write::write_all(&mut stdin, &vec![0; 64 * MEGABYTE]);
    });
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    Some(String::from_utf8(output.stdout).unwrap())
}

/// A till where one app has room for one large upload, and others have room beside it.
async fn narrow_till() -> TestTill {
    TestTill::start_with(|config| {
        config.image.memory_bytes_max = 33_000_000;
        config.image.memory_per_app_bytes_max = 11_000_000;
        config.http.body_timeout = LONG_BODY;
    })
    .await
}

/// A sender that announces 10 MB, has sent so many bytes, and holds the room of all.
async fn sender_that_stalls(till: &TestTill, app: &TestApp, sent: usize) -> TcpStream {
    let mut sender = TcpStream::connect(till.address).await.unwrap();
    let begun = head(app, &app.token, "content-length: 10000000");
    sender.write_all(format!("{begun}{HEAD}").as_bytes()).await.unwrap();
    sender.write_all(&vec![b'x'; sent]).await.unwrap();
    until("the upload has its room", async || till.till.upload_memory.in_use() > 0).await;
    sender
}

/// Rule (contract 2.7): an upload that stalls keeps no upload of another app waiting.
#[tokio::test(flavor = "multi_thread")]
async fn slow_senders_hold_up_no_other_app() {
    let till = narrow_till().await;
    let (slow_app, quick_app) = (till.app("a1").await, till.app("a2").await);
    // A tenth of the body earns a tenth of the time.
    let slow = sender_that_stalls(&till, &slow_app, MEGABYTE).await;
    assert_eq!(send(till.address, &large_upload(&quick_app)).await.code(), 1);
    let answered = slow.try_read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(answered, Err(std::io::ErrorKind::WouldBlock), "it was not waited for");
}

/// Rule (contract 2.7): a sender that announces much and sends little is dropped long before the body time. Uploads
/// that wait for the room it held are served.
#[tokio::test(flavor = "multi_thread")]
async fn slow_senders_are_dropped_and_make_room() {
    let till = narrow_till().await;
    let app = till.app("a1").await;
    let mut slow = sender_that_stalls(&till, &app, 0).await;
    let same_app = large_upload(&app);
    let waiting = send(till.address, &same_app);
    let dripping = async {
        let mut answer = Vec::new();
        // A byte now and then is not enough.
        while timeout(Duration::from_millis(500), slow.read_to_end(&mut answer)).await.is_err() {
            let _ = slow.write_all(b"x").await;
        }
        Answer::parse(&answer)
    };
    let (waited, dropped) = timeout(PATIENCE, async { tokio::join!(waiting, dripping) }).await.unwrap();
    assert_eq!(waited.code(), 1, "{}", waited.body);
    // Rule 2.7.5: 10,000,000 bytes in the 595 s behind the first 5.
    let told = "body: expected within 600 s, and it comes too slowly for that: after the first 5 s at least 16807 bytes a second are expected";
    assert_eq!((dropped.status, dropped.message().as_str()), (408, told));
}

/// Rule (contract 2.7): a sender that is slow but steady, and would be done within the body time, is
/// not dropped. It does not matter whether it announces its length.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_and_steady_sender_is_served() {
    let till = TestTill::start_with(|config| config.http.body_timeout = Duration::from_mins(1)).await;
    let app = till.app("a1").await;
    // As long as a body is taken to be that does not announce its length.
    let picture = [PICTURE, &vec![0; 1024 * 1024 - PICTURE.len()]].concat();
    let body = [HEAD.as_bytes(), &picture, TAIL.as_bytes()].concat();
    let tenth = body.len().div_ceil(10);
    let framings = [format!("content-length: {}", body.len()), "transfer-encoding: chunked".to_owned()];
    let sending = framings.iter().map(async |framing| {
        let mut stream = TcpStream::connect(till.address).await.unwrap();
        let head = head(&app, &app.token, &format!("connection: close\r\n{framing}"));
        stream.write_all(head.as_bytes()).await.unwrap();
        for part in body.chunks(tenth) {
            // In all it takes longer than the five seconds that anybody has.
            sleep(Duration::from_millis(550)).await;
            let sent = if framing.contains("chunked") {
                [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat()
            } else {
                part.to_vec()
            };
            stream.write_all(&sent).await.unwrap();
        }
        if framing.contains("chunked") {
            stream.write_all(b"0\r\n\r\n").await.unwrap();
        }
        let mut answer = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
        let answer = Answer::parse(&answer);
        assert_eq!(answer.code(), 1, "{framing}: {}", answer.body);
    });
    futures_util::future::join_all(sending).await;
}

/// Rule: a client that goes away in the middle gives its room back at once.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_go_away_give_their_room_back() {
    let till = narrow_till().await;
    let app = till.app("a1").await;
    for _ in 0..5 {
        // Half of the body earns five minutes, in which nobody else would have room.
        drop(sender_that_stalls(&till, &app, 5 * MEGABYTE).await);
        until("the room is free", async || till.till.upload_memory.in_use() == 0).await;
    }
}
