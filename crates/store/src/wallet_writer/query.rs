//! A query of a number (contract 10.5): its decision, and what it shows of an exchange besides the exchange's record.

use domain::ledger::{ReferenceKind, unix_millis};
use domain::wallet::{CancelSummary, NumberChange, NumberKind, NumberState, Refused, WalletOutcome};

use super::batch::{OpenWallet, WalletState};
use super::decide::{Books, Decision, refused};
use super::record::Record;

/// What a query shows of an exchange besides its record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ExchangeDetail {
    pub(super) product_name: String,
    /// What can still be given back.
    pub(super) remaining: i64,
    pub(super) cancels: Vec<CancelSummary>,
    pub(super) has_more_cancels: bool,
}

impl Books<'_, '_> {
    /// A query: `ts`, the wallet, the reference. It uses no reference, but it can close an unknown one.
    pub(super) fn query(&mut self, position: usize, closes: bool) -> Decision {
        if !self.batch.requests[position].1.is_fresh {
            return refused(Refused::TsOutsideWindow, None);
        }
        let place = self.batch.places[position];
        let wallet = self.wallets[place.wallet];
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
