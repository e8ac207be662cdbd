//! Exchanges: what was sold for which number, and whether a signature would have matched.

use domain::caller::{SignatureVerdict, examine_signature};
use domain::fields::{Expected, FieldError, Fields};
use domain::ids::{AppId, BizNo, OpenId, Os, ProductText};
use domain::operation::wallet::{GiveBack, ReturnedExchange, WalletReport};
use domain::signature::Mistake;
use domain::text;
use domain::wallet::{AMOUNT_MAX, Amount, DeveloperTexts, WalletCall, WalletForm};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use store::{ItemFilter, ListedKind, NumberRecord, SaleCursor, SaleFilter, SaleRow, Zone};

use super::call::Call;
use super::describe::{ListBody, MOMENT, after, answers, in_order, lists, moment};
use super::messages::{example, no_app, no_exchange};
use super::problem::Problem;
use super::routes::routes;
use super::wallets::ref_and_note;
use crate::diagnosis::{FORM_BYTES_MAX, KeysTried, NoDiagnosis};
use crate::openapi::{APP_ID, Input, NOW_MILLIS, OPEN_ID};
use crate::state::AppState;

routes! { "Exchanges":
    /// List exchanges
    ///
    /// Exchanges, presents and cancels of an app, or of all, newest first. A cancel has zone, product and platform of
    /// its exchange. A page looks through 100,000 entries of an app at most: it may be empty and have a `next`.
    GET "/exchanges", "listExchanges", Read(Read, OwnApps): list -> ListBody<SaleRow> =>
        lists("A page of exchanges.", &json!({
            "app_id": APP_ID, "kind": "exchange", "biz_no": BIZ_NO, "ref": null, "pay_biz_no": null, "open_id": OPEN_ID,
            "zone_id": "z1_r1", "product_name": "Double-up card", "amount": 60, "free_change": 0, "charge_change": -60,
            "created_at": MOMENT,
        }))
        .query(filter_and_place)
        .wrong("kind", "expected exchange, present or cancel, got \"gift\"")
        .refuses([example::no_app()]);
    /// Show an exchange
    ///
    /// What was sold under an order number: the request as it came, its ledger entry, and until when a
    /// repeat gets the same answer. It also shows what a repeat with the same content gets now, and one
    /// with other content. `user_ip`, the player's address, is there for a key of the role admin alone.
    ///
    /// `refusals` are the properly signed exchanges, presents and cancels under this number that were refused in the
    /// last 30 days, once for each player and code. A number that was only ever refused has `app_id`, `biz_no` and
    /// `refusals` alone.
    GET "/apps/{app_id}/exchanges/{biz_no}", "getExchange", Read(Read): get -> NumberRecord =>
        answers("shown", "The exchange.", exchange_example());
    /// Give an exchange back
    ///
    /// Gives back `amount` of an exchange, in parts and as often as something is left: what was taken last is given back
    /// first. Credits, debits and cancels share the refs of an app. The same `ref` again with the same content does
    /// nothing and answers `replayed: true`; with other content it is 409.
    POST "/apps/{app_id}/exchanges/{biz_no}/cancels", "cancelExchange", Once(GiveBack): cancel -> ReturnedExchange =>
        answers("given_back", "What was given back, and both purses right after it.", json!({
            "ref": "order-4711", "biz_no": BIZ_NO, "free_refunded": 0, "charge_refunded": 20, "remaining": 40,
            "free_balance": 40, "charge_balance": 60, "replayed": false,
        }))
        .read(|body| to_give_back(&BizNo::parse(BIZ_NO).expect("it is a number"), body))
        .wrong("amount", "expected an integer from 1 to 1000000000000, got 0")
        .refuses([
            example::ref_used(),
            example::more_than_left(),
            example::above_limit(),
            example::needs_second(),
            example::balance_too_large(),
        ]);
    /// Check a signature
    ///
    /// Whether the `sign` in the body of a call of the wallet matches, the string that must be signed, and the well-known
    /// mistake that explains what came, if one does. The answer has no key and no right signature. The call
    /// changes nothing.
    POST "/signature-checks", "checkSignature", Check(Develop, OwnApps): check_signature -> SignatureCheck =>
        answers("checked", "What was found.", json!({
            "call": "pay", "matches": false, "string_to_sign": SIGNED, "bytes": SIGNED.len(), "mistake": Mistake::NoDigest.english(),
        }))
        .read(signed)
        .wrong("form", "is missing")
        .refuses([example::no_app()]);
}

