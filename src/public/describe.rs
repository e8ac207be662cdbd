//! Building blocks for the descriptions of public calls: credentials, kinds of bodies, and wrong values.

use domain::fields::{Expected, FieldError};
use domain::ids::AppId;
use schemars::JsonSchema;

use crate::http::refusal::{Code, Refusal};
use crate::openapi::{ACCESS_TOKEN, APP_ID, Field};

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

/// The answer of the parser of a field to a value.
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

/// The kinds of a body that may be any.
pub(super) const ANY_KIND: &[&str] =
    &["application/x-www-form-urlencoded", "application/json", "multipart/form-data"];
