//! Payments without an obstacle. Each pays an order, and is the first for its pair and for the order. No debt of the
//! player and no refund waits for it. They are credited as the writers of wallets do it: a statement reads without a
//! lock, and those that write are sent without a wait. They fail when a wallet has changed since the read. All other
//! payments are carried out under locks ([`super::write_payments`]).

use std::collections::{BTreeSet, HashMap, HashSet};

use domain::ids::AppId;
use domain::topup::{Coins, Counterpart, PaymentTarget};
use futures_util::future::{join, join4, try_join5};
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_postgres::{Client, Row, Statement};

use super::super::orders::placed_order;
use super::super::payment_credit::{DecidedPayment, PaymentCredit, credits, request};
use super::super::payment_rows::{PaymentRowColumns, first_report, insert_statement, sort_by_key};
use crate::engine::Engine;
use crate::payment_queue::{PaymentReport, ToldPayment};
use crate::wallet_writer::{DecidedChanges, WALLET_COLUMNS, WalletState, wallets, write_statement};
use crate::writer::{
    Connection, Opening, PlansMade, SessionFault, answered, connect, drive_within, execute, fault,
};

/// The orders of payments that were not credited, with the wallets of their players. It locks nothing. An order that is in an
/// archive is not found.
const READ_FROM: &str = "\
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS k (biz_no, entry, position)
JOIN ledger_entries n ON n.app_no = $1::integer AND n.reference = k.biz_no
JOIN wallets w ON w.app_no = $1 AND w.wallet_no = n.wallet_no
JOIN items i ON i.app_no = $1 AND i.item_id = n.item_id
LEFT JOIN ledger_entries credited ON credited.app_no = $1 AND credited.reference = k.entry
WHERE credited.reference IS NULL";

/// The number of an app.
const APP_NO: &str = "SELECT app_no FROM apps WHERE app_id = $1";

/// Fails when one of these wallets is in debt, or a refund waits for one of these payments. A refund for the provider
/// of one and the id of another makes it fail too. The check must be a later statement than the one that writes their
/// rows: until then such a refund may still be written.
const CHECK: &str = "\
SELECT 1 / (NOT EXISTS (
        SELECT 1 FROM topup_refunds
        WHERE app_no = $1::integer AND wallet_no = ANY ($2::bigint[]) AND (free_owed > 0 OR charge_owed > 0))
    AND NOT EXISTS (
        SELECT 1 FROM topup_refunds
        WHERE app_no = $1 AND provider = ANY ($3::text[]) AND provider_order_id = ANY ($4::text[]) AND state = 'waiting')
)::integer";

/// A session for payments without an obstacle.
pub(super) struct UnhinderedSession {
    client: Client,
    connection: Connection,
    statements: PaymentStatements,
    opened: Instant,
    plans: PlansMade,
    opening: Opening,
    /// The numbers of apps, which never change while it lasts.
    app_nos: HashMap<AppId, i32>,
}

/// Its prepared statements, in the order in which a batch sends them.
struct PaymentStatements {
    app_no: Statement,
    read: Statement,
    write: Statement,
    insert: Statement,
    check: Statement,
}

