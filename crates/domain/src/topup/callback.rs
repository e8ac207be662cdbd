//! Callbacks of payment providers (contract 19.4): whether one is signed, and what it tells.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use time::OffsetDateTime;

use super::fields::{PaymentFields, read_refund};
use super::{
    Currency, Excess, FIGURE_MAX, NewRefund, Payment, PaymentKey, PaymentProvider, PaymentTarget,
    ProviderOrderId, RefundAmount, RefundId, RefundKey, Shortfall,
};
use crate::fields::{Expected, FieldError, Fields, parse_integer};
use crate::ids::{BizNo, Reason};
use crate::input::Input;
use crate::strays::{self, without_strays, without_unseen};
use crate::text;
use crate::text::Text;

/// The largest body of a callback.
pub const CALLBACK_BYTES_MAX: usize = 256 * 1024;
/// How far the time of a callback may be from the present, in seconds.
const SECONDS_OFF_MAX: u64 = 5 * 60;
/// The prefix of the text of a secret of the standard format. The rest is base64.
const SECRET_PREFIX: &str = "whsec_";

const WEBHOOK_ID: &str = "webhook-id";
const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
const WEBHOOK_SIGNATURE: &str = "webhook-signature";
const STRIPE_SIGNATURE: &str = "stripe-signature";
/// What stands before a signature of version 1.
const V1_OF_STANDARD: &str = "v1,";
const V1_OF_STRIPE: &str = "v1=";

crate::word_enum! {
    /// How the callbacks of a provider look and are signed.
    pub enum CallbackFormat {
        /// As Standard Webhooks has it, with the fields of the admin API.
        Standard = "standard",
        /// As Stripe has it.
        Stripe = "stripe",
    }
}

/// A secret that signs the callbacks of a provider.
#[derive(Clone, PartialEq, Eq)]
pub struct CallbackSecret(String);

impl std::fmt::Debug for CallbackSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CallbackSecret(..)")
    }
}

impl CallbackSecret {
    /// The secret of this text.
    ///
    /// # Errors
    /// No secret of this format looks like it. The error names what stands around it or what it is instead, and never
    /// repeats it.
    pub fn parse(format: CallbackFormat, text: &str) -> Result<Self, Expected> {
        let (fits, expected) = match format {
            CallbackFormat::Standard => (
                key_of_standard(text).is_some_and(|key| (24..=64).contains(&key.len())),
                text!("whsec_ and 24 to 64 bytes in base64"),
            ),
            CallbackFormat::Stripe => {
                let is_printable = text.bytes().all(|byte| byte.is_ascii_graphic());
                let fits = is_printable && (16..=256).contains(&text.len());
                match in_place_of_stripes(text) {
                    Some(expected) => (false, expected),
                    None => (fits, text!("16 to 256 printable ASCII characters")),
                }
            }
        };
        // A wrong one would end the right one, which nobody knows any more.
        if fits && strays::around(text).is_none() && strays::mistaken(text).is_none() {
            Ok(Self(text.to_owned()))
        } else {
            Err(Expected(strays::explained(expected, text)))
        }
    }

    /// A secret that was parsed when it was set.
    #[must_use]
    pub fn kept(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Its text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// HMAC-SHA256 of the body behind what stands before it, joined with dots.
    fn mac(&self, format: CallbackFormat, before: &[&str], body: &[u8]) -> [u8; 32] {
        let key = match format {
            CallbackFormat::Standard => key_of_standard(&self.0).unwrap_or_default(),
            CallbackFormat::Stripe => self.0.as_bytes().to_vec(),
        };
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC accepts keys of every length");
        for part in before {
            mac.update(part.as_bytes());
            mac.update(b".");
        }
        mac.update(body);
        mac.finalize().into_bytes().into()
    }
}

/// What was expected, where a key, an id or an address came that Stripe shows beside the signing secret of an endpoint.
fn in_place_of_stripes(text: &str) -> Option<Text> {
    let bare = without_strays(text);
    let begins = |starts: &[&str]| starts.iter().any(|start| bare.starts_with(*start));
    if begins(&["sk_", "rk_", "pk_", "mtk_"]) {
        Some(text!("the signing secret of the endpoint (whsec_...), not an API key"))
    } else if begins(&["we_"]) {
        Some(text!("the signing secret of the endpoint (whsec_...), not its id"))
    } else if begins(&["acct_", "evt_", "ch_", "cs_", "cus_", "pi_", "price_"]) {
        Some(text!("the signing secret of the endpoint (whsec_...), not another id of Stripe"))
    } else if begins(&["https://", "http://"]) {
        Some(text!("the signing secret of the endpoint (whsec_...), not its address"))
    } else {
        None
    }
}

fn key_of_standard(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text.strip_prefix(SECRET_PREFIX)?).ok()
}

