//! A wallet in which each charged coin knows the lot that it came with (contract 19.6), and random histories of it. It is
//! written without the code that it judges: it moves coins one at a time.

use std::collections::VecDeque;

use proptest::prelude::*;

/// Products by name: money, charged and gifted coins. Their shares are no whole numbers.
pub(super) const PRODUCTS: [(&str, i64, i64, i64); 4] =
    [("a", 600, 60, 6), ("b", 7, 11, 0), ("c", 50, 0, 5), ("d", 333, 13, 2)];

/// What happens to a player. Places and seeds are taken modulo what there is.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Credit(i64, i64),
    Order(usize),
    Direct(usize),
    PayOrder(usize),
    Exchange(i64, bool),
    Cancel(usize, i64),
    Debit(i64, i64),
    Present(i64),
    Refund(usize, i64, bool),
    Freeze,
    Thaw,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0_i64..5, 0_i64..9).prop_map(|(free, charge)| Step::Credit(free, charge)),
        4 => (0..PRODUCTS.len()).prop_map(Step::Order),
        8 => (0..PRODUCTS.len()).prop_map(Step::Direct),
        6 => any::<usize>().prop_map(Step::PayOrder),
        12 => (0_i64..10_000, any::<bool>()).prop_map(|(seed, gifted)| Step::Exchange(seed, gifted)),
        4 => (any::<usize>(), 1_i64..40).prop_map(|(of, amount)| Step::Cancel(of, amount)),
        2 => (0_i64..3, 0_i64..8).prop_map(|(free, charge)| Step::Debit(free, charge)),
        2 => (1_i64..5).prop_map(Step::Present),
        16 => (any::<usize>(), 0_i64..10_000, prop::bool::weighted(0.8))
            .prop_map(|(of, seed, record)| Step::Refund(of, seed, record)),
        1 => Just(Step::Freeze),
        4 => Just(Step::Thaw),
    ]
}

/// A payment that somebody may tell of.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) product: &'static str,
    pub(super) amount: i64,
    charge: i64,
    bonus: i64,
    pub(super) is_paid: bool,
    /// Money that went back.
    refunded: i64,
    /// Refunds that came before it.
    waiting: Vec<i64>,
}

impl Told {
    pub(super) fn new((product, amount, charge, bonus): (&'static str, i64, i64, i64)) -> Self {
        Self { product, amount, charge, bonus, is_paid: false, refunded: 0, waiting: Vec::new() }
    }
}

/// An exchange, and what was given back of it.
#[derive(Debug, Clone)]
pub(super) struct Bought {
    pub(super) number: String,
    /// Its coins in the order in which they were taken: whether each is charged.
    kept: Vec<bool>,
}

/// What took charged coins.
#[derive(Debug, Clone)]
enum Deduction {
    /// The exchange at this place.
    Bought(usize),
    /// An operator's debit of so many.
    Debit(i64),
}

/// A wallet.
#[derive(Debug, Clone, Default)]
pub(super) struct Coins {
    pub(super) gifted: i64,
    /// Charged coins that are there or were used, in the order in which they came: each with the place of its payment, or
    /// `None` for a credit's.
    charged: Vec<Option<usize>>,
    /// So many of them, from the first on, were used.
    used: usize,
    /// The payment of each gifted coin that is owed, oldest first.
    gifted_debt: VecDeque<usize>,
    /// The same of charged ones.
    charged_debt: VecDeque<usize>,
    pub(super) told: Vec<Told>,
    pub(super) bought: Vec<Bought>,
    deductions: Vec<Deduction>,
    pub(super) is_frozen: bool,
}

const SUCCESS: u64 = 1;
const INSUFFICIENT: u64 = 10_000_601;
const NOTHING_LEFT: u64 = 10_000_605;
const FROZEN: u64 = 10_000_609;

impl Coins {
    pub(super) fn in_purse(&self) -> i64 {
        i64::try_from(self.charged.len() - self.used).unwrap()
    }

    pub(super) fn debt(&self) -> (i64, i64) {
        [&self.gifted_debt, &self.charged_debt].map(|debt| i64::try_from(debt.len()).unwrap()).into()
    }

    /// What refunds of a payment still owe.
    pub(super) fn owed_of(&self, of: usize) -> [usize; 2] {
        let count = |debt: &VecDeque<usize>| debt.iter().filter(|owing| **owing == of).count();
        [count(&self.gifted_debt), count(&self.charged_debt)]
    }

    fn remove(&mut self, of: usize) {
        let place = self.charged.iter().rposition(|lot| *lot == Some(of)).unwrap();
        self.charged.remove(place);
    }

    pub(super) fn credit(&mut self, free: i64, charge: i64) -> bool {
        self.gifted += free;
        for _ in 0..charge {
            self.charged.push(None);
        }
        true
    }

    pub(super) fn debit(&mut self, free: i64, charge: i64) -> bool {
        let is_there = free <= self.gifted && charge <= self.in_purse();
        if is_there {
            self.gifted -= free;
            self.used += usize::try_from(charge).unwrap();
            self.deductions.push(Deduction::Debit(charge));
        }
        is_there
    }

    pub(super) fn present(&mut self, amount: i64) -> u64 {
        if self.is_frozen {
            return FROZEN;
        }
        self.gifted += amount;
        SUCCESS
    }

