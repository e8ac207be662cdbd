//! Commands of operators to pictures (contract 5.5): the block list.

use super::Subject;
use crate::text;

/// A command to a picture of all apps.
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

/// The change of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageReport {
    /// True when the picture was blocked before. A new block replaces its reason.
    pub was_blocked: bool,
    /// Number of images under its block now.
    pub images: u64,
}

refusals! {
    /// There is no such image.
    unknown_image(img_id): Unknown(Subject::Image), text!("there is no image {img_id}", img_id);
    /// The image is not blocked.
    not_blocked(name): Unknown(Subject::Block), text!("there is no block on the image {name}", name);
}
