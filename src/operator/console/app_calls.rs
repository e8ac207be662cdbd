//! The last calls of a sandbox app, and a form that sends one (contract 18.4).

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::body::Body;
use axum::extract::Path;
use axum::http::Request;
use axum::routing::{get, post};
use domain::app::App;
use domain::examples::{PRICED, USER_IP};
use domain::fields::{Expected, Fields};
use domain::ids::{AppId, BizNo, OpenId};
use domain::operation::app::{AppCommand, IssuedToken};
use domain::rights::Need;
use domain::signature::SignedRequest;
use domain::text;
use domain::topup::PricedProductId;
use domain::wallet::{AMOUNT_MAX, WalletCall};
use store::StoreError;
use tower::ServiceExt as _;

use super::error::ConsoleError;
use super::i18n::Moment as _;
use super::page::{Page, Section, render};
use super::request::{Answer, ConsoleRequest};
use super::route::{ConsoleRoute, routes};
use crate::http::request_log::{LoggedRequest, RequestFilter};
use crate::public::router;

const PATH: &str = "/console/apps/{app_id}/calls";

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page(PATH) => get(show);
    change(Need::Develop, PATH) => post(send);
};

const NO_SANDBOX: &str = "Only a sandbox app has a list of its calls.";
/// Calls on the page.
const SHOWN_MAX: usize = 100;
/// How long the token of a call lives.
const TOKEN_LIFETIME: Duration = Duration::from_mins(10);
/// Bytes of an answer that the page shows.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// What runs a program that signs, and the program.
type SigningProgram = (&'static str, &'static str);

/// The programs of docs/api.md, as they are.
const SIGNING: [SigningProgram; 6] = [
    ("python3 sign.py", include_str!("../../../examples/sign/sign.py")),
    ("node sign.js", include_str!("../../../examples/sign/sign.js")),
    ("java Sign.java", include_str!("../../../examples/sign/Sign.java")),
    ("go run sign.go", include_str!("../../../examples/sign/sign.go")),
    ("php sign.php", include_str!("../../../examples/sign/sign.php")),
    ("mono Sign.exe", include_str!("../../../examples/sign/Sign.cs")),
];

#[derive(Template)]
#[template(path = "app_calls.html")]
struct AppCallsPage<'a> {
    page: Page<'a>,
    app_id: &'a AppId,
    is_sandbox: bool,
    calls: &'a [Arc<LoggedRequest>],
    sent: Option<SentCall>,
}

/// A call that was sent, and what came back.
struct SentCall {
    status: u16,
    answer: String,
    curl: String,
    /// The form without its signature, for a program that signs.
    form: String,
    programs: [SigningProgram; 6],
}

async fn show(Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    let app = find_app(&request, &name).await?;
    page(&request, &app, None)
}

async fn send(Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    let app = find_app(&request, &name).await?;
    if !app.settings.sandbox {
        return Err(ConsoleError::not_found(NO_SANDBOX));
    }
    let sent = send_call(&request, &app).await?;
    page(&request, &app, Some(sent))
}

fn page(request: &ConsoleRequest, app: &App, sent: Option<SentCall>) -> Answer {
    let app_id = &app.id;
    let mut calls = request.state.request_log.of(app_id, &RequestFilter::default());
    calls.truncate(SHOWN_MAX);
    let page = request.page(Section::APPS, text!("Calls of {app_id}", app_id));
    render(&AppCallsPage { page, app_id, calls: &calls, is_sandbox: app.settings.sandbox, sent })
}

/// The app of an address.
async fn find_app(request: &ConsoleRequest, name: &str) -> Result<Arc<App>, ConsoleError> {
    let none = || ConsoleError::no_such_app(name);
    let app_id = AppId::parse(name).map_err(|_| none())?;
    request.state.store.find_app(&app_id).await?.ok_or_else(none)
}

