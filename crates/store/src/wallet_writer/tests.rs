//! Batches of every kind against the rules carried out one request at a time.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use domain::fields::Fields;
use domain::ids::{AppNo, CreditRef, OpenId, WalletNo};
use domain::ledger::{CHAIN_START, ChainHash, LedgerEntry, ReferenceKind, unix_millis};
use domain::topup::{CoinPair, Currency, Offer, Shortfall};
use domain::wallet::{
    Action, Balances, CancelSummary, Change, GivenBack, LedgerEnd, NumberChange, NumberKind, NumberState,
    OrderReceipt, PayPriority, Reading, Receipt, Refused, WalletCall, WalletForm, WalletOutcome,
    WalletRequest,
};
use proptest::prelude::*;

use crate::engine::Engine;

use super::batch::{Batch, Decision, Decisions, NewRow, OpenWallet, Rows, WalletState};
use super::query::ExchangeDetail;
use super::rows::Record;
use super::write::{write_statement, write_statements_apart};

const NOW: i64 = 1_800_000_000_000;
/// Database time of all batches.
const AT: i64 = 852_000_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Exchange,
    Present,
    Cancel,
    Balance,
    Query,
    Close,
    Credit,
    Debit,
    /// A cancel by an operator.
    GiveBack,
    /// An order of a top-up.
    Order,
    /// The payment of one.
    Pay,
    /// A refund that takes what is there, or all that it asks for.
    Refund,
    /// A settlement of debt.
    Settle,
}

/// One request of a test: few apps, players, numbers and contents, so that they often meet.
#[derive(Debug, Clone, Copy)]
struct Asked {
    kind: Kind,
    app: u8,
    player: u8,
    number: u8,
    target: u8,
    amount: i64,
    gifted_first: bool,
    fresh: bool,
}

fn asked() -> impl Strategy<Value = Asked> {
    use Kind::{
        Balance, Cancel, Close, Credit, Debit, Exchange, GiveBack, Order, Pay, Present, Query, Refund, Settle,
    };
    let kinds = [
        Exchange, Exchange, Exchange, Present, Cancel, Cancel, Balance, Query, Query, Close, Credit, Debit,
        GiveBack, Order, Order, Pay, Refund, Refund, Settle,
    ];
    let numbers = (0..12_u8, 0..12_u8, 1..40_i64, any::<bool>(), prop::bool::weighted(0.9));
    (prop::sample::select(kinds.to_vec()), 0..2_u8, 0..4_u8, numbers).prop_map(
        |(kind, app, player, (number, target, amount, gifted_first, fresh))| {
            let asked = Asked { kind, app, player, number, target, amount, gifted_first, fresh };
            // Half the numbers go with a content of their own, so that repeats are common.
            if number % 2 == 0 {
                return Asked {
                    player: number % 3,
                    target: 2 + number % 3,
                    amount: 7,
                    gifted_first: true,
                    ..asked
                };
            }
            asked
        },
    )
}

impl Asked {
    fn app_no(self) -> AppNo {
        AppNo(self.app.into())
    }

