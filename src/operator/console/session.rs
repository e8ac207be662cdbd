//! Who asks: sessions by a cookie, and the guard in front of every page.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use domain::console_user::Role;
use domain::fields::is_secret;
use domain::operator::{Operator, OperatorKind};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use store::StoreError;
use store::secrets::token_hash;
use subtle::ConstantTimeEq as _;

use super::Access;
use super::page::{self, ConsoleError};
use crate::state::AppState;

/// The cookie's name.
const COOKIE: &str = "minitill_console";
/// Nothing runs and nothing is loaded but our own style sheet and pictures; forms go to us alone, and no
/// other site may frame a page.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'",
);

/// Whoever is signed in, and asks. Every handler behind the guard may take one.
#[derive(Clone)]
pub(super) struct SignedIn {
    /// Who, as the operator's log names them.
    pub(super) name: String,
    /// What they may do.
    pub(super) role: Role,
    operator: Operator,
    csrf_token: String,
    token_hash: [u8; 32],
}

impl SignedIn {
    /// For the operator's log.
    pub(super) fn operator(&self) -> Operator {
        self.operator.clone()
    }

    /// Whether they may change something.
    pub(super) fn is_admin(&self) -> bool {
        match self.role {
            Role::Admin => true,
            Role::Viewer => false,
        }
    }

    /// What every form of theirs carries in its field `csrf`.
    pub(super) fn csrf_token(&self) -> &str {
        &self.csrf_token
    }

    /// Whether a form carries it.
    pub(super) fn has_csrf_token(&self, sent: &str) -> bool {
        self.csrf_token.as_bytes().ct_eq(sent.as_bytes()).into()
    }

    /// Of the session's token.
    pub(super) fn token_hash(&self) -> [u8; 32] {
        self.token_hash
    }
}

impl FromRequestParts<AppState> for SignedIn {
    type Rejection = ConsoleError;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, ConsoleError> {
        // The guard puts it there; a route that anyone may ask for has none.
        parts.extensions.get::<Self>().cloned().ok_or(ConsoleError::SignInFirst(None))
    }
}

/// Lets a request through to its handler if whoever asks may have it, and makes a page of whatever goes
/// wrong. A request that could change something must come from a page of this console.
pub(super) async fn guard(
    State((state, access)): State<(AppState, Access)>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let (signed_in, admitted) = admit(&state, access, &parts).await;
    let mut response = match admitted {
        Ok(()) => {
            if let Some(signed_in) = &signed_in {
                parts.extensions.insert(signed_in.clone());
            }
            next.run(Request::from_parts(parts, body)).await
        }
        Err(refused) => refused.into_response(),
    };
    if let Some(error) = response.extensions_mut().remove::<ConsoleError>() {
        response = page::error_page(&error, signed_in.as_ref());
    }
    with_security_headers(response)
}

/// Who asks, as far as that was looked up, and whether they may.
async fn admit(
    state: &AppState,
    access: Access,
    request: &Parts,
) -> (Option<SignedIn>, Result<(), ConsoleError>) {
    let is_read = request.method.is_safe();
    if !is_read && !is_from_here(&request.headers) {
        return (None, Err(ConsoleError::Foreign));
    }
    if access == Access::Anyone {
        return (None, Ok(()));
    }
    let found = match signed_in(state, &request.headers).await {
        Ok(Some(found)) => found,
        Ok(None) => {
            return (None, Err(ConsoleError::SignInFirst(is_read.then(|| wanted_page(&request.uri)))));
        }
        Err(error) => return (None, Err(error.into())),
    };
    let may = access != Access::Admin || found.is_admin();
    (Some(found), if may { Ok(()) } else { Err(ConsoleError::AdminsOnly) })
}

/// Where to come back to after the sign-in; without a query that holds a secret, which has no business there and
/// is not repeated.
fn wanted_page(uri: &Uri) -> String {
    let query = uri.query().unwrap_or_default();
    let has_secret = form_urlencoded::parse(query.as_bytes()).any(|(name, _)| is_secret(&name));
    if has_secret || query.is_empty() { uri.path().to_owned() } else { format!("{}?{query}", uri.path()) }
}

