//! What games and operators ask of a wallet, and what becomes of it (contract 3, 8.3 and 10).

use serde::Serialize;

use super::exchange::{Amount, Balances, PayPriority, Reading, Timestamp};
use super::fields::{Expected, FieldError, Fields};
use super::ids::{BizNo, CreditRef, ItemId, OpenId, Os, ProductText, UserIp, ZoneId};
use super::ledger::{REF_MARK, ReferenceKind};
use super::product_info::ProductInfo;
use super::signature::{is_ambiguous, string_to_sign};
use super::wallet_call::{WalletCall, WalletForm};

/// Largest `extension`, in bytes.
pub const EXTENSION_BYTES_MAX: usize = 4096;

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

/// What a game says of itself and of its player.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// Zone and role.
    pub zone_id: ZoneId,
    /// Platform of the player.
    pub os: Os,
    /// Address of the player.
    pub user_ip: UserIp,
    /// Developer-defined; empty when absent.
    pub extension: String,
}

/// What is asked of a wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A change, once for each reference.
    Change(Change),
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
        }
    }
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

/// The result of a change of a wallet: the balances right after it, for ever the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The `biz_no`, or [`REF_MARK`] and the ref.
    pub reference: String,
    /// Both purses.
    pub balances: Balances,
    /// What a cancel gave back.
    pub given_back: Option<GivenBack>,
}

/// What a cancel gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenBack {
    /// The exchange.
    pub of: String,
    /// Gifted currency.
    pub free: i64,
    /// Charged currency.
    pub charge: i64,
    /// What can still be given back of the exchange.
    pub remaining: i64,
}

/// What became of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberState {
    /// The reference.
    pub reference: String,
    /// When it was used, in Unix milliseconds of the database.
    pub created_at: i64,
    /// The change. `None` for a closed reference.
    pub change: Option<NumberChange>,
}

/// What a reference has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberChange {
    /// Its kind.
    pub kind: NumberKind,
    /// Change of the gifted purse; a deduction is negative.
    pub free_change: i64,
    /// Change of the charged purse; a deduction is negative.
    pub charge_change: i64,
    /// Zone and role, as sent.
    pub zone_id: String,
}

/// The kind of a reference that has changed a wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NumberKind {
    /// An exchange.
    Exchange {
        /// Name of what was bought.
        product_name: String,
        /// What can still be given back.
        remaining: i64,
        /// What was given back, oldest first.
        cancels: Vec<CancelSummary>,
        /// True when there are more cancels than these.
        has_more_cancels: bool,
    },
    /// A present.
    Present,
    /// A cancel of this exchange.
    Cancel {
        /// The exchange.
        of: String,
    },
}

/// One cancel of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelSummary {
    /// Its `biz_no`, or [`REF_MARK`] and the ref of an operator.
    pub reference: String,
    /// What it gave back.
    pub amount: i64,
    /// When, in Unix milliseconds of the database.
    pub created_at: i64,
}

/// What became of a request to a wallet. Only `Done` has written anything, and `Number` when it closed the number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WalletOutcome {
    /// Carried out now, and committed.
    Done(Receipt),
    /// Carried out before under the same reference with the same content.
    Replayed(Receipt),
    /// Both purses of a balance.
    Balance(Balances),
    /// What became of the number of a query.
    Number(Box<NumberState>),
    /// Nothing was changed.
    Refused(Refused),
}

/// Why a request to a wallet was refused. The words are for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The reference was used with other content.
    #[error("it was used for another player or with other amounts")]
    Conflict,
    /// The reference was used more than 48 hours ago.
    #[error("it was used more than 48 hours ago")]
    Expired,
    /// A query has closed the reference.
    #[error("a query has closed it")]
    Closed,
    /// `ts` was outside the window, and the reference is new.
    #[error("ts is outside the accepted window")]
    TsOutsideWindow,
    /// The app has no wallet for this open id.
    #[error("the app has no such player")]
    UnknownWallet,
    /// The purses do not cover the deduction.
    #[error("the player has {} gifted and {} charged coins", .0.free(), .0.charge())]
    InsufficientBalance(Balances),
    /// The cancel asks for more than is left of the exchange.
    #[error("{remaining} is left to give back")]
    MoreThanLeft {
        /// What is left.
        remaining: i64,
    },
    /// The player has no such number.
    #[error("the player has no such exchange")]
    UnknownNumber,
    /// A purse would hold more than 64 bits.
    #[error("a balance would be more than 9223372036854775807")]
    PurseFull,
}