    pub(super) fn exchange(&mut self, number: String, amount: i64, gifted_first: bool) -> u64 {
        if self.is_frozen {
            return FROZEN;
        }
        if self.gifted + self.in_purse() < amount {
            return INSUFFICIENT;
        }
        let mut kept = Vec::new();
        for _ in 0..amount {
            let is_charged = if gifted_first { self.gifted == 0 } else { self.in_purse() > 0 };
            if is_charged {
                self.used += 1;
            } else {
                self.gifted -= 1;
            }
            kept.push(is_charged);
        }
        self.deductions.push(Deduction::Bought(self.bought.len()));
        self.bought.push(Bought { number, kept });
        SUCCESS
    }

    pub(super) fn cancel(&mut self, of: usize, amount: i64) -> u64 {
        if self.is_frozen {
            return FROZEN;
        }
        let amount = usize::try_from(amount).unwrap();
        if amount > self.bought[of].kept.len() {
            return NOTHING_LEFT;
        }
        for _ in 0..amount {
            match self.bought[of].kept.pop() {
                Some(true) => self.used -= 1,
                _ => self.gifted += 1,
            }
        }
        SUCCESS
    }

    /// Gives whether nobody told of it before.
    pub(super) fn pay(&mut self, of: usize) -> bool {
        if self.told[of].is_paid {
            return false;
        }
        self.told[of].is_paid = true;
        let Told { charge, bonus, amount, .. } = self.told[of];
        self.gifted += bonus;
        for _ in 0..charge {
            self.charged.push(Some(of));
        }
        for _ in 0..bonus {
            if self.gifted_debt.pop_front().is_some() {
                self.gifted -= 1;
            }
        }
        for _ in 0..charge {
            if let Some(owing) = self.charged_debt.pop_front() {
                self.remove(owing);
            }
        }
        for part in std::mem::take(&mut self.told[of].waiting) {
            if self.told[of].refunded + part <= amount {
                self.take_back(of, part);
            }
        }
        true
    }

    /// The money of a part: seldom more than was paid.
    pub(super) fn part_of(&self, of: usize, seed: i64) -> i64 {
        let amount = self.told[of].amount;
        1 + seed % (amount / 2 + amount / 8)
    }

    /// The price of an exchange: of every third all coins that are there.
    pub(super) fn price_of(&self, seed: i64) -> i64 {
        if seed % 3 == 0 { (self.gifted + self.in_purse()).max(1) } else { 1 + seed % 50 }
    }

    /// Gives the HTTP status.
    pub(super) fn refund(&mut self, of: usize, part: i64, record: bool) -> u16 {
        let told = &mut self.told[of];
        if !told.is_paid {
            told.waiting.push(part);
            return 202;
        }
        if told.refunded + part > told.amount {
            return 409;
        }
        let (free, charge) = self.owed(of, part);
        if !record && (free > self.gifted || charge > self.in_purse()) {
            return 409;
        }
        self.take_back(of, part);
        200
    }

    /// The coins for a part of the money: of all that went back the whole coins, less those of before.
    fn owed(&self, of: usize, part: i64) -> (i64, i64) {
        let Told { amount, charge, bonus, refunded, .. } = self.told[of];
        let share = |coins: i64| (refunded + part) * coins / amount - refunded * coins / amount;
        (share(bonus), share(charge))
    }

    fn take_back(&mut self, of: usize, part: i64) {
        let (free, charge) = self.owed(of, part);
        for _ in 0..free {
            if self.gifted > 0 {
                self.gifted -= 1;
            } else {
                self.gifted_debt.push_back(of);
            }
        }
        for _ in 0..charge {
            if self.in_purse() > 0 { self.remove(of) } else { self.charged_debt.push_back(of) }
        }
        self.told[of].refunded += part;
    }

    /// Charged coins of a payment that were used, and that were not.
    pub(super) fn of_payment(&self, of: usize) -> (usize, usize) {
        let (used, unused) = self.charged.split_at(self.used);
        let count = |coins: &[Option<usize>]| coins.iter().filter(|lot| **lot == Some(of)).count();
        (count(used), count(unused))
    }

    pub(super) fn unused_of(&self, product: &str) -> i64 {
        let unused = self.charged[self.used..].iter().flatten();
        i64::try_from(unused.filter(|of| self.told[**of].product == product).count()).unwrap()
    }

    /// The exchanges that used coins of a payment, with how many.
    pub(super) fn exchanges_of(&self, of: usize) -> Vec<(&str, i64)> {
        let mut by: Vec<Option<usize>> = Vec::new();
        for deduction in &self.deductions {
            match *deduction {
                Deduction::Bought(place) => {
                    by.extend(
                        self.bought[place].kept.iter().filter(|is_charged| **is_charged).map(|_| Some(place)),
                    );
                }
                Deduction::Debit(coins) => by.extend((0..coins).map(|_| None)),
            }
        }
        assert_eq!(by.len(), self.used, "each coin was used by something");
        let mut found: Vec<(&str, i64)> = Vec::new();
        for (lot, place) in self.charged.iter().zip(by) {
            let (Some(place), true) = (place, *lot == Some(of)) else { continue };
            let number = self.bought[place].number.as_str();
            match found.last_mut() {
                Some((last, coins)) if *last == number => *coins += 1,
                _ => found.push((number, 1)),
            }
        }
        found
    }
}
