//! Two servers behind a proxy are restarted in turns, and no request fails.
//!
//! There are 200 exchanges a second, 100 in the short form (contract 9.6). The server stops accepting, answers
//! everything whose first byte has arrived, and exits within ten seconds.
//!
//! The proxy is as simple as they come. For each connection it takes a server in turns, of those whose /readyz says so.
//! One that does not accept is passed over. It never sends anything twice. Every request has a connection of its own,
//! is sent once, and must succeed. Around each signal more of them come, so that some wait to be accepted just then.
//!
//! Seen to fail when the listener was closed without taking what waited in its backlog (7 of 1,128 requests). Seen to
//! fail also when the drain cut connections at once.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::calls::try_send;
use crate::service::Request;
use crate::service::program::{Program, ServerProcess};
use crate::support::caller::{Asked, Reply};
use crate::support::figures::Figures;
use crate::support::full_or_short;
use crate::support::stage::{Stage, Wallets};

const EXIT_WITHIN: Duration = Duration::from_secs(10);
const HEALTH_EVERY: Duration = Duration::from_millis(100);
const HEALTH_WITHIN: Duration = Duration::from_secs(2);
/// How long the proxy looks for a server that accepts.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const WALLETS: usize = 50;
/// Requests beside those, around each signal.
const BURST: usize = 100;
const BURST_BEFORE_SIGNAL: Duration = Duration::from_millis(40);

/// A server as the proxy knows it.
#[derive(Debug, Clone, Copy)]
struct Backend {
    address: SocketAddr,
    operator_address: SocketAddr,
    is_ready: bool,
}

/// The shared state of the proxy's tasks.
#[derive(Debug, Default)]
struct Backends {
    all: Mutex<Vec<Backend>>,
    turn: AtomicUsize,
}

impl Backends {
    fn set(&self, index: usize, server: &ServerProcess) {
        let backend =
            Backend { address: server.address, operator_address: server.operator_address, is_ready: true };
        let mut all = self.all.lock().unwrap();
        if index == all.len() {
            all.push(backend);
        } else {
            all[index] = backend;
        }
    }

    /// The next one in turn, of those that are ready; of all where none is.
    fn next(&self) -> SocketAddr {
        let all = self.all.lock().unwrap();
        let ready: Vec<_> = all.iter().filter(|backend| backend.is_ready).collect();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        if ready.is_empty() { all[turn % all.len()].address } else { ready[turn % ready.len()].address }
    }

    async fn look_at_health(&self) {
        let all = self.all.lock().unwrap().clone();
        for backend in all {
            let asked = Request::get("/readyz");
            let asking = timeout(HEALTH_WITHIN, try_send(backend.operator_address, &asked)).await;
            let is_ready = asking.ok().flatten().is_some_and(|answer| answer.status == 200);
            let mut all = self.all.lock().unwrap();
            let same = all.iter_mut().find(|known| known.operator_address == backend.operator_address);
            if let Some(known) = same {
                known.is_ready = is_ready;
            }
        }
    }
}

/// Passes bytes on, until its end. What it cannot pass on it closes.
async fn proxy(listener: TcpListener, backends: Arc<Backends>) {
    let health = Arc::clone(&backends);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            health.look_at_health().await;
            sleep(HEALTH_EVERY).await;
        }
    });
    loop {
        let (mut client, _) = listener.accept().await.expect("there are files enough");
        let backends = Arc::clone(&backends);
        tasks.spawn(async move {
            let mut first = [0; 16 * 1024];
            let Ok(length) = client.read(&mut first).await else { return };
            if let Ok(Some(mut server)) = timeout(CONNECT_WITHIN, connect(&backends, &first[..length])).await
            {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            }
        });
        while tasks.try_join_next().is_some() {}
    }
}

