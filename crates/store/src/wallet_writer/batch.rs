//! The pure decision about a batch of requests. It decides each request in the order of arrival, as
//! if it had come alone.

use std::borrow::Cow;

use domain::ids::{AppNo, ItemId, WalletNo};
use domain::ledger::{ChainHash, LedgerEntry, ReferenceKind, unix_millis};
use domain::wallet::{
    Action, Balances, CancelSummary, Change, GivenBack, NotGivenBack, NumberChange, NumberKind, NumberState,
    Paid, PayPriority, PurseChange, Receipt, Refused, Repeat, WalletOutcome, WalletRequest,
};

use crate::StoreError;

/// The requests of one transaction in the order of arrival, and their distinct keys.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    pub(super) requests: Vec<(AppNo, &'a WalletRequest)>,
    /// Where the keys of each request stand.
    pub(super) places: Vec<Place>,
    /// `(app_no, open_id)`.
    pub(super) wallets: DistinctKeys<'a>,
    /// `(app_no, reference)`: those of the requests, and of the exchanges that cancels name.
    pub(super) numbers: DistinctKeys<'a>,
}

/// Where the keys of a request stand in [`Batch::wallets`] and [`Batch::numbers`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
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

/// A wallet as the transaction reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WalletState {
    /// The app has no such wallet.
    Unknown,
    /// The wallet exists. Another transaction has locked it, or made it after the lock.
    Held(WalletNo),
    /// The wallet may be changed.
    Open(OpenWallet),
}

/// A wallet that may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenWallet {
    pub(super) wallet_no: WalletNo,
    pub(super) balances: Balances,
    pub(super) entry_count: i64,
    /// Hash of its last entry.
    pub(super) chain_hash: ChainHash,
}

/// What a reference was used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) wallet_no: WalletNo,
    pub(super) kind: ReferenceKind,
    pub(super) free_change: i64,
    pub(super) charge_change: i64,
    /// Both purses right after it.
    pub(super) balances: Balances,
    /// What can still be given back: of an exchange now, and of the exchange of a cancel right after it.
    pub(super) remaining: i64,
    /// The exchange of a cancel.
    pub(super) of: Option<Cow<'a, str>>,
    pub(super) pay_priority: Option<PayPriority>,
    pub(super) item_id: Option<ItemId>,
    pub(super) zone_id: Option<Cow<'a, str>>,
    pub(super) extension: Option<Cow<'a, str>>,
    pub(super) remark: Option<Cow<'a, str>>,
    /// As [`LedgerEntry::at`] counts it.
    pub(super) at: i64,
    /// True when it is too old for a replay.
    pub(super) is_expired: bool,
}

/// What a query shows of an exchange besides its record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ExchangeDetail {
    pub(super) product_name: String,
    /// What can still be given back.
    pub(super) remaining: i64,
    pub(super) cancels: Vec<CancelSummary>,
    pub(super) has_more_cancels: bool,
}

/// What the database holds of a batch.
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
pub(super) enum Verdict {
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
    pub(super) verdicts: Vec<Verdict>,
    /// In the order of their references.
    pub(super) rows: Vec<NewRow>,
    /// In the order of their keys.
    pub(super) wallets: Vec<WalletUpdate>,
}

