//! The erasure of a player (contract 13.7): a pseudonym takes the place of the `open_id` everywhere, and what tells of the
//! person goes. The money stays: entries, their numbers and their hashes are as they were.
//!
//! All of it is one transaction. A writer that has read the wallet before it finds another player in it, and reads
//! again: then there is no such player. What changes no wallet, such as a report of an order, may still be written by a
//! transaction that began before. Such transactions are waited for, and what they wrote is erased by a second one. A
//! third one does the same to refusals, which a process writes about a second after it has noted them. The
//! search for what is left comes after them, when nobody waits for their locks.

mod archived;
mod left;
mod texts;

use std::collections::BTreeMap;
use std::time::Duration;

use domain::ids::{AppId, OpenId};
use domain::operation::player::{ErasedPlayer, archive_moving, nothing_recorded};
use domain::operator::Operator;
use serde_json::json;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::app_number::number_if_any;
use crate::archive::{ArchiveState, lock_newest, newest};
use crate::books::await_writers;
use crate::change_request::{log_refused, refuse_requests_of};
use crate::error::{OperationError, Result, StoreError};
use crate::operator_log::{LogLine, OperatorAction, OperatorLogLine};
use crate::pseudonym::{new_pseudonym, scrub_entries};
use crate::store::Store;
use crate::topup::orders_of_wallet;

use texts::{
    Names, replace_in_deliveries, replace_in_items, replace_in_ledger, replace_in_log, replace_in_reasons,
    replace_in_refusals,
};

/// How long a batch takes at most from its look at a wallet to its first lock, but for a machine that stands still.
const BATCH_TIME: Duration = Duration::from_millis(250);
/// How long a process takes at most to write the refusals that it has noted. It writes them once a second.
const REFUSALS_TIME: Duration = Duration::from_millis(1_500);

impl Store {
    /// The line of the erasure that gave a player this pseudonym: who erased the player, and when.
    pub async fn erasure_of(&self, app_id: &AppId, pseudonym: &OpenId) -> Result<Option<OperatorLogLine>> {
        if !pseudonym.is_pseudonym() {
            return Ok(None);
        }
        self.newest_line(OperatorAction::PlayerErase, app_id, pseudonym).await
    }

    /// Erases a player. What calls of this player do afterwards is recorded anew.
    pub async fn erase_player(
        &self,
        operator: &Operator,
        app_id: &AppId,
        open_id: &OpenId,
    ) -> Result<ErasedPlayer, OperationError> {
        let (store, operator) = (self.clone(), operator.clone());
        let (app_id, open_id) = (app_id.clone(), open_id.clone());
        // Nobody drops it between its transactions.
        let task = self.runtime.spawn(async move {
            let mut erased = store.erase_known(&operator, &app_id, &open_id).await?;
            // The erasure stands. It must not seem to have failed.
            let pseudonym = &erased.pseudonym;
            if let Err(error) = store.erase_late_orders(&app_id, &open_id, pseudonym).await {
                tracing::warn!(%app_id, %pseudonym, %error, "orders that were under way during an erasure may be left");
            }
            if let Err(error) = store.erase_late_refusals(&app_id, &open_id, pseudonym).await {
                tracing::warn!(%app_id, %pseudonym, %error, "refusals that were noted before an erasure may be left");
            }
            erased.left = store.search_left(&app_id, &open_id).await;
            Ok(erased)
        });
        let ended =
            |fault| Err(StoreError::Internal(format!("the task of an erasure ended: {fault}")).into());
        task.await.unwrap_or_else(ended)
    }