    fn request(self) -> WalletRequest {
        let operator = |change| {
            let open_id = OpenId::parse(&format!("o{}", self.player)).unwrap();
            let reference = CreditRef::parse(&format!("b{}", self.number)).unwrap();
            WalletRequest::of_operator(open_id, &reference, change, "note".to_owned())
        };
        let call = match self.kind {
            Kind::Exchange => WalletCall::Exchange,
            Kind::Present => WalletCall::Present,
            Kind::Cancel | Kind::GiveBack => WalletCall::Cancel,
            Kind::Balance => WalletCall::Balance,
            Kind::Query | Kind::Close => WalletCall::Query,
            Kind::Credit => return operator(Change::Credit { free: self.amount, charge: 1 }),
            Kind::Debit => return operator(Change::Debit { free: self.amount, charge: 1 }),
            Kind::Order => WalletCall::Topup,
            Kind::Pay => {
                let open_id = OpenId::parse(&format!("o{}", self.player)).unwrap();
                let change = Change::Topup { bonus: self.amount, charge: 1 };
                return WalletRequest::of_payment(open_id, format!("$p/b{}", self.number), change);
            }
            Kind::Refund | Kind::Settle => {
                let open_id = OpenId::parse(&format!("o{}", self.player)).unwrap();
                let coins = CoinPair { free: self.amount, charge: 2 };
                let shortfall = if self.gifted_first { Shortfall::Record } else { Shortfall::Refuse };
                let (mark, change) = match self.kind {
                    Kind::Settle => ('&', Change::Settlement(coins)),
                    _ => ('%', Change::Refund { owed: coins, shortfall }),
                };
                return WalletRequest::of_payment(open_id, format!("{mark}p/b{}", self.number), change);
            }
        };
        let ts = if self.fresh { NOW } else { NOW - 200_000_000 };
        let (gifted_first, close) = (u8::from(self.gifted_first), u8::from(self.kind == Kind::Close));
        let body = format!(
            "open_id=o{}&zone_id=s1_r1&os=ios&ts={ts}&user_ip=192.0.2.1&amount={}&pay_priority={gifted_first}&biz_no=b{}\
             &pay_biz_no=b{}&close={close}&product_name=n&product_desc=d\
             &product_info=[{{\"product_id\":1,\"product_num\":1,\"product_type\":0}}]&product_id=p{gifted_first}",
            self.player, self.amount, self.number, self.target
        );
        // Some products are not for sale, and the others change their price all the time.
        let currency = Currency::parse("CNY").unwrap();
        let offer = Offer { currency, amount: self.amount, charge: 1, bonus: 0, ttl: 60 };
        let offer = Some(offer).filter(|offer| offer.amount % 5 != 0);
        let reading = Reading { offer, ..Reading::new(PayPriority::ChargedFirst, NOW) };
        let form = WalletForm { call, fields: Fields::from_urlencoded(body.as_bytes()).unwrap() };
        let request = WalletRequest::parse(&form, &reading).unwrap();
        match (self.kind, request.action) {
            (Kind::GiveBack, Action::Change(change)) => operator(change),
            (_, action) => WalletRequest { action, ..request },
        }
    }
}

/// `(app, name)`
type Key = (i32, String);

/// The number of a player's wallet, the same in each app.
fn wallet_no(open_id: &str) -> WalletNo {
    WalletNo(open_id[1..].parse().unwrap())
}

/// A used reference, as the rules know it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Used {
    /// What must be the same in a repeat: everything but time, address and platform.
    content: WalletRequest,
    free_change: i64,
    charge_change: i64,
    free: i64,
    charge: i64,
    /// After a cancel.
    remaining: i64,
    is_closed: bool,
}

/// Wallets, references and ledgers, as a database holds them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model {
    wallets: BTreeMap<Key, (i64, i64, i64, ChainHash)>,
    used: BTreeMap<Key, Used>,
    /// By wallet and place in its ledger: the reference and its hash.
    ledgers: BTreeMap<(Key, i64), (String, ChainHash)>,
    /// The references that were used, in their order.
    order: Vec<Key>,
    /// The wallets that an operator has frozen.
    frozen: BTreeSet<Key>,
}

impl Model {
    /// Three of the four players of each app have a wallet.
    fn new(purses: &[(i64, i64)]) -> Self {
        let mut model = Self::default();
        for (index, (free, charge)) in purses.iter().enumerate() {
            let key = (i32::try_from(index / 3).unwrap(), format!("o{}", index % 3));
            model.wallets.insert(key, (*free, *charge, 1, CHAIN_START));
        }
        model
    }

    /// The cancels of an exchange, oldest first.
    fn cancels_of(&self, exchange: &Key) -> Vec<(&Key, &Used)> {
        let of = |used: &Used| used.content.target() == Some(exchange.1.as_str());
        let same_app = self.order.iter().filter(|key| key.0 == exchange.0);
        same_app.map(|key| (key, &self.used[key])).filter(|(_, used)| of(used) && !used.is_closed).collect()
    }

    fn remaining(&self, exchange: &Key) -> i64 {
        let paid = &self.used[exchange];
        let given: i64 =
            self.cancels_of(exchange).iter().map(|(_, used)| used.free_change + used.charge_change).sum();
        -paid.free_change - paid.charge_change - given
    }

    fn receipt(used: &Used) -> Receipt {
        let given_back = used.content.target().map(|of| GivenBack {
            of: of.to_owned(),
            free: used.free_change,
            charge: used.charge_change,
            remaining: used.remaining,
        });
        let balances = Balances::new(used.free, used.charge).unwrap();
        let ordered = Self::ordered(used);
        Receipt { reference: used.content.reference.clone(), balances, given_back, ordered }
    }

