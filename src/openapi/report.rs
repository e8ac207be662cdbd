//! The order report as the document tells it (contract 4).

use domain::ids::{
    ImgId, ORDER_PATH_BYTES_MAX, OpenId, OrderNo, POI_ID_BYTES_MAX, PRODUCT_CITY_CHARS_MAX,
    PRODUCT_ID_BYTES_MAX, WEB_URL_BYTES_MAX, WebUrl,
};
use domain::order::{OrderStatus, ReportConflict, SECONDS_MAX};

use super::json::object;
use super::operation::{
    Body, Content, Field, IMG_ID, NOW_MILLIS, OPEN_ID, Operation, RefusalExample, Success, credentials,
    general_refusals, integer, pattern, refused, said, text, token_refusals, wrong_value,
};
use crate::config::Config;
use crate::error::{Code, Refusal};

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

pub(super) fn operation(config: &Config) -> Operation {
    Operation {
        id: "reportOrder",
        summary: "Report an order",
        description: DESCRIPTION.to_owned(),
        parameters: credentials(true),
        bodies: vec![Body { media_type: "application/json", fields: fields(config) }],
        body_required: true,
        successes: vec![Success {
            name: "reported",
            summary: "The order is as the report says.",
            status: 200,
            content: success(),
            headers: Vec::new(),
        }],
        refusals: refusals(config),
    }
}

/// Contract 4.7.
fn success() -> Content {
    let schema = object! {
        "type": "object",
        "required": vec!["result", "error_msg"],
        "properties": object! {
            "result": object! { "const": 1 },
            "error_msg": object! { "const": "success" },
        },
    };
    Content::Json { schema, example: object! { "result": 1, "error_msg": "success" } }
}

fn fields(config: &Config) -> Vec<Field> {
    let skew = humantime::format_duration(config.order.clock_skew_max);
    let mut fields = vec![
        Field::required(
            "out_biz_order_no",
            pattern(OrderNo::PATTERN),
            ORDER_NO,
            format!("Order number shown to the user, {}.", OrderNo::EXPECTED),
        ),
        Field::required(
            "out_order_no",
            pattern(OrderNo::PATTERN),
            ORDER_NO,
            "Payment pre-order number; the order number itself where the two are not kept apart.",
        ),
        Field::required("open_id", pattern(OpenId::PATTERN), OPEN_ID, "The player; the app must know it."),
        Field::required(
            "order_create_time",
            integer(SECONDS_MAX + 1, i64::MAX),
            NOW_MILLIS,
            format!("Milliseconds, at most {skew} ahead of now."),
        ),
        Field::required(
            "order_status",
            object! { "type": "integer", "enum": OrderStatus::CODES.to_vec() },
            2,
            "1 pending payment, 2 paid, 3 cancelled, 4 refunding, 5 refund failed, 6 refunded; virtual goods: 10 pending \
             use, 11 used; physical goods: 12 pending shipment, 13 partially shipped, 14 pending receipt, 15 received.",
        ),
        Field::required(
            "order_path",
            text(1, ORDER_PATH_BYTES_MAX),
            format!("{PAGE}?id={ORDER_NO}"),
            "In-app path of the order's page: a page of the latest published package. A query string may follow.",
        ),
        Field::required(
            "product_cover_img_id",
            pattern(ImgId::PATTERN),
            IMG_ID,
            "The cover image, from an upload of this app.",
        ),
    ];
    fields.extend(optional_fields());
    fields
}

fn optional_fields() -> [Field; 5] {
    let local_life = "Required for apps of the category local life.";
    [
        Field::optional(
            "order_backup_url",
            text(0, WEB_URL_BYTES_MAX).with("format", "uri"),
            format!("Fallback web link: {}.", WebUrl::EXPECTED),
        )
        .example("https://shop.example/orders/1"),
        Field::optional("poi_id", text(0, POI_ID_BYTES_MAX), "Point of interest, registered for the app."),
        Field::optional(
            "product_id",
            text(0, PRODUCT_ID_BYTES_MAX),
            format!("Product id, at most {PRODUCT_ID_BYTES_MAX} bytes. {local_life}"),
        ),
        Field::optional(
            "product_catalog_code",
            integer(1, i64::MAX),
            format!("Product category code. {local_life}"),
        ),
        Field::optional(
            "product_city",
            text(0, PRODUCT_CITY_CHARS_MAX),
            format!("Full name of the product's city. {local_life}"),
        ),
    ]
}

fn refusals(config: &Config) -> Vec<RefusalExample> {
    let mut refusals = token_refusals();
    refusals.extend([
        said("scope_missing", "The app lacks the scope.", Code::Forbidden, "app_id: the app lacks the scope epay"),
        refused(
            "illegal_parameter",
            "A field is missing or not acceptable; the text says which, what was expected and what came.",
            wrong_value(Code::IllegalParameter, "order_status", "7", OrderStatus::parse),
        ),
        refused(
            "goods_kind_changed",
            "The order was about virtual goods before.",
            Refusal::from(ReportConflict::GoodsKindChanged {
                kind: domain::order::GoodsKind::Virtual,
                got: 12,
            }),
        ),
        said(
            "illegal_open_id",
            "The app does not know this player.",
            Code::IllegalOpenId,
            "open_id: expected a player of this app",
        ),
        refused("owner_changed", "The order is another player's.", Refusal::from(ReportConflict::OwnerChanged)),
        refused(
            "illegal_path",
            "The latest published package has no such page.",
            Refusal::new(
                Code::IllegalPath,
                format!(
                    "order_path: expected a page of the latest published package, got \"pages/order/detial\"; \
                     the nearest page is \"{PAGE}\""
                ),
            ),
        ),
        said(
            "image_not_found",
            "The image was not uploaded by this app.",
            Code::ImageNotFound,
            "product_cover_img_id: expected an image of this app",
        ),
        said(
            "image_blocked",
            "The operator has blocked the picture.",
            Code::ImageBlocked,
            "product_cover_img_id: the image is blocked by risk control",
        ),
        refused(
            "illegal_url",
            "The fallback web link is none.",
            wrong_value(Code::IllegalUrl, "order_backup_url", "shop.example", WebUrl::parse),
        ),
        said(
            "illegal_poi_id",
            "The point of interest is not registered for the app.",
            Code::IllegalPoiId,
            "poi_id: expected one registered for this app",
        ),
        said(
            "order_not_found",
            "The app checks pre-orders, and this payment number is none.",
            Code::OrderNotFound,
            "out_order_no: expected a payment pre-order of this app",
        ),
    ]);
    refusals.extend(general_refusals(config.http.body_bytes_max, config.http.body_timeout));
    refusals
}
