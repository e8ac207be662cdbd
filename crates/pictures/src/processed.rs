//! The result of one pass over a picture.

use crate::reduced::Reduced;
use crate::verdict::Picture;

/// The result of [`process`](crate::process()) for an accepted picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processed {
    /// The properties of the picture.
    pub picture: Picture,
    /// The picture without metadata, as a file of the same format.
    pub contents: Vec<u8>,
    /// The picture, made smaller.
    pub reduced: Reduced,
}
