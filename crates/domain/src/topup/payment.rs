//! Payments: what a provider tells, and whether it fits what was ordered or is for sale (contract 19.3).

use time::OffsetDateTime;

use super::{Currency, PaymentProvider, Price, PricedProductId, ProviderOrderId};
use crate::fields::FieldError;
use crate::ids::{BizNo, OpenId, Os};
use crate::ledger::{SETTLEMENT_MARK, TOPUP_MARK};
use crate::moment;
use crate::text;

/// The first second of 2000, in Unix seconds. What was paid before is the zero of some language, or another unit.
const PAID_AT_MIN: i64 = 946_684_800;
/// How far ahead of now a payment may be, in seconds. A time whose offset was left out is within a day.
const PAID_AHEAD_MAX: i64 = 24 * 60 * 60;

/// The idempotency key of a payment in its app, for ever.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PaymentKey {
    /// The provider.
    pub provider: PaymentProvider,
    /// The provider's id.
    pub provider_order_id: ProviderOrderId,
}

impl PaymentKey {
    /// The pair as one text. No provider has a slash, so the first one divides it.
    #[must_use]
    pub fn as_text(&self) -> String {
        format!("{}/{}", self.provider, self.provider_order_id)
    }

    /// The reference of its ledger entry.
    #[must_use]
    pub fn reference(&self) -> String {
        payment_reference(self.provider.as_str(), self.provider_order_id.as_str())
    }

    /// The reference of the ledger entry that settles debt with what the payment has brought.
    #[must_use]
    pub fn settlement(&self) -> String {
        format!("{SETTLEMENT_MARK}{}", self.as_text())
    }

    /// Reads [`PaymentKey::as_text`].
    #[must_use]
    pub fn of_text(text: &str) -> Option<Self> {
        let (provider, id) = text.split_once('/')?;
        Some(Self {
            provider: PaymentProvider::parse(provider).ok()?,
            provider_order_id: ProviderOrderId::stored(id).ok()?,
        })
    }
}

/// The reference of the ledger entry of a payment.
#[must_use]
pub fn payment_reference(provider: &str, provider_order_id: &str) -> String {
    format!("{TOPUP_MARK}{provider}/{provider_order_id}")
}

/// The purpose of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaymentTarget {
    /// An order.
    Order {
        /// Its number.
        biz_no: BizNo,
        /// The player, where the payment names one too.
        open_id: Option<OpenId>,
        /// The product, where the payment names one too.
        product_id: Option<PricedProductId>,
    },
    /// A product for a player, without an order.
    Product {
        /// The player.
        open_id: OpenId,
        /// The product.
        product_id: PricedProductId,
    },
}

impl PaymentTarget {
    /// The target of these fields. `None` where they are neither an order nor a player with a product.
    #[must_use]
    pub fn of(
        biz_no: Option<BizNo>,
        open_id: Option<OpenId>,
        product_id: Option<PricedProductId>,
    ) -> Option<Self> {
        match (biz_no, open_id, product_id) {
            (Some(biz_no), open_id, product_id) => Some(Self::Order { biz_no, open_id, product_id }),
            (None, Some(open_id), Some(product_id)) => Some(Self::Product { open_id, product_id }),
            (None, ..) => None,
        }
    }

    /// The order that it names.
    #[must_use]
    pub const fn biz_no(&self) -> Option<&BizNo> {
        match self {
            Self::Order { biz_no, .. } => Some(biz_no),
            Self::Product { .. } => None,
        }
    }

    /// The player that it names.
    #[must_use]
    pub const fn open_id(&self) -> Option<&OpenId> {
        match self {
            Self::Order { open_id, .. } => open_id.as_ref(),
            Self::Product { open_id, .. } => Some(open_id),
        }
    }

    /// The product that it names.
    #[must_use]
    pub const fn product_id(&self) -> Option<&PricedProductId> {
        match self {
            Self::Order { product_id, .. } => product_id.as_ref(),
            Self::Product { product_id, .. } => Some(product_id),
        }
    }

    /// The same target for this player, where it names one.
    #[must_use]
    pub fn with_player(mut self, player: &OpenId) -> Self {
        match &mut self {
            Self::Order { open_id: Some(open_id), .. } | Self::Product { open_id, .. } => {
                open_id.clone_from(player);
            }
            Self::Order { open_id: None, .. } => {}
        }
        self
    }

