//! The simulated PostgreSQL and its surroundings: time, sessions, and messages on their way.
//!
//! A session executes its statements in the order of sending, one inner step at a time
//! (`statements`), whether or not the sender still exists. A reply is on its way until it is
//! delivered.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::Waker;

use tokio::sync::oneshot;

use super::counts::EventCounts;
use super::oracle::Oracle;
use super::protocol::{SqlStatement, StatementProgress, StatementResult, Tx};
use super::random::Random;
use super::rows::{APPS, NUMBERS, RecordRow, SimulatedEntry, SimulatedWallet, WALLETS, Writes};
use super::settings::RunSettings;
use crate::writer::SessionFault;

/// A lock that one transaction holds until its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LockKey {
    /// The row of a wallet.
    Row(usize),
    /// A wallet that is being made.
    Wallet(usize),
    /// A number that is being recorded.
    Number(usize),
    /// A cancel that leaves so much of an exchange.
    Cancel(usize, i64),
    /// An entry that is being written.
    Entry(usize, i64),
    /// A payment that is being credited.
    Payment(usize),
    /// An order that is being paid.
    PaidOrder(usize),
    /// A payment that is being refunded.
    Refund(usize),
}

/// The committed rows, and the held locks.
#[derive(Debug)]
pub(super) struct CommittedTables {
    pub(super) wallets: Vec<Option<SimulatedWallet>>,
    /// Each with the commit that wrote it.
    pub(super) records: Vec<Option<(RecordRow, u64)>>,
    pub(super) entries: BTreeMap<(usize, i64), SimulatedEntry>,
    /// Payments that were credited, each with the number of its order.
    pub(super) payments: Vec<(usize, usize)>,
    /// Payments that were refunded.
    pub(super) refunds: Vec<usize>,
    /// Gifted and charged debt of each wallet.
    pub(super) debts: Vec<(i64, i64)>,
    pub(super) held: BTreeMap<LockKey, Tx>,
}

#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) id: Tx,
    /// True when `BEGIN` began it. Else it ends with its statement.
    pub(super) is_explicit: bool,
    pub(super) has_failed: bool,
    pub(super) writes: Writes,
    /// The last commit before its first lock statement.
    pub(super) locked_after: Option<u64>,
}

/// A statement that was sent, and its progress.
#[derive(Debug)]
pub(super) struct SentStatement {
    pub(super) statement: SqlStatement,
    pub(super) progress: StatementProgress,
    pub(super) reply: Option<oneshot::Sender<StatementResult>>,
}

/// The session of a writer, seen by the writer.
#[derive(Default)]
pub(super) struct SessionEnd {
    pub(super) is_ended: Cell<bool>,
    pub(super) waker: RefCell<Option<Waker>>,
}

/// The other end of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Writer,
    /// Replies do not arrive any more, and neither side knows it.
    CutOff,
    /// The session executes what was sent, and then ends.
    Gone,
}

pub(super) struct Backend {
    pub(super) id: u64,
    pub(super) peer: Peer,
    pub(super) queue: VecDeque<SentStatement>,
    pub(super) outbox: VecDeque<(oneshot::Sender<StatementResult>, StatementResult)>,
    pub(super) transaction: Option<Transaction>,
    /// The transaction it waits for, and the start of the wait.
    pub(super) waits: Option<(Tx, u64)>,
    /// True for the session of a writer, false for an operator's.
    pub(super) is_writers: bool,
    /// True when the database has ended it. The writer learns it after the replies before.
    pub(super) is_dead: bool,
    pub(super) end: Rc<SessionEnd>,
}

pub(super) type Connected = Result<(u64, Rc<SessionEnd>), SessionFault>;

pub(super) struct World {
    pub(super) settings: RunSettings,
    pub(super) random: Random,
    pub(super) counts: EventCounts,
    pub(super) oracle: Oracle,
    pub(super) now: u64,
    pub(super) timers: BTreeMap<(u64, u64), Waker>,
    pub(super) tables: CommittedTables,
    pub(super) backends: Vec<Backend>,
    pub(super) connecting: VecDeque<oneshot::Sender<Connected>>,
    pub(super) is_up: bool,
    /// True while random faults happen.
    pub(super) has_faults: bool,
    pub(super) commits: u64,
    /// The reason why the run has failed.
    pub(super) violation: Option<String>,
    last_id: u64,
}

impl World {
    pub(super) fn new(settings: RunSettings, mut random: Random) -> Self {
        let mut wallets = Vec::new();
        for place in 0..APPS * WALLETS {
            let (free, charge) = (random.between(0, 40), random.between(0, 40));
            wallets.push((place % WALLETS != WALLETS - 1).then_some(SimulatedWallet::new(free, charge)));
        }
        let tables = CommittedTables {
            wallets: wallets.clone(),
            records: vec![None; APPS * NUMBERS],
            entries: BTreeMap::new(),
            payments: Vec::new(),
            refunds: Vec::new(),
            debts: vec![(0, 0); APPS * WALLETS],
            held: BTreeMap::new(),
        };
        Self {
            oracle: Oracle::new(&wallets, settings.replayed_for),
            settings,
            random,
            counts: EventCounts::new(),
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

    /// True with this chance in ten thousand, while there are faults.
    pub(super) fn fault(&mut self, in_ten_thousand: u64) -> bool {
        self.has_faults && self.random.chance(in_ten_thousand)
    }

    pub(super) fn violated(&mut self, outcome: Result<(), String>) {
        if let Err(text) = outcome {
            self.violation.get_or_insert(text);
        }
    }

    /// Lets time pass. Timers that are due end.
    pub(super) fn pass(&mut self, millis: u64) {
        self.now += millis;
        while let Some(first) = self.timers.first_entry().filter(|entry| entry.key().0 <= self.now) {
            first.remove().wake();
        }
    }

    /// Opens a session of an operator with all its statements.
    pub(super) fn operate(&mut self, statements: Vec<SqlStatement>) {
        let backend = self.open(Peer::Gone);
        for statement in statements {
            backend.queue.push_back(SentStatement {
                statement,
                progress: StatementProgress::NotBegun,
                reply: None,
            });
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

    /// Opens a session for the writer that waits longest.
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

    /// Sends a statement. When the session is gone, the receiver of the reply is closed.
    pub(super) fn send(
        &mut self,
        session: u64,
        statement: SqlStatement,
    ) -> oneshot::Receiver<StatementResult> {
        let (reply, receiver) = oneshot::channel();
        if let Some(backend) = self.backends.iter_mut().find(|backend| backend.id == session) {
            backend.queue.push_back(SentStatement {
                statement,
                progress: StatementProgress::NotBegun,
                reply: Some(reply),
            });
        }
        receiver
    }

    /// A writer drops its session. Some of the last statements may never arrive.
    pub(super) fn hang_up(&mut self, session: u64) {
        let arrives = self.random.next();
        let Some(backend) = self.backends.iter_mut().find(|backend| backend.id == session) else { return };
        for (sent, _) in backend.outbox.drain(..) {
            drop(sent);
        }
        let first_unsent =
            backend.queue.iter().filter(|asked| asked.progress != StatementProgress::NotBegun).count();
        let unsent = backend.queue.len() - first_unsent;
        if backend.peer == Peer::Writer && unsent > 0 {
            let arriving = usize::try_from(arrives % u64::try_from(unsent + 1).unwrap()).unwrap();
            backend.queue.truncate(first_unsent + arriving);
        }
        // A session that was cut off learns it later.
        if backend.peer == Peer::Writer {
            backend.peer = Peer::Gone;
        }
    }

    /// Delivers a reply, or the end of the session.
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