/// A payment with its place, and the order that it names.
type OfOrder<'a> = (usize, &'a ToldPayment, &'a str);

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
            let prepared = try_join5(
                client.prepare(APP_NO),
                client.prepare(&read),
                client.prepare(&write),
                client.prepare(&insert),
                client.prepare(CHECK),
            );
            prepared.await.map_err(|error| fault(&error))
        };
        let (app_no, read, write, insert, check) =
            drive_within(&mut connection, opening.answer_timeout(), preparing).await?;
        let statements = PaymentStatements { app_no, read, write, insert, check };
        let opened = Instant::now();
        Ok(Self {
            client,
            connection,
            statements,
            opened,
            plans: PlansMade::at(opened),
            opening: opening.clone(),
            app_nos: HashMap::new(),
        })
    }

    /// Whether it is with the host that takes writes now.
    pub(super) fn is_present(&self) -> bool {
        self.opening.hosts.is_present(self.opened.elapsed())
    }

    /// Waits until the database ends the session.
    pub(super) async fn ended(&mut self) {
        let _ = (&mut self.connection).await;
    }

    /// Credits those of these payments that have no obstacle. Nothing is written of the others, which have no report.
    ///
    /// # Errors
    /// `Again` or `Blocked` when another transaction was faster, holds something for long, or an obstacle meets one of
    /// them after all. Nothing was written then.
    pub(super) async fn credit(
        &mut self,
        app_id: &AppId,
        told: &[&ToldPayment],
    ) -> Result<Vec<(usize, PaymentReport)>, SessionFault> {
        let of_orders = first_of_orders(told);
        if of_orders.is_empty() {
            return Ok(Vec::new());
        }
        let Some(app_no) = self.app_no(app_id).await? else { return Ok(Vec::new()) };
        let (matched, at) = match self.begin(app_no, &of_orders).await {
            Ok(Some(read)) => read,
            Err(lost @ SessionFault::Lost(_)) => return Err(lost),
            nothing => {
                self.roll_back().await?;
                return nothing.map(|_| Vec::new());
            }
        };
        let requests: Vec<_> =
            matched.iter().map(|(_, one, coins, _)| request(&one.payment.key, coins)).collect();
        let read: Vec<WalletState> = matched.iter().map(|(_, _, _, wallet)| *wallet).collect();
        let changes = DecidedChanges::on_read(app_no, &requests, &read, at);
        let credited = match changes.changed().and_then(credits) {
            Ok(credited) => credited,
            Err(error) => {
                self.roll_back().await?;
                return Err(SessionFault::Other(error));
            }
        };
        let mut decided: Vec<DecidedPayment<'_>> = Vec::new();
        for ((place, one, coins, _), credited) in matched.into_iter().zip(credited) {
            if let PaymentCredit::Made(credited) = credited {
                decided.push((place, one, Ok((coins, credited))));
            }
        }
        if decided.is_empty() {
            self.roll_back().await?;
            return Ok(Vec::new());
        }
        sort_by_key(&mut decided);
        self.write(app_no, &changes, &decided).await?;
        Ok(decided.iter().map(|decided| (decided.0, first_report(decided))).collect())
    }

    async fn roll_back(&mut self) -> Result<(), SessionFault> {
        let Self { client, connection, opening, .. } = self;
        drive_within(connection, opening.answer_timeout(), execute(client, "ROLLBACK")).await
    }

    /// The number of an app. `None` when there is no such app.
    async fn app_no(&mut self, app_id: &AppId) -> Result<Option<i32>, SessionFault> {
        if let Some(app_no) = self.app_nos.get(app_id) {
            return Ok(Some(*app_no));
        }
        let Self { client, statements, connection, opening, .. } = self;
        let reading = async { answered(client.query(&statements.app_no, &[&app_id.as_str()]).await) };
        let rows = drive_within(connection, opening.answer_timeout(), reading).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let app_no = row.try_get("app_no").map_err(|error| fault(&error))?;
        self.app_nos.insert(app_id.clone(), app_no);
        Ok(Some(app_no))
    }

    /// Begins the transaction, and reads orders and wallets of these payments. It gives those that match their order, the
    /// first for each player, and the time of the read. `None` where none does.
    async fn begin<'a>(
        &mut self,
        app_no: i32,
        of_orders: &[OfOrder<'a>],
    ) -> Result<Option<(Vec<Matched<'a>>, OffsetDateTime)>, SessionFault> {
        let orders: Vec<&str> = of_orders.iter().map(|(_, _, order)| *order).collect();
        let entries: Vec<String> = of_orders.iter().map(|(_, one, _)| one.payment.key.reference()).collect();
        let discards_plans = self.plans.are_outdated(Instant::now());
        let Self { client, statements, connection, opening, .. } = self;
        let reading = async {
            let (begun, rows) = join(
                execute(client, if discards_plans { "DISCARD PLANS; BEGIN" } else { "BEGIN" }),
                client.query(&statements.read, &[&app_no, &orders, &entries]),
            )
            .await;
            begun?;
            answered(rows)
        };
        let rows = drive_within(connection, opening.answer_timeout(), reading).await?;
        let (mut players, mut matched) = (HashSet::new(), Vec::new());
        for ((position, wallet), row) in wallets(&rows)?.into_iter().zip(&rows) {
            let Some((place, one, _)) = of_orders.get(position) else { continue };
            let Some(coins) = coins_of(one, row)? else { continue };
            if players.insert(coins.open_id.clone()) {
                matched.push((*place, *one, coins, wallet));
            }
        }
        let Some(first) = rows.first().filter(|_| !matched.is_empty()) else { return Ok(None) };
        Ok(Some((matched, first.try_get("read_at").map_err(|error| fault(&error))?)))
    }

    /// Writes the changes of wallets and the rows of their payments, and commits. It sends all of it without a wait. BEGIN was
    /// answered before: had it failed, each of these statements would commit by itself.
    async fn write(
        &mut self,
        app_no: i32,
        changes: &DecidedChanges<'_>,
        decided: &[DecidedPayment<'_>],
    ) -> Result<(), SessionFault> {
        let (columns, rows) = (changes.columns(), PaymentRowColumns::new(app_no, decided));
        let Self { client, statements, connection, opening, .. } = self;
        let writing = async {
            let (written, inserted, checked, committed) = join4(
                client.query(&statements.write, &columns.parameters()),
                client.query(&statements.insert, &rows.parameters()),
                client.query(
                    &statements.check,
                    &[&app_no, &rows.wallet_no, &rows.provider, &rows.provider_order_id],
                ),
                execute(client, "COMMIT"),
            )
            .await;
            // In the order of sending. After the first failure the others report only that failure, and COMMIT rolls back.
            answered(written)?;
            answered(inserted)?;
            answered(checked)?;
            committed
        };
        drive_within(connection, opening.answer_timeout(), writing).await
    }
}

