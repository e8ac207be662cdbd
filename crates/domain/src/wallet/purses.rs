//! The arithmetic of two purses: deduct, credit, debit, and give back, which is a cancel (contract 3, 8.3 and 10).

use crate::fields::{Expected, parse_integer};

/// Largest amount of one exchange.
pub const AMOUNT_MAX: i64 = 1_000_000_000_000;

/// The amount that one exchange deducts, 1 to 1,000,000,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount(i64);

impl Amount {
    /// Accepts a canonical integer within the limits.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        parse_integer(text, 1, AMOUNT_MAX, "an integer from 1 to 1000000000000").map(Self)
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

/// The purse that pays first; the other pays the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayPriority {
    /// 0: charged currency first.
    ChargedFirst,
    /// 1: gifted currency first.
    GiftedFirst,
}

impl PayPriority {
    /// Accepts `0` or `1`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        match text {
            "0" => Ok(Self::ChargedFirst),
            "1" => Ok(Self::GiftedFirst),
            _ => Err(Expected::new("0, 1 or empty")),
        }
    }

    /// The priority with this number.
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        match code {
            0 => Some(Self::ChargedFirst),
            1 => Some(Self::GiftedFirst),
            _ => None,
        }
    }

    /// The number on the wire (contract 3.1).
    #[must_use]
    pub fn code(self) -> i16 {
        match self {
            Self::ChargedFirst => 0,
            Self::GiftedFirst => 1,
        }
    }
}

/// Both purses of a wallet. Neither is ever below zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Balances {
    free: i64,
    charge: i64,
}

/// Balances that cannot be: below zero, or more than 64 bits hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a balance must be from 0 to 9223372036854775807")]
pub struct BalanceOutOfRange;

/// The purses together do not cover the amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("insufficient balance")]
pub struct InsufficientBalance;

/// The coins that an exchange took from each purse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paid {
    /// From the gifted purse.
    pub free: i64,
    /// From the charged purse.
    pub charge: i64,
    /// The purse that paid first.
    pub pay_priority: PayPriority,
}

impl Paid {
    /// Gifted and charged currency that a cancel gives back when `before` was left to give back and `after` is left then.
    #[must_use]
    pub fn given_back(self, before: i64, after: i64) -> (i64, i64) {
        let first = self.first_of(before).saturating_sub(self.first_of(after));
        let second = before.saturating_sub(after).saturating_sub(first);
        match self.pay_priority {
            PayPriority::ChargedFirst => (second, first),
            PayPriority::GiftedFirst => (first, second),
        }
    }

    /// What the first purse pays of the exchange when it is for this amount, at most what it has paid.
    fn first_of(self, amount: i64) -> i64 {
        match self.pay_priority {
            PayPriority::ChargedFirst => self.charge.min(amount),
            PayPriority::GiftedFirst => self.free.min(amount),
        }
    }
}

/// Why nothing of an exchange was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotGivenBack {
    /// Less is left of the exchange.
    MoreThanLeft,
    /// A purse would hold more than 64 bits.
    PurseFull,
}

/// The change of both purses by a ledger entry, and the balances after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurseChange {
    /// Change of the gifted purse; a deduction is negative.
    pub free_change: i64,
    /// Change of the charged purse; a deduction is negative.
    pub charge_change: i64,
    /// Both purses afterwards.
    pub after: Balances,
}

impl Balances {
    /// Both purses as they are stored.
    ///
    /// # Errors
    /// A negative number.
    pub fn new(free: i64, charge: i64) -> Result<Self, BalanceOutOfRange> {
        if free < 0 || charge < 0 { Err(BalanceOutOfRange) } else { Ok(Self { free, charge }) }
    }

    /// Gifted currency.
    #[must_use]
    pub fn free(self) -> i64 {
        self.free
    }

    /// Charged currency.
    #[must_use]
    pub fn charge(self) -> i64 {
        self.charge
    }

    /// Deducts `amount`: the purse that `priority` names pays as much as it holds, and the other purse pays the rest
    /// (contract 3.3.11). It gives what each purse loses, and both purses afterwards.
    ///
    /// # Errors
    /// Both together do not cover the amount. Then nothing is deducted.
    pub fn deduct(self, amount: Amount, priority: PayPriority) -> Result<PurseChange, InsufficientBalance> {
        let amount = amount.get();
        let (first, second) = match priority {
            PayPriority::ChargedFirst => (self.charge, self.free),
            PayPriority::GiftedFirst => (self.free, self.charge),
        };
        let from_first = first.min(amount);
        let from_second = amount - from_first;
        if from_second > second {
            return Err(InsufficientBalance);
        }
        let (from_charge, from_free) = match priority {
            PayPriority::ChargedFirst => (from_first, from_second),
            PayPriority::GiftedFirst => (from_second, from_first),
        };
        let after = Self { free: self.free - from_free, charge: self.charge - from_charge };
        Ok(PurseChange { free_change: -from_free, charge_change: -from_charge, after })
    }

