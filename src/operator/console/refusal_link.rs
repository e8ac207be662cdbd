//! The link from a count of refusals to their list (contract 13.1.11).

use domain::fields::Fields;
use domain::moment::rfc3339;
use time::OffsetDateTime;

use super::request::address;

/// The address of the list of refusals of an app from a moment on.
pub(super) fn address_of_refused(app_id: &str, since: OffsetDateTime) -> String {
    let fields = [("kind", "refused"), ("app_id", app_id), ("from", &rfc3339(since))];
    address("/console/exchanges", &Fields::default(), &fields)
}

/// The address of the list of refusals with this code, of an app or of all, in a span of time.
pub(super) fn address_of_code(
    app_id: &str,
    code: i64,
    since: Option<OffsetDateTime>,
    until: Option<OffsetDateTime>,
) -> String {
    let moment = |at: Option<OffsetDateTime>| at.map(rfc3339).unwrap_or_default();
    let (code, since, until) = (code.to_string(), moment(since), moment(until));
    let fields = [("kind", "refused"), ("app_id", app_id), ("code", &code), ("from", &since), ("to", &until)];
    address("/console/exchanges", &Fields::default(), &fields)
}
