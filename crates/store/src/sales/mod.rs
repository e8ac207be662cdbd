//! What the apps have sold (contract 13.2): lists of exchanges, presents and cancels, and sums of revenue.

mod list;

pub use list::{ListedKind, SaleCursor, SaleFilter, SaleKey, SaleRow, SalesPage, Zone};
