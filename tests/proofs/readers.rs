//! Help and readers cost payments little.
//!
//! Contract 3.2.9 and 3.7.5, and 9.5.5 to 9.5.10 of the operators' contract. Honest callers pay by themselves for a while;
//! then beside each flood:
//!
//! - for comparison, 300 connections with a token that is none, each ten times a second;
//! - 300 connections that send exchanges of a sandbox app with wrong signatures, and go on as soon as they are answered.
//!   They have its token and no key;
//! - 40 connections of one viewer's API key that search the operator's log for a text. They do so again as soon as they
//!   were answered or refused. Beside them 3,500 connections of another key hold polls of the feed, whose head moves
//!   with every payment. `readyz` is asked four times a second. Most polls must be held at the end;
//! - the same searches and 200 polls that every payment answers.
//!
//! The floods come from a thread that yields to the server: an attacker has a machine of their own.
//!
//! No payment may fail. Their 99th percentile has a bound beside the wrong signatures, and beside the searches with
//! held polls. It is three times that of the quiet part of the same run. Below 20 ms it may be anything: times that
//! short are the machine's noise. On a machine that others keep busy that is not judged, and said. `readyz` stays 200.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::calls::{exchange, now, try_send};
use crate::crowds::connect;
use crate::service::game::Game;
use crate::service::program::{Program, ServerProcess};
use crate::service::{AppKind, Request, TestApp, TestTill};
use crate::slow_connections::{NOISE, is_busy, percentile_99};
use crate::support::figures::Figures;
use crate::support::full_or_short;
use crate::support::stage::with_defaults;

const HONEST_CALLERS: usize = 8;
const WRONG_SENDERS: u32 = 300;
const SEARCHERS: u32 = 40;
const LINES_OF_LOG: u32 = 200_000;
/// What a payment may take beside a flood, of what it takes in quiet.
const SLOWER_MAX: u32 = 3;

/// How often a flood was answered, by what the answer was.
#[derive(Debug, Default)]
struct Answers {
    taken: AtomicU32,
    busy: AtomicU32,
    cut: AtomicU32,
    /// Requests that are under way.
    waiting: AtomicU32,
}

impl std::fmt::Display for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = |count: &AtomicU32| count.load(Ordering::Relaxed);
        write!(f, "{} answered, {} with 503, {} cut", of(&self.taken), of(&self.busy), of(&self.cut))
    }
}

impl Answers {
    fn count(&self, answer: &std::io::Result<u16>) {
        let of = match answer {
            Ok(503) => &self.busy,
            Ok(_) => &self.taken,
            Err(_) => &self.cut,
        };
        of.fetch_add(1, Ordering::Relaxed);
    }
}

/// The observations of honest callers.
#[derive(Debug, Default)]
struct Paid {
    times: Vec<Duration>,
    failed: Vec<String>,
}

