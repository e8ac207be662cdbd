//! The public listener: its routes, who calls, how a request is read, and one file an endpoint.

mod app_secret;
pub mod auth;
mod callback;
pub mod called_app;
mod describe;
pub mod docs;
mod document;
pub mod extract;
mod fault;
pub mod image;
pub mod image_upload;
pub mod login;
pub mod order_report;
pub mod router;
pub mod routes;
pub mod sandbox;
pub mod token;
pub mod wallet;

pub use document::{DescribedCall, calls, document};
use store::StoreError;

use crate::http::refusal::Refusal;

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let cause = error.to_string();
        match error {
            StoreError::Unavailable(..) | StoreError::PicturesUnavailable(_) | StoreError::Again => {
                Self::unavailable("the service is not available now, try again", cause)
            }
            StoreError::Overloaded => Self::unavailable("the service is overloaded, try again", cause),
            StoreError::Repeated | StoreError::Internal(_) => Self::internal(cause),
        }
    }
}
