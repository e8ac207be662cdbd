//! Refusals of reports about the books of an app: revenue (contract 13.2.6) and statements (contract 13.3). A report
//! changes nothing, and its query is a type of the store.

use std::fmt::Display;

use time::OffsetDateTime;

use super::{OperationRefusal, RefusalKind};
use crate::text;
use crate::text::{Text, TextMoment};

/// More entries may come into the period (contract 13.3.7). `why` says until when.
#[must_use]
pub const fn not_closed(field: &'static str, why: Text) -> OperationRefusal {
    OperationRefusal::new(RefusalKind::Invalid(field), why)
}

/// The statement of the period does not tie to the ledger, so it is not closed (contract 13.3.10).
#[must_use]
pub fn does_not_tie(field: &'static str, period: impl Display) -> OperationRefusal {
    let text = text!("the statement of {period} does not tie to the ledger", period);
    OperationRefusal::new(RefusalKind::Invalid(field), text)
}

/// A figure of the period needs more than 64 bits.
#[must_use]
pub fn sums_too_large(field: &'static str, period: impl Display) -> OperationRefusal {
    let text = text!("the sums of {period} need more than 64 bits", period);
    OperationRefusal::new(RefusalKind::Invalid(field), text)
}

/// The report is by platform, and would read more exchanges one by one than it may (contract 13.2.7). `field` asks for
/// platforms. Sums have them from `since` on.
#[must_use]
pub fn platforms_not_summed(
    field: &'static str,
    since: OffsetDateTime,
    max: impl Display,
) -> OperationRefusal {
    let text = text!(
        "platforms are summed from {since} on, and more than {max} exchanges are before it; expected a later beginning",
        since = TextMoment(since),
        max
    );
    OperationRefusal::new(RefusalKind::Invalid(field), text)
}

refusals! {
    /// The first close stands, and it was of other limits.
    closed_in_another_zone(month, time_zone): Conflict,
        text!("{month} was closed in the time zone {time_zone}", month, time_zone);
    /// The span ends before it begins.
    empty_span(): Invalid("until"), text!("expected a moment after since");
    /// The report would have more rows than it may have.
    too_many_rows(max): Invalid("group"),
        text!("expected groups that make at most {max} rows in this span", max);
    /// A workbook would have more entries than it may have.
    too_many_entries(max): Invalid("format"),
        text!("expected a period with at most {max} entries for a workbook; CSV has no limit", max);
}
