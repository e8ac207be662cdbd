//! The simulated PostgreSQL and its surroundings: time, sessions, and what is on its way.
//!
//! A session carries out its statements in the order they were sent, one inner step at a time
//! (`statements`), whatever becomes of who sent them. A reply is on its way until it is delivered.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::Waker;

use tokio::sync::oneshot;

use super::counts::Counts;
use super::oracle::Oracle;
use super::random::Random;
use super::rows::{APPS, EntryRow, NUMBERS, RecordRow, WALLETS, WalletRow, Writes};
use super::settings::Settings;
use super::statements::{Progress, Reply, SqlError, Statement};
use crate::exchange::fault::SessionFault;

/// A transaction.
pub(super) type Tx = u64;

/// What one transaction can hold against the others, until it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// The row of a wallet.
    Row(usize),
    /// A wallet that is being made.
    Wallet(usize),
    /// A number that is being recorded.
    Number(usize),
    /// An entry that is being written.
    Entry(usize, i64),
}

/// The committed rows, and who holds what.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) wallets: Vec<Option<WalletRow>>,
    /// With the commit that wrote each.
    pub(super) records: Vec<Option<(RecordRow, u64)>>,
    pub(super) entries: BTreeMap<(usize, i64), EntryRow>,
    pub(super) held: BTreeMap<Key, Tx>,
}

#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) id: Tx,
    /// Whether `BEGIN` began it; if not it ends with its statement.
    pub(super) is_explicit: bool,
    pub(super) has_failed: bool,
    pub(super) writes: Writes,
    /// The last commit when its first lock was asked for.
    pub(super) locked_after: Option<u64>,
}

pub(super) type Answer = Result<Reply, SqlError>;

/// A statement that was sent, and how far it is.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) statement: Statement,
    pub(super) progress: Progress,
    pub(super) reply: Option<oneshot::Sender<Answer>>,
}

/// The session of a writer as the writer sees it.
#[derive(Default)]
pub(super) struct End {
    pub(super) is_ended: Cell<bool>,
    pub(super) waker: RefCell<Option<Waker>>,
}

/// What is at the other end of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Writer,
    /// Replies do not arrive any more, and neither side knows.
    CutOff,
    /// What was sent is carried out, then the session ends.
    Gone,
}

pub(super) struct Backend {
    pub(super) id: u64,
    pub(super) peer: Peer,
    pub(super) queue: VecDeque<Asked>,
    pub(super) outbox: VecDeque<(oneshot::Sender<Answer>, Answer)>,
    pub(super) transaction: Option<Transaction>,
    /// Whose end it waits for, and since when.
    pub(super) waits: Option<(Tx, u64)>,
    /// A writer's session; if not, an operator's.
    pub(super) is_writers: bool,
    /// Ended by the database; the writer is told when the replies before have arrived.
    pub(super) is_dead: bool,
    pub(super) end: Rc<End>,
}

pub(super) type Connected = Result<(u64, Rc<End>), SessionFault>;

pub(super) struct World {
    pub(super) settings: Settings,
    pub(super) random: Random,
    pub(super) counts: Counts,
    pub(super) oracle: Oracle,
    pub(super) now: u64,
    pub(super) timers: BTreeMap<(u64, u64), Waker>,
    pub(super) tables: Tables,
    pub(super) backends: Vec<Backend>,
    pub(super) connecting: VecDeque<oneshot::Sender<Connected>>,
    pub(super) is_up: bool,
    /// Whether faults still come about by themselves.
    pub(super) has_faults: bool,
    pub(super) commits: u64,
    /// Why the run has failed.
    pub(super) violation: Option<String>,
    last_id: u64,
}

