//! The rows of payments: what was told first, and how a repeat is answered (contract 19.3).

use std::collections::BTreeMap;

use domain::ids::{BizNo, OpenId};
use domain::operation::topup::payment_differs;
use domain::operator::{Operator, OperatorKind};
use domain::topup::{
    Coins, Currency, Payment, PaymentKey, PaymentProvider, PaymentTarget, PricedProductId, ProviderOrderId,
    UnmatchedReason,
};
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::payment_credit::{CreditedPayment, DecidedPayment};
use crate::engine::Engine;
use crate::error::{Result, StoreError};
use crate::payment_queue::{PaymentOutcome, PaymentReport};
use crate::pseudonym::is_pseudonym;

/// Who told of something, as its row names them.
pub(super) fn teller_name(teller: &Operator) -> String {
    format!("{} {}", teller.kind().as_str(), teller.name())
}

/// Who told of something, by the name in its row.
pub(super) fn teller_of(told_by: &str) -> Option<Operator> {
    let (kind, name) = told_by.split_once(' ')?;
    Operator::new(OperatorKind::parse(kind).ok()?, name).ok()
}

/// Writes the rows of payments, in this order.
///
/// # Errors
/// `Again` when another transaction has written one of them, or has paid the same order.
pub(super) async fn insert(
    connection: &mut PgConnection,
    app_no: i32,
    rows: &[DecidedPayment<'_>],
) -> Result<()> {
    fn column<'a, T>(
        rows: &'a [DecidedPayment<'_>],
        value: impl Fn(&'a Payment, Option<&'a (Coins, CreditedPayment)>) -> T,
    ) -> Vec<T> {
        rows.iter().map(|(_, one, credited)| value(&one.payment, credited.as_ref().ok())).collect()
    }
    if rows.is_empty() {
        return Ok(());
    }
    let text = |text: &str| text.to_owned();
    let credited_at = rows.iter().find_map(|(_, _, credited)| Some(credited.as_ref().ok()?.1.at));
    let inserted = sqlx::query!(
        "INSERT INTO topup_payments (app_no, provider, provider_order_id, currency, amount, biz_no, open_id, product_id,
             paid_at, os, fee, note, told_by, created_at, state, reason, wallet_no, seq, charge, bonus, free_balance,
             charge_balance, credited_at, paid_biz_no, paid_product_id)
         SELECT $1, unnest($2::text[]), unnest($3::text[]), unnest($4::text[]), unnest($5::bigint[]), unnest($6::text[]),
             unnest($7::text[]), unnest($8::text[]), unnest($9::timestamptz[]), unnest($10::text[]), unnest($11::bigint[]),
             unnest($12::text[]), unnest($13::text[]), coalesce($25, clock_timestamp()), unnest($14::text[]),
             unnest($15::text[]), unnest($16::bigint[]), unnest($17::bigint[]), unnest($18::bigint[]), unnest($19::bigint[]),
             unnest($20::bigint[]), unnest($21::bigint[]), unnest($22::timestamptz[]), unnest($23::text[]),
             unnest($24::text[])",
        app_no,
        &column(rows, |payment, _| text(payment.key.provider.as_str())),
        &column(rows, |payment, _| text(payment.key.provider_order_id.as_str())),
        &column(rows, |payment, _| text(payment.currency.as_str())),
        &column(rows, |payment, _| payment.amount),
        &column(rows, |payment, _| payment.target.biz_no().map(ToString::to_string)) as &[Option<String>],
        &column(rows, |payment, _| payment.target.open_id().map(ToString::to_string)) as &[Option<String>],
        &column(rows, |payment, _| payment.target.product_id().map(ToString::to_string)) as &[Option<String>],
        &column(rows, |payment, _| payment.paid_at),
        &column(rows, |payment, _| payment.os.as_ref().map(ToString::to_string)) as &[Option<String>],
        &column(rows, |payment, _| payment.fee) as &[Option<i64>],
        &column(rows, |payment, _| payment.note.clone()),
        &rows.iter().map(|(_, one, _)| teller_name(&one.teller)).collect::<Vec<_>>(),
        &column(rows, |_, paid| text(if paid.is_some() { "paid" } else { "unmatched" })),
        &rows.iter().map(|(_, _, credited)| reason_of(credited)).collect::<Vec<_>>() as &[Option<String>],
        &column(rows, |_, paid| paid.map(|(_, entry)| entry.wallet_no)) as &[Option<i64>],
        &column(rows, |_, paid| paid.map(|(_, entry)| entry.seq)) as &[Option<i64>],
        &column(rows, |_, paid| paid.map(|(coins, _)| coins.charge)) as &[Option<i64>],
        &column(rows, |_, paid| paid.map(|(coins, _)| coins.bonus)) as &[Option<i64>],
        &column(rows, |_, paid| paid.map(|(_, entry)| entry.free.1)) as &[Option<i64>],
        &column(rows, |_, paid| paid.map(|(_, entry)| entry.charge.1)) as &[Option<i64>],
        &column(rows, |_, paid| paid.map(|(_, entry)| entry.at)) as &[Option<OffsetDateTime>],
        &column(rows, |_, paid| paid_order(paid).map(ToString::to_string)) as &[Option<String>],
        &column(rows, |_, paid| paid.map(|(coins, _)| coins.product_id.to_string())) as &[Option<String>],
        credited_at
    );
    inserted.execute(connection).await.map(drop).map_err(again_if_taken)
}

