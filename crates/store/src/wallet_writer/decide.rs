//! The decision about a batch, pure: each request in the order of arrival, as if it had come alone. Each function reads
//! as the contract does: its checks in their order, one reason each (contract 3.6, 8.3.3, 10.2 to 10.6). `query.rs` has
//! those of a query.

use std::ops::ControlFlow;

use domain::ids::WalletNo;
use domain::ledger::{ChainHash, LedgerEntry, ReferenceKind};
use domain::topup::Shortfall;
use domain::wallet::{
    Action, Balances, Change, LedgerEnd, NotGivenBack, Paid, PayPriority, PurseChange, Refused, WalletOutcome,
};

use super::batch::{Batch, OpenWallet, Rows, WalletState};
use super::rows::Record;
use crate::error::StoreError;

/// The decision about one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// The answer after the commit.
    Answer(WalletOutcome),
    /// The wallet is held, or the request asks for what this batch writes. It must be tried again.
    SetAside,
    /// The request can only be decided while its wallet is locked.
    NeedsLock,
}

/// A row that the batch writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewRow {
    /// Position of the request in the batch.
    pub(super) request: usize,
    pub(super) wallet_no: WalletNo,
    pub(super) kind: ReferenceKind,
    /// Sequence number and hash of a ledger entry. `None` for a closed number.
    pub(super) entry: Option<(i64, ChainHash)>,
    pub(super) change: PurseChange,
    /// What can still be given back after a cancel.
    pub(super) remaining: Option<i64>,
}

/// A wallet that the batch writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WalletUpdate {
    /// Position of the wallet in the batch.
    pub(super) wallet: usize,
    pub(super) entry_count_before: i64,
    pub(super) now: OpenWallet,
}

/// The decisions about a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decisions {
    /// One for each request, in their order.
    pub(super) verdicts: Vec<Decision>,
    /// In the order of their references.
    pub(super) rows: Vec<NewRow>,
    /// In the order of their keys.
    pub(super) wallets: Vec<WalletUpdate>,
}

impl Decisions {
    /// The outcomes of changes whose wallets were locked without skipping any.
    pub(super) fn outcomes(self) -> Result<Vec<WalletOutcome>, StoreError> {
        let outcome = |verdict| match verdict {
            Decision::Answer(outcome) => Ok(outcome),
            Decision::SetAside | Decision::NeedsLock => Err(StoreError::Again),
        };
        self.verdicts.into_iter().map(outcome).collect()
    }
}

impl Batch<'_> {
    /// Decides about each request. `at` is the database's time, as [`LedgerEntry::at`] counts it.
    pub(super) fn decide(&self, rows: &Rows, at: i64) -> Decisions {
        let mut books = Books {
            batch: self,
            wallets: rows.wallets.clone(),
            records: rows.records.iter().map(|record| record.as_ref().map(Record::borrowed)).collect(),
            new_rows: vec![None; rows.records.len()],
            read: rows,
            at,
        };
        let verdicts = (0..self.requests.len()).map(|position| books.decide(position)).collect();
        Decisions {
            verdicts,
            wallets: updates(&rows.wallets, &books.wallets),
            rows: books.new_rows.into_iter().flatten().collect(),
        }
    }
}

/// Wallets and records as they are after the requests that are decided already.
pub(super) struct Books<'b, 'a> {
    pub(super) batch: &'b Batch<'a>,
    pub(super) wallets: Vec<WalletState>,
    pub(super) records: Vec<Option<Record<'b>>>,
    /// For each number, the row that this batch writes.
    new_rows: Vec<Option<NewRow>>,
    pub(super) read: &'b Rows,
    pub(super) at: i64,
}

