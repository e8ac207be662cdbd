//! Rules of the repository itself: references to the contract lead somewhere, the arrows between
//! modules go one way, and pages keep their length.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod arrows;
mod contract;
mod pages;
mod sources;
mod times;
mod translations;
