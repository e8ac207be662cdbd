//! `POST /openapi/mp/developer/order/v1/report`: a developer server reports the state of an
//! order to the order center (contract 4).

use axum::extract::State;
use axum::response::Response;
use domain::app::{App, Category};
use domain::fields::{Expected, Fields};
use domain::ids::{
    ImgId, ORDER_PATH_BYTES_MAX, OpenId, OrderNo, PagePath, PoiId, ProductCity, ProductId, WebUrl,
};
use domain::order::{
    GoodsKind, OrderCreateTime, OrderReport, OrderStatus, ReportConflict, SECONDS_MAX, parse_catalog_code,
};
use schemars::JsonSchema;
use serde::Serialize;
use store::ReportOutcome;

use super::describe::{
    body_refusals, credentials, faults, rate_limited, refused, token_refusals, told, unknown_player,
    wrong_value,
};
use super::extract::{JsonFields, ReportCaller, succeeded, success};
use crate::config::Config;
use crate::error::{Code, Refusal};
use crate::openapi::{Example, Field, IMG_ID, NOW_MILLIS, OPEN_ID, Operation, Place, Success};
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
        ReportOutcome::Done => Ok(success(Reported {})),
        ReportOutcome::UnknownOpenId => Err(unknown_player()),
        ReportOutcome::UnknownPage => Err(unknown_page(&caller.app().pages, &order_path)),
        ReportOutcome::UnknownImage => Err(unknown_image()),
        ReportOutcome::BlockedImage => Err(blocked_image()),
        ReportOutcome::UnknownPoi => Err(unknown_poi()),
        ReportOutcome::UnknownPreorder => Err(unknown_preorder()),
        ReportOutcome::PaymentOfAnotherOrder => Err(Refusal::new(
            Code::IllegalParameter,
            "out_order_no: expected a payment of this order, got one of another order",
        )),
        ReportOutcome::Conflict(conflict) => Err(conflict.into()),
    }
}

/// What comes beside success: nothing.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Report")]
struct Reported {}

fn unknown_image() -> Refusal {
    Refusal::new(Code::ImageNotFound, "product_cover_img_id: expected an image of this app")
}

fn blocked_image() -> Refusal {
    Refusal::new(Code::ImageBlocked, "product_cover_img_id: the image is blocked by risk control")
}

fn unknown_poi() -> Refusal {
    Refusal::new(Code::IllegalPoiId, "poi_id: expected one registered for this app")
}

