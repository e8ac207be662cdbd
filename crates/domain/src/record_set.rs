//! Compares two sets of records without sorting them: each record becomes a keyed hash, and the hashes
//! are added up. Millions of records need the memory of one.

use sha2::{Digest as _, Sha256};

/// Bytes of a block of SHA-256: a key of this size is hashed once for all records.
const BLOCK_BYTES: usize = 64;

/// A credit, as the ledger or the operator's log has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordLine<'a> {
    /// The app.
    pub app_id: &'a str,
    /// The `biz_no` or ref.
    pub number: &'a str,
    /// The player.
    pub open_id: &'a str,
    /// Gifted and charged currency before it and after it.
    pub balances: [i64; 4],
}

/// A set of records. Two sets with the same key are equal if their sums are equal. Without the key,
/// nobody can make records that cancel each other out.
#[derive(Debug, Clone)]
pub struct RecordSet {
    keyed: Sha256,
    sum: u128,
    count: u64,
}

impl RecordSet {
    /// An empty set. The key is random, secret, and the same for all sets of one run.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        let mut block = [0; BLOCK_BYTES];
        block[..key.len()].copy_from_slice(key);
        Self { keyed: Sha256::new_with_prefix(block), sum: 0, count: 0 }
    }

    /// Adds a record.
    pub fn add(&mut self, record: &RecordLine<'_>) {
        let RecordLine { app_id, number, open_id, balances } = record;
        let mut hasher = self.keyed.clone();
        for text in [app_id, number, open_id] {
            hasher.update(text.len().to_be_bytes());
            hasher.update(text.as_bytes());
        }
        for balance in balances {
            hasher.update(balance.to_be_bytes());
        }
        let hash: [u8; 32] = hasher.finalize().into();
        let half = std::array::from_fn(|place| hash[place]);
        self.sum = self.sum.wrapping_add(u128::from_be_bytes(half));
        self.count += 1;
    }

    /// Number of records.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// True when both hold the same records, each the same number of times.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (self.sum, self.count) == (other.sum, other.count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Owned = (String, String, String, [i64; 4]);

    fn set(records: &[Owned]) -> RecordSet {
        let mut set = RecordSet::new(&[7; 32]);
        for (app_id, number, open_id, balances) in records {
            set.add(&RecordLine { app_id, number, open_id, balances: *balances });
        }
        set
    }

    fn records() -> impl Strategy<Value = Vec<Owned>> {
        let record = ("[a-b]{0,2}", "[a-b]{0,2}", "[a-b]{0,2}", [0..2_i64, 0..2_i64, 0..1_i64, 0..1_i64]);
        prop::collection::vec(record, 0..6)
    }

    proptest! {
        #[test]
        fn sets_are_the_same_exactly_where_they_hold_the_same_as_often(one in records(), other in records()) {
            let (mut sorted, mut other_sorted) = (one.clone(), other.clone());
            sorted.sort();
            other_sorted.sort();
            prop_assert_eq!(set(&one).is_same(&set(&other)), sorted == other_sorted);
            prop_assert!(set(&one).is_same(&set(&sorted)), "in any order");
        }
    }

    #[test]
    fn a_record_twice_is_not_the_same_as_none() {
        let record: Owned = ("a".into(), "b".into(), "o".into(), [0; 4]);
        let twice = set(&[record.clone(), record.clone()]);
        assert!(!twice.is_same(&set(&[])) && !twice.is_same(&set(&[record])));
    }
}