pub(crate) async fn prove() -> Figures {
    let mut figures = Figures::default();
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let sandbox = till.app_like("s1", AppKind { sandbox: true, ..AppKind::default() }).await;
    for caller in 0..HONEST_CALLERS {
        till.player(&app, &format!("o{caller}"), 1_000_000, 1_000_000).await;
    }
    let program = with_defaults(Program::on(&till.database_url));
    let [key, polls_key] = ["reader", "poller"].map(|name| {
        let made = program.json(&["api-key", "create", name, "--role", "viewer"]);
        made["api_key"].as_str().expect("it is shown once").to_owned()
    });
    let server = program.serve(None).await;
    let quiet_for = full_or_short(Duration::from_secs(20), Duration::from_secs(6));
    // What comes first is slower: sessions are opened, plans made.
    pay(&app, server.address, Duration::from_secs(2), "w").await;
    let quiet = pay(&app, server.address, quiet_for, "q").await;
    let quiet_p99 = percentile_99(&quiet.times);
    figures.note(format!("in quiet {}", told(&quiet)));
    judge(&mut figures, "quiet", &quiet, None);

    let flooding = flood_runtime();
    let flood = flooding.handle();
    let stranger = TestApp { token: "f".repeat(64), ..sandbox.clone() };
    for (kind, from, pause) in [
        ("unknown tokens, ten times a second each", &stranger, Duration::from_millis(100)),
        ("wrong signatures", &sandbox, Duration::ZERO),
    ] {
        let answers = Arc::new(Answers::default());
        let senders = wrong_senders(from, server.address, &answers, pause, flood).await;
        let paid = pay(&app, server.address, quiet_for, if pause.is_zero() { "s" } else { "u" }).await;
        drop(senders);
        figures.note(format!("{WRONG_SENDERS} connections with {kind} ({answers}): {}", told(&paid)));
        // Cheap refusals by the thousand are there to compare with.
        judge(&mut figures, kind, &paid, pause.is_zero().then_some(quiet_p99));
    }

    fill_log(&till).await;
    let answers = Arc::new(Answers::default());
    let mut readers = searchers(&key, server.operator_address, &answers, flood);
    let held_polls = full_or_short(3_500, 1_000);
    for (kind, polls, prefix) in [("of no event", held_polls, "n"), ("of every event", 200, "e")] {
        let held = Arc::new(Answers::default());
        let polling = polls_held(&polls_key, &server, polls, prefix == "e", &held, flood).await;
        let ready = tokio::spawn(ready(server.operator_address, quiet_for));
        let paid = pay(&app, server.address, quiet_for, prefix).await;
        let (asked, not_ready, slowest) = ready.await.expect("it only asks");
        let waiting = held.waiting.load(Ordering::Relaxed);
        drop(polling);
        figures.note(format!(
            "{SEARCHERS} searches of the log ({answers}) and {polls} polls {kind} ({held}, {waiting} held at the end): {}; \
             readyz asked {asked} times, the slowest {:.1} ms",
            told(&paid),
            slowest.as_secs_f64() * 1000.0
        ));
        // Polls that every payment answers are work, not waiting: their time is told and not judged.
        judge(&mut figures, &format!("readers, polls {kind}"), &paid, (prefix == "n").then_some(quiet_p99));
        figures.expect(not_ready.is_empty() && asked > 0, || format!("readyz: {not_ready:?}"));
        figures.expect(prefix == "e" || waiting * 10 >= polls * 9, || {
            format!("only {waiting} of {polls} polls are held")
        });
    }
    readers.abort_all();
    while readers.join_next().await.is_some() {}
    flooding.shutdown_background();
    drop(server);
    till.execute("DELETE FROM operator_log WHERE action = 'proof'").await;
    till.assert_audit_clean().await;
    figures
}

fn told(paid: &Paid) -> String {
    let (count, failed) = (paid.times.len(), paid.failed.len());
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let slowest = paid.times.iter().max().copied().unwrap_or_default();
    format!(
        "{count} payments, {failed} failed, p99 {:.1} ms, the slowest {:.1} ms",
        millis(percentile_99(&paid.times)),
        millis(slowest)
    )
}

/// Nothing may fail, and with the percentile of the quiet part nothing may be slow.
fn judge(figures: &mut Figures, what: &str, paid: &Paid, quiet_p99: Option<Duration>) {
    figures.numbers += paid.times.len();
    figures.expect(paid.failed.is_empty() && !paid.times.is_empty(), || {
        format!("{what}: {} payments failed, the first: {:?}", paid.failed.len(), paid.failed.first())
    });
    let Some(quiet) = quiet_p99 else { return };
    let p99 = percentile_99(&paid.times);
    figures.note(format!("{what}: p99 {:.2} of quiet", p99.as_secs_f64() / quiet.as_secs_f64()));
    if p99 > (quiet * SLOWER_MAX).max(NOISE) {
        let fault =
            format!("{what}: the 99th percentile was {quiet:?} in quiet and {p99:?} beside the flood");
        if is_busy() { figures.note(format!("NOT JUDGED: {fault}")) } else { figures.faults.push(fault) }
    }
}