    /// The order of the first request under a number.
    fn ordered(used: &Used) -> Option<OrderReceipt> {
        let Action::Order(order) = &used.content.action else { return None };
        let item_id = order.offered.as_ref()?.item_id;
        Some(OrderReceipt { item_id, created_at: unix_millis(AT) })
    }

    /// Whether a repeat has the same content: everything but time, and the price of an order.
    fn is_same(used: &WalletRequest, request: &WalletRequest) -> bool {
        // Refunds and settlements have rows of their own, which tell a repeat.
        if let Action::Change(Change::Refund { .. } | Change::Settlement(_)) = &used.action {
            return false;
        }
        let (mut used, mut request) = (used.clone(), request.clone());
        for one in [&mut used, &mut request] {
            (one.ts, one.is_fresh) = (None, true);
            if let Action::Order(order) = &mut one.action {
                order.offered = None;
            }
        }
        used == request
    }

    /// The rules of contract 3 and 10 for one request alone, written down a second time.
    fn one_at_a_time(&mut self, app_no: AppNo, request: &WalletRequest) -> WalletOutcome {
        let key = (app_no.0, request.reference.clone());
        let wallet = (app_no.0, request.open_id.to_string());
        let held = self.wallets.get(&wallet).map(|(free, charge, ..)| Balances::new(*free, *charge).unwrap());
        let refused = |why| WalletOutcome::Refused(why, held);
        if matches!(request.action, Action::Balance | Action::Query { .. }) {
            return self.read(app_no, request);
        }
        if let Some(used) = self.used.get(&key) {
            return match used {
                Used { is_closed: true, .. } => refused(Refused::Closed),
                used if Self::is_same(&used.content, request) => WalletOutcome::Replayed(Self::receipt(used)),
                _ => refused(Refused::Conflict),
            };
        }
        if !request.is_fresh {
            return refused(Refused::TsOutsideWindow);
        }
        let Some((free, charge, entries, hash)) = self.wallets.get(&wallet).copied() else {
            return refused(Refused::UnknownWallet);
        };
        let asked = match &request.action {
            Action::Change(asked) => asked,
            Action::Order(order) if order.offered.is_none() => return refused(Refused::NotForSale),
            _ => return self.order_now(key, request),
        };
        if self.frozen.contains(&wallet)
            && !matches!(request.reference.as_bytes(), [b'!' | b'$' | b'%' | b'&', ..])
        {
            return refused(Refused::Frozen(Balances::new(free, charge).unwrap()));
        }
        let (free_change, charge_change, remaining) =
            match self.changes(app_no, &request.open_id, asked, (free, charge)) {
                Ok(changes) => changes,
                Err(why) => return refused(why),
            };
        let (free, charge, seq) = (free + free_change, charge + charge_change, entries + 1);
        let bought = request.purchase();
        let entry = LedgerEntry {
            app_no: app_no.0,
            wallet_no: wallet_no(&wallet.1).0,
            seq,
            kind: asked.kind().as_str(),
            reference: &request.reference,
            of_biz_no: request.target(),
            remaining: request.target().map(|_| remaining),
            item_id: bought.map(|bought| bought.item_id.0),
            pay_priority: bought.map(|bought| bought.pay_priority.code()),
            free_change,
            charge_change,
            free_balance: free,
            charge_balance: charge,
            at: AT,
        };
        let hash = entry.chain_hash(&hash);
        self.wallets.insert(wallet.clone(), (free, charge, seq, hash));
        self.ledgers.insert((wallet, seq), (request.reference.clone(), hash));
        let used = Used {
            content: request.clone(),
            free_change,
            charge_change,
            free,
            charge,
            remaining,
            is_closed: false,
        };
        let receipt = Self::receipt(&used);
        self.used.insert(key.clone(), used);
        self.order.push(key);
        WalletOutcome::Done(receipt)
    }

    /// Uses the number of an order, which moves no coins.
    fn order_now(&mut self, key: Key, request: &WalletRequest) -> WalletOutcome {
        let content = request.clone();
        let [free_change, charge_change, free, charge, remaining] = [0; 5];
        let used = Used { content, free_change, charge_change, free, charge, remaining, is_closed: false };
        let receipt = Self::receipt(&used);
        self.used.insert(key.clone(), used);
        self.order.push(key);
        WalletOutcome::Done(receipt)
    }

