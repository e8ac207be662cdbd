//! JPEG (ITU-T T.81): the verdict, the copy without metadata, and the small picture.
//!
//! Decoders that show pictures fill missing parts with grey and continue. This one notices them: it
//! reads every scan to its end. Where the standard leaves room it follows libjpeg. A picture that
//! libjpeg decodes without a warning is accepted.

mod bits;
mod coefficients;
mod colours;
mod decoder;
mod entropy;
mod frame;
mod huffman;
mod reduce;
mod refusals;
mod scan;
mod segments;
mod strip;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use self::decoder::{FIRST_BYTES, Purpose};
pub(crate) use self::reduce::decode;
pub(crate) use self::strip::without_metadata;
