//! The books (contract 13): the statement of a period, the bill, and the comparison with the books of others.

mod bill;
mod book_column;
mod closed;
mod comparison;
mod completeness;
mod payment_books;
mod reconcile;
mod statement;
mod their_file;

pub use bill::{
    Bill, BillColumn, BillFormat, BillLine, BillPiece, BillSums, BillText, SheetStyle, SheetWords,
    WORKBOOK_ENTRIES_MAX, revenue_headings,
};
pub use book_column::{BookColumn, BookNumber, BookRows, ComparedBooks, ComparedBy, FileColumn};
pub use closed::ClosedPeriod;
pub(crate) use closed::compare_closed;
pub use comparison::{Comparison, ComparisonQuery};
pub(crate) use completeness::{COMPLETE_AFTER, Completeness, await_writers, completeness};
pub use payment_books::{MissingPayment, PaymentBooks, PaymentColumn};
pub use reconcile::{Difference, ReconcileError, Reconciled};
pub use statement::{Credits, Flows, Statement};
pub use their_file::{FileFault, FileRefusal, TheirFile, TheirLine};
