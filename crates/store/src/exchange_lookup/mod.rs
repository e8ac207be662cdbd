//! Look-ups of exchanges for people: recorded exchanges and what their repeats get, refused changes, and counts of
//! replays (contract 8.4 and 13.1). Nothing that moves money reads them.

mod counts;
mod record;
mod refusals;
mod replays;

pub use record::{
    BizNoUse, CancelRecord, ExchangeRecord, NumberRecord, ReferenceMatch, RefusedNumber, ReplayCount,
};
pub(super) use refusals::Refusals;
pub use refusals::{RefusalRecord, RefusalSum, RefusedChange, RefusedMatch};
pub(super) use replays::Replays;
