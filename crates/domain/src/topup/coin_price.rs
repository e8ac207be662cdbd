//! The price of a charged coin (contract 19.8.4).

use std::cmp::Ordering;
use std::fmt::{self, Display};

/// What a charged coin has cost: money in minor units over coins, in lowest terms. Prices are in the order of their worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoinPrice {
    amount: i64,
    coins: i64,
}

impl CoinPrice {
    /// The price of coins that were bought together. `None` where one of both is not above 0.
    #[must_use]
    pub const fn new(amount: i64, coins: i64) -> Option<Self> {
        if amount <= 0 || coins <= 0 {
            return None;
        }
        let (mut divisor, mut rest) = (amount, coins);
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        Some(Self { amount: amount / divisor, coins: coins / divisor })
    }

    /// The money of so many coins in minor units, rounded down. `None` where it needs more than 64 bits.
    #[must_use]
    pub fn money_of(self, coins: i64) -> Option<i64> {
        i64::try_from(i128::from(coins) * i128::from(self.amount) / i128::from(self.coins)).ok()
    }
}

impl Ord for CoinPrice {
    fn cmp(&self, other: &Self) -> Ordering {
        let cross = |one: Self, other: Self| i128::from(one.amount) * i128::from(other.coins);
        cross(*self, *other).cmp(&cross(*other, *self))
    }
}

impl PartialOrd for CoinPrice {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Such as `10`, or `100/11` where a coin costs no whole number of minor units.
impl Display for CoinPrice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.coins {
            1 => write!(out, "{}", self.amount),
            coins => write!(out, "{}/{coins}", self.amount),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_in_lowest_terms_and_its_money_is_rounded_down() {
        for (amount, coins, text, of, money) in [
            (600, 60, "10", 7, 70),
            (60, 6, "10", 0, 0),
            (600, 66, "100/11", 65, 590),
            (1, 1_000_000_000_000, "1/1000000000000", 999_999_999_999, 0),
            (1_000_000_000_000, 1, "1000000000000", 9_000_000, 9_000_000_000_000_000_000),
        ] {
            let price = CoinPrice::new(amount, coins).unwrap();
            assert_eq!(
                (price.to_string().as_str(), price.money_of(of)),
                (text, Some(money)),
                "{amount}/{coins}"
            );
        }
        assert_eq!(CoinPrice::new(1_000_000_000_000, 1).unwrap().money_of(10_000_000), None);
        assert_eq!((CoinPrice::new(0, 1), CoinPrice::new(1, 0)), (None, None));
    }

    #[test]
    fn prices_are_in_the_order_of_their_worth() {
        let price = |amount, coins| CoinPrice::new(amount, coins).unwrap();
        let mut prices = [price(10, 1), price(100, 11), price(1, 3), price(9, 1)];
        prices.sort_unstable();
        assert_eq!(prices.map(|price| price.to_string()), ["1/3", "9", "100/11", "10"]);
    }
}