    /// The first field by which two requests cannot be about the same payment. They agree on the same order, whatever else
    /// one of them leaves out; or on the same player and product.
    #[must_use]
    pub fn differs_in(&self, other: &Self) -> Option<&'static str> {
        fn differ<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            one.zip(other).is_some_and(|(one, other)| one != other)
        }
        let fields = [
            ("biz_no", self.biz_no() != other.biz_no()),
            ("open_id", differ(self.open_id(), other.open_id())),
            ("product_id", differ(self.product_id(), other.product_id())),
        ];
        fields.into_iter().find_map(|(field, differs)| differs.then_some(field))
    }
}

/// A payment that a provider reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// Its idempotency key.
    pub key: PaymentKey,
    /// Currency of the money.
    pub currency: Currency,
    /// The money, in minor units.
    pub amount: i64,
    /// Its purpose.
    pub target: PaymentTarget,
    /// When it was paid, as the provider says.
    pub paid_at: OffsetDateTime,
    /// Platform of the player.
    pub os: Option<Os>,
    /// What the provider keeps, in minor units.
    pub fee: Option<i64>,
    /// Note for people.
    pub note: String,
}

crate::word_enum! {
    /// Why a payment was kept and nothing was credited.
    pub enum UnmatchedReason {
        /// The player has made no such order.
        UnknownOrder = "unknown_order",
        /// Another payment has paid the order.
        OrderPaid = "order_paid",
        /// The order is another player's.
        OtherPlayer = "other_player",
        /// The order is of another product.
        OtherProduct = "other_product",
        /// The order or the price has another currency.
        OtherCurrency = "other_currency",
        /// The order or the price has another amount.
        OtherAmount = "other_amount",
        /// The app knows no such player.
        UnknownPlayer = "unknown_player",
        /// The app sells no such product.
        UnknownProduct = "unknown_product",
        /// A purse would hold more than 64 bits.
        PurseFull = "purse_full",
    }
}

/// An order as a payment finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedOrder {
    /// The player.
    pub open_id: OpenId,
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
    /// Whether a payment has paid it.
    pub is_paid: bool,
}

/// The terms with which a payment is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counterpart {
    /// The order that it names. `None` where there is none.
    Order(Option<PlacedOrder>),
    /// The player and the price of the product that it names.
    Price {
        /// Whether the app knows the player.
        is_known: bool,
        /// The price. `None` for a product that the list does not have.
        price: Option<Price>,
    },
}

/// The credit of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coins {
    /// The player.
    pub open_id: OpenId,
    /// The product.
    pub product_id: PricedProductId,
    /// The order that is paid.
    pub biz_no: Option<BizNo>,
    /// Charged coins.
    pub charge: i64,
    /// Gifted coins.
    pub bonus: i64,
}

impl Payment {
    /// Whether it can have been paid when it said, as it is told at `now`, in Unix seconds.
    ///
    /// # Errors
    /// `paid_at` is before 2000 or more than a day ahead (contract 19.3.1).
    pub fn check_paid_at(&self, now: i64) -> Result<(), FieldError> {
        let latest = now.saturating_add(PAID_AHEAD_MAX);
        if (PAID_AT_MIN..=latest).contains(&self.paid_at.unix_timestamp()) {
            return Ok(());
        }
        let expected = text!("a time from 2000-01-01 on and at most a day ahead of now");
        Err(FieldError::malformed("paid_at", expected, &moment::rfc3339(self.paid_at)))
    }

    /// What a payment is credited as: its checks in the order of the law, one reason each (contract 19.3.4).
    ///
    /// # Errors
    /// Why it fits nothing.
    pub fn matched(&self, with: &Counterpart) -> Result<Coins, UnmatchedReason> {
        match (with, &self.target) {
            (Counterpart::Order(order), PaymentTarget::Order { biz_no, open_id, product_id }) => {
                let order = order.as_ref().ok_or(UnmatchedReason::UnknownOrder)?;
                // The payment may name the player of before, who is not compared any more.
                if order.open_id.is_pseudonym() {
                    return Err(UnmatchedReason::UnknownPlayer);
                }
                if open_id.as_ref().is_some_and(|told| *told != order.open_id) {
                    return Err(UnmatchedReason::OtherPlayer);
                }
                if product_id.as_ref().is_some_and(|told| *told != order.product_id) {
                    return Err(UnmatchedReason::OtherProduct);
                }
                self.has_price(order.currency, order.amount)?;
                if order.is_paid {
                    return Err(UnmatchedReason::OrderPaid);
                }
                Ok(order.coins(biz_no.clone()))
            }
            (Counterpart::Price { is_known, price }, PaymentTarget::Product { open_id, .. }) => {
                if !is_known {
                    return Err(UnmatchedReason::UnknownPlayer);
                }
                let price = price.as_ref().filter(|price| price.active);
                let price = price.ok_or(UnmatchedReason::UnknownProduct)?;
                self.has_price(price.currency, price.amount)?;
                Ok(price.coins(open_id.clone()))
            }
            (Counterpart::Order(_), _) => Err(UnmatchedReason::UnknownOrder),
            (Counterpart::Price { .. }, _) => Err(UnmatchedReason::UnknownProduct),
        }
    }

