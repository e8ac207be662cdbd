//! Copies a PNG without its metadata, and checks the order and the checksums of its chunks.

use std::io::Cursor;

use png::{ColorType, Decoder};

use super::chunks::{Chunk, Chunks, SIGNATURE, chunk};
use super::profile;
use super::refusals::{corrupt, truncated};
use crate::exif::Orientation;
use crate::verdict::{Unacceptable, check_size};

/// A PNG whose chunks are in order. The image data is not decoded yet.
pub(super) struct Stripped {
    pub(super) header: Header,
    /// The picture without its metadata.
    pub(super) contents: Vec<u8>,
    /// Offset of the first chunk of image data in `contents`.
    pub(super) data_start: usize,
    /// The first chunks of a file that holds the same pixels: header, palette and transparency.
    pub(super) head: Vec<u8>,
    pub(super) orientation: Orientation,
    /// Length of the picture as it came, in bytes.
    pub(super) length: usize,
}

/// The content of the chunk IHDR.
pub(super) struct Header {
    pub(super) side: u32,
    colour: ColorType,
    /// Bits of a sample.
    depth: u8,
    pub(super) is_interlaced: bool,
    /// How many colours the palette has, once it came.
    palette_length: Option<usize>,
}

/// Position of a chunk, relative to the image data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Before,
    During,
    After,
}

/// Reads `bytes`, which begin with [`SIGNATURE`], up to the end chunk.
///
/// Optional chunks are stepped over unread, apart from those that stay. Damage in them is no reason
/// to refuse the picture.
pub(super) fn strip(bytes: &[u8]) -> Result<Stripped, Unacceptable> {
    let mut chunks = Chunks::new(bytes, SIGNATURE.len());
    let first = chunks.read()?;
    let mut header = Header::read(bytes, &first)?;
    let mut contents = Vec::with_capacity(bytes.len());
    contents.extend([&SIGNATURE, first.whole].concat());
    let mut head = contents.clone();
    let (mut stage, mut data_start) = (Stage::Before, 0);
    let (mut seen, mut exif) = (Vec::new(), None);
    loop {
        let chunk = chunks.read()?;
        if chunk.is_critical() {
            chunk.check_sum()?;
        }
        if stage == Stage::During && &chunk.kind != b"IDAT" {
            stage = Stage::After;
        }
        match &chunk.kind {
            b"IEND" => break,
            b"IDAT" => {
                header.check_data(stage)?;
                if stage == Stage::Before {
                    (stage, data_start) = (Stage::During, contents.len());
                }
                contents.extend_from_slice(chunk.whole);
            }
            b"PLTE" => {
                header.check_palette(&chunk, stage)?;
                header.palette_length = Some(chunk.data.len() / 3);
                // In other pictures it is a suggestion for screens of few colours.
                if header.colour == ColorType::Indexed {
                    contents.extend_from_slice(chunk.whole);
                    head.extend_from_slice(chunk.whole);
                }
            }
            b"IHDR" => return Err(corrupt("it has a second IHDR chunk")),
            // Behind the pixels it does not count, so it must not come before them.
            b"eXIf" if stage == Stage::Before && exif.is_none() && chunk.is_whole() => {
                exif = Some(Orientation::parse(chunk.data));
            }
            _ if chunk.is_critical() => {
                return Err(corrupt(format!("it has a critical chunk {} of unknown meaning", chunk.name())));
            }
            _ if stage == Stage::Before
                && header.is_colour_information(&chunk)
                && header.is_in_order(&chunk)
                && !seen.contains(&chunk.kind)
                && chunk.is_whole() =>
            {
                seen.push(chunk.kind);
                // Of many chunks only the first is inflated.
                if &chunk.kind == b"iCCP" && !profile::is_one(chunk.data) {
                    continue;
                }
                contents.extend_from_slice(chunk.whole);
                if &chunk.kind == b"tRNS" {
                    head.extend(header.transparency(chunk.data));
                }
            }
            _ => {}
        }
    }
    if stage == Stage::Before {
        return Err(truncated("it has no image data (IDAT)"));
    }
    contents.extend(chunk(*b"IEND", &[]));
    let orientation = exif.flatten().unwrap_or(Orientation::UPRIGHT);
    if orientation != Orientation::UPRIGHT {
        let exif = chunk(*b"eXIf", &orientation.to_tiff());
        contents.splice(data_start..data_start, exif.iter().copied());
        data_start += exif.len();
    }
    Ok(Stripped { header, contents, data_start, head, orientation, length: chunks.position })
}

