//! The fields of the calls of the wallet (contract 3.1 and 10). One line reads, bounds and documents a field, and what is
//! read here is signed: the names of [`super::SignedFields`] come from these lines.
//!
//! [`Input`] is the vocabulary of these lines: `field` names a field, and `required` and `optional` parse it. An empty
//! value counts as absent. Words, examples and `demand` are for the documents alone.
//!
//! A text of the developer has its row in [`DeveloperTexts`] too. What the store does with it follows from that row.

use std::time::Duration;

use serde_json::json;

use super::call::{WalletCall, WalletForm, check_texts};
use super::purses::{AMOUNT_MAX, Amount, PayPriority};
use super::request::{Action, Change, Purchase, WalletRequest};
use crate::examples::{BIZ_NO, OPEN_ID, PAY_BIZ_NO, PRICED, TS, USER_IP};
use crate::fields::{Expected, FieldError, is_canonical_integer};
use crate::ids::{BizNo, ItemId, OpenId, Os, ProductText, UserIp, ZoneId};
use crate::input::{Input, Read};
use crate::moment;
use crate::product_info::{self, ProductInfo};
use crate::text;
use crate::topup::{Offer, PricedProductId, TopupOrder};

/// How the fields of an exchange are read: what the operator has set, and when it arrived.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// The meaning of an empty `pay_priority`.
    pub pay_priority_default: PayPriority,
    /// When the request arrived, in Unix milliseconds.
    pub now_millis: i64,
    /// The price of the product of an order in the app. `None` where it is not for sale.
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

    /// Reads the fields of a call in the order of its table. Without a request it describes them.
    ///
    /// # Errors
    /// The first field that is absent or not acceptable.
    pub fn read(call: WalletCall, input: &mut Input<'_>, reading: &Reading) -> Read<Self> {
        match call {
            WalletCall::Exchange => exchange(input, reading),
            WalletCall::Present => present(input, reading),
            WalletCall::Cancel => cancel(input, reading),
            WalletCall::Balance => balance(input, reading),
            WalletCall::Query => query(input, reading),
            WalletCall::Topup => topup(input, reading),
        }
    }
}

/// Contract 3.1.
fn exchange(input: &mut Input<'_>, reading: &Reading) -> Read<WalletRequest> {
    let common = CommonFields::read(input, reading)?;
    let amount = amount(input, "What is deducted.", 60)?;
    let pay_priority = pay_priority(input, reading)?;
    let biz_no = biz_no(input, || format!("Your order number, {}.", BizNo::EXPECTED))?;
    let product_name = input
        .field_with("product_name", || format!("Name of the item or bundle, {}.", ProductText::EXPECTED));
    let product_name = product_name.required("Double-up card", ProductText::parse)?;
    let product_info = product_info(input)?;
    let product_desc = input.field("product_desc", "Remark, as long as the name.");
    let product_desc = product_desc.required("For one match", ProductText::parse)?;
    let words =
        " With it, no text may read like other signed fields (`&open_id=`, `&os=`, `&product_desc=`).";
    let texts = extension(input, words)?;
    let item_id = ItemId::of(product_name.as_str(), product_info.as_str(), product_desc.as_str());
    let purchase = Purchase { amount, pay_priority, product_name, product_info, product_desc, item_id };
    Ok(common.change(&biz_no, Change::Exchange(purchase), None, texts))
}

/// Contract 10.1 and 10.3.
fn present(input: &mut Input<'_>, reading: &Reading) -> Read<WalletRequest> {
    let common = CommonFields::read(input, reading)?;
    let amount = amount(input, "What is given.", 10)?;
    let words =
        "Your number of the present. Exchanges, presents, cancels and top-up orders share the numbers.";
    let biz_no = biz_no(input, || words.to_owned())?;
    let remark = remark(input)?;
    let texts = extension(input, "")?;
    Ok(common.change(&biz_no, Change::Present(amount), Some(remark), texts))
}

/// Contract 10.1 and 10.4.
fn cancel(input: &mut Input<'_>, reading: &Reading) -> Read<WalletRequest> {
    let common = CommonFields::read(input, reading)?;
    let words =
        "Your number of the cancel. Exchanges, presents, cancels and top-up orders share the numbers.";
    let biz_no = biz_no(input, || words.to_owned())?;
    let of = input.field("pay_biz_no", "The number of the exchange.").required(PAY_BIZ_NO, BizNo::parse)?;
    let amount = amount(input, "What is given back.", 30)?;
    let remark = remark(input)?;
    let texts = extension(input, "")?;
    Ok(common.change(&biz_no, Change::Cancel { of, amount }, Some(remark), texts))
}

/// Contract 10.1 and 10.6.
fn balance(input: &mut Input<'_>, reading: &Reading) -> Read<WalletRequest> {
    let common = CommonFields::read(input, reading)?;
    let texts = extension(input, "")?;
    Ok(common.request(String::new(), Action::Balance, None, texts))
}

