//! The rows of payments: what was told first, and how a repeat is answered (contract 19.3).

#![expect(
    clippy::disallowed_methods,
    reason = "each session of a writer prepares the statement that writes, which checks it against the schema"
)]

use std::collections::BTreeMap;

use domain::ids::Os;
use domain::ids::{BizNo, OpenId};
use domain::operation::topup::payment_differs;
use domain::operator::{Operator, OperatorKind};
use domain::topup::{
    Coins, Currency, Payment, PaymentKey, PaymentProvider, PaymentState, PaymentTarget, PricedProductId,
    ProviderOrderId, UnmatchedReason,
};
use domain::wallet::Balances;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgConnection, Postgres};
use time::OffsetDateTime;
use tokio_postgres::types::ToSql;

use super::payment_credit::{CreditedPayment, DecidedPayment};
use crate::engine::Engine;
use crate::error::{Result, StoreError};
use crate::payment_queue::{PaymentOutcome, PaymentReport};

/// The reporter of a payment or refund, as its row names it.
pub(super) fn reporter_name(reporter: &Operator) -> String {
    format!("{} {}", reporter.kind().as_str(), reporter.name())
}

/// Kind and name of the reporter of a payment or refund, by the name in its row.
pub(super) fn split_reporter(told_by: &str) -> Option<(&str, &str)> {
    told_by.split_once(' ')
}

/// The reporter of a payment or refund, by the name in its row.
pub(super) fn reporter_of(told_by: &str) -> Option<Operator> {
    let (kind, name) = split_reporter(told_by)?;
    Operator::new(OperatorKind::parse(kind).ok()?, name).ok()
}

/// Declares the columns of the rows that are written, with their types in the order of the statement's parameters.
macro_rules! columns {
    ($($name:ident: $type:ty = $sql_type:literal,)+) => {
        /// The rows of payments, column by column.
        pub(super) struct PaymentRowColumns<'a> {
            app_no: i32,
            /// As the function of this name tells.
            entered_at: Option<OffsetDateTime>,
            $(pub(super) $name: $type,)+
        }

        /// Names and types of the columns.
        const COLUMNS: &[(&str, &str)] = &[$((stringify!($name), $sql_type)),+];

        impl<'a> PaymentRowColumns<'a> {
            /// The parameters of [`insert_statement`].
            pub(super) fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
                vec![&self.app_no, &self.entered_at, $(&self.$name),+]
            }

            fn bind(self, query: Query<'a, Postgres, PgArguments>) -> Query<'a, Postgres, PgArguments> {
                query.bind(self.app_no).bind(self.entered_at)$(.bind(self.$name))+
            }
        }
    };
}

columns! {
    provider: Vec<&'a str> = "text[]",
    provider_order_id: Vec<&'a str> = "text[]",
    currency: Vec<&'a str> = "text[]",
    amount: Vec<i64> = "bigint[]",
    biz_no: Vec<Option<&'a str>> = "text[]",
    open_id: Vec<Option<&'a str>> = "text[]",
    product_id: Vec<Option<&'a str>> = "text[]",
    paid_at: Vec<OffsetDateTime> = "timestamptz[]",
    os: Vec<Option<&'a str>> = "text[]",
    fee: Vec<Option<i64>> = "bigint[]",
    note: Vec<&'a str> = "text[]",
    told_by: Vec<String> = "text[]",
    state: Vec<&'a str> = "text[]",
    reason: Vec<Option<&'a str>> = "text[]",
    wallet_no: Vec<Option<i64>> = "bigint[]",
    seq: Vec<Option<i64>> = "bigint[]",
    charge: Vec<Option<i64>> = "bigint[]",
    bonus: Vec<Option<i64>> = "bigint[]",
    free_balance: Vec<Option<i64>> = "bigint[]",
    charge_balance: Vec<Option<i64>> = "bigint[]",
    credited_at: Vec<Option<OffsetDateTime>> = "timestamptz[]",
    paid_biz_no: Vec<Option<&'a str>> = "text[]",
    paid_product_id: Vec<Option<&'a str>> = "text[]",
}

