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
    /// The coins that all deductions so far have used.
    total: i128,
    /// The coins of the lot that debits of operators have used.
    debited: i64,
    exchanges: Vec<LotExchange>,
}

impl LotUse {
    /// The use of a lot before any deduction.
    #[must_use]
    pub const fn new(lot: Lot) -> Self {
        Self { lot, total: 0, debited: 0, exchanges: Vec::new() }
    }

    /// Adds the next deduction: its charged coins without those that were given back, and the exchange that it is. An
    /// operator's debit is none. It breaks once later deductions cannot use the lot.
    pub fn add(&mut self, coins: i64, exchange: Option<(&str, OffsetDateTime)>) -> ControlFlow<()> {
        let before = self.used();
        self.total += i128::from(coins.max(0));
        let of_lot = self.used() - before;
        if exchange.is_none() {
            self.debited += of_lot;
        }
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

    /// The used part of the lot: all that was used of the wallet less what came before it, within its size.
    #[must_use]
    pub fn used(&self) -> i64 {
        let used = (self.total - self.lot.before).clamp(0, i128::from(self.lot.size.max(0)));
        i64::try_from(used).unwrap_or(self.lot.size)
    }

    /// The coins of the lot that debits of operators used.
    #[must_use]
    pub const fn debited(&self) -> i64 {
        self.debited
    }

    /// The rest of the lot.
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

// Random histories are in `tests/histories.rs`.
#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of docs/design/lots.md.
    #[test]
    fn thousandths_are_rounded_down() {
        let mut used = LotUse::new(Lot { before: 100, size: 60 });
        assert!(used.add(110, None).is_continue());
        assert_eq!((used.used(), used.unused(), used.used_milli(60), used.debited()), (10, 50, 166, 10));
        assert!(used.add(50, Some(("b1", OffsetDateTime::UNIX_EPOCH))).is_break());
        assert_eq!((used.used(), used.used_milli(60), used.debited()), (60, 1_000, 10));
        assert_eq!(used.exchanges()[0].coins, 50);
        assert_eq!(LotUse::new(Lot { before: 0, size: 0 }).used_milli(0), 0);
    }
}