impl Header {
    /// `first` is the first chunk of `bytes`.
    fn read(bytes: &[u8], first: &Chunk<'_>) -> Result<Self, Unacceptable> {
        if &first.kind != b"IHDR" {
            return Err(corrupt(format!("it begins with the chunk {}, not IHDR", first.name())));
        }
        first.check_sum()?;
        let &[w0, w1, w2, w3, h0, h1, h2, h3, depth, kind, compression, filter, interlace] = first.data
        else {
            let length = first.data.len();
            return Err(corrupt(format!("its header (IHDR) is {length} bytes long; 13 are expected")));
        };
        let side = check_size(u32::from_be_bytes([w0, w1, w2, w3]), u32::from_be_bytes([h0, h1, h2, h3]))?;
        let mut decoder = Decoder::new(Cursor::new(bytes));
        let info = decoder.read_header_info().map_err(|_| {
            corrupt(format!(
                "there is no PNG of colour type {kind}, bit depth {depth}, compression {compression}, \
                 filter {filter} and interlace {interlace}"
            ))
        })?;
        let (colour, depth) = (info.color_type, info.bit_depth as u8);
        Ok(Self { side, colour, depth, is_interlaced: info.interlaced, palette_length: None })
    }

    fn check_data(&self, stage: Stage) -> Result<(), Unacceptable> {
        match stage {
            Stage::Before if self.colour == ColorType::Indexed && self.palette_length.is_none() => Err(
                corrupt("its colours are palette numbers, and no palette (PLTE) comes before the image data"),
            ),
            Stage::Before | Stage::During => Ok(()),
            Stage::After => Err(corrupt("its image data (IDAT) is interrupted by other chunks")),
        }
    }

    /// In a picture without palette numbers the length of a palette does not matter.
    fn check_palette(&self, chunk: &Chunk<'_>, stage: Stage) -> Result<(), Unacceptable> {
        let length = chunk.data.len();
        if self.palette_length.is_some() {
            Err(corrupt("it has a second palette (PLTE)"))
        } else if stage != Stage::Before {
            Err(corrupt("its palette (PLTE) comes after the image data"))
        } else if self.colour == ColorType::Indexed
            && !((3..=768).contains(&length) && length.is_multiple_of(3))
        {
            Err(corrupt(format!(
                "its palette (PLTE) is {length} bytes long; 3 to 768, in threes, are expected"
            )))
        } else {
            Ok(())
        }
    }

    /// Whether a chunk would count as much without the palette, which is not kept where no pixel uses it. Behind a
    /// palette, these chunks are out of place, and programs ignore them there.
    fn is_in_order(&self, chunk: &Chunk<'_>) -> bool {
        let is_of_front = matches!(&chunk.kind, b"iCCP" | b"sRGB" | b"gAMA" | b"cICP" | b"cHRM" | b"sBIT");
        !(is_of_front && self.palette_length.is_some() && self.colour != ColorType::Indexed)
    }

    /// The chunk tRNS for the decoder, which compares all bits of a grey value. Only those of the depth count (PNG,
    /// 11.3.1.1).
    fn transparency(&self, data: &[u8]) -> Vec<u8> {
        match data {
            &[high, low] if self.colour == ColorType::Grayscale && self.depth < 8 => {
                chunk(*b"tRNS", &[high, low & ((1_u8 << self.depth) - 1)])
            }
            _ => chunk(*b"tRNS", data),
        }
    }

    /// Whether a chunk describes the colours, in the length that the format defines. Decoders ignore
    /// a longer one, and it could hold anything.
    fn is_colour_information(&self, chunk: &Chunk<'_>) -> bool {
        let length = chunk.data.len();
        match &chunk.kind {
            b"iCCP" => true,
            b"sRGB" => length == 1,
            b"gAMA" | b"cICP" => length == 4,
            b"pHYs" => length == 9,
            b"cHRM" => length == 32,
            b"sBIT" => length <= 4,
            b"bKGD" => length <= 6,
            b"tRNS" => match self.colour {
                ColorType::Grayscale => length == 2,
                ColorType::Rgb => length == 6,
                ColorType::Indexed => (1..=self.palette_length.unwrap_or_default()).contains(&length),
                ColorType::GrayscaleAlpha | ColorType::Rgba => false,
            },
            _ => false,
        }
    }
}
