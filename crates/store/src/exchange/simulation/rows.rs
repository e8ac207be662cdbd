//! The rows of the simulated tables. Small numbers stand for texts.

use domain::ids::{ItemId, WalletNo};
use domain::ledger::{self, CHAIN_START, ChainHash, LedgerEntry};

/// Numbers of apps, of wallets in each app, and of `biz_no`s in each app. The last wallet of an app
/// does not exist at first.
pub(super) const APPS: usize = 2;
pub(super) const WALLETS: usize = 4;
pub(super) const NUMBERS: usize = 80;
pub(super) const ITEMS: &str = r#"[{"product_id":1,"product_num":1,"product_type":0}]"#;
pub(super) const REMARK: &str = "d";
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
    pub(super) gifted_first: bool,
    pub(super) variant: u8,
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
        let reference =
            self.number.map_or_else(|| "!c".to_owned(), |number| format!("n{}", number % NUMBERS));
        let entry = LedgerEntry {
            app_no: app_no(self.wallet / WALLETS),
            wallet_no: wallet_no(self.wallet).0,
            seq: self.seq,
            kind: if self.number.is_some() { ledger::EXCHANGE } else { ledger::CREDIT },
            reference: &reference,
            of_biz_no: None,
            remaining: None,
            item_id: self.number.map(|_| item_of(self.variant).0),
            pay_priority: self.number.map(|_| i16::from(self.gifted_first)),
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

pub(super) fn app_no(app: usize) -> i32 {
    i32::try_from(app).unwrap()
}

pub(super) fn wallet_no(wallet: usize) -> WalletNo {
    WalletNo(i64::try_from(wallet).unwrap())
}

/// The wallet with this number.
pub(super) fn numbered(wallet_no: i64) -> usize {
    usize::try_from(wallet_no).unwrap()
}

pub(super) fn wallet_id(app_no: i32, open_id: &str) -> usize {
    usize::try_from(app_no).unwrap() * WALLETS + index(open_id)
}

pub(super) fn number_id(app_no: i32, biz_no: &str) -> usize {
    usize::try_from(app_no).unwrap() * NUMBERS + index(biz_no)
}

/// What an exchange of this variant buys.
pub(super) fn item_of(variant: u8) -> ItemId {
    ItemId::of(&format!("v{variant}"), ITEMS, REMARK)
}

pub(super) fn variant_of(item_id: &[u8]) -> u8 {
    (0..=1).find(|variant| item_of(*variant).0 == item_id).unwrap()
}
