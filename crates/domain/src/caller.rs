//! Proofs of who calls (contract 3.2, 6.4 and 10.1.2). A [`Caller`] is an app whose access token was checked.
//! A [`Signed`] value is one whose signature was verified with a live pay key of that app.
//! Functions that move money accept only a [`Signed`] value. So an exchange without a valid signature
//! does not compile:
//!
//! ```compile_fail,E0451
//! use domain::caller::{Caller, Signed};
//!
//! fn forge(caller: Caller) -> Signed<u8> {
//!     Signed { caller, value: 1 }
//! }
//! ```

mod finding;

use std::sync::{Arc, LazyLock};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::app::{App, LIVE_KEYS};
use crate::fields::FieldError;
use crate::ids::{AppId, AppNo};
use crate::signature::{PayKey, Sign};
use crate::wallet::{Reading, WalletForm, WalletRequest, string_to_sign};

pub use finding::{SignatureFinding, SignatureVerdict, examine_signature};

/// The key that checks an unknown app's signature, so that it costs what a wrong key does.
static NOBODYS_KEY: LazyLock<PayKey> = LazyLock::new(|| PayKey::new("nobody".repeat(6)));

/// The state of an access token of an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenState {
    /// It is valid.
    Valid,
    /// It was valid before.
    Expired,
    /// It is not a token of this app; it may be another app's.
    Unknown,
}

/// Why a token was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenRefused {
    /// It expired.
    Expired,
    /// It is not a token of this app.
    Unknown,
}

/// An app whose access token was checked.
#[derive(Debug, Clone)]
pub struct Caller {
    app: Arc<App>,
}

impl Caller {
    /// The app, if its token is valid.
    ///
    /// # Errors
    /// The token expired or is not this app's.
    pub fn new(app: Arc<App>, token: TokenState) -> Result<Self, TokenRefused> {
        match token {
            TokenState::Valid => Ok(Self { app }),
            TokenState::Expired => Err(TokenRefused::Expired),
            TokenState::Unknown => Err(TokenRefused::Unknown),
        }
    }

    /// The app.
    #[must_use]
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Verifies the signature in `sign` over the signed fields of a call (contract 3.2 and 10.1.2).
    ///
    /// # Errors
    /// `sign` is absent, or no live pay key of the app made it.
    pub fn verify(self, form: WalletForm) -> Result<Signed<WalletForm>, NotSigned> {
        let signature =
            FormSignature::of(&form).ok_or_else(|| NotSigned::Missing(form.fields.absent("sign")))?;
        if let Some(key) = self.app.live_pay_keys.iter().find(|key| signature.is_made_by(key)) {
            key.uses.add(1);
            return Ok(Signed { caller: self, value: form });
        }
        // The search for the mistake costs time. Only a sandbox app gets its result, and it is made elsewhere.
        Err(NotSigned::Mismatch(self.app, form))
    }
}

/// Whether a text is a valid secret of the app, whose use then counts (contract 6.1 and 11.1). It takes the same
/// time for an unknown app and for a wrong secret.
#[must_use]
pub fn proves_secret(app: Option<&App>, text: &str) -> bool {
    let hash = |text: &str| -> [u8; 32] { Sha256::digest(text).into() };
    let given = hash(text);
    let proven = (0..LIVE_KEYS).fold(None, |proven, place| {
        let secret = app.and_then(|app| app.app_secrets.get(place));
        let same = hash(secret.map_or("", |secret| secret.expose())).ct_eq(&given);
        if same.into() { secret } else { proven }
    });
    proven.inspect(|secret| secret.uses.add(1)).is_some()
}

/// Whether a live pay key of the app made the signature of a call that is refused for another reason (contract 13.1).
/// It proves nothing for the call, and does not count as a use of the key. It takes what [`Caller::verify`] takes.
#[must_use]
pub fn is_signed_by(app: &App, form: &WalletForm) -> bool {
    FormSignature::of(form)
        .is_some_and(|signature| app.live_pay_keys.iter().any(|key| signature.is_made_by(key)))
}

/// Does the work of [`Caller::verify`] for a request whose app or token was refused. So an unknown app takes as long as
/// a wrong key (contract 3.2.5).
pub fn verify_for_nobody(form: &WalletForm) {
    if let Some(signature) = FormSignature::of(form) {
        std::hint::black_box(signature.is_made_by(&NOBODYS_KEY));
    }
}

/// The `sign` of a form beside the string that it must sign (contract 3.2.2). The string is joined once for all keys.
struct FormSignature {
    string_to_sign: String,
    sign: Sign,
}

impl FormSignature {
    /// `None` for a form without `sign`.
    fn of(form: &WalletForm) -> Option<Self> {
        let sign = Sign::new(form.fields.text("sign")?);
        Some(Self { string_to_sign: string_to_sign(form), sign })
    }

    /// Whether `sign` is the HMAC-SHA256 of the string with this key, in either case of hexadecimal. It takes the same
    /// time for every key and every `sign`.
    fn is_made_by(&self, key: &PayKey) -> bool {
        key.verifies(&self.string_to_sign, &self.sign)
    }
}

/// Why a request is not signed.
#[derive(Debug, Clone)]
pub enum NotSigned {
    /// There is no `sign`.
    Missing(FieldError),
    /// No live pay key of this app made it. The form comes back, for the diagnosis.
    Mismatch(Arc<App>, WalletForm),
}

/// A value that an app signed with a live pay key. Only [`Caller::verify`] makes one.
#[derive(Debug, Clone)]
pub struct Signed<T> {
    caller: Caller,
    value: T,
}

impl<T> Signed<T> {
    /// The app that signed it.
    #[must_use]
    pub fn app(&self) -> &Arc<App> {
        &self.caller.app
    }

    /// The id of that app.
    #[must_use]
    pub fn app_id(&self) -> &AppId {
        &self.caller.app.id
    }

    /// The number of that app.
    #[must_use]
    pub fn app_no(&self) -> AppNo {
        self.caller.app.no
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.value
    }
}

impl Signed<WalletForm> {
    /// Reads the signed fields as a request.
    ///
    /// # Errors
    /// The first field that is absent or not acceptable.
    pub fn request(&self, reading: &Reading) -> Result<Signed<WalletRequest>, FieldError> {
        let value = WalletRequest::parse(&self.value, reading)?;
        Ok(Signed { caller: self.caller.clone(), value })
    }
}
