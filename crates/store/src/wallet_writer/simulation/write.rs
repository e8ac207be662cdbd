//! The statement that writes a batch, commits and rollbacks.
//!
//! Its four parts run in any order, row by row, and each row takes its key or its lock. The update
//! compares `entry_count` at the first step of the statement, and again after a wait for the row.

use super::counts::EventKind;
use super::protocol::{
    SqlError, StatementProgress, StatementReply, StepOutcome, Write, WritePart, WriteProgress, error,
};
use super::rows::{RecordRow, SimulatedEntry, SimulatedEvent, SimulatedWallet, UNLUCKY, Writes};
use super::settings::Sabotage;
use super::world::{LockKey, World};

enum RowOutcome {
    Written,
    /// The row does not exist, or has changed.
    Passed,
    Waits(u64),
    Refused(SqlError),
}

impl World {
    pub(super) fn write(&mut self, place: usize, write: &Write, progress: StatementProgress) -> StepOutcome {
        let StatementProgress::Writing(mut writing) = progress else { return self.begin_write(write) };
        let Some((part, row)) = writing.left.front().copied() else {
            return StepOutcome::Ended(Ok(StatementReply::Done));
        };
        let written = match part {
            WritePart::Records => self.insert_record(place, write.records[row]),
            WritePart::Entries => self.insert_entry(place, write.entries[row]),
            WritePart::Wallets => self.update_wallet(place, write.wallets[row], writing.seen[row]),
            WritePart::Outbox => self.insert_outbox(place, &write.outbox[row]),
        };
        match written {
            RowOutcome::Waits(holder) => {
                let kind = if part == WritePart::Wallets { EventKind::RowWait } else { EventKind::KeyWait };
                self.counts.add(kind);
                return StepOutcome::Waits(holder, StatementProgress::Writing(writing));
            }
            RowOutcome::Refused(fault) => return self.refuse(place, fault),
            RowOutcome::Written if part == WritePart::Wallets => writing.updated += 1,
            RowOutcome::Written | RowOutcome::Passed => {}
        }
        writing.left.pop_front();
        let is_last = part == WritePart::Wallets && row + 1 == write.wallets.len();
        if is_last && writing.updated != write.wallets.len() {
            self.counts.add(EventKind::ChangedWallet);
            return self.refuse(place, error("22012"));
        }
        StepOutcome::Going(StatementProgress::Writing(writing))
    }

    fn begin_write(&mut self, write: &Write) -> StepOutcome {
        let mut parts = [
            (WritePart::Records, write.records.len()),
            (WritePart::Entries, write.entries.len()),
            (WritePart::Wallets, write.wallets.len()),
            (WritePart::Outbox, write.outbox.len()),
        ];
        self.random.shuffle(&mut parts);
        let left = parts.iter().flat_map(|(part, rows)| (0..*rows).map(|row| (*part, row))).collect();
        let seen = write.wallets.iter().map(|(wallet, ..)| self.tables.wallets[*wallet]).collect();
        StepOutcome::Going(StatementProgress::Writing(WriteProgress { left, seen, updated: 0 }))
    }

    fn refuse(&mut self, place: usize, fault: SqlError) -> StepOutcome {
        if self.settings.sabotage == Sabotage::PartialWrite {
            // Rows that were inserted so far stay.
            let writes = std::mem::take(self.writes(place));
            self.apply(writes);
        }
        if self.settings.sabotage == Sabotage::EventsOutlive {
            let events = std::mem::take(&mut self.writes(place).events);
            self.apply(Writes { events, ..Writes::default() });
        }
        StepOutcome::Ended(Err(fault))
    }

    fn insert_record(&mut self, place: usize, row: RecordRow) -> RowOutcome {
        let sabotage = self.settings.sabotage;
        if row.content.amount == UNLUCKY {
            return RowOutcome::Refused(error("23514"));
        }
        if let Err(holder) = self.take(place, LockKey::Number(row.number))
            && sabotage != Sabotage::KeysDoNotWait
        {
            return RowOutcome::Waits(holder);
        }
        if self.tables.records[row.number].is_some() {
            if sabotage == Sabotage::SilentRecords {
                return RowOutcome::Passed;
            }
            self.counts.add(EventKind::RacedNumber);
            return RowOutcome::Refused(error("23505"));
        }
        if let (Some(of), Some(remaining)) = (row.content.of, row.remaining) {
            if let Err(holder) = self.take(place, LockKey::Cancel(of, remaining)) {
                return RowOutcome::Waits(holder);
            }
            let mut rows = self.tables.records.iter().flatten().map(|(row, _)| row);
            if rows.any(|row| row.content.of == Some(of) && row.remaining == Some(remaining)) {
                return RowOutcome::Refused(error("23505"));
            }
        }
        self.writes(place).records.push(row);
        RowOutcome::Written
    }

    fn insert_entry(&mut self, place: usize, row: SimulatedEntry) -> RowOutcome {
        let sabotage = self.settings.sabotage;
        if !matches!(sabotage, Sabotage::NoEntryKey | Sabotage::NeitherGuardNorEntryKey) {
            if let Err(holder) = self.take(place, LockKey::Entry(row.wallet, row.seq)) {
                return RowOutcome::Waits(holder);
            }
            if self.tables.entries.contains_key(&(row.wallet, row.seq)) {
                self.counts.add(EventKind::RacedEntry);
                return RowOutcome::Refused(error("23505"));
            }
        }
        self.writes(place).entries.push(row);
        RowOutcome::Written
    }

