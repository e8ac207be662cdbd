//! The differences that an audit finds: the first of each kind are named, all are counted.

use std::collections::BTreeMap;

use serde::Serialize;

/// How many differences of one kind are named; all are counted.
pub(super) const NAMED_MAX: usize = 20;

/// What can differ. Each is named in a report by its words (docs/audit.md tells what to do).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Check {
    /// A wallet's entries are not 1, 2, 3 and so on.
    #[serde(rename = "gap in the ledger")]
    Gap,
    /// A balance is not the one before plus the change.
    #[serde(rename = "balance does not follow")]
    Balance,
    /// A balance is below zero.
    #[serde(rename = "negative balance")]
    Negative,
    /// A credit that takes, an exchange that gives or moves nothing, a kind that does not exist.
    #[serde(rename = "change does not fit its kind")]
    Kind,
    /// An entry's hash does not follow from the entry and the hash before.
    #[serde(rename = "hash chain")]
    Chain,
    /// The wallet holds something else than its ledger adds up to.
    #[serde(rename = "wallet against ledger")]
    Wallet,
    /// The wallet names another hash than its ledger leads to.
    #[serde(rename = "wallet against hash chain")]
    ChainHead,
    /// Entries of a wallet that does not exist.
    #[serde(rename = "entries without a wallet")]
    Orphan,
    /// A wallet that holds something, or says it has entries, and has none.
    #[serde(rename = "wallet without its entries")]
    NoEntries,
    /// An entry without the exchange that it deducted for.
    #[serde(rename = "deduction without its record")]
    DeductionWithoutRecord,
    /// An exchange without the entry that it names.
    #[serde(rename = "record without its deduction")]
    RecordWithoutDeduction,
    /// An exchange whose amount or time is not that of its entry.
    #[serde(rename = "record against its deduction")]
    Record,
    /// An entry without the credit that it was made for.
    #[serde(rename = "entry without its credit")]
    EntryWithoutCredit,
    /// A credit without the entry that it names, or with another time.
    #[serde(rename = "credit without its entry")]
    CreditWithoutEntry,
    /// The sums of an app's wallets and ledger differ.
    #[serde(rename = "sums of an app")]
    Sums,
    /// A wallet is not what became of what the checkpoint says.
    #[serde(rename = "changed since the checkpoint")]
    Checkpoint,
    /// More or fewer rows than the checkpoint and the entries since it make.
    #[serde(rename = "number of rows")]
    Count,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which check found it.
    pub check: Check,
    /// The app; empty for what concerns them all.
    pub app_id: String,
    /// The wallet, `biz_no`, ref or table at fault.
    pub subject: String,
    /// What differs.
    pub detail: String,
}

/// The differences of one kind: the first are named, all are counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OfOneKind {
    count: u64,
    named: Vec<Finding>,
}

/// Everything that was found. Its size does not grow with what is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings(BTreeMap<Check, OfOneKind>);

impl Findings {
    /// Counts a difference; `detail` is asked for where it is among the first of its kind.
    pub fn add(&mut self, check: Check, app_id: &str, subject: &str, detail: impl FnOnce() -> String) {
        let kind = self.0.entry(check).or_default();
        kind.count += 1;
        if kind.named.len() < NAMED_MAX {
            let (app_id, subject) = (app_id.to_owned(), subject.to_owned());
            kind.named.push(Finding { check, app_id, subject, detail: detail() });
        }
    }

    /// Takes over what another part of the audit has found.
    pub fn merge(&mut self, others: Self) {
        for (check, other) in others.0 {
            let kind = self.0.entry(check).or_default();
            kind.count += other.count;
            kind.named.extend(other.named);
            kind.named.truncate(NAMED_MAX);
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.values().map(|kind| kind.count).sum()
    }

    /// How many there are of each kind that there is.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<Check, u64> {
        self.0.iter().map(|(check, kind)| (*check, kind.count)).collect()
    }

    /// The first of each kind.
    #[must_use]
    pub fn named(self) -> Vec<Finding> {
        self.0.into_values().flat_map(|kind| kind.named).collect()
    }
}
