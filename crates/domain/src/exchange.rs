//! The exchange: what a game server asks for, and the arithmetic of two purses (contract 3).

use std::time::Duration;

use serde::Serialize;

use super::fields::{Expected, FieldError, Fields, is_canonical_integer, parse_integer};
use super::ids::{BizNo, ItemId, OpenId, Os, ProductText, UserIp, ZoneId};
use super::product_info::ProductInfo;
use super::signature::{SIGNED_FIELDS, exchange_string, is_ambiguous};

/// Largest amount of one exchange.
pub const AMOUNT_MAX: i64 = 1_000_000_000_000;
/// Largest `extension`, in bytes.
pub const EXTENSION_BYTES_MAX: usize = 4096;

/// What one exchange deducts, 1 to 1,000,000,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount(i64);

impl Amount {
    /// Accepts a canonical integer within the limits.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        parse_integer(text, 1, AMOUNT_MAX, "an integer from 1 to 1000000000000").map(Self)
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

/// Which purse pays first; the other pays the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayPriority {
    /// 0: charged currency first.
    ChargedFirst,
    /// 1: gifted currency first.
    GiftedFirst,
}

impl PayPriority {
    /// Accepts `0` or `1`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        match text {
            "0" => Ok(Self::ChargedFirst),
            "1" => Ok(Self::GiftedFirst),
            _ => Err(Expected::new("0, 1 or empty")),
        }
    }

    /// The number on the wire (contract 3.1).
    #[must_use]
    pub fn code(self) -> i16 {
        match self {
            Self::ChargedFirst => 0,
            Self::GiftedFirst => 1,
        }
    }
}

/// Both purses of a wallet. Neither is ever below zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Balances {
    free: i64,
    charge: i64,
}

/// Balances that cannot be: below zero, or more than 64 bits hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a balance must be from 0 to 9223372036854775807")]
pub struct BalanceOutOfRange;

/// The purses together do not cover the amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("insufficient balance")]
pub struct InsufficientBalance;

/// What a ledger entry does to both purses, and how they stand after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurseChange {
    /// Change of the gifted purse; a deduction is negative.
    pub free_change: i64,
    /// Change of the charged purse; a deduction is negative.
    pub charge_change: i64,
    /// Both purses afterwards.
    pub after: Balances,
}

impl Balances {
    /// Both purses as they are stored.
    ///
    /// # Errors
    /// A negative number.
    pub fn new(free: i64, charge: i64) -> Result<Self, BalanceOutOfRange> {
        if free < 0 || charge < 0 { Err(BalanceOutOfRange) } else { Ok(Self { free, charge }) }
    }

    /// Gifted currency.
    #[must_use]
    pub fn free(self) -> i64 {
        self.free
    }

    /// Charged currency.
    #[must_use]
    pub fn charge(self) -> i64 {
        self.charge
    }

    /// Deducts `amount` from the purse that `priority` names, and the rest from the other purse.
    ///
    /// # Errors
    /// Both together do not cover the amount. Then nothing is deducted.
    pub fn deduct(self, amount: Amount, priority: PayPriority) -> Result<PurseChange, InsufficientBalance> {
        let amount = amount.get();
        let (first, second) = match priority {
            PayPriority::ChargedFirst => (self.charge, self.free),
            PayPriority::GiftedFirst => (self.free, self.charge),
        };
        let from_first = first.min(amount);
        let from_second = amount - from_first;
        if from_second > second {
            return Err(InsufficientBalance);
        }
        let (from_charge, from_free) = match priority {
            PayPriority::ChargedFirst => (from_first, from_second),
            PayPriority::GiftedFirst => (from_second, from_first),
        };
        let after = Self { free: self.free - from_free, charge: self.charge - from_charge };
        Ok(PurseChange { free_change: -from_free, charge_change: -from_charge, after })
    }

    /// Adds to both purses.
    ///
    /// # Errors
    /// A negative number, or a purse that would overflow; then nothing is added.
    pub fn credit(self, free: i64, charge: i64) -> Result<PurseChange, BalanceOutOfRange> {
        if free < 0 || charge < 0 {
            return Err(BalanceOutOfRange);
        }
        let after = Self {
            free: self.free.checked_add(free).ok_or(BalanceOutOfRange)?,
            charge: self.charge.checked_add(charge).ok_or(BalanceOutOfRange)?,
        };
        Ok(PurseChange { free_change: free, charge_change: charge, after })
    }
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

/// How far `ts` may be from now.
#[derive(Debug, Clone, Copy)]
pub struct TsWindow {
    /// Ahead of now.
    pub ahead_max: Duration,
    /// Behind now.
    pub behind_max: Duration,
}

impl TsWindow {
    /// Whether a request made at `ts` and arriving at `now_millis` is fresh.
    #[must_use]
    pub fn accepts(&self, ts: Timestamp, now_millis: i64) -> bool {
        let ahead = i128::from(ts.0) - i128::from(now_millis);
        let limit = |duration: Duration| i128::try_from(duration.as_millis()).unwrap_or(i128::MAX);
        ahead <= limit(self.ahead_max) && -ahead <= limit(self.behind_max)
    }
}

/// How the fields of an exchange are read: what the operator has set, and when it arrived.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// What an empty `pay_priority` means.
    pub pay_priority_default: PayPriority,
    /// The window for `ts`.
    pub ts_window: TsWindow,
    /// When the request arrived, in Unix milliseconds.
    pub now_millis: i64,
}

