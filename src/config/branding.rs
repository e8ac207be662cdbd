//! Branding of the console: a name, and the colour of a band, which tell this installation from others.

use domain::fields::Expected;

domain::word_enum! {
    /// The colour of the band at the top of each page of the console.
    #[derive(Default)]
    pub enum Colour {
        /// No band.
        #[default]
        None = "none",
        /// Such as a test.
        Green = "green",
        /// Such as a sandbox.
        Blue = "blue",
        /// Such as a stage before production.
        Amber = "amber",
        /// Such as production.
        Red = "red",
    }
}

/// The name of an installation: one line of 1 to 40 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallationName(String);

impl InstallationName {
    /// Longest name, in characters.
    const CHARS_MAX: usize = 40;

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads a name.
    ///
    /// # Errors
    /// Text that is too long, blank, or has a control character.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let is_line = !text.trim().is_empty() && !text.chars().any(char::is_control);
        let fits = is_line && text.chars().count() <= Self::CHARS_MAX;
        fits.then(|| Self(text.trim().to_owned()))
            .ok_or_else(|| Expected::new("one line of 1 to 40 characters"))
    }
}

domain::text_traits!(InstallationName, { "type": "string", "minLength": 1, "maxLength": 40 });
