//! Reads the bits of entropy-coded data (T.81, F.2.2.5), and counts them exactly.

use super::huffman::HuffmanTable;

/// Why entropy-coded data cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JpegFault {
    /// The data ends too early, at a marker or with the file.
    OutOfBits,
    /// Bits that are no code of the Huffman table.
    UndefinedCode,
    /// A coefficient past the last one of its block or band.
    CoefficientOverflow,
    /// A refinement scan brings more than one bit of a new coefficient.
    RefinementSize,
    /// Whole bytes are left over where a restart marker is due.
    BytesBeforeRestart,
    /// Another marker stands where a restart marker is due.
    RestartMissing {
        /// Number, 0 to 7, of the restart marker that is due.
        due: u8,
        /// The marker that stands there.
        found: u8,
    },
}

/// A reader of one scan's data, which begins at a byte and ends at a marker.
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Offset of the next byte that is not yet in `buffer`.
    position: usize,
    /// The next bits, the first of them the highest; zeros below the last.
    buffer: u64,
    /// How many bits of `buffer` are real.
    count: u32,
    /// `position` stands at a marker (at its first 0xff) or at the end of the file.
    at_end: bool,
}

impl<'a> BitReader<'a> {
    /// Begins at the offset `position`.
    pub(super) const fn new(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position, buffer: 0, count: 0, at_end: false }
    }

    /// Reads one symbol.
    #[inline]
    pub(super) fn symbol(&mut self, table: &HuffmanTable) -> Result<u8, JpegFault> {
        // A code and the value that belongs to it take at most 31 bits together.
        if self.count < 32 {
            self.refill();
        }
        let next = u16::try_from(self.buffer >> 48).expect("16 bits are left of 64 that moved by 48");
        match table.find(next) {
            Some((symbol, length)) => self.skip(length).map(|()| symbol),
            // The zeros below the last bit may look like an undefined code.
            None if self.count < 16 => Err(JpegFault::OutOfBits),
            None => Err(JpegFault::UndefinedCode),
        }
    }

    /// Passes over `length` bits, at most 63.
    #[inline]
    pub(super) fn skip(&mut self, length: u32) -> Result<(), JpegFault> {
        if length > self.count {
            self.refill();
            if length > self.count {
                return self.skip_in_halves(length);
            }
        }
        self.buffer <<= length;
        self.count -= length;
        Ok(())
    }

    /// After a refill the buffer holds at least 57 bits, unless the data ends. A correction of 63
    /// coefficients is longer than that.
    #[cold]
    fn skip_in_halves(&mut self, length: u32) -> Result<(), JpegFault> {
        for part in [length / 2, length - length / 2] {
            self.refill();
            if part > self.count {
                return Err(JpegFault::OutOfBits);
            }
            self.buffer <<= part;
            self.count -= part;
        }
        Ok(())
    }

    /// Reads `length` bits as a number, at most 15.
    pub(super) fn number(&mut self, length: u32) -> Result<u32, JpegFault> {
        if length > self.count {
            self.refill();
        }
        let value = if length == 0 { 0 } else { self.buffer >> (64 - length) };
        self.skip(length)?;
        Ok(u32::try_from(value).expect("15 bits fit"))
    }

    /// Ends a restart interval. The rest of the last byte is padding, and the restart marker number
    /// `due` (0 to 7) must follow.
    pub(super) fn restart(&mut self, due: u8) -> Result<(), JpegFault> {
        if self.bytes_left() > 0 {
            return Err(JpegFault::BytesBeforeRestart);
        }
        let Some((offset, found)) = marker_at(self.bytes, self.position) else {
            return Err(JpegFault::OutOfBits);
        };
        if found != 0xd0 | due {
            return Err(JpegFault::RestartMissing { due, found });
        }
        *self = Self::new(self.bytes, offset + 1);
        Ok(())
    }

    /// Whole bytes of data between what was read and the next marker (or the end of the file).
    /// Moves to that marker. Afterwards only [`BitReader::position`] makes sense.
    pub(super) fn bytes_left(&mut self) -> usize {
        let mut left = self.count as usize / 8;
        while self.next_byte().is_some() {
            left += 1;
        }
        left
    }

    /// Offset of the next byte that is not in the buffer. At the end of the data it is the marker.
    pub(super) const fn position(&self) -> usize {
        self.position
    }

    /// The marker that ends the data; `None` where the file ends first.
    pub(super) fn next_marker(&mut self) -> Option<u8> {
        self.bytes_left();
        marker_at(self.bytes, self.position).map(|(_, marker)| marker)
    }

    fn refill(&mut self) {
        if self.count <= 48
            && let Some(word) = self.bytes[self.position..].first_chunk::<8>()
        {
            let word = u64::from_be_bytes(*word);
            if !has_ff(word) {
                let taken = (64 - self.count) / 8;
                let bits = taken * 8;
                self.buffer |= (word >> (64 - bits)) << (64 - self.count - bits);
                self.count += bits;
                self.position += taken as usize;
                return;
            }
        }
        while self.count <= 56
            && let Some(byte) = self.next_byte()
        {
            self.buffer |= u64::from(byte) << (56 - self.count);
            self.count += 8;
        }
    }

    /// The next byte of data. A 0xff is data only if a zero follows. More 0xff may stand between, as
    /// before a marker.
    fn next_byte(&mut self) -> Option<u8> {
        if self.at_end {
            return None;
        }
        let byte = self.bytes.get(self.position).copied();
        match byte {
            Some(0xff) => match marker_at(self.bytes, self.position) {
                Some((offset, 0)) => self.position = offset + 1,
                Some(_) | None => self.at_end = true,
            },
            Some(_) => self.position += 1,
            None => self.at_end = true,
        }
        byte.filter(|_| !self.at_end)
    }
}

/// Offset and value of the byte after the run of 0xff bytes at `position`. `None` if the file ends
/// first, or if no 0xff stands there.
pub(super) fn marker_at(bytes: &[u8], position: usize) -> Option<(usize, u8)> {
    let run = bytes.get(position..)?.iter().take_while(|&&byte| byte == 0xff).count();
    let code = bytes.get(position + run).copied()?;
    (run > 0).then_some((position + run, code))
}

/// Whether any byte of the word is 0xff.
const fn has_ff(word: u64) -> bool {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // The well-known test for a zero byte, on the complement.
    (!word).wrapping_sub(LOW) & word & HIGH != 0
}
