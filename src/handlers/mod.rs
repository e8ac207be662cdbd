//! The handlers of the public listener, one file an endpoint, and how they read a request.

pub mod exchange;
pub mod image;
pub mod image_upload;
pub mod order_report;
pub mod token;
pub mod wire;

use crate::error::Refusal;
use crate::store::StoreError;

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let cause = error.to_string();
        match error {
            StoreError::Unavailable(_) | StoreError::PicturesUnavailable(_) | StoreError::Again => {
                Self::unavailable("the service is not available now, try again", cause)
            }
            StoreError::Overloaded => Self::unavailable("the service is overloaded, try again", cause),
            StoreError::Repeated | StoreError::Internal(_) => Self::internal(cause),
        }
    }
}
