//! Quotas of what an app stores: one range and one refusal for settings, command line, admin API and
//! console (contract 7.3).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::app_settings::AppLimits;
use crate::fields::{Expected, parse_integer};
use crate::text;
use crate::text::Text;

/// A quota of 1 to 1,000,000,000,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Quota(#[schemars(range(min = 1, max = Quota::MAX))] i64);

impl Quota {
    /// The highest quota. A JSON number holds it exactly.
    pub const MAX: i64 = 1_000_000_000_000_000;
    /// The accepted form, in words that follow "expected".
    pub const EXPECTED: &'static str = "an integer from 1 to 1000000000000000";

    /// Reads an integer of the range.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        parse_integer(text, 1, Self::MAX, Self::EXPECTED).map(Self)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Quota {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let quota = i64::deserialize(deserializer)?;
        Self::parse(&quota.to_string())
            .map_err(|_| de::Error::custom(format!("expected {}, got {quota}", Self::EXPECTED)))
    }
}

/// The storage of an app: bytes and numbers of pictures, today and in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageUsage {
    /// Bytes of the images of this day (UTC).
    pub bytes_today: i64,
    /// Bytes of all images.
    pub bytes: i64,
    /// Images of this day (UTC).
    pub images_today: i64,
    /// All images.
    pub images: i64,
}

/// The quotas of an app: its own, or those of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageQuotas {
    /// Bytes of new images a day.
    pub bytes_per_day: Quota,
    /// Bytes of all images.
    pub bytes_max: Quota,
    /// New images a day.
    pub images_per_day: Quota,
    /// All images.
    pub images_max: Quota,
}

impl ImageQuotas {
    /// The same quotas, but for those that the app has of its own.
    #[must_use]
    pub fn with_own(self, own: &AppLimits) -> Self {
        Self {
            bytes_per_day: own.image_bytes_per_day.unwrap_or(self.bytes_per_day),
            bytes_max: own.image_bytes_max.unwrap_or(self.bytes_max),
            images_per_day: own.images_per_day.unwrap_or(self.images_per_day),
            images_max: own.images_max.unwrap_or(self.images_max),
        }
    }

    /// Compares the usage after an upload with the quotas.
    ///
    /// # Errors
    /// The first quota that the upload is past.
    pub fn admit(&self, after: &ImageUsage) -> Result<(), QuotaExceeded> {
        let past = |usage: i64, quota: Quota| usage > quota.get();
        let exceeded = |name, max: Quota, what, is_of_day| QuotaExceeded { name, max, what, is_of_day };
        if past(after.bytes_today, self.bytes_per_day) {
            return Err(exceeded(
                "image_bytes_per_day",
                self.bytes_per_day,
                "bytes of new pictures a day (UTC)",
                true,
            ));
        }
        if past(after.images_today, self.images_per_day) {
            return Err(exceeded("images_per_day", self.images_per_day, "new pictures a day (UTC)", true));
        }
        if past(after.bytes, self.bytes_max) {
            return Err(exceeded("image_bytes_max", self.bytes_max, "bytes of pictures", false));
        }
        if past(after.images, self.images_max) {
            return Err(exceeded("images_max", self.images_max, "pictures", false));
        }
        Ok(())
    }
}

/// An upload that is past a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// The quota.
    name: &'static str,
    max: Quota,
    what: &'static str,
    /// True when the quota is free again at midnight (UTC).
    pub is_of_day: bool,
}

impl QuotaExceeded {
    /// The quota as a text.
    #[must_use]
    pub fn text(&self) -> Text {
        let Self { name, max, what, .. } = self;
        let what = Text::new(what);
        if self.is_of_day {
            text!(
                "{name}: expected at most {max} {what} of this app; wait as Retry-After says",
                name,
                max,
                what
            )
        } else {
            text!(
                "{name}: expected at most {max} {what} of this app; the operator can raise it",
                name,
                max,
                what
            )
        }
    }
}
