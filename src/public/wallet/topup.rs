//! `POST /api/{payment_segment}/minigame/topup`: a game server orders a top-up, which moves no coins (contract 19.2).

use axum::extract::{Request, State};
use axum::response::Response;
use domain::app::Scope;
use domain::caller::Signed;
use domain::examples::{BIZ_NO, PRICED};
use domain::ids::{AppId, BizNo};
use domain::text;
use domain::topup::{Currency, Offer, PricedProductId};
use domain::wallet::{OrderReceipt, WalletCall, WalletForm};
use schemars::JsonSchema;
use serde::Serialize;
use store::StoreError;
use tokio::time::Instant;

use super::describe::{self, IDEMPOTENCY, SIGNATURE, replayed};
use super::{WalletSuccess, answer};
use crate::config::Config;
use crate::http::refusal::{Code, Refusal};
use crate::openapi::{NOW_MILLIS, Operation, Success, refusals};
use crate::state::AppState;

refusals! { Refusal:
    /// The app does not sell the product.
    not_for_sale(product_id = PRICED) =>
        Refusal::new(Code::ProductNotForSale, text!(
            "product_id: the app does not sell {product_id}; the operator adds it with `minitill price set`",
            product_id
        ));
}

/// Orders a top-up.
///
/// # Errors
/// The codes of contract 7 that are marked topup or all.
pub async fn topup(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    super::carry_out(&state, WalletCall::Topup, request).await
}

/// The price of the ordered product in the app. `None` where it is not for sale.
pub(super) async fn offer(
    state: &AppState,
    signed: &Signed<WalletForm>,
    deadline: Instant,
) -> Result<Option<Offer>, StoreError> {
    // A text that can be no product is refused when the field is read.
    let product_id = signed.value().fields.text("product_id").map(PricedProductId::parse);
    let Some(Ok(product_id)) = product_id else { return Ok(None) };
    let ttl = i64::try_from(state.config.topup.order_ttl.as_secs()).unwrap_or(i64::MAX);
    let offer = state.store.offer(signed.app_no(), &product_id, ttl);
    tokio::time::timeout_at(deadline, offer).await.map_err(|_| StoreError::past_deadline())?
}

/// `data` of an order, for ever the same.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TopupOrder")]
#[serde(rename_all = "camelCase")]
struct OrderAnswer {
    /// The number of the order.
    #[schemars(with = "BizNo")]
    biz_no: String,
    #[serde(flatten)]
    figures: OrderFigures,
    /// Nothing has paid it.
    #[schemars(extend("enum" = ["created"]))]
    status: &'static str,
}

/// The terms that an order has fixed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OrderFigures {
    /// The product.
    #[schemars(with = "PricedProductId")]
    product_id: String,
    /// Code of the currency.
    currency: Currency,
    /// The money, in minor units.
    #[schemars(range(min = 1))]
    amount: i64,
    /// Charged coins that it brings.
    #[schemars(range(min = 0))]
    charge: i64,
    /// Gifted coins that it brings.
    #[schemars(range(min = 0))]
    bonus: i64,
    /// Until when it is shown as open, in Unix milliseconds of the server. It is paid all the same when money comes later.
    expire_time: i64,
}

impl OrderFigures {
    /// `created_at` in Unix milliseconds.
    pub(super) fn new(product_id: String, offer: Offer, created_at: i64) -> Self {
        let Offer { currency, amount, charge, bonus, ttl } = offer;
        let expire_time = created_at.saturating_add(ttl.saturating_mul(1_000));
        Self { product_id, currency, amount, charge, bonus, expire_time }
    }

    pub(super) fn is_expired(&self, now_millis: i64) -> bool {
        now_millis >= self.expire_time
    }
}

/// The answer of an order, the first one and each replay. Of a replay, what was sold is looked up.
pub(super) async fn answered(
    state: &AppState,
    app_id: &AppId,
    biz_no: String,
    ordered: OrderReceipt,
    sold: Option<(String, Offer)>,
) -> Result<Response, StoreError> {
    let (product_id, offer) = if let Some(sold) = sold {
        sold
    } else {
        let order = state.store.topup_order(app_id, ordered.item_id, &biz_no).await?;
        (order.product_id, order.offer)
    };
    let figures = OrderFigures::new(product_id, offer, ordered.created_at);
    Ok(answer(&OrderAnswer { biz_no, figures, status: "created" }))
}

/// Figures for examples.
pub(super) fn example_figures() -> OrderFigures {
    let currency = Currency::parse("CNY").expect("it is a code");
    let offer = Offer { currency, amount: 600, charge: 60, bonus: 6, ttl: 7_200 };
    OrderFigures::new(PRICED.to_owned(), offer, NOW_MILLIS)
}

/// The description of the order in the API's document.
pub(in crate::public) fn describe(config: &Config) -> Operation<Refusal> {
    let description = format!(
        "Orders a product of the app's list of prices. It moves no coins: the till credits them when a payment provider tells \
         that the order is paid. The price comes from the list, never from the caller. The app needs the scope \
         `topup`.\n\n{SIGNATURE}\n\n{IDEMPOTENCY}"
    );
    let order = OrderAnswer { biz_no: BIZ_NO.to_owned(), figures: example_figures(), status: "created" };
    describe::call(WalletCall::Topup, config, "Order a top-up", description)
        .answers(Success::json(
            "ordered",
            "60 charged and 6 gifted coins for 6 yuan.",
            &WalletSuccess::new(&order),
        ))
        .answers(replayed("The same request again: the first answer.", &order))
        .refuses(describe::refusals_of_numbers())
        .refuses([describe::scope_missing(Scope::Topup), example::not_for_sale()])
}
