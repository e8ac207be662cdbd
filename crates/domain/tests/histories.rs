//! Random histories of a wallet: purses, shares of refunds, debt and the use of lots beside a model that moves one coin at a time
//! (contract 10.4, 19.5 and 19.6). A million of them:
//!
//! ```sh
//! MINITILL_HISTORIES=1000000 cargo test --release -p domain --test histories
//! ```
//!
//! The API test `topup_histories` plays the same histories through a server and its database.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "histories/coins.rs"]
mod coins;

use std::env;
use std::mem;

use domain::topup::{CoinPair, Lot, LotUse, Refundable, Shortfall};
use domain::wallet::{Amount, Balances, Paid, PayPriority};
use proptest::prelude::*;
use time::OffsetDateTime;

use self::coins::{Coins, PRODUCTS, Step, Told, step};

/// A payment, and what a till keeps of it.
struct KeptPayment {
    money: Refundable,
    /// Its place among the lots, once it was credited.
    lot: Option<usize>,
    refunded: i64,
    waiting: Vec<i64>,
}

/// Charged coins that came, and how many of them refunds and settlements took away.
struct KeptLot {
    brought: i64,
    taken: i64,
}

/// Charged coins that went, less those that were given back.
struct KeptDeduction {
    coins: i64,
    /// The exchange at this place. An operator's debit is none.
    exchange: Option<usize>,
}

struct KeptExchange {
    paid: Paid,
    remaining: i64,
    deduction: usize,
}

/// What a till keeps of a wallet, changed by the functions that the till uses.
#[derive(Default)]
struct Ledger {
    purses: Balances,
    payments: Vec<KeptPayment>,
    lots: Vec<KeptLot>,
    exchanges: Vec<KeptExchange>,
    deductions: Vec<KeptDeduction>,
    /// The payment of each debt, oldest first, and what is owed.
    debts: Vec<(usize, CoinPair)>,
}

impl Ledger {
    fn credit(&mut self, free: i64, charge: i64) {
        self.purses = self.purses.credit(free, charge).unwrap().after;
        self.lots.push(KeptLot { brought: charge, taken: 0 });
    }

    fn debit(&mut self, free: i64, charge: i64) -> bool {
        let Ok(changed) = self.purses.debit(free, charge) else { return false };
        self.purses = changed.after;
        self.deductions.push(KeptDeduction { coins: charge, exchange: None });
        true
    }

    fn exchange(&mut self, amount: i64, pay_priority: PayPriority) -> bool {
        let Ok(changed) = self.purses.deduct(self::amount(amount), pay_priority) else { return false };
        self.purses = changed.after;
        let paid = Paid { free: -changed.free_change, charge: -changed.charge_change, pay_priority };
        let exchange = Some(self.exchanges.len());
        self.exchanges.push(KeptExchange { paid, remaining: amount, deduction: self.deductions.len() });
        self.deductions.push(KeptDeduction { coins: paid.charge, exchange });
        true
    }

    fn cancel(&mut self, of: usize, amount: i64) -> bool {
        let KeptExchange { paid, remaining, deduction } = &mut self.exchanges[of];
        let Ok(changed) = self.purses.give_back(*paid, *remaining, self::amount(amount)) else {
            return false;
        };
        self.purses = changed.after;
        *remaining -= amount;
        self.deductions[*deduction].coins -= changed.charge_change;
        true
    }

    fn order(&mut self, product: usize) {
        let (_, amount, charge, free) = PRODUCTS[product];
        let money = Refundable { amount, coins: CoinPair { free, charge } };
        self.payments.push(KeptPayment { money, lot: None, refunded: 0, waiting: Vec::new() });
    }

    fn pay(&mut self, of: usize) {
        if self.payments[of].lot.is_some() {
            return;
        }
        let CoinPair { free, charge } = self.payments[of].money.coins;
        self.payments[of].lot = Some(self.lots.len());
        self.credit(free, charge);
        self.settle(CoinPair { free, charge });
        for part in mem::take(&mut self.payments[of].waiting) {
            if part <= self.payments[of].money.amount - self.payments[of].refunded {
                assert!(self.take_back(of, part, Shortfall::Record));
            }
        }
    }

    fn settle(&mut self, mut brought: CoinPair) {
        for (of, owed) in &mut self.debts {
            let part =
                CoinPair { free: owed.free.min(brought.free), charge: owed.charge.min(brought.charge) };
            self.purses = self.purses.debit(part.free, part.charge).unwrap().after;
            let lot = self.payments[*of].lot.unwrap();
            self.lots[lot].taken += part.charge;
            *owed = CoinPair { free: owed.free - part.free, charge: owed.charge - part.charge };
            brought = CoinPair { free: brought.free - part.free, charge: brought.charge - part.charge };
        }
    }

    /// Gives whether it was taken, or waits.
    fn refund(&mut self, of: usize, part: i64, shortfall: Shortfall) -> bool {
        let payment = &mut self.payments[of];
        if payment.lot.is_none() {
            payment.waiting.push(part);
            return true;
        }
        part <= payment.money.amount - payment.refunded && self.take_back(of, part, shortfall)
    }