/// Contract 10.1 and 10.5. It names no zone, platform or address.
fn query(input: &mut Input<'_>, reading: &Reading) -> Read<WalletRequest> {
    let open_id = open_id(input)?;
    let biz_no = biz_no(input, || {
        "The number of an exchange, a present, a cancel or an order of a top-up.".to_owned()
    })?;
    let ts = ts(input)?;
    let words = "`1`: if nothing has used the number, it is closed for ever. Empty, absent or `0`: nothing is changed.";
    let close = input.field("close", words).demand_with("enum", || json!(["", "0", "1"]));
    let closes = close.optional_as::<String, _>(parse_close)?.unwrap_or(false);
    Ok(WalletRequest {
        open_id,
        reference: biz_no.to_string(),
        action: Action::Query { closes },
        ts: Some(ts),
        is_fresh: reading.is_fresh(ts),
        sender: None,
        remark: None,
    })
}

/// Contract 19.2.
fn topup(input: &mut Input<'_>, reading: &Reading) -> Read<WalletRequest> {
    let common = CommonFields::read(input, reading)?;
    let words = "Your number of the order. It shares the numbers of exchanges, presents and cancels.";
    let biz_no = biz_no(input, || words.to_owned())?;
    let words = "The product, as the app's list of prices has it.";
    let product_id = input.field("product_id", words).required(PRICED, PricedProductId::parse)?;
    let remark = remark(input)?;
    let texts = extension(input, "")?;
    let order = TopupOrder::new(product_id, reading.offer);
    let remark = order.content(&remark);
    Ok(common.request(biz_no.to_string(), Action::Order(order), Some(remark), texts))
}

/// The game's statements about itself and its player.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// Zone and role.
    pub zone_id: ZoneId,
    /// Platform of the player.
    pub os: Os,
    /// Address of the player.
    pub user_ip: UserIp,
    /// Texts of the developer.
    pub texts: DeveloperTexts,
}

