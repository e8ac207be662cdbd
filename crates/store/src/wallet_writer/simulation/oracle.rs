//! The oracle: a second implementation of the rules of contract 3.3 and 10, for one request at a time. It
//! replays commits and judges answers.
//!
//! An answer is right when the rules give it at some moment between request and answer. Moments are
//! counted in commits, and inside a commit in entries of a wallet.

use std::collections::{BTreeMap, BTreeSet};

use domain::wallet::{Balances, NumberKind, NumberState, OrderReceipt, Receipt, Refused, WalletOutcome};

use super::rows::{
    APPS, Cause, NUMBERS, RequestContent, RequestKind, SimulatedEntry, SimulatedEvent, SimulatedWallet,
    UNLUCKY, Writes, number_text, order_coins, order_item,
};
use crate::error::StoreError;

/// The state of a wallet between two of its entries.
#[derive(Debug, Clone, Copy)]
struct Stand {
    commit: u64,
    seq: i64,
    free: i64,
    charge: i64,
    is_frozen: bool,
}

impl Stand {
    fn of(row: SimulatedWallet, commit: u64) -> Self {
        let SimulatedWallet { free, charge, entries: seq, is_frozen, .. } = row;
        Self { commit, seq, free, charge, is_frozen }
    }
}

/// The one use of a number.
#[derive(Debug, Clone)]
struct Original {
    content: RequestContent,
    /// 0 for a closed number.
    seq: i64,
    free: i64,
    charge: i64,
    free_change: i64,
    charge_change: i64,
    /// Both purses before it.
    before: (i64, i64),
    /// The rest of an exchange, from each commit on. What was left right after a cancel.
    left: Vec<(u64, i64)>,
    commit: u64,
    created_at: u64,
    /// True when a client got "done" for it.
    is_answered: bool,
}

/// A request and its arrival.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) number: usize,
    pub(super) content: RequestContent,
    pub(super) is_fresh: bool,
    pub(super) commit: u64,
    pub(super) at: u64,
}

#[derive(Debug)]
pub(super) struct Oracle {
    wallets: Vec<Option<SimulatedWallet>>,
    stands: Vec<Vec<Stand>>,
    records: Vec<Option<Original>>,
    /// Contents that were sent with a fresh `ts`, by number.
    sent: Vec<Vec<RequestContent>>,
    replayed_for: u64,
    /// The order that each payment has paid.
    paid: BTreeMap<usize, usize>,
    refunded: BTreeSet<usize>,
    /// Gifted and charged coins that each wallet owes.
    debts: Vec<(i64, i64)>,
    /// What the payment before must settle now.
    due: (i64, i64),
}

