//! Currencies of money by their codes (ISO 4217). The till counts minor units, and never adds two currencies.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fields::Expected;

/// The codes of money that people pay with.
const CODES: &str = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF \
    CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR \
    ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP \
    MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG \
    SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST \
    XAF XCD XCG XOF XPF YER ZAR ZMW ZWG";

/// Codes whose minor unit is the unit itself.
const WITHOUT_MINOR: &str = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF";
/// Codes whose unit has a thousand minor units.
const WITH_THOUSANDTHS: &str = "BHD IQD JOD KWD LYD OMR TND";

/// A currency.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline)]
pub struct Currency(#[schemars(with = "String", regex(pattern = "^[A-Z]{3}$"))] [u8; 3]);

impl Currency {
    /// Accepts a code in capitals.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let code = text.as_bytes().try_into().ok().filter(|_| CODES.split(' ').any(|code| code == text));
        code.map(Self).ok_or(Expected::new("a code of ISO 4217 in capitals, such as CNY or USD"))
    }

    /// How many digits of an amount are behind the point.
    #[must_use]
    pub fn minor_digits(&self) -> u32 {
        let is_in = |codes: &str| codes.split(' ').any(|code| code == self.as_str());
        if is_in(WITHOUT_MINOR) {
            0
        } else if is_in(WITH_THOUSANDTHS) {
            3
        } else {
            2
        }
    }

    /// An amount of minor units in units, without marks between groups of digits, such as `6.00`.
    #[must_use]
    pub fn in_units(&self, amount: i64) -> String {
        let digits = self.minor_digits();
        if digits == 0 {
            return amount.to_string();
        }
        let (sign, unit) = (if amount < 0 { "-" } else { "" }, 10_u64.pow(digits));
        let (whole, minor) = (amount.unsigned_abs() / unit, amount.unsigned_abs() % unit);
        format!("{sign}{whole}.{minor:0width$}", width = digits as usize)
    }

    /// An amount in units of the currency of this code. An amount of an unknown currency stays as it is.
    #[must_use]
    pub fn units_of(code: &str, amount: i64) -> String {
        Self::parse(code).map_or_else(|_| amount.to_string(), |currency| currency.in_units(amount))
    }

    /// The code.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TryFrom<String> for Currency {
    type Error = Expected;

    fn try_from(text: String) -> Result<Self, Expected> {
        Self::parse(&text)
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> Self {
        currency.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_told_in_units() {
        for (code, amount, expected) in [
            ("CNY", 600, "6.00"),
            ("CNY", 123_456_705, "1234567.05"),
            ("CNY", -5, "-0.05"),
            ("JPY", 600, "600"),
            ("KWD", 1_234, "1.234"),
        ] {
            assert_eq!(Currency::parse(code).unwrap().in_units(amount), expected);
        }
    }

    #[test]
    fn a_currency_is_a_code_of_money_in_capitals() {
        for code in CODES.split(' ') {
            assert_eq!(Currency::parse(code).unwrap().to_string(), code);
        }
        for bad in ["", "cny", "CN", "CNYX", "XXX", "XTS", "AED ", "元元元"] {
            assert!(Currency::parse(bad).is_err(), "{bad:?}");
        }
    }
}
