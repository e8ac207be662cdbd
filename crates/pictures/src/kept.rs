//! What is kept of a picture.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::{
    Format, HASH_SIDE, PerceptualHash, Picture, Unacceptable, hashes_of_near_copies, inspect, reduce,
    without_metadata,
};

/// What is kept of a picture that was judged good, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// By its first bytes.
    pub format: Format,
    /// Width and height in pixels.
    pub side: u32,
    /// SHA-256 of the picture as it came, from its first byte to its last: what makes two uploads
    /// the same.
    pub sha256: [u8; 32],
    /// The bytes that are kept and served: the picture without its metadata.
    pub contents: Bytes,
    /// SHA-256 of these.
    pub content_sha256: [u8; 32],
    /// What it looks like; `None` for a picture with too little in it to tell.
    pub perceptual_hash: Option<PerceptualHash>,
}

/// What is kept of the picture that `bytes` begin with and that [`super::inspect`] found there.
/// It takes about as long as that: call it off the async threads.
///
/// # Errors
/// A reason why the picture is not acceptable; there is none for one that was accepted.
pub fn keep(bytes: &[u8], picture: &Picture) -> Result<Kept, Unacceptable> {
    let whole = &bytes[..picture.length.min(bytes.len())];
    let looks = reduce(whole, picture, HASH_SIDE)?;
    let contents = Bytes::from(without_metadata(whole, picture));
    Ok(Kept {
        format: picture.format,
        side: picture.side,
        sha256: Sha256::digest(whole).into(),
        content_sha256: Sha256::digest(&contents).into(),
        contents,
        perceptual_hash: PerceptualHash::of(&looks),
    })
}

/// What a block of a picture is made of: its contents as they are kept, and what its near copies look
/// like (none for one with too little in it to tell). It takes about as long as [`keep`].
///
/// # Errors
/// A reason why the bytes are no acceptable picture.
pub fn marks(bytes: &[u8]) -> Result<(Vec<u8>, Vec<PerceptualHash>), Unacceptable> {
    let picture = inspect(bytes)?;
    let looks = reduce(bytes, &picture, HASH_SIDE)?;
    Ok((without_metadata(bytes, &picture), hashes_of_near_copies(&looks)))
}
