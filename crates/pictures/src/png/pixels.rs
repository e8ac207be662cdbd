//! The image data of a PNG: inflates it and counts its rows, keeping neither.

use fdeflate::{DecompressionError, Decompressor};

use super::super::Unacceptable;
use super::{corrupt, truncated};

/// How far back deflate may refer, in bytes; that much of the output has to stay at hand.
const WINDOW_BYTES: usize = 32 * 1024;
/// The whole output buffer, in bytes. What is free of it after each call of the inflater is always
/// far more than the longest run of deflate (258), which the inflater wants to write in one piece.
const BUFFER_BYTES: usize = 4 * WINDOW_BYTES;
/// The last filter type that a row may name.
const FILTER_MAX: u8 = 4;

/// Rows of equal length that follow each other.
#[derive(Clone, Copy)]
pub(super) struct RowGroup {
    pub(super) rows: u32,
    /// The filter type and the pixels.
    pub(super) row_bytes: usize,
}

/// Counts the rows that go by, and looks at the filter type of each.
struct Rows {
    groups: std::vec::IntoIter<RowGroup>,
    current: RowGroup,
    /// Bytes of the current row that are still to come; all of it at its start.
    row_bytes_left: usize,
    done: u32,
    total: u32,
}

impl Rows {
    fn new(groups: Vec<RowGroup>) -> Self {
        let total = groups.iter().map(|group| group.rows).sum();
        let mut groups = groups.into_iter();
        let current = groups.next().expect("the first pass takes the first pixel, and there is one");
        Self { groups, current, row_bytes_left: current.row_bytes, done: 0, total }
    }

    const fn complete(&self) -> bool {
        self.done == self.total
    }

    /// Takes the next bytes of the image data and gives what is left of them after the last row.
    fn take<'a>(&mut self, mut data: &'a [u8]) -> Result<&'a [u8], Unacceptable> {
        while let Some(&filter) = data.first()
            && !self.complete()
        {
            if self.row_bytes_left == self.current.row_bytes && filter > FILTER_MAX {
                return Err(corrupt(format!(
                    "row {} of {} has the unknown filter type {filter}",
                    self.done + 1,
                    self.total
                )));
            }
            let step = data.len().min(self.row_bytes_left);
            data = &data[step..];
            self.row_bytes_left -= step;
            if self.row_bytes_left == 0 {
                self.end_row();
            }
        }
        Ok(data)
    }

    fn end_row(&mut self) {
        self.done += 1;
        self.current.rows -= 1;
        if self.current.rows == 0
            && let Some(group) = self.groups.next()
        {
            self.current = group;
        }
        self.row_bytes_left = self.current.row_bytes;
    }
}

/// The image data: a zlib stream that is spread over the IDAT chunks and holds the rows.
pub(super) struct Pixels {
    inflater: Box<Decompressor>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that hold output, of which the last [`WINDOW_BYTES`] are still needed.
    filled: usize,
    rows: Rows,
    /// The stream goes on after the last row. Decoders ignore that, so nothing of it is inflated.
    overlong: bool,
}

impl Pixels {
    /// `rows` are those of the whole picture, at least one.
    pub(super) fn new(rows: Vec<RowGroup>) -> Self {
        Self {
            inflater: Box::new(Decompressor::new()),
            buffer: vec![0; BUFFER_BYTES],
            filled: 0,
            rows: Rows::new(rows),
            overlong: false,
        }
    }

    /// Takes the data of one IDAT chunk.
    pub(super) fn take(&mut self, mut data: &[u8]) -> Result<(), Unacceptable> {
        while !data.is_empty() && !self.ended() {
            let consumed = self.inflate(data, false)?;
            data = &data[consumed..];
        }
        Ok(())
    }

    /// After the last IDAT chunk: draws out what the inflater still holds, and judges the whole.
    pub(super) fn finish(mut self) -> Result<(), Unacceptable> {
        while !self.ended() {
            self.inflate(&[], true)?;
        }
        if self.rows.complete() { Ok(()) } else { Err(self.cut()) }
    }

    /// Nothing that follows in the image data can matter any more.
    fn ended(&self) -> bool {
        self.overlong || self.inflater.is_done()
    }

    fn inflate(&mut self, data: &[u8], last: bool) -> Result<usize, Unacceptable> {
        if self.filled > BUFFER_BYTES - WINDOW_BYTES {
            self.buffer.copy_within(self.filled - WINDOW_BYTES..self.filled, 0);
            self.filled = WINDOW_BYTES;
        }
        let (consumed, produced) =
            self.inflater.read(data, &mut self.buffer, self.filled, last).map_err(|error| match error {
                DecompressionError::InsufficientInput => self.cut(),
                DecompressionError::WrongChecksum => corrupt("the checksum of its image data does not match"),
                other => corrupt(format!(
                    "its image data cannot be inflated after row {} of {} ({other:?})",
                    self.rows.done, self.rows.total
                )),
            })?;
        let output = &self.buffer[self.filled..self.filled + produced];
        self.overlong = !self.rows.take(output)?.is_empty();
        self.filled += produced;
        if consumed == 0 && produced == 0 && !self.inflater.is_done() {
            return Err(corrupt("its image data cannot be inflated"));
        }
        Ok(consumed)
    }

    fn cut(&self) -> Unacceptable {
        let Rows { done, total, .. } = self.rows;
        if self.rows.complete() {
            truncated("the end of its image data is missing")
        } else {
            truncated(format!("its image data ends after row {done} of {total}"))
        }
    }
}
