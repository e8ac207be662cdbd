//! Sales of the apps (contract 13.2): lists of exchanges, presents and cancels, and sums of revenue.

mod csv;
mod list;
mod payers;
mod revenue;
mod roll_up;
mod time_groups;

pub use list::{ListedKind, SaleCursor, SaleFilter, SaleKey, SaleRow, SalesPage, Zone};
pub use revenue::{
    ItemFilter, REPORT_ENTRIES_MAX, REVENUE_ROWS_MAX, RevenueFilter, RevenueGroup, RevenueQuery,
    RevenueReport, RevenueRow, RevenueSums,
};
pub use roll_up::{RollUpCheck, RollUpDifference, SalesOfHours};
pub use time_groups::named as time_groups;