/// The answer to a request whose reference was used before (contract 3, "Meaning").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UsedNumber {
    /// The answer of the first success, again.
    Replayed,
    /// 10000602: the number stands for something else.
    Conflict,
    /// 10000603, with the same content and with other.
    Expired,
}

impl UsedNumber {
    /// `is_expired`: the first success is too long ago. `is_same`: the business content is that of then.
    #[must_use]
    pub fn answer(is_expired: bool, is_same: bool) -> Self {
        match (is_expired, is_same) {
            (true, _) => Self::Expired,
            (false, true) => Self::Replayed,
            (false, false) => Self::Conflict,
        }
    }
}

impl WalletRequest {
    /// Reads the fields of a call that decide, in the order of its table.
    ///
    /// # Errors
    /// The first field that is absent or not acceptable.
    pub fn parse(form: &WalletForm, reading: &Reading) -> Result<Self, FieldError> {
        let fields = &form.fields;
        let open_id = fields.required("open_id", OpenId::parse)?;
        if form.call == WalletCall::Query {
            let reference = fields.required("biz_no", BizNo::parse)?.to_string();
            let ts = fields.required("ts", Timestamp::parse)?;
            let closes = fields.optional("close", parse_close)?.unwrap_or(false);
            let is_fresh = reading.ts_window.accepts(ts, reading.now_millis);
            let action = Action::Query { closes };
            return Ok(Self {
                open_id,
                reference,
                action,
                ts: Some(ts),
                is_fresh,
                sender: None,
                remark: None,
            });
        }
        let zone_id = fields.required("zone_id", ZoneId::parse)?;
        let os = fields.required("os", Os::parse)?;
        let ts = fields.required("ts", Timestamp::parse)?;
        let user_ip = fields.required("user_ip", UserIp::parse)?;
        let is_fresh = reading.ts_window.accepts(ts, reading.now_millis);
        let (reference, action) = match form.call {
            WalletCall::Exchange => {
                let amount = fields.required("amount", Amount::parse)?;
                let pay_priority = fields.optional("pay_priority", PayPriority::parse)?;
                let pay_priority = pay_priority.unwrap_or(reading.pay_priority_default);
                let biz_no = fields.required("biz_no", BizNo::parse)?;
                (
                    biz_no.to_string(),
                    Action::Change(Change::Exchange(Purchase::parse(fields, amount, pay_priority)?)),
                )
            }
            WalletCall::Present => {
                let amount = fields.required("amount", Amount::parse)?;
                let biz_no = fields.required("biz_no", BizNo::parse)?;
                (biz_no.to_string(), Action::Change(Change::Present(amount)))
            }
            WalletCall::Cancel => {
                let biz_no = fields.required("biz_no", BizNo::parse)?;
                let of = fields.required("pay_biz_no", BizNo::parse)?;
                let amount = fields.required("amount", Amount::parse)?;
                (biz_no.to_string(), Action::Change(Change::Cancel { of, amount }))
            }
            WalletCall::Balance | WalletCall::Query => (String::new(), Action::Balance),
        };
        let remark = match form.call {
            WalletCall::Present | WalletCall::Cancel => {
                let remark = fields.optional("product_desc", ProductText::parse)?;
                Some(remark.map_or_else(String::new, |text| text.to_string()))
            }
            WalletCall::Exchange | WalletCall::Balance | WalletCall::Query => None,
        };
        let extension = fields.optional("extension", parse_extension)?.unwrap_or_default();
        check_texts(form)?;
        let sender = Some(Sender { zone_id, os, user_ip, extension });
        Ok(Self { open_id, reference, action, ts: Some(ts), is_fresh, sender, remark })
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
}

impl Purchase {
    fn parse(fields: &Fields, amount: Amount, pay_priority: PayPriority) -> Result<Self, FieldError> {
        let product_name = fields.required("product_name", ProductText::parse)?;
        let product_info = fields.required("product_info", ProductInfo::parse)?;
        let product_desc = fields.required("product_desc", ProductText::parse)?;
        let item_id = ItemId::of(product_name.as_str(), product_info.as_str(), product_desc.as_str());
        Ok(Self { amount, pay_priority, product_name, product_info, product_desc, item_id })
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

fn parse_extension(text: &str) -> Result<String, Expected> {
    if text.len() <= EXTENSION_BYTES_MAX {
        Ok(text.to_owned())
    } else {
        Err(Expected::new("at most 4096 bytes"))
    }
}

fn parse_close(text: &str) -> Result<bool, Expected> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(Expected::new("0, 1 or empty")),
    }
}
