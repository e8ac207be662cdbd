//! Sessions of the console: the cookie, the signed-in user, and the token that protects forms.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, header};
use domain::console_user::{ConsoleUserName, Role};
use domain::rights::{Need, Rights};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use store::secrets::token_hash;
use store::{SessionUser, StoreError};
use tokio::time::Instant;

use crate::state::AppState;

/// The header of a page that loads itself again, which is no use of the session.
const REFRESH: &str = "minitill-refresh";
const COOKIE: &str = "minitill_console";
/// The name under https. Browsers take a cookie with this prefix over https alone, so nobody can plant a
/// session over http.
const SECURE_COOKIE: &str = "__Secure-minitill_console";

/// Sessions that are remembered at most, and for how long: as long as a session may idle.
const REMEMBERED_MAX: usize = 1_000;
const REMEMBERED_FOR: Duration = Duration::from_mins(30);

/// The signed-in user of a request.
#[derive(Clone)]
pub(super) struct SignedIn {
    pub(super) name: ConsoleUserName,
    pub(super) rights: Rights,
    /// The value of the field `csrf` in every form of this session.
    pub(super) csrf_token: String,
    /// Whether the user's sign-in needs a code too.
    pub(super) has_second_factor: bool,
    /// Whether the user has a password here, and no OpenID Connect provider asks for one.
    pub(super) has_password: bool,
    /// Whether the user proved a short while ago who they are (`console.reauth_after`).
    pub(super) has_proof: bool,
    /// Number of changes that wait for a second person.
    pub(super) requests: i64,
    /// The hash of the session's secret, by which the database knows the session.
    pub(super) token_hash: [u8; 32],
}

impl SignedIn {
    /// Whether the user is an admin, of all apps or of some. Only admins see personal data.
    pub(super) fn is_admin(&self) -> bool {
        self.rights.role == Role::Admin
    }

    /// Whether the user may do more than read.
    fn changes_something(&self) -> bool {
        Need::ALL.into_iter().any(|need| need != Need::Read && self.rights.role.may(need))
    }

    /// Who holds the places of the user's requests.
    pub(super) fn place_holder(&self) -> String {
        format!("user {}", self.name)
    }

    /// Whether the user must set up a second factor first (`console.totp_required`).
    pub(super) fn lacks_second_factor(&self, state: &AppState) -> bool {
        let needs_one = state.config.console.totp_required && self.changes_something() && self.has_password;
        needs_one && !self.has_second_factor
    }
}

/// The users of sessions, as they were when the database told last. Pages that show how the till is need no database: they
/// are what an operator wants while it is away. No other page uses it.
#[derive(Debug, Default)]
pub(super) struct SessionMemory(Mutex<HashMap<[u8; 32], (SessionUser, Instant)>>);

impl SessionMemory {
    /// Keeps what the database told of a session.
    fn learn(&self, token_hash: [u8; 32], session: Option<&SessionUser>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(user) = session else {
            known.remove(&token_hash);
            return;
        };
        if known.len() >= REMEMBERED_MAX && !known.contains_key(&token_hash) {
            known.retain(|_, (_, at)| at.elapsed() < REMEMBERED_FOR);
        }
        if known.len() < REMEMBERED_MAX || known.contains_key(&token_hash) {
            known.insert(token_hash, (user.clone(), Instant::now()));
        }
    }

    /// The user of a session that the database knew a short while ago.
    fn recall(&self, token_hash: [u8; 32]) -> Option<SessionUser> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&token_hash).filter(|(_, at)| at.elapsed() < REMEMBERED_FOR).map(|(user, _)| user.clone())
    }
}

