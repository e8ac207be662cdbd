//! The statements of the simulated PostgreSQL, step by step, at READ COMMITTED. A statement sees
//! the commits before its first step. It waits for rows and keys that other transactions hold, and
//! does everything or nothing.

use super::counts::EventKind;
use super::protocol::{
    Detailed, Locking, Recorded, Reply, SqlError, Statement, StatementProgress, Step, Tx, error,
};
use super::rows::{EntryRow, EventRow, Kind, RecordRow, WalletRow};
use super::settings::Sabotage;
use super::world::{LockKey, SentStatement, Transaction, World};

impl World {
    /// Does one step of the first statement of a session.
    pub(super) fn work(&mut self, place: usize) {
        let waited = self.end_of_wait(place);
        let backend = &mut self.backends[place];
        backend.waits = None;
        let Some(mut asked) = backend.queue.pop_front() else { return };
        let progress = std::mem::replace(&mut asked.progress, StatementProgress::NotBegun);
        let step = match waited {
            Some(Err(fault)) => {
                self.count_fault(fault);
                Step::Ended(Err(fault))
            }
            Some(Ok(())) | None => self.step(place, &asked.statement, progress),
        };
        match step {
            Step::Ended(answer) => self.end_statement(place, asked, answer),
            Step::Going(progress) => {
                asked.progress = progress;
                self.backends[place].queue.push_front(asked);
            }
            Step::Waits(holder, progress) => {
                asked.progress = progress;
                let since = self.now;
                let backend = &mut self.backends[place];
                backend.waits = Some((holder, since));
                backend.queue.push_front(asked);
            }
        }
    }

    fn step(&mut self, place: usize, statement: &Statement, progress: StatementProgress) -> Step {
        let has_failed = self.backends[place].transaction.as_ref().is_some_and(|open| open.has_failed);
        let ends = matches!(statement, Statement::Commit | Statement::RollBack);
        if has_failed && !ends {
            return Step::Ended(Err(error("25P02")));
        }
        if progress == StatementProgress::Committing {
            return Step::Ended(Ok(self.commit(place)));
        }
        if progress == StatementProgress::NotBegun && !ends {
            self.begin(place, matches!(statement, Statement::Begin));
            if let Some(fault) = self.statement_fault(place, statement) {
                return Step::Ended(Err(fault));
            }
        }
        match statement {
            Statement::RollBack => {
                self.roll_back(place);
                Step::Ended(Ok(Reply::Done))
            }
            Statement::Commit => Step::Ended(self.commit_asked(place)),
            Statement::Read(keys) => Step::Ended(Ok(self.read(keys))),
            Statement::Existing(wallets) => {
                let is_there = |place: &usize| self.tables.wallets[wallets[*place]].is_some();
                Step::Ended(Ok(Reply::Places((0..wallets.len()).filter(is_there).collect())))
            }
            Statement::Now => Step::Ended(Ok(Reply::Now(self.now))),
            Statement::Records(numbers) => Step::Ended(Ok(self.records(place, numbers))),
            Statement::Details(numbers) => Step::Ended(Ok(self.details(numbers))),
            Statement::Lock { wallets, skips_held } => self.lock(place, wallets, *skips_held, progress),
            Statement::Write(write) => self.write(place, write, progress),
            Statement::MakeWallet(wallet) => self.make_wallet(place, *wallet),
            Statement::Credit(entry) => self.credit(place, *entry),
            Statement::Begin | Statement::Hold { .. } => Step::Ended(Ok(Reply::Done)),
        }
    }

    /// A fault that is independent of the statement.
    fn statement_fault(&mut self, place: usize, statement: &Statement) -> Option<SqlError> {
        if !self.backends[place].is_writers || matches!(statement, Statement::Begin) {
            None
        } else if self.fault(self.settings.serialisation) {
            self.counts.add(EventKind::Serialisation);
            Some(error("40001"))
        } else if self.fault(self.settings.out_of_memory) {
            self.counts.add(EventKind::OutOfMemory);
            Some(error("53200"))
        } else {
            None
        }
    }

