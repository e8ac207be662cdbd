//! Changes of wallets in a transaction of the caller: credits, debits and cancels of operators, payments and refunds.
//! They use the same pure decision and the same statements as the writers.

#![expect(
    clippy::disallowed_methods,
    reason = "each session of a writer prepares the same statements, which checks them against the schema"
)]

use domain::ids::{AppNo, WalletNo};
use domain::ledger::CHAIN_START;
use domain::wallet::{Balances, REPLAY_HOURS, WalletOutcome, WalletRequest};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection};
use time::OffsetDateTime;

use super::batch::{Batch, Decision, Decisions, NewRow, OpenWallet, WalletState};
use super::rows::{self, LockedRows, ReadRows};
use super::write::{Columns, Items, write_statement};
use crate::engine::Engine;
use crate::error::{Result, StoreError};
use crate::wallet_no::random_wallet_no;
use crate::writer::{SessionFault, planning};

/// The outcome of changes.
pub(crate) struct Changed<T = ChangeOutcome> {
    /// In the order of the changes.
    pub(crate) outcomes: Vec<T>,
    /// The moment of their ledger entries.
    pub(crate) at: OffsetDateTime,
}

/// The outcome of a change, and its ledger entry where it was made.
pub(crate) type ChangeOutcome = (WalletOutcome, Option<MadeEntry>);

/// The ledger entry that a change has made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MadeEntry {
    /// Both purses before it.
    pub(crate) before: Balances,
    pub(crate) wallet_no: WalletNo,
    /// Number of the entry in its wallet.
    pub(crate) seq: i64,
}

/// Makes the statements of a transaction use the keys. A plan that was made for smaller tables would read all of a table
/// for each request.
pub(crate) async fn plan_by_keys(connection: &mut PgConnection, engine: Engine) -> Result<()> {
    let settings = format!("DISCARD PLANS; {}", planning(engine, "LOCAL "));
    sqlx::raw_sql(AssertSqlSafe(settings)).execute(connection).await?;
    Ok(())
}

/// Carries out changes of one app, in their order. `connection` is in a transaction that [plans by keys](plan_by_keys).
///
/// # Errors
/// `Again` when another transaction has just used a reference.
pub(crate) async fn change(
    connection: &mut PgConnection,
    engine: Engine,
    app_no: i32,
    requests: &[WalletRequest],
) -> Result<Changed> {
    let Changed { outcomes, at } = carry_out(connection, engine, app_no, requests, false).await?;
    let outcomes: Option<Vec<_>> = outcomes.into_iter().collect();
    Ok(Changed { outcomes: outcomes.ok_or(StoreError::Again)?, at })
}

/// The same without a wait for a lock. `None` stands for a change whose wallet another transaction holds.
///
/// # Errors
/// As of [`change`].
pub(crate) async fn change_unheld(
    connection: &mut PgConnection,
    engine: Engine,
    app_no: i32,
    requests: &[WalletRequest],
) -> Result<Changed<Option<ChangeOutcome>>> {
    carry_out(connection, engine, app_no, requests, true).await
}

async fn carry_out(
    connection: &mut PgConnection,
    engine: Engine,
    app_no: i32,
    requests: &[WalletRequest],
    skips_held: bool,
) -> Result<Changed<Option<ChangeOutcome>>> {
    let batch = Batch::new(requests.iter().map(|request| (AppNo(app_no), request)).collect());
    let wallets = &batch.wallets;
    let locked = sqlx::query(AssertSqlSafe(rows::lock_statement(engine, skips_held)));
    let locked = locked.bind(&wallets.app_nos).bind(&wallets.names);
    let locked = locked.fetch_all(&mut *connection).await?;
    let at = sqlx::query_scalar(rows::NOW).fetch_one(&mut *connection).await?;
    // A later statement than the lock: it sees the commit of the transaction that held the lock before.
    let recorded = recorded(connection, engine, &batch).await?;
    let mut existing = Vec::new();
    if locked.len() < wallets.names.len() {
        let query = sqlx::query(AssertSqlSafe(rows::existing_statement(engine)))
            .bind(&wallets.app_nos)
            .bind(&wallets.names);
        existing = query.fetch_all(&mut *connection).await?;
    }
    let rows = LockedRows {
        wallets: rows::wallets::<PgRow>(&locked).map_err(store_error)?,
        existing: rows::existing::<PgRow>(&existing).map_err(store_error)?,
        records: rows::records::<PgRow>(&recorded).map_err(store_error)?,
        at,
    };
    let known = ReadRows::of_locked(&batch, rows).map_err(store_error)?;
    let decided = DecidedChanges::new(batch, &known);
    if decided.has_rows() {
        let write = decided.columns().bind(sqlx::query(AssertSqlSafe(write_statement(engine, false))));
        write.execute(connection).await.map_err(|error| {
            match error.as_database_error().and_then(sqlx::error::DatabaseError::code) {
                Some(code) => store_error(SessionFault::from_code(&code, error.to_string())),
                None => error.into(),
            }
        })?;
    }
    decided.changed()
}

/// Changes of one app that are decided and not yet written.
pub(crate) struct DecidedChanges<'a> {
    batch: Batch<'a>,
    decisions: Decisions,
    at: OffsetDateTime,
}

