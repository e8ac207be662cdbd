//! A batch: the requests of one transaction with their distinct keys, and the decision about them, pure. Each request is
//! decided in the order of arrival, as if it had come alone. Each function reads as the contract does: its checks in
//! their order, one reason each (contract 3.6, 8.3.3, 10.2 to 10.6). `query.rs` has those of what only asks.

use std::ops::ControlFlow;

use domain::ids::{AppNo, WalletNo};
use domain::ledger::{ChainHash, LedgerEntry, ReferenceKind};
use domain::topup::Shortfall;
use domain::wallet::{
    Action, Balances, Change, NotGivenBack, Paid, PayPriority, PurseChange, Refused, WalletOutcome,
    WalletRequest,
};

use super::query::ExchangeDetail;
use super::rows::Record;

/// The requests of one transaction in the order of arrival, and their distinct keys.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    pub(super) requests: Vec<(AppNo, &'a WalletRequest)>,
    /// The places of the keys of each request.
    pub(super) places: Vec<BatchPlace>,
    /// `(app_no, open_id)`.
    pub(super) wallets: DistinctKeys<'a>,
    /// `(app_no, reference)`: those of the requests, and of the exchanges that cancels name.
    pub(super) numbers: DistinctKeys<'a>,
}

/// The places of the keys of a request in [`Batch::wallets`] and [`Batch::numbers`].
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchPlace {
    pub(super) wallet: usize,
    pub(super) number: usize,
    /// The exchange that a cancel names.
    pub(super) target: Option<usize>,
}

/// Keys in ascending order of their bytes, each once. Every process locks and inserts in this order.
/// So two of them never wait for each other.
#[derive(Debug, Default)]
pub(super) struct DistinctKeys<'a> {
    pub(super) app_nos: Vec<i32>,
    pub(super) names: Vec<&'a str>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(requests: Vec<(AppNo, &'a WalletRequest)>) -> Self {
        let open_ids = requests.iter().map(|(app, asked)| (app.0, asked.open_id.as_str()));
        let references = requests.iter().map(|(app, asked)| (app.0, asked.reference.as_str()));
        let targets = requests.iter().filter_map(|(app, asked)| Some((app.0, asked.target()?)));
        let (wallets, wallet_of) = DistinctKeys::new(&open_ids.collect::<Vec<_>>());
        let (numbers, number_of) = DistinctKeys::new(&references.chain(targets).collect::<Vec<_>>());
        let (number_of, targets) = number_of.split_at(requests.len());
        let mut targets = targets.iter().copied();
        let places = requests.iter().zip(wallet_of).zip(number_of);
        let places = places.map(|(((_, asked), wallet), number)| BatchPlace {
            wallet,
            number: *number,
            target: asked.target().and_then(|_| targets.next()),
        });
        Self { places: places.collect(), wallets, numbers, requests }
    }

    /// The wallet of each request beside each of its numbers, as they are read together.
    pub(super) fn lookups(&self) -> impl Iterator<Item = (usize, usize)> {
        self.places.iter().flat_map(|place| {
            [Some(place.number), place.target].into_iter().flatten().map(|number| (place.wallet, number))
        })
    }

    /// The positions of queries in the batch.
    pub(super) fn queries(&self) -> impl Iterator<Item = usize> {
        let is_query = |request: &WalletRequest| matches!(request.action, Action::Query { .. });
        self.requests
            .iter()
            .enumerate()
            .filter(move |(_, (_, asked))| is_query(asked))
            .map(|(position, _)| position)
    }
}

