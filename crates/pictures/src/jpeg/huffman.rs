//! Huffman tables (T.81, annex C and F.2.2.3).

/// Codes of at most so many bits are found with one look-up.
const LOOK_BITS: usize = 9;

/// One table, checked, in a form for fast decoding.
pub(super) struct HuffmanTable {
    /// For the next [`LOOK_BITS`] bits: symbol and length of the code at their start. The length is 0
    /// if the code is longer, or if there is none.
    short: [(u8, u8); 1 << LOOK_BITS],
    /// For each length: the first 16 bits that are too high to begin with a code of that length or
    /// a shorter one.
    limits: [u32; 17],
    /// For each length: what to add to a code to get its place in `symbols`.
    offsets: [i32; 17],
    symbols: Vec<u8>,
}

impl HuffmanTable {
    /// `counts` has the number of codes of each length, 1 to 16 bits. `symbols` are their symbols in
    /// order, as many as the counts add up to. `None` if the counts need more codes than there are.
    /// The code of all ones is never used.
    pub(super) fn new(counts: &[u8; 16], symbols: &[u8]) -> Option<Self> {
        let mut table = Self {
            short: [(0, 0); 1 << LOOK_BITS],
            limits: [0; 17],
            offsets: [0; 17],
            symbols: symbols.to_vec(),
        };
        let mut code = 0_usize;
        let mut place = 0_usize;
        for (length, &count) in (1_u8..).zip(counts) {
            let bits = usize::from(length);
            table.offsets[bits] = i32::try_from(place).ok()? - i32::try_from(code).ok()?;
            for _ in 0..count {
                let symbol = *symbols.get(place)?;
                if bits <= LOOK_BITS {
                    let spread = LOOK_BITS - bits;
                    table.short.get_mut(code << spread..(code + 1) << spread)?.fill((symbol, length));
                }
                code += 1;
                place += 1;
            }
            if count > 0 && code >= 1 << bits {
                return None;
            }
            table.limits[bits] = u32::try_from(code << (16 - bits)).ok()?;
            code <<= 1;
        }
        Some(table)
    }

    /// The symbol and the length of the code at the start of `next`, the next 16 bits.
    #[inline]
    pub(super) fn find(&self, next: u16) -> Option<(u8, u32)> {
        let (symbol, length) = self.short[usize::from(next) >> (16 - LOOK_BITS)];
        if length > 0 {
            return Some((symbol, u32::from(length)));
        }
        self.find_long(next)
    }

    fn find_long(&self, next: u16) -> Option<(u8, u32)> {
        let next = u32::from(next);
        let length = (LOOK_BITS + 1..=16).find(|&length| next < self.limits[length])?;
        let code = i32::try_from(next >> (16 - length)).ok()?;
        let place = usize::try_from(code + self.offsets[length]).ok()?;
        let symbol = *self.symbols.get(place)?;
        Some((symbol, u32::try_from(length).ok()?))
    }

    /// The highest symbol there is.
    pub(super) fn symbol_max(&self) -> u8 {
        self.symbols.iter().copied().max().unwrap_or(0)
    }
}
