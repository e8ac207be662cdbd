//! Requests of games and operators to a wallet, with checked fields (contract 3, 8.3 and 10).

use std::time::Duration;

use super::call::{WalletCall, WalletForm};
use super::fields::Sender;
use super::purses::{Amount, PayPriority};
use super::string_to_sign::{is_ambiguous, string_to_sign};
use crate::fields::{Expected, FieldError, is_canonical_integer};
use crate::ids::{BizNo, CreditRef, ItemId, OpenId, ProductText};
use crate::input::Input;
use crate::ledger::{REF_MARK, ReferenceKind};
use crate::product_info::ProductInfo;
use crate::topup::{CoinPair, Offer, Shortfall, TopupOrder};

/// A request to a wallet with checked fields. The caller beside it says who asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalletRequest {
    /// The player.
    pub open_id: OpenId,
    /// The idempotency key, unique in the app: a `biz_no`, or [`REF_MARK`] and the ref of an operator. Empty for a
    /// balance.
    pub reference: String,
    /// What is asked.
    pub action: Action,
    /// The time of the request. `None` for an operator.
    pub ts: Option<Timestamp>,
    /// Whether `ts` was inside the window when the request arrived. It is checked only after
    /// the order number: a replay may be older. True for an operator.
    pub is_fresh: bool,
    /// What a game says of itself and of its player. `None` for an operator and for a query.
    pub sender: Option<Sender>,
    /// The `product_desc` of a present or a cancel, or the note of an operator.
    pub remark: Option<String>,
}

/// What is asked of a wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A change, once for each reference.
    Change(Change),
    /// Orders a top-up, once for each reference. It moves no coins.
    Order(TopupOrder),
    /// Shows both purses.
    Balance,
    /// Shows what became of the reference.
    Query {
        /// Closes the reference if nothing has used it.
        closes: bool,
    },
}

/// A change of a wallet. Each kind is a ledger entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Deducts an amount for what is bought.
    Exchange(Purchase),
    /// Adds gifted currency.
    Present(Amount),
    /// Gives back an exchange, or a part of it.
    Cancel {
        /// The exchange.
        of: BizNo,
        /// How much of it.
        amount: Amount,
    },
    /// Adds to both purses, for an operator.
    Credit {
        /// Gifted currency to add.
        free: i64,
        /// Charged currency to add.
        charge: i64,
    },
    /// Takes from both purses, for an operator.
    Debit {
        /// Gifted currency to take.
        free: i64,
        /// Charged currency to take.
        charge: i64,
    },
    /// Adds what a payment has bought to both purses.
    Topup {
        /// Gifted currency to add.
        bonus: i64,
        /// Charged currency to add.
        charge: i64,
    },
    /// Takes back what a refund owes.
    Refund {
        /// The coins that are owed.
        owed: CoinPair,
        /// What becomes of those that the purses do not hold.
        shortfall: Shortfall,
    },
    /// Takes what settles debt of the wallet.
    Settlement(CoinPair),
}

impl Change {
    /// Its kind in the ledger.
    #[must_use]
    pub const fn kind(&self) -> ReferenceKind {
        match self {
            Self::Exchange(_) => ReferenceKind::Exchange,
            Self::Present(_) => ReferenceKind::Present,
            Self::Cancel { .. } => ReferenceKind::Cancel,
            Self::Credit { .. } => ReferenceKind::Credit,
            Self::Debit { .. } => ReferenceKind::Debit,
            Self::Topup { .. } => ReferenceKind::Topup,
            Self::Refund { .. } => ReferenceKind::Refund,
            Self::Settlement(_) => ReferenceKind::Settlement,
        }
    }
}

/// Texts that many rows of the ledger share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerItem<'a> {
    /// Their digest.
    pub id: &'a ItemId,
    /// Name of what is bought, or the product of an order.
    pub product_name: &'a str,
    /// JSON text: the items, or the figures of an order.
    pub product_info: &'a str,
    /// Remark of an exchange.
    pub product_desc: &'a str,
}

