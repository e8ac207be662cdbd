//! `POST /notify/{app_id}/{provider}`: a payment provider reports payments and refunds (contract 19.4).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use domain::fields::shown;
use domain::ids::AppId;
use domain::operation::topup::{payment_differs, unknown_provider};
use domain::operator::{Operator, OperatorKind};
use domain::text;
use domain::text::Text;
use domain::topup::{
    CALLBACK_BYTES_MAX, CallbackEvent, CallbackProvider, PaymentFields, PaymentProvider, PaymentState,
    RefundState, SignedCallback, not_signed,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use store::OperationError;

use super::called_app::note_called;
use super::extract::succeeded;
use crate::config::Config;
use crate::http::body::read_body_of;
use crate::http::json::json_response;
use crate::http::rate_limit::{LimitExceeded, Limited};
use crate::http::refusal::{Code, Refusal};
use crate::openapi::{APP_ID, Field, Input, Operation, Place, Success, refusals};
use crate::state::AppState;

refusals! { Refusal:
    /// The app takes no callbacks of this provider.
    unknown_callback(app_id = APP_ID, provider = "pay") => Refusal::transport(
        StatusCode::NOT_FOUND,
        text!(
            "path: {refusal}; to take its callbacks, run: minitill topup provider",
            refusal = unknown_provider(shown(&app_id.to_string()), shown(&provider.to_string())).text
        ),
    );
    /// The headers lack a signature, or no secret of the provider has made it.
    callback_not_signed(name = "webhook-signature") => unsigned(not_signed(name));
    /// The body is no JSON object, or a field is missing or wrong; the text says which.
    callback_unreadable(name = "type") => unfit(StatusCode::UNPROCESSABLE_ENTITY, text!("{name} is missing", name));
    /// The payment or refund was told of before, with other content; the text names the first field that differs.
    callback_differs(payment = "pay/pi_3OrtQ2", field = "amount") =>
        not_done(OperationError::Refused(payment_differs(payment, field)));
}

/// Looks up the provider, checks the headers, then the signature over the body, and carries out what the body tells.
///
/// # Errors
/// 404, 401, 413, 429, 422, 409; 503 when it may be carried out and must come again.
pub(super) async fn callback(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let mut segments = parts.uri.path().rsplit('/');
    let [provider, app_id] = [(); 2].map(|()| segments.next().unwrap_or_default());
    let (app_id, provider) = find(&state, app_id, provider).await?;
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let claimed = provider.claim(header, state.clock.unix_millis() / 1000).map_err(unsigned)?;
    let body = read_body_of(&state.config.http, body, CALLBACK_BYTES_MAX).await?;
    let signed = claimed.verify(&body).map_err(unsigned)?;
    let app = state.store.find_app(&app_id).await?;
    let app = app.ok_or_else(|| unknown_callback(&app_id, &provider.provider))?;
    note_called(&app);
    let admitted = state.rate_limits.admit(&app, Limited::Callbacks, state.clock.monotonic());
    admitted.map_err(too_often)?;
    let (status, told) = carry_out(&state, &app_id, &provider.provider, &signed).await?;
    Ok(json_response(status, &succeeded(told)))
}

/// The provider of these segments of the path.
async fn find(
    state: &AppState,
    app_id: &str,
    provider: &str,
) -> Result<(AppId, Arc<CallbackProvider>), Refusal> {
    let unknown = || unknown_callback(app_id, provider);
    let (Ok(app_id), Ok(name)) = (AppId::parse(app_id), PaymentProvider::parse(provider)) else {
        return Err(unknown());
    };
    let known = state.store.callback_provider(&app_id, &name).await?;
    Ok((app_id, known.ok_or_else(unknown)?))
}

/// Carries out what a callback tells, and returns the status and the answer. It answers after the commit.
async fn carry_out(
    state: &AppState,
    app_id: &AppId,
    provider: &PaymentProvider,
    signed: &SignedCallback<'_>,
) -> Result<(StatusCode, CallbackOutcome), Refusal> {
    let event = signed.read().map_err(|fault| unfit(StatusCode::UNPROCESSABLE_ENTITY, fault))?;
    let reporter = Operator::new(OperatorKind::Provider, provider.as_str());
    let reporter = reporter.expect("the name of a provider can be an operator's");
    let (state, is_kept) = match event {
        CallbackEvent::Payment(payment) => {
            let report = state.store.take_payment(&reporter, app_id, *payment).await.map_err(not_done)?;
            (report.state.as_str(), report.state.is_kept())
        }
        CallbackEvent::Refund(refund) => {
            let report = state.store.refund_payment(&reporter, app_id, *refund).await.map_err(not_done)?;
            (report.state.as_str(), report.state.is_kept())
        }
        CallbackEvent::Other => (IGNORED, false),
    };
    let status = if is_kept { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, CallbackOutcome { state }))
}

