//! Lots of charged coins: what was used of a top-up, first in, first out (contract 19.6). The arithmetic is pure; the store
//! streams the deductions of a wallet into it.

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;

use crate::ids::BizNo;

/// The most exchanges that are named of a lot.
pub const LOT_EXCHANGES_MAX: usize = 1_000;

/// The charged coins that a top-up or an operator's credit brought, among those of its wallet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lot {
    /// What is there of all lots that came before it: what they brought less what refunds and settlements took of them.
    pub before: i128,
    /// What is there of it, counted in the same way.
    pub size: i64,
}

/// An exchange that used coins of a lot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "LotExchange")]
pub struct LotExchange {
    /// The exchange.
    #[schemars(with = "BizNo")]
    pub biz_no: String,
    /// Charged coins of this top-up that it used, without what was given back.
    pub coins: i64,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: OffsetDateTime,
}

/// The use of a lot, as the deductions of its wallet are added in their order.
#[derive(Debug, Clone)]
pub struct LotUse {
    lot: Lot,
    /// What all deductions so far have used.
    total: i128,
    exchanges: Vec<LotExchange>,
}

impl LotUse {
    /// The use of a lot before any deduction.
    #[must_use]
    pub const fn new(lot: Lot) -> Self {
        Self { lot, total: 0, exchanges: Vec::new() }
    }