    fn take_back(&mut self, of: usize, part: i64, shortfall: Shortfall) -> bool {
        let KeptPayment { money, lot, refunded, .. } = &mut self.payments[of];
        let owed = money.owed_by(*refunded, part);
        let changed = match shortfall {
            Shortfall::Record => self.purses.take(owed.free, owed.charge),
            Shortfall::Refuse => match self.purses.debit(owed.free, owed.charge) {
                Ok(changed) => changed,
                Err(_) => return false,
            },
        };
        *refunded += part;
        self.purses = changed.after;
        self.lots[lot.unwrap()].taken -= changed.charge_change;
        let debt =
            CoinPair { free: owed.free + changed.free_change, charge: owed.charge + changed.charge_change };
        self.debts.push((of, debt));
        true
    }

    /// What was used of a payment.
    fn use_of(&self, of: usize) -> Option<LotUse> {
        let lot = self.payments[of].lot?;
        let size = |lot: &KeptLot| lot.brought - lot.taken;
        let before = self.lots[..lot].iter().map(|lot| i128::from(size(lot))).sum();
        let mut used = LotUse::new(Lot { before, size: size(&self.lots[lot]) });
        for KeptDeduction { coins, exchange } in &self.deductions {
            let name = exchange.map(|place| place.to_string());
            let named = name.as_deref().map(|name| (name, OffsetDateTime::UNIX_EPOCH));
            if used.add(*coins, named).is_break() {
                break;
            }
        }
        Some(used)
    }
}

fn amount(value: i64) -> Amount {
    Amount::parse(&value.to_string()).unwrap()
}

/// Plays a step in both. They agree whether it is done.
fn play(ledger: &mut Ledger, coins: &mut Coins, step: &Step) {
    match *step {
        Step::Credit(free, charge) => {
            coins.credit(free, charge);
            ledger.credit(free, charge);
        }
        Step::Present(coins_given) => {
            coins.present(coins_given);
            ledger.credit(coins_given, 0);
        }
        Step::Debit(free, charge) => assert_eq!(ledger.debit(free, charge), coins.debit(free, charge)),
        Step::Order(product) | Step::Direct(product) => {
            ledger.order(product);
            coins.told.push(Told::new(PRODUCTS[product]));
            if matches!(step, Step::Direct(_)) {
                play(ledger, coins, &Step::PayOrder(coins.told.len() - 1));
            }
        }
        Step::PayOrder(of) if !coins.told.is_empty() => {
            let of = of % coins.told.len();
            ledger.pay(of);
            coins.pay(of);
        }
        Step::Exchange(seed, gifted_first) => {
            let amount = coins.price_of(seed);
            let priority = if gifted_first { PayPriority::GiftedFirst } else { PayPriority::ChargedFirst };
            let number = coins.bought.len().to_string();
            let is_done = coins.exchange(number, amount, gifted_first) == 1;
            assert_eq!(ledger.exchange(amount, priority), is_done);
        }
        Step::Cancel(of, amount) if !coins.bought.is_empty() => {
            let of = of % coins.bought.len();
            assert_eq!(ledger.cancel(of, amount), coins.cancel(of, amount) == 1);
        }
        Step::Refund(of, seed, record) if !coins.told.is_empty() => {
            let of = of % coins.told.len();
            let part = coins.part_of(of, seed);
            let shortfall = if record { Shortfall::Record } else { Shortfall::Refuse };
            assert_eq!(ledger.refund(of, part, shortfall), coins.refund(of, part, record) < 300);
        }
        // There is nothing yet; and the writers refuse a frozen wallet before they reckon.
        Step::PayOrder(_) | Step::Cancel(..) | Step::Refund(..) | Step::Freeze | Step::Thaw => (),
    }
}

fn histories() -> u32 {
    env::var("MINITILL_HISTORIES").map_or(1_000, |text| text.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(histories()) })]

    #[test]
    fn every_history_agrees_with_its_coins(steps in prop::collection::vec(step(), 20..60)) {
        let (mut ledger, mut coins) = (Ledger::default(), Coins::default());
        for step in &steps {
            play(&mut ledger, &mut coins, step);
            prop_assert_eq!((ledger.purses.free(), ledger.purses.charge()), (coins.gifted, coins.in_purse()));
        }
        let owed = ledger.debts.iter().map(|(_, owed)| *owed);
        let debt = owed.fold((0, 0), |sum, owed| (sum.0 + owed.free, sum.1 + owed.charge));
        prop_assert_eq!(debt, coins.debt());
        let mut left = PRODUCTS.map(|_| 0);
        for of in 0..ledger.payments.len() {
            let Some(found) = ledger.use_of(of) else { continue };
            let (used, unused) = coins.of_payment(of);
            let owed = ledger.debts.iter().filter(|(owing, _)| *owing == of);
            let owed = owed.fold([0, 0], |[free, charge], (_, owed)| [free + owed.free, charge + owed.charge]);
            prop_assert_eq!(owed, coins.owed_of(of).map(|owed| i64::try_from(owed).unwrap()));
            prop_assert_eq!((found.used(), found.unused()), (i64::try_from(used)?, i64::try_from(unused)?));
            let product = PRODUCTS.iter().position(|product| product.0 == coins.told[of].product).unwrap();
            left[product] += found.unused();
            let exchanges = found.exchanges();
            let exchanges: Vec<_> = exchanges.iter().map(|used| (used.biz_no.as_str(), used.coins)).collect();
            prop_assert_eq!(exchanges, coins.exchanges_of(of));
        }
        prop_assert_eq!(left, PRODUCTS.map(|product| coins.unused_of(product.0)));
    }
}
