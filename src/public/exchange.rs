//! `POST /api/{payment_segment}/minigame/pay`: a game server deducts currency in exchange for
//! items (contract 3).

use axum::extract::{Request, State};
use axum::response::Response;
use domain::ids::ProductText;
use domain::product_info::{self, Item};
use domain::wallet_call::WalletCall;
use serde_json::{Value, json};

use super::describe::BIZ_NO;
use super::wallet::{self, Receipt, example, field};
use crate::config::Config;
use crate::error::Refusal;
use crate::openapi::{Field, Operation, PAY_KEY, Success};
use crate::state::AppState;

/// Deducts.
///
/// # Errors
/// The codes of contract 7 that are marked exchange or all.
pub async fn exchange(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    wallet::carry_out(&state, WalletCall::Exchange, request).await
}

/// Items of the example.
const PRODUCT_INFO: &str = r#"[{"product_id":1001,"product_num":1,"product_type":0}]"#;

/// What the API's document says of the exchange.
pub(super) fn describe(config: &Config) -> Operation<Refusal> {
    let receipt = Receipt { biz_no: BIZ_NO.to_owned(), free_balance: 0, charge_balance: 80 };
    let deducted = Success::json(
        "deducted",
        "60 coins of 40 gifted and 100 charged ones, gifted first.",
        &wallet::Answer::new(&receipt),
    );
    let words = "The same request again: the first answer, and nothing is deducted.";
    let replayed = wallet::replayed(words, &receipt);
    wallet::describe(
        WalletCall::Exchange,
        fields(config),
        "Exchange in-game currency for items",
        description(),
    )
    .answers(deducted)
    .answers(replayed)
    .refuses(wallet::refusals_of_changes())
    .refuses([example::insufficient_balance()])
}

fn description() -> String {
    format!(
        "A game server deducts `amount` from a player's two purses, exactly once for each `biz_no`. The body is a form, \
         whatever the content type says.\n\n\
         **Signature.** Take the fields that are not empty, without `access_token` and `sign`, as they are before the form \
         is encoded. Join `name=value` with `&` in ASCII order of the names. Sign the string with HMAC-SHA256 and the pay \
         key, in hexadecimal. The example is signed with the pay key `{PAY_KEY}`.\n\n\
         **Idempotency.** A `biz_no` belongs to its app for ever and deducts at most once. For 48 hours the same content \
         under the same `biz_no` gets the first answer, byte for byte, and `Idempotent-Replayed: true`. `ts`, `user_ip`, \
         `os`, `access_token` and `sign` may differ. Other content is refused. After 48 hours every repeat is refused. A \
         refused exchange records nothing: its `biz_no` stays free. A `biz_no` of a present or a cancel is used as well.\n\n\
         **No answer, 500 or 503.** It is not known whether the player has paid: send the exchange again with the same \
         `biz_no`. It is not known either when the repeat is refused before its `biz_no` is looked up (100200102, \
         100200114, 10000200, 10000305): correct that and repeat. After 10000601, 10000604 and 10000423 the `biz_no` is \
         free. To give up for certain, query the `biz_no` with `close=1`.\n\n\
         **Order of checks.** Form, access token, signature, fields, `biz_no`, `ts`, wallet."
    )
}

/// The fields of contract 3, without credentials and signature.
fn fields(config: &Config) -> Vec<Field> {
    let default = config.exchange.pay_priority_default.code();
    let priority = format!(
        "`0`: charged currency first, `1`: gifted currency first; the other purse pays the rest. Empty or absent: {default}."
    );
    let priority = Field::optional::<String>("pay_priority", priority);
    let name = format!("Name of the item or bundle, {}.", ProductText::EXPECTED);
    let (bytes, items) = (product_info::BYTES_MAX, product_info::ITEMS_MAX);
    let info = format!("JSON text of at most {bytes} bytes: an array of 1 to {items} items.");
    let info = Field::required::<String>("product_info", PRODUCT_INFO, info).demand("minLength", 1);
    let extension = field("extension");
    let words = format!(
        "{} With it, no text may read like other signed fields (`&open_id=`, `&os=`, `&product_desc=`).",
        extension.description
    );
    vec![
        field("open_id"),
        field("zone_id"),
        field("os"),
        field("ts"),
        field("user_ip"),
        field("amount"),
        priority.demand("enum", json!(["", "0", "1"])).example("1"),
        field("biz_no"),
        Field::required::<ProductText>("product_name", "Double-up card", name),
        info.demand("maxLength", bytes)
            .demand("contentMediaType", "application/json")
            .demand("contentSchema", items_schema()),
        Field::required::<ProductText>("product_desc", "For one match", "Remark, as long as the name."),
        Field { description: words.into(), ..extension },
    ]
}

/// Contract 3.5.
fn items_schema() -> Value {
    let item = schemars::schema_for!(Item).to_value();
    let mut properties = item["properties"].clone();
    for (name, minimum) in
        [("product_id", 0), ("product_num", 1), ("product_start_time", 0), ("product_period", 0)]
    {
        properties[name]["type"] = "integer".into();
        properties[name]["minimum"] = minimum.into();
    }
    properties["product_type"]["enum"] = json!([0, 1, 2]);
    let required = ["product_id", "product_num", "product_type"];
    let item = json!({ "type": "object", "required": required, "properties": properties });
    json!({ "type": "array", "minItems": 1, "maxItems": product_info::ITEMS_MAX, "items": item })
}
