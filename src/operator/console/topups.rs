//! Payments for top-ups: what waits for an operator, the list of an app, and the page of one payment with its settling,
//! which begins with a preview (contract 19.3).

use askama::Template;
use axum::extract::Path;
use axum::routing::{get, post};
use domain::fields::{FieldError, Fields};
use domain::ids::{AppId, BizNo, OpenId, Reason};
use domain::operation::topup::{SettlePayment, Settlement, unknown_payment};
use domain::rights::Need;
use domain::text;
use domain::topup::{
    PaymentKey, PaymentProvider, PaymentState, PlacedOrder, PricedProductId, ProviderOrderId, RefundState,
    TOLD_BY_PROVIDER, UnmatchedReason,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use store::{
    ConsumptionReport, ListedPrice, OpenTopupOrder, SettlementEffect, TopupCursor, TopupFilter, TopupRow,
    TopupsPage,
};

use super::currency::money;
use super::error::ConsoleError;
use super::i18n::{Moment as _, parse_moment, said, way};
use super::page::{Page, Section, Shown as _, render, render_search};
use super::player::{player_path, purses, signed};
use super::prices::prices_path;
use super::request::{Answer, ConsoleRequest, address, lead_to};
use super::route::{ConsoleRoute, routes};

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page(Section::TOPUPS.path).of_own_apps() => get(search);
    page("/console/apps/{app_id}/topups/{provider}/{provider_order_id}") => get(payment);
    change(Need::Money, "/console/apps/{app_id}/topups/{provider}/{provider_order_id}/settlement/check") => post(check);
    proven(Need::Money, "/console/apps/{app_id}/topups/{provider}/{provider_order_id}/settlement") => post(settle);
};

/// Payments on a page, and payments that wait.
const ROWS: u32 = 50;
/// What the page of a payment tells after its settlement.
const NOTICES: [(&str, &str); 2] = [
    ("paid", "The payment is credited."),
    ("paid_back", "The payment is marked as paid back. Nothing was credited."),
];

/// The path of the page of a payment.
fn row_path(row: &TopupRow) -> String {
    payment_path(&row.app_id, &row.provider, &row.provider_order_id)
}

/// The path of the page of the payment with this key.
pub(super) fn payment_path(app_id: &str, provider: &str, provider_order_id: &str) -> String {
    let id = utf8_percent_encode(provider_order_id, NON_ALPHANUMERIC);
    format!("/console/apps/{app_id}/topups/{provider}/{id}")
}

/// The state of a payment in words, and its style class. Its refunds count where it was credited.
fn shown_state(row: &TopupRow) -> [&'static str; 2] {
    let refunded = row.refunded();
    match row.state {
        PaymentState::Paid if refunded >= row.amount => ["Refunded", ""],
        PaymentState::Paid if refunded > 0 => ["Partly refunded", ""],
        PaymentState::Paid => ["Credited", "good"],
        PaymentState::Unmatched => ["Unmatched", "bad"],
        PaymentState::PaidBack => ["Paid back", ""],
    }
}

/// The state of a refund in words, and its style class.
const fn shown_refund_state(state: RefundState) -> [&'static str; 2] {
    match state {
        // What changed nothing has no row. Its sum is refunded.
        RefundState::Refunded | RefundState::Unchanged => ["Refunded", ""],
        RefundState::Waiting => ["Waits", "bad"],
        RefundState::Refused => ["Refused", "bad"],
    }
}

/// What refunds and settlements of debt took back of the charged coins.
fn taken_back(used: &ConsumptionReport) -> i64 {
    used.charge.saturating_sub(used.used).saturating_sub(used.unused)
}

/// The reporter of a payment: the name, and the way.
fn reporter(row: &TopupRow) -> String {
    let (kind, name) = row.reporter();
    format!("{name}, {}", crate::word(way(kind)))
}

/// A reason as the page shows it. What the till itself has written has a twin; what a person wrote stays.
pub(super) fn shown_reason(reason: &str) -> String {
    if reason == TOLD_BY_PROVIDER { crate::word(reason) } else { reason.to_owned() }
}