    /// The changes of both purses, and what is left to give back after a cancel.
    fn changes(
        &self,
        app_no: AppNo,
        open_id: &OpenId,
        asked: &Change,
        (free, charge): (i64, i64),
    ) -> Result<(i64, i64, i64), Refused> {
        let not_covered = Refused::InsufficientBalance(Balances::new(free, charge).unwrap());
        match asked {
            Change::Exchange(bought) => {
                let amount = bought.amount.get();
                let (from_free, from_charge) = match bought.pay_priority {
                    PayPriority::GiftedFirst => (amount.min(free), amount - amount.min(free)),
                    PayPriority::ChargedFirst => (amount - amount.min(charge), amount.min(charge)),
                };
                if free + charge < amount { Err(not_covered) } else { Ok((-from_free, -from_charge, 0)) }
            }
            Change::Present(amount) => Ok((amount.get(), 0, 0)),
            Change::Credit { free, charge } => Ok((*free, *charge, 0)),
            Change::Debit { free: less, charge: other } if *less > free || *other > charge => {
                Err(not_covered)
            }
            Change::Debit { free, charge } => Ok((-free, -charge, 0)),
            Change::Topup { bonus, charge } => Ok((*bonus, *charge, 0)),
            Change::Refund { owed, shortfall: Shortfall::Record } => {
                Ok((-owed.free.min(free), -owed.charge.min(charge), 0))
            }
            Change::Refund { owed: coins, .. } | Change::Settlement(coins) => {
                let covers = coins.free <= free && coins.charge <= charge;
                if covers { Ok((-coins.free, -coins.charge, 0)) } else { Err(not_covered) }
            }
            Change::Cancel { of, amount } => {
                let exchange = (app_no.0, of.to_string());
                let paid = self.used.get(&exchange).filter(|used| used.content.open_id == *open_id);
                let paid = paid.and_then(|used| Some((used, used.content.purchase()?)));
                let (paid, bought) = paid.ok_or(Refused::UnknownNumber)?;
                let left = self.remaining(&exchange);
                if amount.get() > left {
                    return Err(Refused::MoreThanLeft { remaining: left });
                }
                let remaining = left - amount.get();
                // Coin by coin: the purse that paid last is given back first.
                let (mut to_free, mut to_charge) = (0, 0);
                for coin in remaining..left {
                    let is_gifted = match bought.pay_priority {
                        PayPriority::GiftedFirst => coin < -paid.free_change,
                        PayPriority::ChargedFirst => coin >= -paid.charge_change,
                    };
                    if is_gifted { to_free += 1 } else { to_charge += 1 }
                }
                Ok((to_free, to_charge, remaining))
            }
        }
    }

    fn read(&mut self, app_no: AppNo, request: &WalletRequest) -> WalletOutcome {
        // A read tells no purses.
        let refused = |why| WalletOutcome::Refused(why, None);
        let key = (app_no.0, request.reference.clone());
        let player = (app_no.0, request.open_id.to_string());
        let (wallet, is_frozen) = (self.wallets.get(&player), self.frozen.contains(&player));
        let (balances, closes) = match (&request.action, wallet) {
            _ if !request.is_fresh => return refused(Refused::TsOutsideWindow),
            (_, None) => return refused(Refused::UnknownWallet),
            (Action::Query { closes }, Some(_)) => (Balances::default(), *closes),
            (_, Some((free, charge, seq, _))) => {
                let balances = Balances::new(*free, *charge).unwrap();
                let end = LedgerEnd { wallet_no: wallet_no(&player.1), seq: *seq };
                return WalletOutcome::Balance { balances, is_frozen, end };
            }
        };
        let state = |change| {
            let (reference, created_at) = (request.reference.clone(), unix_millis(AT));
            WalletOutcome::Number(Box::new(NumberState { reference, created_at, change }))
        };
        match self.used.get(&key) {
            Some(used) if used.content.open_id != request.open_id => refused(Refused::UnknownNumber),
            Some(Used { is_closed: true, .. }) => state(None),
            Some(used) => {
                let kind = match &used.content.action {
                    Action::Change(Change::Present(_)) => NumberKind::Present,
                    Action::Change(Change::Cancel { of, .. }) => NumberKind::Cancel { of: of.to_string() },
                    Action::Order(_) => NumberKind::Order(Self::ordered(used).unwrap()),
                    _ => {
                        let detail = self.detail(&key);
                        NumberKind::Exchange {
                            product_name: detail.product_name,
                            remaining: detail.remaining,
                            cancels: detail.cancels,
                            has_more_cancels: false,
                        }
                    }
                };
                let (free_change, charge_change) = (used.free_change, used.charge_change);
                state(Some(NumberChange { kind, free_change, charge_change, zone_id: "s1_r1".to_owned() }))
            }
            None if closes => {
                let (content, is_closed) = (request.clone(), true);
                let [free_change, charge_change, free, charge, remaining] =
                    [0, 0, balances.free(), balances.charge(), 0];
                let used = Used { content, free_change, charge_change, free, charge, remaining, is_closed };
                self.used.insert(key.clone(), used);
                self.order.push(key);
                state(None)
            }
            None => refused(Refused::UnknownNumber),
        }
    }