    /// The first transaction, with all that is there.
    async fn erase_known(
        &self,
        operator: &Operator,
        app_id: &AppId,
        open_id: &OpenId,
    ) -> Result<ErasedPlayer, OperationError> {
        let pseudonym = new_pseudonym();
        let context = (operator.clone(), app_id.clone(), open_id.clone(), pseudonym);
        self.long_transaction(context, |connection, (operator, app_id, open_id, pseudonym)| {
            Box::pin(async move {
                let names = Names { app_id: app_id.as_str(), open_id: open_id.as_str(), pseudonym };
                let Some(app_no) = number_if_any(&mut *connection, app_id).await? else {
                    return Err(nothing_recorded(app_id, open_id).into());
                };
                take_turn(connection).await?;
                // Before the wallet, as a confirmation does. Nobody confirms a change whose reason is gone.
                let mut refused = refuse_requests_of(connection, operator, app_id, names.open_id).await?;
                let found = erase(connection, app_no, &names).await?;
                let PlayerRecords { rows, archive_files, payments, newest_archive } = found;
                // Those that were asked meanwhile have the pseudonym now.
                refused.extend(refuse_requests_of(connection, operator, app_id, pseudonym).await?);
                let items = replace_in_items(connection, app_no, &names).await?;
                let lines = replace_in_log(connection, &names, &payments).await?;
                let mut erased = ErasedPlayer {
                    app_id: app_id.to_string(),
                    pseudonym: pseudonym.clone(),
                    rows,
                    archive_files,
                    left: Vec::new(),
                };
                if !items.is_empty() {
                    erased.rows.insert("items", items.len() as u64);
                }
                erased.rows.insert("operator_log", lines.len() as u64);
                if erased.rows.values().sum::<u64>() == 0 {
                    return Err(nothing_recorded(app_id, open_id).into());
                }
                // Last: each line locks the head of the log.
                log_refused(connection, operator, app_id, &refused).await?;
                let note = names.replaced(operator.reason());
                LogLine::new(operator, OperatorAction::PlayerErase, pseudonym)
                    .of_app(app_id)
                    .after(json!({ "rows": erased.rows, "lines": lines, "items": items }))
                    .note(&note)
                    .record(connection)
                    .await?;
                // Where the app had no archive, no row of one was locked. An archive that begins later waits for the head of
                // the log, and finds this erasure there.
                if newest(connection, names.app_id).await?.0 != newest_archive {
                    return Err(StoreError::Again.into());
                }
                Ok(erased)
            })
        })
        .await
    }

    /// Erases orders of a player that were written by transactions which had read the wallet before the erasure. It erases
    /// what is there also where it cannot tell whether more may come.
    async fn erase_late_orders(&self, app_id: &AppId, open_id: &OpenId, pseudonym: &str) -> Result<()> {
        // A batch that has read the wallet writes within milliseconds, and holds no lock until then.
        let have_ended = self.await_late_writers(BATCH_TIME, "orders", &["orders", "ledger_entries"]).await;
        let context = (app_id.clone(), open_id.clone(), pseudonym.to_owned());
        let erased = self.transaction(context, |connection, (app_id, open_id, pseudonym)| {
            Box::pin(async move {
                // One moment for all statements: the player may be registered again beside it.
                sqlx::query!("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").execute(&mut *connection).await?;
                let wallets = sqlx::query!(
                    r#"SELECT w.app_no, w.wallet_no, w.created_at, w.open_id = $3 AS "is_known_again!"
                       FROM wallets w WHERE w.app_no = (SELECT app_no FROM apps WHERE app_id = $1) AND w.open_id IN ($2, $3)"#,
                    app_id.as_str(),
                    pseudonym,
                    open_id.as_str()
                );
                let wallets = wallets.fetch_all(&mut *connection).await?;
                let again = wallets.iter().find(|wallet| wallet.is_known_again);
                let known_again_at = again.map(|wallet| wallet.created_at);
                erase_orders(connection, app_id.as_str(), open_id.as_str(), known_again_at).await?;
                if let Some(erased) = wallets.iter().find(|wallet| !wallet.is_known_again) {
                    scrub_entries(connection, erased.app_no, &[erased.wallet_no]).await?;
                }
                Ok::<_, StoreError>(())
            })
        });
        erased.await?;
        have_ended
    }

