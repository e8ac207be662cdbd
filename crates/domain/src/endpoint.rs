//! The endpoints of the public API, by name.

crate::word_enum! {
    /// An endpoint of the public API. Its word is its name in the metrics, which never changes.
    pub enum Endpoint {
        /// The exchange (contract 3).
        Exchange = "exchange",
        /// The present (contract 10.3).
        Present = "present",
        /// The cancel (contract 10.4).
        Cancel = "cancel",
        /// The balance (contract 10.6).
        Balance = "balance",
        /// The query (contract 10.5).
        Query = "query",
        /// The order of a top-up (contract 19.2).
        Topup = "topup",
        /// The order report (contract 4).
        OrderReport = "order_report",
        /// The upload by file (contract 5.1).
        UploadWithFile = "upload_with_file",
        /// The upload by URL (contract 5.2).
        UploadWithUrl = "upload_with_url",
        /// The access token (contract 6).
        AccessToken = "access_token",
        /// The login (contract 11).
        Login = "login",
        /// A served picture (contract 5.7).
        Image = "image",
        /// A callback of a payment provider (contract 19.4).
        Callback = "callback",
        /// The test world of a sandbox app (contract 15).
        Sandbox = "sandbox",
    }
}

impl Endpoint {
    /// The name in documents, which links nothing and is short.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Exchange => "exchange",
            Self::Present => "present",
            Self::Cancel => "cancel",
            Self::Balance => "balance",
            Self::Query => "query",
            Self::Topup => "topup",
            Self::OrderReport => "report",
            Self::UploadWithFile => "upload by file",
            Self::UploadWithUrl => "upload by URL",
            Self::AccessToken => "token",
            Self::Login => "login",
            Self::Image => "served pictures",
            Self::Callback => "callback",
            Self::Sandbox => "sandbox",
        }
    }

    /// Whether a sandbox app can ask for faults of its answers.
    #[must_use]
    pub const fn has_faults(self) -> bool {
        !matches!(self, Self::Image | Self::Callback | Self::Sandbox)
    }
}
