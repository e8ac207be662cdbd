//! Rules of the repository itself: references to the contract lead somewhere, the arrows between
//! modules go one way, pages keep their length, and no dependency compiles twice.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod arrows;
mod contract;
mod features;
mod pages;
mod sources;
mod translations;
