//! Authentication of the public endpoints (contract 2.6, 3.2, 4.1, 6.3 and 11.5). It looks up the app and its token,
//! and turns each failed check into its refusal. The proofs themselves are types of [`domain::caller`].

use std::sync::Arc;

use domain::app::{App, Scope};
use domain::caller::{
    Caller, NotSigned, Signed, TokenRefused, is_signed_by, proves_secret, verify_for_nobody,
};
use domain::fields::{FieldError, FieldErrorKind, Fields, shown};
use domain::ids::AppId;
use domain::signature::Mistake;
use domain::strays;
use domain::text;
use domain::text::Text;
use domain::wallet::{WalletCall, WalletForm};
use store::secrets::token_hash;

use super::called_app::{
    self, note_fault, note_fields, note_language, note_named, note_proven, note_sandbox,
};
use super::fault;
use crate::diagnosis::{FORM_BYTES_MAX, KeysTried, NoDiagnosis};
use crate::http::rate_limit::Limited;
use crate::http::refusal::{Advice, Code, Refusal, SignatureAdvice};
use crate::openapi::refusals;
use crate::state::AppState;

refusals! { Refusal:
    /// No `app_id` came.
    app_id_missing() => absent(Code::Unauthorised, &Fields::default().absent("app_id"));
    /// No token came.
    access_token_missing() => no_token(&Fields::default());
    /// There is no such app.
    unknown_app(app_id = "nobody") =>
        Refusal::new(Code::Unauthorised, text!(
            "app_id: unknown app {app_id}; use the id that the operator of this till gave you",
            app_id = shown(&app_id.to_string())
        ));
    /// The token is not one of this app.
    access_token_unknown() =>
        Refusal::new(Code::Unauthorised, "access_token: expected a token of this app from /oauth2/access_token");
    /// The token has expired.
    access_token_expired() =>
        Refusal::new(Code::Unauthorised, "access_token: expired, get a new one from /oauth2/access_token");
    /// The operator has suspended the app.
    app_suspended() =>
        Refusal::new(Code::Forbidden, "app_id: the app is suspended; ask the operator of this till to resume it");
    /// The app lacks the scope.
    scope_missing(app_id = "demo", scope = Scope::Epay) =>
        Refusal::new(Code::Forbidden, text!(
            "app_id: the app lacks the scope {scope}; to give it, run: minitill app change {app_id} --add-scope {scope}",
            scope, app_id
        ));
    /// No signature came.
    sign_missing() => no_signature(&Fields::default().absent("sign"));
    /// The signature does not match.
    bad_signature() => Refusal::new(Code::BadSignature, text!(
        "sign: the signature does not match; expected {signature}",
        signature = Text::new(SIGNATURE)
    ));
    /// There is no such app, or the secret does not belong to it.
    token_credentials(app_id = "demo") => wrong_secret(&app_id.to_string(), "");
}

/// The definition of a signature (contract 3.2.2).
const SIGNATURE: &str = "the HMAC-SHA256 with the pay key, in hexadecimal, of the signed fields as name=value, in the order \
    of their names, joined with &";

/// The refusal of a call whose token is empty, in a wrong place or missing.
fn no_token(credentials: &Fields) -> Refusal {
    let error = credentials.absent("access_token");
    let problem = error.text();
    let message = if is_nothing(&error) {
        text!("{problem}; /oauth2/access_token gives one", problem)
    } else {
        problem
    };
    Refusal::new(Code::Unauthorised, message)
}

/// The refusal of a call whose signature is empty, in a wrong place or missing.
fn no_signature(error: &FieldError) -> Refusal {
    let (problem, signature) = (error.text(), Text::new(SIGNATURE));
    let message = if is_nothing(error) {
        text!("{problem}; expected {signature}", problem, signature)
    } else {
        problem
    };
    Refusal::new(Code::BadSignature, message)
}

/// Whether nothing came that could be the field. Else the error says what to do.
fn is_nothing(error: &FieldError) -> bool {
    matches!(error.problem, FieldErrorKind::Missing | FieldErrorKind::Empty)
}

/// The refusal of this credential, with what is around it (contract 2.11).
pub(super) fn with_strays(refusal: Refusal, credential: &str) -> Refusal {
    let message = match strays::swallowed(credential) {
        Some(name) => text!(
            "{refusal}; {name} came in its value: join fields with \"&\"",
            refusal = refusal.message,
            name
        ),
        None => strays::explained(refusal.message, credential),
    };
    Refusal { message, ..refusal }
}

/// The refusal of a credential that is empty, in a wrong place or missing.
fn absent(code: Code, error: &FieldError) -> Refusal {
    Refusal::new(code, error.text())
}

/// The credentials of a call with an access token.
pub const CREDENTIALS: [&str; 2] = ["app_id", "access_token"];

