//! Work on pictures: small copies and hashes, the operator's judge, and the floor of free disk for new ones.

pub(crate) mod disk_space;
pub mod judge;
pub mod small_copies;
