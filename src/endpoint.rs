//! The endpoints of the public listener, by name.

/// An endpoint of the public listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// The exchange (contract 3).
    Exchange,
    /// The order report (contract 4).
    OrderReport,
    /// The upload by file (contract 5.1).
    UploadWithFile,
    /// The upload by URL (contract 5.2).
    UploadWithUrl,
    /// The access token (contract 6).
    AccessToken,
    /// A picture.
    Image,
}

impl Endpoint {
    /// Every endpoint, in the order of the enum.
    pub const ALL: [Self; 6] = [
        Self::Exchange,
        Self::OrderReport,
        Self::UploadWithFile,
        Self::UploadWithUrl,
        Self::AccessToken,
        Self::Image,
    ];

    /// Its name among the metrics. It never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exchange => "exchange",
            Self::OrderReport => "order_report",
            Self::UploadWithFile => "upload_with_file",
            Self::UploadWithUrl => "upload_with_url",
            Self::AccessToken => "access_token",
            Self::Image => "image",
        }
    }
}
