//! Signatures of callbacks: the claims of the headers, and the check of the body (contract 19.4.3).

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use subtle::ConstantTimeEq as _;

use super::{CallbackFormat, CallbackProvider, CallbackSecret};
use crate::fields::{FieldError, parse_integer};
use crate::strays;
use crate::text;
use crate::text::Text;

/// How far the time of a callback may be from the present, in seconds.
const SECONDS_OFF_MAX: u64 = 5 * 60;

const WEBHOOK_ID: &str = "webhook-id";
const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
const WEBHOOK_SIGNATURE: &str = "webhook-signature";
const STRIPE_SIGNATURE: &str = "stripe-signature";
/// What stands before a signature of version 1.
const V1_OF_STANDARD: &str = "v1,";
const V1_OF_STRIPE: &str = "v1=";

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
    pub(super) provider: &'a CallbackProvider,
    pub(super) body: &'a [u8],
    /// When it came, in Unix seconds.
    pub(super) now: i64,
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
