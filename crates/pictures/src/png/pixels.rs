//! Decodes the image data of a PNG row by row, and averages it to a small picture.

use std::io::{BufRead, Chain, Error, ErrorKind, Read, Seek, SeekFrom};

use fdeflate::{DecompressionError, Decompressor};
use png::{BitDepth, ColorType, DecodeOptions, Decoder, DecodingError, Info, Transformations};

use super::chunks::Chunks;
use super::refusals::{corrupt, truncated};
use super::strip::Stripped;
use crate::boxes::Boxes;
use crate::verdict::Unacceptable;

/// Each pass of an interlaced picture: first column, first row, step between columns, between rows.
const PASSES: [(u32, u32, u32, u32); 7] =
    [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)];
/// The only pass of another picture.
const ONE_PASS: [(u32, u32, u32, u32); 1] = [(0, 0, 1, 1)];
/// How the decoder says that the zlib stream ended before a row. If a new version says it otherwise,
/// every stream is inflated twice: slower, with the same verdict.
const NO_MORE_DATA: &str = "IDAT or fDAT chunk does not have enough data for image.";
/// Offset of the picture's height in a file.
const HEIGHT: usize = 20;
/// How far back deflate may refer, in bytes. So much of the output must stay in the buffer.
const WINDOW_BYTES: usize = 32 * 1024;
const BUFFER_BYTES: usize = 4 * WINDOW_BYTES;

/// Rows of pixels that follow each other in the image data.
struct Pass {
    /// Column and row of the first pixel.
    first: (u32, u32),
    /// From one column to the next, and from one row to the next.
    step: (u32, u32),
    columns: u32,
    rows: u32,
}

/// How far the decoder came.
struct Progress {
    rows_read: u32,
    /// Length of the image data in bytes, inflated.
    bytes: usize,
    /// The zlib stream ended before another row, and its checksum matches.
    ended_well: bool,
    boxes: Boxes,
}

/// Decodes all rows. Gives the pixels of a picture that is `small` pixels wide.
pub(super) fn read(stripped: &Stripped, small: u32) -> Result<Vec<[u8; 4]>, Unacceptable> {
    let side = stripped.header.side;
    let passes = passes(side, stripped.header.is_interlaced);
    let rows: u32 = passes.iter().map(|pass| pass.rows).sum();
    // The decoder stops after the last row, which may be before the end of the zlib stream. So it looks
    // for one row more than there is, and finds the end of the stream instead. The passes of an
    // interlaced picture leave no place for such a row.
    let height = if stripped.header.is_interlaced { side } else { side + 1 };
    let mut progress = decode(stripped, &passes, small, height);
    if progress.rows_read < rows || !progress.ended_well {
        // The errors of the decoder do not say whether data is missing or wrong. Inflating the data once
        // more does.
        check_stream(stripped, progress.bytes)?;
    }
    if progress.rows_read < rows {
        // The stream may end inside the row that is too many.
        progress = decode(stripped, &passes, small, side);
    }
    if progress.rows_read < rows {
        let row = progress.rows_read + 1;
        return Err(corrupt(format!("row {row} of {rows} has an unknown filter type")));
    }
    Ok(progress.boxes.averages())
}

/// Decodes as many rows as there are, as if the picture were `height` pixels high.
fn decode(stripped: &Stripped, passes: &[Pass], small: u32, height: u32) -> Progress {
    let boxes = Boxes::new(stripped.header.side, 1, small);
    let mut progress = Progress { rows_read: 0, bytes: 0, ended_well: false, boxes };
    let mut head = stripped.head.clone();
    head[HEIGHT..HEIGHT + 4].copy_from_slice(&height.to_be_bytes());
    let file = Joined((&head[..]).chain(&stripped.contents[stripped.data_start..]));
    if let Err(error) = decode_rows(file, passes, &mut progress) {
        progress.ended_well = error.to_string() == NO_MORE_DATA;
    }
    progress
}

fn decode_rows(file: Joined<'_>, passes: &[Pass], progress: &mut Progress) -> Result<(), DecodingError> {
    let mut options = DecodeOptions::default();
    options.set_ignore_adler32(false);
    // The checksums of the chunks were compared before.
    options.set_ignore_crc(true);
    let mut decoder = Decoder::new_with_options(file, options);
    // 16 bits become 8, palette numbers colours, and transparent colours an alpha of zero.
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let mut reader = decoder.read_info()?;
    progress.bytes = data_bytes(reader.info(), passes);
    let (colour, depth) = reader.output_color_type();
    debug_assert_eq!(depth, BitDepth::Eight, "the transformations ask for it");
    for pass in passes {
        for row in 0..pass.rows {
            let Some(pixels) = reader.next_interlaced_row()? else { return Ok(()) };
            let (x, y) = (pass.first.0 as usize, (pass.first.1 + row * pass.step.1) as usize);
            add_row(&mut progress.boxes, (x, y, pass.step.0 as usize), colour, pixels.data());
            progress.rows_read += 1;
        }
    }
    reader.next_interlaced_row().map(|_| ())
}