/// Checks `app_id` and `access_token`, the app's state and its rate limit.
///
/// # Errors
/// 100200102 with what is wrong, 10000305, or the database is away.
pub async fn authenticate(
    state: &AppState,
    credentials: &Fields,
    limited: Limited,
) -> Result<Caller, Refusal> {
    let app_id = credentials.text("app_id");
    let app_id = app_id.ok_or_else(|| absent(Code::Unauthorised, &credentials.absent("app_id")))?;
    let token = credentials.text("access_token").ok_or_else(|| no_token(credentials))?;
    let hash = token_hash(token);
    // A text that cannot be an app id is an unknown app: the answer is the same.
    let app_id = AppId::parse(app_id).map_err(|_| unknown_app(app_id))?;
    let (app, token_state) =
        tokio::try_join!(state.store.find_app(&app_id), state.store.token_state(&app_id, hash))?;
    let app = app.ok_or_else(|| unknown_app(app_id.as_str()))?;
    note_language(&app);
    if app.settings.sandbox {
        note_sandbox(&app);
        note_fields(credentials);
    }
    let caller = Caller::new(Arc::clone(&app), token_state).map_err(|refused| match refused {
        TokenRefused::Unknown => with_strays(access_token_unknown(), token),
        TokenRefused::Expired => access_token_expired(),
    })?;
    note_proven(&app);
    admit(state, caller.app(), limited)?;
    refuse_if_asked(state, &app).await?;
    Ok(caller)
}

/// Refuses a suspended app, then one over its rate limit.
fn admit(state: &AppState, app: &App, limited: Limited) -> Result<(), Refusal> {
    if app.suspended {
        return Err(app_suspended());
    }
    let admitted = state.rate_limits.admit(app, limited, state.clock.monotonic());
    admitted.map_err(|exceeded| Refusal::rate_limited(exceeded.text(), exceeded.wait))
}

/// The refusal that a sandbox app has asked for (contract 15.2.8). Any other app costs it nothing.
async fn refuse_if_asked(state: &AppState, app: &App) -> Result<(), Refusal> {
    if !app.settings.sandbox {
        return Ok(());
    }
    match called_app::endpoint() {
        Some(endpoint) => {
            let refused = Box::pin(fault::refuse(state, app, endpoint)).await;
            note_fault(refused.is_err());
            refused
        }
        None => Ok(()),
    }
}

/// Checks that the caller holds a permission scope (contract 4.1.2, 10.3.2, 10.4.2 and 19.2.2).
///
/// # Errors
/// 100200102 naming the scope, with the command that gives it.
pub fn require_scope(caller: &Caller, scope: Scope) -> Result<(), Refusal> {
    let app = caller.app();
    if app.holds(scope) { Ok(()) } else { Err(scope_missing(&app.id, scope)) }
}

/// A refusal of a call before its fields are read.
#[derive(Debug)]
pub struct CallRefused {
    /// What is answered.
    pub refusal: Refusal,
    /// The app whose pay key has signed the call, and the call. `None` where none has.
    pub signed: Option<(AppId, WalletForm)>,
}

/// Checks the access token, the scope where one is needed, and then the signature of a call (contract 3.6.1).
///
/// # Errors
/// As [`authenticate`]; 100200102 without the scope; 100200114 for a signature that is absent or does not match.
pub async fn authenticate_call(
    state: &AppState,
    form: WalletForm,
) -> Result<Signed<WalletForm>, CallRefused> {
    let caller = match admit_call(state, &form).await {
        Ok(caller) => caller,
        Err(refusal) => {
            // It is in a box because few requests need it.
            let signed_by = Box::pin(signed_by(state, &form, &refusal)).await;
            return Err(CallRefused { refusal, signed: signed_by.map(|app_id| (app_id, form)) });
        }
    };
    let strays = form.fields.text("sign").and_then(strays::around);
    let not_signed = match caller.verify(form) {
        Ok(signed) => return Ok(signed),
        Err(NotSigned::Missing(error)) => no_signature(&error),
        Err(NotSigned::Mismatch(app, form)) => {
            let mistaken = form.fields.mistaken(form.call.required_fields());
            // It is in a box because few requests need it.
            let refusal = Box::pin(wrongly_signed(state, app, form)).await;
            match mistaken.filter(|_| refusal.code == Code::BadSignature) {
                Some(fault) => {
                    let message =
                        text!("{refusal}; {fault}", refusal = refusal.message, fault = fault.text());
                    Refusal { message, ..refusal }
                }
                None => refusal,
            }
        }
    };
    let strays = strays.filter(|_| not_signed.code == Code::BadSignature);
    let refusal = Refusal { message: strays::told(not_signed.message, strays), ..not_signed };
    Err(CallRefused { refusal, signed: None })
}

/// The fields that are checked before the signature.
async fn admit_call(state: &AppState, form: &WalletForm) -> Result<Caller, Refusal> {
    let limited = match form.call {
        WalletCall::Exchange | WalletCall::Present | WalletCall::Cancel | WalletCall::Topup => {
            Limited::Exchanges
        }
        WalletCall::Balance | WalletCall::Query => Limited::Reads,
    };
    let caller = authenticate(state, &form.fields, limited).await?;
    form.call.scope().map_or(Ok(()), |scope| require_scope(&caller, scope))?;
    // A client that sends the form in the query learns that, and not that its signature is wrong.
    match form.fields.misplaced(form.call.required_fields()) {
        Some(error) if error.field == "sign" => Err(no_signature(&error)),
        Some(error) => Err(error.into()),
        None => Ok(caller),
    }
}

