//! Sign-in by OpenID Connect (contract 8.6.20 to 8.6.25): the way to the provider, and the way back. A cookie has
//! the secret of a sign-in under way, so any instance can finish it.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::response::{AppendHeaders, IntoResponse as _, Redirect};
use axum::routing::get;
use domain::console_user::ProvidedUser;
use domain::fields::Fields;
use http_server::counted_as;
use store::NewSession;
use store::secrets::{random_token, token_hash};
use subtle::ConstantTimeEq as _;

use super::error::ConsoleError;
use super::page::{Page, render};
use super::request::{Answer, address, read_fields, text};
use super::route::{ConsoleRoute, routes};
use super::session::{cookie_named, set_cookie, signed_in, token_of};
use super::sign_in::where_to;
use crate::config::OIDC_CALLBACK_PATH;
use crate::http::client_address::ClientAddress;
use crate::operator::oidc::{OidcFault, SignInProvider, SignInSecret};
use crate::state::AppState;

/// The client of the provider, where the settings name one. The router gives it to the handlers.
pub(super) type Provider = Option<Arc<SignInProvider>>;

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    anyone("GET", PATH) => get(begin);
    anyone("GET", OIDC_CALLBACK_PATH) => get(come_back);
};

/// Where a sign-in at the provider begins.
pub(super) const PATH: &str = "/console/sign-in/provider";
/// The cookie of a sign-in under way, and how long it lasts.
const COOKIE: &str = "minitill_sign_in";
const COOKIE_SECONDS: u32 = 600;
/// Longest address of a page to open afterwards, so that browsers keep the cookie.
const NEXT_BYTES_MAX: usize = 2048;
/// The forms here have no body.
const BODY_BYTES_MAX: usize = 0;

/// A sign-in under way.
struct SignIn {
    secret: SignInSecret,
    /// The page to open afterwards.
    next: String,
    /// Whether a signed-in user proves once more who they are.
    again: bool,
}

impl SignIn {
    /// The value of its cookie: a form, all of whose characters a cookie may have.
    fn kept(&self) -> String {
        let fields = [("secret", self.secret.0.as_str()), ("next", &self.next)];
        let again = self.again.then_some(("again", "yes"));
        form_urlencoded::Serializer::new(String::new()).extend_pairs(fields.into_iter().chain(again)).finish()
    }

    fn read(kept: &str) -> Option<Self> {
        let fields = Fields::from_form(kept.as_bytes()).ok()?;
        let secret = fields.text("secret").filter(|secret| !secret.is_empty())?;
        Some(Self {
            secret: SignInSecret(secret.to_owned()),
            next: where_to(text(&fields, "next")).to_owned(),
            again: !text(&fields, "again").is_empty(),
        })
    }
}

fn sign_in_cookie(value: &str, seconds: u32, is_https: bool) -> String {
    let secure = if is_https { "; Secure" } else { "" };
    format!("{COOKIE}={value}; Path=/console/sign-in; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
}

/// Sends the browser to the provider.
async fn begin(
    State(state): State<AppState>,
    Extension(provider): Extension<Provider>,
    request: Request,
) -> Answer {
    let oidc = configured(provider)?;
    let fields = read_fields(&state, request, BODY_BYTES_MAX).await?;
    let next = Some(text(&fields, "next")).filter(|next| next.len() <= NEXT_BYTES_MAX);
    let sign_in = SignIn {
        secret: SignInSecret(random_token()),
        next: where_to(next.unwrap_or_default()).to_owned(),
        again: !text(&fields, "again").is_empty(),
    };
    let address = oidc.address(&sign_in.secret, sign_in.again).await?;
    let cookie = sign_in_cookie(&sign_in.kept(), COOKIE_SECONDS, oidc.is_https());
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(address.as_str())).into_response())
}

/// A page that asks for the same address from here.
#[derive(Template)]
#[template(path = "sign_in_back.html")]
struct BackPage<'a> {
    page: Page<'a>,
    address: String,
}

/// Tells a user to go back to the form that asked for a proof.
#[derive(Template)]
#[template(path = "sign_in_again.html")]
struct AgainPage<'a> {
    page: Page<'a>,
}