/// Declares the texts of the developer, each once.
macro_rules! developer_texts {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// Texts of the developer (contract 3.1.7), each empty when absent. A repeat must have the same ones.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct DeveloperTexts {
            $($(#[$doc])* pub $name: String,)+
        }

        impl DeveloperTexts {
            /// Their names on the wire, which are those of their columns in the ledger.
            pub const NAMES: [&'static str; [$(stringify!($name)),+].len()] = [$(stringify!($name)),+];

            /// The texts in the order of their names.
            #[must_use]
            pub fn all(&self) -> [&str; Self::NAMES.len()] {
                [$(&self.$name),+]
            }
        }
    };
}

developer_texts! {
    /// Any text.
    extension,
}

/// When the request was made, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The accepted form, as a regular expression for the document of the API.
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

/// The first fields of every call but the query.
struct CommonFields {
    open_id: OpenId,
    zone_id: ZoneId,
    os: Os,
    ts: Timestamp,
    is_fresh: bool,
    user_ip: UserIp,
}

impl CommonFields {
    fn read(input: &mut Input<'_>, reading: &Reading) -> Read<Self> {
        let open_id = open_id(input)?;
        let zone_id = input.field_with("zone_id", || format!("Zone and role: {}.", ZoneId::EXPECTED));
        let zone_id = zone_id.required("zone1_role1", ZoneId::parse)?;
        let os = input.field("os", "The player's platform, such as `android`, `ios`.");
        let os = os.required("android", Os::parse)?;
        let ts = ts(input)?;
        let user_ip = input.field_with("user_ip", || format!("The player's address, {}.", UserIp::EXPECTED));
        let user_ip = user_ip.required(USER_IP, super::user_ip::parse)?;
        Ok(Self { open_id, zone_id, os, ts, is_fresh: reading.is_fresh(ts), user_ip })
    }

    fn change(
        self,
        biz_no: &BizNo,
        change: Change,
        remark: Option<String>,
        texts: DeveloperTexts,
    ) -> WalletRequest {
        self.request(biz_no.to_string(), Action::Change(change), remark, texts)
    }

    fn request(
        self,
        reference: String,
        action: Action,
        remark: Option<String>,
        texts: DeveloperTexts,
    ) -> WalletRequest {
        let Self { open_id, zone_id, os, ts, is_fresh, user_ip } = self;
        let sender = Some(Sender { zone_id, os, user_ip, texts });
        WalletRequest { open_id, reference, action, ts: Some(ts), is_fresh, sender, remark }
    }
}

fn open_id(input: &mut Input<'_>) -> Read<OpenId> {
    input.field("open_id", "The player; the app must know it.").required(OPEN_ID, OpenId::parse)
}

fn ts(input: &mut Input<'_>) -> Read<Timestamp> {
    let ts = input.field_with("ts", || {
        let (ahead, behind) = (moment::in_words(TS_AHEAD_MAX), moment::in_words(TS_BEHIND_MAX));
        format!(
            "When the request was made: 13 digits of milliseconds or 10 of seconds, at most {ahead} ahead of and {behind} behind now."
        )
    });
    ts.demand("pattern", Timestamp::PATTERN).required_as::<String, _>(TS, Timestamp::parse)
}

fn amount(input: &mut Input<'_>, words: &'static str, example: i64) -> Read<Amount> {
    let amount = input.field("amount", words).demand("minimum", 1).demand("maximum", AMOUNT_MAX);
    amount.required_as::<i64, _>(example, Amount::parse)
}

/// Empty or absent, it is the default of the settings (contract 3.1).
fn pay_priority(input: &mut Input<'_>, reading: &Reading) -> Read<PayPriority> {
    let default = reading.pay_priority_default;
    let priority = input.field_with("pay_priority", || {
        let default = default.code();
        format!(
            "`0`: charged currency first, `1`: gifted currency first; the other purse pays the rest. Empty or absent: {default}."
        )
    });
    let priority = priority.demand_with("enum", || json!(["", "0", "1"])).example("1");
    Ok(priority.optional_as::<String, _>(PayPriority::parse)?.unwrap_or(default))
}

fn biz_no(input: &mut Input<'_>, words: impl FnOnce() -> String) -> Read<BizNo> {
    input.field_with("biz_no", words).required(BIZ_NO, BizNo::parse)
}

/// Contract 3.5.
fn product_info(input: &mut Input<'_>) -> Read<ProductInfo> {
    let (bytes, items) = (product_info::BYTES_MAX, product_info::ITEMS_MAX);
    input
        .field_with("product_info", || {
            format!("JSON text of at most {bytes} bytes: an array of 1 to {items} items.")
        })
        .demand("minLength", 1)
        .demand("maxLength", bytes)
        .demand("contentMediaType", "application/json")
        .demand_with("contentSchema", product_info::items_schema)
        .required_as::<String, _>(product_info::EXAMPLE, ProductInfo::parse)
}

/// The remark of a present or a cancel; empty when absent.
fn remark(input: &mut Input<'_>) -> Read<String> {
    let remark = input.field_with("product_desc", || format!("Remark, {}.", ProductText::EXPECTED));
    let remark = remark.optional_as::<String, _>(ProductText::parse)?;
    Ok(remark.map_or_else(String::new, |text| text.to_string()))
}

/// The text of the developer that every call with a platform has. `more` says what else holds for it.
fn extension(input: &mut Input<'_>, more: &'static str) -> Read<DeveloperTexts> {
    Ok(DeveloperTexts { extension: developer_text(input, "extension", 4096, more)? })
}

/// A text of the developer: its name, its largest length in bytes, and what else there is to say of it. Empty when absent.
fn developer_text(
    input: &mut Input<'_>,
    name: &'static str,
    bytes_max: usize,
    more: &'static str,
) -> Read<String> {
    let parse = |text: &str| match text.len() {
        length if length > bytes_max => Err(Expected(text!("at most {bytes_max} bytes", bytes_max))),
        _ => Ok(text.to_owned()),
    };
    let text = input.field_with(name, || format!("Any text of at most {bytes_max} bytes.{more}"));
    Ok(text.demand("maxLength", bytes_max).optional_as::<String, _>(parse)?.unwrap_or_default())
}

fn parse_close(text: &str) -> Result<bool, Expected> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(Expected::new("0, 1 or empty")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Fields;
    use crate::input::plain;

    #[test]
    fn an_exchange_reads_each_text_of_the_developer_under_its_name() {
        let reading = Reading::new(PayPriority::ChargedFirst, 1_800_000_000_000);
        let mut form = Fields::default();
        for field in Input::describe(|input| exchange(input, &reading)) {
            let is_text = DeveloperTexts::NAMES.contains(&field.name);
            let value = if is_text { Some(field.name.into()) } else { field.example };
            form.add_text(field.name.to_owned(), value.as_ref().map(plain).unwrap_or_default()).unwrap();
        }
        let request = exchange(&mut Input::of(&form), &reading).unwrap();
        assert_eq!(request.sender.unwrap().texts.all(), DeveloperTexts::NAMES);
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
        let now = 1_700_000_000_000;
        let reading = Reading::new(PayPriority::ChargedFirst, now);
        let is_fresh = |millis: i64| reading.is_fresh(Timestamp::parse(&millis.to_string()).unwrap());
        assert!(is_fresh(now + 300_000) && !is_fresh(now + 300_001));
        assert!(is_fresh(now - 172_800_000) && !is_fresh(now - 172_800_001));
    }
}
