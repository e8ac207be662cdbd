//! Findings about the signature of a request: its verdict, and the mistake that explains one which does not match
//! (contract 3.7).

use crate::app::App;
use crate::ids::AppId;
use crate::signature::{DiagnosisKeys, Mistake, PayKey, Sign, diagnose};
use crate::wallet::{WalletForm, string_to_sign};

/// The mistake that explains a signature which no live key of the app verifies.
fn mistake(app: &App, form: &WalletForm, sign: &Sign) -> Option<Mistake> {
    let keys = DiagnosisKeys {
        live: &app.live_pay_keys,
        retired: &app.retired_pay_keys,
        app_secrets: &app.app_secrets,
    };
    diagnose(form, &keys, sign)
}

/// What an operator, or the server of a sandbox app, learns about the signature of a request. It holds
/// what came and what follows from it without a key: never a key, never a computed signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureFinding {
    /// The app whose keys were tried.
    pub app_id: AppId,
    /// The string to sign, as the server joins it.
    pub string_to_sign: String,
    /// The verdict on `sign`.
    pub verdict: SignatureVerdict,
    sign: Option<Sign>,
}

impl SignatureFinding {
    /// The mistake that explains the signature, where one does.
    #[must_use]
    pub fn mistake(&self) -> Option<Mistake> {
        match self.verdict {
            SignatureVerdict::Differs(mistake) => mistake,
            SignatureVerdict::Missing | SignatureVerdict::Current | SignatureVerdict::Previous => None,
        }
    }

    /// Looks for the mistake that explains a signature which does not match. It tries many strings and keys, so it takes
    /// time that grows with the form.
    pub fn find_mistake(&mut self, app: &App, form: &WalletForm) {
        if let (SignatureVerdict::Differs(None), Some(sign)) = (self.verdict, &self.sign) {
            self.verdict = SignatureVerdict::Differs(mistake(app, form, sign));
        }
    }

    /// Names the mistake if one of these keys of other apps made the signature.
    pub fn try_keys_of_others(&mut self, keys: &[PayKey]) {
        let made_it =
            |key: &PayKey| self.sign.as_ref().is_some_and(|sign| key.verifies(&self.string_to_sign, sign));
        if keys.iter().any(made_it) {
            self.verdict = SignatureVerdict::Differs(Some(Mistake::AnotherAppsKey));
        }
    }
}

/// The verdict on a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureVerdict {
    /// No `sign` came.
    Missing,
    /// The current pay key made it.
    Current,
    /// The pay key before the current one made it. That key is still valid.
    Previous,
    /// It does not match. This mistake explains it, where one does.
    Differs(Option<Mistake>),
}

/// Examines the signature of a request, without a search for the mistake ([`SignatureFinding::find_mistake`]).
#[must_use]
pub fn examine_signature(app: &App, form: &WalletForm) -> SignatureFinding {
    let string_to_sign = string_to_sign(form);
    let sign = form.fields.text("sign").map(Sign::new);
    let verdict = match &sign {
        None => SignatureVerdict::Missing,
        Some(sign) => {
            let made_by = app.live_pay_keys.iter().position(|key| key.verifies(&string_to_sign, sign));
            match made_by {
                Some(0) => SignatureVerdict::Current,
                Some(_) => SignatureVerdict::Previous,
                None => SignatureVerdict::Differs(None),
            }
        }
    };
    SignatureFinding { app_id: app.id.clone(), string_to_sign, verdict, sign }
}
