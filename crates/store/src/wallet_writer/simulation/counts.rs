//! Counts of the events of a run. Each kind of event must happen, so that none goes uncovered.

/// Declares the kinds of events, each with its name in the report.
macro_rules! kinds {
    ($($kind:ident $name:literal,)*) => {
        /// A kind of event that the runs must cover.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum EventKind { $($kind),* }

        const KINDS: &[(EventKind, &str)] = &[$((EventKind::$kind, $name)),*];
    };
}

kinds! {
    Done "changes answered as done",
    GivenBack "cancels answered as done",
    Ordered "orders answered as done",
    Balance "balances",
    NumberShown "numbers shown",
    ClosedShown "closed numbers shown",
    ClosedRefused "changes under a closed number refused",
    MoreThanLeft "cancels of more than is left refused",
    UnknownNumber "unknown numbers refused",
    Replayed "replays",
    Conflict "other content refused",
    Expired "expired numbers refused",
    TsRefused "stale ts refused",
    UnknownWallet "unknown wallets refused",
    Insufficient "empty purses refused",
    Frozen "changes of frozen wallets refused",
    Unavailable "answers that the database is away or the deadline past",
    Exhausted "answers after the last repetition",
    Faulty "requests with a fault of their own refused",
    AnswerLost "answers lost on the way to the client",
    GaveUp "clients that gave up at their deadline",
    Credit "credits",
    Paid "payments credited",
    PaidBefore "payments told again, or of a paid order",
    Refunded "refunds that the purses held",
    Owed "refunds that left debt",
    RefundedBefore "refunds told again",
    Settled "payments that settled debt",
    Freeze "wallets frozen or thawed",
    UsualWrite "commits the usual way",
    LockedWrite "commits after locking first",
    Several "commits of several requests",
    ChangedWallet "writes stopped by the guard",
    FrozenMeanwhile "writes stopped by a freeze or its end",
    RacedNumber "writes stopped by a record's key",
    RacedEntry "writes stopped by an entry's key",
    KeyWait "waits for another's key",
    RowWait "waits for another's wallet",
    LockTimeout "waits for a lock given up",
    SkippedWallet "held wallets skipped",
    Deadlock "deadlocks resolved",
    Serialisation "serialisation failures",
    OutOfMemory "statements that the database refused",
    RolledBackCommit "commits that rolled back",
    ProcessCrash "crashes of a process",
    DatabaseCrash "crashes of the database",
    CrashInside "crashes that undid an open transaction",
    SessionEnded "sessions ended by the database",
    Stranded "sessions cut off with their transaction open or under way",
    ReplyLost "statements whose reply was lost",
    CommitLost "commits whose reply was lost",
    OrphanCommit "commits for a process that had gone",
    TimedOut "answers that did not come in time",
}

/// The number of events of each kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventCounts(Vec<u64>);

impl EventCounts {
    pub(super) fn new() -> Self {
        Self(vec![0; KINDS.len()])
    }

    pub(super) fn add(&mut self, kind: EventKind) {
        self.0[kind as usize] += 1;
    }

    pub(super) fn of(&self, kind: EventKind) -> u64 {
        self.0[kind as usize]
    }

    pub(super) fn add_all(&mut self, others: &Self) {
        for (sum, other) in self.0.iter_mut().zip(&others.0) {
            *sum += other;
        }
    }

    /// The kinds that never happened.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        KINDS.iter().filter(|(kind, _)| self.0[*kind as usize] == 0).map(|(_, name)| *name).collect()
    }
}

impl std::fmt::Display for EventCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (kind, name) in KINDS {
            writeln!(f, "{:>12} {name}", self.0[*kind as usize])?;
        }
        Ok(())
    }
}
