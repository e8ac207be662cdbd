//! Half an hour of every kind of request, and the server's memory does not grow.
//!
//! Contract 2.7: everything has a limit.
//!
//! The load is new exchanges, presents, cancels and closed numbers, replays, refusals, order reports, uploads of new
//! and of known pictures, tokens and pictures. Its pace is steady and leaves the machine some room. Every five seconds
//! the server's resident memory is read from /proc; what came before the warm-up ended does not count. The slope of the
//! line through the rest (least squares) must be below 1 MB a minute. At some 200 requests a second that is a leak of
//! 90 bytes a request. The short form looks at 45 seconds only, in which an allocator that still settles looks like a
//! leak. So it allows 8 MB a minute, and shows no more than that nothing leaks a kilobyte a request. The audit is clean
//! at the end.
//!
//! Seen to fail when every look-up of a token left 4 KB behind (37 MB a minute).

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::calls::{exchange, now, picture, report, token, try_send, upload};
use crate::service::{Answer, Request, TestApp};
use crate::support::caller::{Asked, Reply, Servers, Wish};
use crate::support::figures::Figures;
use crate::support::load::{mixed, remember};
use crate::support::stage::{Stage, Wallets};
use crate::support::{Dice, full_or_short};

const CALLERS: u64 = 8;
/// Of each caller: 200 a second in all.
const BETWEEN_REQUESTS: Duration = Duration::from_millis(40);
const SAMPLE_EVERY: Duration = Duration::from_secs(5);
const WALLETS: u64 = 200;
/// The books tell of a number that nobody knows about for longer.
const SETTLE_WITHIN: Duration = Duration::from_mins(1);

/// The work of the callers.
#[derive(Debug, Default)]
struct Done {
    requests: AtomicUsize,
    uploads: AtomicUsize,
    reports: AtomicUsize,
}

pub(crate) async fn prove() -> Figures {
    let warm_up = full_or_short(Duration::from_mins(5), Duration::from_secs(15));
    let time = full_or_short(Duration::from_mins(30), Duration::from_mins(1));
    let growth_max = full_or_short(1.0, 8.0);
    let (stage, postgres) = Stage::set(Wallets { count: 200, free: 100_000_000, charge: 100_000_000 }).await;
    // The limits of one app are lower than what this sends.
    let program = ["UPLOADS", "TOKENS"].into_iter().fold(stage.program.clone(), |program, endpoint| {
        program.with(&format!("MINITILL_LIMITS__{endpoint}_PER_SECOND"), "0")
    });
    let server = program.serve(None).await;
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(Done::default()));
    let mut callers = JoinSet::new();
    for index in 0..CALLERS {
        let caller = Soaker {
            stage: stage.clone(),
            address: server.address,
            dice: Dice::new(index),
            index,
            count: 0,
            images: Vec::new(),
            paid: Vec::new(),
            done: Arc::clone(&done),
        };
        callers.spawn(caller.work(Arc::clone(&stop)));
    }
    let started = Instant::now();
    let mut samples = Vec::new();
    while started.elapsed() < time {
        sleep(SAMPLE_EVERY.min(warm_up / 5)).await;
        if started.elapsed() > warm_up {
            samples.push((started.elapsed().as_secs_f64() / 60.0, resident_megabytes(server.pid())));
        }
    }
    stop.store(true, Ordering::SeqCst);
    while let Some(ended) = callers.join_next().await {
        ended.unwrap();
    }
    let mut figures = stage.close_books(postgres.socket_dir()).await;
    let growth = slope(&samples);
    figures.expect(growth < growth_max, || format!("memory grows by {growth:.2} MB a minute: {samples:?}"));
    let (first, last) = (samples[0].1, samples[samples.len() - 1].1);
    figures.note(format!(
        "{} requests, {} of them uploads and {} reports; memory {first:.1} MB after {} s, {last:.1} MB at the end, \
         {growth:+.2} MB a minute",
        done.requests.load(Ordering::SeqCst),
        done.uploads.load(Ordering::SeqCst),
        done.reports.load(Ordering::SeqCst),
        warm_up.as_secs(),
    ));
    figures
}

/// One caller that does everything.
struct Soaker {
    stage: Stage,
    address: SocketAddr,
    dice: Dice,
    index: u64,
    count: u64,
    images: Vec<String>,
    /// Exchanges to be cancelled in parts.
    paid: Vec<Asked>,
    done: Arc<Done>,
}

