//! Support code of the proofs.

pub(crate) mod books;
pub(crate) mod caller;
pub(crate) mod figures;
pub(crate) mod journal;
pub(crate) mod load;
pub(crate) mod postgres;
pub(crate) mod protocol;
pub(crate) mod proxy;
pub(crate) mod stage;

/// Whether only the short form is asked for, with `MINITILL_PROOFS=short`.
pub(crate) fn is_short() -> bool {
    std::env::var("MINITILL_PROOFS").is_ok_and(|form| form == "short")
}

/// The one for the full form, or the one for the short form.
pub(crate) fn full_or_short<T>(full: T, short: T) -> T {
    if is_short() { short } else { full }
}

/// Throws that look random and are the same in every run.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From 0 to `below`, without it.
    pub(crate) fn throw(&mut self, below: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % below
    }
}
