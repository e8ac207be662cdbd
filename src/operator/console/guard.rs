//! The guard in front of every page: the origin of the request, the session, the role, and the headers
//! of the answer.

use std::sync::Arc;

use axum::extract::{FromRequestParts as _, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use domain::fields::{Fields, is_secret};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::error::ConsoleError;
use super::i18n::View;
use super::page::Section;
use super::request::address;
use super::route::{Access, ConsoleRoute};
use super::session::{SessionMemory, SignedIn, signed_in};
use super::{account, health, second_factor};
use crate::http::client_address::ClientAddress;
use crate::http::operator_places::AllTaken;
use crate::http::refusal_log::Unsuccessful;
use crate::operator::authorization::{self, Denied};
use crate::state::AppState;

/// A page loads only the style sheet, the script and pictures of this origin, and has no script of its own. Its
/// forms go to this origin, as does what its script asks, and no other site may frame it.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

/// Passes a request to its handler if the user has the role, and renders every error as a page. A request
/// that can change something must come from a page of this console.
pub(super) async fn guard(
    State((state, memory, route)): State<(AppState, Arc<SessionMemory>, &'static ConsoleRoute)>,
    request: Request,
    next: Next,
) -> Response {
    View::of(&state, &request).scope(guarded(state, &memory, route, request, next)).await
}

async fn guarded(
    state: AppState,
    memory: &SessionMemory,
    route: &'static ConsoleRoute,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let client = ClientAddress::of(&parts.extensions, &parts.headers, &state.config.ops.trusted_proxies);
    parts.extensions.insert(client);
    parts.extensions.insert(route.access);
    let span = tracing::info_span!("console", client = %client.0);
    let (method, started) = (parts.method.clone(), Instant::now());
    let (user, refused) = match admit(&state, memory, route, &parts).instrument(span.clone()).await {
        Ok(user) => (user, None),
        Err(refused) => (None, Some(refused)),
    };
    let refused = match refused {
        None => denied(route, user.as_ref(), &mut parts).await,
        refused => refused,
    };
    let mut response = match refused {
        Some(refused) => refused,
        None if !is_open_without_second_factor(route)
            && user.as_ref().is_some_and(|user| user.lacks_second_factor(&state)) =>
        {
            if method.is_safe() {
                Redirect::to(second_factor::PATH).into_response()
            } else {
                ConsoleError::SECOND_FACTOR_FIRST.into_response()
            }
        }
        None => {
            if let Some(user) = &user {
                parts.extensions.insert(user.clone());
            }
            let answering = next.run(Request::from_parts(parts, body)).instrument(span.clone());
            match user.as_ref().filter(|_| !needs_no_database(route)) {
                None => answering.await,
                Some(user) => match state.operator_places.take(&user.place_holder()).await {
                    Ok(place) => place.with(answering.await),
                    Err(AllTaken) => ConsoleError::PLACES_TAKEN.into_response(),
                },
            }
        }
    };
    if let Some(error) = response.extensions_mut().remove::<ConsoleError>() {
        if error.is_denied_or_failed() {
            let (path, status, code, cause) = (None, error.status, None, error.cause.as_str());
            let (endpoint, user, elapsed) =
                (route.path, user.as_ref().map(|user| user.name.as_str()), started.elapsed());
            let request =
                Unsuccessful { method: &method, endpoint, path, status, code, cause, user, elapsed };
            span.in_scope(|| state.refusal_log.write(&request));
        }
        response = error.page(user.as_ref(), !method.is_safe());
        if response.status() == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
    }
    with_security_headers(response)
}

/// Refuses what the user's role or apps do not allow. The overview is about all apps: others begin with their apps.
async fn denied(route: &ConsoleRoute, user: Option<&SignedIn>, parts: &mut Parts) -> Option<Response> {
    let need = route.access.need()?;
    let Some(SignedIn { rights, .. }) = user else {
        return Some(ConsoleError::SIGN_IN_FIRST.into_response());
    };
    let path = RawPathParams::from_request_parts(parts, &()).await.ok();
    let app_id = path.as_ref().and_then(|path| path.iter().find(|(name, _)| *name == "app_id"));
    let app_id = app_id.map(|(_, app_id)| app_id);
    let denied = authorization::admit(rights, need, route.reach(), app_id).err()?;
    Some(match denied {
        Denied::Role => ConsoleError::not_for_role(need).into_response(),
        Denied::AllAppsOnly if route.path == Section::OVERVIEW.path => {
            Redirect::to(Section::APPS.path).into_response()
        }
        Denied::AllAppsOnly => ConsoleError::ALL_APPS_ONLY.into_response(),
        Denied::NoSuchApp => ConsoleError::no_such_app(app_id.unwrap_or_default()).into_response(),
    })
}

/// What a user needs to set up a second factor, or to leave.
fn is_open_without_second_factor(route: &ConsoleRoute) -> bool {
    route.path == "/console/sign-out" || route.path.starts_with(account::PATH)
}

/// The user, if the page is not for everybody. Otherwise the answer that refuses the request.
async fn admit(
    state: &AppState,
    memory: &SessionMemory,
    route: &ConsoleRoute,
    request: &Parts,
) -> Result<Option<SignedIn>, Response> {
    let is_read = request.method.is_safe();
    if !is_read && !is_from_here(&request.headers) {
        return Err(ConsoleError::FOREIGN.into_response());
    }
    if route.access == Access::Anyone {
        return Ok(None);
    }
    match signed_in(state, &request.headers, needs_no_database(route).then_some(memory)).await {
        Ok(Some(user)) => Ok(Some(user)),
        Ok(None) if is_read => Err(Redirect::to(&sign_in_path(&request.uri)).into_response()),
        Ok(None) => Err(ConsoleError::SIGN_IN_FIRST.into_response()),
        Err(error) => Err(ConsoleError::from(error).into_response()),
    }
}

/// Whether the page shows how the till is, also while the database is away.
fn needs_no_database(route: &ConsoleRoute) -> bool {
    [Section::OVERVIEW.path, health::PATH].contains(&route.path)
}

/// The address of the sign-in, with the page to open afterwards. A query with a secret is dropped, so that
/// no link repeats it.
fn sign_in_path(wanted: &Uri) -> String {
    let query = wanted.query().unwrap_or_default();
    let has_secret = form_urlencoded::parse(query.as_bytes()).any(|(name, _)| is_secret(&name));
    let page = wanted.path_and_query().filter(|_| !has_secret).map_or(wanted.path(), PathAndQuery::as_str);
    let next = if page == Section::OVERVIEW.path { "" } else { page };
    address("/console/sign-in", &Fields::default(), &[("next", next)])
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
    fn the_path_of_the_sign_in_has_the_page_to_open_afterwards() {
        let path = |wanted: &'static str| sign_in_path(&Uri::from_static(wanted));
        assert_eq!(path("/console"), "/console/sign-in");
        assert_eq!(path("/console/log?a=b&c"), "/console/sign-in?next=%2Fconsole%2Flog%3Fa%3Db%26c");
        assert_eq!(path("/console/log?sign=b"), "/console/sign-in?next=%2Fconsole%2Flog");
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
