//! A thousand connections that send very slowly hold up nobody for long.
//!
//! Contract 2.7: a head has 10 s, a body 30 s, and a stalled peer is dropped.
//!
//! Half of them bring a byte of a head every second, half a byte of a body. The bodies are of exchanges, and of reports
//! with a token that is good, so that nothing but the time is against them. None ever stops by itself, not even when it
//! was answered. A server that closes drops such a peer 10 s after its answer at the latest (2 s after its last byte).
//! `http.body_timeout` is a setting. With 1 s all of them must be gone 15 s after the last one came. With the
//! contract's 30 s (the full form tries that too) the bodies must be gone after 45. Gone means that the server has let
//! go of its socket, counted in /proc.
//!
//! Honest games send exchanges all the while. Their 99th percentile may at most double, against the same load before
//! and after in the same server. As many slow connections lead elsewhere then: what they cost the proof itself is no
//! fault of the server's. Below 20 ms it may be anything: times that short are the machine's noise. On a machine that
//! others keep busy that is not judged, and said.
//!
//! Seen to fail when a head had ten times its time, and when a connection lingered for as long as its peer kept sending.

use std::net::SocketAddr;
use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::calls::{credentials, exchange, now, try_send};
use crate::service::program::{Program, ServerProcess};
use crate::service::{TestApp, TestTill};
use crate::support::figures::Figures;
use crate::support::full_or_short;

const SLOW_OF_EACH_KIND: u32 = 500;
const DRIP_EVERY: Duration = Duration::from_secs(1);
const HONEST_CALLERS: usize = 4;
/// Below this a percentile says more about the machine than about the server.
pub(crate) const NOISE: Duration = Duration::from_millis(20);
/// With so many processes for each core that want to run, every answer waits for others: a percentile tells nothing.
const BUSY_PER_CORE: f64 = 4.0;
/// The time that a loaded machine may take to start a thousand connections and to look at them.
const MARGIN: Duration = Duration::from_secs(1);

/// What the server is told, and what must follow.
#[derive(Debug, Clone, Copy)]
struct Case {
    body_timeout: &'static str,
    gone_within: Duration,
}

pub(crate) async fn prove() -> Figures {
    let mut figures = Figures::default();
    let tight = Case { body_timeout: "1s", gone_within: Duration::from_secs(15) };
    let contracts = Case { body_timeout: "30s", gone_within: Duration::from_secs(45) };
    for case in full_or_short(vec![tight, contracts], vec![tight]) {
        // Other work of the machine can raise a percentile. A second time it is a fault.
        if let Err(slower) = hold(case, &mut figures).await
            && let Err(again) = hold(case, &mut figures).await
        {
            if is_busy() {
                let (load, cores) = (load_average(), available_parallelism().map_or(1, NonZero::get));
                figures.note(format!("percentiles NOT JUDGED: {cores} cores have a load of {load}; {again}"));
            } else {
                figures.faults.push(format!("{slower}; again: {again}"));
            }
        }
    }
    figures
}

/// Whether others keep the machine so busy that a percentile tells nothing.
pub(crate) fn is_busy() -> bool {
    let cores = available_parallelism().map_or(1, NonZero::get);
    load_average() > BUSY_PER_CORE * f64::from(u32::try_from(cores).unwrap())
}

/// How many processes have wanted to run in the last minute.
fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or_default()
}

/// Tries one case; the error tells how much slower honest callers were served than they may.
async fn hold(case: Case, figures: &mut Figures) -> Result<(), String> {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    for caller in 0..HONEST_CALLERS {
        till.player(&app, &format!("o{caller}"), 1_000_000, 1_000_000).await;
    }
    let program = Program::on(&till.database_url).with("MINITILL_HTTP__BODY_TIMEOUT", case.body_timeout);
    let server = program.serve(None).await;
    let without_for = full_or_short(Duration::from_secs(10), Duration::from_secs(4));
    // What comes first is slower: sessions are opened, plans made.
    honest(&app, server.address, Duration::from_secs(1), "w").await;
    let mut without = without_slow(&app, server.address, without_for, "a").await;
    let sockets_before = sockets(&server);
    let slow = open_slow(&app, server.address).await;
    let opened = Instant::now();
    let honest_meanwhile = tokio::spawn({
        let (app, address) = (app.clone(), server.address);
        async move { honest(&app, address, Duration::from_secs(9), "b").await }
    });
    let at_most = sockets(&server).saturating_sub(sockets_before);
    assert!(at_most >= 2 * SLOW_OF_EACH_KIND as usize, "only {at_most} slow connections were open at once");
    let mut gone_after = None;
    while gone_after.is_none() && opened.elapsed() < case.gone_within + MARGIN {
        sleep(Duration::from_millis(100)).await;
        // The honest ones have at most one each.
        gone_after = (sockets(&server) <= sockets_before + HONEST_CALLERS).then(|| opened.elapsed());
    }
    let left = sockets(&server).saturating_sub(sockets_before);
    figures.expect(gone_after.is_some_and(|after| after <= case.gone_within), || {
        format!(
            "body_timeout {}: {left} slow connections are left after {:?}",
            case.body_timeout, case.gone_within
        )
    });
    let meanwhile = honest_meanwhile.await.unwrap();
    drop(slow);
    without.extend(without_slow(&app, server.address, without_for, "c").await);
    let (p99_without, p99_meanwhile) = (percentile_99(&without), percentile_99(&meanwhile));
    figures.numbers += without.len() + meanwhile.len();
    figures.recovered_in(gone_after.unwrap_or(case.gone_within));
    figures.note(format!(
        "body_timeout {}: {at_most} slow connections gone after {}; p99 of {} exchanges {:.1} ms without them, of {} {:.1} ms with them",
        case.body_timeout,
        gone_after.map_or_else(|| "?".to_owned(), |after| format!("{:.1} s", after.as_secs_f64())),
        without.len(),
        p99_without.as_secs_f64() * 1000.0,
        meanwhile.len(),
        p99_meanwhile.as_secs_f64() * 1000.0,
    ));
    till.assert_audit_clean().await;
    if p99_meanwhile <= (p99_without * 2).max(NOISE) {
        Ok(())
    } else {
        Err(format!("the 99th percentile was {p99_without:?} without them and {p99_meanwhile:?} with them"))
    }
}