    /// A row of the outbox has a key that nobody else makes, so it waits for nobody.
    fn insert_outbox(&mut self, place: usize, events: &[SimulatedEvent]) -> RowOutcome {
        if self.settings.sabotage == Sabotage::ForgottenEvents && self.random.chance(200) {
            return RowOutcome::Passed;
        }
        self.writes(place).events.extend(events);
        RowOutcome::Written
    }

    fn update_wallet(
        &mut self,
        place: usize,
        (wallet, row, entries_before): (usize, SimulatedWallet, i64),
        seen: Option<SimulatedWallet>,
    ) -> RowOutcome {
        if !self.is_unchanged(seen, row, entries_before) {
            return RowOutcome::Passed;
        }
        if let Err(holder) = self.take(place, LockKey::Row(wallet)) {
            return RowOutcome::Waits(holder);
        }
        let now = self.tables.wallets[wallet];
        if !self.is_unchanged(now, row, entries_before) {
            return RowOutcome::Passed;
        }
        if row.free < 0 || row.charge < 0 {
            return RowOutcome::Refused(error("23514"));
        }
        let is_frozen = now.is_some_and(|now| now.is_frozen);
        self.writes(place).wallets.push((wallet, SimulatedWallet { is_frozen, ..row }));
        RowOutcome::Written
    }

    /// The guard of the update.
    fn is_unchanged(
        &mut self,
        now: Option<SimulatedWallet>,
        row: SimulatedWallet,
        entries_before: i64,
    ) -> bool {
        let sabotage = self.settings.sabotage;
        let has_guard = !matches!(sabotage, Sabotage::NoGuard | Sabotage::NeitherGuardNorEntryKey);
        if has_guard && now.map(|now| now.entries) != Some(entries_before) {
            return false;
        }
        let is_as_read = now.is_some_and(|now| now.is_frozen == row.is_frozen);
        if !is_as_read {
            self.counts.add(EventKind::FrozenMeanwhile);
        }
        is_as_read || sabotage == Sabotage::FreezeUnnoticed
    }

    /// Undoes the transaction of a session and releases its locks.
    pub(super) fn undo(&mut self, place: usize, is_explicit: bool) {
        let Some(open) = &mut self.backends[place].transaction else { return };
        let id = open.id;
        open.writes = Writes::default();
        open.has_failed = true;
        if !is_explicit {
            self.backends[place].transaction = None;
        }
        self.tables.held.retain(|_, holder| *holder != id);
    }

    pub(super) fn roll_back(&mut self, place: usize) {
        self.undo(place, false);
    }

    /// `COMMIT`. After a failed statement it rolls back and reports success.
    pub(super) fn commit_asked(&mut self, place: usize) -> Result<StatementReply, SqlError> {
        let Some(has_failed) = self.backends[place].transaction.as_ref().map(|open| open.has_failed) else {
            return Ok(StatementReply::Done);
        };
        if has_failed {
            self.counts.add(EventKind::RolledBackCommit);
            self.roll_back(place);
            return Ok(StatementReply::Done);
        }
        if self.backends[place].is_writers && self.fault(self.settings.serialisation) {
            self.counts.add(EventKind::Serialisation);
            self.roll_back(place);
            return Err(error("40001"));
        }
        Ok(self.commit(place))
    }

    /// Makes the rows of a transaction visible and durable, all at once.
    pub(super) fn commit(&mut self, place: usize) -> StatementReply {
        let Some(open) = &mut self.backends[place].transaction else { return StatementReply::Committed };
        let writes = std::mem::take(&mut open.writes);
        let is_explicit = open.is_explicit;
        let backend = &self.backends[place];
        let (is_writers, has_gone) = (backend.is_writers, backend.peer != super::world::Peer::Writer);
        let is_lost = self.settings.sabotage == Sabotage::LostCommits && self.random.chance(200);
        if !writes.is_empty() && !is_lost {
            if is_writers {
                self.counts.add(if is_explicit { EventKind::LockedWrite } else { EventKind::UsualWrite });
                if writes.records.len() > 1 {
                    self.counts.add(EventKind::Several);
                }
                if has_gone {
                    self.counts.add(EventKind::OrphanCommit);
                }
            }
            self.apply(writes);
        }
        self.undo(place, false);
        StatementReply::Committed
    }

    fn apply(&mut self, writes: Writes) {
        self.commits += 1;
        let judged = self.oracle.committed(&writes, self.commits);
        self.violated(judged);
        for wallet in &writes.made {
            self.tables.wallets[*wallet].get_or_insert(SimulatedWallet::new(0, 0));
        }
        for row in writes.records {
            self.tables.records[row.number] = Some((row, self.commits));
        }
        for row in writes.entries {
            self.tables.entries.insert((row.wallet, row.seq), row);
        }
        self.tables.payments.extend(writes.payments);
        self.tables.refunds.extend(writes.refunds);
        for (wallet, debt) in writes.debts {
            self.tables.debts[wallet] = debt;
        }
        for (wallet, row) in writes.wallets {
            self.tables.wallets[wallet] = Some(row);
        }
    }
}