async fn list(state: &AppState, call: &Call) -> Result<ListBody<SaleRow>, Problem> {
    let (filter, after) = call.read(filter_and_place)?;
    let filter = SaleFilter { apps: call.apps().clone(), ..filter };
    call.demand_period(filter.lacks_period(state.now()), "without app_id, zone, product_name, os and kind")?;
    let found = state.store.sales(&filter, after.as_ref(), call.limit()?);
    let found = call.search(state, filter.is_unbounded(), found).await?;
    Ok(ListBody { items: found.items, next: found.next.map(|next| next.to_string()) })
}

fn filter_and_place(query: &mut Input<'_>) -> Result<(SaleFilter, Option<SaleCursor>), FieldError> {
    let product_name = query.field("product_name", "Of this product. A present has none.");
    let product_name = product_name.optional(ProductText::parse)?;
    let zone = query
        .field("zone", "Of this zone: what `zone_id` has before its first underscore; or of this `zone_id`.");
    let filter = SaleFilter {
        item: product_name.map(|text| ItemFilter { text, is_part: false }),
        zone: zone.example("z1").optional_as::<String, _>(Zone::parse)?,
        app_id: query.field("app_id", "Of this app alone.").example(APP_ID).optional(AppId::parse)?,
        since: moment(query.field("since", SINCE))?,
        until: moment(query.field("until", "Before this moment."))?,
        open_id: query.field("open_id", "Of this player.").example(OPEN_ID).optional(OpenId::parse)?,
        os: query.field("os", "Of players on this platform.").example("android").optional(Os::parse)?,
        kind: query.field("kind", "Of this kind.").example("exchange").optional(ListedKind::parse)?,
        ..SaleFilter::default()
    };
    in_order(filter.since, filter.until)?;
    Ok((filter, after(query, SaleCursor::parse)?))
}

/// An exchange that deducted, or how its number was refused. The player's address is personal: only an admin's key is told it.
async fn get(state: &AppState, call: &Call) -> Result<NumberRecord, Problem> {
    call.fields.only(&[])?;
    let (app_id, biz_no) = (call.app_id()?, call.segment("biz_no", "exchange", BizNo::parse)?);
    let number = state.store.number(&app_id, &biz_no, call.is_admin()).await?;
    number.ok_or_else(|| no_exchange(&app_id, &biz_no))
}

/// Gives an exchange back, or a part of it.
async fn cancel(state: &AppState, call: &Call) -> Result<ReturnedExchange, Problem> {
    let (app_id, biz_no) = (call.app_id()?, call.segment("biz_no", "exchange", BizNo::parse)?);
    let give_back = call.read(|body| to_give_back(&biz_no, body))?;
    match state.store.change_wallet(&call.operator(), &app_id, give_back).await? {
        WalletReport::Returned(returned) => Ok(returned),
        WalletReport::Changed(_) => Err(Problem::internal("a cancel gave nothing back")),
    }
}

fn to_give_back(biz_no: &BizNo, body: &mut Input<'_>) -> Result<GiveBack, FieldError> {
    let described = body.field("amount", "How much to give back.");
    let amount = described.required_integer(20, 1, AMOUNT_MAX)?.to_string();
    let amount = Amount::parse(&amount)
        .map_err(|expected| FieldError::malformed_number("amount", expected.0, &amount))?;
    let (reference, note) = ref_and_note(body, "Item did not arrive")?;
    Ok(GiveBack { biz_no: biz_no.clone(), amount, reference, note })
}