impl<'b> Books<'b, '_> {
    fn decide(&mut self, position: usize) -> Decision {
        match &self.batch.requests[position].1.action {
            Action::Change(change) => self.change(position, change),
            Action::Order(_) => self.order(position),
            Action::Balance => self.balance(position),
            Action::Query { closes } => self.query(position, *closes),
        }
    }

    /// The wallet of a request that uses its reference up, unless the reference, `ts` or the wallet decide it already.
    fn open_wallet(&self, position: usize) -> ControlFlow<Decision, OpenWallet> {
        let request = self.batch.requests[position].1;
        let place = self.batch.places[position];
        let wallet = self.wallets[place.wallet];
        if let Some(record) = &self.records[place.number] {
            return ControlFlow::Break(Decision::Answer(record.answer(wallet, request)));
        }
        if !request.is_fresh {
            return ControlFlow::Break(refused(Refused::TsOutsideWindow, wallet.balances()));
        }
        match wallet {
            WalletState::Unknown => ControlFlow::Break(refused(Refused::UnknownWallet, None)),
            WalletState::Held(_) => ControlFlow::Break(Decision::SetAside),
            WalletState::Open(wallet) => ControlFlow::Continue(wallet),
        }
    }

    /// A change: its reference, `ts`, the wallet, for a game that it is not frozen, and what the change itself needs.
    fn change(&mut self, position: usize, change: &Change) -> Decision {
        let request = self.batch.requests[position].1;
        let wallet = match self.open_wallet(position) {
            ControlFlow::Continue(wallet) => wallet,
            ControlFlow::Break(decision) => return decision,
        };
        if wallet.is_frozen && request.is_of_game() {
            return refused(Refused::Frozen(wallet.balances), Some(wallet.balances));
        }
        let (purses, remaining) = match self.changed_purses(position, &wallet, change) {
            Ok(changed) => changed,
            Err(why) => return refused(why, Some(wallet.balances)),
        };
        self.enter(position, wallet, change.kind(), purses, remaining)
    }

    /// What a change does to the purses of its wallet, and what it leaves to give back of its exchange.
    fn changed_purses(
        &mut self,
        position: usize,
        wallet: &OpenWallet,
        change: &Change,
    ) -> Result<(PurseChange, Option<i64>), Refused> {
        let purses = wallet.balances;
        let not_covered = Refused::InsufficientBalance(purses);
        let changed = match change {
            Change::Exchange(purchase) => {
                purses.deduct(purchase.amount, purchase.pay_priority).map_err(|_| not_covered)?
            }
            Change::Present(amount) => purses.credit(amount.get(), 0).map_err(|_| Refused::PurseFull)?,
            Change::Credit { free, charge } => {
                purses.credit(*free, *charge).map_err(|_| Refused::PurseFull)?
            }
            Change::Debit { free, charge } => purses.debit(*free, *charge).map_err(|_| not_covered)?,
            Change::Topup { bonus, charge } => {
                purses.credit(*bonus, *charge).map_err(|_| Refused::PurseFull)?
            }
            Change::Refund { owed, shortfall: Shortfall::Record } => purses.take(owed.free, owed.charge),
            Change::Refund { owed: coins, shortfall: Shortfall::Refuse } | Change::Settlement(coins) => {
                purses.debit(coins.free, coins.charge).map_err(|_| not_covered)?
            }
            Change::Cancel { amount, .. } => {
                let (paid, exchange) = self.exchange_of(position, wallet.wallet_no)?;
                let rest = exchange.remaining;
                let changed = purses.give_back(paid, rest, *amount).map_err(|error| match error {
                    NotGivenBack::MoreThanLeft => Refused::MoreThanLeft { remaining: rest },
                    NotGivenBack::PurseFull => Refused::PurseFull,
                })?;
                exchange.remaining = rest - amount.get();
                return Ok((changed, Some(exchange.remaining)));
            }
        };
        Ok((changed, None))
    }

    /// An order of a top-up: its number, `ts`, the wallet, the product. It moves no coins, so a frozen wallet takes it.
    fn order(&mut self, position: usize) -> Decision {
        let request = self.batch.requests[position].1;
        let wallet = match self.open_wallet(position) {
            ControlFlow::Continue(wallet) => wallet,
            ControlFlow::Break(decision) => return decision,
        };
        if request.item().is_none() {
            return refused(Refused::NotForSale, Some(wallet.balances));
        }
        let record = self.use_number(position, wallet, ReferenceKind::TopupOrder);
        Decision::Answer(WalletOutcome::Done(record.receipt(request)))
    }

    /// A balance: `ts`, the wallet.
    fn balance(&self, position: usize) -> Decision {
        if !self.batch.requests[position].1.is_fresh {
            return refused(Refused::TsOutsideWindow, None);
        }
        match self.wallets[self.batch.places[position].wallet] {
            WalletState::Unknown => refused(Refused::UnknownWallet, None),
            WalletState::Held(_) => Decision::SetAside,
            WalletState::Open(OpenWallet { wallet_no, balances, entry_count: seq, is_frozen, .. }) => {
                let end = LedgerEnd { wallet_no, seq };
                Decision::Answer(WalletOutcome::Balance { balances, is_frozen, end })
            }
        }
    }

    /// Enters a change into the ledger: the wallet's next entry, chained to the one before.
    fn enter(
        &mut self,
        position: usize,
        mut wallet: OpenWallet,
        kind: ReferenceKind,
        change: PurseChange,
        remaining: Option<i64>,
    ) -> Decision {
        wallet.balances = change.after;
        wallet.entry_count += 1;
        let (app_no, request) = self.batch.requests[position];
        let record = Record::new(request, wallet.wallet_no, kind, change, remaining, self.at);
        let entry = LedgerEntry {
            app_no: app_no.0,
            wallet_no: wallet.wallet_no.0,
            seq: wallet.entry_count,
            kind: record.kind.as_str(),
            reference: &request.reference,
            of_biz_no: record.of.as_deref(),
            remaining,
            item_id: record.item_id.map(|item_id| item_id.0),
            pay_priority: record.pay_priority.map(PayPriority::code),
            free_change: change.free_change,
            charge_change: change.charge_change,
            free_balance: change.after.free(),
            charge_balance: change.after.charge(),
            at: self.at,
        };
        wallet.chain_hash = entry.chain_hash(&wallet.chain_hash);
        let receipt = record.receipt(request);
        self.wallets[self.batch.places[position].wallet] = WalletState::Open(wallet);
        self.write(position, record, Some((wallet.entry_count, wallet.chain_hash)), change, remaining);
        Decision::Answer(WalletOutcome::Done(receipt))
    }

    /// Uses a number up without a ledger entry.
    pub(super) fn use_number(
        &mut self,
        position: usize,
        wallet: OpenWallet,
        kind: ReferenceKind,
    ) -> Record<'b> {
        let nothing = PurseChange { free_change: 0, charge_change: 0, after: Balances::default() };
        let request = self.batch.requests[position].1;
        let record = Record::new(request, wallet.wallet_no, kind, nothing, None, self.at);
        self.write(position, record.clone(), None, nothing, None);
        record
    }

    /// The exchange of this wallet that a cancel names.
    fn exchange_of(
        &mut self,
        position: usize,
        wallet_no: WalletNo,
    ) -> Result<(Paid, &mut Record<'b>), Refused> {
        let record = self.batch.places[position]
            .target
            .and_then(|target| self.records[target].as_mut())
            .ok_or(Refused::UnknownNumber)?;
        match record.pay_priority {
            Some(pay_priority) if record.wallet_no == wallet_no && record.kind == ReferenceKind::Exchange => {
                let (free, charge) = (-record.free_change, -record.charge_change);
                Ok((Paid { free, charge, pay_priority }, record))
            }
            Some(_) | None => Err(Refused::UnknownNumber),
        }
    }

    fn write(
        &mut self,
        position: usize,
        record: Record<'b>,
        entry: Option<(i64, ChainHash)>,
        change: PurseChange,
        remaining: Option<i64>,
    ) {
        let number = self.batch.places[position].number;
        let (wallet_no, kind) = (record.wallet_no, record.kind);
        self.new_rows[number] = Some(NewRow { request: position, wallet_no, kind, entry, change, remaining });
        self.records[number] = Some(record);
    }
}

/// `balances` are those of a change's wallet, where the till has looked at it.
pub(super) fn refused(why: Refused, balances: Option<Balances>) -> Decision {
    Decision::Answer(WalletOutcome::Refused(why, balances))
}

/// The wallets that have changed.
fn updates(before: &[WalletState], now: &[WalletState]) -> Vec<WalletUpdate> {
    let pairs = before.iter().zip(now).enumerate();
    let changed = pairs.filter_map(|(wallet, pair)| match pair {
        (WalletState::Open(before), WalletState::Open(now)) if now.entry_count > before.entry_count => {
            Some(WalletUpdate { wallet, entry_count_before: before.entry_count, now: *now })
        }
        (WalletState::Unknown | WalletState::Held(_) | WalletState::Open(_), _) => None,
    });
    changed.collect()
}