/// The payments of orders, of each pair the first that was told: that one stands, whatever becomes of it.
fn first_of_orders<'a>(told: &[&'a ToldPayment]) -> Vec<OfOrder<'a>> {
    let mut keys = BTreeSet::new();
    let first = told.iter().enumerate().filter(|(_, one)| keys.insert(&one.payment.key));
    let of_orders = first.filter_map(|(place, one)| match &one.payment.target {
        PaymentTarget::Order { biz_no, .. } => Some((place, *one, biz_no.as_str())),
        PaymentTarget::Product { .. } => None,
    });
    of_orders.collect()
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

#[cfg(test)]
mod tests {
    use domain::ids::{BizNo, OpenId};
    use domain::operator::{Operator, OperatorKind};
    use domain::topup::{Currency, Payment, PaymentKey, PaymentProvider, PricedProductId, ProviderOrderId};

    use super::*;

    fn told(id: &str, biz_no: Option<&str>) -> ToldPayment {
        let product = biz_no.is_none().then(|| PricedProductId::parse("gems60").unwrap());
        let target = PaymentTarget::of(
            biz_no.map(|biz_no| BizNo::parse(biz_no).unwrap()),
            product.as_ref().map(|_| OpenId::parse("o1").unwrap()),
            product.clone(),
        );
        let payment = Payment {
            key: PaymentKey {
                provider: PaymentProvider::parse("stripe").unwrap(),
                provider_order_id: ProviderOrderId::parse(id).unwrap(),
            },
            currency: Currency::parse("CNY").unwrap(),
            amount: 600,
            target: target.unwrap(),
            paid_at: OffsetDateTime::UNIX_EPOCH,
            os: None,
            fee: None,
            note: String::new(),
        };
        let reporter = Operator::new(OperatorKind::ApiKey, "backend").unwrap();
        ToldPayment { reporter, app_id: AppId::parse("a1").unwrap(), payment }
    }

    /// Contract 19.3.2: of one pair what was told first stands, though what comes later would fit an order.
    #[test]
    fn of_a_pair_the_first_that_was_told_counts() {
        let told = [
            told("pi_1", None),
            told("pi_2", Some("t2")),
            told("pi_1", Some("t1")),
            told("pi_2", Some("t3")),
        ];
        let told: Vec<&ToldPayment> = told.iter().collect();
        let places: Vec<_> =
            first_of_orders(&told).iter().map(|(place, _, order)| (*place, *order)).collect();
        assert_eq!(places, [(1, "t2")]);
    }
}