/// The user of the session that the request's cookie names. With a `memory`, the page needs no database: while it is
/// away, the user is the one whom it told before.
pub(super) async fn signed_in(
    state: &AppState,
    headers: &HeaderMap,
    memory: Option<&SessionMemory>,
) -> Result<Option<SignedIn>, StoreError> {
    let Some(token) = token_of(state, headers) else { return Ok(None) };
    let token_hash = token_hash(token);
    let told = state.store.console_session(token_hash, !headers.contains_key(REFRESH)).await;
    let session = match (told, memory) {
        (Err(away @ StoreError::Unavailable(..)), Some(memory)) => {
            Some(memory.recall(token_hash).ok_or(away)?)
        }
        (told, memory) => {
            let session = told?;
            if let Some(memory) = memory {
                memory.learn(token_hash, session.as_ref());
            }
            session
        }
    };
    Ok(session.map(|SessionUser { name, rights, has_second_factor, has_password, proved, requests }| {
        let has_proof = proved < state.config.console.reauth_after;
        let csrf_token = csrf_token(token);
        SignedIn {
            name,
            rights,
            csrf_token,
            has_second_factor,
            has_password,
            has_proof,
            requests,
            token_hash,
        }
    }))
}

/// The session's secret in the request's cookies.
pub(super) fn token_of<'a>(state: &AppState, headers: &'a HeaderMap) -> Option<&'a str> {
    cookie(headers, state.config.ops.has_tls())
}

/// The session's secret in the request's cookies. A listener with TLS takes the secure cookie alone.
fn cookie(headers: &HeaderMap, has_tls: bool) -> Option<&str> {
    cookie_named(headers, if has_tls { &[SECURE_COOKIE] } else { &[SECURE_COOKIE, COOKIE] })
}

/// The first cookie of the request with one of these names.
pub(super) fn cookie_named<'a>(headers: &'a HeaderMap, names: &[&str]) -> Option<&'a str> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = texts.flat_map(|text| text.split(';')).filter_map(|one| one.trim().split_once('='));
    cookies.find(|(name, _)| names.contains(name)).map(|(_, value)| value)
}

/// Sets the session cookie until the browser closes. With `is_secure` browsers send it over https only.
pub(super) fn set_cookie(token: &str, is_secure: bool) -> String {
    let (name, secure) = if is_secure { (SECURE_COOKIE, "; Secure") } else { (COOKIE, "") };
    format!("{name}={token}; Path=/console; HttpOnly; SameSite=Strict{secure}")
}

/// Removes the cookie, by either name.
pub(super) fn clear_cookies() -> [String; 2] {
    [(COOKIE, ""), (SECURE_COOKIE, "; Secure")]
        .map(|(name, secure)| format!("{name}=; Path=/console; HttpOnly; SameSite=Strict; Max-Age=0{secure}"))
}

/// The form token: an HMAC of the session's secret. The secret cannot be computed from it.
fn csrf_token(token: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("HMAC takes a key of any length");
    hex::encode(mac.chain_update(b"minitill console form").finalize().into_bytes())
}

/// Whether the browser used https, to this listener or to a proxy in front. The `Origin` header of a request
/// from this console shows it.
pub(super) fn came_by_https(state: &AppState, headers: &HeaderMap) -> bool {
    state.config.ops.has_tls()
        || headers.get(header::ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_sessions_cookie_is_found_among_others() {
        let found = |text: &'static str, has_tls| {
            let headers = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static(text))]);
            cookie(&headers, has_tls).map(str::to_owned)
        };
        assert_eq!(found("a=b; minitill_console=t1; c=d", false).as_deref(), Some("t1"));
        assert_eq!(found("xminitill_console=t1", false), None);
        for has_tls in [false, true] {
            assert_eq!(found("__Secure-minitill_console=t2", has_tls).as_deref(), Some("t2"));
        }
        assert_eq!(found("minitill_console=t1", true), None, "it may have been planted over http");
        assert_eq!(cookie(&HeaderMap::new(), false), None);
    }

    #[test]
    fn a_forms_token_is_the_sessions_own() {
        let (one, other) = (csrf_token("t1"), csrf_token("t2"));
        assert!(one != other && one.len() == 64 && one == csrf_token("t1"));
    }
}
