//! What becomes of the exchanges of one batch: a pure function of what the database holds, the
//! same as if they had come one at a time in their order.

use domain::exchange::{Balances, BusinessContent, Change, Exchange, ExchangeOutcome, Receipt, UsedNumber};
use domain::ids::AppId;
use domain::ledger::{self, ChainHash, LedgerEntry};

/// The exchanges of one transaction in the order they arrived, and the distinct keys they touch.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    pub(super) exchanges: Vec<(&'a AppId, &'a Exchange)>,
    /// `(app_id, open_id)`.
    pub(super) wallets: DistinctKeys<'a>,
    /// `(app_id, biz_no)`.
    pub(super) numbers: DistinctKeys<'a>,
}

/// Keys in ascending order of their bytes, each once. Every process locks and inserts in this
/// order, so that no two of them can wait for each other.
#[derive(Debug)]
pub(super) struct DistinctKeys<'a> {
    pub(super) app_ids: Vec<&'a str>,
    pub(super) names: Vec<&'a str>,
    /// For each exchange the place of its key.
    pub(super) place_of: Vec<usize>,
}

/// A wallet as the transaction sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WalletState {
    /// The app has no such wallet.
    Unknown,
    /// It is there, and another transaction holds its lock.
    Held,
    /// As it was read; ours to change. `chain_hash` is that of its last entry.
    Open { balances: Balances, entry_count: i64, chain_hash: ChainHash },
}

/// What an earlier transaction has recorded under a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) content: RecordedContent,
    /// Balances right after it.
    pub(super) free_balance: i64,
    pub(super) charge_balance: i64,
    /// Whether the first success was too long ago for a replay.
    pub(super) is_expired: bool,
}

/// Business content as it is stored: compared as the text that came (contract 3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordedContent {
    pub(super) open_id: String,
    pub(super) zone_id: String,
    pub(super) amount: i64,
    pub(super) pay_priority: i16,
    pub(super) product_name: String,
    pub(super) product_info: String,
    pub(super) product_desc: String,
    pub(super) extension: String,
}

/// What becomes of one exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The answer, once the transaction is committed.
    Answer(ExchangeOutcome),
    /// Its wallet is held by another transaction: to be tried again.
    SetAside,
}

/// A deduction to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deduction {
    /// Place of the exchange in the batch.
    pub(super) exchange: usize,
    /// Its ledger entry.
    pub(super) seq: i64,
    pub(super) change: Change,
    pub(super) chain_hash: ChainHash,
}

/// A wallet to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WalletChange {
    /// Place of the wallet among the batch's.
    pub(super) wallet: usize,
    pub(super) balances: Balances,
    pub(super) entry_count_before: i64,
    pub(super) entry_count: i64,
    /// Hash of its last entry.
    pub(super) chain_hash: ChainHash,
}

/// All that follows from a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decisions {
    /// One for each exchange, in their order.
    pub(super) verdicts: Vec<Verdict>,
    /// In the order of their numbers.
    pub(super) deductions: Vec<Deduction>,
    /// In the order of their keys.
    pub(super) wallets: Vec<WalletChange>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(exchanges: Vec<(&'a AppId, &'a Exchange)>) -> Self {
        let wallet_keys = exchanges.iter().map(|(app, asked)| (app.as_str(), asked.content.open_id.as_str()));
        let wallets = DistinctKeys::new(&wallet_keys.collect::<Vec<_>>());
        let number_keys = exchanges.iter().map(|(app, asked)| (app.as_str(), asked.biz_no.as_str()));
        let numbers = DistinctKeys::new(&number_keys.collect::<Vec<_>>());
        Self { exchanges, wallets, numbers }
    }

    /// Decides about each exchange in the order of contract 3: number, then `ts`, then wallet.
    ///
    /// `wallets` and `records` are what the database holds, in the order of the batch's keys; `at`
    /// is the database's time, as [`LedgerEntry::at`] counts it.
    pub(super) fn decide(&self, wallets: &[WalletState], records: &[Option<Record>], at: i64) -> Decisions {
        let mut wallets_now = wallets.to_vec();
        // The exchange of this batch that has used a number, where one has.
        let mut used_by: Vec<Option<Deduction>> = vec![None; records.len()];
        let mut decisions = Decisions::default();
        for (place, (app_id, exchange)) in self.exchanges.iter().enumerate() {
            let number = self.numbers.place_of[place];
            let wallet = &mut wallets_now[self.wallets.place_of[place]];
            let verdict = if let Some(record) = &records[number] {
                Verdict::Answer(record.answer(exchange))
            } else if let Some(earlier) = &used_by[number] {
                let is_same = self.exchanges[earlier.exchange].1.content == exchange.content;
                let receipt = receipt(exchange, earlier.change.after);
                Verdict::Answer(if is_same {
                    ExchangeOutcome::Replayed(receipt)
                } else {
                    ExchangeOutcome::BizNoConflict
                })
            } else {
                deduct(app_id, exchange, wallet, at).map_or_else(
                    |verdict| verdict,
                    |(seq, change, chain_hash)| {
                        used_by[number] = Some(Deduction { exchange: place, seq, change, chain_hash });
                        Verdict::Answer(ExchangeOutcome::Done(receipt(exchange, change.after)))
                    },
                )
            };
            decisions.verdicts.push(verdict);
        }
        decisions.deductions = used_by.into_iter().flatten().collect();
        decisions.wallets = changes(wallets, &wallets_now);
        decisions
    }
}