impl Oracle {
    pub(super) fn new(wallets: &[Option<SimulatedWallet>], replayed_for: u64) -> Self {
        let first =
            |wallet: &Option<SimulatedWallet>| wallet.map(|row| Stand::of(row, 0)).into_iter().collect();
        Self {
            wallets: wallets.to_vec(),
            stands: wallets.iter().map(first).collect(),
            records: vec![None; APPS * NUMBERS],
            sent: vec![Vec::new(); APPS * NUMBERS],
            replayed_for,
            paid: BTreeMap::new(),
            refunded: BTreeSet::new(),
            debts: vec![(0, 0); wallets.len()],
            due: (0, 0),
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
                self.stand(*wallet, SimulatedWallet::new(0, 0), commit);
            }
        }
        let changes = writes.entries.iter().filter(|entry| entry.request.is_some()).count();
        let closed = writes.records.iter().filter(|record| has_no_entry(record.content.kind));
        if changes + closed.clone().count() != writes.records.len() {
            return Err(format!("{} records with {changes} entries", writes.records.len()));
        }
        for record in closed {
            self.use_number(record.number, record.content)?;
            let (content, created_at) = (record.content, record.created_at);
            if (record.seq, record.free_change, record.charge_change) != (None, 0, 0) {
                return Err(format!("a closed number or an order with an entry: {record:?}"));
            }
            self.records[record.number] = Some(Original {
                content,
                seq: 0,
                free: 0,
                charge: 0,
                free_change: 0,
                charge_change: 0,
                before: (0, 0),
                left: Vec::new(),
                commit,
                created_at,
                is_answered: false,
            });
        }
        let mut entries = writes.entries.clone();
        entries.sort_unstable_by_key(|entry| (entry.wallet, entry.seq));
        for entry in &entries {
            self.replay(entry, writes, commit).map_err(|text| format!("{text}: {entry:?}"))?;
        }
        if self.due != (0, 0) {
            return Err("debt that is left after a payment".to_owned());
        }
        self.pay(&entries, &writes.payments)?;
        self.owe(&entries, writes)?;
        for (wallet, row) in &writes.wallets {
            let is_changed = entries.iter().any(|entry| entry.wallet == *wallet);
            if let (false, Some(before)) = (is_changed, self.wallets[*wallet]) {
                // It was frozen, or thawed.
                self.stand(*wallet, SimulatedWallet { is_frozen: row.is_frozen, ..before }, commit);
            }
            let before = self.wallets[*wallet].ok_or("a wallet of nobody's")?;
            if *row != before {
                return Err(format!("wallet {wallet} holds {row:?}, expected {before:?}"));
            }
        }
        let mut events = writes.events.clone();
        events.sort_unstable();
        for entry in &entries {
            let Some(event) = SimulatedEvent::of(entry) else { continue };
            let place = events.binary_search(&event);
            events.remove(place.map_err(|_| format!("no event for {entry:?}"))?);
        }
        if let Some(event) = events.first() {
            return Err(format!("an event without its entry: {event:?}"));
        }
        let has_row =
            |entry: &SimulatedEntry| writes.wallets.iter().any(|(wallet, _)| *wallet == entry.wallet);
        if entries.iter().all(has_row) { Ok(()) } else { Err("an entry without its wallet".to_owned()) }
    }

    /// Each payment is credited once, with the coins of its order, to whoever ordered; and each order is paid once.
    fn pay(&mut self, entries: &[SimulatedEntry], payments: &[(usize, usize)]) -> Result<(), String> {
        let credited = entries.iter().filter_map(|entry| match entry.cause {
            Some(Cause::Payment(payment, number)) => Some((entry, (payment, number))),
            _ => None,
        });
        if credited.clone().count() != payments.len() {
            return Err("a payment without its entry, or an entry without its payment".to_owned());
        }
        for (entry, (payment, number)) in credited {
            let order = self.records[number].as_ref().map(|record| record.content);
            let order = order.filter(|content| content.kind == RequestKind::Order);
            let order = order.ok_or_else(|| format!("a payment of no order: {entry:?}"))?;
            let changes = (entry.free_change, entry.charge_change);
            if (order.wallet, order_coins(order.variant)) != (entry.wallet, changes) {
                return Err(format!("a payment of other coins or another player: {entry:?}"));
            }
            if self.paid.values().any(|paid| *paid == number) {
                return Err(format!("an order paid twice: {entry:?}"));
            }
            if self.paid.insert(payment, number).is_some() {
                return Err(format!("a payment credited twice: {entry:?}"));
            }
        }
        Ok(())
    }

    /// The rows of refunds are those of the entries, and the debts are what refunds left and payments settled.
    fn owe(&self, entries: &[SimulatedEntry], writes: &Writes) -> Result<(), String> {
        let refunds = entries.iter().filter_map(|entry| match entry.cause {
            Some(Cause::Refund(payment)) => Some(payment),
            _ => None,
        });
        if refunds.collect::<Vec<_>>() != writes.refunds {
            return Err("a refund without its entry, or an entry without its refund".to_owned());
        }
        let wrong = writes.debts.iter().find(|(wallet, debt)| self.debts[*wallet] != *debt);
        wrong.map_or(Ok(()), |wrong| Err(format!("wrong debt {wrong:?}, expected {:?}", self.debts[wrong.0])))
    }

    /// Both purses after a change that no game has asked for.
    fn moved(&mut self, before: SimulatedWallet, entry: &SimulatedEntry) -> Result<(i64, i64), String> {
        let coins = (entry.free_change, entry.charge_change);
        let debt = &mut self.debts[entry.wallet];
        let expected = match entry.cause {
            None => coins,
            Some(Cause::Payment(..)) => {
                self.due = (debt.0.min(coins.0), debt.1.min(coins.1));
                coins
            }
            Some(Cause::Settlement(_)) => {
                let due = std::mem::take(&mut self.due);
                *debt = (debt.0 - due.0, debt.1 - due.1);
                (-due.0, -due.1)
            }
            Some(Cause::Refund(payment)) => {
                let order = self.paid.get(&payment).and_then(|number| self.records[*number].as_ref());
                let owed = order_coins(order.ok_or("a refund of no payment")?.content.variant);
                if !self.refunded.insert(payment) {
                    return Err("a payment refunded twice".to_owned());
                }
                // What is not there any more becomes debt, coin by coin.
                let (mut free, mut charge) = (0, 0);
                for _ in 0..owed.0 {
                    if before.free > free { free += 1 } else { debt.0 += 1 }
                }
                for _ in 0..owed.1 {
                    if before.charge > charge { charge += 1 } else { debt.1 += 1 }
                }
                (-free, -charge)
            }
        };
        let after = (before.free + expected.0, before.charge + expected.1);
        if after.0 < 0 || after.1 < 0 { Err("a purse below zero".to_owned()) } else { Ok(after) }
    }

    /// A wallet stands like this from a commit on.
    fn stand(&mut self, wallet: usize, row: SimulatedWallet, commit: u64) {
        self.wallets[wallet] = Some(row);
        self.stands[wallet].push(Stand::of(row, commit));
    }

    /// Checks that a number may be used for this.
    fn use_number(&self, number: usize, content: RequestContent) -> Result<(), String> {
        if self.records[number].is_some() {
            return Err("a number used twice".to_owned());
        }
        if content.amount == UNLUCKY || !self.sent[number].contains(&content) {
            return Err("nobody asked for this".to_owned());
        }
        Ok(())
    }

    fn replay(&mut self, entry: &SimulatedEntry, writes: &Writes, commit: u64) -> Result<(), String> {
        let before = self.wallets[entry.wallet].ok_or("an entry of no wallet")?;
        if entry.seq != before.entries + 1 {
            return Err(format!("the ledger has {} entries", before.entries));
        }
        let (free, charge) = match entry.request {
            None => self.moved(before, entry)?,
            Some((number, content)) => {
                let record = writes.records.iter().find(|record| record.number == number);
                let record = record.ok_or("an entry without its record")?;
                if (record.content, record.seq, content.wallet) != (content, Some(entry.seq), entry.wallet) {
                    return Err("a record of another entry".to_owned());
                }
                self.use_number(number, content)?;
                if before.is_frozen {
                    return Err("a game's change of a frozen wallet".to_owned());
                }
                let (free, charge, left) = self.carried_out(before, content)?;
                let is_cancel = content.kind == RequestKind::Cancel;
                if record.remaining != entry.remaining || entry.remaining != Some(left).filter(|_| is_cancel)
                {
                    return Err(format!("expected {left} to be left"));
                }
                if let (true, Some(exchange)) =
                    (is_cancel, content.of.and_then(|of| self.records[of].as_mut()))
                {
                    exchange.left.push((commit, left));
                }
                self.records[number] = Some(Original {
                    content,
                    seq: entry.seq,
                    free,
                    charge,
                    free_change: free - before.free,
                    charge_change: charge - before.charge,
                    before: (before.free, before.charge),
                    left: vec![(commit, left)],
                    commit,
                    created_at: record.created_at,
                    is_answered: false,
                });
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
        let after = SimulatedWallet { free, charge, entries: entry.seq, chain_hash, ..before };
        self.stand(entry.wallet, after, commit);
        Ok(())
    }

    /// Both purses after a change, and what is left to give back.
    fn carried_out(
        &self,
        before: SimulatedWallet,
        content: RequestContent,
    ) -> Result<(i64, i64, i64), String> {
        match (content.kind, content.of) {
            (RequestKind::Exchange, _) => {
                let (free, charge) =
                    pay((before.free, before.charge), content).ok_or("a purse below zero")?;
                Ok((free, charge, content.amount))
            }
            (RequestKind::Present, _) => Ok((before.free + content.amount, before.charge, 0)),
            (RequestKind::Cancel, Some(of)) => {
                let exchange = self.exchange_of(content, of).ok_or("a cancel of no exchange")?;
                let left = exchange.left.last().map_or(0, |(_, left)| *left);
                let rest = left - content.amount;
                if rest < 0 {
                    return Err(format!("a cancel of more than the {left} that are left"));
                }
                // Where the purses would stand if the exchange had been for what is left, before and after.
                let as_if = |amount| {
                    pay(exchange.before, RequestContent { amount, ..exchange.content }).unwrap_or_default()
                };
                let (less, more) = (as_if(left), as_if(rest));
                Ok((before.free + more.0 - less.0, before.charge + more.1 - less.1, rest))
            }
            (
                RequestKind::Cancel
                | RequestKind::Close
                | RequestKind::Query
                | RequestKind::Balance
                | RequestKind::Order,
                _,
            ) => Err("no change has this kind".to_owned()),
        }
    }

    /// The exchange that a cancel names, if it is one of the same wallet.
    fn exchange_of(&self, content: RequestContent, of: usize) -> Option<&Original> {
        let exchange = self.records[of].as_ref()?;
        let fits =
            exchange.content.kind == RequestKind::Exchange && exchange.content.wallet == content.wallet;
        fits.then_some(exchange)
    }

    /// Judges an answer after this commit, at this time.
    pub(super) fn answered(
        &mut self,
        request: &Request,
        outcome: &Result<WalletOutcome, StoreError>,
        commit: u64,
        now: u64,
    ) -> Result<(), String> {
        let is_right = match outcome {
            Ok(WalletOutcome::Done(receipt)) => {
                let record = self.records[request.number].as_mut();
                record.is_some_and(|record| {
                    let is_first = !std::mem::replace(&mut record.is_answered, true);
                    let is_own = record.content == request.content && record.commit > request.commit;
                    is_first
                        && is_own
                        && request.is_fresh
                        && record.commit <= commit
                        && tells(receipt, record)
                })
            }
            Ok(WalletOutcome::Replayed(receipt)) => self
                .live_record(request)
                .is_some_and(|record| record.content == request.content && tells(receipt, record)),
            Ok(WalletOutcome::Balance { balances, is_frozen, .. }) => {
                let expected = (balances.free(), balances.charge(), *is_frozen);
                let is_balance = request.content.kind == RequestKind::Balance && request.is_fresh;
                let is_shown = |stand: Stand| (stand.free, stand.charge, stand.is_frozen) == expected;
                is_balance && self.stands_during(request).any(|(stand, _)| is_shown(stand))
            }
            Ok(WalletOutcome::Number(number)) => request.is_fresh && self.is_right_number(request, number),
            Ok(WalletOutcome::Refused(why, told)) => {
                let held = |balances: &Balances| {
                    let balances = (balances.free(), balances.charge());
                    self.stands_during(request).any(|(stand, _)| (stand.free, stand.charge) == balances)
                };
                let is_told = match why {
                    // Their own check compares them.
                    Refused::InsufficientBalance(balances) | Refused::Frozen(balances) => {
                        *told == Some(*balances)
                    }
                    _ => told.as_ref().is_none_or(held),
                };
                is_told && self.is_right_refusal(request, *why, now)
            }
            Err(StoreError::Internal(_)) => request.content.amount == UNLUCKY,
            Err(StoreError::Unavailable(..) | StoreError::Again) => true,
            Err(StoreError::Overloaded | StoreError::PicturesUnavailable(_) | StoreError::Repeated) => false,
        };
        let record = &self.records[request.number];
        let wrong = || format!("{outcome:?} to {request:?} after commit {commit}, recorded {record:?}");
        if is_right { Ok(()) } else { Err(wrong()) }
    }

    fn is_right_refusal(&self, request: &Request, why: Refused, now: u64) -> bool {
        let content = request.content;
        let is_read = matches!(content.kind, RequestKind::Balance | RequestKind::Query | RequestKind::Close);
        let record = self.records[request.number].as_ref();
        // A read does not ask whether its number is used.
        let is_free = is_read || self.is_unused_on_arrival(request.number, request);
        match why {
            Refused::Conflict => self.live_record(request).is_some_and(|record| {
                !is_read && record.content != content && record.content.kind != RequestKind::Close
            }),
            Refused::Expired => record.is_some_and(|record| {
                !is_read
                    && now >= record.created_at + self.replayed_for
                    && record.content.kind != RequestKind::Close
            }),
            Refused::Closed => {
                !is_read && record.is_some_and(|record| record.content.kind == RequestKind::Close)
            }
            Refused::TsOutsideWindow => !request.is_fresh && is_free,
            Refused::UnknownWallet => {
                let made = self.stands[content.wallet].first();
                request.is_fresh && is_free && made.is_none_or(|made| made.commit > request.commit)
            }
            Refused::InsufficientBalance(balances) => {
                let told = (balances.free(), balances.charge());
                let is_short = |stand: Stand| stand.free + stand.charge < content.amount && !stand.is_frozen;
                content.kind == RequestKind::Exchange
                    && request.is_fresh
                    && self.stood(request, told, is_short)
            }
            Refused::Frozen(balances) => {
                let told = (balances.free(), balances.charge());
                // A frozen wallet takes orders.
                let is_change = !is_read && content.kind != RequestKind::Order;
                is_change && request.is_fresh && self.stood(request, told, |stand| stand.is_frozen)
            }
            Refused::MoreThanLeft { remaining } => {
                let exchange = content.of.and_then(|of| self.exchange_of(content, of));
                let was_left = exchange
                    .is_some_and(|exchange| left_during(exchange, request).any(|left| left == remaining));
                request.is_fresh && is_free && content.amount > remaining && was_left
            }
            Refused::UnknownNumber => {
                let (sought, is_exchange) = match content.of {
                    Some(of) => (of, self.exchange_of(content, of).is_some()),
                    None => {
                        (request.number, record.is_some_and(|record| record.content.wallet == content.wallet))
                    }
                };
                // A query that closes always finds a number.
                let may_miss = content.kind != RequestKind::Close
                    || record.is_some_and(|record| record.content.wallet != content.wallet);
                let was_missing = !is_exchange || self.is_unused_on_arrival(sought, request);
                request.is_fresh && is_free && may_miss && was_missing
            }
            Refused::PurseFull | Refused::NotForSale => false,
        }
    }

    fn is_right_number(&self, request: &Request, told: &NumberState) -> bool {
        let Some(record) = &self.records[request.number] else { return false };
        let is_own = record.content.wallet == request.content.wallet;
        let is_told = told.reference == number_text(request.number)
            && told.created_at == i64::try_from(record.created_at).unwrap_or_default();
        let Some(change) = &told.change else {
            return is_own && is_told && record.content.kind == RequestKind::Close;
        };
        let is_kind = match (&change.kind, record.content.kind) {
            (
                NumberKind::Exchange { product_name, remaining, cancels, has_more_cancels },
                RequestKind::Exchange,
            ) => {
                let given: i64 = cancels.iter().map(|cancel| cancel.amount).sum();
                *product_name == format!("v{}", record.content.variant)
                    && !has_more_cancels
                    && given + remaining == record.content.amount
                    && left_during(record, request).any(|left| left == *remaining)
            }
            (NumberKind::Present, RequestKind::Present) => true,
            (NumberKind::Order(told), RequestKind::Order) => Some(*told) == ordered(record),
            (NumberKind::Cancel { of }, RequestKind::Cancel) => {
                record.content.of.map(number_text).as_ref() == Some(of)
            }
            _ => false,
        };
        let changes = (change.free_change, change.charge_change);
        is_own && is_told && is_kind && changes == (record.free_change, record.charge_change)
    }

    /// The record, unless it was expired when both it and the request existed.
    fn live_record(&self, request: &Request) -> Option<&Original> {
        let replayed_for = self.replayed_for;
        self.records[request.number].as_ref().filter(|record| request.at < record.created_at + replayed_for)
    }

    fn is_unused_on_arrival(&self, number: usize, request: &Request) -> bool {
        self.records[number].as_ref().is_none_or(|record| record.commit > request.commit)
    }

    /// The states of the wallet since the request came, each with its place.
    fn stands_during(&self, request: &Request) -> impl Iterator<Item = (Stand, usize)> {
        let (stands, commit) = (&self.stands[request.content.wallet], request.commit);
        let is_over = move |place: usize| stands.get(place + 1).is_some_and(|next| next.commit <= commit);
        stands
            .iter()
            .copied()
            .enumerate()
            .map(|(place, stand)| (stand, place))
            .filter(move |(_, place)| !is_over(*place))
    }

    /// True when the wallet held this and was in such a state at a moment when the number was unused.
    ///
    /// It accepts one answer that no moment explains. A batch deducts from a wallet and refuses the
    /// next exchange, because the rest does not cover it. Meanwhile another transaction closes the
    /// number of that exchange, or uses it for another wallet. The batch has read the number as free,
    /// and commits later. Nothing is deducted, and the next attempt learns how the number was used.
    ///
    /// A closed number has no place in the order of its batch, so the refusal may have come before it.
    fn stood(&self, request: &Request, told: (i64, i64), is_so: impl Fn(Stand) -> bool) -> bool {
        let wallet = request.content.wallet;
        self.stands_during(request).any(|(stand, _)| {
            let is_unused = match &self.records[request.number] {
                None => true,
                Some(record) if stand.commit <= request.commit => record.commit > request.commit,
                Some(record) => {
                    let is_beside = record.content.wallet != wallet || has_no_entry(record.content.kind);
                    let is_later = (record.commit, record.seq) > (stand.commit, stand.seq);
                    is_later || (is_beside && record.commit > request.commit)
                }
            };
            (stand.free, stand.charge) == told && is_so(stand) && is_unused
        })
    }

    /// The content of the success that a request with this number must get for ever.
    pub(super) fn success(&self, number: usize) -> Option<RequestContent> {
        self.records[number].as_ref().map(|record| record.content)
    }

    /// Compares the tables with the replayed state.
    pub(super) fn close(&self, wallets: &[Option<SimulatedWallet>], recorded: &[bool]) -> Result<(), String> {
        if self.wallets != wallets {
            return Err(format!("wallets {wallets:?}, expected {:?}", self.wallets));
        }
        let expected = self.records.iter().map(Option::is_some);
        if expected.eq(recorded.iter().copied()) { Ok(()) } else { Err("records differ".to_owned()) }
    }
}

/// True when a receipt tells what was recorded.
fn tells(receipt: &Receipt, record: &Original) -> bool {
    let given_back =
        receipt.given_back.as_ref().map(|given| (given.free, given.charge, Some(given.remaining)));
    let left = record.left.last().map(|(_, left)| *left);
    let expected = (record.content.kind == RequestKind::Cancel).then_some((
        record.free_change,
        record.charge_change,
        left,
    ));
    (receipt.balances.free(), receipt.balances.charge()) == (record.free, record.charge)
        && given_back == expected
        && receipt.ordered == ordered(record)
}

/// What an order must be answered for ever.
fn ordered(record: &Original) -> Option<OrderReceipt> {
    (record.content.kind == RequestKind::Order).then(|| OrderReceipt {
        item_id: order_item(record.content.variant),
        created_at: i64::try_from(record.created_at).unwrap_or_default(),
    })
}

/// Whether a number of this kind changes no purse.
fn has_no_entry(kind: RequestKind) -> bool {
    matches!(kind, RequestKind::Close | RequestKind::Order)
}

/// The rests of an exchange since the request came.
fn left_during(exchange: &Original, request: &Request) -> impl Iterator<Item = i64> {
    let over = exchange.left.iter().skip(1).take_while(|(commit, _)| *commit <= request.commit).count();
    exchange.left.iter().skip(over).map(|(_, left)| *left)
}

/// Both purses after a deduction. `None` when they do not cover it.
fn pay((free, charge): (i64, i64), content: RequestContent) -> Option<(i64, i64)> {
    if free + charge < content.amount {
        return None;
    }
    let first = if content.gifted_first { free } else { charge };
    let rest = 0.max(content.amount - first);
    let left = 0.max(first - content.amount);
    Some(if content.gifted_first { (left, charge - rest) } else { (free - rest, left) })
}