impl<'a> DecidedChanges<'a> {
    fn new(batch: Batch<'a>, known: &ReadRows) -> Self {
        let decisions = batch.decide(&known.rows, known.at());
        Self { batch, decisions, at: known.at }
    }

    /// Decides on wallets that were read at `at` without a lock, one for each request. Each reference is new. The write
    /// fails when a wallet has changed since, or another transaction has used a reference.
    pub(crate) fn on_read(
        app_no: i32,
        requests: &'a [WalletRequest],
        wallets: &[WalletState],
        at: OffsetDateTime,
    ) -> Self {
        let batch = Batch::new(requests.iter().map(|request| (AppNo(app_no), request)).collect());
        let mut known = ReadRows { at, ..ReadRows::nothing(&batch) };
        for (place, wallet) in batch.places.iter().zip(wallets) {
            known.rows.wallets[place.wallet] = *wallet;
        }
        Self::new(batch, &known)
    }

    /// Whether there is anything to write.
    fn has_rows(&self) -> bool {
        !self.decisions.rows.is_empty()
    }

    /// The parameters of [`write_statement`].
    pub(crate) fn columns(&self) -> Columns<'_> {
        Columns::new(&self.batch, &self.decisions, self.at, Items::default())
    }

    /// What the changes are once they are written. `None` stands for one whose wallet another transaction holds.
    pub(crate) fn changed(&self) -> Result<Changed<Option<ChangeOutcome>>> {
        let mut made = vec![None; self.batch.requests.len()];
        for row in &self.decisions.rows {
            made[row.request] = MadeEntry::of(row);
        }
        let outcomes = self.decisions.verdicts.iter().zip(made).map(|(verdict, entry)| match verdict {
            Decision::Answer(outcome) => Ok(Some((outcome.clone(), entry))),
            Decision::SetAside => Ok(None),
            Decision::NeedsLock => Err(StoreError::Again),
        });
        Ok(Changed { outcomes: outcomes.collect::<Result<_>>()?, at: self.at })
    }
}

impl MadeEntry {
    /// `None` for a closed number, which has no entry.
    fn of(row: &NewRow) -> Option<Self> {
        let (seq, _) = row.entry?;
        let after = row.change.after;
        let before = (after.free() - row.change.free_change, after.charge() - row.change.charge_change);
        Some(Self { before: Balances::new(before.0, before.1).ok()?, wallet_no: row.wallet_no, seq })
    }
}

async fn recorded(connection: &mut PgConnection, engine: Engine, batch: &Batch<'_>) -> Result<Vec<PgRow>> {
    let query = sqlx::query(AssertSqlSafe(rows::records_statement(engine)))
        .bind(REPLAY_HOURS)
        .bind(&batch.numbers.app_nos)
        .bind(&batch.numbers.names);
    Ok(query.fetch_all(connection).await?)
}

/// The outcome of changes of one app, in their order, if they were made now. It locks and writes nothing, so
/// another change may come between. `purses` takes a player and both purses as they are, `None` for a player whom the
/// app does not know. It returns the player and the purses for the decision. `connection` is in a transaction.
pub(crate) async fn foresee(
    connection: &mut PgConnection,
    engine: Engine,
    app_no: i32,
    requests: &[WalletRequest],
    purses: impl Fn(&str, Option<Balances>) -> Option<Balances>,
) -> Result<Vec<ChangeOutcome>> {
    plan_by_keys(connection, engine).await?;
    let batch = Batch::new(requests.iter().map(|request| (AppNo(app_no), request)).collect());
    let seen = sqlx::query(AssertSqlSafe(rows::look_statement(engine)));
    let seen = seen.bind(&batch.wallets.app_nos).bind(&batch.wallets.names);
    let seen = seen.fetch_all(&mut *connection).await?;
    let at = sqlx::query_scalar(rows::NOW).fetch_one(&mut *connection).await?;
    let recorded = recorded(connection, engine, &batch).await?;
    let rows = LockedRows {
        wallets: rows::wallets::<PgRow>(&seen).map_err(store_error)?,
        existing: Vec::new(),
        records: rows::records::<PgRow>(&recorded).map_err(store_error)?,
        at,
    };
    let mut known = ReadRows::of_locked(&batch, rows).map_err(store_error)?;
    for (state, open_id) in known.rows.wallets.iter_mut().zip(&batch.wallets.names) {
        match state {
            WalletState::Open(wallet) => {
                wallet.balances = purses(open_id, Some(wallet.balances)).unwrap_or(wallet.balances);
            }
            WalletState::Unknown => {
                let made = |balances| OpenWallet {
                    wallet_no: WalletNo(random_wallet_no()),
                    balances,
                    entry_count: 0,
                    chain_hash: CHAIN_START,
                    is_frozen: false,
                };
                *state = purses(open_id, None).map_or(WalletState::Unknown, |of| WalletState::Open(made(of)));
            }
            WalletState::Held(_) => {}
        }
    }
    let outcomes = DecidedChanges::new(batch, &known).changed()?.outcomes;
    outcomes.into_iter().collect::<Option<_>>().ok_or(StoreError::Again)
}

fn store_error(fault: SessionFault) -> StoreError {
    match fault {
        SessionFault::Again | SessionFault::Blocked => StoreError::Again,
        SessionFault::Lost(cause) => StoreError::unavailable(cause),
        SessionFault::Other(error) => error,
    }
}