/// A provider of an app, as its callbacks are checked.
#[derive(Debug, Clone)]
pub struct CallbackProvider {
    /// The provider.
    pub provider: PaymentProvider,
    /// Its format.
    pub format: CallbackFormat,
    /// The secrets that are valid: the present one, and for a day the one before.
    pub secrets: Vec<CallbackSecret>,
}

/// The headers of a callback, whose form and time are right. Whether a secret has made the signature shows with the body.
pub struct ClaimedCallback<'a> {
    provider: &'a CallbackProvider,
    claimed: Claimed<'a>,
    /// When it came, in Unix seconds.
    now: i64,
}

/// The body of a callback whose signature was right. Only [`ClaimedCallback::verify`] makes one.
#[derive(Debug)]
pub struct SignedCallback<'a> {
    provider: &'a CallbackProvider,
    body: &'a [u8],
    /// When it came, in Unix seconds.
    now: i64,
}

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

impl CallbackProvider {
    /// The callback that comes at about `now` (Unix seconds), as far as its headers tell. `header` finds one by its name. A
    /// stranger without them is refused before the body is read, and makes the server hold nothing.
    ///
    /// # Errors
    /// The fault, in words that say nothing of a secret.
    pub fn claim<'a>(
        &'a self,
        header: impl Fn(&'static str) -> Option<&'a str>,
        now: i64,
    ) -> Result<ClaimedCallback<'a>, Text> {
        let claimed = Claimed::of(self.format, header)?;
        let expected = "a time within 5 minutes of the present, in Unix seconds";
        let at = parse_integer(claimed.at, 0, i64::MAX, expected);
        if at.map_or(true, |at| at.abs_diff(now) > SECONDS_OFF_MAX) {
            return Err(FieldError::malformed(claimed.at_header, expected, claimed.at).text());
        }
        Ok(ClaimedCallback { provider: self, claimed, now })
    }
}

impl<'a> ClaimedCallback<'a> {
    /// The callback with its body, if one of the secrets has signed it.
    ///
    /// # Errors
    /// None has, in words that say nothing of a secret.
    pub fn verify(self, body: &'a [u8]) -> Result<SignedCallback<'a>, Text> {
        let Self { provider, claimed, now } = self;
        // All are compared, so that the time tells nothing of them.
        let signed = |secret: &CallbackSecret| {
            let mac = secret.mac(provider.format, &claimed.before, body);
            claimed.macs.iter().fold(false, |found, given| found | bool::from(mac.ct_eq(given)))
        };
        if provider.secrets.iter().fold(false, |found, secret| found | signed(secret)) {
            Ok(SignedCallback { provider, body, now })
        } else {
            Err(not_signed(claimed.header))
        }
    }
}

/// Why a callback is refused whose signature, in the header of this name, no secret has made.
#[must_use]
pub fn not_signed(name: impl std::fmt::Display) -> Text {
    text!(
        "{name}: no secret of this provider has signed the body; to set the one that signs, run: minitill topup provider",
        name
    )
}

/// Why a callback without the header of this name is refused. Where a header of the other format came, the provider was set
/// with the wrong one.
fn missing_header<'a>(
    format: CallbackFormat,
    name: &'static str,
    header: impl Fn(&'static str) -> Option<&'a str>,
) -> Text {
    match format {
        CallbackFormat::Standard if header(STRIPE_SIGNATURE).is_some() => text!(
            "{name} is missing; {came} came: to take callbacks of Stripe, run: minitill topup provider --format stripe",
            name,
            came = STRIPE_SIGNATURE
        ),
        CallbackFormat::Stripe if header(WEBHOOK_SIGNATURE).is_some() => text!(
            "{name} is missing; {came} came: to take callbacks of Standard Webhooks, run: minitill topup provider --format standard",
            name,
            came = WEBHOOK_SIGNATURE
        ),
        CallbackFormat::Standard | CallbackFormat::Stripe => text!("{name} is missing", name),
    }
}

/// The claims of the headers of a callback.
struct Claimed<'a> {
    /// The header with the signatures.
    header: &'static str,
    /// The header with the time.
    at_header: &'static str,
    at: &'a str,
    /// The bytes that are signed before the body.
    before: Vec<&'a str>,
    /// The signatures of the version that is known, at least one.
    macs: Vec<[u8; 32]>,
}