/// What an exchange pays, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purchase {
    /// What is deducted.
    pub amount: Amount,
    /// Effective priority: an empty field has become the default.
    pub pay_priority: PayPriority,
    /// Name of the item or bundle.
    pub product_name: ProductText,
    /// The items, as JSON text.
    pub product_info: ProductInfo,
    /// Remark.
    pub product_desc: ProductText,
    /// The three texts, as the ledger names them.
    pub item_id: ItemId,
}

/// When the request was made, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamp(i64);

impl Timestamp {
    /// What is accepted, as a regular expression for the document of the API.
    pub const PATTERN: &'static str = "^([1-9][0-9]{12}|[1-9][0-9]{9})$";

    /// Accepts 13 digits of milliseconds or 10 digits of seconds.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let value = is_canonical_integer(text).then(|| text.parse::<i64>().ok()).flatten();
        match (text.len(), value) {
            (13, Some(millis)) => Ok(Self(millis)),
            (10, Some(seconds)) => Ok(Self(seconds * 1000)),
            _ => Err(Expected::new("13 digits of milliseconds or 10 digits of seconds")),
        }
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub fn unix_millis(self) -> i64 {
        self.0
    }
}

/// How far `ts` may be ahead of now (contract 3.3.12), for game servers whose clock nobody sets.
pub const TS_AHEAD_MAX: Duration = Duration::from_mins(5);
/// How far `ts` may be behind now (contract 3.3.12). A number is valid for 48 hours, so an older request is no try of it
/// any more.
pub const TS_BEHIND_MAX: Duration = Duration::from_hours(48);

/// How the fields of an exchange are read: what the operator has set, and when it arrived.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// What an empty `pay_priority` means.
    pub pay_priority_default: PayPriority,
    /// When the request arrived, in Unix milliseconds.
    pub now_millis: i64,
    /// What the app sells the product of an order for. `None` where it is not for sale.
    pub offer: Option<Offer>,
}

impl Reading {
    /// Without an offer.
    #[must_use]
    pub const fn new(pay_priority_default: PayPriority, now_millis: i64) -> Self {
        Self { pay_priority_default, now_millis, offer: None }
    }

    /// Whether a request made at `ts` is inside the window, whose ends belong to it (contract 3.3.12).
    #[must_use]
    pub fn is_fresh(&self, ts: Timestamp) -> bool {
        let ahead = i128::from(ts.0) - i128::from(self.now_millis);
        let limit = |duration: Duration| i128::try_from(duration.as_millis()).unwrap_or(i128::MAX);
        ahead <= limit(TS_AHEAD_MAX) && -ahead <= limit(TS_BEHIND_MAX)
    }
}

impl WalletRequest {
    /// Reads the form of a call: each field, and then what all of them are together.
    ///
    /// # Errors
    /// The first field that is absent or not acceptable.
    pub fn parse(form: &WalletForm, reading: &Reading) -> Result<Self, FieldError> {
        let request = Self::read(form.call, &mut Input::of(&form.fields), reading)?;
        check_texts(form)?;
        Ok(request)
    }

    /// A request of an operator under a ref.
    #[must_use]
    pub fn of_operator(open_id: OpenId, reference: &CreditRef, change: Change, note: String) -> Self {
        Self {
            open_id,
            reference: format!("{REF_MARK}{reference}"),
            action: Action::Change(change),
            ts: None,
            is_fresh: true,
            sender: None,
            remark: Some(note),
        }
    }

    /// A change that a payment, its refund or a settlement of debt makes, under the reference of its ledger entry.
    #[must_use]
    pub fn of_payment(open_id: OpenId, reference: String, change: Change) -> Self {
        Self {
            open_id,
            reference,
            action: Action::Change(change),
            ts: None,
            is_fresh: true,
            sender: None,
            remark: None,
        }
    }

    /// Whether a game asks, and no operator.
    #[must_use]
    pub const fn is_of_game(&self) -> bool {
        self.ts.is_some()
    }

