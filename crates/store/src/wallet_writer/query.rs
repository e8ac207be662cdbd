//! Calls that only ask: a balance and a query of a number (contract 10.5 and 10.6). Here are their decisions, and the
//! SQL of what a query shows of an exchange besides its record.

use domain::ledger::{ReferenceKind, micros, unix_millis};
use domain::wallet::{
    CancelSummary, LedgerEnd, NumberChange, NumberKind, NumberState, Refused, WalletOutcome,
};
use time::OffsetDateTime;
use tokio_postgres::Row;

use super::batch::{Batch, BatchState, Decision, OpenWallet, WalletState, refused};
use super::rows::{ColumnReader as _, ReadRows, Record, damaged, fill, position};
use crate::engine::Engine;
use crate::writer::SessionFault;

/// How many cancels of an exchange a query shows (contract 10).
const CANCELS_SHOWN_MAX: usize = 100;

/// The details of an exchange that a query shows besides its record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ExchangeDetail {
    pub(super) product_name: String,
    /// What can still be given back.
    pub(super) remaining: i64,
    pub(super) cancels: Vec<CancelSummary>,
    pub(super) has_more_cancels: bool,
}

impl BatchState<'_, '_> {
    /// A balance: `ts`, the wallet.
    pub(super) fn balance(&self, position: usize) -> Decision {
        if !self.batch.requests[position].1.is_fresh {
            return refused(Refused::TsOutsideWindow, None);
        }
        match self.wallet_of(position) {
            WalletState::Unknown => refused(Refused::UnknownWallet, None),
            WalletState::Held(_) => Decision::SetAside,
            WalletState::Open(OpenWallet { wallet_no, balances, entry_count: seq, is_frozen, .. }) => {
                let end = LedgerEnd { wallet_no, seq };
                Decision::Answer(WalletOutcome::Balance { balances, is_frozen, end })
            }
        }
    }

    /// A query: `ts`, the wallet, the reference. It uses no reference, but it can close an unknown one.
    pub(super) fn query(&mut self, position: usize, closes: bool) -> Decision {
        if !self.batch.requests[position].1.is_fresh {
            return refused(Refused::TsOutsideWindow, None);
        }
        let place = self.batch.places[position];
        let wallet = self.wallet_of(position);
        if wallet == WalletState::Unknown {
            return refused(Refused::UnknownWallet, None);
        }
        if let Some(record) = &self.records[place.number] {
            return self.show(position, record);
        }
        let WalletState::Open(wallet) = wallet else { return Decision::SetAside };
        if closes {
            return self.close(position, wallet);
        }
        // A transaction that has not committed may use the number. It holds the wallet.
        if !self.read.are_locked {
            return Decision::NeedsLock;
        }
        refused(Refused::UnknownNumber, None)
    }

    /// Closes the unused number of a query.
    fn close(&mut self, position: usize, wallet: OpenWallet) -> Decision {
        self.use_number(position, wallet, ReferenceKind::Closed);
        let state = NumberState {
            reference: self.batch.requests[position].1.reference.clone(),
            created_at: unix_millis(self.at),
            change: None,
        };
        Decision::Answer(WalletOutcome::Number(Box::new(state)))
    }

