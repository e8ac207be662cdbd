//! Rules of the repository itself: comments and pages name things that exist, and the arrows between
//! modules go one way. Pages keep their length, and no dependency compiles twice.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod arrows;
mod compatibility;
mod contract;
mod declared;
mod features;
mod map;
mod names;
mod pages;
mod sources;
#[path = "../../xtask/src/surface.rs"]
mod surface;
mod times;
mod translations;
mod words;