fn reason_of(credited: &Result<(Coins, CreditedPayment), UnmatchedReason>) -> Option<String> {
    credited.as_ref().err().map(|reason| reason.as_str().to_owned())
}

fn paid_order(paid: Option<&(Coins, CreditedPayment)>) -> Option<&BizNo> {
    paid.and_then(|(coins, _)| coins.biz_no.as_ref())
}

/// A key that exists: another transaction has just written this payment, or paid its order.
pub(super) fn again_if_taken(error: sqlx::Error) -> StoreError {
    let is_taken = error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation);
    if is_taken { StoreError::Again } else { error.into() }
}

/// A payment as it was first told of.
pub(super) struct FirstTold {
    provider: String,
    provider_order_id: String,
    pub(super) currency: String,
    pub(super) amount: i64,
    pub(super) biz_no: Option<String>,
    pub(super) open_id: Option<String>,
    pub(super) product_id: Option<String>,
    pub(super) state: String,
    reason: Option<String>,
    charge: Option<i64>,
    bonus: Option<i64>,
    free_balance: Option<i64>,
    charge_balance: Option<i64>,
    paid_biz_no: Option<String>,
    credited_to: Option<String>,
}

/// Those of these payments that somebody has told of. It may have others of their providers, too.
pub(super) async fn first_told(
    connection: &mut PgConnection,
    engine: Engine,
    app_no: i32,
    keys: &[&PaymentKey],
) -> Result<BTreeMap<PaymentKey, FirstTold>> {
    let (providers, ids) = key_columns(keys);
    macro_rules! told {
        ($from:literal) => {
            sqlx::query_as!(
                FirstTold,
                r#"SELECT p.provider, p.provider_order_id, p.currency, p.amount, p.biz_no, p.open_id, p.product_id, p.state,
                       p.reason, p.charge, p.bonus, p.free_balance, p.charge_balance, p.paid_biz_no, w.open_id AS "credited_to?"
                   "# + $from,
                app_no,
                &providers,
                &ids
            )
            .fetch_all(connection)
            .await?
        };
    }
    let rows = match engine {
        // With OFFSET 0, each key is looked up by itself. Otherwise PostgreSQL may read all payments of the app, and compare
        // each with the keys.
        Engine::Postgres => told!(
            "FROM unnest($2::text[], $3::text[]) AS k (provider, provider_order_id)
             CROSS JOIN LATERAL (
                 SELECT * FROM topup_payments p
                 WHERE p.app_no = $1 AND p.provider = k.provider AND p.provider_order_id = k.provider_order_id OFFSET 0) p
             LEFT JOIN wallets w ON w.app_no = p.app_no AND w.wallet_no = p.wallet_no"
        ),
        // Citus does not send such an OFFSET to the node of the app.
        Engine::Citus => told!(
            "FROM topup_payments p LEFT JOIN wallets w ON w.app_no = p.app_no AND w.wallet_no = p.wallet_no
             WHERE p.app_no = $1 AND p.provider = ANY ($2) AND p.provider_order_id = ANY ($3)"
        ),
    };
    rows.into_iter().map(|row| Ok((key_of(&row.provider, &row.provider_order_id)?, row))).collect()
}

