//! Refunds of payments: what a provider gives back, and what the player owes for it (contract 19.5).

use schemars::JsonSchema;
use serde::Serialize;

use super::PaymentKey;
use crate::ids::{Reason, made_of, text_type};
use crate::ledger::REFUND_MARK;

/// Longest id that a provider gives a refund, in bytes.
pub const REFUND_ID_BYTES_MAX: usize = 64;

text_type!(
    /// A refund of a payment, as its provider names it.
    RefundId, "1 to 64 printable ASCII characters without /" => "^[!-.0-~]([ -.0-~]{0,62}[!-.0-~])?$",
    |text| made_of(text, 1, REFUND_ID_BYTES_MAX, |byte| (b' '..=b'~').contains(&byte) && byte != b'/'),
    but crate::strays::unseen => stored
);

/// The idempotency key of a refund in its app, for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundKey {
    /// The payment.
    pub payment: PaymentKey,
    /// The refund of it.
    pub refund_id: RefundId,
}

impl RefundKey {
    /// Payment and refund as one text. No refund has a slash, so the last one divides it.
    #[must_use]
    pub fn as_text(&self) -> String {
        format!("{}/{}", self.payment.as_text(), self.refund_id)
    }

    /// The reference of its ledger entry.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("{REFUND_MARK}{}", self.as_text())
    }
}

crate::word_enum! {
    /// The treatment of coins that are owed back and that the purses do not hold.
    pub enum Shortfall {
        /// Nothing is refunded.
        Refuse = "refuse",
        /// What is there is taken, and the rest is recorded as debt of the wallet.
        Record = "record",
    }
}

/// The treatment of a refund above the rest of its payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// It is no refund.
    Refuse,
    /// It is kept as refused, because the money has gone.
    Keep,
}

/// How much money goes back, in minor units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefundAmount {
    /// This much.
    Of(i64),
    /// So much that all refunds of the payment sum up to this. Nothing where they do already.
    SumOf(i64),
}

/// A refund that somebody reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRefund {
    /// Its idempotency key.
    pub key: RefundKey,
    /// The money.
    pub amount: RefundAmount,
    /// Why, for people.
    pub reason: Reason,
    /// What becomes of coins that are spent.
    pub shortfall: Shortfall,
    /// The treatment of it where it is more than the rest of the payment.
    pub excess: Excess,
}

/// Gifted and charged coins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct CoinPair {
    /// Gifted coins.
    pub free: i64,
    /// Charged coins.
    pub charge: i64,
}

impl CoinPair {
    /// The coins. `None` where there are none.
    #[must_use]
    pub fn any(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// A payment of `amount` that has brought these coins, as a refund finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refundable {
    /// The money, in minor units.
    pub amount: i64,
    /// The coins that were credited.
    pub coins: CoinPair,
}

impl Refundable {
    /// The coins that are owed back in all after refunds of `refunded` in all, each rounded down (contract 19.5.3).
    #[must_use]
    pub fn owed_after(&self, refunded: i64) -> CoinPair {
        let part = |coins: i64| {
            let owed = i128::from(coins) * i128::from(refunded) / i128::from(self.amount.max(1));
            i64::try_from(owed).unwrap_or(coins)
        };
        CoinPair { free: part(self.coins.free), charge: part(self.coins.charge) }
    }

    /// The coins that a refund of `amount` owes back when `before` was refunded already.
    #[must_use]
    pub fn owed_by(&self, before: i64, amount: i64) -> CoinPair {
        let (then, now) = (self.owed_after(before), self.owed_after(before.saturating_add(amount)));
        CoinPair { free: now.free - then.free, charge: now.charge - then.charge }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fields::Expected;

    #[test]
    fn a_refund_has_no_slash_so_its_text_has_one_meaning() {
        for good in ["re_1", "sum 600", "a|*@"] {
            assert!(RefundId::parse(good).is_ok(), "{good:?}");
        }
        for bad in ["", "a/b", "ä", "a\n", &"x".repeat(65)] {
            assert!(RefundId::parse(bad).is_err(), "{bad:?}");
        }
        for bad in [" re_1", "re_1 ", " "] {
            let expected = Expected::new("no blank or unseen character around it");
            assert_eq!(RefundId::parse(bad), Err(expected), "{bad:?}");
            assert_eq!(RefundId::stored(bad).unwrap().as_str(), bad);
        }
        let payment = PaymentKey::of_text("stripe/pi/1").unwrap();
        let key = RefundKey { payment, refund_id: RefundId::parse("re_1").unwrap() };
        assert_eq!(key.reference(), "%stripe/pi/1/re_1");
    }

    proptest! {
        /// Rule 19.5.3: parts owe together what one refund owes, never more than was credited, and all of it owes all.
        #[test]
        fn parts_owe_what_the_whole_owes(
            amount in 1_i64..=1_000_000_000_000, free in 0_i64..=1_000_000_000_000, charge in 0_i64..=1_000_000_000_000,
            cuts in prop::collection::vec(0_i64..=1_000_000_000_000, 0..6),
        ) {
            let payment = Refundable { amount, coins: CoinPair { free, charge } };
            let mut ends: Vec<i64> = cuts.into_iter().map(|cut| cut % (amount + 1)).chain([amount]).collect();
            ends.sort_unstable();
            let (mut before, mut owed) = (0, CoinPair::default());
            for end in ends {
                let part = payment.owed_by(before, end - before);
                prop_assert!(part.free >= 0 && part.charge >= 0);
                owed = CoinPair { free: owed.free + part.free, charge: owed.charge + part.charge };
                before = end;
                let exact = |coins: i64| i64::try_from(i128::from(coins) * i128::from(end) / i128::from(amount)).unwrap();
                prop_assert_eq!(owed, CoinPair { free: exact(free), charge: exact(charge) });
            }
            prop_assert_eq!(owed, payment.coins);
        }
    }
}
