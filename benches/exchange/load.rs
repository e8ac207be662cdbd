//! The load generator: one thread, many keep-alive connections, one request at a time on each.

mod connection;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use connection::{Answer, Connection};
use tokio::sync::{Mutex, mpsc};
use tokio::task::LocalSet;

use crate::Fallible;
use crate::requests::{Asked, Paid, Random, Requests};
use crate::sample::Latency;

/// A server that has not answered so long after the end of a measurement never will.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between the decision on the schedule and its first request.
const LEAD: Duration = Duration::from_millis(20);
/// The width of a paced schedule.
const TICK: Duration = Duration::from_millis(1);
/// Different wrong answers that are told apart.
const WRONG_KINDS_MAX: usize = 20;

/// How requests are sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Drive {
    /// Each connection sends as soon as it has its answer, for so long or until no request is left.
    Closed { connections: usize, lasting: Duration, half_replays: bool },
    /// On a schedule, whatever the answers do. A latency counts from the scheduled moment, so a
    /// server that falls behind cannot hide it.
    Paced { connections: usize, interval: Duration },
}

/// The answers of a run.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Of every right answer.
    pub(crate) latencies: Vec<Latency>,
    /// Calls that were answered with success, each with its own order number.
    pub(crate) made: BTreeMap<Asked, u64>,
    /// The exchanges and new orders among them.
    pub(crate) paid: Vec<(Asked, Paid)>,
    /// Wrong answers, by what they said.
    pub(crate) wrong: BTreeMap<String, u64>,
    /// From the first request to the last answer.
    pub(crate) elapsed: Duration,
}

/// Sends `requests` to the servers, whose turns alternate from connection to connection.
pub(crate) fn run(servers: Vec<SocketAddr>, requests: Requests, drive: Drive) -> Fallible<Answers> {
    let thread = thread::spawn(move || -> Fallible<Answers> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, send(&servers, requests, drive))
    });
    thread.join().map_err(|_| "the load generator panicked")?
}

async fn send(servers: &[SocketAddr], requests: Requests, drive: Drive) -> Fallible<Answers> {
    let (connections, lasting) = match drive {
        Drive::Closed { connections, lasting, .. } => (connections, lasting),
        Drive::Paced { connections, interval } => {
            (connections, interval * u32::try_from(requests.count()).unwrap_or(u32::MAX))
        }
    };
    let mut open = Vec::with_capacity(connections);
    for address in servers.iter().cycle().take(connections) {
        open.push(Connection::open(*address).await?);
    }
    let round = Rc::new(Round::new(requests));
    let sending = async {
        match drive {
            Drive::Closed { half_replays, .. } => closed(open, &round, lasting, half_replays).await,
            Drive::Paced { interval, .. } => paced(open, &round, interval).await,
        }
    };
    let elapsed = tokio::time::timeout(lasting + PATIENCE, sending)
        .await
        .map_err(|_| "a server left requests without an answer")?;
    Ok(Answers { elapsed, ..round.answers.take() })
}

/// The shared state of the connections of one measurement.
struct Round {
    requests: Requests,
    sent: Cell<usize>,
    next_new: Cell<usize>,
    /// Requests whose exchange was made: what can be replayed.
    acknowledged: RefCell<Vec<usize>>,
    random: RefCell<Random>,
    answers: RefCell<Answers>,
}

/// A request, and what it must be answered with.
#[derive(Debug, Clone, Copy)]
struct Turn {
    index: usize,
    expected: Answer<'static>,
}

impl Round {
    fn new(requests: Requests) -> Self {
        let count = requests.count();
        Self {
            requests,
            sent: Cell::new(0),
            next_new: Cell::new(0),
            acknowledged: RefCell::new(Vec::with_capacity(count)),
            random: RefCell::new(Random(2)),
            answers: RefCell::new(Answers { latencies: Vec::with_capacity(count), ..Answers::default() }),
        }
    }

    fn turn(&self, half_replays: bool) -> Turn {
        let sent = self.sent.replace(self.sent.get() + 1);
        if half_replays
            && sent % 2 == 1
            && let Some(turn) = self.replay()
        {
            return turn;
        }
        let index = self.next_new.replace(self.next_new.get() + 1);
        Turn { index, expected: Answer::Made }
    }

