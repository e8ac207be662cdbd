//! `POST /openapi/mp/developer/order/v1/report`: a developer server reports the state of an
//! order to the order center (contract 4).

use axum::extract::{Request, State};
use axum::response::Response;
use domain::app::{Category, Scope};
use domain::fields::{Expected, FieldErrorKind, Fields, shown};
use domain::ids::{
    ImgId, ORDER_PATH_BYTES_MAX, OpenId, OrderNo, PagePath, PoiId, ProductCity, ProductId, WebUrl,
};
use domain::order::{
    GoodsKind, OrderCreateTime, OrderReport, OrderStatus, ReportConflict, SECONDS_MAX, parse_catalog_code,
};
use domain::strays;
use domain::text;
use domain::text::Text;
use schemars::JsonSchema;
use serde::Serialize;
use store::ReportOutcome;
use tokio::time::Instant;

use super::describe::{credentials, wrong_value};
use super::extract::{query_with, succeeded, success};
use super::{auth, called_app, wallet};
use crate::config::Config;
use crate::http::body::read_body;
use crate::http::rate_limit::Limited;
use crate::http::refusal::{Code, OwnNames, PROVIDERS, Refusal};
use crate::openapi::{IMG_ID, Input, NOW_MILLIS, OPEN_ID, Operation, Place, Success, refusals};
use crate::state::AppState;

/// Token and scope, then fields; then, in the store, what the report names and the order's rules.
///
/// # Errors
/// The codes of contract 7.1 that are marked report or all.
pub async fn report(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    carry_out(&state, request, &[]).await
}

/// The same report with the names that a service provider's server sends (contract 4.1.3).
///
/// # Errors
/// As [`report`], with those names.
pub async fn report_by_provider(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Refusal> {
    carry_out(&state, request, PROVIDERS)
        .await
        .map_err(|refusal| Refusal { has_provider_names: true, ..refusal })
}

async fn carry_out(state: &AppState, request: Request, names: OwnNames) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let own_name = |name| names.iter().find(|(known, _)| *known == name).map_or(name, |(_, own)| *own);
    let query_names = auth::CREDENTIALS.map(own_name);
    let (query, body) = query_with(&query_names, &state.config.http, &parts, body).await?;
    let query = if names.is_empty() { query.named_elsewhere(PROVIDERS) } else { query.renamed(names) };
    let caller = auth::authenticate(state, &query, Limited::Reports).await?;
    auth::require_scope(&caller, Scope::Epay)?;
    let fields = Fields::from_json(&read_body(&state.config.http, body).await?)?;
    called_app::note_fields(&fields);
    let app = caller.app();
    let report = read(&mut Input::of(&fields), state.clock.unix_millis())?;
    if app.settings.category == Category::LocalLife {
        fields.required("product_id", ProductId::parse)?;
        fields.required("product_catalog_code", parse_catalog_code)?;
        fields.required("product_city", ProductCity::parse)?;
    }
    let order_path = report.order_path.clone();
    let img_id = Text::same(shown(report.product_cover_img_id.as_str()));
    let (open_id, payment) = (report.open_id.clone(), report.out_order_no.clone());
    let poi_id = report.poi_id.clone();
    let deadline = Instant::now() + state.config.exchange.deadline;
    match state.store.report(caller.clone(), report, deadline).await? {
        ReportOutcome::Done => {
            if app.takes_any_path() {
                tracing::info!(
                    order_path = %shown(&order_path),
                    "order_path was not checked: this sandbox app has published no package"
                );
            }
            Ok(success(Reported {}))
        }
        ReportOutcome::UnknownOpenId => Err(illegal_open_id(shown(open_id.as_str()))),
        ReportOutcome::UnknownPage => Err(unknown_page(&app.pages, &order_path)),
        ReportOutcome::UnknownImage => Err(unknown_image(&img_id)),
        ReportOutcome::BlockedImage => Err(image_blocked()),
        ReportOutcome::UnknownPoi => Err(illegal_poi_id(shown(poi_id.as_ref().map_or("", PoiId::as_str)))),
        ReportOutcome::UnknownPreorder => Err(order_not_found(shown(payment.as_str()))),
        ReportOutcome::PaymentOfAnotherOrder => Err(Refusal::new(
            Code::IllegalParameter,
            "out_order_no: expected a payment of this order, got one of another order",
        )),
        ReportOutcome::Conflict(conflict) => Err(conflict.into()),
    }
}

