//! A batch: the requests of one transaction with their distinct keys, and what the database holds of them. `decide.rs`
//! has the rules.

use domain::ids::{AppNo, WalletNo};
use domain::ledger::{ChainHash, micros};
use domain::wallet::{Action, Balances, WalletRequest};
use time::OffsetDateTime;

use super::query::ExchangeDetail;
use super::rows::Record;
use crate::error::StoreError;
use crate::writer::SessionFault;

/// The requests of one transaction in the order of arrival, and their distinct keys.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    pub(super) requests: Vec<(AppNo, &'a WalletRequest)>,
    /// Where the keys of each request stand.
    pub(super) places: Vec<BatchPlace>,
    /// `(app_no, open_id)`.
    pub(super) wallets: DistinctKeys<'a>,
    /// `(app_no, reference)`: those of the requests, and of the exchanges that cancels name.
    pub(super) numbers: DistinctKeys<'a>,
}

/// Where the keys of a request stand in [`Batch::wallets`] and [`Batch::numbers`].
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchPlace {
    pub(super) wallet: usize,
    pub(super) number: usize,
    /// The exchange that a cancel names.
    pub(super) target: Option<usize>,
}

/// Keys in ascending order of their bytes, each once. Every process locks and inserts in this order.
/// So two of them never wait for each other.
#[derive(Debug, Default)]
pub(super) struct DistinctKeys<'a> {
    pub(super) app_nos: Vec<i32>,
    pub(super) names: Vec<&'a str>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(requests: Vec<(AppNo, &'a WalletRequest)>) -> Self {
        let open_ids = requests.iter().map(|(app, asked)| (app.0, asked.open_id.as_str()));
        let references = requests.iter().map(|(app, asked)| (app.0, asked.reference.as_str()));
        let targets = requests.iter().filter_map(|(app, asked)| Some((app.0, asked.target()?)));
        let (wallets, wallet_of) = DistinctKeys::new(&open_ids.collect::<Vec<_>>());
        let (numbers, number_of) = DistinctKeys::new(&references.chain(targets).collect::<Vec<_>>());
        let (number_of, targets) = number_of.split_at(requests.len());
        let mut targets = targets.iter().copied();
        let places = requests.iter().zip(wallet_of).zip(number_of);
        let places = places.map(|(((_, asked), wallet), number)| BatchPlace {
            wallet,
            number: *number,
            target: asked.target().and_then(|_| targets.next()),
        });
        Self { places: places.collect(), wallets, numbers, requests }
    }

    /// The wallet of each request beside each of its numbers, as they are read together.
    pub(super) fn lookups(&self) -> impl Iterator<Item = (usize, usize)> {
        self.places.iter().flat_map(|place| {
            [Some(place.number), place.target].into_iter().flatten().map(|number| (place.wallet, number))
        })
    }

    /// The positions of queries in the batch.
    pub(super) fn queries(&self) -> impl Iterator<Item = usize> {
        let is_query = |request: &WalletRequest| matches!(request.action, Action::Query { .. });
        self.requests
            .iter()
            .enumerate()
            .filter(move |(_, (_, asked))| is_query(asked))
            .map(|(position, _)| position)
    }
}

impl<'a> DistinctKeys<'a> {
    /// The keys, and where each of those given stands.
    fn new(keys: &[(i32, &'a str)]) -> (Self, Vec<usize>) {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|position| keys[*position]);
        let (mut distinct, mut place_of, mut last) = (Self::default(), vec![0; keys.len()], None);
        for position in order {
            if last != Some(keys[position]) {
                let (app_no, name) = keys[position];
                distinct.app_nos.push(app_no);
                distinct.names.push(name);
                last = Some(keys[position]);
            }
            place_of[position] = distinct.names.len() - 1;
        }
        (distinct, place_of)
    }
}

/// A wallet as the transaction reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WalletState {
    /// The app has no such wallet.
    Unknown,
    /// The wallet exists. Another transaction has locked it, or made it after the lock.
    Held(WalletNo),
    /// The wallet may be changed.
    Open(OpenWallet),
}

/// A wallet that may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenWallet {
    pub(super) wallet_no: WalletNo,
    pub(super) balances: Balances,
    pub(super) entry_count: i64,
    /// Hash of its last entry.
    pub(super) chain_hash: ChainHash,
    /// Whether an operator has frozen it: no request of a game changes it.
    pub(super) is_frozen: bool,
}

impl WalletState {
    pub(super) fn wallet_no(&self) -> Option<WalletNo> {
        match self {
            Self::Unknown => None,
            Self::Held(wallet_no) => Some(*wallet_no),
            Self::Open(wallet) => Some(wallet.wallet_no),
        }
    }

    /// Both purses of a wallet that was read.
    pub(super) fn balances(&self) -> Option<Balances> {
        match self {
            Self::Unknown | Self::Held(_) => None,
            Self::Open(wallet) => Some(wallet.balances),
        }
    }
}

/// What the database holds of a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rows {
    /// In the order of the batch's wallets.
    pub(super) wallets: Vec<WalletState>,
    /// In the order of the batch's numbers.
    pub(super) records: Vec<Option<Record<'static>>>,
    /// For each request. A query of an exchange has one.
    pub(super) details: Vec<Option<ExchangeDetail>>,
    /// True when the wallets are locked.
    pub(super) are_locked: bool,
}

/// The database's rows of a batch, and the time of the read.
pub(super) struct ReadRows {
    pub(super) rows: Rows,
    pub(super) at: OffsetDateTime,
}

/// The results of the statements that read a locked batch, each row with its position.
pub(super) struct LockedRows {
    pub(super) wallets: Vec<(usize, WalletState)>,
    pub(super) at: OffsetDateTime,
    pub(super) records: Vec<(usize, Record<'static>)>,
    /// The wallets that exist, when not all of the batch were locked. It must be read later than the records: a wallet
    /// that is unknown then has none of them.
    pub(super) existing: Vec<(usize, WalletNo)>,
}

impl ReadRows {
    pub(super) fn nothing(batch: &Batch<'_>) -> Self {
        let rows = Rows {
            wallets: vec![WalletState::Unknown; batch.wallets.names.len()],
            records: vec![None; batch.numbers.names.len()],
            details: vec![None; batch.requests.len()],
            are_locked: false,
        };
        Self { rows, at: OffsetDateTime::UNIX_EPOCH }
    }

    pub(super) fn of_locked(batch: &Batch<'_>, locked: LockedRows) -> Result<Self, SessionFault> {
        let mut known = Self { at: locked.at, ..Self::nothing(batch) };
        let Rows { wallets, records, are_locked, .. } = &mut known.rows;
        *are_locked = true;
        // A wallet that exists and was not locked is held by another session, or is newer than the lock.
        for (position, wallet_no) in locked.existing {
            *wallets.get_mut(position).ok_or_else(|| damaged("wallets"))? = WalletState::Held(wallet_no);
        }
        for (position, wallet) in locked.wallets {
            *wallets.get_mut(position).ok_or_else(|| damaged("wallets"))? = wallet;
        }
        for (position, record) in locked.records {
            *records.get_mut(position).ok_or_else(|| damaged("ledger_entries"))? = Some(record);
        }
        Ok(known)
    }

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

    /// The time of the read, as [`domain::ledger::LedgerEntry::at`] counts it.
    pub(super) fn at(&self) -> i64 {
        micros(self.at)
    }
}

/// The fault of a row that does not parse.
pub(super) fn damaged(table: &str) -> SessionFault {
    SessionFault::Other(StoreError::damaged(table))
}