    fn begin(&mut self, place: usize, is_explicit: bool) {
        if self.backends[place].transaction.is_none() {
            let id = self.next_id();
            self.backends[place].transaction = Some(Transaction {
                id,
                is_explicit,
                has_failed: false,
                writes: super::rows::Writes::default(),
                locked_after: None,
            });
        }
    }

    /// Takes a key for the transaction of a session, or returns the transaction that holds it.
    pub(super) fn take(&mut self, place: usize, key: LockKey) -> Result<(), Tx> {
        let tx = self.backends[place].transaction.as_ref().unwrap().id;
        let holder = *self.tables.held.entry(key).or_insert(tx);
        if holder == tx { Ok(()) } else { Err(holder) }
    }

    fn recorded(&self, number: usize, as_of: u64) -> Option<Recorded> {
        let (row, commit) = (*self.tables.records.get(number)?)?;
        let mut balances = (row.free, row.charge);
        if self.settings.sabotage == Sabotage::CurrentBalances {
            balances = self.tables.wallets[row.content.wallet].map_or(balances, |now| (now.free, now.charge));
        }
        let last = self.cancels_of(number, as_of).last().and_then(|cancel| cancel.remaining);
        let remaining = row.remaining.or(last).unwrap_or(row.content.amount);
        let is_expired = self.now >= row.created_at + self.settings.replayed_for;
        (commit <= as_of).then_some(Recorded { row, balances, remaining, is_expired })
    }

    /// The committed cancels of an exchange, oldest first.
    fn cancels_of(&self, number: usize, as_of: u64) -> Vec<RecordRow> {
        let committed = self.tables.records.iter().flatten().filter(|(_, commit)| *commit <= as_of);
        let of = committed.map(|(row, _)| *row).filter(|row| row.content.of == Some(number));
        let mut cancels: Vec<RecordRow> = of.collect();
        cancels.sort_by_key(|row| std::cmp::Reverse(row.remaining));
        cancels
    }

    fn details(&self, numbers: &[usize]) -> Reply {
        let detail = |(place, number): (usize, &usize)| {
            let recorded = self.recorded(*number, self.commits)?;
            let cancels = self.cancels_of(*number, self.commits);
            let cancels =
                cancels.iter().map(|row| (row.number, row.content.amount, row.created_at)).collect();
            let Recorded { row, remaining, .. } = recorded;
            let detailed = Detailed { variant: row.content.variant, remaining, cancels };
            (row.content.kind == Kind::Exchange).then_some((place, detailed))
        };
        Reply::Details(numbers.iter().enumerate().filter_map(detail).collect())
    }

    fn read(&self, keys: &[(usize, usize)]) -> Reply {
        let row = |(wallet, number): &(usize, usize)| {
            (self.tables.wallets[*wallet], self.recorded(*number, self.commits))
        };
        Reply::Read(self.now, keys.iter().map(row).collect())
    }

    fn records(&self, place: usize, numbers: &[usize]) -> Reply {
        let transaction = self.backends[place].transaction.as_ref();
        let stale = transaction.and_then(|transaction| transaction.locked_after);
        let is_stale = self.settings.sabotage == Sabotage::StaleRecords;
        let as_of = stale.filter(|_| is_stale).unwrap_or(self.commits);
        let found = numbers.iter().enumerate();
        Reply::Records(found.filter_map(|(at, number)| Some((at, self.recorded(*number, as_of)?))).collect())
    }