/// The app that has signed a call which is refused before its signature is checked. It takes what the check takes, for an
/// unknown app too (contract 3.2.5).
async fn signed_by(state: &AppState, form: &WalletForm, refusal: &Refusal) -> Option<AppId> {
    // While the database is away, it is not asked once more.
    let app_id = form.fields.text("app_id").filter(|_| refusal.transport.is_none());
    let app = match app_id.map(AppId::parse) {
        Some(Ok(app_id)) => state.store.find_app(&app_id).await.ok().flatten(),
        Some(Err(_)) | None => None,
    };
    let Some(app) = app else {
        verify_for_nobody(form);
        return None;
    };
    // Without a token the app was not looked up before.
    note_named(&app, &form.fields);
    is_signed_by(&app, form).then(|| app.id.clone())
}

/// The refusal of a signature that does not match. Over its rate, an app waits for it (contract 3.2.9).
async fn wrongly_signed(state: &AppState, app: Arc<App>, form: WalletForm) -> Refusal {
    let pause = state.wrong_signatures.pause(&app.id, state.clock.monotonic());
    // Nothing of a call that waits stays in memory but its refusal.
    let refusal = if app.settings.sandbox { diagnosed(state, app, form).await } else { bad_signature() };
    if let Some(pause) = pause {
        tokio::time::sleep(pause).await;
    }
    refusal
}

/// The refusal of a sandbox app's signature, with the string that the server signed and the mistake (contract 3.7).
async fn diagnosed(state: &AppState, app: Arc<App>, form: WalletForm) -> Refusal {
    let now = state.clock.monotonic();
    match state.diagnoses.make(&state.store, app, form, KeysTried::OfOthersToo, now).await {
        Ok(Ok(finding)) => {
            let (bytes, mistake) = (finding.string_to_sign.len(), finding.mistake().map(Mistake::english));
            let advice = SignatureAdvice { bytes, mistake, string_to_sign: finding.string_to_sign };
            diagnosed_as(advice)
        }
        Ok(Err(NoDiagnosis::Busy)) => Refusal::new(
            Code::BadSignature,
            "sign: the signature does not match; the diagnosis is busy, so send it again in a second to learn why",
        ),
        Ok(Err(NoDiagnosis::FormTooLarge)) => Refusal::new(
            Code::BadSignature,
            text!(
                "sign: the signature does not match; a form above {max} bytes is not diagnosed",
                max = FORM_BYTES_MAX
            ),
        ),
        Err(error) => error.into(),
    }
}

/// The refusal of a sandbox app's signature, with what is wrong with it.
pub(super) fn diagnosed_as(advice: SignatureAdvice) -> Refusal {
    let message =
        "sign: the signature does not match; data.string_to_sign is what the server signed with the pay key";
    Refusal { data: Some(Advice::Signature(advice)), ..Refusal::new(Code::BadSignature, message) }
}

/// Checks `app_id` and `app_secret` of a token request or a login (contract 6.3 and 11.5).
///
/// # Errors
/// 100200101 when either is wrong, 100200102 when the app is suspended, 10000305.
pub async fn authenticate_secret(
    state: &AppState,
    app_id: &str,
    app_secret: &str,
    limited: Limited,
) -> Result<Arc<App>, Refusal> {
    let wrong = || wrong_secret(app_id, app_secret);
    let id = AppId::parse(app_id).map_err(|_| wrong())?;
    let app = state.store.find_app(&id).await?;
    if let Some(app) = &app {
        note_sandbox(app);
    }
    let is_proven = proves_secret(app.as_deref(), app_secret);
    let app = app.filter(|_| is_proven).ok_or_else(wrong)?;
    note_proven(&app);
    admit(state, &app, limited)?;
    refuse_if_asked(state, &app).await?;
    Ok(app)
}

/// The refusal of an app and its secret, with what is around them. It is the same for an unknown app and a wrong secret, so
/// that nobody learns which apps there are.
fn wrong_secret(app_id: &str, app_secret: &str) -> Refusal {
    let around = |name, value| strays::around(value).map(|strays| (name, strays));
    let around = around("app_id", app_id).or_else(|| around("app_secret", app_secret));
    let refusal = text!("app_id or app_secret is wrong; use those that the operator of this till gave you");
    let refusal = match (around, strays::mistaken(app_secret)) {
        (Some((name, strays)), _) => text!("{refusal}; {name} has {strays} around it", refusal, name, strays),
        (None, Some(mistaken)) => text!("{refusal}; app_secret {mistaken}", refusal, mistaken),
        (None, None) => refusal,
    };
    let message = text!("{refusal}; app_id {app_id} came", refusal, app_id = shown(app_id));
    Refusal::new(Code::TokenCredentials, message)
}
