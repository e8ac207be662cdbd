//! The only source of randomness. Every event of a run depends on its seed.

/// `SplitMix64`: small, fast, and equal on every machine.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to one less than `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).unwrap()).unwrap()
    }

    pub(super) fn between(&mut self, first: i64, last: i64) -> i64 {
        first + i64::try_from(self.below(usize::try_from(last - first + 1).unwrap())).unwrap()
    }

    /// True with this chance in ten thousand.
    pub(super) fn chance(&mut self, in_ten_thousand: u64) -> bool {
        self.next() % 10_000 < in_ten_thousand
    }

    pub(super) fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    pub(super) fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last + 1));
        }
    }
}