/// Fills in what is not given, signs, and sends through all the layers of the public listener, without a network.
async fn send_call(request: &ConsoleRequest, app: &App) -> Result<SentCall, ConsoleError> {
    let (state, fields) = (&request.state, &request.fields);
    let call = fields.required("call", parse_call)?;
    let mut filled = filled_in(call, fields, app, state.clock.unix_millis())?;
    let key = app.live_pay_keys.first().ok_or_else(|| ConsoleError::no_such_app(app.id.as_str()))?;
    // After all checks: a form that is refused issues no token.
    let token = issue_token(request, &app.id).await?;
    filled.add_text("access_token".to_owned(), token).expect("each name comes once");
    let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(filled.texts()).finish();
    let body = SignedRequest::of(key, &filled).body;
    let path = format!("/api/kpay/minigame/{}", call.segment());
    let posted = Request::post(&path)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(body.clone()))
        .expect("the path and the header are well-formed");
    let Ok(response) = router::public(state.clone()).oneshot(posted).await;
    let status = response.status().as_u16();
    // A fault may take the answer away.
    let bytes = axum::body::to_bytes(response.into_body(), ANSWER_BYTES_MAX).await.unwrap_or_default();
    let curl = format!("curl -sS -i '{}{path}' \\\n  --data '{body}'", state.config.public.base_url());
    let answer = String::from_utf8_lossy(&bytes).into_owned();
    Ok(SentCall { status, answer, curl, form, programs: SIGNING })
}

/// A token of the app for the user, with its line in the operator's log (contract 8.5.1).
async fn issue_token(request: &ConsoleRequest, app_id: &AppId) -> Result<String, ConsoleError> {
    let command = AppCommand::IssueToken(TOKEN_LIFETIME);
    let report = request.state.store.carry_out(&request.operator()?, app_id, command).await?;
    let issued = IssuedToken::try_from(report);
    let issued = issued.map_err(|_| StoreError::Internal("token.issue made another report".to_owned()))?;
    Ok(issued.access_token)
}

/// The fields of the call but for the token: those of the form, and the rest.
fn filled_in(call: WalletCall, given: &Fields, app: &App, now_millis: i64) -> Result<Fields, ConsoleError> {
    let open_id = given.required("open_id", OpenId::parse)?;
    let amount = given.integer("amount", 1, AMOUNT_MAX)?.unwrap_or(1).to_string();
    let biz_no = given.optional("biz_no", BizNo::parse)?;
    let biz_no = biz_no.map_or_else(|| format!("console{now_millis}"), |biz_no| biz_no.to_string());
    let pay_biz_no = given.optional("pay_biz_no", BizNo::parse)?.map(|number| number.to_string());
    let product_id = given.optional("product_id", PricedProductId::parse)?;
    let product_id = product_id.map_or_else(|| PRICED.to_owned(), |product_id| product_id.to_string());
    let ts = now_millis.to_string();
    let fields = [
        ("app_id", app.id.as_str()),
        ("open_id", open_id.as_str()),
        ("zone_id", "zone1_role1"),
        ("os", "android"),
        ("ts", &ts),
        ("user_ip", USER_IP),
        ("amount", &amount),
        ("biz_no", &biz_no),
        ("pay_biz_no", pay_biz_no.as_deref().unwrap_or_default()),
        ("product_id", product_id.as_str()),
        ("product_name", "test item"),
        ("product_info", r#"[{"product_id":1,"product_num":1,"product_type":0}]"#),
        ("product_desc", "from the console"),
    ];
    let mut filled = Fields::default();
    for (name, value) in fields {
        if call.signs(name) && !value.is_empty() {
            filled.add_text(name.to_owned(), value.to_owned()).expect("each name comes once");
        }
    }
    Ok(filled)
}

fn parse_call(text: &str) -> Result<WalletCall, Expected> {
    let words = WalletCall::ALL.map(WalletCall::segment);
    let found = WalletCall::ALL.into_iter().find(|call| call.segment() == text);
    found.ok_or_else(|| Expected::one_of(&words))
}

/// The fields of a call in one line each.
fn field_lines(call: &LoggedRequest) -> String {
    call.fields.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("\n")
}
