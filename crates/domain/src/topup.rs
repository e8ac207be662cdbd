//! Top-ups: prices, orders, and payments that a provider reports (contract 19). Whether a payment fits what was ordered
//! is decided here.

mod callback;
mod coin_price;
mod currency;
mod fields;
mod lots;
mod payment;
mod refund;
mod state;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::fields::Expected;
use crate::ids::{ItemId, made_of, text_type};

pub use callback::{
    CALLBACK_BYTES_MAX, CallbackEvent, CallbackFormat, CallbackProvider, CallbackSecret, ClaimedCallback,
    SignedCallback, TOLD_BY_PROVIDER, not_signed,
};
pub use coin_price::CoinPrice;
pub use currency::Currency;
pub use fields::{PaymentFields, read_refund};
pub use lots::{LOT_EXCHANGES_MAX, Lot, LotExchange, LotUse};
pub use payment::{
    Coins, Counterpart, Payment, PaymentKey, PaymentTarget, PlacedOrder, UnmatchedReason, payment_reference,
};
pub use refund::{
    CoinPair, Excess, NewRefund, REFUND_ID_BYTES_MAX, RefundAmount, RefundId, RefundKey, Refundable,
    Shortfall,
};
pub use state::{PaymentState, RefundState};

/// Longest name of a payment provider, in bytes.
pub const PROVIDER_BYTES_MAX: usize = 32;
/// Longest id that a provider gives a payment, in bytes.
pub const PROVIDER_ORDER_ID_BYTES_MAX: usize = 128;
/// Longest name of a product, in bytes.
pub const PRICE_NAME_BYTES_MAX: usize = 512;
/// The largest amount of money or of coins of a product.
pub const FIGURE_MAX: i64 = 1_000_000_000_000;
/// The most products of a list.
pub const PRICES_MAX: usize = 1_000;

text_type!(
    /// A product of the list of prices of an app.
    PricedProductId, "1 to 64 of 0-9A-Za-z._-" => "^[0-9A-Za-z._-]{1,64}$",
    |text| made_of(text, 1, 64, |byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
);
text_type!(
    /// A payment provider, as the operator names it.
    PaymentProvider, "1 to 32 of 0-9a-z_-" => "^[0-9a-z_-]{1,32}$",
    |text| made_of(text, 1, PROVIDER_BYTES_MAX, |byte| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte)
    })
);
text_type!(
    /// A payment, as its provider names it.
    ProviderOrderId, "1 to 128 printable ASCII characters" => "^[!-~]([ -~]{0,126}[!-~])?$",
    |text| made_of(text, 1, PROVIDER_ORDER_ID_BYTES_MAX, |byte| (b' '..=b'~').contains(&byte)),
    but crate::strays::unseen => stored
);
text_type!(
    /// Name of a product, for people; may be empty.
    #[derive(Default)]
    PriceName, "at most 512 bytes without control characters" { "maxLength": PRICE_NAME_BYTES_MAX },
    |text| text.len() <= PRICE_NAME_BYTES_MAX && !text.contains(char::is_control)
);

/// The cost of a product, and the coins that it brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Currency of the money.
    pub currency: Currency,
    /// The money, in minor units.
    pub amount: i64,
    /// Charged coins.
    pub charge: i64,
    /// Gifted coins.
    pub bonus: i64,
    /// How long an order is shown as open, in seconds.
    pub ttl: i64,
}

/// A row of the list of prices of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// The product.
    pub product_id: PricedProductId,
    /// Currency of the money.
    pub currency: Currency,
    /// The money, in minor units.
    pub amount: i64,
    /// Charged coins.
    pub charge: i64,
    /// Gifted coins.
    pub bonus: i64,
    /// Its name, for people.
    pub name: PriceName,
    /// Whether it is for sale.
    pub active: bool,
}

impl Price {
    /// Refuses a product that brings no coins.
    ///
    /// # Errors
    /// Both numbers are 0.
    pub fn check_coins(charge: i64, bonus: i64) -> Result<(), Expected> {
        if (charge, bonus) == (0, 0) { Err(Expected::new("1 or more in charge or bonus")) } else { Ok(()) }
    }

