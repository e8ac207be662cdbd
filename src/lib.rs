//! Minitill: a self-hosted till for mini-games and mini-programs.
//!
//! This package is the service. What it is built of are the crates below it: `domain` (the rules),
//! `store` (PostgreSQL), `pictures`, `guarded-fetch`, `http-server`, `private-postgres` and
//! `telemetry`. ARCHITECTURE.md has the map.
//!
//! - [`cli`] is the command line, one file a command.
//! - [`public`] is the public listener: the route table, the extractors, authentication, and one
//!   file for each endpoint.
//! - [`operator`] is the operator's listener: health, metrics, console and admin API.
//! - [`openapi`] describes both APIs, as documents and as pages.
//! - [`state`] is what the handlers share, made of [`config`], [`metrics`], [`rate_limit`], [`refusal_log`]
//!   and `disk_space`.
//! - [`body`] reads bodies within limits; [`request_id`] names requests; `client_address` finds who
//!   sent one.
//! - [`error`] is the code table, and the type that every refusal has; [`language`] has their texts in other languages.
//! - [`notify`] sends events to the servers of apps.
//! - `outgoing` has what requests to other servers share; [`image_judge`] asks the operator's own
//!   judge about a picture; [`oidc`] has an OpenID Connect provider sign users in; [`small_copies`]
//!   makes small copies of pictures.

pub mod body;
pub mod cli;
mod client_address;
pub mod config;
mod disk_space;
pub mod error;
pub mod health;
pub mod image_judge;
pub mod language;
pub mod metrics;
pub mod notify;
pub mod oidc;
pub mod openapi;
pub mod operator;
mod outgoing;
pub mod public;
pub mod rate_limit;
pub mod refusal_log;
pub mod request_id;
pub mod small_copies;
pub mod state;

pub(crate) use operator::console::words::{self, t, tc, word};
