//! Refusals that wait for a write: properly signed changes that got nothing.

use std::time::Duration;

use domain::code::Code;
use domain::ids::{AppId, BizNo, OpenId, ProductText};
use domain::ledger::ReferenceKind;
use domain::wallet::{Amount, Balances};

use super::{Count, Counts, NamesMax, TakenCounts};

/// Refusals of different names that wait for a write. They take some 4 MB.
const NAMES_MAX: NamesMax = NamesMax { all: 4_096, of_app: 1_000 };

/// A properly signed change that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedChange {
    /// The app that signed it.
    pub app_id: AppId,
    /// The player.
    pub open_id: OpenId,
    /// The number, which the refusal did not use.
    pub biz_no: BizNo,
    /// What was asked for: an exchange, a present or a cancel.
    pub kind: ReferenceKind,
    /// The code of the answer.
    pub code: Code,
    /// Id of the request.
    pub request_id: String,
    /// What was asked for.
    pub asked: RefusedContent,
}

/// What a refused change has asked for, and what the wallet held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefusedContent {
    /// The amount, where one came that can be one.
    pub amount: Option<Amount>,
    /// The product of an exchange, where one came that can be one.
    pub product_name: Option<ProductText>,
    /// Both purses, where the till has looked at them.
    pub balances: Option<Balances>,
}

/// What counts together: number, player and code.
pub(crate) type RefusalName = (String, String, u32);

/// The refusals of one name since the last write, in the time of the process's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusalCount {
    pub(crate) first: Duration,
    pub(crate) last: Duration,
    pub(crate) count: i64,
    /// Of the last.
    pub(crate) kind: ReferenceKind,
    /// Of the last.
    pub(crate) request_id: String,
    /// Of the last.
    pub(crate) asked: RefusedContent,
}

impl Count for RefusalCount {
    fn add(&mut self, other: Self) {
        self.first = self.first.min(other.first);
        self.count += other.count;
        if other.last >= self.last {
            (self.last, self.kind) = (other.last, other.kind);
            (self.request_id, self.asked) = (other.request_id, other.asked);
        }
    }
}

/// The refusals since the last write. It is cheap to clone, and all clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Refusals(Counts<RefusalName, RefusalCount>);

impl Default for Refusals {
    fn default() -> Self {
        Self(Counts::new(NAMES_MAX))
    }
}

impl Refusals {
    /// Notes a refusal. It waits for nothing. `now` is monotonic.
    pub(crate) fn note(&self, refused: RefusedChange, now: Duration) {
        let RefusedChange { app_id, open_id, biz_no, kind, code, request_id, asked } = refused;
        let name = (biz_no.to_string(), open_id.to_string(), code.number());
        let count = RefusalCount { first: now, last: now, count: 1, kind, request_id, asked };
        self.0.count([(app_id, name, count)]);
    }

    /// Takes what was noted since the last call.
    pub(crate) fn take(&self) -> TakenCounts<RefusalName, RefusalCount> {
        self.0.take()
    }

    /// Puts back what could not be written.
    pub(crate) fn put_back(&self, counts: Vec<(AppId, RefusalName, RefusalCount)>) {
        self.0.count(counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract 13.1: what a failed write had is counted with what came meanwhile, in either order.
    #[test]
    fn two_counts_become_one_in_any_order() {
        let at = |first: u64, last: u64, count, request_id: &str| RefusalCount {
            first: Duration::from_secs(first),
            last: Duration::from_secs(last),
            count,
            kind: ReferenceKind::Exchange,
            request_id: request_id.to_owned(),
            asked: RefusedContent {
                amount: Amount::parse(&count.to_string()).ok(),
                ..RefusedContent::default()
            },
        };
        let (early, late) = (at(1, 3, 2, "early"), at(5, 8, 4, "late"));
        for (one, other) in [(early.clone(), late.clone()), (late, early)] {
            let mut both = one;
            both.add(other);
            let asked = RefusedContent { amount: Amount::parse("4").ok(), ..RefusedContent::default() };
            assert_eq!(both, RefusalCount { asked, ..at(1, 8, 6, "late") });
        }
    }
}
