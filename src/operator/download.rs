//! Files of the console and of the admin API: a browser keeps them instead of showing them.

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};

use super::workbook::FileFormat;

/// The header that says that an answer is a file, and its name.
pub(super) fn disposition(name: &str) -> String {
    format!("attachment; filename=\"{name}\"")
}

/// A file of this name.
pub(super) fn download(name: &str, media_type: &'static str, content: impl Into<Body>) -> Response {
    let disposition = disposition(name);
    let headers = [(header::CONTENT_TYPE, media_type), (header::CONTENT_DISPOSITION, disposition.as_str())];
    (headers, content.into()).into_response()
}

/// A file of this format. The format is the end of its name.
pub(super) fn report_file(name: &str, format: FileFormat, content: impl Into<Body>) -> Response {
    download(&format!("{name}.{format}"), format.media_type(), content)
}