impl<'a> PaymentRowColumns<'a> {
    pub(super) fn new(app_no: i32, rows: &'a [DecidedPayment<'a>]) -> Self {
        fn told<'a, T>(rows: &'a [DecidedPayment<'a>], value: impl Fn(&'a Payment) -> T) -> Vec<T> {
            rows.iter().map(|(_, one, _)| value(&one.payment)).collect()
        }
        fn paid<'a, T>(
            rows: &'a [DecidedPayment<'a>],
            value: impl Fn(&'a (Coins, CreditedPayment)) -> T,
        ) -> Vec<Option<T>> {
            rows.iter().map(|(_, _, credited)| credited.as_ref().ok().map(&value)).collect()
        }
        let paid_biz_no = paid(rows, |(coins, _)| coins.biz_no.as_ref().map(BizNo::as_str));
        Self {
            app_no,
            entered_at: entered_at(rows),
            provider: told(rows, |payment| payment.key.provider.as_str()),
            provider_order_id: told(rows, |payment| payment.key.provider_order_id.as_str()),
            currency: told(rows, |payment| payment.currency.as_str()),
            amount: told(rows, |payment| payment.amount),
            biz_no: told(rows, |payment| payment.target.biz_no().map(BizNo::as_str)),
            open_id: told(rows, |payment| payment.target.open_id().map(OpenId::as_str)),
            product_id: told(rows, |payment| payment.target.product_id().map(PricedProductId::as_str)),
            paid_at: told(rows, |payment| payment.paid_at),
            os: told(rows, |payment| payment.os.as_ref().map(Os::as_str)),
            fee: told(rows, |payment| payment.fee),
            note: told(rows, |payment| payment.note.as_str()),
            told_by: rows.iter().map(|(_, one, _)| reporter_name(&one.reporter)).collect(),
            state: rows.iter().map(|(_, _, credited)| state_of(credited.is_ok()).as_str()).collect(),
            reason: rows.iter().map(|(_, _, credited)| reason_of(credited)).collect(),
            wallet_no: paid(rows, |(_, entry)| entry.wallet_no),
            seq: paid(rows, |(_, entry)| entry.seq),
            charge: paid(rows, |(coins, _)| coins.charge),
            bonus: paid(rows, |(coins, _)| coins.bonus),
            free_balance: paid(rows, |(_, entry)| entry.free.1),
            charge_balance: paid(rows, |(_, entry)| entry.charge.1),
            credited_at: paid(rows, |(_, entry)| entry.at),
            paid_biz_no: paid_biz_no.into_iter().map(Option::flatten).collect(),
            paid_product_id: paid(rows, |(coins, _)| coins.product_id.as_str()),
        }
    }
}

