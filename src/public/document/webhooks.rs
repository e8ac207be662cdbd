//! The notifications in the OpenAPI document (contract 12.3): one webhook for each type of events.

use domain::event::{
    CancelData, DebtData, EventData, EventType, ExchangeData, FreezeData, ImageData, OperatorData, OrderData,
    PresentData, RefundData, RefusedRefundData, TopupData, UnmatchedData,
};
use serde_json::{Value, json};

use crate::openapi::{APP_ID, Schema, Webhook, schema};

/// Id of the event in the examples.
const EVENT_ID: &str = "evt_019ab4739e0000112233445566778899000a";
/// The moment of the change in the examples, in both formats.
const MOMENT: (&str, i64) = ("2027-01-15T08:00:00Z", crate::openapi::NOW_MILLIS);

/// The webhooks, in the order of the types.
pub(super) fn webhooks() -> Vec<Webhook> {
    EventType::ALL.into_iter().map(webhook).collect()
}

fn webhook(of: EventType) -> Webhook {
    let (summary, data) = match of {
        EventType::ExchangeSucceeded => ("An exchange was made", schema::<ExchangeData>()),
        EventType::PresentSucceeded => ("Gifted currency was given", schema::<PresentData>()),
        EventType::CancelSucceeded => ("An exchange was given back, or a part of it", schema::<CancelData>()),
        EventType::WalletCredited => ("An operator has credited a wallet", schema::<OperatorData>()),
        EventType::WalletDebited => ("An operator has debited a wallet", schema::<OperatorData>()),
        EventType::OrderChanged => ("A report has made or changed an order", schema::<OrderData>()),
        EventType::WalletFrozen => ("An operator has frozen a wallet", schema::<FreezeData>()),
        EventType::WalletThawed => ("An operator has ended the freeze of a wallet", schema::<FreezeData>()),
        EventType::TopupPaid => ("A payment for a top-up was credited", schema::<TopupData>()),
        EventType::TopupUnmatched => {
            ("A payment for a top-up fits nothing, and nobody was credited", schema::<UnmatchedData>())
        }
        EventType::TopupRefunded => ("A payment was refunded, or a part of it", schema::<RefundData>()),
        EventType::TopupRefundRefused => {
            ("A refund came before its payment, and exceeds it", schema::<RefusedRefundData>())
        }
        EventType::WalletDebtChanged => {
            ("The debt of a wallet has grown by a refund, or a top-up has settled some", schema::<DebtData>())
        }
        EventType::ImageBlocked => ("An image was blocked", schema::<ImageData>()),
    };
    Webhook { name: of.as_str(), operation: operation(of, summary, &data), schema: data }
}

fn operation(of: EventType, summary: &str, data: &Schema) -> Value {
    let (rfc3339, millis) = MOMENT;
    let text = |words: &str| json!({ "type": "string", "description": words });
    let is_mock = json!({ "type": "boolean", "enum": [true], "description": "Of a test alone." });
    let app_id = text("The app.");
    let standard = json!({
        "type": "object",
        "required": ["type", "timestamp", "app_id", "data"],
        "properties": {
            "type": { "type": "string", "enum": [of] },
            "timestamp": { "type": "string", "format": "date-time", "description": "Time of the change." },
            "app_id": app_id, "is_mock": is_mock, "data": data.root,
        },
    });
    let platform = json!({
        "type": "object",
        "required": ["data", "biz_type", "message_id", "app_id", "timestamp"],
        "properties": {
            "data": data.root,
            "biz_type": { "type": "string", "enum": [of] },
            "is_mock": is_mock,
            "message_id": text("Id of the event."),
            "app_id": app_id,
            "timestamp": { "type": "integer", "format": "int64", "description": "Time of the change in milliseconds." },
        },
    });
    let example = EventData::example(of);
    let header = |name: &str, words: &str| json!({ "name": name, "in": "header", "required": false, "schema": { "type": "string" }, "description": words });
    json!({ "post": {
        "operationId": of.as_str().split('.').map(capital).collect::<String>(),
        "tags": ["Notifications"],
        "summary": summary,
        "description": "Sent to each receiver of this type, in the receiver's format. It may come more than once, with \
            the same id.",
        "parameters": [
            header("webhook-id", "Standard format: id of the event, the same for every try."),
            header("webhook-timestamp", "Standard format: time of the try in Unix seconds."),
            header("webhook-signature", "Standard format: `v1,` and the signature in base64; two with a space between \
                while a secret rotates."),
            header("kwaisign", "Platform format: MD5 of the body and the app secret in hexadecimal."),
        ],
        "requestBody": { "required": true, "content": { "application/json": {
            "schema": { "anyOf": [standard, platform] },
            "examples": {
                "standard": { "summary": "The standard format.", "value": {
                    "type": of, "timestamp": rfc3339, "app_id": APP_ID, "data": example } },
                "platform": { "summary": "The platform format.", "value": {
                    "data": example, "biz_type": of, "message_id": EVENT_ID, "app_id": APP_ID, "timestamp": millis } },
            },
        } } },
        "responses": {
            "2XX": { "description": "Taken. In the platform format only with `{\"result\":1,\"message_id\":\"...\"}`." },
            "410": { "description": "Not taken. The receiver is paused." },
            "default": { "description": "Not taken. It is tried again; `Retry-After` is honoured." },
        },
    } })
}

/// `wallet` as `Wallet`.
fn capital(word: &str) -> String {
    format!("{}{}", word[..1].to_uppercase(), &word[1..])
}
