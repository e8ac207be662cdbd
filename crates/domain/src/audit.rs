//! The audit of one wallet, entry by entry. The rows may be damaged, so nothing here trusts them.

mod findings;
#[cfg(test)]
mod tests;

use serde::Serialize;

use super::ledger::{CHAIN_START, CREDIT, ChainHash, EXCHANGE, LedgerEntry};

pub use findings::{Check, Finding, Findings};

/// Sums of ledger entries, of one wallet or of many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sums {
    /// Gifted currency that was credited.
    pub free_credited: i128,
    /// Charged currency that was credited.
    pub charge_credited: i128,
    /// Gifted currency that exchanges deducted.
    pub free_deducted: i128,
    /// Charged currency that exchanges deducted.
    pub charge_deducted: i128,
    /// Number of credits.
    pub credits: u64,
    /// Number of exchanges.
    pub exchanges: u64,
}

impl Sums {
    /// Adds an entry.
    pub fn add(&mut self, entry: &LedgerEntry<'_>) {
        if entry.kind == CREDIT {
            self.free_credited += i128::from(entry.free_change);
            self.charge_credited += i128::from(entry.charge_change);
            self.credits += 1;
        } else {
            self.free_deducted -= i128::from(entry.free_change);
            self.charge_deducted -= i128::from(entry.charge_change);
            self.exchanges += 1;
        }
    }

    /// Adds the sums of other wallets.
    pub fn merge(&mut self, other: &Self) {
        self.free_credited += other.free_credited;
        self.charge_credited += other.charge_credited;
        self.free_deducted += other.free_deducted;
        self.charge_deducted += other.charge_deducted;
        self.credits += other.credits;
        self.exchanges += other.exchanges;
    }
}

/// The state of a wallet after one of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Sequence number of the entry. 0 before the first.
    pub seq: i64,
    /// Gifted currency after it.
    pub free_balance: i64,
    /// Charged currency after it.
    pub charge_balance: i64,
    /// Its hash.
    pub chain_hash: ChainHash,
}

impl Standing {
    /// The state before the first entry.
    pub const EMPTY: Self = Self { seq: 0, free_balance: 0, charge_balance: 0, chain_hash: CHAIN_START };
}

/// A wallet's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalletRow {
    /// Gifted currency.
    pub free_balance: i64,
    /// Charged currency.
    pub charge_balance: i64,
    /// Sequence number of its last entry.
    pub entry_count: i64,
    /// Hash of that entry. `None` when the stored value is no hash.
    pub chain_hash: Option<ChainHash>,
}

impl WalletRow {
    /// True for a new wallet: nothing in it, and no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { free_balance, charge_balance, entry_count, chain_hash } = *self;
        (free_balance, charge_balance, entry_count) == (0, 0, 0) && chain_hash == Some(CHAIN_START)
    }
}

/// The check of one wallet. It starts from a known state, takes each entry in order, and ends with
/// the wallet's row.
#[derive(Debug)]
pub struct WalletCheck {
    app_id: String,
    open_id: String,
    numbers: (i32, i64),
    wallet: Option<WalletRow>,
    /// The stored state after the last entry.
    last: Standing,
    /// Sums of all changes.
    free_sum: i128,
    charge_sum: i128,
    entries: i64,
    sums: Sums,
}

impl WalletCheck {
    /// Starts after the entry of `from`. `names` are app id and open id, for findings. `numbers` are
    /// those of app and wallet. `wallet` is the wallet's row, if it exists.
    #[must_use]
    pub fn new(names: (&str, &str), numbers: (i32, i64), from: Standing, wallet: Option<WalletRow>) -> Self {
        Self {
            app_id: names.0.to_owned(),
            open_id: names.1.to_owned(),
            numbers,
            wallet,
            last: from,
            free_sum: from.free_balance.into(),
            charge_sum: from.charge_balance.into(),
            entries: from.seq,
            sums: Sums::default(),
        }
    }

    /// True when an entry belongs to this wallet.
    #[must_use]
    pub fn is_of(&self, entry: &LedgerEntry<'_>) -> bool {
        self.numbers == (entry.app_no, entry.wallet_no)
    }

    /// The wallet's player.
    #[must_use]
    pub fn open_id(&self) -> &str {
        &self.open_id
    }

    /// The wallet's app.
    #[must_use]
    pub fn app_id(&self) -> &str {
        &self.app_id
    }