    /// The exchange that is to be given back.
    #[must_use]
    pub fn target(&self) -> Option<&str> {
        if let Action::Change(Change::Cancel { of, .. }) = &self.action { Some(of.as_str()) } else { None }
    }

    /// What an exchange buys.
    #[must_use]
    pub fn purchase(&self) -> Option<&Purchase> {
        if let Action::Change(Change::Exchange(purchase)) = &self.action { Some(purchase) } else { None }
    }

    /// The kind of the row that it writes into the ledger. `None` for what only asks.
    #[must_use]
    pub const fn kind(&self) -> Option<ReferenceKind> {
        match &self.action {
            Action::Change(change) => Some(change.kind()),
            Action::Order(_) => Some(ReferenceKind::TopupOrder),
            Action::Balance | Action::Query { .. } => None,
        }
    }

    /// The texts that the ledger keeps apart: what an exchange buys, or what an order has fixed.
    #[must_use]
    pub fn item(&self) -> Option<LedgerItem<'_>> {
        match &self.action {
            Action::Change(Change::Exchange(bought)) => Some(LedgerItem {
                id: &bought.item_id,
                product_name: bought.product_name.as_str(),
                product_info: bought.product_info.as_str(),
                product_desc: bought.product_desc.as_str(),
            }),
            Action::Order(TopupOrder { product_id, offered: Some(offered) }) => Some(LedgerItem {
                id: &offered.item_id,
                product_name: product_id.as_str(),
                product_info: &offered.figures,
                product_desc: "",
            }),
            Action::Order(TopupOrder { offered: None, .. })
            | Action::Change(_)
            | Action::Balance
            | Action::Query { .. } => None,
        }
    }
}

/// Refuses free texts that make the string to sign ambiguous: nothing is escaped in it, so one signature could fit
/// two requests.
fn check_texts(form: &WalletForm) -> Result<(), FieldError> {
    const FREE_TEXTS: [&str; 4] = ["extension", "product_desc", "product_info", "product_name"];
    let mut texts = FREE_TEXTS.iter().filter_map(|name| Some((*name, form.fields.text(name)?)));
    if form.call == WalletCall::Exchange {
        // Only a text that names a player needs the full check.
        if texts.any(|(_, text)| text.contains("&open_id=")) && is_ambiguous(&string_to_sign(form)) {
            let expected =
                "texts that cannot be taken for other signed fields (&open_id=, &os=, &product_desc=)";
            let extension = form.fields.text("extension").unwrap_or_default();
            return Err(FieldError::malformed("extension", expected, extension));
        }
        return Ok(());
    }
    // The other calls have no older clients, so their rule is simple. It also keeps the calls apart: no signature of one
    // call fits another.
    let names_a_field = |text: &str| {
        text.match_indices('&').any(|(at, _)| {
            let name = text[at + 1..].split_once('=').map(|(name, _)| name);
            name.is_some_and(|name| WalletCall::ALL.iter().any(|call| call.signs(name)))
        })
    };
    match texts.find(|(name, text)| form.call.signs(name) && names_a_field(text)) {
        Some((name, text)) => Err(FieldError::malformed(
            name,
            "a text without & in front of the name of a signed field and =",
            text,
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ts_is_13_digits_of_milliseconds_or_10_of_seconds() {
        assert_eq!(Timestamp::parse("1700000000123").unwrap().unix_millis(), 1_700_000_000_123);
        assert_eq!(Timestamp::parse("1700000000").unwrap().unix_millis(), 1_700_000_000_000);
        for bad in
            ["", "170000000", "17000000001", "170000000012", "17000000001234", "-700000000", "0000000001"]
        {
            assert!(Timestamp::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_window_of_ts_includes_its_ends() {
        let now = 1_700_000_000_000;
        let reading = Reading::new(PayPriority::ChargedFirst, now);
        let is_fresh = |millis: i64| reading.is_fresh(Timestamp::parse(&millis.to_string()).unwrap());
        assert!(is_fresh(now + 300_000) && !is_fresh(now + 300_001));
        assert!(is_fresh(now - 172_800_000) && !is_fresh(now - 172_800_001));
    }
}
