//! Errors of object stores. Their messages may be logged.

use domain::picture_store::Outside;

/// Maximum length of a message.
const COMPLAINT_CHARS_MAX: usize = 300;

/// The reason why an object was not written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectStoreError {
    /// There is no such object.
    #[error("it is missing")]
    Missing,
    /// The object does not hold the expected bytes.
    #[error("{0}")]
    Wrong(String),
    /// The store does not answer, refuses, or has no room.
    #[error("{0}")]
    Unavailable(String),
}

/// The error of a store that does not answer, with its cause.
pub(super) fn unavailable(cause: impl std::fmt::Display) -> ObjectStoreError {
    ObjectStoreError::Unavailable(cause.to_string())
}

/// The error of a store that the settings do not name.
pub(super) fn not_set(outside: Outside) -> ObjectStoreError {
    let setting = match outside {
        Outside::Folder => "image.folder",
        Outside::S3 => "s3.bucket",
    };
    ObjectStoreError::Unavailable(format!("{setting} is not set"))
}

/// Converts an error, without anything that a store echoes (signatures, keys).
pub(super) fn error_of(error: &object_store::Error) -> ObjectStoreError {
    if matches!(error, object_store::Error::NotFound { .. }) {
        return ObjectStoreError::Missing;
    }
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        let words = error.to_string();
        // An S3 store explains the error in XML. Its code is enough.
        let told = words.split('<').next().unwrap_or_default().trim_end_matches([' ', ':']);
        if !told.is_empty() && !text.contains(told) {
            text = if text.is_empty() { told.to_owned() } else { format!("{text}: {told}") };
        }
        if let Some((_, code)) = words.split_once("<Code>") {
            let code = code.split('<').next().unwrap_or_default();
            if !text.contains(code) {
                text = format!("{text} ({code})");
            }
        }
        cause = error.source();
    }
    ObjectStoreError::Unavailable(text.chars().take(COMPLAINT_CHARS_MAX).collect())
}