impl World {
    pub(super) fn new(settings: Settings, mut random: Random) -> Self {
        let mut wallets = Vec::new();
        for place in 0..APPS * WALLETS {
            let (free, charge) = (random.between(0, 40), random.between(0, 40));
            wallets.push((place % WALLETS != WALLETS - 1).then_some(WalletRow::new(free, charge)));
        }
        let tables = Tables {
            wallets: wallets.clone(),
            records: vec![None; APPS * NUMBERS],
            entries: BTreeMap::new(),
            held: BTreeMap::new(),
        };
        Self {
            oracle: Oracle::new(&wallets, settings.replayed_for),
            settings,
            random,
            counts: Counts::new(),
            now: 0,
            timers: BTreeMap::new(),
            tables,
            backends: Vec::new(),
            connecting: VecDeque::new(),
            is_up: true,
            has_faults: true,
            commits: 0,
            violation: None,
            last_id: 0,
        }
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// True this many times in ten thousand, while there are faults.
    pub(super) fn fault(&mut self, in_ten_thousand: u64) -> bool {
        self.has_faults && self.random.chance(in_ten_thousand)
    }

    pub(super) fn violated(&mut self, outcome: Result<(), String>) {
        if let Err(text) = outcome {
            self.violation.get_or_insert(text);
        }
    }

    /// Lets time pass; timers that are due end.
    pub(super) fn pass(&mut self, millis: u64) {
        self.now += millis;
        while let Some(first) = self.timers.first_entry().filter(|entry| entry.key().0 <= self.now) {
            first.remove().wake();
        }
    }

    /// A session of an operator's, with everything it will ever send.
    pub(super) fn operate(&mut self, statements: Vec<Statement>) {
        let backend = self.open(Peer::Gone);
        for statement in statements {
            backend.queue.push_back(Asked { statement, progress: Progress::NotBegun, reply: None });
        }
    }

    fn open(&mut self, peer: Peer) -> &mut Backend {
        let id = self.next_id();
        self.backends.push(Backend {
            id,
            peer,
            queue: VecDeque::new(),
            outbox: VecDeque::new(),
            transaction: None,
            waits: None,
            is_writers: peer == Peer::Writer,
            is_dead: false,
            end: Rc::default(),
        });
        self.backends.last_mut().unwrap()
    }

    /// Answers who waits longest for a session.
    pub(super) fn connect(&mut self) {
        let Some(sender) = self.connecting.pop_front() else { return };
        if sender.is_closed() {
            return;
        }
        let connected = if !self.is_up {
            Err(SessionFault::from_code("57P03", "starting up".to_owned()))
        } else if self.fault(300) {
            Err(SessionFault::Lost("ended while it was opened".to_owned()))
        } else {
            let backend = self.open(Peer::Writer);
            Ok((backend.id, Rc::clone(&backend.end)))
        };
        let _ = sender.send(connected);
    }

    /// Sends a statement. Who waits for its reply is told when the session is gone.
    pub(super) fn send(&mut self, session: u64, statement: Statement) -> oneshot::Receiver<Answer> {
        let (reply, receiver) = oneshot::channel();
        if let Some(backend) = self.backends.iter_mut().find(|backend| backend.id == session) {
            backend.queue.push_back(Asked { statement, progress: Progress::NotBegun, reply: Some(reply) });
        }
        receiver
    }

    /// A writer lets go of its session. Some of what it sent last may never arrive.
    pub(super) fn hang_up(&mut self, session: u64) {
        let arrives = self.random.next();
        let Some(backend) = self.backends.iter_mut().find(|backend| backend.id == session) else { return };
        for (sent, _) in backend.outbox.drain(..) {
            drop(sent);
        }
        let first_unsent = backend.queue.iter().filter(|asked| asked.progress != Progress::NotBegun).count();
        let unsent = backend.queue.len() - first_unsent;
        if backend.peer == Peer::Writer && unsent > 0 {
            let arriving = usize::try_from(arrives % u64::try_from(unsent + 1).unwrap()).unwrap();
            backend.queue.truncate(first_unsent + arriving);
        }
        // A session that was cut off learns of it only later.
        if backend.peer == Peer::Writer {
            backend.peer = Peer::Gone;
        }
    }

    /// Delivers a reply, or that the session has ended.
    pub(super) fn deliver(&mut self, place: usize) {
        let backend = &mut self.backends[place];
        if let Some((sender, answer)) = backend.outbox.pop_front() {
            let _ = sender.send(answer);
            return;
        }
        let backend = self.backends.swap_remove(place);
        backend.end.is_ended.set(true);
        if let Some(waker) = backend.end.waker.take() {
            waker.wake();
        }
    }
}
