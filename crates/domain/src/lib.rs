//! Minitill's rules: identifiers, balances, idempotent exchanges, the ledger's hash chain, signatures,
//! order rules and rate limits. Nothing here does input or output, and nothing knows the database
//! or HTTP. The one clock is [`clock`], which everything else is handed.

pub mod app;
pub mod app_settings;
pub mod audit;
pub mod body;
pub mod caller;
pub mod changes;
pub mod clock;
pub mod code;
pub mod console_user;
pub mod csv;
pub mod endpoint;
pub mod event;
pub mod examples;
pub mod fields;
pub mod gcra;
pub mod health;
pub mod idempotency;
pub mod ids;
pub mod input;
pub mod key_uses;
pub mod ledger;
pub mod login;
pub mod moment;
pub mod operation;
pub mod operator;
pub mod operator_log;
pub mod order;
pub mod order_center;
pub mod per_second;
pub mod period;
pub mod picture_store;
pub mod product_info;
pub mod quota;
pub mod receiver;
pub mod record_set;
pub mod redaction;
pub mod rights;
pub mod sandbox;
pub mod secret;
pub mod signature;
pub mod strays;
pub mod text;
pub mod wallet;
pub mod word_enum;
