//! Rules of the repository itself: references to the contract lead somewhere, the arrows between
//! modules go one way, and pages keep their length.

mod arrows;
mod contract;
mod pages;
mod sources;