/// Connections that the server's process holds. Its folder in /proc is closed to all but root.
fn sockets(server: &ServerProcess) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux shows its connections");
    let port = format!(":{:04X}", server.address.port());
    let is_held = |line: &&str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        // A closed socket has no inode, and 0A is the state of a listener.
        matches!(columns.get(1..10), Some([local, _, state, .., inode]) if local.ends_with(&port) && *state != "0A" && *inode != "0")
    };
    table.lines().skip(1).filter(is_held).count()
}

/// Opens all slow connections; they drip until the set is dropped or the server resets them.
async fn open_slow(app: &TestApp, address: SocketAddr) -> JoinSet<()> {
    let exchange_head =
        "POST /api/kpay/minigame/pay HTTP/1.1\r\nhost: till\r\ncontent-length: 5000\r\n\r\n".to_owned();
    let report_head = format!(
        "POST /openapi/mp/developer/order/v1/report?{} HTTP/1.1\r\nhost: till\r\ncontent-length: 5000\r\n\r\n",
        credentials(app)
    );
    let mut slow = JoinSet::new();
    for index in 0..SLOW_OF_EACH_KIND {
        let body = if index % 2 == 0 { exchange_head.clone() } else { report_head.clone() };
        for start in ["POST /api/kpay/minigame/pay HTTP/1.1\r\nhost: ".to_owned(), body] {
            let mut stream = TcpStream::connect(address).await.expect("the server listens");
            stream.write_all(start.as_bytes()).await.expect("the first bytes are taken");
            // Not all in the same moment, or the proof would hold itself up.
            slow.spawn(drip(stream, DRIP_EVERY * index / SLOW_OF_EACH_KIND));
        }
    }
    // The server accepts the last of them a moment later.
    sleep(Duration::from_millis(200)).await;
    slow
}

/// Honest callers, while as many slow connections lead elsewhere: what those cost the proof itself is no fault of the
/// server's.
async fn without_slow(
    app: &TestApp,
    address: SocketAddr,
    during: Duration,
    prefix: &'static str,
) -> Vec<Duration> {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
    let slow_address = elsewhere.local_addr().expect("it is bound");
    let mut swallowing = JoinSet::new();
    swallowing.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut stream, _)) = elsewhere.accept().await {
            connections.spawn(async move { tokio::io::copy(&mut stream, &mut tokio::io::sink()).await });
        }
    });
    let slow = open_slow(app, slow_address).await;
    let times = honest(app, address, during, prefix).await;
    drop(slow);
    times
}

/// A byte a second, for ever; answers are read and do not stop it.
async fn drip(mut stream: TcpStream, first: Duration) {
    sleep(first).await;
    let mut heard = [0; 1024];
    let mut is_open = true;
    loop {
        let reading =
            async { if is_open { stream.read(&mut heard).await } else { std::future::pending().await } };
        match timeout(DRIP_EVERY, reading).await {
            Ok(Ok(0)) => is_open = false,
            Ok(Ok(_)) | Err(_) => {}
            Ok(Err(_)) => return,
        }
        if stream.write_all(b"x").await.is_err() {
            return;
        }
    }
}

/// Exchanges one after the other, by a few callers; how long each took.
async fn honest(app: &TestApp, address: SocketAddr, during: Duration, prefix: &'static str) -> Vec<Duration> {
    let mut callers = JoinSet::new();
    for caller in 0..HONEST_CALLERS {
        let app = app.clone();
        callers.spawn(async move {
            let started = Instant::now();
            let mut times = Vec::new();
            while started.elapsed() < during {
                let biz_no = format!("{prefix}{caller}n{}", times.len());
                let request = exchange(&app, &format!("o{caller}"), &biz_no, 1, now());
                let sent = Instant::now();
                let answer = try_send(address, &request).await.expect("honest callers are answered");
                assert_eq!(answer.code(), 1, "{}", answer.body);
                times.push(sent.elapsed());
                // Not as fast as they can: the machine is to be able to do more.
                sleep(Duration::from_millis(5)).await;
            }
            times
        });
    }
    callers.join_all().await.into_iter().flatten().collect()
}

pub(crate) fn percentile_99(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[times.len() * 99 / 100]
}
