//! The rows of the simulated tables. Small numbers stand for texts.

use domain::event::EventType;
use domain::ids::{ItemId, WalletNo};
use domain::ledger::{CHAIN_START, ChainHash, LedgerEntry, ReferenceKind};
use domain::topup::{Currency, Offer, PricedProductId, TopupOrder};

/// Numbers of apps, of wallets in each app, and of `biz_no`s in each app. The last wallet of an app
/// does not exist at first.
pub(super) const APPS: usize = 2;
pub(super) const WALLETS: usize = 4;
pub(super) const NUMBERS: usize = 80;
pub(super) const ITEMS: &str = r#"[{"product_id":1,"product_num":1,"product_type":0}]"#;
pub(super) const REMARK: &str = "d";
/// An amount that a constraint of the simulated tables refuses, and no check of the program.
pub(super) const UNLUCKY: i64 = 13;

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RequestKind {
    Exchange,
    Present,
    Cancel,
    /// A query with `close=1`. As a record: a closed number.
    Close,
    Query,
    Balance,
    /// An order of a top-up.
    Order,
}

/// The content of a request, as far as the requests differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RequestContent {
    pub(super) kind: RequestKind,
    pub(super) wallet: usize,
    /// 0 for a query and a balance.
    pub(super) amount: i64,
    /// Of an exchange.
    pub(super) gifted_first: bool,
    /// What an exchange buys, or the product of an order.
    pub(super) variant: u8,
    /// The exchange that a cancel names.
    pub(super) of: Option<usize>,
}