/// Puts rows of payments into the order in which whoever writes several writes them, so that two of them do not wait for each
/// other.
pub(super) fn sort_by_key(rows: &mut [DecidedPayment<'_>]) {
    rows.sort_by(|(_, one, _), (_, other, _)| one.payment.key.cmp(&other.payment.key));
}

/// The time of the ledger entries of these payments, which is that of all their rows. `None` where none was credited: the begin
/// of the transaction stands for it.
pub(super) fn entered_at(rows: &[DecidedPayment<'_>]) -> Option<OffsetDateTime> {
    rows.iter().find_map(|(_, _, credited)| Some(credited.as_ref().ok()?.1.at))
}

/// Writes rows of payments. The first parameter is their app, the second is [`entered_at`]. The compiler does not check it.
/// Each session of a writer prepares it when it opens.
pub(super) fn insert_statement() -> String {
    let names = COLUMNS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let value =
        |(place, (_, sql_type)): (usize, &(&str, &str))| format!("unnest(${}::{sql_type})", place + 3);
    let values = COLUMNS.iter().enumerate().map(value).collect::<Vec<_>>().join(", ");
    format!(
        "INSERT INTO topup_payments (app_no, created_at, {names})
         SELECT $1::integer, coalesce($2::timestamptz, now()), {values}"
    )
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
    if rows.is_empty() {
        return Ok(());
    }
    let insert = PaymentRowColumns::new(app_no, rows).bind(sqlx::query(AssertSqlSafe(insert_statement())));
    insert.execute(connection).await.map(drop).map_err(again_if_taken)
}

/// Writes into the row of a payment the purses after all that its transaction did (contract 19.5.8).
pub(super) async fn keep_purses(
    connection: &mut PgConnection,
    app_no: i32,
    key: &PaymentKey,
    purses: Balances,
) -> Result<()> {
    let kept = sqlx::query!(
        "UPDATE topup_payments SET free_balance = $4, charge_balance = $5
         WHERE app_no = $1 AND provider = $2 AND provider_order_id = $3",
        app_no,
        key.provider.as_str(),
        key.provider_order_id.as_str(),
        purses.free(),
        purses.charge()
    );
    kept.execute(connection).await?;
    Ok(())
}

/// The first state of a payment.
const fn state_of(is_paid: bool) -> PaymentState {
    if is_paid { PaymentState::Paid } else { PaymentState::Unmatched }
}

/// The state of a payment, by the word in its row.
pub(super) fn stored_payment_state(word: &str) -> Result<PaymentState> {
    PaymentState::parse(word).map_err(|_| StoreError::damaged("topup_payments"))
}

fn reason_of(credited: &Result<(Coins, CreditedPayment), UnmatchedReason>) -> Option<&'static str> {
    credited.as_ref().err().map(|reason| reason.as_str())
}

fn paid_order(paid: Option<&(Coins, CreditedPayment)>) -> Option<&BizNo> {
    paid.and_then(|(coins, _)| coins.biz_no.as_ref())
}

/// A key that exists: another transaction has just written this payment, or paid its order.
pub(super) fn again_if_taken(error: sqlx::Error) -> StoreError {
    let is_taken = error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation);
    if is_taken { StoreError::Again } else { error.into() }
}

/// A payment as it was first reported.
pub(super) struct FirstTold {
    provider: String,
    provider_order_id: String,
    pub(super) currency: String,
    pub(super) amount: i64,
    pub(super) biz_no: Option<String>,
    pub(super) open_id: Option<String>,
    pub(super) product_id: Option<String>,
    state: String,
    reason: Option<String>,
    charge: Option<i64>,
    bonus: Option<i64>,
    free_balance: Option<i64>,
    charge_balance: Option<i64>,
    paid_biz_no: Option<String>,
    credited_to: Option<String>,
}

/// Those of these payments that were reported. It may have others of their providers, too.
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
        provider_order_id: ProviderOrderId::stored(provider_order_id).map_err(damaged)?,
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
            match first.open_id().filter(|player| player.is_pseudonym()) {
                // The player was erased. The provider still reports the old player.
                Some(player) => first.differs_in(&payment.target.clone().with_player(player)),
                None => first.differs_in(&payment.target),
            }
        };
        Ok(match other {
            None => Ok(self.report()),
            Some(field) => Err(payment_differs(payment.key.as_text(), field)),
        })
    }

    /// Its present state.
    pub(super) fn state(&self) -> Result<PaymentState> {
        stored_payment_state(&self.state)
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

    /// The first answer. A payment that was settled later was unmatched then.
    fn report(&self) -> PaymentReport {
        let is_paid = self.reason.is_none();
        let only_paid = |coins: Option<i64>| coins.filter(|_| is_paid);
        PaymentReport {
            state: state_of(is_paid),
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
        state: state_of(paid.is_some()),
        reason: reason_of(credited).map(str::to_owned),
        biz_no: biz_no.map(ToString::to_string),
        open_id: open_id.map(ToString::to_string),
        charge: coins.map(|coins| coins.charge),
        bonus: coins.map(|coins| coins.bonus),
        free_balance: entry.map(|entry| entry.free.1),
        charge_balance: entry.map(|entry| entry.charge.1),
        replayed: false,
    }
}
