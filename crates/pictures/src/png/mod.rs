//! Walks through a PNG, chunk by chunk, and inflates its rows without keeping them (contract 5).
//!
//! Only the four critical chunks are looked at. All others, text, colour profiles and the frames
//! of an animation among them, are stepped over unread, so they cost nothing and damage in them
//! is no reason to refuse.

mod pixels;
mod reduce;
mod strip;
#[cfg(test)]
mod tests;

pub(super) use self::reduce::reduce;
pub(super) use self::strip::without_metadata;

use self::pixels::{Pixels, RowGroup};
use super::{Format, Picture, Unacceptable, check_size};

/// The first bytes of every PNG.
pub(super) const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// The format's own limit for the length of a chunk, in bytes.
const CHUNK_BYTES_MAX: usize = 0x7fff_ffff;
/// Each pass of an interlaced picture: first column, first row, step between columns, between rows.
const PASSES: [(u32, u32, u32, u32); 7] =
    [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)];

/// Judges `bytes`, which begin with [`SIGNATURE`].
pub(super) fn inspect(bytes: &[u8]) -> Result<Picture, Unacceptable> {
    let mut chunks = Chunks::new(bytes);
    let header = read_header(&mut chunks)?;
    let mut pixels = Pixels::new(header.row_groups());
    let mut stage = Stage::Before { palette: false };
    loop {
        let chunk = chunks.read()?;
        if !chunk.is_critical() {
            stage = stage.past_other_chunk();
            continue;
        }
        chunk.check_sum()?;
        match &chunk.kind {
            b"PLTE" => stage = stage.with_palette(&header, chunk.data)?,
            b"IDAT" => {
                stage = stage.with_data(&header)?;
                pixels.take(chunk.data)?;
            }
            b"IEND" => break,
            b"IHDR" => return Err(corrupt("it has a second IHDR chunk")),
            _ => return Err(corrupt(format!("it has a critical chunk {} of unknown meaning", chunk.name()))),
        }
    }
    match stage {
        Stage::Before { .. } => Err(truncated("it has no image data (IDAT)")),
        Stage::During | Stage::After => {
            pixels.finish()?;
            Ok(Picture { format: Format::Png, side: header.side, length: chunks.position })
        }
    }
}

fn read_header(chunks: &mut Chunks<'_>) -> Result<Header, Unacceptable> {
    let first = chunks.read()?;
    if first.kind != *b"IHDR" {
        return Err(corrupt(format!("it begins with the chunk {}, not IHDR", first.name())));
    }
    first.check_sum()?;
    Header::parse(first.data)
}

fn corrupt(detail: impl Into<String>) -> Unacceptable {
    Unacceptable::Corrupt { format: Format::Png, detail: detail.into() }
}

fn truncated(detail: impl Into<String>) -> Unacceptable {
    Unacceptable::Truncated { format: Format::Png, detail: detail.into() }
}

/// The chunks of a file, in order.
struct Chunks<'a> {
    bytes: &'a [u8],
    /// Offset of the next chunk.
    position: usize,
}

struct Chunk<'a> {
    kind: [u8; 4],
    data: &'a [u8],
    /// Kind and data together, which the checksum covers.
    summed: &'a [u8],
    sum: u32,
}

impl<'a> Chunks<'a> {
    /// `bytes` begin with [`SIGNATURE`].
    const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: SIGNATURE.len() }
    }

    fn read(&mut self) -> Result<Chunk<'a>, Unacceptable> {
        let rest = &self.bytes[self.position..];
        let Some((length, rest)) = rest.split_first_chunk::<4>() else {
            return Err(truncated("its end chunk (IEND) is missing"));
        };
        let Some(kind) = rest.first_chunk::<4>() else {
            return Err(truncated("it ends inside the head of a chunk"));
        };
        if !kind.iter().all(u8::is_ascii_alphabetic) {
            return Err(corrupt(format!("no chunk begins at byte {}, where one is due", self.position)));
        }
        let name = String::from_utf8_lossy(kind);
        let length = u32::from_be_bytes(*length) as usize;
        if length > CHUNK_BYTES_MAX {
            return Err(corrupt(format!("the chunk {name} claims {length} bytes")));
        }
        let whole = rest.split_at_checked(kind.len() + length);
        let Some((summed, Some(sum))) = whole.map(|(summed, rest)| (summed, rest.first_chunk::<4>())) else {
            let missing = kind.len() + length + 4 - rest.len();
            return Err(truncated(format!("the last {missing} bytes of its chunk {name} are missing")));
        };
        self.position += 4 + summed.len() + 4;
        Ok(Chunk { kind: *kind, data: &summed[kind.len()..], summed, sum: u32::from_be_bytes(*sum) })
    }
}

impl Chunk<'_> {
    /// A decoder may not go on without understanding a critical chunk; upper case says so.
    fn is_critical(&self) -> bool {
        self.kind[0].is_ascii_uppercase()
    }

    fn name(&self) -> String {
        String::from_utf8_lossy(&self.kind).into_owned()
    }

    fn check_sum(&self) -> Result<(), Unacceptable> {
        if crc32fast::hash(self.summed) == self.sum {
            Ok(())
        } else {
            Err(corrupt(format!("the checksum of its chunk {} does not match", self.name())))
        }
    }
}