/// The refusal of what the store did not carry out.
fn not_done(error: OperationError) -> Refusal {
    match error {
        OperationError::Refused(refusal) => {
            let text = text!("{refusal}; the first stands", refusal = refusal.text);
            unfit(StatusCode::CONFLICT, text)
        }
        OperationError::Store(error) => error.into(),
    }
}

/// The refusal of a callback that is not signed.
fn unsigned(fault: Text) -> Refusal {
    let transport = Some(StatusCode::UNAUTHORIZED);
    Refusal { transport, ..Refusal::new(Code::CallbackNotSigned, fault) }
}

/// The refusal of a callback that was signed.
fn unfit(status: StatusCode, fault: Text) -> Refusal {
    Refusal { transport: Some(status), ..Refusal::new(Code::CallbackUnfit, fault) }
}

fn too_often(exceeded: LimitExceeded) -> Refusal {
    let refusal = Refusal::rate_limited(exceeded.text(), exceeded.wait);
    let transport = Some(StatusCode::TOO_MANY_REQUESTS);
    Refusal { code: Code::CallbackRateLimited, transport, ..refusal }
}

/// The state of a callback that concerns no purse.
const IGNORED: &str = "ignored";

/// The outcome of a callback.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Callback")]
struct CallbackOutcome {
    /// What became of it: `paid` or `unmatched` for a payment; `refunded`, `waiting`, `refused` or `unchanged` for a refund;
    /// `ignored` for what concerns no purse.
    #[schemars(extend("enum" = callback_states()))]
    state: &'static str,
}

/// The states of the answer. A callback never tells of a settlement, so no payment is paid back in it.
fn callback_states() -> Vec<&'static str> {
    let of_payment = [PaymentState::Paid, PaymentState::Unmatched].map(PaymentState::as_str);
    of_payment.into_iter().chain(RefundState::WORDS).chain([IGNORED]).collect()
}

/// The text of the API's document about the callback.
pub(super) fn describe(_: &Config) -> Operation<Refusal> {
    let description = "\
        For a payment provider that calls back, in the format that `minitill topup provider` has set. `standard` is Standard \
        Webhooks: the types `payment.succeeded` and `payment.refunded`, with the fields of the admin API in `data`. `stripe` \
        is Stripe's: `checkout.session.completed`, `checkout.session.async_payment_succeeded` and `charge.refunded`. Other types \
        are taken and do nothing.\n\n\
        It is answered 200 or 202 only after the commit. A repeat changes nothing.";
    let in_path = [
        Field::required::<AppId>("app_id", APP_ID, "The app."),
        Field::required::<PaymentProvider>("provider", "pay", "The payment provider, as you name it."),
    ];
    let header = |name, words| Field::optional::<String>(name, words);
    let headers = [
        header("webhook-id", "`standard`: the id of the message."),
        header("webhook-timestamp", "`standard`: when it was signed, in Unix seconds, within 5 minutes."),
        header(
            "webhook-signature",
            "`standard`: `v1,` and the signature, in base64; several with blanks between them.",
        ),
        header("Stripe-Signature", "`stripe`: `t=`, the time, `,v1=`, and the signature in hexadecimal."),
    ];
    let data = Input::describe(PaymentFields::read)
        .into_iter()
        .filter_map(|field| Some((field.name.to_owned(), field.example.clone()?)));
    let data = json!(data.collect::<serde_json::Map<_, _>>());
    let body = [
        Field::required::<String>("type", "payment.succeeded", "What the provider tells."),
        Field::optional::<serde_json::Map<String, serde_json::Value>>("data", "About what.").example(data),
    ];
    let told = |state: PaymentState| succeeded(CallbackOutcome { state: state.as_str() });
    Operation::new("Take a callback of a payment provider", description)
        .with(Place::Path, in_path)
        .with(Place::Header, headers)
        .body(&["application/json"], body)
        .answers(Success::json(
            "paid",
            "It was carried out, or concerns no purse.",
            &told(PaymentState::Paid),
        ))
        .answers(Success {
            status: StatusCode::ACCEPTED.as_u16(),
            ..Success::json("unmatched", "It was kept, and no purse changed.", &told(PaymentState::Unmatched))
        })
        .refuses([
            example::unknown_callback(),
            example::callback_not_signed(),
            example::callback_unreadable(),
            example::callback_differs(),
            rate_limited(),
        ])
}

fn rate_limited() -> crate::openapi::Example<Refusal> {
    let wait = std::time::Duration::from_secs(1);
    let refusal = too_often(LimitExceeded { limited: Limited::Callbacks, per_second: 1, wait });
    let words = "The provider calls too often; wait as `Retry-After` says.";
    crate::openapi::Example::new("callback_rate_limited", words, refusal)
}