impl Decisions {
    /// The outcomes of changes whose wallets were locked without skipping any.
    pub(super) fn outcomes(self) -> Result<Vec<WalletOutcome>, StoreError> {
        let outcome = |verdict| match verdict {
            Verdict::Answer(outcome) => Ok(outcome),
            Verdict::SetAside | Verdict::NeedsLock => Err(StoreError::Again),
        };
        self.verdicts.into_iter().map(outcome).collect()
    }
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
        let places = places.map(|(((_, asked), wallet), number)| Place {
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

/// Wallets and records as they are after the requests that are decided already.
struct Books<'b, 'a> {
    batch: &'b Batch<'a>,
    wallets: Vec<WalletState>,
    records: Vec<Option<Record<'b>>>,
    /// For each number, the row that this batch writes.
    new_rows: Vec<Option<NewRow>>,
    read: &'b Rows,
    at: i64,
}

impl<'b> Books<'b, '_> {
    /// Decides in the order of contract 3 and 10. For a change: reference, `ts`, wallet. For a read, which uses no
    /// reference: `ts`, wallet, reference.
    fn decide(&mut self, position: usize) -> Verdict {
        let request = self.batch.requests[position].1;
        let Place { wallet, number, .. } = self.batch.places[position];
        let wallet = self.wallets[wallet];
        match &request.action {
            Action::Change(change) => match &self.records[number] {
                Some(record) => Verdict::Answer(record.answer(wallet.wallet_no(), request, change)),
                None if !request.is_fresh => refused(Refused::TsOutsideWindow),
                None => match wallet {
                    WalletState::Unknown => refused(Refused::UnknownWallet),
                    WalletState::Held(_) => Verdict::SetAside,
                    WalletState::Open(wallet) => self.change(position, wallet, change),
                },
            },
            Action::Balance | Action::Query { .. } if !request.is_fresh => refused(Refused::TsOutsideWindow),
            Action::Balance => match wallet {
                WalletState::Unknown => refused(Refused::UnknownWallet),
                WalletState::Held(_) => Verdict::SetAside,
                WalletState::Open(wallet) => Verdict::Answer(WalletOutcome::Balance(wallet.balances)),
            },
            Action::Query { closes } => match (&self.records[number], wallet) {
                (_, WalletState::Unknown) => refused(Refused::UnknownWallet),
                (Some(record), _) => self.show(position, record),
                (None, WalletState::Held(_)) => Verdict::SetAside,
                (None, WalletState::Open(wallet)) if *closes => self.close(position, wallet),
                // A transaction that has not committed may use the number. It holds the wallet.
                (None, WalletState::Open(_)) if !self.read.are_locked => Verdict::NeedsLock,
                (None, WalletState::Open(_)) => refused(Refused::UnknownNumber),
            },
        }
    }

    /// Carries out a change with a new reference.
    fn change(&mut self, position: usize, mut wallet: OpenWallet, asked: &Change) -> Verdict {
        let purses = wallet.balances;
        let mut remaining = None;
        let outcome = match asked {
            Change::Exchange(purchase) => purses
                .deduct(purchase.amount, purchase.pay_priority)
                .map_err(|_| Refused::InsufficientBalance(purses)),
            Change::Present(amount) => purses.credit(amount.get(), 0).map_err(|_| Refused::PurseFull),
            Change::Credit { free, charge } => purses.credit(*free, *charge).map_err(|_| Refused::PurseFull),
            Change::Debit { free, charge } => {
                purses.debit(*free, *charge).map_err(|_| Refused::InsufficientBalance(purses))
            }
            Change::Cancel { amount, .. } => {
                self.exchange_of(position, wallet.wallet_no).and_then(|(paid, exchange)| {
                    let rest = exchange.remaining;
                    let change = purses.give_back(paid, rest, *amount).map_err(|error| match error {
                        NotGivenBack::MoreThanLeft => Refused::MoreThanLeft { remaining: rest },
                        NotGivenBack::PurseFull => Refused::PurseFull,
                    })?;
                    exchange.remaining = rest - amount.get();
                    remaining = Some(exchange.remaining);
                    Ok(change)
                })
            }
        };
        let change = match outcome {
            Ok(change) => change,
            Err(why) => return refused(why),
        };
        wallet.balances = change.after;
        wallet.entry_count += 1;
        let record = self.record(position, wallet.wallet_no, asked.kind(), change, remaining);
        let (app_no, request) = self.batch.requests[position];
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
        Verdict::Answer(WalletOutcome::Done(receipt))
    }

    /// Closes the unused number of a query.
    fn close(&mut self, position: usize, wallet: OpenWallet) -> Verdict {
        let nothing = PurseChange { free_change: 0, charge_change: 0, after: Balances::default() };
        let record = self.record(position, wallet.wallet_no, ReferenceKind::Closed, nothing, None);
        let state = NumberState {
            reference: self.batch.requests[position].1.reference.clone(),
            created_at: unix_millis(self.at),
            change: None,
        };
        self.write(position, record, None, nothing, None);
        Verdict::Answer(WalletOutcome::Number(Box::new(state)))
    }

    /// Shows what a known number was used for.
    fn show(&self, position: usize, record: &Record<'_>) -> Verdict {
        let request = self.batch.requests[position].1;
        let wallet = self.wallets[self.batch.places[position].wallet];
        if wallet.wallet_no() != Some(record.wallet_no) {
            return refused(Refused::UnknownNumber);
        }
        let kind = match (record.kind, &record.of) {
            (ReferenceKind::Closed, _) => None,
            (ReferenceKind::Present, _) => Some(NumberKind::Present),
            (ReferenceKind::Cancel, Some(of)) => Some(NumberKind::Cancel { of: of.to_string() }),
            (ReferenceKind::Exchange, _) => match &self.read.details[position] {
                // This batch writes the exchange.
                None => return Verdict::SetAside,
                Some(detail) => Some(NumberKind::Exchange {
                    product_name: detail.product_name.clone(),
                    remaining: detail.remaining,
                    cancels: detail.cancels.clone(),
                    has_more_cancels: detail.has_more_cancels,
                }),
            },
            (ReferenceKind::Cancel | ReferenceKind::Credit | ReferenceKind::Debit, _) => {
                return refused(Refused::UnknownNumber);
            }
        };
        let change = kind.map(|kind| NumberChange {
            kind,
            free_change: record.free_change,
            charge_change: record.charge_change,
            zone_id: record.zone_id.as_deref().unwrap_or_default().to_owned(),
        });
        let (reference, created_at) = (request.reference.clone(), unix_millis(record.at));
        Verdict::Answer(WalletOutcome::Number(Box::new(NumberState { reference, created_at, change })))
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

    fn record(
        &self,
        position: usize,
        wallet_no: WalletNo,
        kind: ReferenceKind,
        change: PurseChange,
        remaining: Option<i64>,
    ) -> Record<'b> {
        let request = self.batch.requests[position].1;
        let PurseChange { free_change, charge_change, after } = change;
        let purchase = request.purchase();
        let paid = purchase.map_or(0, |purchase| purchase.amount.get());
        let sender = request.sender.as_ref();
        Record {
            wallet_no,
            kind,
            free_change,
            charge_change,
            balances: after,
            remaining: remaining.unwrap_or(paid),
            of: request.target().map(Cow::Borrowed),
            pay_priority: purchase.map(|purchase| purchase.pay_priority),
            item_id: purchase.map(|purchase| purchase.item_id),
            zone_id: sender.map(|sender| Cow::Borrowed(sender.zone_id.as_str())),
            extension: sender.map(|sender| Cow::Borrowed(sender.extension.as_str())),
            remark: request.remark.as_deref().map(Cow::Borrowed),
            at: self.at,
            is_expired: false,
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

impl WalletState {
    fn wallet_no(&self) -> Option<WalletNo> {
        match self {
            Self::Unknown => None,
            Self::Held(wallet_no) => Some(*wallet_no),
            Self::Open(wallet) => Some(wallet.wallet_no),
        }
    }
}

impl Record<'_> {
    fn borrowed(&self) -> Record<'_> {
        Record {
            of: self.of.as_deref().map(Cow::Borrowed),
            zone_id: self.zone_id.as_deref().map(Cow::Borrowed),
            extension: self.extension.as_deref().map(Cow::Borrowed),
            remark: self.remark.as_deref().map(Cow::Borrowed),
            ..*self
        }
    }

    /// The answer to a change whose reference has this record.
    fn answer(&self, wallet_no: Option<WalletNo>, request: &WalletRequest, change: &Change) -> WalletOutcome {
        if self.kind == ReferenceKind::Closed {
            return WalletOutcome::Refused(Refused::Closed);
        }
        // The ref of an operator is replayed for ever (contract 8.3.3).
        let is_expired = self.is_expired && request.sender.is_some();
        match Repeat::answer(is_expired, self.is_same(wallet_no, request, change)) {
            Repeat::Replayed => WalletOutcome::Replayed(self.receipt(request)),
            Repeat::Conflict => WalletOutcome::Refused(Refused::Conflict),
            Repeat::Expired => WalletOutcome::Refused(Refused::Expired),
        }
    }

    /// True when a change has the business content of this record (contract 3 and 10).
    fn is_same(&self, wallet_no: Option<WalletNo>, request: &WalletRequest, change: &Change) -> bool {
        let amount = i128::from(self.free_change) + i128::from(self.charge_change);
        let changes = (self.free_change, self.charge_change);
        let is_same_change = match change {
            Change::Exchange(purchase) => {
                amount == -i128::from(purchase.amount.get())
                    && self.pay_priority == Some(purchase.pay_priority)
                    && self.item_id == Some(purchase.item_id)
            }
            Change::Present(asked) => amount == asked.get().into(),
            Change::Cancel { of, amount: asked } => {
                amount == asked.get().into() && self.of.as_deref() == Some(of.as_str())
            }
            Change::Credit { free, charge } => changes == (*free, *charge),
            Change::Debit { free, charge } => changes == (-*free, -*charge),
        };
        // The note of an operator is for people.
        let is_same_text = request.sender.as_ref().is_none_or(|sender| {
            self.zone_id.as_deref() == Some(sender.zone_id.as_str())
                && self.extension.as_deref() == Some(sender.extension.as_str())
                && self.remark == request.remark.as_deref().map(Cow::Borrowed)
        });
        self.kind == change.kind() && wallet_no == Some(self.wallet_no) && is_same_change && is_same_text
    }

    fn receipt(&self, request: &WalletRequest) -> Receipt {
        let given_back = self.of.as_ref().map(|of| GivenBack {
            of: of.to_string(),
            free: self.free_change,
            charge: self.charge_change,
            remaining: self.remaining,
        });
        Receipt { reference: request.reference.clone(), balances: self.balances, given_back }
    }
}

fn refused(why: Refused) -> Verdict {
    Verdict::Answer(WalletOutcome::Refused(why))
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
