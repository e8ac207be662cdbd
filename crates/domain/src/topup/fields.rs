//! The fields of payments and refunds (contract 19.3.1 and 19.5.1), for the admin API and for callbacks.

use time::OffsetDateTime;

use super::{
    Currency, FIGURE_MAX, Payment, PaymentKey, PaymentProvider, PaymentTarget, PricedProductId,
    ProviderOrderId, RefundId,
};
use crate::examples::{MOMENT, NAMED_BIZ_NO, PROVIDER_ORDER_ID};
use crate::fields::{FieldError, LINE_BYTES_MAX, parse_line};
use crate::ids::{BizNo, OpenId, Os};
use crate::input::{Input, Read};
use crate::moment;

/// The fields of a payment beside its provider, before they are a whole.
#[derive(Debug)]
pub struct PaymentFields {
    provider_order_id: ProviderOrderId,
    currency: Currency,
    amount: i64,
    paid_at: OffsetDateTime,
    biz_no: Option<BizNo>,
    open_id: Option<OpenId>,
    product_id: Option<PricedProductId>,
    os: Option<Os>,
    fee: Option<i64>,
    note: String,
}

impl PaymentFields {
    /// Reads the fields in the order of their table. Without a request it describes them.
    ///
    /// # Errors
    /// The first field that is absent or not acceptable.
    pub fn read(body: &mut Input<'_>) -> Read<Self> {
        let words = "The provider's id of the payment.";
        let provider_order_id = body.field("provider_order_id", words);
        let provider_order_id = provider_order_id.required(PROVIDER_ORDER_ID, ProviderOrderId::parse)?;
        let words = "Code of the currency of the money (ISO 4217).";
        let currency = body.field("currency", words).required("CNY", Currency::parse)?;
        let amount =
            body.field("amount", "The money, in minor units.").required_integer(600, 1, FIGURE_MAX)?;
        let paid_at =
            body.field("paid_at", "When it was paid, as the provider says; UTC where no offset stands.");
        let paid_at =
            paid_at.demand("format", "date-time").required_as::<String, _>(MOMENT, moment::parse)?;
        let biz_no = body.field("biz_no", "The order that it pays.").example(NAMED_BIZ_NO);
        let biz_no = biz_no.optional(BizNo::parse)?;
        let open_id = body.field("open_id", "The player. Without `biz_no` it must be there.");
        let open_id = open_id.optional(OpenId::parse)?;
        let product_id = body.field("product_id", "The product. Without `biz_no` it must be there.");
        let product_id = product_id.optional(PricedProductId::parse)?;
        let os = body.field("os", "The player's platform, such as `ios`.").optional(Os::parse)?;
        let words = "What the provider keeps, in minor units.";
        let fee = body.field("fee", words).integer(0, FIGURE_MAX)?;
        let note = body.field("note", "Note, for people.").demand("maxLength", LINE_BYTES_MAX);
        let note = note.optional(parse_line)?.unwrap_or_default();
        let fields =
            Self { provider_order_id, currency, amount, paid_at, biz_no, open_id, product_id, os, fee, note };
        Ok(fields)
    }

    /// The payment that this provider reports at `now`, in Unix seconds.
    ///
    /// # Errors
    /// It names neither an order nor a player with a product, or its time is none of a payment.
    pub fn of(self, provider: PaymentProvider, now: i64) -> Read<Payment> {
        let target = PaymentTarget::of(self.biz_no, self.open_id, self.product_id);
        let target = target.ok_or_else(|| FieldError::without("biz_no", "open_id and product_id"))?;
        let payment = Payment {
            key: PaymentKey { provider, provider_order_id: self.provider_order_id },
            currency: self.currency,
            amount: self.amount,
            target,
            paid_at: self.paid_at,
            os: self.os,
            fee: self.fee,
            note: self.note,
        };
        payment.check_paid_at(now)?;
        Ok(payment)
    }
}

/// Reads id and money of a refund.
///
/// # Errors
/// The first field that is absent or not acceptable.
pub fn read_refund(body: &mut Input<'_>) -> Read<(RefundId, i64)> {
    let words = "The provider's id of the refund.";
    let refund_id = body.field("refund_id", words).required("re_3OrtQ2", RefundId::parse)?;
    let words = "The money that went back, in minor units.";
    Ok((refund_id, body.field("amount", words).required_integer(300, 1, FIGURE_MAX)?))
}