fn add_row(boxes: &mut Boxes, (x, y, step): (usize, usize, usize), colour: ColorType, row: &[u8]) {
    match colour {
        ColorType::Grayscale => boxes.add_row(y, x, step, row.iter().map(|&v| [v, v, v, 255])),
        ColorType::GrayscaleAlpha => {
            let pixels = row.as_chunks().0.iter();
            boxes.add_row(y, x, step, pixels.map(|&[v, alpha]| [v, v, v, alpha]));
        }
        ColorType::Rgb | ColorType::Indexed => {
            let pixels = row.as_chunks().0.iter();
            boxes.add_row(y, x, step, pixels.map(|&[red, green, blue]| [red, green, blue, 255]));
        }
        ColorType::Rgba => boxes.add_row(y, x, step, row.as_chunks().0.iter().copied()),
    }
}

/// The passes that have pixels.
fn passes(side: u32, is_interlaced: bool) -> Vec<Pass> {
    let passes = if is_interlaced { &PASSES[..] } else { &ONE_PASS };
    let steps = |first: u32, step: u32| side.saturating_sub(first).div_ceil(step);
    let passes = passes.iter().map(|&(x, y, across, down)| Pass {
        first: (x, y),
        step: (across, down),
        columns: steps(x, across),
        rows: steps(y, down),
    });
    passes.filter(|pass| pass.columns > 0 && pass.rows > 0).collect()
}

/// Length of all rows in bytes. Each begins with a byte for its filter type.
fn data_bytes(info: &Info<'_>, passes: &[Pass]) -> usize {
    passes.iter().map(|pass| info.raw_row_length_from_width(pass.columns) * pass.rows as usize).sum()
}

/// Inflates the image data to its end, and keeps nothing. It must have at least `bytes` bytes. More data
/// is allowed, and not inflated.
fn check_stream(stripped: &Stripped, bytes: usize) -> Result<(), Unacceptable> {
    let mut chunks = Chunks::new(&stripped.contents, stripped.data_start);
    let mut inflater = Decompressor::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut filled, mut total, mut is_last, mut input) = (0, 0, false, &[][..]);
    while !inflater.is_done() {
        if input.is_empty() && !is_last {
            let chunk = chunks.read()?;
            (input, is_last) = (chunk.data, &chunk.kind == b"IEND");
        }
        if filled > BUFFER_BYTES - WINDOW_BYTES {
            buffer.copy_within(filled - WINDOW_BYTES..filled, 0);
            filled = WINDOW_BYTES;
        }
        let read = inflater.read(input, &mut buffer, filled, is_last);
        let (consumed, produced) = read.map_err(|error| match error {
            DecompressionError::InsufficientInput => cut(total, bytes),
            DecompressionError::WrongChecksum => corrupt("the checksum of its image data does not match"),
            _ => corrupt("its image data cannot be inflated"),
        })?;
        input = &input[consumed..];
        filled += produced;
        total += produced;
        if total > bytes {
            return Ok(());
        }
        if is_last && consumed == 0 && produced == 0 && !inflater.is_done() {
            return Err(corrupt("its image data cannot be inflated"));
        }
    }
    if total < bytes { Err(cut(total, bytes)) } else { Ok(()) }
}

fn cut(total: usize, bytes: usize) -> Unacceptable {
    if total < bytes {
        truncated(format!("its image data ends after {total} of {bytes} bytes"))
    } else {
        truncated("the end of its image data is missing")
    }
}

/// Two slices, read as one file. The decoder asks for [`Seek`], and never uses it.
struct Joined<'a>(Chain<&'a [u8], &'a [u8]>);

impl Read for Joined<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.0.read(buffer)
    }
}

impl BufRead for Joined<'_> {
    fn fill_buf(&mut self) -> Result<&[u8], Error> {
        self.0.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.0.consume(count);
    }
}

impl Seek for Joined<'_> {
    fn seek(&mut self, _: SeekFrom) -> Result<u64, Error> {
        Err(ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::strip::strip;
    use super::*;

    /// Otherwise every picture is inflated twice.
    #[test]
    fn the_decoder_reports_that_a_stream_ended_well() {
        let bytes = include_bytes!("../../../../tests/pictures/truecolour.png");
        let progress = decode(&strip(bytes).unwrap(), &passes(16, false), 1, 17);
        assert!(progress.ended_well);
        assert_eq!((progress.rows_read, progress.bytes), (16, 16 * (1 + 16 * 3)));
    }
}
