//! The settings of a run. Each run draws its own, so that rare events are common in some.

use super::random::Random;

/// A broken rule of PostgreSQL or of our statements. The oracle must detect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sabotage {
    None,
    /// The write does not compare `entry_count`.
    NoGuard,
    /// Entries have no key.
    NoEntryKey,
    /// Neither of the two rules holds.
    NeitherGuardNorEntryKey,
    /// The write ignores a number that exists already.
    SilentRecords,
    /// A statement does not wait for a key that another transaction has inserted.
    KeysDoNotWait,
    /// Records are read from the snapshot of the lock statement.
    StaleRecords,
    /// A replay reports the present balances.
    CurrentBalances,
    /// A failed write keeps the records it had inserted.
    PartialWrite,
    /// Some commits are acknowledged and lost.
    LostCommits,
    /// Some rows of the outbox are not written.
    ForgottenEvents,
    /// A failed write keeps the events it had inserted.
    EventsOutlive,
    /// The write does not notice that a wallet was frozen.
    FreezeUnnoticed,
    /// Wallets are locked in any order.
    AnyLockOrder,
    /// Payments and paid orders have no keys.
    PaidTwice,
    /// Refunds have no key.
    RefundedTwice,
    /// Payments settle no debt.
    DebtForgotten,
    /// Nothing is broken. Each batch has one app, as on Citus.
    OneAppABatch,
}

/// Chances are in ten thousand, times in milliseconds.
#[derive(Debug, Clone)]
pub(super) struct RunSettings {
    pub(super) sabotage: Sabotage,
    pub(super) steps: u64,
    pub(super) processes: usize,
    pub(super) writers: usize,
    pub(super) clients: usize,
    /// Numbers of each app that are in use at the same time.
    pub(super) numbers_at_once: usize,
    pub(super) deadline: u64,
    pub(super) answer_timeout: u64,
    pub(super) deadlock_timeout: u64,
    pub(super) replayed_for: u64,
    pub(super) process_crash: u64,
    pub(super) database_crash: u64,
    pub(super) session_end: u64,
    pub(super) cut_off: u64,
    pub(super) reply_lost: u64,
    pub(super) serialisation: u64,
    pub(super) out_of_memory: u64,
    pub(super) credit: u64,
    pub(super) pay: u64,
    pub(super) refund: u64,
    pub(super) hold: u64,
    pub(super) freeze: u64,
    pub(super) unlucky: u64,
    pub(super) time: u64,
}

impl RunSettings {
    pub(super) fn draw(random: &mut Random, sabotage: Sabotage, steps: u64) -> Self {
        Self {
            sabotage,
            steps,
            processes: random.one_of(&[1, 2, 2, 3]),
            writers: random.one_of(&[1, 1, 2]),
            clients: random.one_of(&[3, 6, 10, 16]),
            numbers_at_once: random.one_of(&[1, 3, 8, 20]),
            deadline: random.one_of(&[40, 300, 2_000]),
            answer_timeout: random.one_of(&[100, 6_000]),
            deadlock_timeout: random.one_of(&[50, 1_000]),
            replayed_for: random.one_of(&[300, 172_800_000, 172_800_000]),
            process_crash: random.one_of(&[0, 0, 10, 40]),
            database_crash: random.one_of(&[0, 0, 5, 20]),
            session_end: random.one_of(&[0, 0, 20, 100]),
            cut_off: random.one_of(&[0, 0, 10, 50]),
            reply_lost: random.one_of(&[0, 0, 20, 200]),
            serialisation: random.one_of(&[0, 0, 0, 200, 4_000]),
            out_of_memory: random.one_of(&[0, 0, 0, 100]),
            credit: random.one_of(&[20, 100]),
            pay: random.one_of(&[0, 100, 400]),
            refund: random.one_of(&[0, 30, 200]),
            hold: random.one_of(&[0, 0, 20, 60]),
            freeze: random.one_of(&[0, 0, 30, 200]),
            unlucky: random.one_of(&[0, 0, 200]),
            time: random.one_of(&[50, 300, 1_000]),
        }
    }
}