/// The fields that an exchange must have beside its credentials (contract 3.1), in the order of the table.
pub fn required_fields() -> impl Iterator<Item = &'static str> {
    let signed = SIGNED_FIELDS.into_iter().filter(|name| !["pay_priority", "extension"].contains(name));
    signed.chain(["sign"])
}

/// One exchange with checked fields. The caller beside it says who asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The order number, which deducts at most once.
    pub biz_no: BizNo,
    /// What the number stands for: the same under the same number is a replay.
    pub content: BusinessContent,
    /// Platform of the player.
    pub os: Os,
    /// When the game server made the request.
    pub ts: Timestamp,
    /// Whether `ts` was inside the window when the request arrived. It is checked only after
    /// the order number: a replay may be older.
    pub is_fresh: bool,
    /// Address of the player.
    pub user_ip: UserIp,
    /// Its three texts about what is bought, as the ledger names them.
    pub item_id: ItemId,
}

/// The part of an exchange that must be the same in every try, compared as the text that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusinessContent {
    /// Whose wallet pays.
    pub open_id: OpenId,
    /// Zone and role.
    pub zone_id: ZoneId,
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
    /// Developer-defined; empty when absent.
    pub extension: String,
}

impl BusinessContent {
    fn item_id(&self) -> ItemId {
        let Self { product_name, product_info, product_desc, .. } = self;
        ItemId::of(product_name.as_str(), product_info.as_str(), product_desc.as_str())
    }
}

/// What an exchange is answered whose order number has deducted before (contract 3, "Meaning").
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

/// `data` of a successful exchange (contract 3.4): the balances right after it, for ever the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Receipt {
    /// The order number.
    #[serde(rename = "bizNo")]
    #[schemars(with = "BizNo")]
    pub biz_no: String,
    /// Gifted currency.
    #[serde(rename = "freeBalance")]
    #[schemars(range(min = 0))]
    pub free_balance: i64,
    /// Charged currency.
    #[serde(rename = "chargeBalance")]
    #[schemars(range(min = 0))]
    pub charge_balance: i64,
}

/// What became of an exchange. Only `Done` has written anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExchangeOutcome {
    /// Deducted now, and committed.
    Done(Receipt),
    /// Deducted before by the same number with the same content.
    Replayed(Receipt),
    /// The number was used with other content.
    BizNoConflict,
    /// The number was used more than 48 hours ago.
    BizNoExpired,
    /// `ts` was outside the window, and the number is new.
    TsOutsideWindow,
    /// The app has no wallet for this open id.
    UnknownWallet,
    /// Both purses together do not cover the amount.
    InsufficientBalance,
}

impl Exchange {
    /// Reads the fields of contract 3 that decide, in the order of its table.
    ///
    /// # Errors
    /// The first field that is absent or not acceptable.
    pub fn parse(fields: &Fields, reading: &Reading) -> Result<Self, FieldError> {
        let open_id = fields.required("open_id", OpenId::parse)?;
        let zone_id = fields.required("zone_id", ZoneId::parse)?;
        let os = fields.required("os", Os::parse)?;
        let ts = fields.required("ts", Timestamp::parse)?;
        let user_ip = fields.required("user_ip", UserIp::parse)?;
        let amount = fields.required("amount", Amount::parse)?;
        let pay_priority =
            fields.optional("pay_priority", PayPriority::parse)?.unwrap_or(reading.pay_priority_default);
        let biz_no = fields.required("biz_no", BizNo::parse)?;
        let product_name = fields.required("product_name", ProductText::parse)?;
        let product_info = fields.required("product_info", ProductInfo::parse)?;
        let product_desc = fields.required("product_desc", ProductText::parse)?;
        let extension = fields.optional("extension", parse_extension)?.unwrap_or_default();
        let texts = [extension.as_str(), product_desc.as_str(), product_info.as_str(), product_name.as_str()];
        // Only a text that names a player needs the full check.
        if texts.iter().any(|text| text.contains("&open_id=")) && is_ambiguous(&exchange_string(fields)) {
            let expected =
                "texts that cannot be taken for other signed fields (&open_id=, &os=, &product_desc=)";
            return Err(FieldError::malformed("extension", expected, &extension));
        }
        let content = BusinessContent {
            open_id,
            zone_id,
            amount,
            pay_priority,
            product_name,
            product_info,
            product_desc,
            extension,
        };
        let is_fresh = reading.ts_window.accepts(ts, reading.now_millis);
        let item_id = content.item_id();
        Ok(Self { biz_no, content, os, ts, is_fresh, user_ip, item_id })
    }
}

