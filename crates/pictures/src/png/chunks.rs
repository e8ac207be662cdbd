//! The chunks of a PNG: reads and writes them, and knows nothing of their contents.

use super::refusals::{corrupt, truncated};
use crate::verdict::Unacceptable;

/// The first bytes of every PNG.
pub(crate) const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// The format's own limit for the length of a chunk, in bytes.
const CHUNK_BYTES_MAX: usize = 0x7fff_ffff;

/// The chunks of a file, in order.
pub(super) struct Chunks<'a> {
    bytes: &'a [u8],
    /// Offset of the next chunk.
    pub(super) position: usize,
}

pub(super) struct Chunk<'a> {
    pub(super) kind: [u8; 4],
    pub(super) data: &'a [u8],
    /// Length, kind, data and checksum, as they stand in the file.
    pub(super) whole: &'a [u8],
}

impl<'a> Chunks<'a> {
    /// A chunk begins at `position`.
    pub(super) const fn new(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position }
    }

    pub(super) fn read(&mut self) -> Result<Chunk<'a>, Unacceptable> {
        let start = &self.bytes[self.position..];
        let Some((length, rest)) = start.split_first_chunk::<4>() else {
            return Err(truncated("its end chunk (IEND) is missing"));
        };
        let Some(&kind) = rest.first_chunk::<4>() else {
            return Err(truncated("it ends inside the head of a chunk"));
        };
        if !kind.iter().all(u8::is_ascii_alphabetic) {
            return Err(corrupt(format!("no chunk begins at byte {}, where one is due", self.position)));
        }
        let name = String::from_utf8_lossy(&kind);
        let length = u32::from_be_bytes(*length) as usize;
        if length > CHUNK_BYTES_MAX {
            return Err(corrupt(format!("the chunk {name} claims {length} bytes")));
        }
        // Length, kind and checksum have 4 bytes each.
        let Some(whole) = start.get(..length + 12) else {
            let missing = length + 12 - start.len();
            return Err(truncated(format!("the last {missing} bytes of its chunk {name} are missing")));
        };
        self.position += whole.len();
        Ok(Chunk { kind, data: &whole[8..8 + length], whole })
    }
}

impl Chunk<'_> {
    /// A decoder may not continue if it does not know a critical chunk. Upper case says so.
    pub(super) const fn is_critical(&self) -> bool {
        self.kind[0].is_ascii_uppercase()
    }

    pub(super) fn name(&self) -> String {
        String::from_utf8_lossy(&self.kind).into_owned()
    }

    pub(super) fn is_whole(&self) -> bool {
        let (summed, sum) = self.whole.split_at(self.whole.len() - 4);
        crc32fast::hash(&summed[4..]).to_be_bytes() == *sum
    }

    pub(super) fn check_sum(&self) -> Result<(), Unacceptable> {
        if self.is_whole() {
            Ok(())
        } else {
            Err(corrupt(format!("the checksum of its chunk {} does not match", self.name())))
        }
    }
}

/// Makes a chunk.
pub(super) fn chunk(kind: [u8; 4], data: &[u8]) -> Vec<u8> {
    let body = [&kind[..], data].concat();
    let length = u32::try_from(data.len()).expect("only short chunks are made");
    [&length.to_be_bytes()[..], &body, &crc32fast::hash(&body).to_be_bytes()].concat()
}
