//! Payments that nothing stands in the way of: each pays an order, and is the first for its pair and for the order; no debt of
//! the player and no refund waits for it. They are credited as the writers of wallets do it: one statement reads, without
//! a lock, and one transaction writes, sent as a whole. It fails when a wallet has changed since the read. All other payments
//! are carried out under locks ([`super::write_payments`]).

use std::collections::{BTreeSet, HashSet};

use domain::topup::{Coins, Counterpart, PaymentKey, PaymentTarget};
use futures_util::future::{join, join5, try_join4};
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_postgres::{Client, Row, Statement};

use super::super::orders::placed_order;
use super::super::payment_credit::{DecidedPayment, credits, request};
use super::super::payment_rows::{PaymentRowColumns, first_report, insert_statement};
use crate::engine::Engine;
use crate::payment_queue::{PaymentReport, ToldPayment};
use crate::wallet_writer::{DecidedChanges, WALLET_COLUMNS, WalletState, wallets, write_statement};
use crate::writer::{Connection, Opening, PlansMade, SessionFault, answered, connect, drive, execute, fault};

/// The orders of payments that were not credited, with the wallets of their players. It locks nothing. An order that is in an
/// archive is not found.
const READ_FROM: &str = "\
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS k (biz_no, entry, position)
JOIN ledger_entries n ON n.app_no = $1::integer AND n.reference = k.biz_no
JOIN wallets w ON w.app_no = $1 AND w.wallet_no = n.wallet_no
JOIN items i ON i.app_no = $1 AND i.item_id = n.item_id
LEFT JOIN ledger_entries credited ON credited.app_no = $1 AND credited.reference = k.entry
WHERE credited.reference IS NULL";

/// Fails when one of these wallets is in debt, or a refund waits for one of these payments. It must be a later statement than
/// the one that writes their rows: until then such a refund may still be written.
const CHECK: &str = "\
SELECT 1 / (NOT EXISTS (
        SELECT 1 FROM topup_refunds
        WHERE app_no = $1::integer AND wallet_no = ANY ($2::bigint[]) AND (free_owed > 0 OR charge_owed > 0))
    AND NOT EXISTS (
        SELECT 1 FROM topup_refunds
        WHERE app_no = $1 AND provider = ANY ($3::text[]) AND provider_order_id = ANY ($4::text[]) AND state = 'waiting')
)::integer";

/// A session for payments that nothing stands in the way of.
pub(super) struct UnhinderedSession {
    client: Client,
    connection: Connection,
    statements: PaymentStatements,
    plans: PlansMade,
    opening: Opening,
}

/// Its prepared statements, in the order in which a batch sends them.
struct PaymentStatements {
    read: Statement,
    write: Statement,
    insert: Statement,
    check: Statement,
}

/// A payment with its place, what it is credited as, and the wallet as it was read.
type Matched<'a> = (usize, &'a ToldPayment, Coins, WalletState);

impl UnhinderedSession {
    /// Connects and prepares the statements.
    pub(super) async fn open(opening: &Opening) -> Result<Self, SessionFault> {
        let (client, mut connection) = connect(opening).await?;
        let preparing = async {
            execute(&client, &opening.settings(Engine::Postgres)).await?;
            let read = format!(
                "SELECT k.position, n.kind, w.open_id, i.product_name, i.product_info, {WALLET_COLUMNS}, \
                     statement_timestamp() AS read_at {READ_FROM}"
            );
            let (write, insert) = (write_statement(Engine::Postgres, false), insert_statement());
            let prepared = try_join4(
                client.prepare(&read),
                client.prepare(&write),
                client.prepare(&insert),
                client.prepare(CHECK),
            );
            prepared.await.map_err(|error| fault(&error))
        };
        let patience = tokio::time::sleep(opening.answer_timeout());
        let (read, write, insert, check) = drive(&mut connection, patience, preparing).await?;
        let statements = PaymentStatements { read, write, insert, check };
        let plans = PlansMade::at(Instant::now());
        Ok(Self { client, connection, statements, plans, opening: opening.clone() })
    }

    /// Waits until the database ends the session.
    pub(super) async fn ended(&mut self) {
        let _ = (&mut self.connection).await;
    }

    /// Credits those of these payments that nothing stands in the way of. Nothing is written of the others, which have no
    /// report.
    ///
    /// # Errors
    /// `Again` when another transaction was faster, or something stands in the way of one of them after all. Nothing was written
    /// then.
    pub(super) async fn credit(
        &mut self,
        app_no: i32,
        told: &[&ToldPayment],
    ) -> Result<Vec<(usize, PaymentReport)>, SessionFault> {
        let Some((matched, at)) = self.read(app_no, told).await? else { return Ok(Vec::new()) };
        let requests: Vec<_> =
            matched.iter().map(|(_, one, coins, _)| request(&one.payment.key, coins)).collect();
        let read: Vec<WalletState> = matched.iter().map(|(_, _, _, wallet)| *wallet).collect();
        let changes = DecidedChanges::on_read(app_no, &requests, &read, at);
        let credited = changes.changed().and_then(credits).map_err(SessionFault::Other)?;
        let mut decided: Vec<DecidedPayment<'_>> = Vec::new();
        for ((place, one, coins, _), credited) in matched.into_iter().zip(credited) {
            if let Some(Ok(credited)) = credited {
                decided.push((place, one, Ok((coins, credited))));
            }
        }
        if decided.is_empty() {
            return Ok(Vec::new());
        }
        // Whoever writes several rows writes them in this order, so that two of them do not wait for each other.
        decided.sort_by(|(_, one, _), (_, other, _)| one.payment.key.cmp(&other.payment.key));
        self.write(app_no, &changes, &decided).await?;
        Ok(decided.iter().map(|decided| (decided.0, first_report(decided))).collect())
    }