impl<'a> DistinctKeys<'a> {
    /// The keys, and where each of those given stands.
    fn new(keys: &[(i32, &'a str)]) -> (Self, Vec<usize>) {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|position| keys[*position]);
        let (mut distinct, mut place_of, mut last) = (Self::default(), vec![0; keys.len()], None);
        for position in order {
            if last != Some(keys[position]) {
                let (app_no, name) = keys[position];
                distinct.app_nos.push(app_no);
                distinct.names.push(name);
                last = Some(keys[position]);
            }
            place_of[position] = distinct.names.len() - 1;
        }
        (distinct, place_of)
    }
}

/// A wallet as the transaction reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalletState {
    /// The app has no such wallet.
    Unknown,
    /// The wallet exists. Another transaction has locked it, or made it after the lock.
    Held(WalletNo),
    /// The wallet may be changed.
    Open(OpenWallet),
}

/// A wallet that may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenWallet {
    pub(super) wallet_no: WalletNo,
    pub(super) balances: Balances,
    pub(super) entry_count: i64,
    /// Hash of its last entry.
    pub(super) chain_hash: ChainHash,
    /// Whether an operator has frozen it: no request of a game changes it.
    pub(super) is_frozen: bool,
}

impl WalletState {
    pub(super) fn wallet_no(&self) -> Option<WalletNo> {
        match self {
            Self::Unknown => None,
            Self::Held(wallet_no) => Some(*wallet_no),
            Self::Open(wallet) => Some(wallet.wallet_no),
        }
    }

    /// Both purses of a wallet that was read.
    pub(super) fn balances(&self) -> Option<Balances> {
        match self {
            Self::Unknown | Self::Held(_) => None,
            Self::Open(wallet) => Some(wallet.balances),
        }
    }
}

/// The rows of the database for a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rows {
    /// In the order of the batch's wallets.
    pub(super) wallets: Vec<WalletState>,
    /// In the order of the batch's numbers.
    pub(super) records: Vec<Option<Record<'static>>>,
    /// For each request. A query of an exchange has one.
    pub(super) details: Vec<Option<ExchangeDetail>>,
    /// True when the wallets are locked.
    pub(super) are_locked: bool,
}

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
    /// The amount that can still be given back after a cancel.
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

impl Batch<'_> {
    /// Decides about each request. `at` is the database's time, as [`LedgerEntry::at`] counts it.
    pub(super) fn decide(&self, rows: &Rows, at: i64) -> Decisions {
        let mut state = BatchState {
            batch: self,
            wallets: rows.wallets.clone(),
            records: rows.records.iter().map(|record| record.as_ref().map(Record::borrowed)).collect(),
            new_rows: vec![None; rows.records.len()],
            read: rows,
            at,
        };
        let verdicts = (0..self.requests.len()).map(|position| state.decide(position)).collect();
        Decisions {
            verdicts,
            wallets: updates(&rows.wallets, &state.wallets),
            rows: state.new_rows.into_iter().flatten().collect(),
        }
    }
}

/// Wallets and records as they are after the requests that are decided already.
pub(super) struct BatchState<'b, 'a> {
    pub(super) batch: &'b Batch<'a>,
    pub(super) wallets: Vec<WalletState>,
    pub(super) records: Vec<Option<Record<'b>>>,
    /// For each number, the row that this batch writes.
    new_rows: Vec<Option<NewRow>>,
    pub(super) read: &'b Rows,
    pub(super) at: i64,
}

impl<'b> BatchState<'b, '_> {
    fn decide(&mut self, position: usize) -> Decision {
        match &self.batch.requests[position].1.action {
            Action::Change(change) => self.change(position, change),
            Action::Order(_) => self.order(position),
            Action::Balance => self.balance(position),
            Action::Query { closes } => self.query(position, *closes),
        }
    }

    /// The wallet of a request. A game finds none under the pseudonym of an erased player (contract 13.7.12).
    pub(super) fn wallet_of(&self, position: usize) -> WalletState {
        let request = self.batch.requests[position].1;
        if request.is_of_game() && request.open_id.is_pseudonym() {
            return WalletState::Unknown;
        }
        self.wallets[self.batch.places[position].wallet]
    }

    /// The wallet of a request that uses its reference up, unless the reference, `ts` or the wallet decide it already.
    fn open_wallet(&self, position: usize) -> ControlFlow<Decision, OpenWallet> {
        let request = self.batch.requests[position].1;
        let place = self.batch.places[position];
        let wallet = self.wallet_of(position);
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