/// Connects to a server and sends it the first bytes in one go. A server that stops waits only a moment for the first
/// byte of a connection. `None` when it took the connection and not the bytes, which are not sent again.
async fn connect(backends: &Backends, first: &[u8]) -> Option<TcpStream> {
    loop {
        let address = backends.next();
        let connected = tokio::task::block_in_place(|| {
            let mut stream = std::net::TcpStream::connect_timeout(&address, HEALTH_WITHIN).ok()?;
            Some(stream.write_all(first).map(|()| stream))
        });
        if let Some(sent) = connected {
            let stream = sent.ok()?;
            stream.set_nodelay(true).ok()?;
            stream.set_nonblocking(true).ok()?;
            return TcpStream::from_std(stream).ok();
        }
        sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) async fn prove() -> Figures {
    let (stage, postgres) = Stage::set(Wallets { count: WALLETS, free: 1_000_000, charge: 1_000_000 }).await;
    // A busy machine is no restart: what is not about those may take its time.
    let patience = ["EXCHANGE__DEADLINE", "DATABASE__ACQUIRE_TIMEOUT", "DATABASE__STATEMENT_TIMEOUT"];
    let patient = |program: Program, name: &str| program.with(&format!("MINITILL_{name}"), "6s");
    let stage = Stage { program: patience.into_iter().fold(stage.program.clone(), patient), ..stage };
    let backends = Arc::new(Backends::default());
    let mut servers = Vec::new();
    for index in 0..2 {
        let server = stage.program.serve(None).await;
        backends.set(index, &server);
        servers.push(Some(server));
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let proxy = tokio::spawn(proxy(listener, Arc::clone(&backends)));
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let load = tokio::spawn(load(stage.clone(), address, stopped));
    let (mut slowest_exit, mut failed_in_bursts) = (Duration::ZERO, Vec::new());
    let restarts = full_or_short(20, 6);
    for restart in 0..restarts {
        sleep(Duration::from_millis(500)).await;
        let index = restart % 2;
        let server = servers[index].take().expect("it was started again");
        let burst = tokio::spawn(burst(stage.clone(), address, restart));
        sleep(BURST_BEFORE_SIGNAL).await;
        let exit = tokio::task::spawn_blocking(move || server.terminate()).await.unwrap();
        failed_in_bursts.extend(burst.await.unwrap());
        slowest_exit = slowest_exit.max(exit);
        let again = stage.program.serve(None).await;
        backends.set(index, &again);
        servers[index] = Some(again);
    }
    stop.send(()).expect("the load goes on until now");
    let (sent, failed, took) = load.await.unwrap();
    proxy.abort();
    let mut figures = stage.close_books(postgres.socket_dir()).await;
    figures.faults.extend(failed.into_iter().chain(failed_in_bursts));
    figures.expect(slowest_exit < EXIT_WITHIN, || format!("an exit took {slowest_exit:?}"));
    let rate = f64::from(u32::try_from(sent).unwrap()) / took.as_secs_f64();
    figures.expect(rate > f64::from(self::rate()) * 0.75, || {
        format!("only {rate:.0} requests a second: the proof shows less than it says")
    });
    figures.note(format!(
        "{restarts} restarts at {rate:.0} requests a second, slowest exit {:.2} s, slowest answer {:.2} s",
        slowest_exit.as_secs_f64(),
        stage.meter.slowest().as_secs_f64()
    ));
    figures
}

/// Requests a second; the short form is for machines that are busy.
fn rate() -> u32 {
    full_or_short(200, 100)
}

/// Sends exchanges at that rate, whatever becomes of those before; gives how many, what failed, and how
/// long it went on.
async fn load(
    stage: Stage,
    address: SocketAddr,
    mut stopped: tokio::sync::oneshot::Receiver<()>,
) -> (usize, Vec<String>, Duration) {
    let started = Instant::now();
    let mut ticks = interval(Duration::from_secs(1) / rate());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut requests = JoinSet::new();
    let mut sent = 0;
    while stopped.try_recv().is_err() {
        ticks.tick().await;
        sent += 1;
        requests.spawn(ask_once(stage.clone(), address, format!("r{sent}"), sent));
    }
    let took = started.elapsed();
    (sent, requests.join_all().await.into_iter().flatten().collect(), took)
}

/// One exchange over the proxy, of one of the wallets in turn; why it failed.
async fn ask_once(stage: Stage, address: SocketAddr, number: String, turn: usize) -> Option<String> {
    let asked = Asked::exchange(number, format!("o{}", turn % WALLETS), 1, 0);
    match stage.caller().ask(address, &asked).await {
        reply if reply.is_success() => None,
        Reply::Answer { status, body, .. } => Some(format!("{}: {status} {body}", asked.number)),
        Reply::Silence(why) => Some(format!("{}: {why}", asked.number)),
    }
}

/// A connection a millisecond, so that some wait to be accepted when the signal comes.
async fn burst(stage: Stage, address: SocketAddr, restart: usize) -> Vec<String> {
    let mut requests = JoinSet::new();
    for index in 0..BURST {
        requests.spawn(ask_once(stage.clone(), address, format!("x{restart}n{index}"), index));
        sleep(Duration::from_millis(1)).await;
    }
    requests.join_all().await.into_iter().flatten().collect()
}
