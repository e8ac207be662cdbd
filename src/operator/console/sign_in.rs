//! Sign-in and sign-out.

use askama::Template;
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse as _, Redirect};
use axum::routing::{get, post};
use domain::console_user::ConsoleUserName;
use domain::fields::Fields;
use http_server::counted_as;
use store::NewSession;
use store::secrets::{random_token, token_hash};

use super::page::{Page, Section, render};
use super::request::{Answer, ConsoleRequest, address, read_fields, text};
use super::route::{ConsoleRoute, routes};
use super::session::{came_by_https, clear_cookies, set_cookie, token_of};
use super::{oidc, password};
use crate::http::client_address::ClientAddress;
use crate::state::AppState;

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    anyone("GET", "/console/sign-in") => get(page);
    anyone("POST", "/console/sign-in") => post(sign_in);
    own("/console/sign-out") => post(sign_out);
};

/// Largest form of a sign-in in bytes: name, password and a path, with each byte encoded as three.
const FORM_BYTES_MAX: usize = 8 * 1024;
#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    page: Page<'a>,
    next: &'a str,
    name: &'a str,
    has_failed: bool,
    /// The host of the OpenID Connect provider that signs users in, and where that begins.
    provider: Option<String>,
    provider_address: String,
    /// Whether the user followed a link of another site: then the browser does not send the cookie.
    from_elsewhere: bool,
}

async fn page(State(state): State<AppState>, headers: HeaderMap, request: Request) -> Answer {
    let from_elsewhere = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    let fields = read_fields(&state, request, FORM_BYTES_MAX).await?;
    let next = where_to(text(&fields, "next"));
    render(&SignInPage { from_elsewhere, ..SignInPage::new(&state, next) })
}

impl<'a> SignInPage<'a> {
    fn new(state: &'a AppState, next: &'a str) -> Self {
        Self {
            page: Page::of_nobody("Sign in"),
            next,
            name: "",
            has_failed: false,
            provider: state.config.oidc.host(),
            provider_address: address(oidc::PATH, &Fields::default(), &[("next", next)]),
            from_elsewhere: false,
        }
    }
}

async fn sign_in(
    State(state): State<AppState>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    headers: HeaderMap,
    request: Request,
) -> Answer {
    let fields = read_fields(&state, request, FORM_BYTES_MAX).await?;
    // Phones write the first letter as a capital.
    let (next, typed) = (where_to(text(&fields, "next")), &text(&fields, "name").to_ascii_lowercase());
    let token = random_token();
    let session = NewSession {
        token_hash: token_hash(&token),
        client: counted_as(client),
        // Whoever signs in again leaves no session behind.
        instead_of: token_of(&state, &headers).map(token_hash),
    };
    // A password counts exactly as it was typed.
    let (password, code) = (fields.text("password").unwrap_or_default(), text(&fields, "code"));
    let begun = match ConsoleUserName::parse(typed) {
        Ok(name) => match password::verify(&state, session.client, &name, password, Some(code)).await? {
            Some(hash) => state.store.begin_console_session(&name, &hash, session).await?,
            None => false,
        },
        Err(_) => false,
    };
    if !begun {
        let page = render(&SignInPage { name: typed, has_failed: true, ..SignInPage::new(&state, next) })?;
        return Ok((StatusCode::FORBIDDEN, page).into_response());
    }
    tracing::info!(user = typed, "console: a user signed in");
    let cookie = set_cookie(&token, came_by_https(&state, &headers));
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(next)).into_response())
}

async fn sign_out(request: ConsoleRequest) -> Answer {
    request.state.store.end_console_session(request.user.token_hash).await?;
    let cleared = AppendHeaders(clear_cookies().map(|cookie| (header::SET_COOKIE, cookie)));
    Ok((cleared, Redirect::to("/console/sign-in")).into_response())
}

/// The page to open after the sign-in: always a page of the console.
pub(super) fn where_to(next: &str) -> &str {
    let rest = next.strip_prefix("/console");
    let is_page = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest.starts_with('?'));
    let is_plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_page && is_plain { next } else { Section::OVERVIEW.path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_comes_back_to_the_console_and_nowhere_else() {
        for page in ["/console", "/console/log?from=2026-11-21", "/console?a=b", "/console/players"] {
            assert_eq!(where_to(page), page);
        }
        for other in [
            "",
            "/",
            "//evil.example",
            "https://evil.example",
            "/consolex",
            "/console/\\evil",
            "/console/\r\nx",
            "/openapi.json",
            "javascript:alert(1)",
        ] {
            assert_eq!(where_to(other), "/console", "{other:?}");
        }
    }
}
