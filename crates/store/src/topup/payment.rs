//! Payments: each is credited once, or kept because it fits nothing (contract 19.3).
//!
//! A writer ([`crate::writer`]) carries out all payments that wait for one app in one transaction, or in two. First
//! come those without an obstacle ([`unhindered`]). The row of a payment, its ledger entry, the purses and the event
//! are in one. The key of the row and the key of the entry are both the pair of the provider. So of two transactions
//! about one payment one is repeated, and finds the row.

mod unhindered;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use domain::ids::{AppId, BizNo, OpenId};
use domain::operator::Operator;
use domain::topup::{Counterpart, Payment, PaymentKey, PaymentTarget, PlacedOrder, Price, PricedProductId};
use sqlx::PgConnection;
use tokio::time::Instant;

use self::work::PaymentWork;
use super::orders::{known_players, placed_orders};
use super::payment_credit::{PaymentCredit, credit_all, settle_debts};
use super::payment_rows::{entered_at, first_report, first_told, insert, keep_purses, sort_by_key};
use super::prices::prices_of;
use super::refund::CreditedTopup;
use super::waiting_refunds::{end_waiting, log_ended, purses_after, with_waiting};
use crate::engine::Engine;
use crate::error::{OperationError, Result};
use crate::event::tell_of_unmatched;
use crate::payment_queue::{PaymentOutcome, PaymentReport, ToldPayment};
use crate::store::Store;
use crate::writer::{Writer, keep_writing, run_in_thread};

/// How long a payment waits to be carried out.
const PATIENCE: Duration = Duration::from_secs(10);

impl Store {
    /// Credits a payment once for its pair, for ever, or keeps it as unmatched.
    ///
    /// # Errors
    /// There is no such app, the pair was reported with other content, too many payments wait, or the database is away.
    /// After the last the payment may have been taken; a repeat is told what became of it.
    pub async fn take_payment(
        &self,
        reporter: &Operator,
        app_id: &AppId,
        payment: Payment,
    ) -> Result<PaymentReport, OperationError> {
        let told = ToldPayment { reporter: reporter.clone(), app_id: app_id.clone(), payment };
        self.payments.start_once(|queue| {
            run_in_thread(keep_writing(Writer::new(queue, PaymentWork::new(self.opening.clone()))))
        })?;
        let outcome = self.payments.submit(told, Instant::now() + PATIENCE).await?;
        let report = outcome?;
        self.events.notify_one();
        Ok(report)
    }
}

/// Carries out payments of one app. `None` is the outcome of one that must be tried again. Its wallet is held, another
/// transaction has just credited it, or another payment of the batch has the same order or player.
async fn write_payments(
    connection: &mut PgConnection,
    engine: Engine,
    (app_id, app_no): (&AppId, i32),
    told: &[&ToldPayment],
) -> Result<Vec<Option<PaymentOutcome>>> {
    let mut outcomes: Vec<Option<PaymentOutcome>> = told.iter().map(|_| None).collect();
    let keys: BTreeSet<&PaymentKey> = told.iter().map(|one| &one.payment.key).collect();
    let known = first_told(connection, engine, app_no, &keys.into_iter().collect::<Vec<_>>()).await?;
    let mut fresh: BTreeMap<&PaymentKey, usize> = BTreeMap::new();
    for (place, ToldPayment { payment, .. }) in told.iter().enumerate() {
        match known.get(&payment.key) {
            Some(first) => outcomes[place] = Some(first.repeated(payment)?),
            None => drop(fresh.entry(&payment.key).or_insert(place)),
        }
    }
    let new: Vec<(usize, &ToldPayment)> = fresh.into_values().map(|place| (place, told[place])).collect();
    for (place, report) in write_new(connection, engine, (app_id, app_no), &new).await? {
        outcomes[place] = Some(Ok(report));
    }
    Ok(outcomes)
}

