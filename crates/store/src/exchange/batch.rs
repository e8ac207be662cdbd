//! The pure decision about a batch of exchanges. It decides each exchange in the order of arrival, as
//! if it had come alone.

use domain::exchange::{
    Balances, BusinessContent, Exchange, ExchangeOutcome, PurseChange, Receipt, UsedNumber,
};
use domain::ids::{AppNo, ItemId, WalletNo};
use domain::ledger::{self, ChainHash, LedgerEntry};

/// The exchanges of one transaction in the order of arrival, and their distinct keys.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    pub(super) exchanges: Vec<(AppNo, &'a Exchange)>,
    /// `(app_no, open_id)`.
    pub(super) wallets: DistinctKeys<'a>,
    /// `(app_no, biz_no)`.
    pub(super) biz_nos: DistinctKeys<'a>,
}

/// Keys in ascending order of their bytes, each once. Every process locks and inserts in this order.
/// So two of them never wait for each other.
#[derive(Debug)]
pub(super) struct DistinctKeys<'a> {
    pub(super) app_nos: Vec<i32>,
    pub(super) names: Vec<&'a str>,
    /// For each exchange, the position of its key.
    pub(super) position_of: Vec<usize>,
}

/// A wallet as the transaction reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WalletState {
    /// The app has no such wallet.
    Unknown,
    /// The wallet exists, and another transaction has locked it.
    Held,
    /// The wallet may be changed. `chain_hash` is the hash of its last entry.
    Open { wallet_no: WalletNo, balances: Balances, entry_count: i64, chain_hash: ChainHash },
}

/// What an earlier transaction has recorded under a `biz_no`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IdempotencyRecord {
    pub(super) content: RecordedContent,
    /// Balances right after the exchange.
    pub(super) free_balance: i64,
    pub(super) charge_balance: i64,
    /// True when the first success is too old for a replay.
    pub(super) is_expired: bool,
}

/// Business content as it is stored (contract 3.3.6). A hash stands for the texts about what was bought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordedContent {
    pub(super) open_id: String,
    pub(super) zone_id: String,
    pub(super) amount: i64,
    pub(super) pay_priority: i16,
    pub(super) item_id: ItemId,
    pub(super) extension: String,
}

/// The decision about one exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The answer after the commit.
    Answer(ExchangeOutcome),
    /// Another transaction has locked the wallet. The exchange must be tried again.
    SetAside,
}

/// A deduction that the batch writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deduction {
    /// Position of the exchange in the batch.
    pub(super) exchange: usize,
    pub(super) wallet_no: WalletNo,
    /// Sequence number of its ledger entry.
    pub(super) seq: i64,
    pub(super) change: PurseChange,
    pub(super) chain_hash: ChainHash,
}

/// A wallet that the batch writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WalletUpdate {
    /// Position of the wallet in the batch.
    pub(super) wallet: usize,
    pub(super) wallet_no: WalletNo,
    pub(super) balances: Balances,
    pub(super) entry_count_before: i64,
    pub(super) entry_count: i64,
    /// Hash of its last entry.
    pub(super) chain_hash: ChainHash,
}

/// The decisions about a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decisions {
    /// One for each exchange, in their order.
    pub(super) verdicts: Vec<Verdict>,
    /// In the order of their `biz_no`s.
    pub(super) deductions: Vec<Deduction>,
    /// In the order of their keys.
    pub(super) wallets: Vec<WalletUpdate>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(exchanges: Vec<(AppNo, &'a Exchange)>) -> Self {
        let wallet_keys = exchanges.iter().map(|(app, asked)| (app.0, asked.content.open_id.as_str()));
        let wallets = DistinctKeys::new(&wallet_keys.collect::<Vec<_>>());
        let biz_no_keys = exchanges.iter().map(|(app, asked)| (app.0, asked.biz_no.as_str()));
        let biz_nos = DistinctKeys::new(&biz_no_keys.collect::<Vec<_>>());
        Self { exchanges, wallets, biz_nos }
    }

    /// Decides about each exchange in the order of contract 3.6: `biz_no`, then `ts`, then wallet.
    ///
    /// `wallets` and `records` are the database's rows, in the order of the batch's keys. `at` is the
    /// database's time, as [`LedgerEntry::at`] counts it.
    pub(super) fn decide(
        &self,
        wallets: &[WalletState],
        records: &[Option<IdempotencyRecord>],
        at: i64,
    ) -> Decisions {
        let mut wallets_now = wallets.to_vec();
        // For each biz_no, the deduction of this batch that used it.
        let mut used_by: Vec<Option<Deduction>> = vec![None; records.len()];
        let mut decisions = Decisions::default();
        for (position, (app_no, exchange)) in self.exchanges.iter().enumerate() {
            let biz_no = self.biz_nos.position_of[position];
            let wallet = &mut wallets_now[self.wallets.position_of[position]];
            let verdict = if let Some(record) = &records[biz_no] {
                Verdict::Answer(record.answer(exchange))
            } else if let Some(earlier) = &used_by[biz_no] {
                let is_same = self.exchanges[earlier.exchange].1.content == exchange.content;
                let receipt = receipt(exchange, earlier.change.after);
                Verdict::Answer(if is_same {
                    ExchangeOutcome::Replayed(receipt)
                } else {
                    ExchangeOutcome::BizNoConflict
                })
            } else {
                match deduct(*app_no, exchange, position, wallet, at) {
                    Ok(deduction) => {
                        used_by[biz_no] = Some(deduction);
                        Verdict::Answer(ExchangeOutcome::Done(receipt(exchange, deduction.change.after)))
                    }
                    Err(verdict) => verdict,
                }
            };
            decisions.verdicts.push(verdict);
        }
        decisions.deductions = used_by.into_iter().flatten().collect();
        decisions.wallets = changes(wallets, &wallets_now);
        decisions
    }
}

