//! A small picture of a PNG, row by row.

use std::io::Cursor;

use png::{BitDepth, ColorType, Decoder, DecodingError, Transformations};

use super::super::Unacceptable;
use super::super::boxes::Boxes;
use super::super::exif::Orientation;
use super::{Chunks, RowPlace, corrupt, read_header, strip};

/// Reads `bytes` as a picture of `side` pixels, `small` (at most `side`) across and down. Gives
/// its pixels and how they are to be turned.
pub(in super::super) fn reduce(
    bytes: &[u8],
    side: u32,
    small: u32,
) -> Result<(Vec<[u8; 4]>, Orientation), Unacceptable> {
    // The decoder sees neither text nor profiles nor anything else that it could trip over.
    let places = read_header(&mut Chunks::new(bytes))?.row_places();
    let boxes = average(&strip::bare(bytes), places, side, small)
        .map_err(|error| corrupt(format!("its pixels cannot be read ({error})")))?;
    Ok((boxes.averages(), strip::orientation(bytes)))
}

fn average(
    bare: &[u8],
    places: impl Iterator<Item = RowPlace>,
    side: u32,
    small: u32,
) -> Result<Boxes, DecodingError> {
    let mut decoder = Decoder::new(Cursor::new(bare));
    // 16 bits become 8, palette numbers colours, and transparent colours an alpha of zero.
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let mut reader = decoder.read_info()?;
    let (colour, depth) = reader.output_color_type();
    debug_assert_eq!(depth, BitDepth::Eight, "the transformations ask for it");
    let mut boxes = Boxes::new(side, 1, small);
    for RowPlace { x, y, step } in places {
        let Some(row) = reader.next_interlaced_row()? else { break };
        let (x, y, step) = (x as usize, y as usize, step as usize);
        let data = row.data();
        match colour {
            ColorType::Grayscale => boxes.add_row(y, x, step, data.iter().map(|&v| [v, v, v, 255])),
            ColorType::GrayscaleAlpha => {
                let pixels = data.as_chunks().0.iter();
                boxes.add_row(y, x, step, pixels.map(|&[v, alpha]| [v, v, v, alpha]));
            }
            ColorType::Rgb | ColorType::Indexed => {
                let pixels = data.as_chunks().0.iter();
                boxes.add_row(y, x, step, pixels.map(|&[red, green, blue]| [red, green, blue, 255]));
            }
            ColorType::Rgba => boxes.add_row(y, x, step, data.as_chunks().0.iter().copied()),
        }
    }
    Ok(boxes)
}
