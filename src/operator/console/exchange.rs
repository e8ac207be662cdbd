//! The page of one exchange.

use askama::Template;
use axum::extract::Path;
use axum::routing::get;
use domain::fields::{Expected, Fields};
use domain::ids::{AppId, BizNo};
use domain::ledger::EXCHANGE;
use domain::moment;
use domain::product_info::Item;
use domain::text;
use domain::topup::{PROVIDER_BYTES_MAX, PROVIDER_ORDER_ID_BYTES_MAX, REFUND_ID_BYTES_MAX};
use domain::wallet::Repeat;
use store::{ChangeRecord, ExchangeRecord, NumberRecord, ReferenceMatch};

use super::change_notice::change_notice;
use super::error::ConsoleError;
use super::i18n::{Moment as _, said};
use super::page::{Page, Section, Shown, render};
use super::player::player_path;
use super::refused::{self, asked_in_words, code_in_words, purses_in_words};
use super::request::{Answer, ConsoleRequest, address};
use super::route::{ConsoleRoute, routes};
use crate::public::wallet::exchange::BalancesAfter;
use crate::state::AppState;

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page("/console/apps/{app_id}/exchanges/{biz_no}") => get(exchange);
};

/// Longest search text in bytes: the longest `ref`, which a refund has: its payment as `PROVIDER/ID`, and its own id.
pub(super) const NUMBER_BYTES_MAX: usize =
    PROVIDER_BYTES_MAX + 1 + PROVIDER_ORDER_ID_BYTES_MAX + 1 + REFUND_ID_BYTES_MAX;

/// Parses a `biz_no`, a `ref` or any other number.
pub(super) fn parse_number(text: &str) -> Result<String, Expected> {
    let fits = (1..=NUMBER_BYTES_MAX).contains(&text.len());
    let expected = || Expected(text!("at most {bytes_max} bytes", bytes_max = NUMBER_BYTES_MAX));
    fits.then(|| text.to_owned()).ok_or_else(expected)
}

/// The page of an exchange. For a credit, the page of the player with that ledger entry.
pub(super) fn path_of(found: &ReferenceMatch) -> String {
    let app_id = &found.app_id;
    if found.kind == EXCHANGE {
        return exchange_path(app_id, &found.reference);
    }
    address(&player_path(app_id, &found.open_id), &Fields::default(), &[("number", &found.reference)])
}

/// The path of the page of an exchange.
pub(super) fn exchange_path(app_id: &str, biz_no: &str) -> String {
    format!("/console/apps/{app_id}/exchanges/{biz_no}")
}

/// The exchange in an address.
pub(super) async fn find_exchange(
    state: &AppState,
    (app_id, biz_no): &(String, String),
    with_user_ip: bool,
) -> Result<ExchangeRecord, ConsoleError> {
    let none = || no_exchange(app_id, biz_no);
    let (Ok(app), Ok(number)) = (AppId::parse(app_id), BizNo::parse(biz_no)) else { return Err(none()) };
    state.store.exchange(&app, &number, with_user_ip).await?.ok_or_else(none)
}

pub(super) fn no_exchange(app_id: &str, biz_no: &str) -> ConsoleError {
    ConsoleError::not_found(text!(
        "The app {app_id} has no exchange with the biz_no {biz_no}, and no refusal of it in the last 30 days.",
        app_id,
        biz_no
    ))
}

fn order_of_topup(app_id: &AppId, biz_no: &str) -> ConsoleError {
    ConsoleError::not_found(text!(
        "The app {app_id} has no exchange with the biz_no {biz_no}, and no refusal of it in the last 30 days; {biz_no} is \
         an order of a top-up.",
        app_id,
        biz_no
    ))
}

#[derive(Template)]
#[template(path = "exchange.html")]
struct ExchangeTemplate<'a> {
    page: Page<'a>,
    record: &'a ExchangeRecord,
    /// The balances of both currencies, unless the exchange is archived: before, change, after.
    balances: Option<[[String; 4]; 2]>,
    /// `data` of the answer, unless the exchange is archived.
    data: Option<String>,
}

async fn exchange(Path((app_id, biz_no)): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let none = || no_exchange(&app_id, &biz_no);
    let (Ok(app_id), Ok(number)) = (AppId::parse(&app_id), BizNo::parse(&biz_no)) else { return Err(none()) };
    // The IP address of the player is personal data, which only admins see.
    let found = request.state.store.number(&app_id, &number, request.user.is_admin()).await?;
    let Some(found) = found else {
        // A top-up has no exchange, and its order was signed well.
        let order = request.state.store.placed_topup_order(&app_id, &number).await?;
        return Err(if order.is_some() { order_of_topup(&app_id, &biz_no) } else { none() });
    };
    let record = match found {
        NumberRecord::Exchange(record) => record,
        NumberRecord::Refused(number) => return refused::page_of(&request, &app_id, &number).await,
    };
    let is_here = |change: &ChangeRecord| change.of_biz_no.as_ref() == Some(&record.biz_no);
    let notice = change_notice(&request, &app_id, is_here).await?;
    let balances = record.free_balance.zip(record.charge_balance);
    let balances_shown = balances.map(|(free, charge)| {
        [("Gifted", free, record.free_change), ("Charged", charge, record.charge_change)].map(
            |(currency, after, change)| {
                let before = after.saturating_sub(change).shown();
                [currency.to_owned(), before, change.shown(), after.shown()]
            },
        )
    });
    let receipt = balances.map(|(free_balance, charge_balance)| BalancesAfter {
        biz_no: record.biz_no.clone(),
        free_balance,
        charge_balance,
    });
    let page = request.page(Section::EXCHANGES, text!("Exchange {biz_no}", biz_no = record.biz_no));
    render(&ExchangeTemplate {
        page: Page { notice, ..page },
        balances: balances_shown,
        data: receipt.and_then(|receipt| serde_json::to_string(&receipt).ok()),
        record: &record,
    })
}

/// How often something happened.
pub(super) fn times_in_words(times: i64) -> String {
    said(&match times {
        1 => text!("1 time"),
        more => text!("{count} times", count = more.shown()),
    })
}

/// What a change took.
fn positive(change: i64) -> String {
    change.saturating_abs().shown()
}

/// The period in which an item is valid, or an empty text.
fn validity(item: &Item) -> String {
    let shown = |millis: Option<i64>| millis.and_then(moment::of_millis).map(|moment| moment.shown());
    match (shown(item.product_start_time), shown(item.product_period)) {
        (Some(start), Some(end)) => said(&text!("{start} to {end}", start, end)),
        (Some(start), None) => said(&text!("from {start}", start)),
        (None, Some(end)) => said(&text!("to {end}", end)),
        (None, None) => String::new(),
    }
}

/// The answer to a retry: a class of the style sheet, and a text.
fn retry_in_words(answer: Repeat) -> (&'static str, &'static str) {
    match answer {
        Repeat::Replayed => ("good", "replay: the same answer again, nothing is deducted"),
        Repeat::Conflict => ("", "refused with 10000602: the biz_no belongs to another content"),
        Repeat::Expired => ("bad", "refused with 10000603: the biz_no has expired"),
    }
}

fn type_in_words(product_type: i64) -> &'static str {
    match product_type {
        0 => "one-time",
        1 => "time-limited",
        2 => "permanent",
        _ => "unknown",
    }
}
