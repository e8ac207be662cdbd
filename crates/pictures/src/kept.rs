//! The part of an upload that is kept: the stripped file, its hashes and its perceptual hash.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::perceptual_hash::{HASH_SIDE, PerceptualHash};
use crate::process::process;
use crate::processed::Processed;
use crate::verdict::{Format, Unacceptable};

/// An accepted picture, and everything that is worth storing about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The format by the first bytes.
    pub format: Format,
    /// Width and height in pixels.
    pub side: u32,
    /// SHA-256 of the picture as it came, from its first byte to its last. Bytes after the end do not
    /// count. Two uploads of the same picture have the same value.
    pub sha256: [u8; 32],
    /// The picture without its metadata.
    pub contents: Bytes,
    /// SHA-256 of `contents`.
    pub content_sha256: [u8; 32],
    /// The perceptual hash. `None` for a picture with too little structure.
    pub perceptual_hash: Option<PerceptualHash>,
}

/// Judges, strips and hashes a picture, in one pass over the pixel data.
///
/// # Errors
/// A reason to refuse the picture.
pub fn keep(bytes: &[u8]) -> Result<Kept, Unacceptable> {
    let Processed { picture, contents, reduced } = process(bytes, HASH_SIDE)?;
    Ok(Kept {
        format: picture.format,
        side: picture.side,
        sha256: Sha256::digest(&bytes[..picture.length]).into(),
        content_sha256: Sha256::digest(&contents).into(),
        contents: Bytes::from(contents),
        perceptual_hash: PerceptualHash::of(&reduced),
    })
}
