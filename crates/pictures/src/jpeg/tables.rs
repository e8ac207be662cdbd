//! The tables of a JPEG that are in force.

use super::frame::COEFFICIENTS;
use super::huffman::HuffmanTable;

/// Huffman and quantization tables. A file may replace any of them between two scans.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) dc: [Option<HuffmanTable>; 4],
    pub(super) ac: [Option<HuffmanTable>; 4],
    /// In the order of the file.
    pub(super) quantization: [Option<[u16; COEFFICIENTS]>; 4],
}