impl<'a> Claimed<'a> {
    fn of(format: CallbackFormat, header: impl Fn(&'static str) -> Option<&'a str>) -> Result<Self, Text> {
        let required = |name| header(name).ok_or_else(|| missing_header(format, name, &header));
        match format {
            CallbackFormat::Standard => {
                let (id, at) = (required(WEBHOOK_ID)?, required(WEBHOOK_TIMESTAMP)?);
                let ones: Vec<&str> =
                    required(WEBHOOK_SIGNATURE)?.split(' ').filter(|one| !one.is_empty()).collect();
                let macs = read_macs(&ones, V1_OF_STANDARD, |text| STANDARD.decode(text).ok());
                let header = WEBHOOK_SIGNATURE;
                if macs.is_empty() {
                    let got = miswritten(&ones, V1_OF_STANDARD);
                    return Err(text!(
                        "{refusal}; expected v1, and 44 characters of base64, got {got}",
                        refusal = not_signed(header),
                        got
                    ));
                }
                Ok(Self { header, at_header: WEBHOOK_TIMESTAMP, at, before: vec![id, at], macs })
            }
            CallbackFormat::Stripe => {
                let header = STRIPE_SIGNATURE;
                let pairs = required(header)?.split(',').map(str::trim).filter(|pair| !pair.is_empty());
                let (times, ones): (Vec<&str>, Vec<&str>) = pairs.partition(|pair| pair.starts_with("t="));
                let at = times.first().and_then(|pair| pair.strip_prefix("t="));
                let at = at.ok_or_else(|| text!("{name}: t is missing", name = header))?;
                let macs = read_macs(&ones, V1_OF_STRIPE, |text| hex::decode(text).ok());
                if macs.is_empty() {
                    let got = miswritten(&ones, V1_OF_STRIPE);
                    return Err(text!(
                        "{refusal}; expected v1= and 64 hexadecimal digits, got {got}",
                        refusal = not_signed(header),
                        got
                    ));
                }
                Ok(Self { header, at_header: header, at, before: vec![at], macs })
            }
        }
    }
}

/// The signatures behind this head that can be read.
fn read_macs(ones: &[&str], head: &str, decode: impl Fn(&str) -> Option<Vec<u8>>) -> Vec<[u8; 32]> {
    let signatures = ones.iter().filter_map(|one| one.strip_prefix(head));
    signatures.filter_map(|text| decode(text)?.try_into().ok()).collect()
}

/// What came in place of a signature of version 1 that can be read, in words that follow "got". The value is not told:
/// it may be the right one.
fn miswritten(ones: &[&str], head: &'static str) -> Text {
    let Some(one) = ones.iter().find(|one| one.starts_with(head)).or(ones.first()) else {
        return text!("nothing");
    };
    if strays::has_quotes(one) {
        return text!("quotes around it");
    }
    if let Some(signature) = one.strip_prefix(head) {
        return if signature.is_empty() { text!("nothing behind {head}", head) } else { coding(signature) };
    }
    match version_of(one) {
        _ if one.starts_with("sha256=") => text!("sha256= before it"),
        Some(("1", behind)) if behind.is_empty() || behind.starts_with(['=', ';', ':', ',', '.']) => {
            text!("v1 in another writing")
        }
        Some((number, behind)) if !number.is_empty() && behind.starts_with([',', '=']) => {
            text!("another version")
        }
        _ => text!("{coding} without {head}", coding = coding(one), head),
    }
}

/// The number of a version in front of a signature, and what is behind it.
fn version_of(one: &str) -> Option<(&str, &str)> {
    let rest = one.strip_prefix(['v', 'V'])?;
    let behind = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    // `v1a` is that of the ed25519 signatures of Standard Webhooks.
    let behind = behind.strip_prefix('a').unwrap_or(behind);
    Some((&rest[..rest.len() - behind.len()], behind))
}

/// How a signature without its version is written.
fn coding(signature: &str) -> Text {
    let is_url_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte);
    let is_long_enough = matches!(signature.len(), 43 | 44);
    if signature.len() == 64 && signature.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        text!("hexadecimal")
    } else if is_long_enough && signature.contains(['-', '_']) && signature.bytes().all(is_url_safe) {
        text!("url-safe base64")
    } else if signature.len() == 43 && STANDARD_NO_PAD.decode(signature).is_ok() {
        text!("base64 without padding")
    } else if STANDARD.decode(signature).is_ok_and(|mac| mac.len() == 32) {
        Text::same("base64")
    } else {
        text!("something else")
    }
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

/// The reason of a refund whose provider tells none.
pub const TOLD_BY_PROVIDER: &str = "the provider told of it";

/// The last second of the year 9999.
const SECONDS_MAX: i64 = 253_402_300_799;

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

#[cfg(test)]
mod tests;