/// Carries out payments that nobody has reported, each with its place, in the order of their keys. Those that must be
/// tried again have no report.
async fn write_new(
    connection: &mut PgConnection,
    engine: Engine,
    (app_id, app_no): (&AppId, i32),
    told: &[(usize, &ToldPayment)],
) -> Result<Vec<(usize, PaymentReport)>> {
    let counterparts = Counterparts::read(connection, app_no, told).await?;
    let (mut players, mut orders) = (HashSet::new(), HashSet::new());
    let (mut matched, mut decided) = (Vec::new(), Vec::new());
    for &(place, one) in told {
        match one.payment.matched(&counterparts.of(&one.payment.target)) {
            Ok(coins) => {
                let is_first = players.insert(coins.open_id.clone())
                    && coins.biz_no.as_ref().is_none_or(|biz_no| orders.insert(biz_no.clone()));
                if is_first {
                    matched.push((place, one, coins));
                }
            }
            Err(reason) => decided.push((place, one, Err(reason))),
        }
    }
    let credits: Vec<_> = matched.iter().map(|(_, one, coins)| (&one.payment.key, coins)).collect();
    let credited = credit_all(connection, engine, app_no, &credits).await?;
    for ((place, one, coins), credited) in matched.into_iter().zip(credited) {
        match credited {
            PaymentCredit::Made(credited) => decided.push((place, one, Ok((coins, credited)))),
            PaymentCredit::Refused(why) => decided.push((place, one, Err(why.into()))),
            PaymentCredit::Elsewhere => {}
        }
    }
    settle_debts(connection, engine, (app_id, app_no), &mut decided).await?;
    sort_by_key(&mut decided);
    insert(connection, app_no, &decided).await?;
    let keys: Vec<_> = decided.iter().map(|(_, one, _)| &one.payment.key).collect();
    // Refunds that came first are looked up behind the rows: until then one may still be written.
    let waited_for = with_waiting(connection, app_no, &keys).await?;
    let mut ended = Vec::new();
    let written_at = entered_at(&decided);
    for (_, one, credited) in &mut decided {
        let key = &one.payment.key;
        match credited {
            Err(_) => tell_of_unmatched(connection, app_id.as_str(), key.as_text(), written_at).await?,
            Ok((coins, entry)) if waited_for.contains(key) => {
                let paid = one.payment.amount;
                let topup = CreditedTopup::new(paid, coins, entry);
                let (app, payment) = ((app_id, app_no), (key, paid));
                let of_payment = end_waiting(connection, engine, app, payment, Some(&topup)).await?;
                if let Some(purses) = purses_after(&of_payment) {
                    // The row has them, too, because a repeat is told what this answer tells.
                    (entry.free.1, entry.charge.1) = (purses.free(), purses.charge());
                    keep_purses(connection, app_no, key, purses).await?;
                }
                ended.extend(of_payment);
            }
            Ok(_) => {}
        }
    }
    log_ended(connection, (app_id, app_no), &ended).await?;
    Ok(decided.iter().map(|decided| (decided.0, first_report(decided))).collect())
}

/// What payments are compared with.
struct Counterparts {
    orders: HashMap<BizNo, PlacedOrder>,
    players: HashSet<OpenId>,
    prices: HashMap<PricedProductId, Price>,
}

impl Counterparts {
    async fn read(
        connection: &mut PgConnection,
        app_no: i32,
        told: &[(usize, &ToldPayment)],
    ) -> Result<Self> {
        let (mut orders, mut players, mut products) = (Vec::new(), Vec::new(), Vec::new());
        for (_, one) in told {
            match &one.payment.target {
                PaymentTarget::Order { biz_no, .. } => orders.push(biz_no),
                PaymentTarget::Product { open_id, product_id } => {
                    players.push(open_id);
                    products.push(product_id);
                }
            }
        }
        Ok(Self {
            orders: placed_orders(connection, app_no, &orders).await?,
            players: known_players(connection, app_no, &players).await?,
            prices: prices_of(connection, app_no, &products).await?,
        })
    }

    fn of(&self, target: &PaymentTarget) -> Counterpart {
        match target {
            PaymentTarget::Order { biz_no, .. } => Counterpart::Order(self.orders.get(biz_no).cloned()),
            PaymentTarget::Product { open_id, product_id } => Counterpart::Price {
                is_known: self.players.contains(open_id),
                price: self.prices.get(product_id).cloned(),
            },
        }
    }
}
