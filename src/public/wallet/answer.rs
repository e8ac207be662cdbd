//! Answers of the calls of the wallet, as JSON (contract 3.4, 10.1.1 and 10.5.1).

use axum::http::StatusCode;
use axum::response::Response;
use domain::ids::BizNo;
use domain::ledger::REF_MARK;
use domain::wallet::{self, Balances, GivenBack, NumberChange, NumberKind, NumberState};
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::refusal::json_response;

/// A success (contract 3.4).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}Answer")]
pub(in crate::public) struct Answer<'a, T> {
    #[schemars(extend("enum" = [1]))]
    code: u8,
    #[schemars(extend("enum" = ["SUCCESS"]))]
    msg: &'static str,
    data: &'a T,
}

impl<'a, T> Answer<'a, T> {
    pub(in crate::public) fn new(data: &'a T) -> Self {
        Self { code: 1, msg: "SUCCESS", data }
    }
}

/// `data` of an exchange and of a present: the balances right after it, for ever the same.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Exchange")]
#[serde(rename_all = "camelCase")]
pub(crate) struct Receipt {
    /// The order number.
    #[schemars(with = "BizNo")]
    pub(crate) biz_no: String,
    /// Gifted currency.
    #[schemars(range(min = 0))]
    pub(crate) free_balance: i64,
    /// Charged currency.
    #[schemars(range(min = 0))]
    pub(crate) charge_balance: i64,
}

/// `data` of a cancel, for ever the same.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Cancel")]
#[serde(rename_all = "camelCase")]
pub(in crate::public) struct CancelReceipt {
    /// The number of the cancel.
    #[schemars(with = "BizNo")]
    pub(in crate::public) biz_no: String,
    /// The number of the exchange.
    #[schemars(with = "BizNo")]
    pub(in crate::public) pay_biz_no: String,
    /// Gifted currency that was given back.
    #[schemars(range(min = 0))]
    pub(in crate::public) free_refunded: i64,
    /// Charged currency that was given back.
    #[schemars(range(min = 0))]
    pub(in crate::public) charge_refunded: i64,
    /// What can still be given back of the exchange.
    #[schemars(range(min = 0))]
    pub(in crate::public) remaining: i64,
    /// Gifted currency after it.
    #[schemars(range(min = 0))]
    pub(in crate::public) free_balance: i64,
    /// Charged currency after it.
    #[schemars(range(min = 0))]
    pub(in crate::public) charge_balance: i64,
}

/// `data` of a balance.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Balance")]
#[serde(rename_all = "camelCase")]
pub(in crate::public) struct Purses {
    /// Gifted currency.
    #[schemars(range(min = 0))]
    pub(in crate::public) free_balance: i64,
    /// Charged currency.
    #[schemars(range(min = 0))]
    pub(in crate::public) charge_balance: i64,
}

/// `data` of a query. A closed number has `bizNo`, `kind`, `status` and `createTime` alone.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Query")]
#[serde(rename_all = "camelCase")]
pub(in crate::public) struct NumberAnswer {
    /// The number.
    #[schemars(with = "BizNo")]
    biz_no: String,
    /// What it was used for.
    #[schemars(extend("enum" = ["exchange", "present", "cancel", "closed"]))]
    kind: &'static str,
    /// An exchange is `paid`, `part_cancelled` or `cancelled`; a present or a cancel is `done`.
    #[schemars(extend("enum" = ["paid", "part_cancelled", "cancelled", "done", "closed"]))]
    status: &'static str,
    /// When, in Unix milliseconds of the server.
    create_time: i64,
    #[serde(flatten)]
    change: Option<ChangeAnswer>,
}

/// What a number has changed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ChangeAnswer {
    /// What was deducted, given or given back.
    #[schemars(range(min = 1))]
    amount: i64,
    /// Change of the gifted purse; a deduction is negative.
    free_change: i64,
    /// Change of the charged purse; a deduction is negative.
    charge_change: i64,
    /// Zone and role, as sent.
    zone_id: String,
    /// Name of what was bought. Only of an exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    product_name: Option<String>,
    /// The exchange that was given back. Only of a cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BizNo")]
    pay_biz_no: Option<String>,
    /// What can still be given back. Only of an exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    remaining: Option<i64>,
    /// What was given back, oldest first, at most 100. Only of an exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<CancelAnswer>")]
    cancels: Option<Vec<CancelAnswer>>,
    /// True when there are more cancels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    cancels_more: Option<bool>,
}

/// One cancel of an exchange.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
struct CancelAnswer {
    /// The number of the cancel, or the ref of an operator.
    biz_no: String,
    /// What it gave back.
    #[schemars(range(min = 1))]
    amount: i64,
    /// When, in Unix milliseconds of the server.
    create_time: i64,
}

impl From<Balances> for Purses {
    fn from(balances: Balances) -> Self {
        Self { free_balance: balances.free(), charge_balance: balances.charge() }
    }
}

impl From<NumberState> for NumberAnswer {
    fn from(NumberState { reference, created_at, change }: NumberState) -> Self {
        let (kind, status) = match &change {
            None => ("closed", "closed"),
            Some(NumberChange { kind: NumberKind::Exchange { remaining: 0, .. }, .. }) => {
                ("exchange", "cancelled")
            }
            Some(NumberChange { kind: NumberKind::Exchange { cancels, .. }, .. }) => {
                ("exchange", if cancels.is_empty() { "paid" } else { "part_cancelled" })
            }
            Some(NumberChange { kind: NumberKind::Present, .. }) => ("present", "done"),
            Some(NumberChange { kind: NumberKind::Cancel { .. }, .. }) => ("cancel", "done"),
        };
        let change = change.map(ChangeAnswer::from);
        Self { biz_no: reference, kind, status, create_time: created_at, change }
    }
}

impl From<NumberChange> for ChangeAnswer {
    fn from(NumberChange { kind, free_change, charge_change, zone_id }: NumberChange) -> Self {
        let answer = Self {
            amount: (free_change + charge_change).abs(),
            free_change,
            charge_change,
            zone_id,
            product_name: None,
            pay_biz_no: None,
            remaining: None,
            cancels: None,
            cancels_more: None,
        };
        match kind {
            NumberKind::Present => answer,
            NumberKind::Cancel { of } => Self { pay_biz_no: Some(of), ..answer },
            NumberKind::Exchange { product_name, remaining, cancels, has_more_cancels } => {
                let cancels = cancels.into_iter().map(|cancel| CancelAnswer {
                    biz_no: cancel.reference.trim_start_matches(REF_MARK).to_owned(),
                    amount: cancel.amount,
                    create_time: cancel.created_at,
                });
                Self {
                    product_name: Some(product_name),
                    remaining: Some(remaining),
                    cancels: Some(cancels.collect()),
                    cancels_more: has_more_cancels.then_some(true),
                    ..answer
                }
            }
        }
    }
}

pub(super) fn receipt_answer(receipt: wallet::Receipt) -> Response {
    let (free_balance, charge_balance) = (receipt.balances.free(), receipt.balances.charge());
    let biz_no = receipt.reference;
    match receipt.given_back {
        None => answer(&Receipt { biz_no, free_balance, charge_balance }),
        Some(GivenBack { of, free, charge, remaining }) => answer(&CancelReceipt {
            biz_no,
            pay_biz_no: of,
            free_refunded: free,
            charge_refunded: charge,
            remaining,
            free_balance,
            charge_balance,
        }),
    }
}

pub(super) fn answer(data: &impl Serialize) -> Response {
    json_response(StatusCode::OK, &Answer::new(data))
}
