//! Minitill: a self-hosted till for mini-games and mini-programs.
//!
//! This package is the service. What it is built of are the crates below it: `domain` (the rules),
//! `store` (PostgreSQL), `pictures`, `guarded-fetch`, `http-server`, `private-postgres` and
//! `telemetry`. ARCHITECTURE.md has the map.
//!
//! - [`cli`] is the command line, one file a command.
//! - [`jobs`] is the table of what a server does by itself.
//! - [`public`] is the public listener: the route table, the extractors, authentication, and one
//!   file for each endpoint.
//! - [`operator`] is the operator's listener: health, metrics, console and admin API.
//! - [`openapi`] describes both APIs, as documents and as pages.
//! - [`state`] is what the handlers share, made of [`config`], [`metrics`] and the rooms below.
//! - [`http`] has what both listeners share: bodies, request ids, refusals and their texts, rate limits.
//! - [`images`] works on pictures: small copies, the operator's judge, the floor of free disk.
//! - [`notify`] sends events to the servers of apps.
//! - [`health`] tells each minute how this instance is.
//! - [`feed_watch`] tells held polls of the feed what is new.
//! - [`slow_reports`] makes reports for which pages of the console wait.
//! - [`sandbox_server`] is what a sandbox server has besides: a clock that moves, and resets.
//! - [`diagnosis`] looks for the mistake behind a wrong signature, apart from payments.

pub mod cli;
pub mod config;
pub mod diagnosis;
pub mod feed_watch;
pub mod health;
pub mod http;
pub mod images;
pub mod jobs;
pub mod metrics;
pub mod notify;
pub mod openapi;
pub mod operator;
pub mod public;
pub mod sandbox_server;
pub mod slow_reports;
pub mod state;

pub(crate) use operator::console::i18n::{self, t, tc, word};
