//! Strangers from many addresses take neither the server's memory nor the time of payments.
//!
//! Contract 2.7. Clients have addresses of 127.0.0.0/8, each with fewer connections than one address may have.
//!
//! - Slow readers: each asks for a picture of 6 MB, reads its first bytes, and stops. The server's memory stays below
//!   200 MB with 4,000 of them.
//! - A flood: each asks for pictures, unknown pictures and tokens, again and again. Every payment of an honest caller
//!   succeeds meanwhile, and the slowest takes less than a second. On a machine that others keep busy the time is told
//!   and not judged.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::calls::{exchange, now, try_send, upload};
use crate::service::program::{Program, ServerProcess};
use crate::service::{TestApp, TestTill};
use crate::support::Dice;
use crate::support::figures::Figures;
use crate::support::full_or_short;
use crate::support::stage::with_defaults;

const MEGABYTE: usize = 1_000_000;
const MEMORY_MAX: usize = 200 * MEGABYTE;
const SLOWEST_MAX: Duration = Duration::from_secs(1);
const HONEST_CALLERS: u32 = 4;
/// Clients that share an address.
const PER_ADDRESS: u32 = 20;

pub(crate) async fn prove() -> Figures {
    let mut figures = Figures::default();
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    for caller in 0..HONEST_CALLERS {
        till.player(&app, &format!("o{caller}"), 1_000_000, 1_000_000).await;
    }
    let program = with_defaults(Program::on(&till.database_url));
    let server = program.serve(None).await;
    let answer = try_send(server.address, &upload(&app, &noise(1_420))).await.expect("an upload is answered");
    let img_id = answer.json()["data"]["imgId"].as_str().expect("a good picture").to_owned();
    slow_readers(&server, &img_id, &mut figures).await;
    let before = honest(&app, server.address, "a", Duration::from_secs(5)).await;
    flood(&server, &app, &img_id, &mut figures).await;
    figures.note(format!("before the flood {before}"));
    till.assert_audit_clean().await;
    figures
}

/// A PNG that does not compress.
fn noise(side: u32) -> Vec<u8> {
    let mut dice = Dice::new(7);
    let pixels: Vec<u8> = (0..side * side * 3).map(|_| dice.throw(256).to_le_bytes()[0]).collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, side, side);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().expect("a vector takes everything");
    writer.write_image_data(&pixels).expect("as many pixels as were announced");
    writer.finish().expect("a vector takes everything");
    bytes
}

/// Connects as the client with this number, from an address that it shares with few.
pub(crate) async fn connect(
    client: u32,
    address: SocketAddr,
    receive_bytes: Option<u32>,
) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if let Some(bytes) = receive_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    let source = Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 1).to_bits() + client / PER_ADDRESS);
    socket.bind(SocketAddr::new(source.into(), 0))?;
    socket.connect(address).await
}

async fn slow_readers(server: &ServerProcess, img_id: &str, figures: &mut Figures) {
    let readers = full_or_short(4_000, 500);
    let (before, kernel_before) = (memory(server), kernel_memory());
    let mut open = Vec::new();
    for reader in 0..readers {
        let mut stream = connect(reader, server.address, Some(16 * 1024)).await.expect("the server listens");
        let request = format!("GET /img/{img_id} HTTP/1.1\r\nhost: till\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("the request is taken");
        open.push(stream);
        if reader % 50 == 0 {
            sleep(Duration::from_millis(10)).await;
        }
    }
    let mut most = 0;
    for _ in 0..50 {
        sleep(Duration::from_millis(100)).await;
        most = most.max(memory(server));
    }
    let kernel = kernel_memory().saturating_sub(kernel_before);
    figures.note(format!(
        "{readers} slow readers of 6 MB: the server's memory went from {} to {} MB, the kernel's for sockets by {} MB",
        before / MEGABYTE,
        most / MEGABYTE,
        kernel / MEGABYTE
    ));
    figures.expect(most < MEMORY_MAX, || format!("{readers} slow readers take {} MB", most / MEGABYTE));
    drop(open);
}

/// Resident memory of the server, in bytes.
fn memory(server: &ServerProcess) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("the server runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux tells");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

/// Memory of all TCP sockets of the machine, in bytes: those of the readers too.
fn kernel_memory() -> usize {
    let text = std::fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let tcp = text.lines().find_map(|line| line.strip_prefix("TCP: ")).unwrap_or_default();
    let pages = tcp.split(' ').skip_while(|word| *word != "mem").nth(1);
    pages.and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default() * 4096
}

/// How honest callers were served.
struct Honest {
    paid: usize,
    failed: Vec<String>,
    slowest: Duration,
}

impl std::fmt::Display for Honest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { paid, failed, slowest } = self;
        write!(f, "{paid} payments, {} failed, the slowest {:.2} s", failed.len(), slowest.as_secs_f64())
    }
}