    /// Gives back `amount` of an exchange of which `remaining` can still be given back (contract 10). What was taken last is
    /// given back first. So after all cancels the purses stand as if the exchange had been for the rest.
    ///
    /// # Errors
    /// More than `remaining`, or a purse would overflow. Then nothing is given back.
    pub fn give_back(self, paid: Paid, remaining: i64, amount: Amount) -> Result<PurseChange, NotGivenBack> {
        let rest = remaining.checked_sub(amount.get()).filter(|rest| *rest >= 0);
        let rest = rest.ok_or(NotGivenBack::MoreThanLeft)?;
        let (free, charge) = paid.given_back(remaining, rest);
        self.credit(free, charge).map_err(|_| NotGivenBack::PurseFull)
    }

    /// Takes from both purses, each exactly.
    ///
    /// # Errors
    /// A negative number, or a purse that does not cover it; then nothing is taken.
    pub fn debit(self, free: i64, charge: i64) -> Result<PurseChange, InsufficientBalance> {
        if free < 0 || charge < 0 || free > self.free || charge > self.charge {
            return Err(InsufficientBalance);
        }
        let after = Self { free: self.free - free, charge: self.charge - charge };
        Ok(PurseChange { free_change: -free, charge_change: -charge, after })
    }

    /// Takes from both purses as much as they hold, at most these numbers. Negative ones take nothing.
    #[must_use]
    pub fn take(self, free: i64, charge: i64) -> PurseChange {
        let (free, charge) = (free.clamp(0, self.free), charge.clamp(0, self.charge));
        let after = Self { free: self.free - free, charge: self.charge - charge };
        PurseChange { free_change: -free, charge_change: -charge, after }
    }

    /// Adds to both purses.
    ///
    /// # Errors
    /// A negative number, or a purse that would overflow; then nothing is added.
    pub fn credit(self, free: i64, charge: i64) -> Result<PurseChange, BalanceOutOfRange> {
        if free < 0 || charge < 0 {
            return Err(BalanceOutOfRange);
        }
        let after = Self {
            free: self.free.checked_add(free).ok_or(BalanceOutOfRange)?,
            charge: self.charge.checked_add(charge).ok_or(BalanceOutOfRange)?,
        };
        Ok(PurseChange { free_change: free, charge_change: charge, after })
    }
}

