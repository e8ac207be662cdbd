//! Hashes of the chain, compared with hashes that were computed elsewhere, and with each other.

use proptest::prelude::*;
use time::OffsetDateTime;

use super::{CHAIN_START, CREDIT, ChainHash, EXCHANGE, LedgerEntry, micros};

const FIRST: LedgerEntry<'_> = LedgerEntry {
    app_id: "a1",
    open_id: "o1",
    seq: 1,
    kind: CREDIT,
    reference: "start-o1",
    free_change: 50,
    charge_change: 7,
    free_balance: 50,
    charge_balance: 7,
    at: 852_076_800_123_456,
};

const SECOND: LedgerEntry<'_> = LedgerEntry {
    seq: 2,
    kind: EXCHANGE,
    reference: "b1",
    free_change: -3,
    charge_change: -7,
    free_balance: 47,
    charge_balance: 0,
    at: -1,
    ..FIRST
};

/// Computed by Python's `hashlib` from the documented encoding.
#[test]
fn two_chained_entries_have_the_hashes_that_others_compute() {
    let first = FIRST.chain_hash(&CHAIN_START);
    assert_eq!(hex::encode(first), "4e11ef9d0bc73e24da5545222ecb684a0713f6916ea004222d35e2dbc3f823c8");
    let second = SECOND.chain_hash(&first);
    assert_eq!(hex::encode(second), "a35e0edb08702a7352c01af936d675e48d013c73e837fbb4c56f3c26cc005b72");
}

#[test]
fn moments_count_whole_microseconds_from_the_year_2000() {
    let at = |unix_nanos| micros(OffsetDateTime::from_unix_timestamp_nanos(unix_nanos).unwrap());
    assert_eq!(at(946_684_800_000_000_000), 0);
    assert_eq!(at(946_684_799_999_999_000), -1);
    assert_eq!(at(1_798_761_600_123_456_000), 852_076_800_123_456);
}

/// An entry that owns its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owned {
    texts: [String; 4],
    numbers: [i64; 6],
}

impl Owned {
    fn hash(&self, previous: &ChainHash) -> ChainHash {
        let [app_id, open_id, kind, reference] = &self.texts;
        let [seq, free_change, charge_change, free_balance, charge_balance, at] = self.numbers;
        let entry = LedgerEntry {
            app_id,
            open_id,
            seq,
            kind,
            reference,
            free_change,
            charge_change,
            free_balance,
            charge_balance,
            at,
        };
        entry.chain_hash(previous)
    }
}

/// Short texts of few letters, so that two entries often have the same joined text.
fn owned() -> impl Strategy<Value = Owned> {
    let texts = prop::array::uniform4("[a-b]{0,3}");
    (texts, prop::array::uniform6(-2..3_i64)).prop_map(|(texts, numbers)| Owned { texts, numbers })
}

proptest! {
    #[test]
    fn two_different_entries_have_two_hashes(one in owned(), other in owned()) {
        prop_assert_eq!(one == other, one.hash(&CHAIN_START) == other.hash(&CHAIN_START));
    }

    #[test]
    fn a_letter_that_moves_from_one_column_to_the_next_changes_the_hash(entry in owned(), from in 0..3_usize) {
        let mut moved = entry.clone();
        if let Some(letter) = moved.texts[from].pop() {
            moved.texts[from + 1].insert(0, letter);
            prop_assert_ne!(entry.hash(&CHAIN_START), moved.hash(&CHAIN_START));
        }
    }

    #[test]
    fn each_column_and_the_hash_before_change_the_hash(entry in owned(), column in 0..11_usize, bit in 0..63_u32) {
        let mut changed = entry.clone();
        let mut previous = CHAIN_START;
        match column {
            0..4 => changed.texts[column].push('c'),
            4..10 => changed.numbers[column - 4] ^= 1 << bit,
            _ => previous[usize::try_from(bit / 8).unwrap()] ^= 1 << (bit % 8),
        }
        prop_assert_ne!(entry.hash(&CHAIN_START), changed.hash(&previous));
    }
}