    /// Erases refusals of a player that processes have noted before the erasure and write after it (contract 13.1.4).
    async fn erase_late_refusals(&self, app_id: &AppId, open_id: &OpenId, pseudonym: &str) -> Result<()> {
        let have_own = self.write_refusals().await;
        let have_ended = self.await_late_writers(REFUSALS_TIME, "refusals", &["exchange_refusals"]).await;
        let context = (app_id.clone(), open_id.clone(), pseudonym.to_owned());
        // It waits for another erasure, which may take long.
        let erased = self.long_transaction(context, |connection, (app_id, open_id, pseudonym)| {
            Box::pin(async move {
                let names = Names { app_id: app_id.as_str(), open_id: open_id.as_str(), pseudonym };
                take_turn(connection).await?;
                // Up to now: a row that was written late may tell of a later time than that of its refusal.
                let refusals = sqlx::query!(
                    "DELETE FROM exchange_refusals WHERE app_id = $1 AND open_id = $2",
                    names.app_id,
                    names.open_id
                );
                refusals.execute(&mut *connection).await?;
                replace_in_refusals(connection, &names).await
            })
        });
        erased.await?;
        have_own?;
        have_ended
    }

    /// Waits until writers have begun to write what they had read or noted before, and until their transactions have ended.
    async fn await_late_writers(&self, begin_within: Duration, what: &str, tables: &[&str]) -> Result<()> {
        tokio::time::sleep(begin_within).await;
        let mut session = self.pool.acquire().await?;
        let lasts = || StoreError::unavailable(format!("a transaction that writes {what} does not end"));
        await_writers(&mut session, self.engine.get(), tables).await?.then_some(()).ok_or_else(lasts)
    }
}

/// Removes the reported orders of a player, those before `before` where it is given. Returns how many there were.
async fn erase_orders(
    connection: &mut PgConnection,
    app_id: &str,
    open_id: &str,
    before: Option<OffsetDateTime>,
) -> Result<u64> {
    let orders = sqlx::query_scalar!(
        "DELETE FROM orders WHERE app_id = $1 AND open_id = $2 AND ($3::timestamptz IS NULL OR created_at < $3)
         RETURNING out_biz_order_no",
        app_id,
        open_id,
        before
    );
    let orders = orders.fetch_all(&mut *connection).await?;
    let events = sqlx::query!(
        "DELETE FROM order_events WHERE app_id = $1 AND out_biz_order_no = ANY ($2)",
        app_id,
        &orders
    );
    events.execute(&mut *connection).await?;
    let payments = sqlx::query!(
        "DELETE FROM order_payments WHERE app_id = $1 AND out_biz_order_no = ANY ($2)",
        app_id,
        &orders
    );
    payments.execute(connection).await?;
    Ok(orders.len() as u64)
}

/// Waits until no other erasure is under way: each reads texts in which another may be replacing a name. What adds to the
/// sums leaves out its turn meanwhile, so that no sum gets a former name afterwards.
async fn take_turn(connection: &mut PgConnection) -> Result<()> {
    sqlx::query!("SET LOCAL statement_timeout = 0").execute(&mut *connection).await?;
    sqlx::query!("SELECT through_no FROM sales_head FOR UPDATE").fetch_optional(connection).await?;
    Ok(())
}

/// Records of a player that were erased.
struct PlayerRecords {
    /// How many rows of each kind there were.
    rows: BTreeMap<&'static str, u64>,
    /// Files of archives that have the player.
    archive_files: Vec<String>,
    /// The payments, as the operator's log names them.
    payments: Vec<String>,
    /// Number of the app's newest archive. 0 where it has none.
    newest_archive: i32,
}

