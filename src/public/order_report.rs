//! `POST /openapi/mp/developer/order/v1/report`: a developer server reports the state of an
//! order to the order center (contract 4).

use axum::extract::State;
use axum::response::Response;
use domain::app::{App, Category};
use domain::fields::{Expected, Fields};
use domain::ids::{ImgId, OpenId, OrderNo, PagePath, PoiId, ProductCity, ProductId, WebUrl};
use domain::order::{OrderCreateTime, OrderReport, OrderStatus, ReportConflict, parse_catalog_code};
use store::ReportOutcome;

use super::extract::{JsonFields, ReportCaller, success};
use crate::error::{Code, Refusal};
use crate::state::AppState;

/// Token and scope, then fields; then, in the store, what the report names and the order's rules.
///
/// # Errors
/// The codes of contract 7 that are marked report or all.
pub async fn report(
    State(state): State<AppState>,
    ReportCaller(caller): ReportCaller,
    JsonFields(fields): JsonFields,
) -> Result<Response, Refusal> {
    let report = read_report(&state, caller.app(), &fields)?;
    let order_path = report.order_path.clone();
    match state.store.report(caller.clone(), report).await? {
        ReportOutcome::Done => Ok(success(())),
        ReportOutcome::UnknownOpenId => {
            Err(Refusal::new(Code::IllegalOpenId, "open_id: expected a player of this app"))
        }
        ReportOutcome::UnknownPage => Err(unknown_page(caller.app(), &order_path)),
        ReportOutcome::UnknownImage => {
            Err(Refusal::new(Code::ImageNotFound, "product_cover_img_id: expected an image of this app"))
        }
        ReportOutcome::BlockedImage => Err(Refusal::new(
            Code::ImageBlocked,
            "product_cover_img_id: the image is blocked by risk control",
        )),
        ReportOutcome::UnknownPoi => {
            Err(Refusal::new(Code::IllegalPoiId, "poi_id: expected one registered for this app"))
        }
        ReportOutcome::UnknownPreorder => {
            Err(Refusal::new(Code::OrderNotFound, "out_order_no: expected a payment pre-order of this app"))
        }
        ReportOutcome::PaymentOfAnotherOrder => Err(Refusal::new(
            Code::IllegalParameter,
            "out_order_no: expected a payment of this order, got one of another order",
        )),
        ReportOutcome::Conflict(conflict) => Err(conflict.into()),
    }
}

fn read_report(state: &AppState, app: &App, fields: &Fields) -> Result<OrderReport, Refusal> {
    let coded = |code: Code| move |error| Refusal::field(code, &error);
    let create_time = |text: &str| {
        OrderCreateTime::parse(text, state.clock.unix_millis(), state.config.order.clock_skew_max)
    };
    let report = OrderReport {
        out_biz_order_no: fields.required("out_biz_order_no", OrderNo::parse)?,
        out_order_no: fields.required("out_order_no", OrderNo::parse)?,
        open_id: fields.required("open_id", OpenId::parse).map_err(coded(Code::IllegalOpenId))?,
        order_create_time: fields.required("order_create_time", create_time)?,
        order_status: fields.required("order_status", OrderStatus::parse)?,
        order_path: fields.required("order_path", parse_order_path).map_err(coded(Code::IllegalPath))?,
        product_cover_img_id: fields
            .required("product_cover_img_id", ImgId::parse)
            .map_err(coded(Code::ImageNotFound))?,
        order_backup_url: fields
            .optional("order_backup_url", WebUrl::parse)
            .map_err(coded(Code::IllegalUrl))?,
        poi_id: fields.optional("poi_id", PoiId::parse).map_err(coded(Code::IllegalPoiId))?,
        product_id: fields.optional("product_id", ProductId::parse)?,
        product_catalog_code: fields.optional("product_catalog_code", parse_catalog_code)?,
        product_city: fields.optional("product_city", ProductCity::parse)?,
    };
    match app.category {
        Category::General => {}
        Category::LocalLife => {
            fields.required("product_id", ProductId::parse)?;
            fields.required("product_catalog_code", parse_catalog_code)?;
            fields.required("product_city", ProductCity::parse)?;
        }
    }
    Ok(report)
}

fn parse_order_path(text: &str) -> Result<String, Expected> {
    PagePath::parse(text).map(|_| text.to_owned())
}

/// The refusal of a path that is not a page of the latest published package. It names the nearest.
fn unknown_page(app: &App, order_path: &str) -> Refusal {
    let path = match PagePath::parse(order_path) {
        Ok(path) => path,
        Err(expected) => {
            return Refusal::new(Code::IllegalPath, format!("order_path: expected {}", expected.0));
        }
    };
    let read = domain::fields::shown(path.as_str());
    let hint = match path.nearest(&app.pages) {
        Some(nearest) => format!("; the nearest page is \"{nearest}\""),
        None if app.pages.is_empty() => "; the app has published no package".to_owned(),
        None => String::new(),
    };
    Refusal::new(
        Code::IllegalPath,
        format!("order_path: expected a page of the latest published package, got {read}{hint}"),
    )
}

impl From<ReportConflict> for Refusal {
    fn from(conflict: ReportConflict) -> Self {
        let code = match conflict {
            ReportConflict::OwnerChanged => Code::IllegalOpenId,
            ReportConflict::CreateTimeChanged { .. } | ReportConflict::GoodsKindChanged { .. } => {
                Code::IllegalParameter
            }
        };
        Self::new(code, conflict.to_string())
    }
}