/// The data beside success: nothing.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Report")]
struct Reported {}

refusals! { Refusal:
    /// The app does not know this player.
    illegal_open_id(got = shown(OPEN_ID)) => wallet::illegal_open_id(got);
    /// The latest published package has no such page.
    illegal_path() => unknown_page(&[PAGE.to_owned()], "pages/order/detial");
    /// The image was not uploaded by this app.
    image_not_found() => unknown_image(&Text::same(shown(&"0".repeat(48))));
    /// The operator has blocked the picture.
    image_blocked() =>
        Refusal::new(Code::ImageBlocked, "product_cover_img_id: the image is blocked by risk control; use another one");
    /// The point of interest is not registered for the app.
    illegal_poi_id(got = shown("poi-1")) => Refusal::new(
        Code::IllegalPoiId,
        text!(
            "poi_id: expected one registered for this app; the operator's `minitill app poi add` registers it, got {got}",
            got
        ),
    );
    /// The app checks pre-orders, and there is none with this payment number.
    order_not_found(got = shown(ORDER_NO)) =>
        Refusal::new(
            Code::OrderNotFound,
            text!(
                "out_order_no: expected a payment pre-order of this app; the operator's `minitill app preorder add` registers it, got {got}",
                got
            ),
        );
    /// The order was about virtual goods before.
    goods_kind_changed() =>
        Refusal::from(ReportConflict::GoodsKindChanged { kind: GoodsKind::Virtual, got: 12 });
    /// The order belongs to another player.
    owner_changed() => Refusal::from(ReportConflict::OwnerChanged);
    /// The fallback web link is not a web link.
    illegal_url() => wrong_value(Code::IllegalUrl, "order_backup_url", "shop.example", WebUrl::parse);
    /// A field is missing or not acceptable; the text says which, what was expected and what came.
    illegal_parameter() => wrong_value(Code::IllegalParameter, "order_status", "7", OrderStatus::parse);
}

/// Reads the fields of a report that arrives at `now_millis`.
fn read(body: &mut Input<'_>, now_millis: i64) -> Result<OrderReport, Refusal> {
    let coded = |code: Code| move |error| Refusal::field(code, &error);
    let skew = humantime::format_duration(OrderCreateTime::CLOCK_SKEW_MAX);
    let create_time = |text: &str| OrderCreateTime::parse(text, now_millis);
    let payment = "Payment pre-order number; the order number itself where the two are not kept apart.";
    let path =
        "In-app path of the order's page: a page of the latest published package. A query string may follow.";
    let local_life = "Required for apps of the category local life.";
    Ok(OrderReport {
        out_biz_order_no: body
            .field("out_biz_order_no", format!("Order number shown to the user, {}.", OrderNo::EXPECTED))
            .required(ORDER_NO, OrderNo::parse)?,
        out_order_no: body.field("out_order_no", payment).required(ORDER_NO, OrderNo::parse)?,
        open_id: body
            .field("open_id", "The player; the app must know it.")
            .required(OPEN_ID, OpenId::parse)
            .map_err(coded(Code::IllegalOpenId))?,
        order_create_time: body
            .field("order_create_time", format!("Milliseconds, at most {skew} ahead of now."))
            .demand("minimum", SECONDS_MAX + 1)
            .required_as::<i64, _>(NOW_MILLIS, create_time)?,
        order_status: body.field("order_status", STATUSES).required(2, OrderStatus::parse)?,
        order_path: body
            .field("order_path", path)
            .demand("minLength", 1)
            .demand("maxLength", ORDER_PATH_BYTES_MAX)
            .required(format!("{PAGE}?id={ORDER_NO}"), parse_order_path)
            .map_err(coded(Code::IllegalPath))?,
        product_cover_img_id: read_cover(body)?,
        order_backup_url: body
            .field("order_backup_url", format!("Fallback web link: {}.", WebUrl::EXPECTED))
            .example("https://shop.example/orders/1")
            .or_empty(WebUrl::parse)
            .map_err(coded(Code::IllegalUrl))?,
        poi_id: body
            .field("poi_id", "Point of interest, registered for the app.")
            .or_empty(PoiId::stored)
            .map_err(coded(Code::IllegalPoiId))?,
        product_id: body
            .field("product_id", format!("Product id, {}. {local_life}", ProductId::EXPECTED))
            .or_empty(ProductId::parse)?,
        product_catalog_code: body
            .field("product_catalog_code", format!("Product category code. {local_life}"))
            .demand("minimum", 1)
            .optional(parse_catalog_code)?,
        product_city: body
            .field("product_city", format!("Full name of the product's city. {local_life}"))
            .or_empty(ProductCity::parse)?,
    })
}