/// The page of the player with the ledger entry of a payment.
fn entry_path(row: &TopupRow) -> Option<String> {
    let number = format!("{}/{}", row.provider, row.provider_order_id);
    Some(address(
        &player_path(&row.app_id, row.open_id.as_ref()?),
        &Fields::default(),
        &[("number", &number)],
    ))
}

/// Why a payment fitted nothing, and what to do about it. `names_order` tells whether it names an order.
fn reason_words(reason: &str, names_order: bool) -> [&'static str; 2] {
    let Ok(reason) = UnmatchedReason::parse(reason) else { return ["", ""] };
    let if_right = if names_order {
        "Credit the order if the money is right, or pay it back."
    } else {
        "Credit the player if the money is right, or pay it back."
    };
    match reason {
        UnmatchedReason::UnknownOrder => [
            "No order has this number.",
            "Ask the payment server which player and product it is for, and credit them.",
        ],
        UnmatchedReason::OrderPaid => [
            "Another payment has paid the order.",
            "The player paid twice. Pay the money back, or credit the product once more.",
        ],
        UnmatchedReason::OtherPlayer => {
            ["The order is another player's.", "Find out who paid, and credit that player."]
        }
        UnmatchedReason::OtherProduct => [
            "The order is of another product.",
            "Compare the order with the price, and credit what was paid.",
        ],
        UnmatchedReason::OtherCurrency => ["The order or the price has another currency.", if_right],
        UnmatchedReason::OtherAmount => ["The order or the price has another amount.", if_right],
        UnmatchedReason::UnknownPlayer => [
            "The app does not know this player.",
            "Check the spelling. A login registers a player; then credit the payment. If the player was erased, pay the money back or credit the new player.",
        ],
        UnmatchedReason::UnknownProduct => {
            ["The app does not sell this product.", "Add it to the prices, or credit another product."]
        }
        UnmatchedReason::PurseFull => {
            ["A purse would hold more than 64 bits.", "Debit the player first, or pay the money back."]
        }
    }
}

#[derive(Template)]
#[template(path = "topups.html")]
struct TopupSearchPage<'a> {
    page: Page<'a>,
    /// What waits for an operator in all apps of the user, oldest first.
    waiting: &'a [TopupRow],
    /// How many more there are.
    more_waiting: i64,
    /// The app of the list.
    app_id: Option<&'a AppId>,
    found: Option<&'a TopupsPage>,
    /// Orders of the player of the list that no payment has paid.
    open: &'a [OpenTopupOrder],
    next: Option<String>,
}

async fn search(request: ConsoleRequest) -> Answer {
    let store = &request.state.store;
    let mut filters = request.filters();
    let asked = filters.read("app_id", AppId::parse);
    let filter = TopupFilter {
        unmatched: false,
        open_id: filters.read("open_id", OpenId::parse),
        since: filters.read("from", parse_moment),
        until: filters.read("to", parse_moment),
    };
    let after = TopupCursor::parse(request.text("after")).ok();
    let mut wrong = filters.wrong;
    let page = request.search_page(Section::TOPUPS).await?;
    if let Some(app_id) = asked.as_ref().filter(|asked| page.apps.iter().all(|app| app.app_id != **asked)) {
        return Err(ConsoleError::no_such_app(app_id.as_str()));
    }
    // Whoever has one app chooses none.
    let only = match page.apps.as_slice() {
        [only] => Some(only.app_id.clone()),
        _ => None,
    };
    let app_id = asked.or(only);
    let names_no_app = app_id.is_none() && request.text("app_id").is_empty();
    if names_no_app && ["open_id", "from", "to"].iter().any(|name| !request.text(name).is_empty()) {
        wrong.push(FieldError::malformed(
            "app_id",
            text!("an app, because payments are searched by app"),
            "",
        ));
    }
    let page = page.marking(&wrong);
    let found = match &app_id {
        Some(app_id) if wrong.is_empty() => Some(store.topups(app_id, &filter, after.as_ref(), ROWS).await?),
        _ => None,
    };
    let open = match (&app_id, &filter.open_id) {
        (Some(app_id), Some(open_id)) if after.is_none() && wrong.is_empty() => {
            store.open_topup_orders((app_id, open_id), ROWS).await?
        }
        _ => Vec::new(),
    };
    let waiting = store.waiting_payments(request.apps(), ROWS).await?;
    let count = if waiting.is_empty() { 0 } else { store.unmatched_payments(request.apps()).await? };
    let shown = TopupSearchPage {
        page,
        more_waiting: count.saturating_sub(i64::try_from(waiting.len()).unwrap_or(i64::MAX)),
        waiting: &waiting,
        app_id: app_id.as_ref(),
        next: request.next(found.as_ref().and_then(|found| found.next.as_ref())),
        found: found.as_ref(),
        open: &open,
    };
    render_search(&shown, &wrong)
}