    /// Reads orders and wallets of these payments. It gives those that match their unpaid order, the first for each pair and
    /// player, and the time of the read.
    async fn read<'a>(
        &mut self,
        app_no: i32,
        told: &[&'a ToldPayment],
    ) -> Result<Option<(Vec<Matched<'a>>, OffsetDateTime)>, SessionFault> {
        let of_orders = told.iter().enumerate().filter_map(|(place, one)| match &one.payment.target {
            PaymentTarget::Order { biz_no, .. } => Some((place, *one, biz_no.as_str())),
            PaymentTarget::Product { .. } => None,
        });
        let of_orders: Vec<_> = of_orders.collect();
        if of_orders.is_empty() {
            return Ok(None);
        }
        let orders: Vec<&str> = of_orders.iter().map(|(_, _, order)| *order).collect();
        let entries: Vec<String> = of_orders.iter().map(|(_, one, _)| one.payment.key.reference()).collect();
        let discards_plans = self.plans.are_outdated(Instant::now());
        let Self { client, statements, connection, opening, .. } = self;
        let reading = async {
            let (discarded, rows) = join(
                async { if discards_plans { execute(client, "DISCARD PLANS").await } else { Ok(()) } },
                client.query(&statements.read, &[&app_no, &orders, &entries]),
            )
            .await;
            discarded?;
            answered(rows)
        };
        let patience = tokio::time::sleep(opening.answer_timeout());
        let rows = drive(connection, patience, reading).await?;
        let (mut keys, mut players, mut matched) = (BTreeSet::new(), HashSet::new(), Vec::new());
        for ((position, wallet), row) in wallets(&rows)?.into_iter().zip(&rows) {
            let Some((place, one, _)) = of_orders.get(position) else { continue };
            let Some(coins) = coins_of(one, row)? else { continue };
            if keys.insert(&one.payment.key) && players.insert(coins.open_id.clone()) {
                matched.push((*place, *one, coins, wallet));
            }
        }
        let Some(first) = rows.first().filter(|_| !matched.is_empty()) else { return Ok(None) };
        Ok(Some((matched, first.try_get("read_at").map_err(|error| fault(&error))?)))
    }

    /// Writes the changes of wallets and the rows of their payments in one transaction, which it sends as a whole.
    async fn write(
        &mut self,
        app_no: i32,
        changes: &DecidedChanges<'_>,
        decided: &[DecidedPayment<'_>],
    ) -> Result<(), SessionFault> {
        let (columns, rows) = (changes.columns(), PaymentRowColumns::new(app_no, decided));
        let credited =
            decided.iter().filter_map(|(_, _, credited)| Some(credited.as_ref().ok()?.1.wallet_no));
        let wallets: Vec<i64> = credited.collect();
        let keys: Vec<&PaymentKey> = decided.iter().map(|(_, one, _)| &one.payment.key).collect();
        let providers: Vec<&str> = keys.iter().map(|key| key.provider.as_str()).collect();
        let ids: Vec<&str> = keys.iter().map(|key| key.provider_order_id.as_str()).collect();
        let Self { client, statements, connection, opening, .. } = self;
        let writing = async {
            let (begun, written, inserted, checked, committed) = join5(
                execute(client, "BEGIN"),
                client.query(&statements.write, &columns.parameters()),
                client.query(&statements.insert, &rows.parameters()),
                client.query(&statements.check, &[&app_no, &wallets, &providers, &ids]),
                execute(client, "COMMIT"),
            )
            .await;
            begun?;
            // In the order of sending. After the first failure the others report only that failure, and COMMIT rolls back.
            answered(written)?;
            answered(inserted)?;
            answered(checked)?;
            committed
        };
        let patience = tokio::time::sleep(opening.answer_timeout());
        drive(connection, patience, writing).await
    }
}

/// What a payment is credited as, if it fits the order in this row, which another payment may have paid.
fn coins_of(told: &ToldPayment, row: &Row) -> Result<Option<Coins>, SessionFault> {
    let text = |name| row.try_get::<_, &str>(name).map_err(|error| fault(&error));
    if text("kind")? != "topup_order" {
        return Ok(None);
    }
    let order = placed_order(text("open_id")?, (text("product_name")?, text("product_info")?), false);
    let order = order.map_err(SessionFault::Other)?;
    Ok(told.payment.matched(&Counterpart::Order(Some(order))).ok())
}