/// Whose session the request's cookie is.
async fn signed_in(state: &AppState, headers: &HeaderMap) -> Result<Option<SignedIn>, StoreError> {
    let Some(token) = cookie(headers) else { return Ok(None) };
    let token_hash = token_hash(token);
    let Some((name, role)) = state.store.console_session(token_hash).await? else { return Ok(None) };
    let operator = Operator::new(OperatorKind::Console, name.as_str())
        .map_err(|expected| StoreError::Internal(format!("console_users.name: expected {}", expected.0)))?;
    let csrf_token = csrf_token(token);
    Ok(Some(SignedIn { name: name.to_string(), role, operator, csrf_token, token_hash }))
}

/// The session's token in the request's cookies.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = texts.flat_map(|text| text.split(';')).filter_map(|one| one.trim().split_once('='));
    cookies.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

/// The cookie that holds a session's token, until the browser is closed. A browser that came by https
/// never sends it in the clear.
pub(super) fn set_cookie(token: &str, is_secure: bool) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{COOKIE}={token}; Path=/console; HttpOnly; SameSite=Strict{secure}")
}

/// Takes the cookie away.
pub(super) fn clear_cookie() -> String {
    format!("{COOKIE}=; Path=/console; HttpOnly; SameSite=Strict; Max-Age=0")
}

/// Made of the session's token, from which alone it can be made; the token cannot be made from it.
fn csrf_token(token: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("HMAC takes a key of any length");
    hex::encode(mac.chain_update(b"minitill console form").finalize().into_bytes())
}

/// Whether a browser says that the request comes from a page of this very origin. `Sec-Fetch-Site`
/// cannot be made up by a page and holds behind any proxy; browsers that do not send it (they leave it
/// out over http) send `Origin`, whose host must then be the one that was asked. Whatever sends neither
/// is no browser, and there is an API for that.
fn is_from_here(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => site == "same-origin",
        (None, Some(origin)) => {
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            authority.is_some() && authority == text("host")
        }
        (None, None) => false,
    }
}

/// Whether the browser came by https, to this listener or to a proxy in front. Asked of requests that
/// come from here, which say so themselves.
pub(super) fn came_by_https(state: &AppState, headers: &HeaderMap) -> bool {
    let has_tls = !state.config.ops.tls_certificate.as_os_str().is_empty();
    has_tls || headers.get(header::ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"))
}

/// What every answer of the console tells browsers.
pub(super) fn with_security_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Not "no-referrer": with it browsers send `Origin: null` with our own forms.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    #[test]
    fn only_a_page_of_this_origin_is_from_here() {
        let from_here = |pairs: &[(&'static str, &'static str)]| is_from_here(&headers(pairs));
        let host = ("host", "state.example:8081");
        assert!(from_here(&[host, ("origin", "http://state.example:8081")]));
        assert!(from_here(&[
            ("host", "10.0.0.1"),
            ("sec-fetch-site", "same-origin"),
            ("origin", "https://till")
        ]));
        for foreign in
            ["https://evil.example", "http://state.example", "http://state.example:8082", "null", ""]
        {
            assert!(!from_here(&[host, ("origin", foreign)]), "{foreign}");
        }
        for site in ["cross-site", "same-site", "none", ""] {
            assert!(!from_here(&[host, ("sec-fetch-site", site), ("origin", "http://state.example:8081")]));
        }
        assert!(!from_here(&[host]));
    }

    #[test]
    fn the_sessions_cookie_is_found_among_others() {
        let found = |text: &'static str| cookie(&headers(&[("cookie", text)])).map(str::to_owned);
        assert_eq!(found("a=b; minitill_console=t1; c=d").as_deref(), Some("t1"));
        assert_eq!(found("xminitill_console=t1"), None);
        assert_eq!(cookie(&HeaderMap::new()), None);
    }

    #[test]
    fn a_forms_token_is_the_sessions_own() {
        let (one, other) = (csrf_token("t1"), csrf_token("t2"));
        assert!(one != other && one.len() == 64 && one == csrf_token("t1"));
    }
}