impl RequestContent {
    /// The same without what its kind does not have.
    pub(super) fn of_kind(self, kind: RequestKind) -> Self {
        let is_exchange = kind == RequestKind::Exchange;
        let has_amount = matches!(kind, RequestKind::Exchange | RequestKind::Present | RequestKind::Cancel);
        Self {
            kind,
            wallet: self.wallet,
            amount: if has_amount { self.amount } else { 0 },
            gifted_first: is_exchange && self.gifted_first,
            variant: if is_exchange || kind == RequestKind::Order { self.variant } else { 0 },
            of: self.of.filter(|_| kind == RequestKind::Cancel),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SimulatedWallet {
    pub(super) free: i64,
    pub(super) charge: i64,
    pub(super) entries: i64,
    /// Hash of its last entry.
    pub(super) chain_hash: ChainHash,
    pub(super) is_frozen: bool,
}

impl SimulatedWallet {
    /// A wallet without entries.
    pub(super) fn new(free: i64, charge: i64) -> Self {
        Self { free, charge, entries: 0, chain_hash: CHAIN_START, is_frozen: false }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordRow {
    pub(super) number: usize,
    pub(super) content: RequestContent,
    /// `None` for a closed number.
    pub(super) seq: Option<i64>,
    pub(super) created_at: u64,
    pub(super) free_change: i64,
    pub(super) charge_change: i64,
    pub(super) free: i64,
    pub(super) charge: i64,
    /// The rest of the exchange after a cancel.
    pub(super) remaining: Option<i64>,
}

/// What an entry is of that no game has asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A payment, and the number of its order.
    Payment(usize, usize),
    /// The refund of all of a payment.
    Refund(usize),
    /// Debt that a payment has settled.
    Settlement(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SimulatedEntry {
    pub(super) wallet: usize,
    pub(super) seq: i64,
    /// Number and content of a game's request.
    pub(super) request: Option<(usize, RequestContent)>,
    /// What else it is of. `None` for a game's request and for a credit.
    pub(super) cause: Option<Cause>,
    pub(super) remaining: Option<i64>,
    pub(super) free_change: i64,
    pub(super) charge_change: i64,
    pub(super) free: i64,
    pub(super) charge: i64,
    pub(super) at: i64,
    pub(super) chain_hash: ChainHash,
}

impl SimulatedEntry {
    /// The right hash of the entry.
    pub(super) fn hash_after(&self, previous: &ChainHash) -> ChainHash {
        let content = self.request.map(|(_, content)| content);
        let bought = content.filter(|content| content.kind == RequestKind::Exchange);
        let reference = match (self.request, self.cause) {
            (Some((number, _)), _) => number_text(number),
            (None, Some(Cause::Payment(payment, _))) => format!("$s/p{payment}"),
            (None, Some(Cause::Refund(payment))) => format!("s/p{payment}/r"),
            (None, Some(Cause::Settlement(payment))) => format!("s/p{payment}"),
            (None, None) => "!c".to_owned(),
        };
        let of = content.and_then(|content| content.of).map(number_text);
        let entry = LedgerEntry {
            app_no: app_no(self.wallet / WALLETS),
            wallet_no: wallet_no(self.wallet).0,
            seq: self.seq,
            kind: self.kind(),
            reference: &reference,
            of_biz_no: of.as_deref(),
            remaining: self.remaining,
            item_id: bought.map(|content| item_of(content.variant).0),
            pay_priority: bought.map(|content| i16::from(content.gifted_first)),
            free_change: self.free_change,
            charge_change: self.charge_change,
            free_balance: self.free,
            charge_balance: self.charge,
            at: self.at,
        };
        entry.chain_hash(previous)
    }

    /// Its kind as the ledger has it.
    fn kind(&self) -> &'static str {
        match (self.request, self.cause) {
            (Some((_, content)), _) => kind_text(content.kind),
            (None, Some(Cause::Payment(..))) => "topup",
            (None, Some(Cause::Refund(_))) => "refund",
            (None, Some(Cause::Settlement(_))) => "settlement",
            (None, None) => "credit",
        }
    }
}

/// An event of the outbox, with the ledger entry that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SimulatedEvent {
    pub(super) wallet: usize,
    pub(super) seq: i64,
    pub(super) event_type: EventType,
}

impl SimulatedEvent {
    /// The event that tells of an entry. A settlement has none of its own.
    pub(super) fn of(entry: &SimulatedEntry) -> Option<Self> {
        let event_type = EventType::of_entry(ReferenceKind::parse(entry.kind()).unwrap())?;
        Some(Self { wallet: entry.wallet, seq: entry.seq, event_type })
    }
}

/// The rows that a transaction writes.
#[derive(Debug, Clone, Default)]
pub(super) struct Writes {
    pub(super) made: Vec<usize>,
    pub(super) records: Vec<RecordRow>,
    pub(super) entries: Vec<SimulatedEntry>,
    pub(super) wallets: Vec<(usize, SimulatedWallet)>,
    pub(super) events: Vec<SimulatedEvent>,
    /// Payments that were credited, each with the number of its order.
    pub(super) payments: Vec<(usize, usize)>,
    /// Payments that were refunded.
    pub(super) refunds: Vec<usize>,
    /// Wallets whose debt changes, each with its gifted and its charged debt.
    pub(super) debts: Vec<(usize, (i64, i64))>,
}

impl Writes {
    pub(super) fn is_empty(&self) -> bool {
        // A refund has its entry, and so has a change of debt.
        let Self { made, records, entries, wallets, events, payments, .. } = self;
        let has_rows = !(made.is_empty() && records.is_empty() && entries.is_empty());
        !has_rows && wallets.is_empty() && events.is_empty() && payments.is_empty()
    }
}

pub(super) fn app_text(app: usize) -> String {
    format!("a{app}")
}

pub(super) fn number_text(number: usize) -> String {
    format!("n{}", number % NUMBERS)
}

/// The kind as the ledger has it.
fn kind_text(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Exchange => "exchange",
        RequestKind::Present => "present",
        RequestKind::Cancel => "cancel",
        RequestKind::Order => "topup_order",
        RequestKind::Close | RequestKind::Query | RequestKind::Balance => "closed",
    }
}

/// The kind of a row with this text.
pub(super) fn kind_of(text: &str) -> RequestKind {
    let kinds = [
        RequestKind::Exchange,
        RequestKind::Present,
        RequestKind::Cancel,
        RequestKind::Close,
        RequestKind::Order,
    ];
    kinds.into_iter().find(|kind| kind_text(*kind) == text).unwrap()
}

/// The number after a letter.
fn index(text: &str) -> usize {
    text[1..].parse().unwrap()
}

pub(super) fn app_no(app: usize) -> i32 {
    i32::try_from(app).unwrap()
}

pub(super) fn wallet_no(wallet: usize) -> WalletNo {
    WalletNo(i64::try_from(wallet).unwrap())
}

/// The wallet with this number.
pub(super) fn numbered(wallet_no: i64) -> usize {
    usize::try_from(wallet_no).unwrap()
}

pub(super) fn wallet_id(app_no: i32, open_id: &str) -> usize {
    usize::try_from(app_no).unwrap() * WALLETS + index(open_id)
}

/// The place of a number. A balance has none, so its place is behind all others.
pub(super) fn number_id(app_no: i32, biz_no: &str) -> usize {
    if biz_no.is_empty() {
        return APPS * NUMBERS;
    }
    usize::try_from(app_no).unwrap() * NUMBERS + index(biz_no)
}

/// What an exchange of this variant buys.
pub(super) fn item_of(variant: u8) -> ItemId {
    ItemId::of(&format!("v{variant}"), ITEMS, REMARK)
}

pub(super) fn variant_of(item_id: &[u8]) -> u8 {
    (0..=1).find(|variant| item_of(*variant).0 == item_id || order_item(*variant).0 == item_id).unwrap()
}

/// Gifted and charged coins of an order of this variant.
pub(super) fn order_coins(variant: u8) -> (i64, i64) {
    (i64::from(variant), 7 + 4 * i64::from(variant))
}

/// What the app sells the product of this variant for.
pub(super) fn offer_of(variant: u8) -> Offer {
    let (bonus, charge) = order_coins(variant);
    Offer { currency: Currency::parse("CNY").unwrap(), amount: 100, charge, bonus, ttl: 7_200 }
}

fn order_of(variant: u8) -> TopupOrder {
    TopupOrder::new(PricedProductId::parse(&format!("p{variant}")).unwrap(), Some(offer_of(variant)))
}

/// What an order of this variant has fixed.
pub(super) fn order_item(variant: u8) -> ItemId {
    order_of(variant).offered.unwrap().item_id
}

/// Product and remark of an order, as the ledger has them.
pub(super) fn order_remark(variant: u8) -> String {
    order_of(variant).content(REMARK)
}
