//! A JPEG without what is not needed to show it.

use super::END;
use super::segments::{Looks, Segment, Segments, write_segment};

/// See [`super::super::without_metadata`]. `bytes` were accepted.
pub(in super::super) fn without_metadata(bytes: &[u8]) -> Vec<u8> {
    let mut output = Vec::with_capacity(bytes.len());
    output.extend([0xff, 0xd8]);
    Looks::read(bytes).write(&mut output);
    for Segment { marker, body, data } in Segments::new(bytes) {
        // Frame, Huffman and quantization tables, restart interval, scan: what a decoder reads.
        // All else says something about the picture, or nothing at all.
        if matches!(marker, 0xc0..=0xc2 | 0xc4 | 0xda | 0xdb | 0xdd) {
            write_segment(&mut output, marker, &[body]);
            output.extend_from_slice(data);
        }
    }
    output.extend([0xff, END]);
    output
}
