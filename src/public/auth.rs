//! Authentication of the public endpoints (contract 3, 4, 5 and 6): it looks up the app and its
//! token, and turns each failed check into its refusal. The proofs themselves are types of
//! [`domain::caller`].

use std::sync::Arc;

use domain::app::{App, Scope};
use domain::caller::{Caller, NotSigned, SignatureDiagnosis, Signed, TokenRefused, verify_for_nobody};
use domain::fields::Fields;
use domain::ids::AppId;
use domain::signature::Mistake;
use store::secrets::token_hash;
use subtle::ConstantTimeEq as _;

use crate::error::{Code, Refusal, SignatureAdvice};
use crate::rate_limit::Limited;
use crate::state::AppState;

fn refuse(text: &str) -> Refusal {
    Refusal::new(Code::Unauthorised, text)
}

/// Checks `app_id` and `access_token`, the app's state and its rate limit.
///
/// # Errors
/// 100200102 with what is wrong, 10000305, or the database is away.
pub async fn authenticate(
    state: &AppState,
    credentials: &Fields,
    limited: Limited,
) -> Result<Caller, Refusal> {
    let app_id = credentials.text("app_id").ok_or_else(|| refuse("app_id is missing"))?;
    let token = credentials.text("access_token").ok_or_else(|| refuse("access_token is missing"))?;
    let hash = token_hash(token);
    // A text that cannot be an app id is an unknown app: the answer is the same.
    let Ok(app_id) = AppId::parse(app_id) else { return Err(refuse("app_id: unknown app")) };
    let (app, token) =
        tokio::try_join!(state.store.find_app(&app_id), state.store.token_state(&app_id, hash))?;
    let Some(app) = app else { return Err(refuse("app_id: unknown app")) };
    let caller = Caller::new(app, token).map_err(|refused| match refused {
        TokenRefused::Unknown => refuse("access_token: expected a token of this app"),
        TokenRefused::Expired => refuse("access_token: expired, request a new one"),
    })?;
    tracing::Span::current().record("app_id", caller.app().id.as_str());
    admit(state, caller.app(), limited)?;
    Ok(caller)
}

/// Refuses a suspended app, then one over its rate limit.
fn admit(state: &AppState, app: &App, limited: Limited) -> Result<(), Refusal> {
    if app.suspended {
        return Err(Refusal::new(Code::Forbidden, "app_id: the app is suspended"));
    }
    state.rate_limits.admit(app, limited, state.clock.monotonic()).map_err(Refusal::rate_limited)
}

/// Checks that the caller holds a permission scope (contract 4).
///
/// # Errors
/// 100200102 naming the scope.
pub fn require_scope(caller: &Caller, scope: Scope) -> Result<(), Refusal> {
    if caller.app().holds(scope) {
        Ok(())
    } else {
        Err(Refusal::new(Code::Forbidden, format!("app_id: the app lacks the scope {scope}")))
    }
}

/// Checks the access token and then the signature of an exchange (contract 3).
///
/// # Errors
/// As [`authenticate`]; 100200114 for a signature that is absent or does not match.
pub async fn authenticate_exchange(state: &AppState, fields: Fields) -> Result<Signed<Fields>, Refusal> {
    match authenticate(state, &fields, Limited::Exchanges).await {
        Ok(caller) => caller.verify(fields).map_err(bad_signature),
        Err(refusal) => {
            verify_for_nobody(&fields);
            Err(refusal)
        }
    }
}

/// The refusal of a signature. A sandbox app gets the string that the server signed, and the mistake.
fn bad_signature(not_signed: NotSigned) -> Refusal {
    let diagnosis = match not_signed {
        NotSigned::Missing => return Refusal::new(Code::BadSignature, "sign is missing"),
        NotSigned::Mismatch(diagnosis) => diagnosis,
    };
    let mut refusal = Refusal::new(Code::BadSignature, "sign: the signature does not match");
    refusal.data = diagnosis.map(|SignatureDiagnosis { string_to_sign, mistake }| SignatureAdvice {
        bytes: string_to_sign.len(),
        mistake: mistake.map(Mistake::text),
        string_to_sign,
    });
    refusal
}

/// Checks `app_id` and `app_secret` of a token request (contract 6).
///
/// # Errors
/// 100200101 when either is wrong, 100200102 when the app is suspended, 10000305.
pub async fn authenticate_secret(
    state: &AppState,
    app_id: &str,
    app_secret: &str,
) -> Result<Arc<App>, Refusal> {
    let wrong = || Refusal::new(Code::TokenCredentials, "app_id or app_secret is wrong");
    let Ok(app_id) = AppId::parse(app_id) else { return Err(wrong()) };
    let app = state.store.find_app(&app_id).await?;
    let expected = app.as_ref().map_or("", |app| app.app_secret.expose());
    let same = bool::from(token_hash(expected).ct_eq(&token_hash(app_secret)));
    let app = app.filter(|_| same).ok_or_else(wrong)?;
    tracing::Span::current().record("app_id", app.id.as_str());
    admit(state, &app, Limited::Tokens)?;
    Ok(app)
}
