//! Exchanges: what was sold for which number, and whether a signature would have matched.

use domain::caller::{SignatureVerdict, examine_signature};
use domain::fields::{Expected, Fields};
use domain::ids::{AppId, BizNo};
use domain::signature::Mistake;
use serde_json::{Value, json};

use super::call::Call;
use super::messages::{no_app, no_exchange};
use super::problem::Problem;
use crate::state::AppState;

/// An exchange that deducted. The player's address is personal: only an admin's key is told it.
pub(super) async fn get(state: &AppState, call: &Call) -> Result<Value, Problem> {
    call.query(&[])?;
    let (app_id, biz_no) = (call.app_id()?, call.segment("biz_no", "exchange", BizNo::parse)?);
    let exchange = state.store.exchange(&app_id, &biz_no, call.is_admin()).await?;
    exchange.map(|exchange| json!(exchange)).ok_or_else(|| no_exchange(&app_id, &biz_no))
}

/// Looks at a form body of an exchange. Never tells a key or the right signature: whoever asks learns of
/// the fields only what they sent.
pub(super) async fn check_signature(state: &AppState, call: &Call) -> Result<Value, Problem> {
    let input = call.input.only(&["app_id", "form"])?;
    let app_id = input.required("app_id", AppId::parse)?;
    let fields = input.required("form", form)?;
    let app = state.store.find_app(&app_id).await?.ok_or_else(|| no_app(&app_id))?;
    let finding = examine_signature(&app, &fields);
    let (matches, mistake) = match finding.verdict {
        SignatureVerdict::Current | SignatureVerdict::Previous => (true, None),
        SignatureVerdict::Missing => (false, Some("sign is missing")),
        SignatureVerdict::Differs(mistake) => (false, mistake.map(Mistake::text)),
    };
    Ok(json!({
        "matches": matches,
        "string_to_sign": finding.string_to_sign,
        "bytes": finding.string_to_sign.len(),
        "mistake": mistake,
    }))
}

fn form(text: &str) -> Result<Fields, Expected> {
    Fields::from_urlencoded(text.as_bytes())
        .map_err(|error| Expected(format!("a form body (a=b&c=d): {error}").into()))
}
