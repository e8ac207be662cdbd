//! What the apps have sold (contract 13.2): lists of exchanges, presents and cancels, and sums of revenue.

mod list;
mod revenue;

pub use list::{ListedKind, SaleCursor, SaleFilter, SaleKey, SaleRow, SalesPage, Zone};
pub use revenue::{
    REVENUE_ROWS_MAX, RevenueError, RevenueGroup, RevenueQuery, RevenueRefusal, RevenueReport, RevenueRow,
    RevenueSums,
};