    /// Locks the next wallet. After a wait it reads the row again.
    fn lock(
        &mut self,
        place: usize,
        wallets: &[usize],
        skips_held: bool,
        progress: StatementProgress,
    ) -> Step {
        let StatementProgress::Locking(mut locking) = progress else {
            let there = |(_, wallet): &(usize, usize)| self.tables.wallets[*wallet].is_some();
            let mut to_lock: Vec<_> = wallets.iter().copied().enumerate().filter(there).collect();
            if self.settings.sabotage == Sabotage::AnyLockOrder {
                self.random.shuffle(&mut to_lock);
            }
            to_lock.reverse();
            self.backends[place].transaction.as_mut().unwrap().locked_after = Some(self.commits);
            return Step::Going(StatementProgress::Locking(Locking { to_lock, locked: Vec::new() }));
        };
        let Some((at, wallet)) = locking.to_lock.pop() else {
            return Step::Ended(Ok(Reply::Locked(locking.locked)));
        };
        match self.take(place, LockKey::Row(wallet)) {
            Ok(()) => locking.locked.push((at, self.tables.wallets[wallet].unwrap())),
            Err(_) if skips_held => self.counts.add(EventKind::SkippedWallet),
            Err(holder) => {
                locking.to_lock.push((at, wallet));
                self.counts.add(EventKind::RowWait);
                return Step::Waits(holder, StatementProgress::Locking(locking));
            }
        }
        Step::Going(StatementProgress::Locking(locking))
    }

    fn make_wallet(&mut self, place: usize, wallet: usize) -> Step {
        if self.tables.wallets[wallet].is_some() {
            return Step::Ended(Ok(Reply::Done));
        }
        match self.take(place, LockKey::Wallet(wallet)) {
            Ok(()) => {
                self.writes(place).made.push(wallet);
                Step::Ended(Ok(Reply::Done))
            }
            Err(holder) => Step::Waits(holder, StatementProgress::NotBegun),
        }
    }

    fn credit(&mut self, place: usize, change: EntryRow) -> Step {
        let before = self.tables.wallets[change.wallet].unwrap_or(WalletRow::new(0, 0));
        let (free, seq) = (before.free + change.free_change, before.entries + 1);
        let mut entry = EntryRow { seq, free, charge: before.charge + change.charge_change, ..change };
        if let Err(holder) = self.take(place, LockKey::Entry(change.wallet, seq)) {
            return Step::Waits(holder, StatementProgress::NotBegun);
        }
        entry.chain_hash = entry.hash_after(&before.chain_hash);
        let after = WalletRow { free, charge: entry.charge, entries: seq, chain_hash: entry.chain_hash };
        let writes = self.writes(place);
        writes.entries.push(entry);
        writes.events.push(EventRow::of(&entry));
        writes.wallets.push((change.wallet, after));
        self.counts.add(EventKind::Credit);
        Step::Ended(Ok(Reply::Done))
    }

    pub(super) fn writes(&mut self, place: usize) -> &mut super::rows::Writes {
        &mut self.backends[place].transaction.as_mut().unwrap().writes
    }

    /// Ends a statement. An error undoes the whole transaction. A statement that is its own
    /// transaction commits in a step of its own.
    fn end_statement(&mut self, place: usize, mut asked: SentStatement, answer: Result<Reply, SqlError>) {
        let is_explicit = self.backends[place].transaction.as_ref().is_some_and(|open| open.is_explicit);
        match &answer {
            Err(_) => self.undo(place, is_explicit),
            Ok(Reply::Done) if !is_explicit && self.has_writes(place) => {
                asked.progress = StatementProgress::Committing;
                self.backends[place].queue.push_front(asked);
                return;
            }
            Ok(_) if !is_explicit => self.undo(place, false),
            Ok(_) => {}
        }
        self.reply(place, asked, answer);
    }

    fn reply(&mut self, place: usize, asked: SentStatement, answer: Result<Reply, SqlError>) {
        let is_commit = matches!(answer, Ok(Reply::Committed));
        let backend = &mut self.backends[place];
        let Some(sender) = asked.reply else { return };
        backend.outbox.push_back((sender, answer));
        if self.fault(self.settings.reply_lost) {
            self.counts.add(if is_commit { EventKind::CommitLost } else { EventKind::ReplyLost });
            self.backends[place].outbox.pop_back();
            self.kill(place);
        }
    }

    fn has_writes(&self, place: usize) -> bool {
        self.backends[place].transaction.as_ref().is_some_and(|open| !open.writes.is_empty())
    }
}
