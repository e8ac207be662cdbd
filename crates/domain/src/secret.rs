//! A text that is never printed: app secrets and settings that hold keys.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

/// A secret text. `Debug` shows only whether it is set. An empty text means not set.
#[derive(Clone, Default)]
pub struct Secret(String);

impl Secret {
    /// A secret with this text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, or `None` when it is not set.
    #[must_use]
    pub fn get(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(self.0.as_str())
    }

    /// The text; empty when it is not set.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// The error about a value that is not a text does not show it, as the usual error would.
impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer);
        text.map(Self).map_err(|_| de::Error::custom("expected a text in quotes"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "unset" } else { "set" })
    }
}
