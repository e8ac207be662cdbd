//! Who calls (contract 3, 4, 5 and 6). A [`Caller`] exists only for a checked token, and an
//! [`Authenticated`] value only for a caller: what needs authentication takes one of them, and
//! leaving it out does not compile.

use std::sync::{Arc, LazyLock};

use serde_json::json;
use subtle::ConstantTimeEq as _;

use crate::domain::fields::Fields;
use crate::domain::ids::AppId;
use crate::domain::signature::{DiagnosisKeys, Mistake, PayKey, Sign, diagnose, exchange_string};
use crate::error::{Code, Refusal};
use crate::rate_limit::Limited;
use crate::secrets::token_hash;
use crate::store::{App, TokenState};
use crate::till::Till;

/// The key that an unknown app's signature is checked with, so that it costs what a wrong key does.
static NOBODYS_KEY: LazyLock<PayKey> = LazyLock::new(|| PayKey::new("nobody".repeat(6)));

/// An app whose access token was checked.
#[derive(Debug, Clone)]
pub struct Caller {
    app: Arc<App>,
}

/// A value that an authenticated app sent.
#[derive(Debug, Clone)]
pub struct Authenticated<T> {
    caller: Caller,
    value: T,
}

impl Caller {
    /// The app.
    #[must_use]
    pub fn app(&self) -> &App {
        &self.app
    }

    /// A value that this caller sent.
    pub(crate) fn vouch<T>(self, value: T) -> Authenticated<T> {
        Authenticated { caller: self, value }
    }
}

#[cfg(test)]
impl Caller {
    /// An app whose token nobody has checked.
    pub(crate) fn for_tests(app: Arc<App>) -> Self {
        Self { app }
    }
}

impl<T> Authenticated<T> {
    /// The app that sent it.
    #[must_use]
    pub fn app_id(&self) -> &AppId {
        &self.caller.app.id
    }

    /// What it sent.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.value
    }

    /// What it sent, read further.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn try_map<U, E>(self, read: impl FnOnce(T) -> Result<U, E>) -> Result<Authenticated<U>, E> {
        let Self { caller, value } = self;
        Ok(Authenticated { caller, value: read(value)? })
    }
}

fn refuse(text: &str) -> Refusal {
    Refusal::new(Code::Unauthorised, text)
}

/// Checks `app_id` and `access_token`, the app's state and its rate limit.
///
/// # Errors
/// 100200102 with what is wrong, 10000305, or the database is away.
pub async fn authenticate(till: &Till, credentials: &Fields, limited: Limited) -> Result<Caller, Refusal> {
    let app_id = credentials.text("app_id").ok_or_else(|| refuse("app_id is missing"))?;
    let token = credentials.text("access_token").ok_or_else(|| refuse("access_token is missing"))?;
    let hash = token_hash(token);
    // A text that can be no app id is no app: the answer is the same.
    let Ok(app_id) = AppId::parse(app_id) else { return Err(refuse("app_id: unknown app")) };
    let (app, state) = tokio::try_join!(till.store.find_app(&app_id), till.store.token_state(&app_id, hash))?;
    let Some(app) = app else { return Err(refuse("app_id: unknown app")) };
    match state {
        TokenState::Unknown => return Err(refuse("access_token: expected a token of this app")),
        TokenState::Expired => return Err(refuse("access_token: expired, request a new one")),
        TokenState::Valid => {}
    }
    tracing::Span::current().record("app_id", app.id.as_str());
    admit(till, &app, limited)?;
    Ok(Caller { app })
}

/// What stands in the way of a known app: suspension, then its rate limit.
fn admit(till: &Till, app: &App, limited: Limited) -> Result<(), Refusal> {
    if app.suspended {
        return Err(Refusal::new(Code::Forbidden, "app_id: the app is suspended"));
    }
    till.rate_limits.admit(app, limited, till.clock.monotonic()).map_err(Refusal::rate_limited)
}

/// Checks that the caller holds a permission scope (spec 5).
///
/// # Errors
/// 100200102 naming the scope.
pub fn require_scope(caller: &Caller, scope: &str) -> Result<(), Refusal> {
    if caller.app.scopes.iter().any(|held| held == scope) {
        Ok(())
    } else {
        Err(Refusal::new(Code::Forbidden, format!("app_id: the app lacks the scope {scope}")))
    }
}