#[derive(Template)]
#[template(path = "topup.html")]
struct TopupPage<'a> {
    page: Page<'a>,
    payment: &'a TopupRow,
    /// What was used of it. `None` where nothing was credited.
    used: Option<&'a ConsumptionReport>,
    /// What the app sells: a settlement may credit one of them.
    prices: &'a [ListedPrice],
    /// The order that it has paid, or that it names.
    order: Option<&'a PlacedOrder>,
    /// What it was compared with, where it fitted nothing.
    compared: Option<String>,
}

impl TopupPage<'_> {
    /// Whether the order is one of an erased player: a settlement credits it to nobody.
    fn has_erased_order(&self) -> bool {
        self.order.is_some_and(|order| order.open_id.is_pseudonym())
    }

    /// Whether the player was erased whom the payment names, or who made its order.
    fn is_of_erased(&self) -> bool {
        let named = self.payment.open_id.as_deref().and_then(|named| OpenId::parse(named).ok());
        self.has_erased_order() || named.is_some_and(|player| player.is_pseudonym())
    }
}

/// The order or the price that a payment was compared with, beside the money that came.
fn compared(payment: &TopupRow, order: Option<&PlacedOrder>, prices: &[ListedPrice]) -> Option<String> {
    if let Some(biz_no) = &payment.biz_no {
        return Some(beside_order(payment, biz_no, order?));
    }
    let product_id = payment.product_id.as_ref()?;
    let sold = prices.iter().find(|price| price.product_id == *product_id)?;
    Some(beside_price(payment, sold))
}

fn beside_order(payment: &TopupRow, biz_no: &str, order: &PlacedOrder) -> String {
    let PlacedOrder { open_id, product_id, currency, amount, .. } = order;
    let (price, came) = (money(currency.as_str(), *amount), money(&payment.currency, payment.amount));
    said(&text!(
        "Order {biz_no} of {open_id}: {product_id}, {price}. Came: {came}.",
        biz_no,
        open_id,
        product_id,
        price,
        came
    ))
}

fn beside_price(payment: &TopupRow, sold: &ListedPrice) -> String {
    let (price, came) = (money(&sold.currency, sold.amount), money(&payment.currency, payment.amount));
    let product_id = &sold.product_id;
    said(&text!("Price of {product_id}: {price}. Came: {came}.", product_id, price, came))
}

type PaymentNames = Path<(String, String, String)>;

async fn payment(Path(names): PaymentNames, request: ConsoleRequest) -> Answer {
    let (app_id, key, payment) = find(&request, &names).await?;
    let used = if payment.state == PaymentState::Paid {
        Some(request.state.store.consumption(&app_id, &key).await?)
    } else {
        None
    };
    let is_open = payment.state == PaymentState::Unmatched;
    let prices = if is_open { request.state.store.prices(&app_id).await?.prices } else { Vec::new() };
    let order = match payment.biz_no.as_deref().map(BizNo::parse) {
        Some(Ok(biz_no)) => request.state.store.placed_topup_order(&app_id, &biz_no).await?,
        _ => None,
    };
    let title = text!("Payment {payment}", payment = &payment.provider_order_id);
    let page = Page { notice: request.notice(NOTICES), ..request.page(Section::TOPUPS, title) };
    render(&TopupPage {
        page,
        payment: &payment,
        used: used.as_ref(),
        prices: &prices,
        order: order.as_ref(),
        compared: compared(&payment, order.as_ref(), &prices).filter(|_| is_open),
    })
}