/// Looks at a form body of a call of the wallet. Never tells a key or the right signature: whoever asks learns of
/// the fields only what they sent.
async fn check_signature(state: &AppState, call: &Call) -> Result<SignatureCheck, Problem> {
    let (app_id, fields) = call.read(signed)?;
    let app = state.store.find_app(&app_id).await?.ok_or_else(|| no_app(&app_id))?;
    let form = WalletForm { call: WalletCall::of(&fields), fields };
    let call_name = form.call.segment();
    let finding = match examine_signature(&app, &form) {
        finding if finding.verdict == SignatureVerdict::Differs(None) => {
            let now = state.clock.monotonic();
            let made = state.operator_diagnoses.make(&state.store, app, form, KeysTried::Own, now);
            made.await?.map_err(|why| match why {
                NoDiagnosis::Busy => Problem::busy("the diagnosis of this app's signatures is busy"),
                NoDiagnosis::FormTooLarge => Problem::field(
                    "form",
                    format!("the signature does not match, and a form above {FORM_BYTES_MAX} bytes is not diagnosed"),
                ),
            })?
        }
        finding => finding,
    };
    let (matches, mistake) = match finding.verdict {
        SignatureVerdict::Current | SignatureVerdict::Previous => (true, None),
        SignatureVerdict::Missing => (false, Some("sign is missing".into())),
        SignatureVerdict::Differs(mistake) => (false, mistake.map(Mistake::english)),
    };
    let bytes = finding.string_to_sign.len();
    Ok(SignatureCheck { call: call_name, matches, string_to_sign: finding.string_to_sign, bytes, mistake })
}

fn signed(body: &mut Input<'_>) -> Result<(AppId, Fields), FieldError> {
    let app_id = body.field("app_id", "The app.").required(APP_ID, AppId::parse)?;
    let form_field = body
        .field("form", "The body of the call, as it was sent: `a=b&c=d`. Its fields tell which call it is.");
    Ok((app_id, form_field.required_as::<String, _>(FORM, form)?))
}

fn form(text: &str) -> Result<Fields, Expected> {
    Fields::from_urlencoded(text.as_bytes())
        .map_err(|error| Expected(text!("a form body (a=b&c=d): {fault}", fault = error.text())))
}

/// What was found of a signature.
#[derive(Serialize, JsonSchema)]
struct SignatureCheck {
    /// The call that has these fields.
    #[schemars(extend("enum" = ["pay", "present", "cancel", "balance", "query", "topup"]))]
    call: &'static str,
    matches: bool,
    /// The string that must be signed.
    string_to_sign: String,
    /// Its length.
    bytes: usize,
    /// The well-known mistake that explains what came, if one does.
    mistake: Option<Box<str>>,
}

/// The document's text about `since`.
const SINCE: &str = "At or after this moment. Without `app_id` it is needed with `zone`, `product_name`, `os` or `kind`, at most \
    92 days before `until` or now.";

/// Order number of the example.
pub(super) const BIZ_NO: &str = domain::examples::NAMED_BIZ_NO;

/// A form whose values were signed in the order in which they stand.
const FORM: &str = "open_id=player-1&amount=5&product_name=Sword&sign=00";
/// What must be signed of it.
const SIGNED: &str = "amount=5&open_id=player-1&product_name=Sword";

fn exchange_example() -> Value {
    let item = json!({
        "product_id": 1, "product_num": 2, "product_type": 0, "product_start_time": null, "product_period": null,
    });
    let mut example = json!({
        "app_id": APP_ID, "biz_no": BIZ_NO, "open_id": OPEN_ID, "zone_id": "z1_r1", "os": "android", "ts": NOW_MILLIS,
        "user_ip": "203.0.113.9", "amount": 60, "pay_priority": 0, "product_name": "Double-up card",
        "product_info": r#"[{"product_id":1,"product_num":2,"product_type":0}]"#, "items": [item],
        "product_desc": "remark", "seq": 2, "free_change": 0, "charge_change": -60,
        "free_balance": 40, "charge_balance": 40, "created_at": MOMENT, "replayed_until": MOMENT,
        "same_content": "replayed", "other_content": "conflict", "remaining": 60,
        "cancels": [], "replays": null, "refusals": [],
    });
    for name in DeveloperTexts::NAMES {
        example[name] = "".into();
    }
    example
}