/// The browser comes back from the provider. It does not send the cookies of the console with a request that begins
/// at another site. So the first answer is a page that asks again.
async fn come_back(
    State(state): State<AppState>,
    Extension(provider): Extension<Provider>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    headers: HeaderMap,
    request: Request,
) -> Answer {
    let oidc = configured(provider)?;
    let fields = read_fields(&state, request, BODY_BYTES_MAX).await?;
    let came = |name: &'static str| (name, text(&fields, name));
    if text(&fields, "from_here").is_empty() {
        let fields = [came("code"), came("state"), came("error"), ("from_here", "yes")];
        let address = address(OIDC_CALLBACK_PATH, &Fields::default(), &fields);
        return render(&BackPage { page: Page::of_nobody("Signing in"), address });
    }
    let sign_in = cookie_named(&headers, &[COOKIE]).and_then(SignIn::read);
    let sign_in = sign_in.ok_or_else(|| ConsoleError::no_such_sign_in("no sign-in is under way"))?;
    if !bool::from(sign_in.secret.state().as_bytes().ct_eq(text(&fields, "state").as_bytes())) {
        return Err(ConsoleError::no_such_sign_in("another sign-in is under way"));
    }
    if text(&fields, "code").is_empty() {
        return Err(ConsoleError::refused_by_provider(text(&fields, "error")));
    }
    let client = counted_as(client);
    let user = match oidc.user(client, &sign_in.secret, text(&fields, "code")).await {
        Err(OidcFault::NoRole(identity)) => {
            state.store.end_provided_sessions(&identity).await?;
            return Err(OidcFault::NoRole(identity).into());
        }
        answer => answer?,
    };
    let over = (header::SET_COOKIE, sign_in_cookie("", 0, oidc.is_https()));
    if sign_in.again {
        prove(&state, &headers, &user).await?;
        let page = render(&AgainPage { page: Page::of_nobody("You have signed in again") })?;
        return Ok(([over], page).into_response());
    }
    let token = random_token();
    let session = NewSession {
        token_hash: token_hash(&token),
        client,
        instead_of: token_of(&state, &headers).map(token_hash),
    };
    let name = state.store.begin_provided_session(user, session).await?;
    let name = name.ok_or(OidcFault::Refused("every name of the user is another user's"))?;
    tracing::info!(user = name.as_str(), "console: a user signed in by OpenID Connect");
    let cookies = AppendHeaders([(header::SET_COOKIE, set_cookie(&token, oidc.is_https())), over]);
    Ok((cookies, Redirect::to(&sign_in.next)).into_response())
}

/// Notes in the session of this browser that its user has proved who they are.
async fn prove(state: &AppState, headers: &HeaderMap, user: &ProvidedUser) -> Result<(), ConsoleError> {
    let session = signed_in(state, headers, None).await?.ok_or(ConsoleError::SIGN_IN_FIRST)?;
    // The provider may take a session of its own for a proof, although it was asked not to.
    let is_fresh = user.authenticated.is_some_and(|ago| ago < state.config.console.reauth_after);
    if !is_fresh {
        return Err(OidcFault::Refused("the user did not prove who they are just now").into());
    }
    if !state.store.prove_provided_session(user, session.token_hash).await? {
        return Err(OidcFault::Refused("the session is that of another user or role").into());
    }
    Ok(())
}

fn configured(provider: Provider) -> Result<Arc<SignInProvider>, ConsoleError> {
    provider.ok_or_else(|| ConsoleError::not_found("No OpenID Connect provider signs users in here."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_under_way_fits_into_a_cookie() {
        let next = "/console/log?app_id=a1&note=%3Cb%3E;,\"";
        for again in [false, true] {
            let kept = SignIn { secret: SignInSecret("s1".to_owned()), next: next.to_owned(), again }.kept();
            assert!(kept.bytes().all(|byte| byte.is_ascii_graphic() && !b"\",;\\".contains(&byte)), "{kept}");
            let read = SignIn::read(&kept).unwrap();
            assert_eq!((read.secret.0.as_str(), read.next.as_str(), read.again), ("s1", next, again));
        }
        assert_eq!(SignIn::read("secret=s1&next=https%3A%2F%2Fevil.example").unwrap().next, "/console");
        assert!(SignIn::read("").is_none() && SignIn::read("secret=&next=%2Fconsole").is_none());
    }

    #[test]
    fn what_the_provider_sees_does_not_show_the_secret() {
        let (one, other) = (SignInSecret("s1".to_owned()), SignInSecret("s2".to_owned()));
        assert!(one.state() != other.state() && one.state().len() == 64 && one.state() == one.state());
    }
}
