//! The oracle: a second implementation of the rules of contract 3.3, for one exchange at a time. It
//! replays commits and judges answers.
//!
//! An answer is right when the rules give it at some moment between request and answer. Moments are
//! counted in commits, and inside a commit in entries of a wallet.

use super::rows::{APPS, Content, EntryRow, NUMBERS, UNLUCKY, WalletRow, Writes};
use crate::StoreError;
use crate::exchange::ExchangeOutcome;

/// The state of a wallet between two of its entries.
#[derive(Debug, Clone, Copy)]
struct Stand {
    commit: u64,
    seq: i64,
    total: i64,
}

/// The one deduction under a number.
#[derive(Debug, Clone, Copy)]
struct Original {
    content: Content,
    seq: i64,
    free: i64,
    charge: i64,
    commit: u64,
    created_at: u64,
    /// True when a client got "done" for it.
    is_answered: bool,
}

/// A request and its arrival.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) number: usize,
    pub(super) content: Content,
    pub(super) is_fresh: bool,
    pub(super) commit: u64,
    pub(super) at: u64,
}

#[derive(Debug)]
pub(super) struct Oracle {
    wallets: Vec<Option<WalletRow>>,
    stands: Vec<Vec<Stand>>,
    records: Vec<Option<Original>>,
    /// Contents that were sent with a fresh `ts`, by number.
    sent: Vec<Vec<Content>>,
    replayed_for: u64,
}

impl Oracle {
    pub(super) fn new(wallets: &[Option<WalletRow>], replayed_for: u64) -> Self {
        let first = |wallet: &Option<WalletRow>| {
            wallet.map(|row| Stand { commit: 0, seq: 0, total: row.free + row.charge }).into_iter().collect()
        };
        Self {
            wallets: wallets.to_vec(),
            stands: wallets.iter().map(first).collect(),
            records: vec![None; APPS * NUMBERS],
            sent: vec![Vec::new(); APPS * NUMBERS],
            replayed_for,
        }
    }

    pub(super) fn sent(&mut self, request: &Request) {
        if request.is_fresh && !self.sent[request.number].contains(&request.content) {
            self.sent[request.number].push(request.content);
        }
    }

    /// Replays the rows of a commit, entry by entry.
    pub(super) fn committed(&mut self, writes: &Writes, commit: u64) -> Result<(), String> {
        for wallet in &writes.made {
            if self.wallets[*wallet].is_none() {
                self.wallets[*wallet] = Some(WalletRow::new(0, 0));
                self.stands[*wallet].push(Stand { commit, seq: 0, total: 0 });
            }
        }
        let exchanges = writes.entries.iter().filter(|entry| entry.number.is_some()).count();
        if exchanges != writes.records.len() {
            return Err(format!("{} records with {exchanges} entries", writes.records.len()));
        }
        let mut entries = writes.entries.clone();
        entries.sort_unstable_by_key(|entry| (entry.wallet, entry.seq));
        for entry in &entries {
            self.replay(entry, writes, commit).map_err(|text| format!("{text}: {entry:?}"))?;
        }
        for (wallet, row) in &writes.wallets {
            let before = self.wallets[*wallet].ok_or("a wallet of nobody's")?;
            if *row != before {
                return Err(format!("wallet {wallet} holds {row:?}, expected {before:?}"));
            }
        }
        let has_row = |entry: &EntryRow| writes.wallets.iter().any(|(wallet, _)| *wallet == entry.wallet);
        if entries.iter().all(has_row) { Ok(()) } else { Err("an entry without its wallet".to_owned()) }
    }

    fn replay(&mut self, entry: &EntryRow, writes: &Writes, commit: u64) -> Result<(), String> {
        let before = self.wallets[entry.wallet].ok_or("an entry of no wallet")?;
        if entry.seq != before.entries + 1 {
            return Err(format!("the ledger has {} entries", before.entries));
        }
        let (free, charge) = match entry.number {
            None => (before.free + entry.free_change, before.charge + entry.charge_change),
            Some(number) => {
                let record = writes.records.iter().find(|record| record.number == number);
                let record = record.ok_or("an entry without its record")?;
                if (record.content.wallet, record.seq) != (entry.wallet, entry.seq) {
                    return Err("a record of another entry".to_owned());
                }
                if self.records[number].is_some() {
                    return Err("a number deducted twice".to_owned());
                }
                if record.content.amount == UNLUCKY || !self.sent[number].contains(&record.content) {
                    return Err("nobody asked for this".to_owned());
                }
                let (free, charge) = pay(before, record.content).ok_or("a purse below zero")?;
                let (content, created_at, seq) = (record.content, record.created_at, entry.seq);
                let is_answered = false;
                self.records[number] =
                    Some(Original { content, seq, free, charge, commit, created_at, is_answered });
                (free, charge)
            }
        };
        let changes = (free - before.free, charge - before.charge);
        if changes != (entry.free_change, entry.charge_change) || (free, charge) != (entry.free, entry.charge)
        {
            return Err(format!("expected {free} and {charge} after it"));
        }
        let chain_hash = entry.hash_after(&before.chain_hash);
        if entry.chain_hash != chain_hash {
            return Err("a hash that breaks the chain".to_owned());
        }
        self.wallets[entry.wallet] = Some(WalletRow { free, charge, entries: entry.seq, chain_hash });
        self.stands[entry.wallet].push(Stand { commit, seq: entry.seq, total: free + charge });
        Ok(())
    }