    /// Shows what a known number was used for.
    fn show(&self, position: usize, record: &Record<'_>) -> Decision {
        let request = self.batch.requests[position].1;
        let wallet = self.wallets[self.batch.places[position].wallet];
        if wallet.wallet_no() != Some(record.wallet_no) {
            return refused(Refused::UnknownNumber, None);
        }
        let kind = match (record.kind, &record.of) {
            (ReferenceKind::Closed, _) => None,
            (ReferenceKind::Present, _) => Some(NumberKind::Present),
            (ReferenceKind::Cancel, Some(of)) => Some(NumberKind::Cancel { of: of.to_string() }),
            (ReferenceKind::Exchange, _) => match &self.read.details[position] {
                // This batch writes the exchange.
                None => return Decision::SetAside,
                Some(detail) => Some(NumberKind::Exchange {
                    product_name: detail.product_name.clone(),
                    remaining: detail.remaining,
                    cancels: detail.cancels.clone(),
                    has_more_cancels: detail.has_more_cancels,
                }),
            },
            (ReferenceKind::TopupOrder, _) => match record.ordered() {
                None => return refused(Refused::UnknownNumber, None),
                Some(ordered) => Some(NumberKind::Order(ordered)),
            },
            (
                ReferenceKind::Cancel
                | ReferenceKind::Credit
                | ReferenceKind::Debit
                | ReferenceKind::Topup
                | ReferenceKind::Refund
                | ReferenceKind::Settlement,
                _,
            ) => return refused(Refused::UnknownNumber, None),
        };
        let change = kind.map(|kind| NumberChange {
            kind,
            free_change: record.free_change,
            charge_change: record.charge_change,
            zone_id: record.zone_id.as_deref().unwrap_or_default().to_owned(),
        });
        let (reference, created_at) = (request.reference.clone(), unix_millis(record.at));
        Decision::Answer(WalletOutcome::Number(Box::new(NumberState { reference, created_at, change })))
    }
}

/// Reads what queries show of exchanges besides their records. It must be a later statement than the one that reads the
/// records, so that each of them has its detail. One cancel more than is shown tells that there are more.
const DETAILS: &str = "\
SELECT k.position, coalesce(i.product_name, '') AS product_name,
    coalesce(g.remaining, -(x.free_change + x.charge_change)) AS remaining, c.references, c.amounts, c.at AS times
FROM unnest($1::integer[], $2::text[]) WITH ORDINALITY AS k (app_no, number, position)
JOIN {numbers} x ON x.app_no = {app} AND x.reference = k.number AND x.kind = 'exchange'
LEFT JOIN items i ON i.app_no = {app} AND i.item_id = x.item_id
LEFT JOIN LATERAL (
    SELECT e.remaining FROM {numbers} e WHERE e.app_no = {app} AND e.of_biz_no = x.reference
    ORDER BY e.remaining LIMIT 1) g ON true
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(e.reference ORDER BY e.remaining DESC), '{}') AS references,
        coalesce(array_agg(e.free_change + e.charge_change ORDER BY e.remaining DESC), '{}') AS amounts,
        coalesce(array_agg(e.at ORDER BY e.remaining DESC), '{}') AS at
    FROM (
        SELECT e.* FROM {numbers} e WHERE e.app_no = {app} AND e.of_biz_no = x.reference
        ORDER BY e.remaining DESC LIMIT 101) e) c";

/// Reads the details of the queries of a batch.
pub(super) fn details_statement(engine: Engine) -> String {
    fill(engine, 1, DETAILS)
}

impl ReadRows {
    /// The same with the details of the batch's queries.
    pub(super) fn with_details(
        mut self,
        batch: &Batch<'_>,
        details: Vec<(usize, ExchangeDetail)>,
    ) -> Result<Self, SessionFault> {
        let queries: Vec<usize> = batch.queries().collect();
        for (position, detail) in details {
            let query = queries.get(position).ok_or_else(|| damaged("ledger_entries"))?;
            self.rows.details[*query] = Some(detail);
        }
        Ok(self)
    }
}

/// From the rows of [`details_statement`].
pub(super) fn details(rows: &[Row]) -> Result<Vec<(usize, ExchangeDetail)>, SessionFault> {
    rows.iter().map(|row| position(row).zip(detail(row)).ok_or_else(|| damaged("ledger_entries"))).collect()
}

fn detail(row: &Row) -> Option<ExchangeDetail> {
    let references: Vec<String> = row.column("references")?;
    let amounts: Vec<i64> = row.column("amounts")?;
    let times: Vec<OffsetDateTime> = row.column("times")?;
    let has_more_cancels = references.len() > CANCELS_SHOWN_MAX;
    let cancels = references.into_iter().zip(amounts).zip(times).take(CANCELS_SHOWN_MAX);
    let summary =
        |((reference, amount), at)| CancelSummary { reference, amount, created_at: unix_millis(micros(at)) };
    Some(ExchangeDetail {
        product_name: row.column("product_name")?,
        remaining: row.column("remaining")?,
        cancels: cancels.map(summary).collect(),
        has_more_cancels,
    })
}
