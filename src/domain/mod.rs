//! What Minitill is about: identifiers, money, signatures, order rules and pictures.
//! Nothing here does input or output, reads a clock or knows the database or HTTP.

pub mod audit;
pub mod changes;
pub mod console_user;
pub mod exchange;
pub mod fields;
pub mod gcra;
pub mod ids;
pub mod image;
pub mod ledger;
pub mod moment;
pub mod once;
pub mod operator;
pub mod order;
pub mod order_center;
pub mod product_info;
pub mod record_set;
pub mod signature;