    /// The very bytes of a request that was answered before.
    fn replay(&self) -> Option<Turn> {
        let acknowledged = self.acknowledged.borrow();
        let limit = u32::try_from(acknowledged.len()).ok().filter(|&limit| limit > 0)?;
        let chosen = self.random.borrow_mut().below(limit);
        let index = *acknowledged.get(usize::try_from(chosen).ok()?)?;
        Some(Turn { index, expected: Answer::Replayed })
    }

    /// Sends one request and takes its answer down; `None` when the requests have run out or the
    /// connection is lost.
    async fn ask(&self, connection: &mut Connection, turn: Turn, since: Instant) -> Option<Instant> {
        let request = self.requests.get(turn.index)?;
        let answer = connection.ask(request).await;
        let now = Instant::now();
        let mut answers = self.answers.borrow_mut();
        match answer {
            Ok(answer) if answer == turn.expected => {
                answers.latencies.push(Latency::of(now - since));
                if answer == Answer::Made {
                    if let Some((asked, paid)) = self.requests.asked(turn.index) {
                        *answers.made.entry(asked).or_default() += 1;
                        answers.paid.extend(paid.map(|paid| (asked, paid)));
                    }
                    self.acknowledged.borrow_mut().push(turn.index);
                }
            }
            Ok(Answer::Wrong(body)) => answers.add_wrong(String::from_utf8_lossy(body).into_owned()),
            Ok(answer) => answers.add_wrong(format!("{answer:?}, expected {:?}", turn.expected)),
            Err(error) => {
                answers.add_wrong(format!("connection lost: {error}"));
                return None;
            }
        }
        Some(now)
    }
}

impl Answers {
    fn add_wrong(&mut self, what: String) {
        let known = self.wrong.contains_key(&what) || self.wrong.len() < WRONG_KINDS_MAX;
        *self.wrong.entry(if known { what } else { "others".to_owned() }).or_default() += 1;
    }
}

async fn closed(
    connections: Vec<Connection>,
    round: &Rc<Round>,
    lasting: Duration,
    half_replays: bool,
) -> Duration {
    let started = Instant::now();
    let keep_asking = |mut connection| {
        let round = Rc::clone(round);
        async move {
            let mut now = started;
            while now - started < lasting {
                let turn = round.turn(half_replays);
                let Some(answered) = round.ask(&mut connection, turn, now).await else { return };
                now = answered;
            }
        }
    };
    all(connections.into_iter().map(keep_asking)).await;
    started.elapsed()
}

async fn paced(connections: Vec<Connection>, round: &Rc<Round>, interval: Duration) -> Duration {
    let started = Instant::now() + LEAD;
    let count = u32::try_from(round.requests.count()).unwrap_or(u32::MAX);
    let (due, turns) = mpsc::unbounded_channel();
    let pacing = thread::spawn(move || pace(count, started, interval, &due));
    // A connection that is idle waits in line for the next request that is due.
    let turns = Rc::new(Mutex::new(turns));
    let keep_asking = |mut connection| {
        let (round, turns) = (Rc::clone(round), Rc::clone(&turns));
        async move {
            loop {
                let due = turns.lock().await.recv().await;
                let Some(scheduled) = due else { return };
                let turn = round.turn(false);
                if round.ask(&mut connection, turn, scheduled).await.is_none() {
                    return;
                }
            }
        }
    };
    all(connections.into_iter().map(keep_asking)).await;
    let elapsed = started.elapsed();
    drop(turns);
    let _ = pacing.join();
    elapsed
}

/// Says when each request is due. The schedule is in whole milliseconds, so that the generator wakes up a thousand
/// times a second and not for each request. It has a thread of its own, because the runtime's timers are up to a
/// millisecond late.
fn pace(count: u32, started: Instant, interval: Duration, due: &mpsc::UnboundedSender<Instant>) {
    let mut number = 0;
    let mut scheduled = started;
    while number < count {
        thread::sleep(scheduled.saturating_duration_since(Instant::now()));
        while number < count && started + interval * number < scheduled + TICK {
            if due.send(scheduled).is_err() {
                return;
            }
            number += 1;
        }
        scheduled += TICK;
    }
}

async fn all(work: impl Iterator<Item = impl Future<Output = ()> + 'static>) {
    let tasks: Vec<_> = work.map(tokio::task::spawn_local).collect();
    for task in tasks {
        // A panic of a task is a bug of this program: the round's figures show what is missing.
        let _ = task.await;
    }
}
