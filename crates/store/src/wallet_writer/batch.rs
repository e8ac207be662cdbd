//! A batch: the requests of one transaction with their distinct keys, what the database holds of them, and what is
//! decided. The rules stand in `decide.rs`.

use domain::ids::{AppNo, WalletNo};
use domain::ledger::{ChainHash, ReferenceKind};
use domain::wallet::{Action, Balances, CancelSummary, PurseChange, WalletOutcome, WalletRequest};

use super::record::Record;
use crate::error::StoreError;

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

/// What a query shows of an exchange besides its record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ExchangeDetail {
    pub(super) product_name: String,
    /// What can still be given back.
    pub(super) remaining: i64,
    pub(super) cancels: Vec<CancelSummary>,
    pub(super) has_more_cancels: bool,
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

/// The decision about one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// The answer after the commit.
    Answer(WalletOutcome),
    /// The wallet is held, or the request asks for what this batch writes. It must be tried again.
    SetAside,
    /// The request can only be decided while its wallet is locked.
    NeedsLock,
}

/// A row that the batch writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewRow {
    /// Position of the request in the batch.
    pub(super) request: usize,
    pub(super) wallet_no: WalletNo,
    pub(super) kind: ReferenceKind,
    /// Sequence number and hash of a ledger entry. `None` for a closed number.
    pub(super) entry: Option<(i64, ChainHash)>,
    pub(super) change: PurseChange,
    /// What can still be given back after a cancel.
    pub(super) remaining: Option<i64>,
}

/// A wallet that the batch writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WalletUpdate {
    /// Position of the wallet in the batch.
    pub(super) wallet: usize,
    pub(super) entry_count_before: i64,
    pub(super) now: OpenWallet,
}

/// The decisions about a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decisions {
    /// One for each request, in their order.
    pub(super) verdicts: Vec<Decision>,
    /// In the order of their references.
    pub(super) rows: Vec<NewRow>,
    /// In the order of their keys.
    pub(super) wallets: Vec<WalletUpdate>,
}

impl Decisions {
    /// The outcomes of changes whose wallets were locked without skipping any.
    pub(super) fn outcomes(self) -> Result<Vec<WalletOutcome>, StoreError> {
        let outcome = |verdict| match verdict {
            Decision::Answer(outcome) => Ok(outcome),
            Decision::SetAside | Decision::NeedsLock => Err(StoreError::Again),
        };
        self.verdicts.into_iter().map(outcome).collect()
    }
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