/// Refuses the amounts of a credit that adds to no purse (contract 8.3.2).
///
/// # Errors
/// Both amounts are 0.
pub fn check_credit(free: i64, charge: i64) -> Result<(), Expected> {
    if (free, charge) == (0, 0) { Err(Expected::new("1 or more in one of them")) } else { Ok(()) }
}

fn parse_extension(text: &str) -> Result<String, Expected> {
    if text.len() <= EXTENSION_BYTES_MAX {
        Ok(text.to_owned())
    } else {
        Err(Expected::new("at most 4096 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn balances(free: i64, charge: i64) -> Balances {
        Balances::new(free, charge).unwrap()
    }

    fn amount(value: i64) -> Amount {
        Amount::parse(&value.to_string()).unwrap()
    }

    #[test]
    fn the_first_purse_pays_and_the_other_pays_the_rest() {
        let purses = balances(30, 50);
        let charged = purses.deduct(amount(60), PayPriority::ChargedFirst).unwrap();
        assert_eq!((charged.free_change, charged.charge_change, charged.after), (-10, -50, balances(20, 0)));
        let gifted = purses.deduct(amount(60), PayPriority::GiftedFirst).unwrap();
        assert_eq!((gifted.free_change, gifted.charge_change, gifted.after), (-30, -30, balances(0, 20)));
        assert_eq!(purses.deduct(amount(81), PayPriority::GiftedFirst), Err(InsufficientBalance));
        assert_eq!(purses.deduct(amount(80), PayPriority::ChargedFirst).unwrap().after, balances(0, 0));
    }

    #[test]
    fn an_amount_is_a_canonical_integer_within_its_limits() {
        assert!(Amount::parse("1").is_ok() && Amount::parse("1000000000000").is_ok());
        for bad in
            ["0", "-1", "+1", "01", "1.0", "1e3", " 1", "1000000000001", "99999999999999999999", "", "１"]
        {
            assert!(Amount::parse(bad).is_err(), "{bad:?}");
        }
    }

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
        let window = TsWindow { ahead_max: Duration::from_mins(5), behind_max: Duration::from_hours(48) };
        let now = 1_700_000_000_000;
        let at = |millis: i64| Timestamp::parse(&millis.to_string()).unwrap();
        assert!(window.accepts(at(now + 300_000), now) && !window.accepts(at(now + 300_001), now));
        assert!(window.accepts(at(now - 172_800_000), now) && !window.accepts(at(now - 172_800_001), now));
    }

    proptest! {
        #[test]
        fn a_deduction_never_goes_below_zero_and_takes_exactly_the_amount(
            free in 0_i64..=i64::MAX, charge in 0_i64..=i64::MAX, small in any::<bool>(),
            wanted in 1_i64..=AMOUNT_MAX, gifted_first in any::<bool>(),
        ) {
            let (free, charge) = if small { (free % 2_000_000_000_000, charge % 2_000_000_000_000) } else { (free, charge) };
            let priority = if gifted_first { PayPriority::GiftedFirst } else { PayPriority::ChargedFirst };
            let covered = i128::from(free) + i128::from(charge) >= i128::from(wanted);
            match balances(free, charge).deduct(amount(wanted), priority) {
                Ok(change) => {
                    prop_assert!(covered);
                    prop_assert!(change.after.free() >= 0 && change.after.charge() >= 0);
                    prop_assert!(change.free_change <= 0 && change.charge_change <= 0);
                    prop_assert_eq!(-(change.free_change + change.charge_change), wanted);
                    prop_assert_eq!(free + change.free_change, change.after.free());
                    prop_assert_eq!(charge + change.charge_change, change.after.charge());
                    // The second purse is touched only when the first is empty afterwards.
                    let (first_left, second_change) = match priority {
                        PayPriority::ChargedFirst => (change.after.charge(), change.free_change),
                        PayPriority::GiftedFirst => (change.after.free(), change.charge_change),
                    };
                    prop_assert!(second_change == 0 || first_left == 0);
                }
                Err(InsufficientBalance) => prop_assert!(!covered),
            }
        }

        #[test]
        fn a_credit_never_overflows(free in 0_i64..=i64::MAX, more in i64::MIN..=i64::MAX) {
            match balances(free, 0).credit(more, 0) {
                Ok(change) => prop_assert_eq!(i128::from(change.after.free()), i128::from(free) + i128::from(more)),
                Err(BalanceOutOfRange) => prop_assert!(more < 0 || free.checked_add(more).is_none()),
            }
        }
    }
}
