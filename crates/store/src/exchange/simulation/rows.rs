//! The rows of the simulated tables. Small numbers stand for texts.

use domain::ledger::{self, CHAIN_START, ChainHash, LedgerEntry};

/// Numbers of apps, of wallets in each app, and of `biz_no`s in each app. The last wallet of an app
/// does not exist at first.
pub(super) const APPS: usize = 2;
pub(super) const WALLETS: usize = 4;
pub(super) const NUMBERS: usize = 80;
/// An amount that a constraint of the simulated tables refuses, and no check of the program.
pub(super) const UNLUCKY: i64 = 13;

/// The content of an exchange, as far as the exchanges differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Content {
    pub(super) wallet: usize,
    pub(super) amount: i64,
    pub(super) gifted_first: bool,
    pub(super) variant: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WalletRow {
    pub(super) free: i64,
    pub(super) charge: i64,
    pub(super) entries: i64,
    /// Hash of its last entry.
    pub(super) chain_hash: ChainHash,
}

impl WalletRow {
    /// A wallet without entries.
    pub(super) fn new(free: i64, charge: i64) -> Self {
        Self { free, charge, entries: 0, chain_hash: CHAIN_START }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordRow {
    pub(super) number: usize,
    pub(super) content: Content,
    pub(super) seq: i64,
    pub(super) created_at: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryRow {
    pub(super) wallet: usize,
    pub(super) seq: i64,
    /// `None` for a credit.
    pub(super) number: Option<usize>,
    pub(super) free_change: i64,
    pub(super) charge_change: i64,
    pub(super) free: i64,
    pub(super) charge: i64,
    pub(super) at: i64,
    pub(super) chain_hash: ChainHash,
}

impl EntryRow {
    /// The right hash of the entry.
    pub(super) fn hash_after(&self, previous: &ChainHash) -> ChainHash {
        let (app, player) = (self.wallet / WALLETS, self.wallet % WALLETS);
        let reference = self.number.map_or_else(|| "c".to_owned(), |number| format!("n{}", number % NUMBERS));
        let entry = LedgerEntry {
            app_id: &app_text(app),
            open_id: &format!("o{player}"),
            seq: self.seq,
            kind: if self.number.is_some() { ledger::EXCHANGE } else { ledger::CREDIT },
            reference: &reference,
            free_change: self.free_change,
            charge_change: self.charge_change,
            free_balance: self.free,
            charge_balance: self.charge,
            at: self.at,
        };
        entry.chain_hash(previous)
    }
}

/// The rows that a transaction writes.
#[derive(Debug, Clone, Default)]
pub(super) struct Writes {
    pub(super) made: Vec<usize>,
    pub(super) records: Vec<RecordRow>,
    pub(super) entries: Vec<EntryRow>,
    pub(super) wallets: Vec<(usize, WalletRow)>,
}

impl Writes {
    pub(super) fn is_empty(&self) -> bool {
        self.made.is_empty() && self.records.is_empty() && self.entries.is_empty() && self.wallets.is_empty()
    }
}

pub(super) fn app_text(app: usize) -> String {
    format!("a{app}")
}

/// The number after a letter.
fn index(text: &str) -> usize {
    text[1..].parse().unwrap()
}

pub(super) fn wallet_id(app_id: &str, open_id: &str) -> usize {
    index(app_id) * WALLETS + index(open_id)
}

pub(super) fn number_id(app_id: &str, biz_no: &str) -> usize {
    index(app_id) * NUMBERS + index(biz_no)
}

pub(super) fn variant_of(product_name: &str) -> u8 {
    u8::try_from(index(product_name)).unwrap()
}
