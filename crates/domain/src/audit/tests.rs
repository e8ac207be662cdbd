//! Correct ledgers, and the same with one change.

use proptest::prelude::*;

use super::super::ledger::{CHAIN_START, CREDIT, ChainHash, EXCHANGE, LedgerEntry};
use super::findings::NAMED_MAX;
use super::{Check, Findings, Sums, WalletAfterEntry, WalletCheck, WalletRow};

/// A stored entry with its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stored {
    kind: String,
    reference: String,
    /// seq, changes, balances, at
    numbers: [i64; 6],
    hash: Option<ChainHash>,
    /// The purse that an exchange empties first.
    priority: i16,
}

impl Stored {
    fn entry(&self) -> LedgerEntry<'_> {
        let [seq, free_change, charge_change, free_balance, charge_balance, at] = self.numbers;
        LedgerEntry {
            app_no: 1,
            wallet_no: 1,
            seq,
            kind: &self.kind,
            reference: &self.reference,
            of_biz_no: None,
            remaining: None,
            item_id: (self.kind == EXCHANGE).then_some([0; 16]),
            pay_priority: (self.kind == EXCHANGE).then_some(self.priority),
            free_change,
            charge_change,
            free_balance,
            charge_balance,
            at,
        }
    }
}

/// A wallet and its ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Books {
    wallet: WalletRow,
    entries: Vec<Stored>,
}

impl Books {
    /// The books after these changes.
    fn after(changes: &[(i64, i64)]) -> Self {
        let (mut free, mut charge, mut hash) = (0, 0, CHAIN_START);
        let mut entries = Vec::new();
        for (index, (free_change, charge_change)) in changes.iter().enumerate() {
            let is_credit = index % 2 == 0;
            let priority = i16::from(free_change % 2 == 1);
            // An exchange deducts at most what the credit before it has added.
            let (free_change, charge_change) = if is_credit {
                (*free_change, *charge_change)
            } else {
                let amount = free_change + charge_change;
                let first = amount.min(if priority == 1 { free } else { charge });
                if priority == 1 { (-first, first - amount) } else { (first - amount, -first) }
            };
            (free, charge) = (free + free_change, charge + charge_change);
            let seq = i64::try_from(index).unwrap() + 1;
            let mut stored = Stored {
                kind: if is_credit { CREDIT } else { EXCHANGE }.to_owned(),
                reference: if is_credit { format!("!n{index}") } else { format!("n{index}") },
                numbers: [seq, free_change, charge_change, free, charge, 1000 + seq],
                hash: None,
                priority,
            };
            hash = stored.entry().chain_hash(&hash);
            stored.hash = Some(hash);
            entries.push(stored);
        }
        let entry_count = i64::try_from(entries.len()).unwrap();
        let wallet =
            WalletRow { free_balance: free, charge_balance: charge, entry_count, chain_hash: Some(hash) };
        Self { wallet, entries }
    }

    fn audit(&self) -> (Findings, Sums) {
        self.audit_from(WalletAfterEntry::EMPTY, 0)
    }

    fn audit_from(&self, from: WalletAfterEntry, skip: usize) -> (Findings, Sums) {
        let mut findings = Findings::default();
        let mut check = WalletCheck::new(("a1", "o1"), (1, 1), from, Some(self.wallet));
        for stored in &self.entries[skip..] {
            check.entry(&stored.entry(), stored.hash, &mut findings);
        }
        let sums = check.end(&mut findings);
        (findings, sums)
    }

    fn found(&self) -> Vec<Check> {
        self.audit().0.counts().into_keys().collect()
    }

    /// Computes the hash of an entry again, as somebody does to hide a change.
    fn hash_again(&mut self, index: usize) {
        let before = index.checked_sub(1).and_then(|before| self.entries[before].hash).unwrap_or(CHAIN_START);
        self.entries[index].hash = Some(self.entries[index].entry().chain_hash(&before));
    }
}

/// A credit adds at least what the next exchange deducts.
fn changes() -> impl Strategy<Value = Vec<(i64, i64)>> {
    prop::collection::vec((1..50_i64, 1..50_i64), 1..6).prop_map(|pairs| {
        pairs.into_iter().flat_map(|(free, charge)| [(free + 50, charge + 50), (free, charge)]).collect()
    })
}