/// Reads the cover. A malformed id is refused as an unknown one, unless it never was the id of an image.
fn read_cover(body: &mut Input<'_>) -> Result<ImgId, Refusal> {
    let (mut was_id, mut around) = (true, None);
    let parse = |text: &str| {
        was_id = may_have_been_id(text);
        around = around_id(text);
        ImgId::parse(text)
    };
    body.field("product_cover_img_id", "The cover image, from an upload of this app.")
        .required(IMG_ID, parse)
        .map_err(|error| match error.problem {
            // The picture need not be uploaded again: only what stands around its id is wrong.
            FieldErrorKind::Malformed { .. } if around.is_some() => {
                Refusal::new(Code::ImageNotFound, strays::told(error.text(), around))
            }
            FieldErrorKind::Malformed { got: Some(got), .. } if was_id => changed_image_id(&got),
            FieldErrorKind::Malformed { got: Some(got), .. } => no_image_id(&got),
            _ => error.into(),
        })
}

/// The stray characters around the id of an image, where a text is one but for them (contract 2.11.2).
fn around_id(text: &str) -> Option<Text> {
    let is_id = ImgId::parse(strays::without_strays(text)).is_ok();
    strays::around(text).filter(|_| is_id)
}

/// Whether a text may be the id of an image that was changed on its way: cut, escaped or in capitals. Other signs than
/// these are those of addresses, of names of files and of JSON.
fn may_have_been_id(text: &str) -> bool {
    !text.contains(|sign: char| sign.is_ascii_punctuation() && !matches!(sign, '%' | '-' | '_'))
}

/// The refusal of an id that this app has no image with, whoever made it up or gave it out.
fn unknown_image(got: &Text) -> Refusal {
    let text = text!("product_cover_img_id: {got} is unknown here: upload the picture again", got);
    Refusal::new(Code::ImageNotFound, text)
}

/// The same for what is no id of an image any more. It tells the form of one, because the picture may well be here.
fn changed_image_id(got: &Text) -> Refusal {
    let text = text!(
        "product_cover_img_id: {got} is unknown here: upload the picture again; the id of an image has 48 lower-case hexadecimal characters",
        got
    );
    Refusal::new(Code::ImageNotFound, text)
}

/// The refusal of a text that was never the id of an image.
fn no_image_id(got: &Text) -> Refusal {
    let text = text!(
        "product_cover_img_id: {got} is no id of an image: send the imgId that an upload answered",
        got
    );
    Refusal::new(Code::ImageNotFound, text)
}

