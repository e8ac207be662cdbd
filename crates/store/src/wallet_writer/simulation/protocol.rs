//! The messages between a session and the simulated PostgreSQL, and the progress of a statement.

use std::collections::VecDeque;

use super::rows::{RecordRow, SimulatedEntry, SimulatedEvent, SimulatedWallet};

/// The id of a transaction.
pub(super) type Tx = u64;

pub(super) type StatementResult = Result<StatementReply, SqlError>;

#[derive(Debug)]
pub(super) enum SqlStatement {
    Begin,
    Commit,
    RollBack,
    /// Wallet and number of each look-up.
    Read(Vec<(usize, usize)>),
    Lock {
        wallets: Vec<usize>,
        skips_held: bool,
    },
    Existing(Vec<usize>),
    /// The database's time.
    Now,
    Records(Vec<usize>),
    /// The details of exchanges that queries show.
    Details(Vec<usize>),
    Write(Write),
    /// Makes a missing wallet.
    MakeWallet(usize),
    /// Credits a wallet, which is locked, with gifted and charged coins.
    Credit {
        wallet: usize,
        coins: (i64, i64),
    },
    /// Credits a payment of an order, whose wallet is locked, unless either was paid.
    Pay {
        payment: usize,
        number: usize,
    },
    /// Refunds all of a payment, whose wallet is locked, unless it was refunded. What the purses do not hold becomes debt.
    Refund {
        payment: usize,
        number: usize,
    },
    /// Freezes a wallet, or thaws it. The wallet is locked.
    Freeze(usize),
    /// Waits until this time.
    Hold {
        until: u64,
    },
}

/// The progress of a statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StatementProgress {
    NotBegun,
    Locking(LockProgress),
    Writing(WriteProgress),
    /// Only the commit is missing, of a statement that is its own transaction.
    Committing,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct LockProgress {
    /// The existing wallets, in the order of locking.
    pub(super) to_lock: Vec<(usize, usize)>,
    pub(super) locked: Vec<(usize, SimulatedWallet)>,
}

/// A record, as a statement reads it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recorded {
    pub(super) row: RecordRow,
    /// Both purses right after it.
    pub(super) balances: (i64, i64),
    /// The rest of an exchange now, and after a cancel.
    pub(super) remaining: i64,
    pub(super) is_expired: bool,
}

/// The details of an exchange that a query shows, as a statement reads them.
#[derive(Debug, Clone)]
pub(super) struct Detailed {
    pub(super) variant: u8,
    pub(super) remaining: i64,
    /// Number, amount and time of each cancel, oldest first.
    pub(super) cancels: Vec<(usize, i64, u64)>,
}

#[derive(Debug)]
pub(super) enum StatementReply {
    Done,
    Committed,
    /// With the database's time.
    Read(u64, Vec<(Option<SimulatedWallet>, Option<Recorded>)>),
    Now(u64),
    Locked(Vec<(usize, SimulatedWallet)>),
    Places(Vec<usize>),
    Records(Vec<(usize, Recorded)>),
    Details(Vec<(usize, Detailed)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SqlError {
    pub(super) code: &'static str,
}

pub(super) fn error(code: &'static str) -> SqlError {
    SqlError { code }
}

/// The result of a step.
pub(super) enum StepOutcome {
    Going(StatementProgress),
    /// The statement waits for the end of another transaction, and continues from there.
    Waits(Tx, StatementProgress),
    Ended(Result<StatementReply, SqlError>),
}

#[derive(Debug, Clone)]
pub(super) struct Write {
    pub(super) records: Vec<RecordRow>,
    pub(super) entries: Vec<SimulatedEntry>,
    /// With the `entry_count` that each must have.
    pub(super) wallets: Vec<(usize, SimulatedWallet, i64)>,
    /// The events of each row of the outbox.
    pub(super) outbox: Vec<Vec<SimulatedEvent>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WritePart {
    Records,
    Entries,
    Wallets,
    Outbox,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct WriteProgress {
    /// The rest of the work: a part, and the position of a row in it.
    pub(super) left: VecDeque<(WritePart, usize)>,
    /// Each wallet at the first step.
    pub(super) seen: Vec<Option<SimulatedWallet>>,
    pub(super) updated: usize,
}
