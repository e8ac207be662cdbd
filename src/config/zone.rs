//! A time zone of the settings, by its IANA name.

use std::fmt;
use std::str::FromStr;

use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer, de};

/// A time zone, such as Asia/Shanghai.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone with its rules.
    #[must_use]
    pub fn time_zone(&self) -> TimeZone {
        self.0.clone()
    }
}

impl FromStr for Zone {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = TimeZone::get(name).ok().filter(|zone| zone.iana_name().is_some());
        known.map(Self).ok_or_else(|| {
            format!("expected the IANA name of a time zone, such as UTC or Asia/Shanghai, got {name:?}")
        })
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.iana_name().unwrap_or("UTC"))
    }
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