async fn flood(server: &ServerProcess, app: &TestApp, img_id: &str, figures: &mut Figures) {
    let clients = full_or_short(6_000, 1_000);
    let during = full_or_short(Duration::from_secs(20), Duration::from_secs(8));
    let mut strangers = JoinSet::new();
    for client in 0..clients {
        let target = match client % 4 {
            0 => format!("/img/{img_id}"),
            1 => format!("/img/{client:048x}"),
            2 => {
                format!("/oauth2/access_token?app_id=none{client}&app_secret=x&grant_type=client_credentials")
            }
            _ => format!("/oauth2/access_token?app_id={}&app_secret=x&grant_type=client_credentials", app.id),
        };
        let address = server.address;
        strangers.spawn(async move {
            let request = format!("GET {target} HTTP/1.1\r\nhost: till\r\n\r\n");
            loop {
                let _ = ask(client, address, &request).await;
                sleep(Duration::from_millis(100)).await;
            }
        });
    }
    // Until most of them are connected.
    sleep(Duration::from_secs(2)).await;
    let honest = honest(app, server.address, "b", during).await;
    let most = memory(server);
    drop(strangers);
    figures.numbers += honest.paid;
    figures.note(format!("{clients} strangers: {honest}, the server has {} MB", most / MEGABYTE));
    figures.expect(honest.failed.is_empty() && honest.paid > 0, || format!("failed: {:?}", honest.failed));
    figures.expect(honest.slowest < SLOWEST_MAX, || format!("the slowest payment took {:?}", honest.slowest));
}

/// Asks on one connection until it ends, and reads what comes.
async fn ask(client: u32, address: SocketAddr, request: &str) -> std::io::Result<()> {
    let mut stream = connect(client, address, None).await?;
    let mut heard = vec![0; 16 * 1024];
    loop {
        stream.write_all(request.as_bytes()).await?;
        // An answer has come when nothing more comes for a moment.
        while let Ok(read) = timeout(Duration::from_millis(500), stream.read(&mut heard)).await {
            if read? == 0 {
                return Ok(());
            }
        }
    }
}

/// Exchanges one after the other, by a few callers from an address of their own.
async fn honest(app: &TestApp, address: SocketAddr, prefix: &'static str, during: Duration) -> Honest {
    let mut callers = JoinSet::new();
    for caller in 0..HONEST_CALLERS {
        let app = app.clone();
        callers.spawn(async move {
            let started = Instant::now();
            let mut honest = Honest { paid: 0, failed: Vec::new(), slowest: Duration::ZERO };
            for number in 0.. {
                if started.elapsed() > during {
                    break;
                }
                let request =
                    exchange(&app, &format!("o{caller}"), &format!("{prefix}{caller}n{number}"), 1, now());
                let sent = Instant::now();
                match try_send(address, &request).await {
                    Some(answer) if answer.code() == 1 => honest.paid += 1,
                    Some(answer) => honest.failed.push(answer.body),
                    None => honest.failed.push("no answer".to_owned()),
                }
                honest.slowest = honest.slowest.max(sent.elapsed());
                sleep(Duration::from_millis(20)).await;
            }
            honest
        });
    }
    let all = callers.join_all().await;
    Honest {
        paid: all.iter().map(|honest| honest.paid).sum(),
        slowest: all.iter().map(|honest| honest.slowest).max().unwrap_or_default(),
        failed: all.into_iter().flat_map(|honest| honest.failed).collect(),
    }
}
