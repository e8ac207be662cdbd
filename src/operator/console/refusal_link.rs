//! The link from a count of refusals to their list (contract 13.1.11).

use domain::code::Code;
use domain::fields::Fields;
use domain::moment::rfc3339;
use time::OffsetDateTime;

use super::request::address;

/// The address of the list of refusals of an app from a moment on.
pub(super) fn address_of_refused(app_id: &str, since: OffsetDateTime) -> String {
    address_of_list(app_id, "", Some(since), None)
}

/// Whether the list can have refusals with this code. A request without a right signature leaves nothing.
pub(super) fn is_listed(code: i64) -> bool {
    code != i64::from(Code::BadSignature.number())
}

/// The address of the list of refusals with this code, of an app or of all, in a span of time.
pub(super) fn address_of_code(
    app_id: &str,
    code: i64,
    since: Option<OffsetDateTime>,
    until: Option<OffsetDateTime>,
) -> String {
    address_of_list(app_id, &code.to_string(), since, until)
}

/// An empty text stands for all apps, and for all codes.
fn address_of_list(
    app_id: &str,
    code: &str,
    since: Option<OffsetDateTime>,
    until: Option<OffsetDateTime>,
) -> String {
    let moment = |at: Option<OffsetDateTime>| at.map(rfc3339).unwrap_or_default();
    let (since, until) = (moment(since), moment(until));
    let fields = [("kind", "refused"), ("app_id", app_id), ("code", code), ("from", &since), ("to", &until)];
    address("/console/exchanges", &Fields::default(), &fields)
}
