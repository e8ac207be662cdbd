//! Minitill: a self-hosted till for mini-games and mini-programs.
//!
//! A map of the crate, from the wire inwards:
//!
//! - [`server`] accepts connections, [`router`] holds every route once, [`handlers`] has one file
//!   for each endpoint, and [`auth`] decides who calls.
//! - [`domain`] is what Minitill is about: identifiers, the deduction, the signature, order rules
//!   and picture verdicts. It does no input or output.
//! - [`store`] is the only home of SQL. Money goes out through one door, `Store::submit`.
//! - [`objects`] holds the bytes of pictures that are not in the database, in a folder or in S3.
//! - [`fetch`] gets pictures by URL and keeps strangers out of the network; [`image_judge`] asks the
//!   operator's own judge about each.
//! - [`pictures`] makes small copies of pictures that are kept.
//! - [`postgres`] is the private PostgreSQL that `minitill serve` owns when no URL is given.
//! - [`cli`] is the command line, one file a command; [`ops`] is the operator's listener.
//! - [`openapi`] describes the public API, as a document and as a page, out of all these.
//! - [`metrics`] is what the server counts and measures, for Prometheus.
//! - [`traces`] follows requests, for an OpenTelemetry collector.
//! - [`config`], [`clock`], [`secrets`], [`error`], [`rate_limit`] and [`shares`] are what these
//!   share, and [`till`] is where they meet.

/// Requests are many small pieces of memory; see docs/performance.md for what this gives.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub mod auth;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod error;
pub mod fetch;
pub mod handlers;
pub mod image_judge;
pub mod metrics;
pub mod objects;
pub mod openapi;
pub mod ops;
pub mod pictures;
pub mod postgres;
pub mod rate_limit;
pub mod router;
pub mod secrets;
pub mod server;
pub mod shares;
pub mod store;
pub mod till;
pub mod traces;
