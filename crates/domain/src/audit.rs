//! The audit of one wallet, entry by entry. The rows may be damaged, so nothing here trusts them.

mod cancels;
mod findings;
mod last;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

use super::ledger::{
    CHAIN_START, ChainHash, LedgerEntry, REF_MARK, REFUND_MARK, ReferenceKind, SETTLEMENT_MARK, TOPUP_MARK,
};

pub use cancels::{Cancel, CancelsCheck};
pub use findings::{Check, Finding, Findings};
pub use last::{AuditScope, LastAudit};

/// Sums of the ledger entries of each kind, of one wallet or of many.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sums(BTreeMap<ReferenceKind, KindSums>);

/// Sums of the ledger entries of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct KindSums {
    /// Number of entries.
    pub entries: u64,
    /// Change of the gifted purses. Deductions are negative.
    pub free_change: i128,
    /// Change of the charged purses. Deductions are negative.
    pub charge_change: i128,
}

impl Sums {
    /// Adds an entry. One of an unknown kind, which is damaged, counts as an exchange.
    pub fn add(&mut self, entry: &LedgerEntry<'_>) {
        let kind = ReferenceKind::parse(entry.kind).unwrap_or(ReferenceKind::Exchange);
        let one = KindSums {
            entries: 1,
            free_change: entry.free_change.into(),
            charge_change: entry.charge_change.into(),
        };
        self.0.entry(kind).or_default().merge(&one);
    }

    /// Adds entries of one kind.
    pub fn add_kind(&mut self, kind: ReferenceKind, sums: &KindSums) {
        self.0.entry(kind).or_default().merge(sums);
    }

    /// Adds the sums of other wallets.
    pub fn merge(&mut self, other: &Self) {
        for (kind, sums) in &other.0 {
            self.0.entry(*kind).or_default().merge(sums);
        }
    }

    /// The sums of a kind.
    #[must_use]
    pub fn of(&self, kind: ReferenceKind) -> KindSums {
        self.0.get(&kind).copied().unwrap_or_default()
    }

    /// The kinds that have entries.
    pub fn kinds(&self) -> impl Iterator<Item = (ReferenceKind, KindSums)> {
        self.0.iter().map(|(kind, sums)| (*kind, *sums))
    }

    /// The sums of all kinds.
    #[must_use]
    pub fn total(&self) -> KindSums {
        let mut total = KindSums::default();
        self.0.values().for_each(|sums| total.merge(sums));
        total
    }
}

impl KindSums {
    fn merge(&mut self, other: &Self) {
        self.entries += other.entries;
        self.free_change += other.free_change;
        self.charge_change += other.charge_change;
    }
}

/// The state of a wallet after one of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalletAfterEntry {
    /// Sequence number of the entry. 0 before the first.
    pub seq: i64,
    /// Gifted currency after it.
    pub free_balance: i64,
    /// Charged currency after it.
    pub charge_balance: i64,
    /// Its hash.
    pub chain_hash: ChainHash,
}

impl WalletAfterEntry {
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
    last: WalletAfterEntry,
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
    pub fn new(
        names: (&str, &str),
        numbers: (i32, i64),
        from: WalletAfterEntry,
        wallet: Option<WalletRow>,
    ) -> Self {
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
        self.last = WalletAfterEntry {
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
            return sums.clone();
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
        sums.clone()
    }
}

/// True when a kind can make this change of a wallet with these purses, and has its columns. A credit or a refund
/// may be zero, no other change may. The first purse of an exchange pays as much as it can.
fn fits_kind(entry: &LedgerEntry<'_>, (free_before, charge_before): (i64, i64)) -> bool {
    let (free, charge) = (entry.free_change, entry.charge_change);
    let is_emptied_first =
        |first: i64, second: i64, before: i64| second == 0 || first.checked_neg() == Some(before);
    let (adds, takes) = (free >= 0 && charge >= 0, free <= 0 && charge <= 0);
    let moves = (free, charge) != (0, 0);
    let of_exchange = (entry.pay_priority, entry.item_id.is_some());
    let of_cancel = (entry.of_biz_no.is_some(), entry.remaining.is_some_and(|remaining| remaining >= 0));
    let has_columns = |is_exchange: bool, is_cancel: bool| {
        (of_exchange.0.is_some(), of_exchange.1) == (is_exchange, is_exchange)
            && of_cancel == (is_cancel, is_cancel)
    };
    let by_operator = entry.reference.starts_with(REF_MARK);
    let own_mark = |kind: ReferenceKind| match kind {
        ReferenceKind::Topup => Some(TOPUP_MARK),
        ReferenceKind::Refund => Some(REFUND_MARK),
        ReferenceKind::Settlement => Some(SETTLEMENT_MARK),
        ReferenceKind::Exchange
        | ReferenceKind::Present
        | ReferenceKind::Cancel
        | ReferenceKind::Closed
        | ReferenceKind::Credit
        | ReferenceKind::Debit
        | ReferenceKind::TopupOrder => None,
    };
    let of_payment = [TOPUP_MARK, REFUND_MARK, SETTLEMENT_MARK];
    let of_payment = of_payment.into_iter().find(|mark| entry.reference.starts_with(*mark));
    match ReferenceKind::parse(entry.kind) {
        Ok(kind) if of_payment != own_mark(kind) => false,
        Ok(ReferenceKind::Exchange | ReferenceKind::Present) if by_operator => false,
        Ok(ReferenceKind::Credit | ReferenceKind::Debit) if !by_operator => false,
        Ok(ReferenceKind::Exchange) => {
            let in_order = match of_exchange.0 {
                Some(0) => is_emptied_first(charge, free, charge_before),
                Some(1) => is_emptied_first(free, charge, free_before),
                Some(_) | None => false,
            };
            takes && moves && in_order && has_columns(true, false)
        }
        Ok(ReferenceKind::Present) => adds && moves && charge == 0 && has_columns(false, false),
        Ok(ReferenceKind::Cancel) => adds && moves && has_columns(false, true),
        Ok(ReferenceKind::Credit) => adds && has_columns(false, false),
        Ok(ReferenceKind::Debit | ReferenceKind::Settlement) => takes && moves && has_columns(false, false),
        Ok(ReferenceKind::Topup) => adds && moves && has_columns(false, false),
        // All that a refund owes may be spent.
        Ok(ReferenceKind::Refund) => takes && has_columns(false, false),
        Ok(ReferenceKind::Closed | ReferenceKind::TopupOrder) | Err(_) => false,
    }
}
