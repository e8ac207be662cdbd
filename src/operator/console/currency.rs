//! Money as people write it.

use domain::topup::Currency;

use super::page::grouped;

/// Money in the units that people count, such as `6.00 CNY`.
pub(super) fn money(currency: &str, amount: i64) -> String {
    format!("{} {currency}", grouped(&Currency::units_of(currency, amount)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_in_the_units_of_its_currency() {
        for (currency, amount, expected) in [
            ("CNY", 600, "6.00 CNY"),
            ("CNY", 5, "0.05 CNY"),
            ("JPY", 120, "120 JPY"),
            ("JPY", 1_234_567, "1_234_567 JPY"),
            ("KWD", 1_234, "1.234 KWD"),
            ("KWD", 1_234_567_890, "1_234_567.890 KWD"),
            ("CNY", -5, "\u{2212}0.05 CNY"),
            ("CNY", -100_000, "\u{2212}1_000.00 CNY"),
            ("XXX", -1_234, "\u{2212}1_234 XXX"),
        ] {
            assert_eq!(money(currency, amount).replace('\u{202f}', "_"), expected);
        }
    }
}