fn parse_order_path(text: &str) -> Result<String, Expected> {
    PagePath::parse(text).map(|_| text.to_owned())
}

/// The refusal of a path that is not a page of the latest published package. It names the nearest.
fn unknown_page(pages: &[String], order_path: &str) -> Refusal {
    let path = match PagePath::parse(order_path) {
        Ok(path) => path,
        Err(expected) => {
            return Refusal::new(
                Code::IllegalPath,
                text!("order_path: expected {expected}", expected = expected.0),
            );
        }
    };
    let got = shown(path.as_str());
    let text = match path.nearest(pages) {
        Some(nearest) => text!(
            "order_path: expected a page of the latest published package, got {got}; the nearest page is \"{nearest}\"",
            got,
            nearest
        ),
        None if pages.is_empty() => text!(
            "order_path: expected a page of the latest published package, got {got}; the app has published no package: the operator's `minitill app publish` does",
            got
        ),
        None => text!("order_path: expected a page of the latest published package, got {got}", got),
    };
    Refusal::new(Code::IllegalPath, text)
}

impl From<ReportConflict> for Refusal {
    fn from(conflict: ReportConflict) -> Self {
        let code = match conflict {
            ReportConflict::OwnerChanged => Code::IllegalOpenId,
            ReportConflict::GoodsKindChanged { .. } => Code::IllegalParameter,
        };
        Self::new(code, conflict.text())
    }
}

const ORDER_NO: &str = "order-20270115-1";
/// The meanings of the codes of the field `order_status`.
const STATUSES: &str = "\
    1 pending payment, 2 payment succeeded, 3 cancelled, 4 refunding, 5 refund failed, 6 refunded; virtual goods: 10 \
    pending use, 11 used; physical goods: 12 pending shipment, 13 partially shipped, 14 pending receipt, 15 received.";
const PAGE: &str = "pages/order/detail";

const DESCRIPTION: &str = "\
    A developer server reports the state of an order, so that the player finds it in the order center. The body is one \
    JSON object, whatever the content type says. The app needs the scope `epay`.\n\n\
    The first report of an `out_biz_order_no`, in any status, makes the order; later ones update it. An optional field \
    that is left out keeps its value. An identical repeat is success and changes nothing.\n\n\
    - The `open_id` of an order does not change. Its `order_create_time` is that of the first report.\n\
    - Several `out_order_no` may belong to one order (every attempt to pay), but each belongs to one order only.\n\
    - After status 10 or 11 an order is about virtual goods and 12 to 15 are refused; after 12 to 15 it is about physical \
    goods and 10 and 11 are refused. No other change of status is refused.";

const OF_PROVIDER: &str = "\
    The same as `reportOrder`, for servers of service providers. `component_app_id` is the `app_id` of the app whose order \
    it is, and `authorizer_access_token` its token: the till knows no providers.";

/// The text of the API's document about the order report.
pub(super) fn describe(_: &Config) -> Operation<Refusal> {
    described("Report an order", DESCRIPTION)
}

/// What it says of the same report by a service provider.
pub(super) fn describe_by_provider(_: &Config) -> Operation<Refusal> {
    described("Report an order, with the names of service providers", OF_PROVIDER)
}

fn described(summary: &'static str, description: &'static str) -> Operation<Refusal> {
    Operation::new(summary, description)
        .with(Place::Query, credentials(true))
        .body(&["application/json"], Input::describe(|body| read(body, NOW_MILLIS)))
        .answers(Success::json("reported", "The order is as the report says.", &succeeded(Reported {})))
        .refuses([
            auth::example::scope_missing(),
            example::illegal_parameter(),
            example::illegal_url(),
            example::goods_kind_changed(),
            example::illegal_open_id(),
            example::owner_changed(),
            example::illegal_path(),
            example::image_not_found(),
            example::image_blocked(),
            example::illegal_poi_id(),
            example::order_not_found(),
        ])
}