    /// Adds the next deduction: its charged coins without those that were given back, and the exchange that it is. An
    /// operator's debit is none. It breaks once later deductions cannot use the lot.
    pub fn add(&mut self, coins: i64, exchange: Option<(&str, OffsetDateTime)>) -> ControlFlow<()> {
        let before = self.used();
        self.total += i128::from(coins.max(0));
        let of_lot = self.used() - before;
        if let Some((biz_no, at)) = exchange
            && of_lot > 0
            && self.exchanges.len() < LOT_EXCHANGES_MAX
        {
            self.exchanges.push(LotExchange { biz_no: biz_no.to_owned(), coins: of_lot, at });
        }
        if self.total >= self.lot.before + i128::from(self.lot.size) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// What was used of the lot: all that was used of the wallet less what came before it, within its size.
    #[must_use]
    pub fn used(&self) -> i64 {
        let used = (self.total - self.lot.before).clamp(0, i128::from(self.lot.size.max(0)));
        i64::try_from(used).unwrap_or(self.lot.size)
    }

    /// What is left of the lot.
    #[must_use]
    pub fn unused(&self) -> i64 {
        self.lot.size - self.used()
    }

    /// The thousandths of `charge`, which the lot was at first, that were used, rounded down.
    #[must_use]
    pub fn used_milli(&self, charge: i64) -> i64 {
        let milli = i128::from(self.used()) * 1_000 / i128::from(charge.max(1));
        i64::try_from(milli).unwrap_or(1_000)
    }

    /// The first exchanges that used the lot.
    #[must_use]
    pub fn exchanges(self) -> Vec<LotExchange> {
        self.exchanges
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// A thing that happens to a wallet.
    #[derive(Debug, Clone)]
    enum Step {
        Topup(usize),
        Credit(usize),
        Exchange(usize),
        Debit(usize),
        /// Of the exchange at this place, a part.
        Cancel(usize, usize),
        /// Of the top-up at this place, so much.
        Refund(usize, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1_usize..20).prop_map(Step::Topup),
            (1_usize..9).prop_map(Step::Credit),
            (1_usize..20).prop_map(Step::Exchange),
            (1_usize..6).prop_map(Step::Debit),
            (0_usize..6, 1_usize..12).prop_map(|(of, coins)| Step::Cancel(of, coins)),
            (0_usize..6, 1_usize..12).prop_map(|(of, coins)| Step::Refund(of, coins)),
        ]
    }

    /// The law, coin by coin: each coin knows its lot, the first ones are used, and coins are removed one at a time.
    #[derive(Default)]
    struct Coins {
        /// The lot of each coin that is there or was used, in the order in which they came.
        lots: Vec<usize>,
        used: usize,
        /// For each coin of debt the lot whose refund made it, oldest first.
        debt: VecDeque<usize>,
    }

    impl Coins {
        fn remove(&mut self, lot: usize) {
            let place = self.lots.iter().rposition(|of| *of == lot).unwrap();
            self.lots.remove(place);
        }

        fn in_purse(&self) -> usize {
            self.lots.len() - self.used
        }
    }

    /// What a ledger keeps: lots with what was taken of them, and deductions with what was given back of them.
    #[derive(Default)]
    struct Kept {
        /// What each lot brought, what refunds and settlements took of it, and what its refunds were for.
        lots: Vec<(i64, i64, i64)>,
        topups: Vec<usize>,
        /// Coins, what was given back, and whether it is an exchange.
        deductions: Vec<(i64, i64, bool)>,
        /// The lot and the coins of each debt, oldest first.
        debts: Vec<(usize, i64)>,
    }

    fn int(number: usize) -> i64 {
        i64::try_from(number).unwrap()
    }

    fn play(steps: &[Step]) -> (Coins, Kept) {
        let (mut coins, mut kept) = (Coins::default(), Kept::default());
        for step in steps {
            match *step {
                Step::Topup(size) => {
                    let lot = kept.lots.len();
                    kept.topups.push(lot);
                    kept.lots.push((int(size), 0, 0));
                    coins.lots.extend(vec![lot; size]);
                    let mut settled = int(size.min(coins.debt.len()));
                    for _ in 0..settled {
                        let of = coins.debt.pop_front().unwrap();
                        coins.remove(of);
                    }
                    for (of, owed) in &mut kept.debts {
                        let part = settled.min(*owed);
                        (*owed, settled) = (*owed - part, settled - part);
                        kept.lots[*of].1 += part;
                    }
                }
                Step::Credit(size) => {
                    coins.lots.extend(vec![kept.lots.len(); size]);
                    kept.lots.push((int(size), 0, 0));
                }
                Step::Exchange(taken) | Step::Debit(taken) => {
                    let taken = taken.min(coins.in_purse());
                    coins.used += taken;
                    kept.deductions.push((int(taken), 0, matches!(step, Step::Exchange(_))));
                }
                Step::Cancel(of, back) => {
                    let exchanges = kept.deductions.iter_mut().filter(|(_, _, is_exchange)| *is_exchange);
                    let Some((taken, given, _)) = exchanges.into_iter().nth(of) else { continue };
                    let back = int(back).min(*taken - *given);
                    *given += back;
                    coins.used -= usize::try_from(back).unwrap();
                }
                Step::Refund(of, owed) => {
                    let Some(&lot) = kept.topups.get(of) else { continue };
                    let (size, _, refunded) = kept.lots[lot];
                    let owed = int(owed).min(size - refunded);
                    let taken = owed.min(int(coins.in_purse()));
                    for _ in 0..taken {
                        coins.remove(lot);
                    }
                    coins.debt.extend(vec![lot; usize::try_from(owed - taken).unwrap()]);
                    kept.lots[lot].1 += taken;
                    kept.lots[lot].2 += owed;
                    kept.debts.push((lot, owed - taken));
                }
            }
        }
        (coins, kept)
    }

    fn use_of(kept: &Kept, lot: usize) -> LotUse {
        let size = |(brought, taken, _): &(i64, i64, i64)| brought - taken;
        let before = kept.lots[..lot].iter().map(|lot| i128::from(size(lot))).sum();
        let mut used = LotUse::new(Lot { before, size: size(&kept.lots[lot]) });
        for (place, (taken, given, is_exchange)) in kept.deductions.iter().enumerate() {
            let name = place.to_string();
            let exchange = is_exchange.then_some((name.as_str(), OffsetDateTime::UNIX_EPOCH));
            if used.add(taken - given, exchange).is_break() {
                break;
            }
        }
        used
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Rule 19.6.2: what is used of each lot is what the law says coin by coin, and what is unused is the charged purse.
        #[test]
        fn the_use_of_each_lot_is_what_its_coins_say(steps in prop::collection::vec(step(), 0..40)) {
            let (coins, kept) = play(&steps);
            let mut unused = 0;
            for lot in 0..kept.lots.len() {
                let of_lot = use_of(&kept, lot);
                let used = coins.lots[..coins.used].iter().filter(|of| **of == lot).count();
                let left = coins.lots[coins.used..].iter().filter(|of| **of == lot).count();
                prop_assert_eq!((of_lot.used(), of_lot.unused()), (int(used), int(left)));
                unused += of_lot.unused();
            }
            prop_assert_eq!(unused, int(coins.in_purse()));
        }

        /// The exchanges of all lots, and the debits, are what was used.
        #[test]
        fn each_deduction_stands_once_among_the_lots(steps in prop::collection::vec(step(), 0..40)) {
            let (_, kept) = play(&steps);
            let mut named = vec![0; kept.deductions.len()];
            for lot in 0..kept.lots.len() {
                for exchange in use_of(&kept, lot).exchanges() {
                    named[exchange.biz_no.parse::<usize>().unwrap()] += exchange.coins;
                }
            }
            for (named, (taken, given, is_exchange)) in named.iter().zip(&kept.deductions) {
                prop_assert_eq!(*named, if *is_exchange { taken - given } else { 0 });
            }
        }
    }

    /// The examples of docs/design/lots.md.
    #[test]
    fn thousandths_are_rounded_down() {
        let mut used = LotUse::new(Lot { before: 100, size: 60 });
        assert!(used.add(110, None).is_continue());
        assert_eq!((used.used(), used.unused(), used.used_milli(60)), (10, 50, 166));
        assert!(used.add(50, Some(("b1", OffsetDateTime::UNIX_EPOCH))).is_break());
        assert_eq!((used.used(), used.used_milli(60), used.exchanges()[0].coins), (60, 1_000, 50));
        assert_eq!(LotUse::new(Lot { before: 0, size: 0 }).used_milli(0), 0);
    }
}