/// The columns of these keys.
pub(super) fn key_columns(keys: &[&PaymentKey]) -> (Vec<String>, Vec<String>) {
    keys.iter().map(|key| (key.provider.to_string(), key.provider_order_id.to_string())).unzip()
}

/// The key of a payment that has a row.
pub(super) fn key_of(provider: &str, provider_order_id: &str) -> Result<PaymentKey> {
    let damaged = |_| StoreError::damaged("topup_payments");
    Ok(PaymentKey {
        provider: PaymentProvider::parse(provider).map_err(damaged)?,
        provider_order_id: ProviderOrderId::parse(provider_order_id).map_err(damaged)?,
    })
}

impl FirstTold {
    /// The answer to a repeat: that of the first time, for the same content.
    pub(super) fn repeated(&self, payment: &Payment) -> Result<PaymentOutcome> {
        let other = if Currency::parse(&self.currency) != Ok(payment.currency) {
            Some("currency")
        } else if self.amount != payment.amount {
            Some("amount")
        } else {
            let first = self.target()?;
            match first.open_id().filter(|player| is_pseudonym(player)) {
                // The player was erased: the provider still tells of the one who was.
                Some(player) => first.differs_in(&payment.target.clone().with_player(player)),
                None => first.differs_in(&payment.target),
            }
        };
        Ok(match other {
            None => Ok(self.report()),
            Some(field) => Err(payment_differs(payment.key.as_text(), field)),
        })
    }

    fn target(&self) -> Result<PaymentTarget> {
        fn parsed<T>(
            text: Option<&String>,
            parse: fn(&str) -> Result<T, domain::fields::Expected>,
        ) -> Result<Option<T>> {
            let parsed = text.map(|text| parse(text)).transpose();
            parsed.map_err(|_| StoreError::damaged("topup_payments"))
        }
        let target = PaymentTarget::of(
            parsed(self.biz_no.as_ref(), BizNo::parse)?,
            parsed(self.open_id.as_ref(), OpenId::parse)?,
            parsed(self.product_id.as_ref(), PricedProductId::parse)?,
        );
        target.ok_or_else(|| StoreError::damaged("topup_payments"))
    }

    /// What was answered first. A payment that was settled later was unmatched then.
    fn report(&self) -> PaymentReport {
        let is_paid = self.reason.is_none();
        let only_paid = |coins: Option<i64>| coins.filter(|_| is_paid);
        PaymentReport {
            state: if is_paid { "paid" } else { "unmatched" },
            reason: self.reason.clone(),
            biz_no: if is_paid { &self.paid_biz_no } else { &self.biz_no }.clone(),
            open_id: if is_paid { &self.credited_to } else { &self.open_id }.clone(),
            charge: only_paid(self.charge),
            bonus: only_paid(self.bonus),
            free_balance: only_paid(self.free_balance),
            charge_balance: only_paid(self.charge_balance),
            replayed: true,
        }
    }
}

/// The first answer about a payment.
pub(super) fn first_report((_, one, credited): &DecidedPayment<'_>) -> PaymentReport {
    let (target, paid) = (&one.payment.target, credited.as_ref().ok());
    let (coins, entry) = (paid.map(|(coins, _)| coins), paid.map(|(_, entry)| entry));
    let biz_no = if paid.is_some() { paid_order(paid) } else { target.biz_no() };
    let open_id = coins.map_or_else(|| target.open_id(), |coins| Some(&coins.open_id));
    PaymentReport {
        state: if paid.is_some() { "paid" } else { "unmatched" },
        reason: reason_of(credited),
        biz_no: biz_no.map(ToString::to_string),
        open_id: open_id.map(ToString::to_string),
        charge: coins.map(|coins| coins.charge),
        bonus: coins.map(|coins| coins.bonus),
        free_balance: entry.map(|entry| entry.free.1),
        charge_balance: entry.map(|entry| entry.charge.1),
        replayed: false,
    }
}
