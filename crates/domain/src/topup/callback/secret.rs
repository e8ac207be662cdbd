//! Secrets that sign callbacks: their forms, and the codes that they make (contract 19.4.2 and 19.4.3).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::CallbackFormat;
use crate::fields::Expected;
use crate::strays::{self, without_strays};
use crate::text;
use crate::text::Text;

/// The prefix of the text of a secret of the standard format. The rest is base64.
const SECRET_PREFIX: &str = "whsec_";

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
    pub(super) fn mac(&self, format: CallbackFormat, before: &[&str], body: &[u8]) -> [u8; 32] {
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