/// Exchanges one after the other, by a few callers.
async fn pay(app: &TestApp, address: SocketAddr, during: Duration, prefix: &'static str) -> Paid {
    let mut callers = JoinSet::new();
    for caller in 0..HONEST_CALLERS {
        let app = app.clone();
        callers.spawn(async move {
            let (started, mut paid) = (Instant::now(), Paid::default());
            for number in 0.. {
                if started.elapsed() > during {
                    break;
                }
                let biz_no = format!("{prefix}{caller}n{number}");
                let request = exchange(&app, &format!("o{caller}"), &biz_no, 1, now());
                let sent = Instant::now();
                match try_send(address, &request).await {
                    Some(answer) if answer.code() == 1 => {}
                    Some(answer) => paid.failed.push(answer.body),
                    None => paid.failed.push("no answer".to_owned()),
                }
                paid.times.push(sent.elapsed());
                sleep(Duration::from_millis(10)).await;
            }
            paid
        });
    }
    let mut all = Paid::default();
    for paid in callers.join_all().await {
        all.times.extend(paid.times);
        all.failed.extend(paid.failed);
    }
    all
}

/// Threads that yield to the server's.
fn flood_runtime() -> Runtime {
    let nice = || {
        rustix::process::setpriority_process(None, 10).expect("a thread may yield more");
    };
    let mut threads = Builder::new_multi_thread();
    threads.worker_threads(1).enable_all().on_thread_start(nice).build().expect("there are threads")
}

/// Exchanges with wrong signatures, each on a connection that goes on after a pause. Until all are connected.
async fn wrong_senders(
    app: &TestApp,
    address: SocketAddr,
    answers: &Arc<Answers>,
    pause: Duration,
    flood: &Handle,
) -> JoinSet<()> {
    let mut senders = JoinSet::new();
    for sender in 0..WRONG_SENDERS {
        let (app, answers) = (app.clone(), Arc::clone(answers));
        senders.spawn_on(
            async move {
                let mut stream = connect(sender, address, None).await.expect("the server listens");
                for number in 0_u64.. {
                    let sign = format!("{sender:08x}{number:056x}");
                    let wrong = Game::new(&app, "o1", &format!("f{sender}n{number}"), 1).with("ts", now());
                    let request =
                        String::from_utf8(wrong.with("sign", sign).request().bytes()).expect("it is text");
                    let request = request.replace("connection: close\r\n", "");
                    let answer = ask(&mut stream, request.as_bytes()).await;
                    let is_cut = answer.is_err();
                    answers.count(&answer);
                    if is_cut {
                        return;
                    }
                    sleep(pause).await;
                }
            },
            flood,
        );
    }
    sleep(Duration::from_secs(1)).await;
    senders
}

/// Lines in which a search finds nothing.
async fn fill_log(till: &TestTill) {
    till.execute(&format!(
        "INSERT INTO operator_log (seq, chain_hash, content_hash, app_id, at, id, operator_kind, operator, action, subject,
             note, before, after)
         SELECT 1000 + n, sha256(''), sha256(''), 'a1', now() - n * interval '1 second', hashint4(n), 'console', 'alice',
             'proof', 's' || n, '', jsonb_build_object('free_balance', n), jsonb_build_object('free_balance', n + 1)
         FROM generate_series(1, {LINES_OF_LOG}) AS n"
    ))
    .await;
    till.execute("ANALYZE operator_log").await;
}

