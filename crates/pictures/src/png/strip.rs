//! A PNG without what is not needed to show it.

use std::collections::HashSet;

use super::super::exif::Orientation;
use super::{Chunk, Chunks, Colour, Header, SIGNATURE};

/// See [`super::super::without_metadata`]. `bytes` were accepted.
pub(in super::super) fn without_metadata(bytes: &[u8]) -> Vec<u8> {
    copy(bytes, orientation(bytes), is_colour_information)
}

/// What gives the pixels and nothing else: header, palette, transparency and image data.
pub(super) fn bare(bytes: &[u8]) -> Vec<u8> {
    copy(bytes, Orientation::UPRIGHT, |chunk, header| {
        &chunk.kind == b"tRNS" && is_colour_information(chunk, header)
    })
}

/// The orientation of the first EXIF chunk that is not damaged.
pub(super) fn orientation(bytes: &[u8]) -> Orientation {
    let mut chunks = Chunks::new(bytes);
    std::iter::from_fn(|| chunks.read().ok())
        .take_while(|chunk| &chunk.kind != b"IEND")
        .find(|chunk| &chunk.kind == b"eXIf" && chunk.check_sum().is_ok())
        .and_then(|chunk| Orientation::parse(chunk.data))
        .unwrap_or(Orientation::UPRIGHT)
}

/// Copies the critical chunks, and of the others those before the image data that `keeps` wants,
/// the first of each kind, if they are not damaged.
fn copy(bytes: &[u8], orientation: Orientation, keeps: fn(&Chunk<'_>, &Header) -> bool) -> Vec<u8> {
    let mut output = Vec::with_capacity(bytes.len());
    output.extend(SIGNATURE);
    let mut chunks = Chunks::new(bytes);
    let Some(first) = chunks.read().ok() else { return output };
    let Ok(header) = Header::parse(first.data) else { return output };
    write(&mut output, first.kind, first.data);
    let mut kept = HashSet::new();
    while let Ok(chunk) = chunks.read() {
        let again = kept.contains(&chunk.kind);
        let wanted = match &chunk.kind {
            b"IEND" => break,
            b"IDAT" => true,
            // In other pictures it is a suggestion for screens of few colours.
            b"PLTE" => header.colour == Colour::Indexed,
            _ => !again && !kept.contains(b"IDAT") && keeps(&chunk, &header) && chunk.check_sum().is_ok(),
        };
        if !wanted {
            continue;
        }
        if &chunk.kind == b"IDAT" && !again && orientation != Orientation::UPRIGHT {
            write(&mut output, *b"eXIf", &orientation.to_tiff());
        }
        kept.insert(chunk.kind);
        write(&mut output, chunk.kind, chunk.data);
    }
    write(&mut output, *b"IEND", &[]);
    output
}

/// Whether a chunk says how the colours are meant, in the length that the format gives it; a longer
/// one is ignored by decoders and could hold anything.
fn is_colour_information(chunk: &Chunk<'_>, header: &Header) -> bool {
    let length = chunk.data.len();
    match &chunk.kind {
        b"iCCP" => true,
        b"sRGB" => length == 1,
        b"gAMA" | b"cICP" => length == 4,
        b"pHYs" => length == 9,
        b"cHRM" => length == 32,
        b"sBIT" => length <= 4,
        b"bKGD" => length <= 6,
        b"tRNS" => match header.colour {
            Colour::Grey => length == 2,
            Colour::Rgb => length == 6,
            Colour::Indexed => (1..=256).contains(&length),
            Colour::GreyAlpha | Colour::Rgba => false,
        },
        _ => false,
    }
}

fn write(output: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    let length = u32::try_from(data.len()).expect("it comes from a chunk, whose length has 32 bits");
    output.extend(length.to_be_bytes());
    let start = output.len();
    output.extend(kind);
    output.extend_from_slice(data);
    let sum = crc32fast::hash(&output[start..]);
    output.extend(sum.to_be_bytes());
}
