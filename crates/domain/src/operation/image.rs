//! Commands of operators to pictures (contract 5.5): the block list.

use std::fmt::Display;

use super::{OperationRefusal, RefusalKind, Subject};
use crate::text;

/// What is done to a picture of all apps.
#[derive(Debug, Clone)]
pub enum ImageCommand {
    /// It is not served and not accepted from now on, and neither are its near copies.
    Block {
        /// SHA-256 of its bytes.
        picture: [u8; 32],
        /// The perceptual hashes that find its near copies.
        near_copies: Vec<i64>,
        /// Why, for people.
        reason: String,
    },
    /// Its block ends. Images that another block matches stay blocked.
    Unblock {
        /// SHA-256 of its bytes.
        picture: [u8; 32],
        /// How the operator named it.
        name: String,
    },
}

/// What was done to a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageReport {
    /// True when the picture was blocked before. A new block replaces its reason.
    pub was_blocked: bool,
    /// Number of images under its block now.
    pub images: u64,
}

/// There is no such image.
#[must_use]
pub fn unknown_image(img_id: impl Display) -> OperationRefusal {
    OperationRefusal::new(RefusalKind::Unknown(Subject::Image), text!("there is no image {img_id}", img_id))
}

/// The image is not blocked.
#[must_use]
pub fn not_blocked(name: impl Display) -> OperationRefusal {
    let text = text!("there is no block on the image {name}", name);
    OperationRefusal::new(RefusalKind::Unknown(Subject::Block), text)
}
