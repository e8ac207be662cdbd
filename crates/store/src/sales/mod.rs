//! Sales of the apps (contract 13.2): lists of exchanges, presents and cancels, and sums of revenue.

mod csv;
mod list;
mod revenue;
mod roll_up;

pub use list::{ListedKind, SaleCursor, SaleFilter, SaleKey, SaleRow, SalesPage, Zone};
pub use revenue::{REVENUE_ROWS_MAX, RevenueGroup, RevenueQuery, RevenueReport, RevenueRow, RevenueSums};
pub use roll_up::{RollUpCheck, RollUpDifference, SalesOfHours};