    fn detail(&self, exchange: &Key) -> ExchangeDetail {
        let cancels = self.cancels_of(exchange);
        let summary = |(key, used): &(&Key, &Used)| CancelSummary {
            reference: key.1.clone(),
            amount: used.free_change + used.charge_change,
            created_at: unix_millis(AT),
        };
        ExchangeDetail {
            product_name: "n".to_owned(),
            remaining: self.remaining(exchange),
            cancels: cancels.iter().map(summary).collect(),
            has_more_cancels: false,
        }
    }

    /// The rows that the statements of a batch read.
    fn rows(&self, batch: &Batch<'_>, are_locked: bool) -> Rows {
        let keys = |app_nos: &[i32], names: &[&str]| -> Vec<Key> {
            app_nos.iter().zip(names).map(|(app_no, name)| (*app_no, name.to_string())).collect()
        };
        let wallet = |key: &Key| match self.wallets.get(key) {
            Some((free, charge, entry_count, chain_hash)) => WalletState::Open(OpenWallet {
                wallet_no: wallet_no(&key.1),
                balances: Balances::new(*free, *charge).unwrap(),
                entry_count: *entry_count,
                chain_hash: *chain_hash,
                is_frozen: self.frozen.contains(key),
            }),
            None => WalletState::Unknown,
        };
        let detail = |(app_no, request): &(AppNo, &WalletRequest)| {
            let key = (app_no.0, request.reference.clone());
            let used = self.used.get(&key)?;
            let is_query = matches!(request.action, Action::Query { .. });
            (is_query && used.content.purchase().is_some()).then(|| self.detail(&key))
        };
        Rows {
            wallets: keys(&batch.wallets.app_nos, &batch.wallets.names).iter().map(wallet).collect(),
            records: keys(&batch.numbers.app_nos, &batch.numbers.names)
                .iter()
                .map(|key| self.record(key))
                .collect(),
            details: batch.requests.iter().map(detail).collect(),
            are_locked,
        }
    }