/// Checks the access token and the signature of an exchange, in this order (contract 3).
///
/// # Errors
/// As [`authenticate`]; 100200114 for a signature that is absent or does not match.
pub async fn authenticate_exchange(till: &Till, fields: Fields) -> Result<Authenticated<Fields>, Refusal> {
    let sign = fields.text("sign").map(Sign::new);
    let caller = match authenticate(till, &fields, Limited::Exchanges).await {
        Ok(caller) => caller,
        Err(refusal) => {
            if let Some(sign) = &sign {
                // The same work as for a known app; the result is of no use to anybody.
                std::hint::black_box(NOBODYS_KEY.verifies(&exchange_string(&fields), sign));
            }
            return Err(refusal);
        }
    };
    let sign = sign.ok_or_else(|| Refusal::new(Code::BadSignature, "sign is missing"))?;
    let signed = exchange_string(&fields);
    let verified = caller.app.live_pay_keys.iter().any(|key| key.verifies(&signed, &sign));
    if !verified {
        return Err(bad_signature(&caller.app, &fields, &sign, &signed));
    }
    Ok(caller.vouch(fields))
}

/// A sandbox app is told what was signed here and which mistake explains what came.
fn bad_signature(app: &App, fields: &Fields, sign: &Sign, signed: &str) -> Refusal {
    let mut refusal = Refusal::new(Code::BadSignature, "sign: the signature does not match");
    if app.sandbox {
        let mut data = json!({ "string_to_sign": signed, "bytes": signed.len() });
        if let Some(mistake) = mistake(app, fields, sign) {
            data["mistake"] = mistake.text().into();
        }
        refusal.data = Some(data);
    }
    refusal
}

/// The mistake that explains a signature which no live key of the app verifies.
fn mistake(app: &App, fields: &Fields, sign: &Sign) -> Option<Mistake> {
    let keys = DiagnosisKeys {
        live: &app.live_pay_keys,
        retired: &app.retired_pay_keys,
        app_secret: app.app_secret.expose(),
    };
    diagnose(fields, &keys, sign)
}

/// What an operator is told of a signature. It holds what came and what follows from it without a
/// key; neither a key nor a signature that was computed has a place in it, whatever the app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureFinding {
    /// The string that is signed, as the server joins it.
    pub string_to_sign: String,
    /// What is true of `sign`.
    pub verdict: SignatureVerdict,
}

/// What is true of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureVerdict {
    /// No `sign` came.
    Missing,
    /// The current pay key made it.
    Current,
    /// The pay key before the current one made it, which still is valid.
    Previous,
    /// It does not match, and this mistake explains it, where one does.
    Differs(Option<Mistake>),
}

/// Examines the signature of a request that somebody shows to an operator.
#[must_use]
pub fn examine_signature(app: &App, fields: &Fields) -> SignatureFinding {
    let string_to_sign = exchange_string(fields);
    let verdict = match fields.text("sign").map(Sign::new) {
        None => SignatureVerdict::Missing,
        Some(sign) => {
            let made_by = app.live_pay_keys.iter().position(|key| key.verifies(&string_to_sign, &sign));
            match made_by {
                Some(0) => SignatureVerdict::Current,
                Some(_) => SignatureVerdict::Previous,
                None => SignatureVerdict::Differs(mistake(app, fields, &sign)),
            }
        }
    };
    SignatureFinding { string_to_sign, verdict }
}

/// Checks `app_id` and `app_secret` of a token request (contract 6).
///
/// # Errors
/// 100200101 when either is wrong, 100200102 when the app is suspended, 10000305.
pub async fn authenticate_secret(till: &Till, app_id: &str, app_secret: &str) -> Result<Arc<App>, Refusal> {
    let wrong = || Refusal::new(Code::TokenCredentials, "app_id or app_secret is wrong");
    let Ok(app_id) = AppId::parse(app_id) else { return Err(wrong()) };
    let app = till.store.find_app(&app_id).await?;
    let expected = app.as_ref().map_or("", |app| app.app_secret.expose());
    let same = bool::from(token_hash(expected).ct_eq(&token_hash(app_secret)));
    let app = app.filter(|_| same).ok_or_else(wrong)?;
    tracing::Span::current().record("app_id", app.id.as_str());
    admit(till, &app, Limited::Tokens)?;
    Ok(app)
}
