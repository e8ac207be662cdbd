//! Requests to wallets (contract 3 and 10).
//!
//! [`NodeWriters::submit`] is the door. The writers of a process ([`crate::writer`]) carry the requests out. Each has a
//! session of its own ([`work`]) and carries out all requests that wait in one transaction. A pure function decides each of
//! them ([`batch`]) by the rows that were read ([`rows`]). [`mod@write`] has the statements that write what was decided.

mod batch;
mod citus;
mod operators;
mod postgres;
mod query;
mod rows;
mod work;
mod write;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::time::Duration;

use domain::caller::Signed;
use domain::wallet::{WalletOutcome, WalletRequest};
use sqlx::PgPool;
use tokio::time::Instant;

use crate::error::Result;
use crate::writer;

pub(super) use batch::WalletState;
pub(super) use citus::NodeWriters;
pub(super) use operators::{
    ChangeOutcome, Changed, DecidedChanges, MadeEntry, change, change_unheld, foresee, plan_by_keys,
};
pub(super) use rows::{WALLET_COLUMNS, wallets};
pub(super) use write::write_statement;

/// The writers of wallets.
pub(super) type WalletWriters = writer::Writers<Signed<WalletRequest>, WalletOutcome>;

impl NodeWriters {
    /// Hands a request to the one writer of its wallet, and waits for its outcome until `deadline`. On Citus that writer
    /// speaks to the node of the app, which is looked up through `pool` and remembered for a while from `now`.
    ///
    /// # Errors
    /// Those of [`Writers::submit`](writer::Writers::submit).
    pub(super) async fn submit(
        &self,
        request: Signed<WalletRequest>,
        (pool, now): (&PgPool, Duration),
        deadline: Instant,
    ) -> Result<WalletOutcome> {
        let (app_id, open_id) = (request.app_id().clone(), request.value().open_id.clone());
        let writers = self.of(request.app_no(), pool, now, deadline).await;
        writers.submit(&app_id, (&app_id, &open_id), request, deadline).await
    }
}
