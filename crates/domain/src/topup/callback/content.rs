//! The content of callbacks: payments and refunds, in both formats (contract 19.4.5 and 19.4.6).

use time::OffsetDateTime;

use super::super::fields::{PaymentFields, read_refund};
use super::super::{
    Currency, Excess, FIGURE_MAX, NewRefund, Payment, PaymentKey, PaymentProvider, PaymentTarget,
    ProviderOrderId, RefundAmount, RefundId, RefundKey, Shortfall,
};
use super::{CallbackFormat, SignedCallback};
use crate::fields::{Expected, FieldError, Fields};
use crate::ids::{BizNo, Reason};
use crate::input::Input;
use crate::strays::without_unseen;
use crate::text::Text;

/// The reason of a refund whose provider tells none.
pub const TOLD_BY_PROVIDER: &str = "the provider told of it";

/// The last second of the year 9999.
const SECONDS_MAX: i64 = 253_402_300_799;

/// The content of a callback.
#[derive(Debug, PartialEq, Eq)]
pub enum CallbackEvent {
    /// Money came.
    Payment(Box<Payment>),
    /// Money went back.
    Refund(Box<NewRefund>),
    /// Something else, which concerns no purse.
    Other,
}

impl SignedCallback<'_> {
    /// Its content.
    ///
    /// # Errors
    /// The body is no JSON object, or the first field that is absent or not acceptable.
    pub fn read(&self) -> Result<CallbackEvent, Text> {
        let body = Fields::from_nested_json(self.body).map_err(|unreadable| unreadable.text())?;
        let event = match self.provider.format {
            CallbackFormat::Standard => self.standard(&body),
            CallbackFormat::Stripe => self.stripe(&body),
        };
        event.map_err(|error| error.text())
    }

    /// The types of the standard format have the fields of the admin API in `data`.
    fn standard(&self, body: &Fields) -> Result<CallbackEvent, FieldError> {
        match body.required("type", any_text)?.as_str() {
            "payment.succeeded" => body.required_object("data", |data| {
                self.only_this_provider(data)?;
                let fields = PaymentFields::read(&mut Input::of(data))?;
                let payment = fields.of(self.provider.provider.clone(), self.now)?;
                Ok(CallbackEvent::Payment(Box::new(payment)))
            }),
            "payment.refunded" => body.required_object("data", |data| {
                self.only_this_provider(data)?;
                // A payment that is kept may have a blank at an end: its refund is of it, because the money has gone.
                let id = data.required("provider_order_id", ProviderOrderId::stored)?;
                let (refund_id, amount) = read_refund(&mut Input::of(data))?;
                let reason = data.optional("reason", reason_or_none)?.flatten();
                Ok(self.refund(id, refund_id, RefundAmount::Of(amount), reason))
            }),
            _ => Ok(CallbackEvent::Other),
        }
    }

    /// A callback comes to the address of its provider, and names no other.
    fn only_this_provider(&self, data: &Fields) -> Result<(), FieldError> {
        let own = &self.provider.provider;
        match data.optional("provider", PaymentProvider::parse)? {
            Some(other) if other != *own => {
                Err(FieldError::malformed("provider", Text::same(own), other.as_str()))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn stripe(&self, body: &Fields) -> Result<CallbackEvent, FieldError> {
        let of_object = |read: &dyn Fn(&Fields) -> Result<CallbackEvent, FieldError>| {
            body.required_object("data", |data| data.required_object("object", read))
        };
        match body.required("type", any_text)?.as_str() {
            "checkout.session.completed" | "checkout.session.async_payment_succeeded" => {
                let paid_at = required_integer(body, "created", 0, SECONDS_MAX)?;
                let paid_at = OffsetDateTime::from_unix_timestamp(paid_at)
                    .expect("the bound is the last second of the year 9999");
                let event = of_object(&|session| self.session(session, paid_at))?;
                if let CallbackEvent::Payment(payment) = &event {
                    let of_event = |error| FieldError { field: "created".to_owned(), ..error };
                    payment.check_paid_at(self.now).map_err(of_event)?;
                }
                Ok(event)
            }
            "charge.refunded" => {
                // Each event is a refund of its own: it tells what all refunds sum up to.
                let refund_id = body.required("id", RefundId::parse)?;
                of_object(&|charge| {
                    let id = charge.required("payment_intent", ProviderOrderId::parse)?;
                    let currency = charge.optional("currency", any_text)?.unwrap_or_default();
                    let sum = stripe_amount(charge, "amount_refunded", &currency)?;
                    Ok(self.refund(id, refund_id.clone(), RefundAmount::SumOf(sum), None))
                })
            }
            _ => Ok(CallbackEvent::Other),
        }
    }

    fn session(&self, session: &Fields, paid_at: OffsetDateTime) -> Result<CallbackEvent, FieldError> {
        if session.required("payment_status", any_text)? != "paid" {
            return Ok(CallbackEvent::Other);
        }
        let id = session.required("payment_intent", ProviderOrderId::parse)?;
        let in_capitals = |text: &str| Currency::parse(&text.to_ascii_uppercase());
        let currency = session.required("currency", in_capitals)?;
        let amount = stripe_amount(session, "amount_total", currency.as_str())?;
        let biz_no =
            session.required_object("metadata", |metadata| metadata.required("biz_no", BizNo::parse))?;
        Ok(CallbackEvent::Payment(Box::new(Payment {
            key: PaymentKey { provider: self.provider.provider.clone(), provider_order_id: id },
            currency,
            amount,
            target: PaymentTarget::Order { biz_no, open_id: None, product_id: None },
            paid_at,
            os: None,
            fee: None,
            note: String::new(),
        })))
    }

    /// A refund that the provider reports. The money has gone, so what is spent becomes debt.
    fn refund(
        &self,
        provider_order_id: ProviderOrderId,
        refund_id: RefundId,
        amount: RefundAmount,
        reason: Option<Reason>,
    ) -> CallbackEvent {
        let provider = self.provider.provider.clone();
        let told = || Reason::parse(TOLD_BY_PROVIDER).expect("it is well-formed");
        CallbackEvent::Refund(Box::new(NewRefund {
            key: RefundKey { payment: PaymentKey { provider, provider_order_id }, refund_id },
            amount,
            reason: reason.unwrap_or_else(told),
            shortfall: Shortfall::Record,
            excess: Excess::Keep,
        }))
    }
}

/// A reason of blanks is none: the money has gone back, whatever its provider says of it.
fn reason_or_none(text: &str) -> Result<Option<Reason>, Expected> {
    if without_unseen(text).is_empty() { Ok(None) } else { Reason::parse(text).map(Some) }
}

/// An amount of Stripe in minor units of its currency. Stripe counts two decimals of two currencies without minor units, and
/// none of one that has them.
fn stripe_amount(object: &Fields, name: &str, currency: &str) -> Result<i64, FieldError> {
    match currency.to_ascii_uppercase().as_str() {
        "ISK" | "UGX" => {
            let hundredths = required_integer(object, name, 1, FIGURE_MAX)?;
            if hundredths % 100 == 0 {
                Ok(hundredths / 100)
            } else {
                Err(FieldError::malformed_number(name, "a multiple of 100", &hundredths.to_string()))
            }
        }
        "MGA" => Ok(100 * required_integer(object, name, 1, FIGURE_MAX / 100)?),
        _ => required_integer(object, name, 1, FIGURE_MAX),
    }
}

fn required_integer(fields: &Fields, name: &str, min: i64, max: i64) -> Result<i64, FieldError> {
    fields.integer(name, min, max)?.ok_or_else(|| fields.absent(name))
}

#[expect(clippy::unnecessary_wraps, reason = "a parser of a field may refuse")]
fn any_text(text: &str) -> Result<String, Expected> {
    Ok(text.to_owned())
}
