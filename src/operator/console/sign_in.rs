//! Sign-in and sign-out.

use std::num::NonZero;
use std::sync::LazyLock;
use std::thread::available_parallelism;
use std::time::Duration;

use askama::Template;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse as _, Redirect};
use axum::routing::{get, post};
use domain::console_user::{ConsoleUserName, PASSWORD_BYTES_MAX};
use store::StoreError;
use store::secrets::{PasswordHash, random_token, token_hash};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};

use super::error::ConsoleError;
use super::page::{Page, Section, render};
use super::route::{Access, Route};
use super::session::{came_by_https, clear_cookies, set_cookie};
use super::visit::{Answer, Visit, read_fields, text};
use crate::state::AppState;

pub(super) const ROUTES: &[Route] = &[
    Route { method: "GET", path: "/console/sign-in", access: Access::Anyone, handler: || get(page) },
    Route { method: "POST", path: "/console/sign-in", access: Access::Anyone, handler: || post(sign_in) },
    Route { method: "POST", path: "/console/sign-out", access: Access::Viewer, handler: || post(sign_out) },
];

/// Largest form of a sign-in in bytes: name, password and a path, with each byte encoded as three.
const FORM_BYTES_MAX: usize = 8 * 1024;
/// How long a sign-in waits for a permit.
const PERMIT_PATIENCE: Duration = Duration::from_secs(5);

/// The answer to a failed attempt comes after a multiple of this time. It is longer than the comparison and
/// the write to the database, so the time does not show whether the name exists.
const FAILURE_TAKES: Duration = Duration::from_millis(300);

/// Limits the password comparisons that run at once: each takes 19 MiB and a core.
static PERMITS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new((available_parallelism().map_or(1, NonZero::get) / 2).max(1)));

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    page: Page<'a>,
    next: &'a str,
    name: &'a str,
    has_failed: bool,
    /// Whether the user followed a link of another site: then the browser does not send the cookie.
    from_elsewhere: bool,
}

async fn page(State(state): State<AppState>, headers: HeaderMap, request: Request) -> Answer {
    let from_elsewhere = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    let fields = read_fields(&state, request, FORM_BYTES_MAX).await?;
    let next = where_to(text(&fields, "next"));
    render(&SignInPage {
        page: Page::of_nobody("Sign in"),
        next,
        name: "",
        has_failed: false,
        from_elsewhere,
    })
}

async fn sign_in(State(state): State<AppState>, headers: HeaderMap, request: Request) -> Answer {
    let fields = read_fields(&state, request, FORM_BYTES_MAX).await?;
    // Phones write the first letter as a capital.
    let (next, name) = (where_to(text(&fields, "next")), &text(&fields, "name").to_ascii_lowercase());
    // A password counts exactly as it was typed.
    let password = fields.text("password").unwrap_or_default().to_owned();
    let token = match ConsoleUserName::parse(name) {
        Ok(name) if password.len() <= PASSWORD_BYTES_MAX => begin_session(&state, &name, password).await?,
        Ok(_) | Err(_) => None,
    };
    let Some(token) = token else {
        let page = Page::of_nobody("Sign in");
        let page = render(&SignInPage { page, next, name, has_failed: true, from_elsewhere: false })?;
        return Ok((StatusCode::FORBIDDEN, page).into_response());
    };
    let cookie = set_cookie(&token, came_by_https(&state, &headers));
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(next)).into_response())
}

async fn sign_out(visit: Visit) -> Answer {
    visit.state.store.end_console_session(visit.user.token_hash).await?;
    let cleared = AppendHeaders(clear_cookies().map(|cookie| (header::SET_COOKIE, cookie)));
    Ok((cleared, Redirect::to("/console/sign-in")).into_response())
}

/// The secret of a new session, if the password matches. Answer and time are the same for an unknown name,
/// a wrong password and a locked name.
async fn begin_session(
    state: &AppState,
    name: &ConsoleUserName,
    password: String,
) -> Result<Option<String>, ConsoleError> {
    // This comes before the attempt is counted: without a permit there is no attempt.
    let permit = timeout(PERMIT_PATIENCE, PERMITS.acquire()).await;
    let permit = permit.ok().and_then(Result::ok).ok_or(ConsoleError::BUSY)?;
    let started = Instant::now();
    let attempt = state.store.attempt_sign_in(name).await?;
    let kept = attempt.as_ref().map_or_else(PasswordHash::of_nobody, |attempt| attempt.password.clone());
    let compared = kept.clone();
    // The permit stays with the comparison, which goes on if the client disconnects.
    let fits = tokio::task::spawn_blocking(move || {
        let fits = compared.fits(&password);
        drop(permit);
        fits
    });
    let fits = fits.await.map_err(|fault| StoreError::Internal(format!("comparing a password: {fault}")))?;
    let user = name.as_str();
    if !fits {
        if attempt.is_some_and(|attempt| attempt.is_last) {
            tracing::warn!(
                user,
                "console: the name is locked for 15 minutes after ten wrong passwords in a row"
            );
        } else {
            tracing::info!(user, "console: a sign-in failed");
        }
        let steps = started.elapsed().as_millis() / FAILURE_TAKES.as_millis() + 1;
        sleep_until(started + FAILURE_TAKES * u32::try_from(steps).unwrap_or(u32::MAX)).await;
        return Ok(None);
    }
    let token = random_token();
    let begun = state.store.begin_console_session(name, &kept, token_hash(&token)).await?;
    if begun {
        tracing::info!(user, "console: a user signed in");
    }
    Ok(begun.then_some(token))
}

/// The page to open after the sign-in: always a page of the console.
fn where_to(next: &str) -> &str {
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
