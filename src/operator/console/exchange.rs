//! Exchanges by their order number, and credits by their ref: what happened to a player's coins.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use domain::exchange::Receipt;
use domain::exchange::UsedNumber;
use domain::fields::Expected;
use domain::ids::{AppId, BizNo};
use domain::ledger::EXCHANGE;
use domain::moment;
use domain::product_info::Item;
use store::{ExchangeRecord, NumberMatch};
use time::OffsetDateTime;

use super::app_field::AppField;
use super::error::ConsoleError;
use super::form::Input;
use super::page::{Page, Section, Shown, render};
use super::player::{counted, link};
use super::route::Route;
use super::session::SignedIn;
use crate::state::AppState;

pub(super) const ROUTES: &[Route] = &[
    Route::page("/console/exchanges", || get(search)),
    Route::page("/console/apps/{app_id}/exchanges/{biz_no}", || get(exchange)),
];

/// Apps that may have used a number, at most.
const MATCHES_MAX: u32 = 100;
/// Longest number that is looked for, in bytes: that of a ref.
const NUMBER_BYTES_MAX: usize = 128;

#[derive(Template)]
#[template(path = "exchanges.html")]
struct ExchangesTemplate<'a> {
    page: Page<'a>,
    app_field: AppField<'a>,
    app_id: &'a str,
    number: &'a str,
    /// Nothing before something is asked for.
    found: Option<Vec<NumberMatch>>,
}

/// A number that one app alone has used leads to it at once.
async fn search(
    State(state): State<AppState>,
    signed_in: SignedIn,
    input: Input,
) -> Result<Response, ConsoleError> {
    let app_id = input.optional("app_id", AppId::parse)?;
    let number = input.optional("number", parse_number)?;
    let found = match &number {
        Some(number) => Some(state.store.find_number(app_id.as_ref(), number, MATCHES_MAX).await?),
        None => None,
    };
    if let Some([only]) = found.as_deref() {
        return Ok(Redirect::to(&path_of(only)).into_response());
    }
    let page = Page::new(&signed_in, Section::Exchanges, "Exchanges");
    let (app_id, number) = (input.text("app_id"), input.text("number"));
    let app_field = AppField::new(&state, app_id).await?;
    Ok(render(&ExchangesTemplate { page, app_field, app_id, number, found }))
}

fn parse_number(text: &str) -> Result<String, Expected> {
    let fits = (1..=NUMBER_BYTES_MAX).contains(&text.len());
    if fits { Ok(text.to_owned()) } else { Err(Expected::new("at most 128 bytes")) }
}

/// The page of an exchange; of a credit the player's, with that entry.
fn path_of(found: &NumberMatch) -> String {
    let app_id = &found.app_id;
    if found.kind == EXCHANGE {
        return format!("/console/apps/{app_id}/exchanges/{}", found.number);
    }
    let player = format!("/console/apps/{app_id}/players/{}", found.open_id);
    link(&player, &[("number", &found.number)])
}

#[derive(Template)]
#[template(path = "exchange.html")]
struct ExchangeTemplate<'a> {
    page: Page<'a>,
    record: &'a ExchangeRecord,
    player: String,
    free_before: i64,
    charge_before: i64,
    /// When the request was made, by the game server.
    made_at: Option<OffsetDateTime>,
    /// `data` of the answer.
    data: String,
}

async fn exchange(
    State(state): State<AppState>,
    Path((app_id, biz_no)): Path<(String, String)>,
    signed_in: SignedIn,
) -> Result<Response, ConsoleError> {
    let none = || {
        ConsoleError::NotFound(format!(
            "No exchange of the app {app_id} has deducted anything under the number {biz_no}. Refused ones leave \
             nothing: the number is free, and the server's log has a line for each refusal."
        ))
    };
    let (Ok(app), Ok(number)) = (AppId::parse(&app_id), BizNo::parse(&biz_no)) else { return Err(none()) };
    // The player's address is personal: a viewer does not need it.
    let record = state.store.exchange(&app, &number, signed_in.is_admin()).await?.ok_or_else(none)?;
    let receipt = Receipt {
        biz_no: record.biz_no.clone(),
        free_balance: record.free_balance,
        charge_balance: record.charge_balance,
    };
    Ok(render(&ExchangeTemplate {
        page: Page::new(&signed_in, Section::Exchanges, format!("Exchange {number}")),
        player: format!("/console/apps/{}/players/{}", record.app_id, record.open_id),
        free_before: record.free_balance.saturating_sub(record.free_change),
        charge_before: record.charge_balance.saturating_sub(record.charge_change),
        made_at: moment::of_millis(record.ts),
        data: serde_json::to_string(&receipt).unwrap_or_default(),
        record: &record,
    }))
}

/// When an item is valid, in words; empty where nothing was said of it.
fn validity(item: &Item) -> String {
    let shown = |millis: Option<i64>| millis.and_then(moment::of_millis).map(|moment| moment.shown());
    match (shown(item.product_start_time), shown(item.product_period)) {
        (Some(start), Some(end)) => format!("{start} to {end}"),
        (Some(start), None) => format!("from {start}"),
        (None, Some(end)) => format!("to {end}"),
        (None, None) => String::new(),
    }
}

/// What a retry is answered, as a class of the style sheet and in words.
fn retry_in_words(answer: UsedNumber) -> (&'static str, &'static str) {
    match answer {
        UsedNumber::Replayed => ("good", "is answered as the first time, and nothing is deducted"),
        UsedNumber::Conflict => ("", "is refused with 10000602: the number stands for something else"),
        UsedNumber::Expired => ("bad", "is refused with 10000603: the number has expired"),
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