impl Soaker {
    async fn work(mut self, stop: Arc<AtomicBool>) {
        let mut ticks = interval(BETWEEN_REQUESTS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.upload().await;
        while !stop.load(Ordering::SeqCst) {
            ticks.tick().await;
            self.count += 1;
            self.done.requests.fetch_add(1, Ordering::Relaxed);
            match self.dice.throw(20) {
                0..10 => self.change().await,
                10..12 => self.refused().await,
                12..15 => self.report().await,
                15..17 => self.upload().await,
                17 => self.token().await,
                18.. => self.look().await,
            }
        }
    }

    fn app(&self) -> Arc<TestApp> {
        Arc::clone(&self.stage.app)
    }

    /// A machine that is busy with other things may take its time.
    async fn send(&self, request: &Request) -> Answer {
        loop {
            let answer = try_send(self.address, request).await.expect("a server that runs answers");
            if answer.status != 503 {
                return answer;
            }
            sleep(BETWEEN_REQUESTS).await;
        }
    }

    /// A new change of any kind, and every third time the same again.
    async fn change(&mut self) {
        let number = format!("s{}n{}", self.index, self.count);
        let open_id = format!("o{}", self.dice.throw(WALLETS));
        let amount = 1 + i64::try_from(self.dice.throw(9)).unwrap();
        let priority = i16::try_from(self.dice.throw(2)).unwrap();
        let exchange = Asked::exchange(number, open_id, amount, priority);
        let asked = mixed(&mut self.dice, exchange, &self.paid);
        let (mut caller, servers) = (self.stage.caller(), Servers::new(&[self.address]));
        let mut reply = None;
        for _ in 0..=u8::from(self.dice.throw(3) == 0) {
            reply = caller.settle(&servers, &asked, SETTLE_WITHIN).await;
            // A cancel may ask for more than is left.
            let is_told = |reply: &Reply| reply.is_success() || matches!(asked.wish, Wish::Cancel(_));
            assert!(reply.as_ref().is_some_and(is_told), "{reply:?}");
        }
        remember(&mut self.paid, &asked, reply.as_ref());
    }

    /// A player that nobody knows, a signature that is wrong, and a number of the wrong form.
    async fn refused(&mut self) {
        let app = self.app();
        let stranger = format!("stranger{}x{}", self.index, self.count);
        let forger = TestApp { pay_key: "wrong".to_owned(), ..(*app).clone() };
        let (code, request) = match self.dice.throw(3) {
            0 => (10_000_423, exchange(&app, &stranger, &stranger, 1, now())),
            1 => (100_200_114, exchange(&forger, "o1", &stranger, 1, now())),
            2.. => (10_000_200, exchange(&app, "o1", "not-a-number", 1, now())),
        };
        assert_eq!(self.send(&request).await.code(), code);
    }

    /// A new order, or the next status of the last one.
    async fn report(&mut self) {
        let number = format!("order-{}-{}", self.index, self.count / 50);
        let img_id = &self.images[usize::try_from(self.dice.throw(self.images.len() as u64)).unwrap()];
        let status = [1, 2, 3, 4, 5, 6][usize::try_from(self.count % 6).unwrap()];
        let open_id = format!("o{}", self.index);
        let answer = self.send(&report(&self.app(), &number, &open_id, img_id, status)).await;
        assert_eq!(answer.code(), 1, "{}", answer.body);
        self.done.reports.fetch_add(1, Ordering::Relaxed);
    }

    /// A new picture, or one that is known.
    async fn upload(&mut self) {
        let seed = if self.dice.throw(2) == 0 { 7 } else { self.index * 1_000_000 + self.count };
        let answer = self.send(&upload(&self.app(), &picture(seed))).await;
        assert_eq!(answer.code(), 1, "{}", answer.body);
        let img_id = answer.json()["data"]["imgId"].as_str().unwrap().to_owned();
        // As many as it takes to look at different ones; the proof shall not grow either.
        self.images.truncate(49);
        self.images.push(img_id);
        self.done.uploads.fetch_add(1, Ordering::Relaxed);
    }

    /// A new token, used once.
    async fn token(&mut self) {
        let answer = self.send(&token(&self.app())).await;
        let token = answer.json()["access_token"].as_str().unwrap().to_owned();
        let app = TestApp { token, ..(*self.app()).clone() };
        assert_eq!(self.send(&upload(&app, &picture(7))).await.code(), 1);
    }

    async fn look(&mut self) {
        let img_id = &self.images[usize::try_from(self.dice.throw(self.images.len() as u64)).unwrap()];
        let answer = self.send(&Request::get(&format!("/img/{img_id}"))).await;
        assert_eq!(answer.status, 200);
    }
}

/// Resident memory of a process.
fn resident_megabytes(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the server runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("every process has some");
    let kilobytes: u32 = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
    f64::from(kilobytes) / 1024.0
}

/// Of the line through points that has the least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = f64::from(u32::try_from(points.len()).unwrap());
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    covariance / variance
}