    /// The terms that an order fixes. `ttl` is how long the order is shown as open, in seconds.
    #[must_use]
    pub const fn offer(&self, ttl: i64) -> Offer {
        Offer { currency: self.currency, amount: self.amount, charge: self.charge, bonus: self.bonus, ttl }
    }
}

/// The order of a game.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopupOrder {
    /// The product.
    pub product_id: PricedProductId,
    /// The terms that the order fixes. `None` where the product is not for sale.
    pub offered: Option<OfferedItem>,
}

/// The terms that an order fixes, as the ledger keeps them: many orders share them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedItem {
    /// JSON text of the [`Offer`].
    pub figures: String,
    /// Digest of product and figures.
    pub item_id: ItemId,
}

impl TopupOrder {
    /// The order of a product, at the price that the app sells it for now.
    #[must_use]
    pub fn new(product_id: PricedProductId, offer: Option<Offer>) -> Self {
        let offered = offer.map(|offer| {
            let figures = json!(offer).to_string();
            OfferedItem { item_id: ItemId::of(product_id.as_str(), &figures, ""), figures }
        });
        Self { product_id, offered }
    }

    /// The product and the remark, as the ledger keeps them in one text. No product has a blank, so the first one divides
    /// them. Both are content of the order, its price is not (contract 19.2.4).
    #[must_use]
    pub fn content(&self, remark: &str) -> String {
        if remark.is_empty() { self.product_id.to_string() } else { format!("{} {remark}", self.product_id) }
    }
}

impl Offer {
    /// The figures of an order, as the ledger keeps them. `None` for a damaged text.
    #[must_use]
    pub fn of_figures(text: &str) -> Option<Self> {
        let offer: Self = serde_json::from_str(text).ok()?;
        let fits = (1..=FIGURE_MAX).contains(&offer.amount)
            && (0..=FIGURE_MAX).contains(&offer.charge)
            && (0..=FIGURE_MAX).contains(&offer.bonus);
        fits.then_some(offer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer() -> Offer {
        Offer { currency: Currency::parse("CNY").unwrap(), amount: 600, charge: 60, bonus: 6, ttl: 7_200 }
    }

    /// Rule 19.3.1: a blank at an end makes no other payment, and payments that have one are read.
    #[test]
    fn a_payment_has_no_blank_around_its_id() {
        for bad in [" w1", "w1 ", " "] {
            let expected = Expected::new("no blank or unseen character around it");
            assert_eq!(ProviderOrderId::parse(bad), Err(expected), "{bad:?}");
            assert_eq!(ProviderOrderId::stored(bad).unwrap().as_str(), bad);
        }
        for good in ["w 1", "\"w1\"", &"x".repeat(128)] {
            assert!(ProviderOrderId::parse(good).is_ok(), "{good:?}");
        }
        for bad in ["", "ä", "w1\n", &"x".repeat(129)] {
            let expected = Expected::new(ProviderOrderId::EXPECTED);
            assert_eq!(ProviderOrderId::parse(bad), Err(expected), "{bad:?}");
        }
    }

    /// Rule 19.2.3: an order keeps its figures, so they come back as they were kept.
    #[test]
    fn the_figures_of_an_order_come_back() {
        let order = TopupOrder::new(PricedProductId::parse("gems60").unwrap(), Some(offer()));
        let offered = order.offered.clone().unwrap();
        assert_eq!(offered.figures, r#"{"amount":600,"bonus":6,"charge":60,"currency":"CNY","ttl":7200}"#);
        assert_eq!(Offer::of_figures(&offered.figures), Some(offer()));
        assert_eq!(Offer::of_figures(&offered.figures.replace("600", "0")), None);
        assert_eq!(Offer::of_figures(&offered.figures.replace("CNY", "CNX")), None);
        assert_eq!((order.content(""), order.content("a b")), ("gems60".into(), "gems60 a b".into()));
    }
}