/// Where the walk stands, seen from the image data.
#[derive(Clone, Copy)]
enum Stage {
    Before { palette: bool },
    During,
    After,
}

impl Stage {
    fn past_other_chunk(self) -> Self {
        match self {
            Self::Before { .. } => self,
            Self::During | Self::After => Self::After,
        }
    }

    /// In a greyscale picture a palette has no meaning, and every decoder passes over it.
    fn with_palette(self, header: &Header, data: &[u8]) -> Result<Self, Unacceptable> {
        match self {
            Self::Before { palette: false } => {}
            Self::Before { palette: true } => return Err(corrupt("it has a second palette (PLTE)")),
            Self::During | Self::After => {
                return Err(corrupt("its palette (PLTE) comes after the image data"));
            }
        }
        if header.colour == Colour::Indexed
            && (data.is_empty() || data.len() > 768 || !data.len().is_multiple_of(3))
        {
            return Err(corrupt(format!(
                "its palette (PLTE) is {} bytes long; 3 to 768, in threes, are expected",
                data.len()
            )));
        }
        Ok(Self::Before { palette: true })
    }

    fn with_data(self, header: &Header) -> Result<Self, Unacceptable> {
        match self {
            Self::Before { palette: false } if header.colour == Colour::Indexed => Err(corrupt(
                "its colours are palette numbers, and no palette (PLTE) comes before the image data",
            )),
            Self::Before { .. } | Self::During => Ok(Self::During),
            Self::After => Err(corrupt("its image data (IDAT) is interrupted by other chunks")),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Colour {
    Grey,
    Rgb,
    Indexed,
    GreyAlpha,
    Rgba,
}

impl Colour {
    /// The colour type and bit depth of a header, where the format knows them.
    fn parse(kind: u8, depth: u8) -> Option<Self> {
        match (kind, depth) {
            (0, 1 | 2 | 4 | 8 | 16) => Some(Self::Grey),
            (2, 8 | 16) => Some(Self::Rgb),
            (3, 1 | 2 | 4 | 8) => Some(Self::Indexed),
            (4, 8 | 16) => Some(Self::GreyAlpha),
            (6, 8 | 16) => Some(Self::Rgba),
            _ => None,
        }
    }

    const fn samples(self) -> u32 {
        match self {
            Self::Grey | Self::Indexed => 1,
            Self::GreyAlpha => 2,
            Self::Rgb => 3,
            Self::Rgba => 4,
        }
    }
}

struct Header {
    side: u32,
    colour: Colour,
    bits_per_pixel: u32,
    interlaced: bool,
}

impl Header {
    fn parse(data: &[u8]) -> Result<Self, Unacceptable> {
        let &[w0, w1, w2, w3, h0, h1, h2, h3, depth, kind, compression, filter, interlace] = data else {
            return Err(corrupt(format!("its header (IHDR) is {} bytes long; 13 are expected", data.len())));
        };
        let side = check_size(u32::from_be_bytes([w0, w1, w2, w3]), u32::from_be_bytes([h0, h1, h2, h3]))?;
        let Some(colour) = Colour::parse(kind, depth) else {
            return Err(corrupt(format!("there is no colour type {kind} with bit depth {depth}")));
        };
        if compression != 0 || filter != 0 || interlace > 1 {
            return Err(corrupt(format!(
                "compression {compression}, filter {filter} and interlace {interlace} of its header are not known"
            )));
        }
        let bits_per_pixel = colour.samples() * u32::from(depth);
        Ok(Self { side, colour, bits_per_pixel, interlaced: interlace == 1 })
    }

    /// The rows of the image data in their order, as groups of equal length.
    fn row_groups(&self) -> Vec<RowGroup> {
        let groups = self.passes().into_iter().map(|pass| RowGroup {
            rows: pass.rows,
            // At most 7,071 pixels of 64 bits, and one byte for the filter type.
            row_bytes: 1 + (pass.columns * self.bits_per_pixel).div_ceil(8) as usize,
        });
        groups.collect()
    }

    /// Where each row of the image data belongs, in the order of the data.
    fn row_places(&self) -> impl Iterator<Item = RowPlace> + use<> {
        self.passes().into_iter().flat_map(|Pass { rows, first: (x, y), step: (across, down), .. }| {
            (0..rows).map(move |row| RowPlace { x, y: y + row * down, step: across })
        })
    }

    /// The passes of which there is anything; without interlacing it is one. A pass without any
    /// column has no rows either.
    fn passes(&self) -> Vec<Pass> {
        let passes: &[_] = if self.interlaced { &PASSES } else { &[(0, 0, 1, 1)] };
        let steps = |first: u32, step: u32| self.side.saturating_sub(first).div_ceil(step);
        let passes = passes.iter().map(|&(x, y, across, down)| Pass {
            first: (x, y),
            step: (across, down),
            columns: steps(x, across),
            rows: steps(y, down),
        });
        passes.filter(|pass| pass.columns > 0 && pass.rows > 0).collect()
    }
}

/// Pixels that follow each other in the image data, row by row.
struct Pass {
    /// Column and row of the first pixel.
    first: (u32, u32),
    /// From one column, or row, to the next.
    step: (u32, u32),
    columns: u32,
    rows: u32,
}

/// Where in the picture a row of the image data belongs.
struct RowPlace {
    /// Column of the first pixel, and from one pixel to the next.
    x: u32,
    step: u32,
    y: u32,
}
