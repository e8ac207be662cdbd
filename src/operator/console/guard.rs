//! The guard in front of every page: the origin of the request, the session, the role, and the headers
//! of the answer.

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use domain::fields::is_secret;

use super::error::ConsoleError;
use super::error_page::error_page;
use super::route::Access;
use super::session::{SignedIn, signed_in};
use crate::state::AppState;

/// A page runs no script and loads only the style sheet and pictures of this origin. Its forms go to this
/// origin, and no other site may frame it.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'",
);

/// Passes a request to its handler if the user has the role, and renders every error as a page. A request
/// that can change something must come from a page of this console.
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
        response = error_page(&error, signed_in.as_ref());
    }
    with_security_headers(response)
}

/// The user, if the request got as far as the session, and whether the request is allowed.
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

/// The page to open after the sign-in. A query with a secret is dropped, so that no link repeats it.
fn wanted_page(uri: &Uri) -> String {
    let query = uri.query().unwrap_or_default();
    let has_secret = form_urlencoded::parse(query.as_bytes()).any(|(name, _)| is_secret(&name));
    if has_secret || query.is_empty() { uri.path().to_owned() } else { format!("{}?{query}", uri.path()) }
}

/// Whether the request comes from a page of this origin, by the headers of the browser. No page can forge
/// `Sec-Fetch-Site`, and no proxy changes it. Browsers omit it over http. Then the host of `Origin` must
/// equal `Host`. A client that sends neither is not a browser; it can use the admin API.
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

/// Adds the security headers that every answer of the console has.
pub(super) fn with_security_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // With "no-referrer" browsers send `Origin: null` with the forms of the console.
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
}