    fn record(&self, key: &Key) -> Option<Record<'static>> {
        let used = self.used.get(key)?;
        let text = |text: Option<&str>| text.map(|text| Cow::Owned(text.to_owned()));
        let sender = used.content.sender.as_ref();
        let bought = used.content.purchase().filter(|_| !used.is_closed);
        let kind = match &used.content.action {
            Action::Change(change) => change.kind(),
            Action::Order(_) => ReferenceKind::TopupOrder,
            Action::Balance | Action::Query { .. } => ReferenceKind::Closed,
        };
        Some(Record {
            wallet_no: wallet_no(used.content.open_id.as_str()),
            kind,
            free_change: used.free_change,
            charge_change: used.charge_change,
            balances: Balances::new(used.free, used.charge).unwrap(),
            remaining: if bought.is_some() { self.remaining(key) } else { used.remaining },
            of: text(used.content.target()),
            pay_priority: bought.map(|bought| bought.pay_priority),
            item_id: used.content.item().map(|item| *item.id),
            zone_id: text(sender.map(|sender| sender.zone_id.as_str())),
            texts: Record::texts_of(sender).map(|kept| text(kept.as_deref())),
            remark: text(used.content.remark.as_deref()),
            at: AT,
            is_expired: false,
        })
    }

    /// What the statement of a batch writes, with everything its constraints and guards refuse.
    fn apply(&mut self, batch: &Batch<'_>, decisions: &Decisions) {
        let mut rows: Vec<&NewRow> = decisions.rows.iter().collect();
        let references = rows.iter().map(|row| {
            let (app_no, request) = batch.requests[row.request];
            (app_no, request.reference.as_str())
        });
        assert!(references.collect::<Vec<_>>().is_sorted_by(|one, next| one < next), "references ascend");
        // The order in which a wallet's entries were made.
        rows.sort_by_key(|row| row.request);
        for row in rows {
            let (app_no, request) = batch.requests[row.request];
            let key = (app_no.0, request.reference.clone());
            let wallet = (app_no.0, request.open_id.to_string());
            assert_eq!(row.wallet_no, wallet_no(&wallet.1));
            let has_no_entry = matches!(row.kind, ReferenceKind::Closed | ReferenceKind::TopupOrder);
            assert_eq!(row.entry.is_none(), has_no_entry);
            assert_eq!(row.remaining.is_some(), row.kind == ReferenceKind::Cancel);
            if let Some((seq, hash)) = row.entry {
                let entry = self.ledgers.insert((wallet, seq), (key.1.clone(), hash));
                assert!(entry.is_none(), "one entry a place");
            }
            let used = Used {
                content: request.clone(),
                free_change: row.change.free_change,
                charge_change: row.change.charge_change,
                free: row.change.after.free(),
                charge: row.change.after.charge(),
                remaining: row.remaining.unwrap_or_default(),
                is_closed: row.kind == ReferenceKind::Closed,
            };
            assert!(self.used.insert(key.clone(), used).is_none(), "one use of a reference");
            self.order.push(key);
        }
        let keys = decisions.wallets.iter().map(|update| update.wallet);
        assert!(keys.collect::<Vec<_>>().is_sorted_by(|one, next| one < next), "wallets ascend");
        for update in &decisions.wallets {
            let key = (batch.wallets.app_nos[update.wallet], batch.wallets.names[update.wallet].to_owned());
            let wallet = self.wallets.get_mut(&key).unwrap();
            assert_eq!((update.now.wallet_no, wallet.2), (wallet_no(&key.1), update.entry_count_before));
            let balances = update.now.balances;
            *wallet = (balances.free(), balances.charge(), update.now.entry_count, update.now.chain_hash);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn batches_answer_and_write_what_one_at_a_time_would(
        purses in prop::collection::vec((0..60_i64, 0..60_i64), 6),
        batches in prop::collection::vec((prop::collection::vec(asked(), 1..24), 0..2_i32, 0..6_u8), 1..8),
    ) {
        let mut batched = Model::new(&purses);
        let mut single = batched.clone();
        for (asked, app_no, player) in batches {
            // Freezes a player, or thaws them; two of the six do not exist.
            let key = (app_no, format!("o{player}"));
            for model in [&mut batched, &mut single] {
                if !model.frozen.remove(&key) {
                    model.frozen.insert(key.clone());
                }
            }
            let asked: Vec<(AppNo, WalletRequest)> =
                asked.into_iter().map(|asked| (asked.app_no(), asked.request())).collect();
            let batch = Batch::new(asked.iter().map(|(app_no, request)| (*app_no, request)).collect());
            let mut decisions = batch.decide(&batched.rows(&batch, false), AT);
            if decisions.verdicts.contains(&Decision::NeedsLock) {
                decisions = batch.decide(&batched.rows(&batch, true), AT);
            }
            let mut before = batched.clone();
            batched.apply(&batch, &decisions);
            for ((app_no, request), verdict) in asked.iter().zip(decisions.verdicts) {
                let expected = single.one_at_a_time(*app_no, request);
                let mut earlier = || matches!(request.action, Action::Query { .. }).then(|| before.read(*app_no, request));
                match verdict {
                    // The next batch shows what this one writes.
                    Decision::SetAside => {
                        let is_new = !before.used.contains_key(&(app_no.0, request.reference.clone()));
                        prop_assert!(is_new && matches!(expected, WalletOutcome::Number(_)));
                    }
                    // A query may show an exchange as it was before the cancels of its batch.
                    Decision::Answer(outcome) if outcome != expected => prop_assert_eq!(Some(outcome), earlier()),
                    verdict => prop_assert_eq!(verdict, Decision::Answer(expected)),
                }
            }
            prop_assert_eq!(&batched.wallets, &single.wallets);
            prop_assert_eq!(&batched.used, &single.used);
            prop_assert_eq!(&batched.ledgers, &single.ledgers);
        }
    }
}

fn request(kind: Kind, number: u8, player: u8, fresh: bool) -> WalletRequest {
    Asked { kind, app: 0, player, number, target: 1, amount: 5, gifted_first: false, fresh }.request()
}

/// A wallet that somebody else holds puts off only what needs it.
#[test]
fn a_held_wallet_sets_aside_what_needs_it_and_nothing_else() {
    let mut model = Model::new(&[(0, 9), (0, 9), (0, 9), (0, 0), (0, 0), (0, 0)]);
    let app_no = AppNo(0);
    let paid = request(Kind::Exchange, 3, 0, true);
    let receipt = match model.one_at_a_time(app_no, &paid) {
        WalletOutcome::Done(receipt) => receipt,
        other => panic!("{other:?}"),
    };
    let held = [
        request(Kind::Exchange, 1, 0, true),
        request(Kind::Present, 4, 0, true),
        request(Kind::Balance, 0, 0, true),
        request(Kind::Query, 1, 0, true),
        request(Kind::Close, 1, 0, true),
    ];
    let free = [paid, request(Kind::Exchange, 5, 0, false), request(Kind::Balance, 0, 1, true)];
    let batch = Batch::new(held.iter().chain(&free).map(|request| (app_no, request)).collect());
    let mut rows = model.rows(&batch, true);
    rows.wallets[0] = WalletState::Held(WalletNo(0));
    let decisions = batch.decide(&rows, AT);
    assert!(decisions.verdicts[..5].iter().all(|verdict| *verdict == Decision::SetAside), "{decisions:?}");
    assert_eq!(
        decisions.verdicts[5..],
        [
            Decision::Answer(WalletOutcome::Replayed(receipt)),
            Decision::Answer(WalletOutcome::Refused(Refused::TsOutsideWindow, None)),
            Decision::Answer(WalletOutcome::Balance {
                balances: Balances::new(0, 9).unwrap(),
                is_frozen: false,
                end: LedgerEnd { wallet_no: wallet_no("o1"), seq: 1 },
            }),
        ]
    );
    assert_eq!((decisions.rows.len(), decisions.wallets.len()), (0, 0));
}

#[test]
fn an_expired_record_wins_over_other_content_but_a_ref_never_expires() {
    let mut model = Model::new(&[(9, 9), (9, 9), (9, 9), (0, 0), (0, 0), (0, 0)]);
    let app_no = AppNo(0);
    for (kind, expected) in [(Kind::Exchange, Refused::Expired), (Kind::Credit, Refused::Conflict)] {
        let first = request(kind, 1, 0, true);
        model.one_at_a_time(app_no, &first);
        let other = request(kind, 1, 1, true);
        for (request, is_first) in [(&first, true), (&other, false)] {
            let batch = Batch::new(vec![(app_no, request)]);
            let mut rows = model.rows(&batch, false);
            rows.records[0].as_mut().unwrap().is_expired = true;
            let verdict = batch.decide(&rows, AT).verdicts.remove(0);
            let is_replay = matches!(verdict, Decision::Answer(WalletOutcome::Replayed(_)));
            assert_eq!(is_replay, kind == Kind::Credit && is_first, "{verdict:?}");
            assert!(
                is_replay
                    || matches!(verdict, Decision::Answer(WalletOutcome::Refused(why, Some(_))) if why == expected),
                "{verdict:?}"
            );
        }
    }
}

#[test]
fn an_unknown_number_is_told_only_while_the_wallet_is_locked() {
    let model = Model::new(&[(0, 9), (0, 9), (0, 9), (0, 0), (0, 0), (0, 0)]);
    let query = request(Kind::Query, 1, 0, true);
    let batch = Batch::new(vec![(AppNo(0), &query)]);
    let verdict = |are_locked| batch.decide(&model.rows(&batch, are_locked), AT).verdicts.remove(0);
    assert_eq!(verdict(false), Decision::NeedsLock);
    assert_eq!(verdict(true), Decision::Answer(WalletOutcome::Refused(Refused::UnknownNumber, None)));
}

#[test]
fn every_write_of_entries_refuses_a_time_that_is_a_minute_old() {
    // What PostgreSQL makes of it: `tests/api/exchange_assumptions.rs`.
    let guard = "::timestamptz > statement_timestamp() - interval '1 minute')::integer = 1";
    for (engine, with_items) in [(Engine::Postgres, false), (Engine::Postgres, true), (Engine::Citus, false)]
    {
        assert_eq!(write_statement(engine, with_items).matches(guard).count(), 1);
    }
    let [_, entries, ..] = write_statements_apart();
    assert_eq!(entries.matches(guard).count(), 1);
}
