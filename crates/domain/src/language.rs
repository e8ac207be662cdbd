//! Languages of texts for people (contract 14).

crate::word_enum! {
    /// A language of texts.
    #[derive(Default)]
    pub enum Language {
        /// English.
        #[default]
        En = "en",
        /// Simplified Chinese.
        Zh = "zh",
    }
}
