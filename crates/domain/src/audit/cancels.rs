//! The cancels of one exchange, in their order.

use super::{Check, Findings};
use crate::wallet::Paid;

/// The check of the cancels of one exchange. It takes them from the first to the last.
#[derive(Debug)]
pub struct CancelsCheck {
    app_id: String,
    exchange: String,
    /// Wallet, sequence number and payment. `None` when there is no such exchange.
    paid: Option<(i64, i64, Paid)>,
    /// The rest after the last cancel, and its sequence number.
    last: (i64, i64),
}

/// A cancel as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct Cancel<'a> {
    /// Its reference.
    pub reference: &'a str,
    /// Number of its wallet.
    pub wallet_no: i64,
    /// Its sequence number. `None` when it has none.
    pub seq: Option<i64>,
    /// Gifted currency that it gave back.
    pub free_change: i64,
    /// Charged currency that it gave back.
    pub charge_change: i64,
    /// The rest of the exchange after it.
    pub remaining: Option<i64>,
}

impl CancelsCheck {
    /// Starts with an exchange of this number: its wallet, sequence number and payment.
    #[must_use]
    pub fn new(app_id: &str, exchange: &str, paid: Option<(i64, i64, Paid)>) -> Self {
        let last = paid.map_or((0, 0), |(_, seq, paid)| (paid.free.saturating_add(paid.charge), seq));
        Self { app_id: app_id.to_owned(), exchange: exchange.to_owned(), paid, last }
    }

    /// True when a cancel is one of this exchange.
    #[must_use]
    pub fn is_of(&self, app_id: &str, exchange: &str) -> bool {
        (self.app_id.as_str(), self.exchange.as_str()) == (app_id, exchange)
    }

    /// Checks the next cancel: it is one of the exchange's wallet, it gives back what was taken last, and it leaves the
    /// rest.
    pub fn cancel(&mut self, cancel: Cancel<'_>, findings: &mut Findings) {
        let Self { app_id, exchange, paid, last: (left, seq) } = self;
        let mut found = |detail: &dyn Fn() -> String| {
            let detail = || format!("cancel {}: {}", cancel.reference, detail());
            findings.add(Check::Cancel, app_id, exchange, detail);
        };
        let Some((wallet_no, _, paid)) = paid else {
            return found(&|| "there is no such exchange".to_owned());
        };
        if cancel.wallet_no != *wallet_no {
            found(&|| "it belongs to another player than the exchange".to_owned());
        }
        if cancel.seq.is_none_or(|of_cancel| of_cancel <= *seq) {
            found(&|| format!("it is not after entry {seq}"));
        }
        let amount = cancel.free_change.saturating_add(cancel.charge_change);
        let rest = left.saturating_sub(amount);
        if rest < 0 || cancel.remaining != Some(rest) {
            let told = cancel.remaining.map_or_else(|| "nothing".to_owned(), |told| told.to_string());
            found(&|| format!("{left} were left, it gives back {amount} and tells of {told}"));
        }
        let (free, charge) = paid.given_back(*left, rest);
        if (cancel.free_change, cancel.charge_change) != (free, charge) {
            found(&|| {
                let (is_free, is_charge) = (cancel.free_change, cancel.charge_change);
                format!(
                    "it gives back {is_free} gifted and {is_charge} charged, expected {free} and {charge}"
                )
            });
        }
        (*left, *seq) = (cancel.remaining.unwrap_or(rest), cancel.seq.unwrap_or(*seq));
    }
}
