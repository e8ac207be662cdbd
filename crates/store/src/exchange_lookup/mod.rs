//! Look-ups of exchanges for people: recorded exchanges and what their repeats get, refused changes, and counts of
//! replays (contract 8.4 and 13.1). Nothing that moves money reads them.

mod record;
mod refusal_list;
mod refusals;
mod replays;

pub use record::{
    BizNoUse, CancelRecord, ExchangeRecord, NumberRecord, ReferenceMatch, RefusedNumber, ReplayCount,
};
pub use refusal_list::{RefusalCursor, RefusalFilter, RefusalRow};
pub use refusals::{RefusalRecord, RefusalSum, RefusedMatch};