    /// Judges an answer after this commit, at this time.
    pub(super) fn answered(
        &mut self,
        request: &Request,
        outcome: &Result<ExchangeOutcome, StoreError>,
        commit: u64,
        now: u64,
    ) -> Result<(), String> {
        let is_right = match outcome {
            Ok(ExchangeOutcome::Done(receipt)) => {
                let record = self.records[request.number].as_mut();
                record.is_some_and(|record| {
                    let is_first = !std::mem::replace(&mut record.is_answered, true);
                    let is_own = record.content == request.content && record.commit > request.commit;
                    is_first
                        && is_own
                        && request.is_fresh
                        && record.commit <= commit
                        && (record.free, record.charge) == (receipt.free_balance, receipt.charge_balance)
                })
            }
            Ok(ExchangeOutcome::Replayed(receipt)) => self.live_record(request).is_some_and(|record| {
                record.content == request.content
                    && (record.free, record.charge) == (receipt.free_balance, receipt.charge_balance)
            }),
            Ok(ExchangeOutcome::BizNoConflict) => {
                self.live_record(request).is_some_and(|record| record.content != request.content)
            }
            Ok(ExchangeOutcome::BizNoExpired) => self.records[request.number]
                .is_some_and(|record| now >= record.created_at + self.replayed_for),
            Ok(ExchangeOutcome::TsOutsideWindow) => !request.is_fresh && self.is_unused_on_arrival(request),
            Ok(ExchangeOutcome::UnknownWallet) => {
                let made = self.stands[request.content.wallet].first();
                request.is_fresh
                    && self.is_unused_on_arrival(request)
                    && made.is_none_or(|made| made.commit > request.commit)
            }
            Ok(ExchangeOutcome::InsufficientBalance) => request.is_fresh && self.was_insufficient(request),
            Err(StoreError::Internal(_)) => request.content.amount == UNLUCKY,
            Err(StoreError::Unavailable(_) | StoreError::Again) => true,
            Err(StoreError::Overloaded | StoreError::PicturesUnavailable(_) | StoreError::Repeated) => false,
        };
        let record = self.records[request.number];
        let wrong = || format!("{outcome:?} to {request:?} after commit {commit}, recorded {record:?}");
        if is_right { Ok(()) } else { Err(wrong()) }
    }

    /// The record, unless it was expired when both it and the request existed.
    fn live_record(&self, request: &Request) -> Option<Original> {
        let replayed_for = self.replayed_for;
        self.records[request.number].filter(|record| request.at < record.created_at + replayed_for)
    }

    fn is_unused_on_arrival(&self, request: &Request) -> bool {
        self.records[request.number].is_none_or(|record| record.commit > request.commit)
    }

    /// True when the wallet did not cover the amount at a moment when the number was unused.
    ///
    /// It accepts one answer that no moment explains. A batch deducts from a wallet and refuses the
    /// next exchange, because the rest does not cover it. Meanwhile another transaction uses the
    /// number of that exchange for another wallet. The batch has read the number as free, and
    /// commits later. Nothing is deducted, and the next attempt gets the conflict.
    fn was_insufficient(&self, request: &Request) -> bool {
        let wallet = request.content.wallet;
        let stands = &self.stands[wallet];
        stands.iter().enumerate().any(|(place, stand)| {
            let is_over = stands.get(place + 1).is_some_and(|next| next.commit <= request.commit);
            let is_unused = match &self.records[request.number] {
                None => true,
                Some(record) if stand.commit <= request.commit => record.commit > request.commit,
                Some(record) if record.commit == stand.commit => {
                    record.content.wallet != wallet || record.seq > stand.seq
                }
                Some(record) => {
                    let is_beside = record.content.wallet != wallet && record.commit > request.commit;
                    record.commit > stand.commit || is_beside
                }
            };
            stand.total < request.content.amount && !is_over && is_unused
        })
    }

    /// The content of the success that a request with this number must get for ever.
    pub(super) fn success(&self, number: usize) -> Option<Content> {
        self.records[number].map(|record| record.content)
    }

    /// Compares the tables with the replayed state.
    pub(super) fn close(&self, wallets: &[Option<WalletRow>], recorded: &[bool]) -> Result<(), String> {
        if self.wallets != wallets {
            return Err(format!("wallets {wallets:?}, expected {:?}", self.wallets));
        }
        let expected = self.records.iter().map(Option::is_some);
        if expected.eq(recorded.iter().copied()) { Ok(()) } else { Err("records differ".to_owned()) }
    }
}

/// Both purses after a deduction. `None` when they do not cover it.
fn pay(before: WalletRow, content: Content) -> Option<(i64, i64)> {
    if before.free + before.charge < content.amount {
        return None;
    }
    let first = if content.gifted_first { before.free } else { before.charge };
    let rest = 0.max(content.amount - first);
    let left = 0.max(first - content.amount);
    Some(if content.gifted_first { (left, before.charge - rest) } else { (before.free - rest, left) })
}
