//! A rate limit in requests a second: one range and one refusal for settings, command line, admin
//! API and console (contract 7.2).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::fields::{Expected, parse_integer};
use crate::text;
use crate::text::Text;

/// A rate limit of 0 to 1,000,000 requests a second. 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct PerSecond(#[schemars(range(max = PerSecond::MAX))] u32);

impl PerSecond {
    /// The highest limit.
    pub const MAX: u32 = 1_000_000;
    /// The accepted form, in words that follow "expected".
    pub const EXPECTED: &'static str = "an integer from 0 to 1000000; 0 is no limit";
    /// No limit.
    pub const UNLIMITED: Self = Self(0);

    /// The limit of this many requests a second; `None` above the range.
    #[must_use]
    pub const fn new(limit: u32) -> Option<Self> {
        if limit <= Self::MAX { Some(Self(limit)) } else { None }
    }

    /// Reads an integer of the range.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let limit = parse_integer(text, 0, Self::MAX.into(), Self::EXPECTED)?;
        u32::try_from(limit).map(Self).map_err(|_| Expected::new(Self::EXPECTED))
    }

    /// The limit in words.
    #[must_use]
    pub fn text(self) -> Text {
        match self.0 {
            0 => text!("no limit"),
            limit => text!("{limit} a second", limit),
        }
    }

    /// Requests a second; 0 is no limit.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The limit in words: `no limit`, or `5 a second`.
impl fmt::Display for PerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text().english())
    }
}

impl FromStr for PerSecond {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl<'de> Deserialize<'de> for PerSecond {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let limit = i64::deserialize(deserializer)?;
        Self::parse(&limit.to_string())
            .map_err(|_| de::Error::custom(format!("expected {}, got {limit}", Self::EXPECTED)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_0_to_1000000() {
        for (text, limit) in [("0", 0), ("1000000", 1_000_000)] {
            assert_eq!(PerSecond::parse(text).map(PerSecond::get), Ok(limit));
            assert_eq!(PerSecond::new(limit), PerSecond::parse(text).ok());
        }
        for text in ["1000001", "4294967296", "-1", "01", "1.0", "", "many"] {
            assert_eq!(PerSecond::parse(text), Err(Expected::new(PerSecond::EXPECTED)), "{text}");
        }
        assert_eq!(PerSecond::new(1_000_001), None);
        assert!(serde_json::from_str::<PerSecond>("1000001").is_err());
        assert_eq!(serde_json::to_string(&PerSecond::UNLIMITED).unwrap(), "0");
    }
}