    fn has_price(&self, currency: Currency, amount: i64) -> Result<(), UnmatchedReason> {
        if self.currency != currency {
            return Err(UnmatchedReason::OtherCurrency);
        }
        if self.amount == amount { Ok(()) } else { Err(UnmatchedReason::OtherAmount) }
    }
}

impl PlacedOrder {
    /// The credit of its payment.
    #[must_use]
    pub fn coins(&self, biz_no: BizNo) -> Coins {
        let (open_id, product_id) = (self.open_id.clone(), self.product_id.clone());
        Coins { open_id, product_id, biz_no: Some(biz_no), charge: self.charge, bonus: self.bonus }
    }
}

impl Price {
    /// The credit of its payment, for this player.
    #[must_use]
    pub fn coins(&self, open_id: OpenId) -> Coins {
        let product_id = self.product_id.clone();
        Coins { open_id, product_id, biz_no: None, charge: self.charge, bonus: self.bonus }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PriceName;
    use super::*;

    fn currency(code: &str) -> Currency {
        Currency::parse(code).unwrap()
    }

    fn open_id(text: &str) -> OpenId {
        OpenId::parse(text).unwrap()
    }

    fn product(text: &str) -> PricedProductId {
        PricedProductId::parse(text).unwrap()
    }

    fn payment(target: PaymentTarget) -> Payment {
        Payment {
            key: PaymentKey::of_text("stripe/pi_1").unwrap(),
            currency: currency("CNY"),
            amount: 600,
            target,
            paid_at: OffsetDateTime::UNIX_EPOCH,
            os: None,
            fee: None,
            note: String::new(),
        }
    }

    fn of_order(player: Option<&str>, of: Option<&str>) -> Payment {
        let biz_no = BizNo::parse("t1").unwrap();
        payment(PaymentTarget::Order { biz_no, open_id: player.map(open_id), product_id: of.map(product) })
    }

    fn order() -> PlacedOrder {
        PlacedOrder {
            open_id: open_id("o1"),
            product_id: product("gems60"),
            currency: currency("CNY"),
            amount: 600,
            charge: 60,
            bonus: 6,
            is_paid: false,
        }
    }

    /// Rule 19.3.1: a zero value and a far future are no times of a payment, and a clock may be wrong by a day.
    #[test]
    fn a_payment_was_made_between_2000_and_a_day_ahead() {
        const NOW: i64 = 1_800_000_000;
        let at = |seconds: i64| {
            let paid_at = OffsetDateTime::from_unix_timestamp(seconds).unwrap();
            Payment { paid_at, ..of_order(None, None) }.check_paid_at(NOW).map_err(|error| error.to_string())
        };
        for fits in [946_684_800, NOW, NOW + 86_400] {
            assert_eq!(at(fits), Ok(()), "{fits}");
        }
        let expected = "paid_at: expected a time from 2000-01-01 on and at most a day ahead of now, got";
        for (wrong, shown) in [
            (-62_135_596_800, "0001-01-01T00:00:00Z"),
            (0, "1970-01-01T00:00:00Z"),
            (946_684_799, "1999-12-31T23:59:59Z"),
            (NOW + 86_401, "2027-01-16T08:00:01Z"),
            (4_070_908_800, "2099-01-01T00:00:00Z"),
        ] {
            assert_eq!(at(wrong), Err(format!("{expected} \"{shown}\"")));
        }
    }

    /// Rule 19.3.4: what differs from the order is named, and nothing is credited.
    #[test]
    fn a_payment_fits_its_order_or_says_what_differs() {
        let with = |order: PlacedOrder| Counterpart::Order(Some(order));
        let coins = of_order(None, None).matched(&with(order())).unwrap();
        assert_eq!((coins.charge, coins.bonus, coins.open_id.as_str()), (60, 6, "o1"));
        assert!(of_order(Some("o1"), Some("gems60")).matched(&with(order())).is_ok());
        let why = |payment: Payment, with: &Counterpart| payment.matched(with).unwrap_err();
        assert_eq!(why(of_order(None, None), &Counterpart::Order(None)), UnmatchedReason::UnknownOrder);
        assert_eq!(why(of_order(Some("o2"), None), &with(order())), UnmatchedReason::OtherPlayer);
        assert_eq!(why(of_order(None, Some("gems6")), &with(order())), UnmatchedReason::OtherProduct);
        for (other, reason) in [
            (PlacedOrder { currency: currency("USD"), ..order() }, UnmatchedReason::OtherCurrency),
            (PlacedOrder { amount: 599, ..order() }, UnmatchedReason::OtherAmount),
            (PlacedOrder { amount: 601, ..order() }, UnmatchedReason::OtherAmount),
            (PlacedOrder { is_paid: true, ..order() }, UnmatchedReason::OrderPaid),
        ] {
            assert_eq!(why(of_order(None, None), &with(other)), reason);
        }
    }

    /// Rule 13.7.13: nobody buys for an erased player, whatever else the payment says.
    #[test]
    fn a_payment_for_an_order_of_an_erased_player_fits_nothing() {
        let erased = PlacedOrder { open_id: OpenId::pseudonym([7; 10]), ..order() };
        let paid = PlacedOrder { is_paid: true, ..erased.clone() };
        for (player, order) in [(None, erased.clone()), (Some("o1"), erased), (None, paid)] {
            let matched = of_order(player, None).matched(&Counterpart::Order(Some(order)));
            assert_eq!(matched, Err(UnmatchedReason::UnknownPlayer), "{player:?}");
        }
    }

    /// Rule 19.3.4, without an order: player, product and price.
    #[test]
    fn a_payment_without_an_order_fits_the_price() {
        let price = Price {
            product_id: product("gems60"),
            currency: currency("CNY"),
            amount: 600,
            charge: 60,
            bonus: 0,
            name: PriceName::default(),
            active: true,
        };
        let of = PaymentTarget::Product { open_id: open_id("o1"), product_id: product("gems60") };
        let matched = |is_known: bool, price: Option<Price>| {
            payment(of.clone()).matched(&Counterpart::Price { is_known, price })
        };
        assert_eq!(matched(true, Some(price.clone())).map(|coins| coins.charge), Ok(60));
        let inactive = Price { active: false, ..price.clone() };
        let dearer = Price { amount: 700, ..price.clone() };
        let foreign = Price { currency: currency("JPY"), ..price.clone() };
        assert_eq!(matched(false, Some(price)), Err(UnmatchedReason::UnknownPlayer));
        assert_eq!(matched(true, None), Err(UnmatchedReason::UnknownProduct));
        assert_eq!(matched(true, Some(inactive)), Err(UnmatchedReason::UnknownProduct));
        assert_eq!(matched(true, Some(dearer)), Err(UnmatchedReason::OtherAmount));
        assert_eq!(matched(true, Some(foreign)), Err(UnmatchedReason::OtherCurrency));
    }

    /// Rule 19.3.2: the callback and the admin API may report the same payment with more or less beside the order.
    #[test]
    fn what_is_left_out_beside_an_order_does_not_differ() {
        let of = |player: Option<&str>, of: Option<&str>| of_order(player, of).target;
        assert_eq!(of(None, None).differs_in(&of(Some("o1"), Some("gems60"))), None);
        assert_eq!(of(Some("o1"), None).differs_in(&of(None, Some("gems60"))), None);
        assert_eq!(of(Some("o1"), None).differs_in(&of(Some("o2"), None)), Some("open_id"));
        assert_eq!(of(None, Some("a")).differs_in(&of(None, Some("b"))), Some("product_id"));
        let without = PaymentTarget::Product { open_id: open_id("o1"), product_id: product("gems60") };
        assert_eq!(without.differs_in(&of(Some("o1"), Some("gems60"))), Some("biz_no"));
        assert_eq!(without.differs_in(&without.clone()), None);
    }
}