/// Refuses the amounts of a credit that adds to no purse (contract 8.3.2).
///
/// # Errors
/// Both amounts are 0.
pub fn check_credit(free: i64, charge: i64) -> Result<(), Expected> {
    if (free, charge) == (0, 0) { Err(Expected::new("1 or more in one of them")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn balances(free: i64, charge: i64) -> Balances {
        Balances::new(free, charge).unwrap()
    }

    fn amount(value: i64) -> Amount {
        Amount::parse(&value.to_string()).unwrap()
    }

    #[test]
    fn the_first_purse_pays_and_the_other_pays_the_rest() {
        let purses = balances(30, 50);
        let charged = purses.deduct(amount(60), PayPriority::ChargedFirst).unwrap();
        assert_eq!((charged.free_change, charged.charge_change, charged.after), (-10, -50, balances(20, 0)));
        let gifted = purses.deduct(amount(60), PayPriority::GiftedFirst).unwrap();
        assert_eq!((gifted.free_change, gifted.charge_change, gifted.after), (-30, -30, balances(0, 20)));
        assert_eq!(purses.deduct(amount(81), PayPriority::GiftedFirst), Err(InsufficientBalance));
        assert_eq!(purses.deduct(amount(80), PayPriority::ChargedFirst).unwrap().after, balances(0, 0));
    }

    #[test]
    fn an_amount_is_a_canonical_integer_within_its_limits() {
        assert!(Amount::parse("1").is_ok() && Amount::parse("1000000000000").is_ok());
        for bad in
            ["0", "-1", "+1", "01", "1.0", "1e3", " 1", "1000000000001", "99999999999999999999", "", "１"]
        {
            assert!(Amount::parse(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn a_deduction_never_goes_below_zero_and_takes_exactly_the_amount(
            free in 0_i64..=i64::MAX, charge in 0_i64..=i64::MAX, small in any::<bool>(),
            wanted in 1_i64..=AMOUNT_MAX, gifted_first in any::<bool>(),
        ) {
            let (free, charge) = if small { (free % 2_000_000_000_000, charge % 2_000_000_000_000) } else { (free, charge) };
            let priority = if gifted_first { PayPriority::GiftedFirst } else { PayPriority::ChargedFirst };
            let covered = i128::from(free) + i128::from(charge) >= i128::from(wanted);
            match balances(free, charge).deduct(amount(wanted), priority) {
                Ok(change) => {
                    prop_assert!(covered);
                    prop_assert!(change.after.free() >= 0 && change.after.charge() >= 0);
                    prop_assert!(change.free_change <= 0 && change.charge_change <= 0);
                    prop_assert_eq!(-(change.free_change + change.charge_change), wanted);
                    prop_assert_eq!(free + change.free_change, change.after.free());
                    prop_assert_eq!(charge + change.charge_change, change.after.charge());
                    // The second purse is touched only when the first is empty afterwards.
                    let (first_left, second_change) = match priority {
                        PayPriority::ChargedFirst => (change.after.charge(), change.free_change),
                        PayPriority::GiftedFirst => (change.after.free(), change.charge_change),
                    };
                    prop_assert!(second_change == 0 || first_left == 0);
                }
                Err(InsufficientBalance) => prop_assert!(!covered),
            }
        }

        /// Contract 10: after cancels of r in all, the purses stand as if the exchange had been for amount - r.
        #[test]
        fn cancels_leave_the_purses_as_if_the_exchange_had_been_for_less(
            free in 0_i64..300, charge in 0_i64..300, wanted in 1_i64..400, gifted_first in any::<bool>(),
            parts in prop::collection::vec(1_i64..200, 1..8),
        ) {
            let pay_priority = if gifted_first { PayPriority::GiftedFirst } else { PayPriority::ChargedFirst };
            let Ok(change) = balances(free, charge).deduct(amount(wanted), pay_priority) else { return Ok(()) };
            let paid = Paid { free: -change.free_change, charge: -change.charge_change, pay_priority };
            let (mut purses, mut remaining) = (change.after, wanted);
            for part in parts {
                match purses.give_back(paid, remaining, amount(part)) {
                    Ok(given) => (purses, remaining) = (given.after, remaining - part),
                    Err(error) => {
                        prop_assert_eq!(error, NotGivenBack::MoreThanLeft);
                        prop_assert!(part > remaining);
                    }
                }
                let expected = match remaining {
                    0 => balances(free, charge),
                    less => balances(free, charge).deduct(amount(less), pay_priority).unwrap().after,
                };
                prop_assert_eq!(purses, expected);
            }
        }

        #[test]
        fn a_debit_takes_exactly_what_is_there(free in 0_i64..9, charge in 0_i64..9, less in -2_i64..11, other in -2_i64..11) {
            let covered = (0..=free).contains(&less) && (0..=charge).contains(&other);
            match balances(free, charge).debit(less, other) {
                Ok(change) => {
                    prop_assert!(covered);
                    prop_assert_eq!(change.after, balances(free - less, charge - other));
                    prop_assert_eq!((change.free_change, change.charge_change), (-less, -other));
                }
                Err(InsufficientBalance) => prop_assert!(!covered),
            }
        }

        #[test]
        fn what_is_taken_is_the_lesser_of_what_is_asked_and_there(
            free in 0_i64..9, charge in 0_i64..9, less in -2_i64..11, other in -2_i64..11,
        ) {
            let change = balances(free, charge).take(less, other);
            prop_assert_eq!(change.free_change, -less.max(0).min(free));
            prop_assert_eq!(change.charge_change, -other.max(0).min(charge));
            prop_assert_eq!(change.after, balances(free + change.free_change, charge + change.charge_change));
        }

        #[test]
        fn a_credit_never_overflows(free in 0_i64..=i64::MAX, more in i64::MIN..=i64::MAX) {
            match balances(free, 0).credit(more, 0) {
                Ok(change) => prop_assert_eq!(i128::from(change.after.free()), i128::from(free) + i128::from(more)),
                Err(BalanceOutOfRange) => prop_assert!(more < 0 || free.checked_add(more).is_none()),
            }
        }
    }
}