/// Erases all but the texts of the operator's log, whose head a transaction locks last.
async fn erase(
    connection: &mut PgConnection,
    app_no: i32,
    names: &Names<'_>,
) -> Result<PlayerRecords, OperationError> {
    let &Names { app_id, open_id, pseudonym } = names;
    // Before the wallets, as a piece of a gift does. A gift that waits is no longer the one that was shown.
    let gifts =
        sqlx::query_scalar!("SELECT gift FROM gifts WHERE app_id = $1 ORDER BY gift FOR UPDATE", app_id);
    gifts.fetch_all(&mut *connection).await?;
    let lines = sqlx::query!("DELETE FROM gift_lines WHERE app_id = $1 AND open_id = $2", app_id, open_id);
    let gift_lines = lines.execute(&mut *connection).await?.rows_affected();
    // Before the entries, as a transaction that moves entries does.
    let (newest_archive, state) = lock_newest(connection, app_id).await?;
    if state.is_some_and(|state| state != ArchiveState::Kept.as_str()) {
        return Err(archive_moving(app_id).into());
    }
    let mut rows = BTreeMap::new();
    if gift_lines > 0 {
        rows.insert("gift_lines", gift_lines);
    }
    let mut archive_files = Vec::new();
    let wallet_no = sqlx::query_scalar!(
        "UPDATE wallets SET open_id = $3 WHERE app_no = $1 AND open_id = $2 RETURNING wallet_no",
        app_no,
        open_id,
        pseudonym
    );
    let wallet_no = wallet_no.fetch_optional(&mut *connection).await?;
    if let Some(wallet_no) = wallet_no {
        rows.insert("wallet", 1);
        rows.insert("ledger_entries", scrub_entries(connection, app_no, &[wallet_no]).await?);
        let (entries, files) = archived::scrub(connection, app_id, app_no, wallet_no).await?;
        rows.insert("archived_entries", entries);
        archive_files = files;
    }
    let refusals =
        sqlx::query!("DELETE FROM exchange_refusals WHERE app_id = $1 AND open_id = $2", app_id, open_id);
    rows.insert("refusals", refusals.execute(&mut *connection).await?.rows_affected());
    let login_codes =
        sqlx::query!("DELETE FROM login_codes WHERE app_id = $1 AND open_id = $2", app_id, open_id);
    rows.insert("login_codes", login_codes.execute(&mut *connection).await?.rows_affected());
    rows.insert("orders", erase_orders(connection, app_id, open_id, None).await?);
    let payments = scrub_payments(connection, app_no, names, wallet_no, &mut rows).await?;
    let requests = sqlx::query!(
        "UPDATE console_requests SET open_id = $3, reason = '' WHERE app_id = $1 AND open_id = $2",
        app_id,
        open_id,
        pseudonym
    );
    rows.insert("change_requests", requests.execute(&mut *connection).await?.rows_affected());
    replace_in_reasons(connection, app_no, names).await?;
    replace_in_ledger(connection, app_no, names).await?;
    replace_in_refusals(connection, names).await?;
    replace_in_deliveries(connection, names).await?;
    Ok(PlayerRecords { rows, archive_files, payments, newest_archive })
}

/// Takes what is personal out of the payments of a player and their refunds. A payment that names only one of the
/// player's orders is the player's, unless it was credited to somebody else. Returns the payments, as the log names them.
async fn scrub_payments(
    connection: &mut PgConnection,
    app_no: i32,
    names: &Names<'_>,
    wallet_no: Option<i64>,
    rows: &mut BTreeMap<&'static str, u64>,
) -> Result<Vec<String>> {
    let topup_orders = match wallet_no {
        Some(wallet_no) => orders_of_wallet(connection, app_no, wallet_no).await?,
        None => Vec::new(),
    };
    let payments = sqlx::query!(
        "UPDATE topup_payments SET open_id = CASE WHEN open_id = $2 THEN $3 ELSE open_id END, os = NULL, note = ''
         WHERE app_no = $1
             AND (open_id = $2 OR wallet_no = $4 OR wallet_no IS NULL AND open_id IS NULL AND biz_no = ANY ($5))
         RETURNING provider, provider_order_id",
        app_no,
        names.open_id,
        names.pseudonym,
        wallet_no,
        &topup_orders
    );
    let payments = payments.fetch_all(&mut *connection).await?;
    rows.insert("topup_payments", payments.len() as u64);
    let (providers, ids): (Vec<String>, Vec<String>) =
        payments.into_iter().map(|payment| (payment.provider, payment.provider_order_id)).unzip();
    let refunds = sqlx::query!(
        "UPDATE topup_refunds SET reason = ''
         WHERE app_no = $1 AND (provider, provider_order_id) IN (SELECT unnest($2::text[]), unnest($3::text[]))",
        app_no,
        &providers,
        &ids
    );
    let refunds = refunds.execute(connection).await?.rows_affected();
    if refunds > 0 {
        rows.insert("topup_refunds", refunds);
    }
    Ok(providers.iter().zip(&ids).map(|(provider, id)| format!("{provider}/{id}")).collect())
}