impl<'a> DistinctKeys<'a> {
    fn new(keys: &[(&'a str, &'a str)]) -> Self {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|place| keys[*place]);
        let mut distinct = Self { app_ids: Vec::new(), names: Vec::new(), place_of: vec![0; keys.len()] };
        let mut last = None;
        for place in order {
            if last != Some(keys[place]) {
                let (app_id, name) = keys[place];
                distinct.app_ids.push(app_id);
                distinct.names.push(name);
                last = Some(keys[place]);
            }
            distinct.place_of[place] = distinct.names.len() - 1;
        }
        distinct
    }
}

impl Record {
    /// What the record decides about an exchange under its number.
    fn answer(&self, exchange: &Exchange) -> ExchangeOutcome {
        match UsedNumber::answer(self.is_expired, self.content.is_same(&exchange.content)) {
            UsedNumber::Replayed => {
                let (free_balance, charge_balance) = (self.free_balance, self.charge_balance);
                let biz_no = exchange.biz_no.to_string();
                ExchangeOutcome::Replayed(Receipt { biz_no, free_balance, charge_balance })
            }
            UsedNumber::Conflict => ExchangeOutcome::BizNoConflict,
            UsedNumber::Expired => ExchangeOutcome::BizNoExpired,
        }
    }
}

impl RecordedContent {
    fn is_same(&self, sent: &BusinessContent) -> bool {
        let BusinessContent {
            open_id,
            zone_id,
            amount,
            pay_priority,
            product_name,
            product_info,
            product_desc,
            extension,
        } = sent;
        self.open_id == open_id.as_str()
            && self.zone_id == zone_id.as_str()
            && self.amount == amount.get()
            && self.pay_priority == pay_priority.code()
            && self.product_name == product_name.as_str()
            && self.product_info == product_info.as_str()
            && self.product_desc == product_desc.as_str()
            && self.extension == *extension
    }
}

/// Takes the amount of an exchange whose number is new from its wallet, and gives the ledger entry
/// that says so: its place, what it changes, its hash; or why not.
fn deduct(
    app_id: &AppId,
    exchange: &Exchange,
    wallet: &mut WalletState,
    at: i64,
) -> Result<(i64, Change, ChainHash), Verdict> {
    if !exchange.is_fresh {
        return Err(Verdict::Answer(ExchangeOutcome::TsOutsideWindow));
    }
    match wallet {
        WalletState::Unknown => Err(Verdict::Answer(ExchangeOutcome::UnknownWallet)),
        WalletState::Held => Err(Verdict::SetAside),
        WalletState::Open { balances, entry_count, chain_hash } => {
            let content = &exchange.content;
            let change = balances
                .deduct(content.amount, content.pay_priority)
                .map_err(|_| Verdict::Answer(ExchangeOutcome::InsufficientBalance))?;
            *balances = change.after;
            *entry_count += 1;
            let entry = LedgerEntry {
                app_id: app_id.as_str(),
                open_id: content.open_id.as_str(),
                seq: *entry_count,
                kind: ledger::EXCHANGE,
                reference: exchange.biz_no.as_str(),
                free_change: change.free_change,
                charge_change: change.charge_change,
                free_balance: change.after.free(),
                charge_balance: change.after.charge(),
                at,
            };
            *chain_hash = entry.chain_hash(chain_hash);
            Ok((*entry_count, change, *chain_hash))
        }
    }
}

fn receipt(exchange: &Exchange, after: Balances) -> Receipt {
    Receipt {
        biz_no: exchange.biz_no.to_string(),
        free_balance: after.free(),
        charge_balance: after.charge(),
    }
}

/// The wallets that stand differently now.
fn changes(before: &[WalletState], now: &[WalletState]) -> Vec<WalletChange> {
    let pairs = before.iter().zip(now).enumerate();
    let changed = pairs.filter_map(|(wallet, pair)| match pair {
        (
            WalletState::Open { entry_count: entry_count_before, .. },
            WalletState::Open { balances, entry_count, chain_hash },
        ) if entry_count > entry_count_before => Some(WalletChange {
            wallet,
            balances: *balances,
            entry_count_before: *entry_count_before,
            entry_count: *entry_count,
            chain_hash: *chain_hash,
        }),
        (WalletState::Unknown | WalletState::Held | WalletState::Open { .. }, _) => None,
    });
    changed.collect()
}
