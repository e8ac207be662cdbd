//! The page of an error: what went wrong, and what the user can do.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use store::StoreError;

use super::error::ConsoleError;
use super::page::{Page, Section, render_as};
use super::session::SignedIn;

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    page: Page<'a>,
    what: String,
    what_next: &'static str,
}

/// The page of an error, or a redirect to the sign-in.
pub(super) fn error_page(error: &ConsoleError, signed_in: Option<&SignedIn>) -> Response {
    if let ConsoleError::SignInFirst(Some(next)) = error {
        return Redirect::to(&sign_in_path(next)).into_response();
    }
    let (status, title, what, what_next) = words(error);
    let page = Page { title: title.to_owned(), section: None, signed_in, notice: None };
    render_as(status, &ErrorPage { page, what, what_next })
}

/// The page for a method that the address does not accept.
pub(super) fn wrong_method() -> Response {
    let page = Page::of_nobody("Method not allowed");
    let what = "This address does not accept this kind of request.".to_owned();
    let what_next = "Go back to the console and use its links and forms.";
    render_as(StatusCode::METHOD_NOT_ALLOWED, &ErrorPage { page, what, what_next })
}

/// The sign-in, with the page to open afterwards.
fn sign_in_path(next: &str) -> String {
    if next == Section::Overview.path() {
        return "/console/sign-in".to_owned();
    }
    let next = percent_encoding::utf8_percent_encode(next, percent_encoding::NON_ALPHANUMERIC);
    format!("/console/sign-in?next={next}")
}

/// Status, title, what went wrong, and what the user can do.
fn words(error: &ConsoleError) -> (StatusCode, &'static str, String, &'static str) {
    match error {
        ConsoleError::NotFound(what) => (
            StatusCode::NOT_FOUND,
            "Not found",
            what.clone(),
            "Check the spelling, or search in that part of the console.",
        ),
        ConsoleError::BadRequest(what) => (
            StatusCode::BAD_REQUEST,
            "Invalid input",
            what.clone(),
            "Nothing was changed. Go back and correct the input.",
        ),
        ConsoleError::SignInFirst(_) => (
            StatusCode::FORBIDDEN,
            "Sign in first",
            "You are not signed in, or your session has ended.".to_owned(),
            "Nothing was changed. Sign in and send the form again.",
        ),
        ConsoleError::AdminsOnly => (
            StatusCode::FORBIDDEN,
            "Admins only",
            "A viewer cannot change anything.".to_owned(),
            "Nothing was changed. Ask an admin to make the change. \
             To change your role, run minitill console-user set-role on the server.",
        ),
        ConsoleError::Foreign => (
            StatusCode::FORBIDDEN,
            "Not from this console",
            "No page of this console sent this form, or the form is from an earlier session.".to_owned(),
            "Nothing was changed. Open the page again and send its form from there. \
             A proxy in front must forward the Host header.",
        ),
        ConsoleError::Unreadable(status, what) => {
            (*status, "Unreadable request", format!("{what}."), "Nothing was changed. Try again.")
        }
        ConsoleError::Busy => (
            StatusCode::SERVICE_UNAVAILABLE,
            "Too busy",
            "Too many people are signing in at the moment.".to_owned(),
            "Wait a few seconds and try again.",
        ),
        ConsoleError::Store(error) => store_words(error),
    }
}

fn store_words(error: &StoreError) -> (StatusCode, &'static str, String, &'static str) {
    match error {
        StoreError::Unavailable(_)
        | StoreError::PicturesUnavailable(_)
        | StoreError::Overloaded
        | StoreError::Again => {
            tracing::warn!(%error, "console: a page is not available");
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "Not available",
                "The database or the picture store does not answer.".to_owned(),
                "Try again in a moment. The server log and /readyz have details. \
                 It is safe to send a change again.",
            )
        }
        StoreError::Repeated | StoreError::Internal(_) => {
            tracing::error!(%error, "console: a page failed");
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                "Server error",
                "The server has a fault.".to_owned(),
                "The server log has the cause, at this time.",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_sign_in_has_the_page_to_open_afterwards() {
        assert_eq!(sign_in_path("/console"), "/console/sign-in");
        assert_eq!(sign_in_path("/console/log?a=b&c"), "/console/sign-in?next=%2Fconsole%2Flog%3Fa%3Db%26c");
    }
}