    /// Checks the next entry. `stored` is its hash. `None` when the stored value is no hash.
    pub fn entry(&mut self, entry: &LedgerEntry<'_>, stored: Option<ChainHash>, findings: &mut Findings) {
        let mut found = |check: Check, detail: &dyn Fn() -> String| {
            findings.add(check, &self.app_id, &self.open_id, || format!("entry {}: {}", entry.seq, detail()));
        };
        // The next entry is compared with the stored values, so that one difference is reported
        // once.
        let before = self.last;
        if Some(entry.seq) != before.seq.checked_add(1) {
            found(Check::Gap, &|| format!("comes after entry {}", before.seq));
        }
        for (purse, after, before, change) in [
            ("free", entry.free_balance, before.free_balance, entry.free_change),
            ("charge", entry.charge_balance, before.charge_balance, entry.charge_change),
        ] {
            if i128::from(after) != i128::from(before) + i128::from(change) {
                found(Check::Balance, &|| format!("{purse} balance {after} is not {before} {change:+}"));
            }
        }
        if entry.free_balance < 0 || entry.charge_balance < 0 {
            found(Check::Negative, &|| {
                format!("free {}, charge {}", entry.free_balance, entry.charge_balance)
            });
        }
        if !fits_kind(entry, (before.free_balance, before.charge_balance)) {
            found(Check::Kind, &|| {
                format!(
                    "{} changes the purses by {:+} and {:+}{}",
                    entry.kind,
                    entry.free_change,
                    entry.charge_change,
                    entry.pay_priority.map_or_else(String::new, |first| format!(", pay_priority {first}"))
                )
            });
        }
        let computed = entry.chain_hash(&before.chain_hash);
        if stored != Some(computed) {
            found(Check::Chain, &|| format!("its hash does not follow from it and entry {}", before.seq));
        }
        self.last = Standing {
            seq: entry.seq,
            free_balance: entry.free_balance,
            charge_balance: entry.charge_balance,
            chain_hash: stored.unwrap_or(computed),
        };
        self.free_sum += i128::from(entry.free_change);
        self.charge_sum += i128::from(entry.charge_change);
        self.entries += 1;
        self.sums.add(entry);
    }

    /// Checks the wallet's row against its entries, and returns the sums of the entries.
    pub fn end(self, findings: &mut Findings) -> Sums {
        let Self { app_id, open_id, last, free_sum, charge_sum, entries, sums, .. } = &self;
        let Some(wallet) = self.wallet else {
            findings.add(Check::Orphan, app_id, open_id, || {
                format!("{entries} entries of a wallet that does not exist")
            });
            return *sums;
        };
        if wallet.free_balance < 0 || wallet.charge_balance < 0 {
            findings.add(Check::Negative, app_id, open_id, || {
                format!("the wallet holds free {}, charge {}", wallet.free_balance, wallet.charge_balance)
            });
        }
        let adds_up = i128::from(wallet.free_balance) == *free_sum
            && i128::from(wallet.charge_balance) == *charge_sum
            && (wallet.entry_count, wallet.entry_count) == (*entries, last.seq);
        if !adds_up {
            findings.add(Check::Wallet, app_id, open_id, || {
                format!(
                    "the wallet holds free {}, charge {} after {} entries; \
                     the ledger adds up to free {free_sum}, charge {charge_sum} in {entries} entries",
                    wallet.free_balance, wallet.charge_balance, wallet.entry_count
                )
            });
        }
        if wallet.chain_hash != Some(last.chain_hash) {
            findings.add(Check::ChainHead, app_id, open_id, || {
                format!("the wallet's hash is not that of entry {}", last.seq)
            });
        }
        *sums
    }
}

/// True when a kind can make this change of a wallet with these purses. A credit may be zero, an exchange
/// may not. The first purse of an exchange pays as much as it can.
fn fits_kind(entry: &LedgerEntry<'_>, (free_before, charge_before): (i64, i64)) -> bool {
    let (free, charge) = (entry.free_change, entry.charge_change);
    let is_emptied_first =
        |first: i64, second: i64, before: i64| second == 0 || first.checked_neg() == Some(before);
    match (entry.kind, entry.pay_priority) {
        (CREDIT, None) => free >= 0 && charge >= 0,
        (EXCHANGE, Some(priority)) => {
            let in_order = match priority {
                0 => is_emptied_first(charge, free, charge_before),
                1 => is_emptied_first(free, charge, free_before),
                _ => false,
            };
            free <= 0 && charge <= 0 && (free, charge) != (0, 0) && in_order
        }
        _ => false,
    }
}
