//! What the descriptions of public calls share: credentials, and what every call of a kind can answer.

use std::time::Duration;

use domain::endpoint::Endpoint;
use domain::fields::{Expected, FieldError};
use domain::ids::AppId;
use schemars::JsonSchema;
use store::StoreError;

use super::auth::example;
use super::image_upload::UPLOAD_BODY_BYTES_MAX;
use super::router::{Authentication, Route};
use crate::body::{too_large, too_slow};
use crate::config::Config;
use crate::error::{Code, Refusal};
use crate::openapi::{ACCESS_TOKEN, APP_ID, Example, Field};

/// Any text that is not empty.
#[derive(JsonSchema)]
#[schemars(inline)]
pub(super) struct SomeText(
    #[expect(dead_code, reason = "only its schema is used")]
    #[schemars(length(min = 1))]
    String,
);

/// `app_id` and `access_token` in the query.
pub(super) fn credentials(required: bool) -> [Field; 2] {
    let either = if required { "" } else { " Here or in the body." };
    let app_id = format!("The app, {}.{either}", AppId::EXPECTED);
    let token = format!("A token of the app from `/oauth2/access_token`.{either}");
    let fields = [
        Field::required::<AppId>("app_id", APP_ID, app_id),
        Field::required::<SomeText>("access_token", ACCESS_TOKEN, token),
    ];
    fields.map(|field| Field { required, ..field })
}

/// What the parser of a field answers to a value.
///
/// # Panics
/// When the parser takes it: then it is no example of a refusal.
pub(super) fn wrong_value<T: std::fmt::Debug>(
    code: Code,
    name: &'static str,
    value: &str,
    parse: impl FnOnce(&str) -> Result<T, Expected>,
) -> Refusal {
    let Expected(expected) = parse(value).expect_err("the example is refused");
    Refusal::field(code, &FieldError::malformed(name, expected, value))
}

/// What every call of such a route can answer.
pub(super) fn general(route: &Route, config: &Config) -> Vec<Example<Refusal>> {
    let mut refusals = vec![
        Example::new("system_error", "A fault of the service.", Refusal::internal("")),
        Example::new(
            "unavailable",
            "The database is not available, or it is overloaded. It is safe to repeat, as `Retry-After` says.",
            StoreError::Unavailable(String::new()),
        ),
    ];
    if route.authentication != Authentication::Path {
        let often = Refusal::rate_limited(Duration::from_secs(1));
        let words = "The app calls too often; wait as `Retry-After` says.";
        refusals.extend([example::app_suspended(), Example::new("rate_limited", words, often)]);
    }
    if ![Authentication::Path, Authentication::AppSecret].contains(&route.authentication) {
        refusals.extend([
            example::app_id_missing(),
            example::access_token_missing(),
            example::unknown_app(),
            example::access_token_unknown(),
            example::access_token_expired(),
        ]);
    }
    if route.method == "POST" {
        let is_upload = route.endpoint == Endpoint::UploadWithFile;
        let bytes_max = if is_upload { UPLOAD_BODY_BYTES_MAX } else { config.http.body_bytes_max };
        let slow = too_slow(config.http.body_timeout);
        refusals.extend([
            Example::new("body_too_slow", "The body did not come in time.", slow),
            Example::new("body_too_large", "The body is larger than accepted.", too_large(bytes_max)),
        ]);
    }
    refusals
}

/// The kinds of a body that may be any.
pub(super) const ANY_KIND: &[&str] =
    &["application/x-www-form-urlencoded", "application/json", "multipart/form-data"];