proptest! {
    #[test]
    fn a_ledger_that_the_program_wrote_is_clean_from_any_entry_on(
        changes in changes(), start in 0..12_usize,
    ) {
        let books = Books::after(&changes);
        let (findings, sums) = books.audit();
        prop_assert_eq!(findings, Findings::default());
        prop_assert_eq!(sums.total().free_change, i128::from(books.wallet.free_balance));
        let start = start.min(changes.len());
        let from = start.checked_sub(1).map_or(WalletAfterEntry::EMPTY, |last| {
            let [seq, _, _, free_balance, charge_balance, _] = books.entries[last].numbers;
            WalletAfterEntry { seq, free_balance, charge_balance, chain_hash: books.entries[last].hash.unwrap() }
        });
        prop_assert_eq!(books.audit_from(from, start).0, Findings::default());
    }

    #[test]
    fn any_one_change_is_found(
        changes in changes(), place in 0..12_usize, what in 0..14_usize, by in 1..5_i64,
    ) {
        let mut books = Books::after(&changes);
        let count = books.entries.len();
        let entry = &mut books.entries[place % count];
        let wallet = &mut books.wallet;
        match what {
            0..6 => entry.numbers[what] += by,
            6 => entry.reference.push('x'),
            7 => entry.kind = if entry.kind == CREDIT { EXCHANGE } else { CREDIT }.to_owned(),
            8 => entry.hash = Some([7; 32]),
            9 => wallet.free_balance += by,
            10 => wallet.charge_balance -= by,
            11 => wallet.entry_count += by,
            12 => wallet.chain_hash = Some([7; 32]),
            _ => entry.hash = None,
        }
        prop_assert_ne!(books.found(), []);
    }

    #[test]
    fn an_entry_that_is_gone_or_moved_is_found(changes in changes(), place in 0..12_usize) {
        let books = Books::after(&changes);
        let mut gone = books.clone();
        gone.entries.remove(place % books.entries.len());
        prop_assert_ne!(gone.found(), []);
        let mut swapped = books.clone();
        let other = (place + 1) % books.entries.len();
        let (one, other) = (place % books.entries.len(), other);
        swapped.entries.swap(one, other);
        let (first, second) = (swapped.entries[one].numbers[0], swapped.entries[other].numbers[0]);
        (swapped.entries[one].numbers[0], swapped.entries[other].numbers[0]) = (second, first);
        prop_assert!(swapped.found().contains(&Check::Chain));
    }

    /// Hashes that are computed again up to the wallet's row hide a change. Then only a checkpoint
    /// finds it.
    #[test]
    fn a_change_hides_only_behind_all_hashes_after_it(changes in changes(), place in 0..12_usize) {
        let mut books = Books::after(&changes);
        let count = books.entries.len();
        books.entries[place % count].numbers[5] += 1;
        for index in place % count..count {
            prop_assert_ne!(books.found(), [], "before entry {}", index);
            books.hash_again(index);
        }
        prop_assert_eq!(books.found(), [Check::ChainHead]);
        books.wallet.chain_hash = books.entries[count - 1].hash;
        prop_assert_eq!(books.found(), []);
    }

    /// Taking hashes away hides nothing: the hash in the wallet's row still covers the entries.
    #[test]
    fn a_change_does_not_hide_behind_hashes_that_are_taken_away(changes in changes(), place in 0..12_usize) {
        let mut books = Books::after(&changes);
        let count = books.entries.len();
        books.entries[place % count].numbers[5] += 1;
        for entry in &mut books.entries {
            entry.hash = None;
        }
        prop_assert_eq!(books.found(), [Check::Chain, Check::ChainHead]);
    }
}

#[test]
fn each_kind_of_difference_has_its_own_name() {
    let books = Books::after(&[(60, 60), (5, 5)]);
    let changed = |change: &dyn Fn(&mut Books)| {
        let mut books = books.clone();
        change(&mut books);
        books.found()
    };
    let negative = changed(&|books| {
        books.entries[1].numbers = [2, -65, 0, -5, 60, 1002];
        books.wallet.free_balance = -5;
        books.hash_again(1);
        books.wallet.chain_hash = books.entries[1].hash;
    });
    assert_eq!(negative, [Check::Negative]);
    let nothing = changed(&|books| {
        books.entries[1].numbers = [2, 0, 0, 60, 60, 1002];
        (books.wallet.free_balance, books.wallet.charge_balance) = (60, 60);
        books.hash_again(1);
        books.wallet.chain_hash = books.entries[1].hash;
    });
    assert_eq!(nothing, [Check::Kind], "an exchange of nothing");
    let other_purse = changed(&|books| {
        books.entries[1].priority = 0;
        books.hash_again(1);
        books.wallet.chain_hash = books.entries[1].hash;
    });
    assert_eq!(other_purse, [Check::Kind], "the second purse pays before the first is empty");
    assert_eq!(changed(&|books| books.entries[0].hash = Some([7; 32])), [Check::Chain]);
    assert_eq!(changed(&|books| books.wallet.free_balance = 1), [Check::Wallet]);
    assert_eq!(changed(&|books| books.wallet.chain_hash = None), [Check::ChainHead]);
    assert_eq!(changed(&|books| books.entries[1].numbers[3] += 1), [Check::Balance, Check::Chain]);
}

#[test]
fn sums_beyond_64_bits_neither_wrap_nor_panic() {
    let mut books = Books::after(&[(60, 60)]);
    books.entries[0].numbers = [i64::MAX, i64::MAX, i64::MIN, i64::MIN, i64::MAX, i64::MIN];
    books.entries.push(books.entries[0].clone());
    assert!(books.found().contains(&Check::Gap) && books.found().contains(&Check::Balance));
}

#[test]
fn the_first_of_each_kind_are_named_and_all_are_counted() {
    let mut findings = Findings::default();
    for index in 0..100 {
        findings.add(Check::Gap, "a1", &format!("o{index}"), || "a".to_owned());
    }
    let mut others = Findings::default();
    others.add(Check::Chain, "a1", "o1", || "b".to_owned());
    others.add(Check::Gap, "a1", "late", || "c".to_owned());
    findings.merge(others);
    assert_eq!(findings.count(), 102);
    let named = findings.named();
    assert_eq!(named.len(), NAMED_MAX + 1);
    assert_eq!(named[0].subject, "o0");
}
