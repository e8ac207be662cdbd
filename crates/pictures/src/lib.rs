//! Processing of uploaded images: validates PNG and JPEG files, strips their metadata (EXIF, XMP,
//! IPTC, comments), and makes thumbnails and perceptual hashes. The memory is bounded for any input.
//!
//! [`process`] does it all in one pass over the pixel data. It checks every byte that a decoder needs, copies the
//! picture without its metadata, and makes a small picture of it. The picture in full size is never in memory. Of a
//! [`Reduced`] picture, [`thumbnail`] makes a file, and [`PerceptualHash`] finds near copies.
//!
//! All functions are pure. They need up to a second of processor time, so call them on a thread that
//! may block. README.md has an example, the limits and figures.

mod boxes;
mod exif;
mod jpeg;
mod kept;
mod other_formats;
mod perceptual_hash;
mod png;
mod process;
mod processed;
mod reduced;
#[cfg(test)]
mod tests;
mod thumbnail;
mod verdict;

pub use self::kept::{Kept, keep};
pub use self::perceptual_hash::{HASH_SIDE, NEAR_COPY_DISTANCE_MAX, PerceptualHash, hashes_of_near_copies};
pub use self::process::{inspect, process, reduce};
pub use self::processed::Processed;
pub use self::reduced::Reduced;
pub use self::thumbnail::{Thumbnail, thumbnail};
pub use self::verdict::{BYTES_MAX, Format, PIXELS_MAX, Picture, Unacceptable};