/// Searches of the log for a text that is nowhere.
fn searchers(key: &str, address: SocketAddr, answers: &Arc<Answers>, flood: &Handle) -> JoinSet<()> {
    let since = (time::OffsetDateTime::now_utc() - time::Duration::days(60)).date();
    let request = get(key, &format!("/admin/v1/operator-log?subject=nothing&since={since}"));
    let mut searchers = JoinSet::new();
    for searcher in 0..SEARCHERS {
        let (request, answers) = (request.clone(), Arc::clone(answers));
        let search = async move {
            loop {
                if let Ok(mut stream) = connect(searcher, address, None).await {
                    while let Ok(status) = ask(&mut stream, request.as_bytes()).await {
                        answers.count(&Ok(status));
                    }
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        searchers.spawn_on(search, flood);
    }
    searchers
}

/// The cursor of the head of the feed.
async fn head_of_feed(key: &str, address: SocketAddr) -> String {
    let mut stream = connect(0, address, None).await.expect("the server listens");
    let mut place = String::new();
    loop {
        let request = get(key, &format!("/admin/v1/events?type=image.blocked{place}"));
        let (status, body) = ask_whole(&mut stream, request.as_bytes()).await.expect("it answers");
        let page: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        let Some(next) = page["next"].as_str().filter(|_| status == 200) else { continue };
        let after = format!("&after={next}");
        if place == after {
            return after;
        }
        place = after;
    }
}

/// Polls at the head of the feed. Those of no event are held until their time is over. Until all are held.
async fn polls_held(
    key: &str,
    server: &ServerProcess,
    polls: u32,
    of_every_event: bool,
    answers: &Arc<Answers>,
    flood: &Handle,
) -> JoinSet<()> {
    let address = server.operator_address;
    let filter = if of_every_event { "" } else { "&type=image.blocked" };
    let head = head_of_feed(key, address).await;
    let mut polling = JoinSet::new();
    for poll in 0..polls {
        let (key, answers, mut place) = (key.to_owned(), Arc::clone(answers), head.clone());
        let poll_on = async move {
            loop {
                let Ok(mut stream) = connect(1_000 + poll, address, None).await else {
                    sleep(Duration::from_millis(100)).await;
                    continue;
                };
                loop {
                    let request = get(&key, &format!("/admin/v1/events?wait=30&limit=50{filter}{place}"));
                    answers.waiting.fetch_add(1, Ordering::Relaxed);
                    let answer = ask_whole(&mut stream, request.as_bytes()).await;
                    answers.waiting.fetch_sub(1, Ordering::Relaxed);
                    let Ok((status, body)) = answer else { break };
                    answers.count(&Ok(status));
                    if status == 503 {
                        // A client does as `Retry-After` says.
                        sleep(Duration::from_secs(1)).await;
                    }
                    let page: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
                    place = page["next"].as_str().map_or(place, |next| format!("&after={next}"));
                }
            }
        };
        polling.spawn_on(poll_on, flood);
        if poll % 50 == 0 {
            sleep(Duration::from_millis(20)).await;
        }
    }
    sleep(Duration::from_secs(3)).await;
    polling
}

/// Asks whether the server is ready, four times a second. How often, what else came, and the longest time.
async fn ready(address: SocketAddr, during: Duration) -> (u32, Vec<String>, Duration) {
    let (started, mut asked, mut wrong, mut slowest) = (Instant::now(), 0, Vec::new(), Duration::ZERO);
    while started.elapsed() < during {
        let sent = Instant::now();
        match try_send(address, &Request::get("/readyz")).await {
            Some(answer) if answer.status == 200 => {}
            Some(answer) => wrong.push(answer.body),
            None => wrong.push("no answer".to_owned()),
        }
        (asked, slowest) = (asked + 1, slowest.max(sent.elapsed()));
        sleep(Duration::from_millis(250)).await;
    }
    (asked, wrong, slowest)
}

fn get(key: &str, target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n\r\n")
}

/// Asks on a connection that stays open. The status of the answer.
async fn ask(stream: &mut TcpStream, request: &[u8]) -> std::io::Result<u16> {
    ask_whole(stream, request).await.map(|(status, _)| status)
}

/// The same, with the body.
async fn ask_whole(stream: &mut TcpStream, request: &[u8]) -> std::io::Result<(u16, String)> {
    stream.write_all(request).await?;
    let mut heard = Vec::with_capacity(2048);
    loop {
        if let Some(answer) = take_apart(&heard) {
            return Ok(answer);
        }
        let reading = timeout(Duration::from_mins(1), stream.read_buf(&mut heard)).await;
        if reading.map_err(|_| std::io::ErrorKind::TimedOut)?? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Status and body of a whole answer with a length.
fn take_apart(answer: &[u8]) -> Option<(u16, String)> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.split("\r\n").filter_map(|line| line.split_once(": "));
    let length =
        length.filter(|(name, _)| name.eq_ignore_ascii_case("content-length")).map(|(_, value)| value);
    let length: usize = length.last()?.parse().ok()?;
    (body.len() >= length).then_some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}