fn unknown_preorder() -> Refusal {
    Refusal::new(Code::OrderNotFound, "out_order_no: expected a payment pre-order of this app")
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
    match app.settings.category {
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
fn unknown_page(pages: &[String], order_path: &str) -> Refusal {
    let path = match PagePath::parse(order_path) {
        Ok(path) => path,
        Err(expected) => {
            return Refusal::new(Code::IllegalPath, format!("order_path: expected {}", expected.0));
        }
    };
    let read = domain::fields::shown(path.as_str());
    let hint = match path.nearest(pages) {
        Some(nearest) => format!("; the nearest page is \"{nearest}\""),
        None if pages.is_empty() => "; the app has published no package".to_owned(),
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

const ORDER_NO: &str = "order-20270115-1";
const PAGE: &str = "pages/order/detail";

const DESCRIPTION: &str = "\
    A developer server reports the state of an order, so that the player finds it in the order center. The body is one \
    JSON object, whatever the content type says. The app needs the scope `epay`.\n\n\
    The first report of an `out_biz_order_no`, in any status, makes the order; later ones update it. An optional field \
    that is left out keeps its value. An identical repeat is success and changes nothing.\n\n\
    - `open_id` and `order_create_time` of an order do not change.\n\
    - Several `out_order_no` may belong to one order (every attempt to pay), but each belongs to one order only.\n\
    - After status 10 or 11 an order is about virtual goods and 12 to 15 are refused; after 12 to 15 it is about physical \
    goods and 10 and 11 are refused. No other change of status is refused.";

/// What the API's document says of the order report.
#[must_use]
pub fn describe(config: &Config) -> Operation<Refusal> {
    Operation::new("Report an order", DESCRIPTION)
        .with(Place::Query, credentials(true))
        .body("application/json", fields(config).into_iter().chain(optional_fields()).collect())
        .answers(Success::json("reported", "The order is as the report says.", &succeeded(Reported {})))
        .refuses(token_refusals())
        .refuses([told(
            "scope_missing",
            "The app lacks the scope.",
            Code::Forbidden,
            "app_id: the app lacks the scope epay",
        )])
        .refuses(field_refusals())
        .refuses(rule_refusals())
        .refuses([rate_limited()])
        .refuses(body_refusals(config.http.body_bytes_max, config.http.body_timeout))
        .refuses(faults())
}

fn fields(config: &Config) -> [Field; 7] {
    let skew = humantime::format_duration(config.order.clock_skew_max);
    [
        Field::required::<OrderNo>(
            "out_biz_order_no",
            ORDER_NO,
            format!("Order number shown to the user, {}.", OrderNo::EXPECTED),
        ),
        Field::required::<OrderNo>(
            "out_order_no",
            ORDER_NO,
            "Payment pre-order number; the order number itself where the two are not kept apart.",
        ),
        Field::required::<OpenId>("open_id", OPEN_ID, "The player; the app must know it."),
        Field::required::<i64>(
            "order_create_time",
            NOW_MILLIS,
            format!("Milliseconds, at most {skew} ahead of now."),
        )
        .demand("minimum", SECONDS_MAX + 1),
        Field::required::<OrderStatus>(
            "order_status",
            2,
            "1 pending payment, 2 paid, 3 cancelled, 4 refunding, 5 refund failed, 6 refunded; virtual goods: 10 pending \
             use, 11 used; physical goods: 12 pending shipment, 13 partially shipped, 14 pending receipt, 15 received.",
        ),
        Field::required::<String>(
            "order_path",
            format!("{PAGE}?id={ORDER_NO}"),
            "In-app path of the order's page: a page of the latest published package. A query string may follow.",
        )
        .demand("minLength", 1)
        .demand("maxLength", ORDER_PATH_BYTES_MAX),
        Field::required::<ImgId>("product_cover_img_id", IMG_ID, "The cover image, from an upload of this app."),
    ]
}

fn optional_fields() -> [Field; 5] {
    let local_life = "Required for apps of the category local life.";
    [
        Field::optional::<WebUrl>("order_backup_url", format!("Fallback web link: {}.", WebUrl::EXPECTED))
            .example("https://shop.example/orders/1")
            .or_empty(),
        Field::optional::<PoiId>("poi_id", "Point of interest, registered for the app.").or_empty(),
        Field::optional::<ProductId>(
            "product_id",
            format!("Product id, {}. {local_life}", ProductId::EXPECTED),
        )
        .or_empty(),
        Field::optional::<i64>("product_catalog_code", format!("Product category code. {local_life}"))
            .demand("minimum", 1),
        Field::optional::<ProductCity>(
            "product_city",
            format!("Full name of the product's city. {local_life}"),
        )
        .or_empty(),
    ]
}

/// The refusals of a field by its value alone.
fn field_refusals() -> [Example<Refusal>; 2] {
    [
        refused(
            "illegal_parameter",
            "A field is missing or not acceptable; the text says which, what was expected and what came.",
            wrong_value(Code::IllegalParameter, "order_status", "7", OrderStatus::parse),
        ),
        refused(
            "illegal_url",
            "The fallback web link is not a web link.",
            wrong_value(Code::IllegalUrl, "order_backup_url", "shop.example", WebUrl::parse),
        ),
    ]
}

/// The refusals by what the app has and the order was before.
fn rule_refusals() -> [Example<Refusal>; 8] {
    let changed = ReportConflict::GoodsKindChanged { kind: GoodsKind::Virtual, got: 12 };
    let page = unknown_page(&[PAGE.to_owned()], "pages/order/detial");
    [
        refused("goods_kind_changed", "The order was about virtual goods before.", changed.into()),
        refused("illegal_open_id", "The app does not know this player.", unknown_player()),
        refused("owner_changed", "The order belongs to another player.", ReportConflict::OwnerChanged.into()),
        refused("illegal_path", "The latest published package has no such page.", page),
        refused("image_not_found", "The image was not uploaded by this app.", unknown_image()),
        refused("image_blocked", "The operator has blocked the picture.", blocked_image()),
        refused("illegal_poi_id", "The point of interest is not registered for the app.", unknown_poi()),
        refused(
            "order_not_found",
            "The app checks pre-orders, and there is none with this payment number.",
            unknown_preorder(),
        ),
    ]
}
