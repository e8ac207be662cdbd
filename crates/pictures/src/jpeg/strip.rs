//! Copies a JPEG without its metadata.

use super::segments::{AppSegments, END, Segment, Segments, write_segment};

/// The picture without its metadata. `bytes` were accepted, and have these application segments.
pub(super) fn without_metadata(bytes: &[u8], segments: &AppSegments<'_>) -> Vec<u8> {
    let mut output = Vec::with_capacity(bytes.len());
    output.extend([0xff, 0xd8]);
    segments.write(&mut output);
    for Segment { marker, body, data } in Segments::new(bytes) {
        // A decoder reads these: frame, Huffman and quantization tables, restart interval, scan.
        // Everything else describes the picture, or means nothing.
        if matches!(marker, 0xc0..=0xc2 | 0xc4 | 0xda | 0xdb | 0xdd) {
            write_segment(&mut output, marker, &[body]);
            output.extend_from_slice(data);
        }
    }
    output.extend([0xff, END]);
    output
}
