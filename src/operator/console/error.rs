//! Errors of the console. A handler returns one, and the guard renders it as a page.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::fields::UnreadableFields;
use store::StoreError;

use crate::error::Refusal;

/// Why a page or a change failed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ConsoleError {
    /// The thing that the address names does not exist. The text is a sentence that names it.
    NotFound(String),
    /// A field is invalid. The text is a sentence that names the field.
    BadRequest(String),
    /// Nobody is signed in. After the sign-in the browser goes to this page, if there is one.
    SignInFirst(Option<String>),
    /// A viewer requested what only admins may do.
    AdminsOnly,
    /// No page of this console sent the form.
    Foreign,
    /// The request body was too slow, too large or malformed. It has the status of the transport.
    Unreadable(StatusCode, String),
    /// Too many sign-ins run at the same time.
    Busy,
    Store(StoreError),
}

impl IntoResponse for ConsoleError {
    /// An empty response that carries the error: only the guard knows the user, whom the page names.
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response.extensions_mut().insert(self);
        response
    }
}

impl From<StoreError> for ConsoleError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<UnreadableFields> for ConsoleError {
    fn from(error: UnreadableFields) -> Self {
        Self::BadRequest(format!("{error}."))
    }
}

impl From<Refusal> for ConsoleError {
    fn from(refusal: Refusal) -> Self {
        Self::Unreadable(refusal.transport.unwrap_or(StatusCode::BAD_REQUEST), refusal.message)
    }
}
