//! Tests of the whole service on a real PostgreSQL that they start by themselves. One file an
//! endpoint; each test names the rule of the contract that it holds.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the tables as an operator would, with plain SQL"
)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admin;
mod app_faces;
mod app_settings;
mod archive;
mod audit;
mod audit_states;
mod backup;
mod bodies;
mod callbacks;
mod cli;
mod commands;
mod console;
mod crash;
mod credentials;
mod crowds;
mod database_away;
mod exchange;
mod exchange_assumptions;
mod exchange_batches;
mod exchange_races;
mod freezes;
mod front;
mod health;
mod hostile_texts;
mod hostile_urls;
mod image;
mod image_judge;
mod image_search;
mod image_stores;
mod image_upload;
mod jobs;
mod key_uses;
mod login;
mod lookups;
mod master_key;
mod metrics;
mod next_steps;
mod notifications;
mod openapi;
mod operations;
mod operator;
mod operator_changes;
mod operator_log;
mod operator_log_chain;
mod order_report;
mod order_report_races;
mod order_search;
mod player_erasure;
mod player_export;
mod private_postgres;
mod quotas;
mod rate_limit;
mod readers;
mod refunds;
mod refusal_language;
mod refusals;
mod release_data;
mod reports;
mod roles;
mod routes;
mod sales;
mod sandbox;
mod sandbox_fidelity;
mod sandbox_server;
mod service_manager;
mod settlement_files;
mod signature_help;
mod snippets;
mod store_bodies;
mod token;
mod topup_histories;
mod topup_reports;
mod topups;
mod traces;
mod unused_images;
mod upload_floods;
mod wallet_call_races;
mod wallet_calls;
mod wire;
mod workbook;

pub(crate) use testkit::{self as support, game};
