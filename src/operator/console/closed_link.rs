//! The address of the page of a closed month (contract 8.6.32).

use domain::fields::Fields;

use super::request::address;

/// Where the statement of a period is shown.
pub(super) const STATEMENT_PATH: &str = "/console/reports/statement";

/// The address of the page of a closed month.
pub(super) fn closed_path(app_id: &str, month: &str) -> String {
    address(STATEMENT_PATH, &Fields::default(), &[("app_id", app_id), ("month", month)])
}
