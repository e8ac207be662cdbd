//! The findings of an audit. It names the first of each kind and counts all.

use std::collections::BTreeMap;

use serde::Serialize;

/// How many findings of each kind are named.
pub(super) const NAMED_MAX: usize = 20;

/// The kinds of differences. A report shows each by its words (docs/audit.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Check {
    /// A wallet's entries are not 1, 2, 3 and so on.
    #[serde(rename = "gap in the ledger")]
    Gap,
    /// A balance is not the balance before plus the change.
    #[serde(rename = "balance does not follow")]
    Balance,
    /// A balance is below zero.
    #[serde(rename = "negative balance")]
    Negative,
    /// An entry changes the purses as its kind does not, lacks a column of its kind, or its kind does not exist.
    #[serde(rename = "change does not fit its kind")]
    Kind,
    /// An entry's hash does not follow from the entry and the hash before.
    #[serde(rename = "hash chain")]
    Chain,
    /// The wallet's row differs from its ledger.
    #[serde(rename = "wallet against ledger")]
    Wallet,
    /// The hash in the wallet's row is not the hash of its last entry.
    #[serde(rename = "wallet against hash chain")]
    ChainHead,
    /// Entries of a wallet that does not exist.
    #[serde(rename = "entries without a wallet")]
    Orphan,
    /// A wallet is not empty and has no entries.
    #[serde(rename = "wallet without its entries")]
    NoEntries,
    /// What an exchange bought is not stored, or was changed.
    #[serde(rename = "item of an exchange")]
    Item,
    /// A cancel does not give back what its exchange has paid, or leaves another rest.
    #[serde(rename = "cancel of an exchange")]
    Cancel,
    /// A row without a sequence number that is no closed number, or a closed number that changes a purse.
    #[serde(rename = "closed number")]
    Closed,
    /// The sums of an app's wallets and ledger differ.
    #[serde(rename = "sums of an app")]
    Sums,
    /// The archived entries of a wallet do not add up to the state that its ledger goes on from.
    #[serde(rename = "archived entries")]
    Archive,
    /// The lines of the operator's log are not 1, 2, 3 and so on.
    #[serde(rename = "gap in the operator log")]
    LogGap,
    /// A line's hash does not follow from the line and the hash before.
    #[serde(rename = "operator log hash chain")]
    LogChain,
    /// The head of the operator's log is not its newest line.
    #[serde(rename = "operator log against its head")]
    LogHead,
    /// An operator's entry without its line in the operator's log.
    #[serde(rename = "entry without its line")]
    EntryWithoutLine,
    /// A line of an operator's entry without that entry.
    #[serde(rename = "line without its entry")]
    LineWithoutEntry,
    /// A wallet or the operator's log differs from the checkpoint.
    #[serde(rename = "changed since the checkpoint")]
    Checkpoint,
    /// A user of the console is not what the newest line about it tells.
    #[serde(rename = "user against the operator log")]
    UserState,
    /// The same of an API key.
    #[serde(rename = "API key against the operator log")]
    ApiKeyState,
    /// The same of an app: its settings, limits, keys and whether it is suspended.
    #[serde(rename = "app against the operator log")]
    AppState,
    /// The same of a receiver.
    #[serde(rename = "receiver against the operator log")]
    ReceiverState,
    /// The same of a request for a second person.
    #[serde(rename = "request against the operator log")]
    RequestState,
    /// The same of a frozen wallet.
    #[serde(rename = "frozen wallet against the operator log")]
    FreezeState,
    /// The same of a closed period.
    #[serde(rename = "closed period against the operator log")]
    PeriodState,
    /// The statement of a closed period would differ now.
    #[serde(rename = "closed period against the ledger")]
    ClosedPeriod,
    /// A top-up without its payment, a payment without its top-up, or one that is not what was ordered.
    #[serde(rename = "top-up against its payment")]
    Topup,
    /// A refund without its entry or the other way round, one that is not its share, or refunds that exceed a payment.
    #[serde(rename = "refund against its payment")]
    Refund,
    /// A settlement without its entry, or one that is not what its top-up had to settle.
    #[serde(rename = "settlement against its top-up")]
    Settlement,
    /// The debt of a wallet is not what refunds left less what was settled.
    #[serde(rename = "debt of a wallet")]
    Debt,
    /// The list of prices is not what the newest line about it tells.
    #[serde(rename = "prices against the operator log")]
    PriceState,
    /// The same of a payment provider.
    #[serde(rename = "payment provider against the operator log")]
    ProviderState,
    /// A ledger entry has no event, an event tells of no entry of its own, or a number of events is missing.
    #[serde(rename = "event against the ledger")]
    Event,
    /// The number of rows differs from the checkpoint and the entries since.
    #[serde(rename = "number of rows")]
    Count,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind.
    pub check: Check,
    /// The app. Empty for a difference that concerns all apps.
    pub app_id: String,
    /// The wallet, `biz_no`, ref, table or log.
    pub subject: String,
    /// The description.
    pub detail: String,
}

/// The findings of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OfOneKind {
    count: u64,
    named: Vec<Finding>,
}

/// All findings. Its size has a limit, however many differences there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings(BTreeMap<Check, OfOneKind>);

impl Findings {
    /// Adds a finding. It calls `detail` only for the first of a kind.
    pub fn add(&mut self, check: Check, app_id: &str, subject: &str, detail: impl FnOnce() -> String) {
        let kind = self.0.entry(check).or_default();
        kind.count += 1;
        if kind.named.len() < NAMED_MAX {
            let (app_id, subject) = (app_id.to_owned(), subject.to_owned());
            kind.named.push(Finding { check, app_id, subject, detail: detail() });
        }
    }

    /// Adds the findings of another part of the audit.
    pub fn merge(&mut self, others: Self) {
        for (check, other) in others.0 {
            let kind = self.0.entry(check).or_default();
            kind.count += other.count;
            kind.named.extend(other.named);
            kind.named.truncate(NAMED_MAX);
        }
    }

    /// Number of all findings.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.values().map(|kind| kind.count).sum()
    }

    /// Number of findings of each kind.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<Check, u64> {
        self.0.iter().map(|(check, kind)| (*check, kind.count)).collect()
    }

    /// The first findings of each kind.
    #[must_use]
    pub fn named(self) -> Vec<Finding> {
        self.0.into_values().flat_map(|kind| kind.named).collect()
    }
}
