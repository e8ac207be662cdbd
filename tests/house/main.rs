//! Rules of the repository itself: what pages and comments name is there, the arrows between modules go
//! one way, and pages keep their length.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod arrows;
mod contract;
mod declared;
mod map;
mod names;
mod pages;
mod sources;
mod translations;
mod words;
