//! Prices of top-ups (contract 19.1).

use domain::fields::{FieldError, Fields};
use domain::operation::topup::SetPrices;
use domain::topup::{Currency, FIGURE_MAX, PRICES_MAX, Price, PriceName, PricedProductId};
use schemars::JsonSchema;
use serde_json::{Value, json};
use store::PriceList;

use super::call::Call;
use super::describe::answers;
use super::problem::Problem;
use super::routes::routes;
use crate::openapi::Field;
use crate::state::AppState;

routes! { "Top-ups":
    /// Show the prices
    ///
    /// The newest list of an app. An app without prices has version 0.
    GET "/apps/{app_id}/prices", "getPrices", Read(Read): prices -> PriceList =>
        answers("prices", "The newest list.", list_example());
    /// Replace the prices
    ///
    /// A new list is a new version; orders keep the figures they were made with. A product that the list leaves out is not
    /// for sale any more, as is one that is not `active`. The list that is there already changes nothing. A wrong price
    /// refuses the whole request.
    PUT "/apps/{app_id}/prices", "setPrices", Many(Develop): set_prices -> PriceList =>
        answers("replaced", "The newest list.", list_example())
            .members([list()])
            .wrong("prices[0].amount", "expected an integer from 1 to 1000000000000, got 0");
}

/// The names of a price.
const NAMES: [&str; 7] = ["product_id", "currency", "amount", "charge", "bonus", "name", "active"];

fn price_example() -> Value {
    json!({
        "product_id": "gems60", "currency": "CNY", "amount": 600, "charge": 60, "bonus": 6, "name": "60 gems",
        "active": true,
    })
}

fn list_example() -> Value {
    json!({ "version": 1, "prices": [price_example()] })
}

/// The list of prices, for the API's document.
fn list() -> Field {
    let field =
        Field::required::<Vec<PriceLine>>("prices", json!([price_example()]), "All products, each once.");
    field.demand("minItems", 1).demand("maxItems", PRICES_MAX)
}

async fn prices(state: &AppState, call: &Call) -> Result<PriceList, Problem> {
    call.fields.only(&[])?;
    Ok(state.store.prices(&call.app_id()?).await?)
}

async fn set_prices(state: &AppState, call: &Call) -> Result<PriceList, Problem> {
    let app_id = call.app_id()?;
    call.fields.only(&["prices"])?;
    let prices = call.fields.required_objects("prices", PRICES_MAX, &NAMES, price)?;
    Ok(state.store.set_prices(&call.operator(), &app_id, SetPrices { prices }).await?)
}

fn price(fields: &Fields) -> Result<Price, FieldError> {
    let product_id = fields.required("product_id", PricedProductId::parse)?;
    let currency = fields.required("currency", Currency::parse)?;
    let amount = fields.integer("amount", 1, FIGURE_MAX)?.ok_or_else(|| fields.absent("amount"))?;
    let charge = fields.integer("charge", 0, FIGURE_MAX)?.unwrap_or_default();
    let bonus = fields.integer("bonus", 0, FIGURE_MAX)?.unwrap_or_default();
    Price::check_coins(charge, bonus)
        .map_err(|expected| FieldError::malformed_number("charge", expected.0, "0"))?;
    let name = fields.optional("name", PriceName::parse)?.unwrap_or_default();
    let active = fields.flag("active")?.unwrap_or(true);
    Ok(Price { product_id, currency, amount, charge, bonus, name, active })
}

/// A price of a request.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the schema of the API's document")]
struct PriceLine {
    /// The product.
    product_id: PricedProductId,
    /// Code of the currency (ISO 4217).
    currency: Currency,
    /// The money, in minor units.
    #[schemars(range(min = 1, max = 1_000_000_000_000_i64))]
    amount: i64,
    /// Charged coins that it brings; 0 without it.
    #[schemars(range(min = 0, max = 1_000_000_000_000_i64), skip_serializing_if = "Option::is_none")]
    charge: Option<i64>,
    /// Gifted coins that it brings; 0 without it.
    #[schemars(range(min = 0, max = 1_000_000_000_000_i64), skip_serializing_if = "Option::is_none")]
    bonus: Option<i64>,
    /// Its name, for people.
    #[schemars(skip_serializing_if = "Option::is_none")]
    name: Option<PriceName>,
    /// Whether it is for sale; yes without it.
    #[schemars(skip_serializing_if = "Option::is_none")]
    active: Option<bool>,
}
