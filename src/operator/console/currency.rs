//! Money as people write it.

use domain::topup::Currency;

use super::page::Shown as _;

/// Money in the units that people count, such as `6.00 CNY`.
pub(super) fn money(currency: &str, amount: i64) -> String {
    let digits = Currency::parse(currency).map_or(0, |currency| currency.minor_digits());
    let unit = 10_i64.pow(digits);
    let whole = (amount / unit).shown();
    if digits == 0 {
        return format!("{whole} {currency}");
    }
    format!("{whole}.{:0width$} {currency}", amount % unit, width = digits as usize)
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
            ("KWD", 1_234, "1.234 KWD"),
        ] {
            assert_eq!(money(currency, amount), expected);
        }
    }
}
