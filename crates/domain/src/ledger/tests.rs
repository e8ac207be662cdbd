//! Hashes of the chain, compared with hashes that were computed elsewhere, and with each other.

use proptest::prelude::*;
use time::OffsetDateTime;

use super::{CHAIN_START, CREDIT, ChainHash, EXCHANGE, LedgerEntry, micros};

const FIRST: LedgerEntry<'_> = LedgerEntry {
    app_no: 1,
    wallet_no: 1_234_567_890_123_456_789,
    seq: 1,
    kind: CREDIT,
    reference: "!start-o1",
    of_biz_no: None,
    remaining: None,
    item_id: None,
    pay_priority: None,
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
    item_id: Some([7; 16]),
    pay_priority: Some(1),
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
    assert_eq!(hex::encode(first), "efdb9d4144b61b10e54330d38d09cd6d78774ad2385ea39c56746f64534cd758");
    let second = SECOND.chain_hash(&first);
    assert_eq!(hex::encode(second), "c68203f4edfa4d82e303442fa8c3fa3d4d52e086cd7ade7414a50d73fe84b173");
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
    app_no: i32,
    /// kind, reference
    texts: [String; 2],
    of_biz_no: Option<String>,
    remaining: Option<i64>,
    item_id: Option<[u8; 16]>,
    pay_priority: Option<i16>,
    /// wallet, seq, changes, balances, at
    numbers: [i64; 7],
}

impl Owned {
    fn hash(&self, previous: &ChainHash) -> ChainHash {
        let [kind, reference] = &self.texts;
        let [wallet_no, seq, free_change, charge_change, free_balance, charge_balance, at] = self.numbers;
        let entry = LedgerEntry {
            app_no: self.app_no,
            wallet_no,
            seq,
            kind,
            reference,
            of_biz_no: self.of_biz_no.as_deref(),
            remaining: self.remaining,
            item_id: self.item_id,
            pay_priority: self.pay_priority,
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
    let texts = prop::array::uniform2("[a-b]{0,3}");
    let of = (
        prop::option::of("[a-b]{0,3}"),
        prop::option::of(0..2_i64),
        prop::option::of(Just([7; 16])),
        prop::option::of(0..2_i16),
    );
    (0..2, texts, of, prop::array::uniform7(-2..3_i64)).prop_map(|(app_no, texts, of, numbers)| {
        let (of_biz_no, remaining, item_id, pay_priority) = of;
        Owned { app_no, texts, of_biz_no, remaining, item_id, pay_priority, numbers }
    })
}

proptest! {
    #[test]
    fn two_different_entries_have_two_hashes(one in owned(), other in owned()) {
        prop_assert_eq!(one == other, one.hash(&CHAIN_START) == other.hash(&CHAIN_START));
    }

    #[test]
    fn a_letter_that_moves_from_one_column_to_the_next_changes_the_hash(entry in owned()) {
        let mut moved = entry.clone();
        if let Some(letter) = moved.texts[0].pop() {
            moved.texts[1].insert(0, letter);
            prop_assert_ne!(entry.hash(&CHAIN_START), moved.hash(&CHAIN_START));
        }
    }

    #[test]
    fn each_column_and_the_hash_before_change_the_hash(entry in owned(), column in 0..15_usize, bit in 0..63_u32) {
        let mut changed = entry.clone();
        let mut previous = CHAIN_START;
        match column {
            0..2 => changed.texts[column].push('c'),
            2..9 => changed.numbers[column - 2] ^= 1 << bit,
            9 => changed.app_no ^= 1 << (bit % 31),
            10 => changed.of_biz_no = changed.of_biz_no.map_or_else(|| Some(String::new()), |_| None),
            11 => changed.remaining = changed.remaining.map_or(Some(0), |_| None),
            13 => changed.pay_priority = changed.pay_priority.map_or(Some(0), |_| None),
            12 => changed.item_id = changed.item_id.map_or(Some([0; 16]), |_| None),
            _ => previous[usize::try_from(bit / 8).unwrap()] ^= 1 << (bit % 8),
        }
        prop_assert_ne!(entry.hash(&CHAIN_START), changed.hash(&previous));
    }
}
