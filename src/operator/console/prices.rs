//! The prices of an app: the list with its earlier versions, and the form of a new one (contract 19.1).

use askama::Template;
use axum::extract::Path;
use axum::routing::{get, post};
use domain::fields::{FieldError, FieldErrorKind, parse_integer};
use domain::ids::AppId;
use domain::operation::topup::SetPrices;
use domain::operation::unknown_app;
use domain::rights::Need;
use domain::text;
use store::{PRICE_COLUMNS, PriceList, prices_of_csv};
use time::OffsetDateTime;

use super::currency::money;
use super::error::ConsoleError;
use super::i18n::{Moment as _, said};
use super::page::{Page, Section, Shown as _, render_search};
use super::request::{Answer, ConsoleRequest, lead_to};
use super::route::{ConsoleRoute, routes};
use super::upload::{LIST, ListUpload};

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page("/console/apps/{app_id}/prices") => get(page);
    change(Need::Develop, "/console/apps/{app_id}/prices") => post(set);
};

/// The path of the prices of an app.
pub(super) fn prices_path(app_id: &str) -> String {
    format!("/console/apps/{app_id}/prices")
}

#[derive(Template)]
#[template(path = "prices.html")]
struct PricesPage<'a> {
    page: Page<'a>,
    app_id: &'a AppId,
    list: &'a PriceList,
    /// Versions with their times, newest first.
    versions: &'a [(i32, OffsetDateTime)],
    /// What is wrong with the list that was sent.
    faults: Vec<String>,
    /// The list as CSV, to be changed in the form.
    csv: String,
}

async fn page(Path(app_id): Path<String>, request: ConsoleRequest) -> Answer {
    let parse_version = |text: &str| parse_integer(text, 1, i64::from(i32::MAX), "the number of a version");
    let version = request.fields.optional("version", parse_version)?;
    let version = version.and_then(|version| i32::try_from(version).ok());
    show(&request, &app_id, version, Vec::new(), None).await
}

/// Replaces the list. A wrong one changes nothing, and each of its faults is named.
async fn set(Path(app_id): Path<String>, ListUpload { request, list }: ListUpload) -> Answer {
    let prices = match list {
        Ok(list) => prices_of_csv(&list),
        Err(fault) => return show(&request, &app_id, None, Vec::new(), Some(fault)).await,
    };
    match prices {
        Ok(prices) => {
            let app = AppId::parse(&app_id).map_err(|_| unknown_app(&app_id))?;
            request.state.store.set_prices(&request.operator()?, &app, SetPrices { prices }).await?;
            lead_to(&format!("{}?done=set", prices_path(&app_id)))
        }
        Err(faults) => {
            let expected = match faults.count - faults.named.len() {
                0 => text!("a list without faults"),
                more => text!("a list without faults; {more} more are not named", more),
            };
            let faults = faults.named.iter().map(said).collect();
            let problem = FieldErrorKind::Malformed { expected, got: None };
            let fault = FieldError { field: LIST.to_owned(), problem };
            show(&request, &app_id, None, faults, Some(fault)).await
        }
    }
}

async fn show(
    request: &ConsoleRequest,
    app_id: &str,
    version: Option<i32>,
    faults: Vec<String>,
    wrong: Option<FieldError>,
) -> Answer {
    let app = AppId::parse(app_id).map_err(|_| unknown_app(app_id))?;
    let store = &request.state.store;
    let list = match version {
        None => store.prices(&app).await?,
        Some(version) => store.prices_of(&app, version).await?,
    };
    let versions = store.price_versions(&app).await?;
    if version.is_some_and(|version| version > versions.first().map_or(0, |newest| newest.0)) {
        return Err(ConsoleError::not_found(text!(
            "The app {app_id} has no such version of its prices.",
            app_id
        )));
    }
    let wrong = Vec::from_iter(wrong);
    let page = request.page(Section::TOPUPS, text!("Prices of {app_id}", app_id)).marking(&wrong);
    let notice =
        request.notice([("set", "The list is set. Orders keep the prices that they were made with.")]);
    let shown = PricesPage {
        page: Page { notice, ..page },
        app_id: &app,
        csv: if wrong.is_empty() { csv_of(&list)? } else { request.text(LIST).to_owned() },
        list: &list,
        versions: &versions,
        faults,
    };
    render_search(&shown, &wrong)
}

/// A list as the form and `minitill price set` take it.
fn csv_of(list: &PriceList) -> Result<String, ConsoleError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for price in &list.prices {
        writer.serialize(price).map_err(|error| store::StoreError::Internal(error.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|error| store::StoreError::Internal(error.to_string()))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(if list.prices.is_empty() { format!("{}\n", PRICE_COLUMNS.join(",")) } else { text })
}