impl<'a> DistinctKeys<'a> {
    fn new(keys: &[(i32, &'a str)]) -> Self {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|position| keys[*position]);
        let mut distinct = Self { app_nos: Vec::new(), names: Vec::new(), position_of: vec![0; keys.len()] };
        let mut last = None;
        for position in order {
            if last != Some(keys[position]) {
                let (app_no, name) = keys[position];
                distinct.app_nos.push(app_no);
                distinct.names.push(name);
                last = Some(keys[position]);
            }
            distinct.position_of[position] = distinct.names.len() - 1;
        }
        distinct
    }
}

impl IdempotencyRecord {
    /// The answer to an exchange whose `biz_no` has this record.
    fn answer(&self, exchange: &Exchange) -> ExchangeOutcome {
        match UsedNumber::answer(self.is_expired, self.content.is_same(exchange)) {
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
    fn is_same(&self, sent: &Exchange) -> bool {
        let BusinessContent {
            open_id,
            zone_id,
            amount,
            pay_priority,
            product_name: _,
            product_info: _,
            product_desc: _,
            extension,
        } = &sent.content;
        self.open_id == open_id.as_str()
            && self.zone_id == zone_id.as_str()
            && self.amount == amount.get()
            && self.pay_priority == pay_priority.code()
            && self.item_id == sent.item_id
            && self.extension == *extension
    }
}

/// Deducts an exchange with a new `biz_no`, at this position in the batch, from its wallet. The error is
/// the refusal.
fn deduct(
    app_no: AppNo,
    exchange: &Exchange,
    position: usize,
    wallet: &mut WalletState,
    at: i64,
) -> Result<Deduction, Verdict> {
    if !exchange.is_fresh {
        return Err(Verdict::Answer(ExchangeOutcome::TsOutsideWindow));
    }
    match wallet {
        WalletState::Unknown => Err(Verdict::Answer(ExchangeOutcome::UnknownWallet)),
        WalletState::Held => Err(Verdict::SetAside),
        WalletState::Open { wallet_no, balances, entry_count, chain_hash } => {
            let content = &exchange.content;
            let change = balances
                .deduct(content.amount, content.pay_priority)
                .map_err(|_| Verdict::Answer(ExchangeOutcome::InsufficientBalance))?;
            *balances = change.after;
            *entry_count += 1;
            let entry = LedgerEntry {
                app_no: app_no.0,
                wallet_no: wallet_no.0,
                seq: *entry_count,
                kind: ledger::EXCHANGE,
                reference: exchange.biz_no.as_str(),
                of_biz_no: None,
                remaining: None,
                item_id: Some(exchange.item_id.0),
                pay_priority: Some(content.pay_priority.code()),
                free_change: change.free_change,
                charge_change: change.charge_change,
                free_balance: change.after.free(),
                charge_balance: change.after.charge(),
                at,
            };
            *chain_hash = entry.chain_hash(chain_hash);
            Ok(Deduction {
                exchange: position,
                wallet_no: *wallet_no,
                seq: *entry_count,
                change,
                chain_hash: *chain_hash,
            })
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

/// The wallets that have changed.
fn changes(before: &[WalletState], now: &[WalletState]) -> Vec<WalletUpdate> {
    let pairs = before.iter().zip(now).enumerate();
    let changed = pairs.filter_map(|(wallet, pair)| match pair {
        (
            WalletState::Open { entry_count: entry_count_before, .. },
            WalletState::Open { wallet_no, balances, entry_count, chain_hash },
        ) if entry_count > entry_count_before => Some(WalletUpdate {
            wallet,
            wallet_no: *wallet_no,
            balances: *balances,
            entry_count_before: *entry_count_before,
            entry_count: *entry_count,
            chain_hash: *chain_hash,
        }),
        (WalletState::Unknown | WalletState::Held | WalletState::Open { .. }, _) => None,
    });
    changed.collect()
}
