//! Refunds of payments: each takes back once what the player owes for it, and records as debt what is spent (contract 19.5).

use domain::ids::AppId;
use domain::operator::Operator;
use domain::topup::NewRefund;
use serde::Serialize;

use crate::error::{OperationError, StoreError};
use crate::store::Store;

/// What became of a refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "TopupRefund")]
pub struct RefundReport {
    /// `refunded`: it was carried out. `waiting`: its payment is not credited yet. `refused`: it waited, and did not fit the
    /// payment. `unchanged`: the refunds have this sum already.
    #[schemars(extend("enum" = ["refunded", "waiting", "refused", "unchanged"]))]
    pub state: &'static str,
    /// The money of this refund, in minor units.
    pub amount: i64,
    /// The player. `null` while nothing was credited.
    #[schemars(with = "Option<domain::ids::OpenId>")]
    pub open_id: Option<String>,
    /// Gifted coins that were taken from the purse.
    pub free_taken: Option<i64>,
    /// Charged coins that were taken from the purse.
    pub charge_taken: Option<i64>,
    /// Gifted coins that became debt.
    pub free_debt: Option<i64>,
    /// Charged coins that became debt.
    pub charge_debt: Option<i64>,
    /// Gifted currency right after it.
    pub free_balance: Option<i64>,
    /// Charged currency right after it.
    pub charge_balance: Option<i64>,
    /// Whether it was told of before.
    pub replayed: bool,
}

impl Store {
    /// Refunds a payment, or a part of it, once for its key, for ever.
    ///
    /// # Errors
    /// There is no such app, the key was told of with another amount, the refunds would exceed the payment, the coins are spent
    /// and must not become debt, it needs a second person, or the database is away.
    #[expect(clippy::unused_async, reason = "the SQL follows")]
    pub async fn refund_payment(
        &self,
        _teller: &Operator,
        _app_id: &AppId,
        _refund: NewRefund,
    ) -> Result<RefundReport, OperationError> {
        Err(StoreError::Internal("refunds are not there yet".to_owned()).into())
    }
}