/// The payment in an address.
async fn find(
    request: &ConsoleRequest,
    (app_id, provider, id): &(String, String, String),
) -> Result<(AppId, PaymentKey, TopupRow), ConsoleError> {
    let named = format!("{provider}/{id}");
    let unknown = || unknown_payment(app_id, &named);
    let app = AppId::parse(app_id).map_err(|_| unknown())?;
    let key = PaymentKey {
        provider: PaymentProvider::parse(provider).map_err(|_| unknown())?,
        provider_order_id: ProviderOrderId::stored(id).map_err(|_| unknown())?,
    };
    let row = request.state.store.topup(&app, &key).await?;
    Ok((app, key, row.ok_or_else(unknown)?))
}

/// The fields of the form of a settlement.
const SETTLEMENT_FIELDS: [&str; 5] = ["action", "biz_no", "open_id", "product_id", "reason"];

/// The settlement that the form requests.
fn wanted(request: &ConsoleRequest) -> Result<SettlePayment, ConsoleError> {
    let fields = &request.fields;
    let settlement = match request.text("action") {
        "order" => Settlement::CreditOrder(
            fields
                .required("biz_no", BizNo::parse)
                .map_err(|error| ConsoleError::labelled("Number of the order", error))?,
        ),
        "player" => Settlement::CreditPlayer(
            fields.required("open_id", OpenId::parse)?,
            fields.required("product_id", PricedProductId::parse)?,
        ),
        "paid_back" => Settlement::PaidBack,
        other => {
            let error = FieldError::malformed("action", "what becomes of the payment", other);
            return Err(ConsoleError::labelled("Resolution", error));
        }
    };
    Ok(SettlePayment { settlement, reason: fields.required("reason", Reason::parse)? })
}

#[derive(Template)]
#[template(path = "topup_check.html")]
struct TopupCheckPage<'a> {
    page: Page<'a>,
    payment: &'a TopupRow,
    effect: &'a SettlementEffect,
    /// Whether debt or refunds that waited take some of the coins.
    takes_back: bool,
    /// The price of what is credited, beside the money that came, where they differ.
    difference: Option<String>,
}

/// The price of what a settlement credits, beside the money that came. `None` where they are the same.
async fn difference(
    request: &ConsoleRequest,
    app_id: &AppId,
    payment: &TopupRow,
    settlement: &Settlement,
) -> Result<Option<String>, ConsoleError> {
    let store = &request.state.store;
    let differs =
        |currency: &str, amount: i64| currency != payment.currency.as_str() || amount != payment.amount;
    match settlement {
        Settlement::PaidBack => Ok(None),
        Settlement::CreditOrder(biz_no) => {
            let order = store.placed_topup_order(app_id, biz_no).await?;
            let order = order.filter(|order| differs(order.currency.as_str(), order.amount));
            Ok(order.map(|order| beside_order(payment, biz_no.as_str(), &order)))
        }
        Settlement::CreditPlayer(_, product_id) => {
            let prices = store.prices(app_id).await?.prices;
            let sold = prices.iter().find(|price| price.product_id == product_id.as_str());
            let sold = sold.filter(|sold| differs(&sold.currency, sold.amount));
            Ok(sold.map(|sold| beside_price(payment, sold)))
        }
    }
}

/// Shows a preview. Nothing changes.
async fn check(Path(names): PaymentNames, request: ConsoleRequest) -> Answer {
    let (app_id, key, payment) = find(&request, &names).await?;
    let command = wanted(&request)?;
    let operator = request.operator()?;
    let difference = difference(&request, &app_id, &payment, &command.settlement).await?;
    let effect = request.state.store.foresee_settlement(&operator, &app_id, key, command).await?;
    let brought = (effect.settled.bonus, effect.settled.charge);
    let title = text!("Settle payment {payment}?", payment = &payment.provider_order_id);
    render(&TopupCheckPage {
        page: request.page(Section::TOPUPS, title),
        payment: &payment,
        effect: &effect,
        takes_back: effect.purses.is_some_and(|made| (made.free_change, made.charge_change) != brought),
        difference,
    })
}

async fn settle(Path(names): PaymentNames, request: ConsoleRequest) -> Answer {
    let (app_id, key, payment) = find(&request, &names).await?;
    let command = wanted(&request)?;
    let settled = request.state.store.settle_payment(&request.operator()?, &app_id, key, command).await?;
    lead_to(&format!("{}?done={}", row_path(&payment), settled.state))
}
