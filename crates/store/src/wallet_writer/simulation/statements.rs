//! The statements of the simulated PostgreSQL, step by step, at READ COMMITTED. A statement sees
//! the commits before its first step. It waits for rows and keys that other transactions hold, and
//! does everything or nothing.

use domain::ledger::{CHAIN_START, micros};

use super::counts::EventKind;
use super::link::moment;
use super::protocol::{
    Detailed, LockProgress, Recorded, SqlError, SqlStatement, StatementProgress, StatementReply, StepOutcome,
    Tx, error,
};
use super::rows::{
    Cause, RecordRow, RequestKind, SimulatedEntry, SimulatedEvent, SimulatedWallet, order_coins,
};
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
                StepOutcome::Ended(Err(fault))
            }
            Some(Ok(())) | None => self.step(place, &asked.statement, progress),
        };
        match step {
            StepOutcome::Ended(answer) => self.end_statement(place, asked, answer),
            StepOutcome::Going(progress) => {
                asked.progress = progress;
                self.backends[place].queue.push_front(asked);
            }
            StepOutcome::Waits(holder, progress) => {
                asked.progress = progress;
                let since = self.now;
                let backend = &mut self.backends[place];
                backend.waits = Some((holder, since));
                backend.queue.push_front(asked);
            }
        }
    }

    fn step(&mut self, place: usize, statement: &SqlStatement, progress: StatementProgress) -> StepOutcome {
        let has_failed = self.backends[place].transaction.as_ref().is_some_and(|open| open.has_failed);
        let ends = matches!(statement, SqlStatement::Commit | SqlStatement::RollBack);
        if has_failed && !ends {
            return StepOutcome::Ended(Err(error("25P02")));
        }
        if progress == StatementProgress::Committing {
            return StepOutcome::Ended(Ok(self.commit(place)));
        }
        if progress == StatementProgress::NotBegun && !ends {
            self.begin(place, matches!(statement, SqlStatement::Begin));
            if let Some(fault) = self.statement_fault(place, statement) {
                return StepOutcome::Ended(Err(fault));
            }
        }
        match statement {
            SqlStatement::RollBack => {
                self.roll_back(place);
                StepOutcome::Ended(Ok(StatementReply::Done))
            }
            SqlStatement::Commit => StepOutcome::Ended(self.commit_asked(place)),
            SqlStatement::Read(keys) => StepOutcome::Ended(Ok(self.read(keys))),
            SqlStatement::Existing(wallets) => {
                let is_there = |place: &usize| self.tables.wallets[wallets[*place]].is_some();
                StepOutcome::Ended(Ok(StatementReply::Places((0..wallets.len()).filter(is_there).collect())))
            }
            SqlStatement::Now => StepOutcome::Ended(Ok(StatementReply::Now(self.now))),
            SqlStatement::Records(numbers) => StepOutcome::Ended(Ok(self.records(place, numbers))),
            SqlStatement::Details(numbers) => StepOutcome::Ended(Ok(self.details(numbers))),
            SqlStatement::Lock { wallets, skips_held } => self.lock(place, wallets, *skips_held, progress),
            SqlStatement::Write(write) => self.write(place, write, progress),
            SqlStatement::MakeWallet(wallet) => self.make_wallet(place, *wallet),
            SqlStatement::Credit { wallet, coins } => self.credit(place, *wallet, *coins),
            SqlStatement::Pay { payment, number } => self.pay(place, (*payment, *number)),
            SqlStatement::Refund { payment, number } => self.refund(place, (*payment, *number)),
            SqlStatement::Freeze(wallet) => self.freeze(place, *wallet),
            SqlStatement::Begin | SqlStatement::Hold { .. } => StepOutcome::Ended(Ok(StatementReply::Done)),
        }
    }

    /// A fault that is independent of the statement.
    fn statement_fault(&mut self, place: usize, statement: &SqlStatement) -> Option<SqlError> {
        if !self.backends[place].is_writers || matches!(statement, SqlStatement::Begin) {
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

    fn details(&self, numbers: &[usize]) -> StatementReply {
        let detail = |(place, number): (usize, &usize)| {
            let recorded = self.recorded(*number, self.commits)?;
            let cancels = self.cancels_of(*number, self.commits);
            let cancels =
                cancels.iter().map(|row| (row.number, row.content.amount, row.created_at)).collect();
            let Recorded { row, remaining, .. } = recorded;
            let detailed = Detailed { variant: row.content.variant, remaining, cancels };
            (row.content.kind == RequestKind::Exchange).then_some((place, detailed))
        };
        StatementReply::Details(numbers.iter().enumerate().filter_map(detail).collect())
    }

    fn read(&self, keys: &[(usize, usize)]) -> StatementReply {
        let row = |(wallet, number): &(usize, usize)| {
            (self.tables.wallets[*wallet], self.recorded(*number, self.commits))
        };
        StatementReply::Read(self.now, keys.iter().map(row).collect())
    }

    fn records(&self, place: usize, numbers: &[usize]) -> StatementReply {
        let transaction = self.backends[place].transaction.as_ref();
        let stale = transaction.and_then(|transaction| transaction.locked_after);
        let is_stale = self.settings.sabotage == Sabotage::StaleRecords;
        let as_of = stale.filter(|_| is_stale).unwrap_or(self.commits);
        let found = numbers.iter().enumerate();
        StatementReply::Records(
            found.filter_map(|(at, number)| Some((at, self.recorded(*number, as_of)?))).collect(),
        )
    }

    /// Locks the next wallet. After a wait it reads the row again.
    fn lock(
        &mut self,
        place: usize,
        wallets: &[usize],
        skips_held: bool,
        progress: StatementProgress,
    ) -> StepOutcome {
        let StatementProgress::Locking(mut locking) = progress else {
            let there = |(_, wallet): &(usize, usize)| self.tables.wallets[*wallet].is_some();
            let mut to_lock: Vec<_> = wallets.iter().copied().enumerate().filter(there).collect();
            if self.settings.sabotage == Sabotage::AnyLockOrder {
                self.random.shuffle(&mut to_lock);
            }
            to_lock.reverse();
            self.backends[place].transaction.as_mut().unwrap().locked_after = Some(self.commits);
            return StepOutcome::Going(StatementProgress::Locking(LockProgress {
                to_lock,
                locked: Vec::new(),
            }));
        };
        let Some((at, wallet)) = locking.to_lock.pop() else {
            return StepOutcome::Ended(Ok(StatementReply::Locked(locking.locked)));
        };
        match self.take(place, LockKey::Row(wallet)) {
            Ok(()) => locking.locked.push((at, self.tables.wallets[wallet].unwrap())),
            Err(_) if skips_held => self.counts.add(EventKind::SkippedWallet),
            Err(holder) => {
                locking.to_lock.push((at, wallet));
                self.counts.add(EventKind::RowWait);
                return StepOutcome::Waits(holder, StatementProgress::Locking(locking));
            }
        }
        StepOutcome::Going(StatementProgress::Locking(locking))
    }

    fn make_wallet(&mut self, place: usize, wallet: usize) -> StepOutcome {
        if self.tables.wallets[wallet].is_some() {
            return StepOutcome::Ended(Ok(StatementReply::Done));
        }
        match self.take(place, LockKey::Wallet(wallet)) {
            Ok(()) => {
                self.writes(place).made.push(wallet);
                StepOutcome::Ended(Ok(StatementReply::Done))
            }
            Err(holder) => StepOutcome::Waits(holder, StatementProgress::NotBegun),
        }
    }

    /// Writes entries of a wallet that the transaction has locked, each with its cause and its gifted and charged coins.
    /// Returns the transaction that holds a key of one of them.
    fn enter(
        &mut self,
        place: usize,
        wallet: usize,
        changes: &[(Option<Cause>, (i64, i64))],
    ) -> Result<(), Tx> {
        let mut row = self.tables.wallets[wallet].unwrap_or(SimulatedWallet::new(0, 0));
        let mut entries = Vec::new();
        for &(cause, (free_change, charge_change)) in changes {
            let seq = row.entries + 1;
            self.take(place, LockKey::Entry(wallet, seq))?;
            let mut entry = SimulatedEntry {
                wallet,
                seq,
                request: None,
                cause,
                remaining: None,
                free_change,
                charge_change,
                free: row.free + free_change,
                charge: row.charge + charge_change,
                at: micros(moment(self.now)),
                chain_hash: CHAIN_START,
            };
            entry.chain_hash = entry.hash_after(&row.chain_hash);
            let SimulatedEntry { free, charge, chain_hash, .. } = entry;
            row = SimulatedWallet { free, charge, entries: seq, chain_hash, ..row };
            entries.push(entry);
        }
        let writes = self.writes(place);
        writes.events.extend(entries.iter().filter_map(SimulatedEvent::of));
        writes.entries.extend(entries);
        writes.wallets.push((wallet, row));
        Ok(())
    }

    fn credit(&mut self, place: usize, wallet: usize, coins: (i64, i64)) -> StepOutcome {
        if let Err(holder) = self.enter(place, wallet, &[(None, coins)]) {
            return StepOutcome::Waits(holder, StatementProgress::NotBegun);
        }
        self.counts.add(EventKind::Credit);
        StepOutcome::Ended(Ok(StatementReply::Done))
    }

    fn pay(&mut self, place: usize, (payment, number): (usize, usize)) -> StepOutcome {
        let Some((order, _)) = self.tables.records[number] else {
            return StepOutcome::Ended(Ok(StatementReply::Done));
        };
        if self.settings.sabotage != Sabotage::PaidTwice {
            for key in [LockKey::Payment(payment), LockKey::PaidOrder(number)] {
                if let Err(holder) = self.take(place, key) {
                    return StepOutcome::Waits(holder, StatementProgress::NotBegun);
                }
            }
            let mut paid = self.tables.payments.iter();
            if paid.any(|(other, of)| *other == payment || *of == number) {
                self.counts.add(EventKind::PaidBefore);
                return StepOutcome::Ended(Ok(StatementReply::Done));
            }
        }
        let (wallet, coins) = (order.content.wallet, order_coins(order.content.variant));
        let debt = self.tables.debts[wallet];
        let mut settled = (debt.0.min(coins.0), debt.1.min(coins.1));
        if self.settings.sabotage == Sabotage::DebtForgotten {
            settled = (0, 0);
        }
        let mut changes = vec![(Some(Cause::Payment(payment, number)), coins)];
        if settled != (0, 0) {
            changes.push((Some(Cause::Settlement(payment)), (-settled.0, -settled.1)));
        }
        if let Err(holder) = self.enter(place, wallet, &changes) {
            return StepOutcome::Waits(holder, StatementProgress::NotBegun);
        }
        self.writes(place).payments.push((payment, number));
        if settled != (0, 0) {
            self.writes(place).debts.push((wallet, (debt.0 - settled.0, debt.1 - settled.1)));
            self.counts.add(EventKind::Settled);
        }
        self.counts.add(EventKind::Paid);
        StepOutcome::Ended(Ok(StatementReply::Done))
    }

    fn refund(&mut self, place: usize, (payment, number): (usize, usize)) -> StepOutcome {
        let Some((order, _)) = self.tables.records[number] else {
            return StepOutcome::Ended(Ok(StatementReply::Done));
        };
        if self.settings.sabotage != Sabotage::RefundedTwice {
            if let Err(holder) = self.take(place, LockKey::Refund(payment)) {
                return StepOutcome::Waits(holder, StatementProgress::NotBegun);
            }
            if self.tables.refunds.contains(&payment) {
                self.counts.add(EventKind::RefundedBefore);
                return StepOutcome::Ended(Ok(StatementReply::Done));
            }
        }
        let (wallet, owed) = (order.content.wallet, order_coins(order.content.variant));
        let held = self.tables.wallets[wallet].unwrap_or(SimulatedWallet::new(0, 0));
        let taken = (owed.0.min(held.free), owed.1.min(held.charge));
        let changes = [(Some(Cause::Refund(payment)), (-taken.0, -taken.1))];
        if let Err(holder) = self.enter(place, wallet, &changes) {
            return StepOutcome::Waits(holder, StatementProgress::NotBegun);
        }
        self.writes(place).refunds.push(payment);
        if taken == owed {
            self.counts.add(EventKind::Refunded);
        } else {
            let debt = self.tables.debts[wallet];
            let debt = (debt.0 + owed.0 - taken.0, debt.1 + owed.1 - taken.1);
            self.writes(place).debts.push((wallet, debt));
            self.counts.add(EventKind::Owed);
        }
        StepOutcome::Ended(Ok(StatementReply::Done))
    }

    fn freeze(&mut self, place: usize, wallet: usize) -> StepOutcome {
        // A wallet that did not exist when this transaction locked it is not locked, and stays as it is.
        let own = self.backends[place].transaction.as_ref().map(|open| open.id);
        let is_locked = self.tables.held.get(&LockKey::Row(wallet)).copied() == own;
        if let Some(before) = self.tables.wallets[wallet].filter(|_| is_locked) {
            let after = SimulatedWallet { is_frozen: !before.is_frozen, ..before };
            self.writes(place).wallets.push((wallet, after));
            self.counts.add(EventKind::Freeze);
        }
        StepOutcome::Ended(Ok(StatementReply::Done))
    }

    pub(super) fn writes(&mut self, place: usize) -> &mut super::rows::Writes {
        &mut self.backends[place].transaction.as_mut().unwrap().writes
    }

    /// Ends a statement. An error undoes the whole transaction. A statement that is its own
    /// transaction commits in a step of its own.
    fn end_statement(
        &mut self,
        place: usize,
        mut asked: SentStatement,
        answer: Result<StatementReply, SqlError>,
    ) {
        let is_explicit = self.backends[place].transaction.as_ref().is_some_and(|open| open.is_explicit);
        match &answer {
            Err(_) => self.undo(place, is_explicit),
            Ok(StatementReply::Done) if !is_explicit && self.has_writes(place) => {
                asked.progress = StatementProgress::Committing;
                self.backends[place].queue.push_front(asked);
                return;
            }
            Ok(_) if !is_explicit => self.undo(place, false),
            Ok(_) => {}
        }
        self.reply(place, asked, answer);
    }

    fn reply(&mut self, place: usize, asked: SentStatement, answer: Result<StatementReply, SqlError>) {
        let is_commit = matches!(answer, Ok(StatementReply::Committed));
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
