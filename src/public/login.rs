//! `/game/minigame/jscode2session` and `/oauth2/mp/code2session`: an app exchanges the login code of a
//! player for the player's `open_id` and a session key (contract 11).

use axum::extract::{Request, State};
use axum::response::Response;
use domain::fields::FieldError;
use domain::ids::{OpenId, UnionId};
use domain::login::Player;
use schemars::JsonSchema;
use serde::Serialize;
use store::secrets::random_session_key;

use super::app_secret::{self, Credentials, by_body, by_query, exactly, grant_type};
use super::auth;
use super::describe::SomeText;
use super::extract::{succeeded, success};
use crate::config::Config;
use crate::http::rate_limit::Limited;
use crate::http::refusal::{Code, Refusal};
use crate::openapi::{Input, JS_CODE, OPEN_ID, Operation, Success, UNION_ID, refusals};
use crate::state::AppState;

/// The only kind of grant.
const GRANT_TYPE: &str = "authorization_code";
/// The parameters, in the order of their checks.
const PARAMETERS: [&str; 4] = ["app_id", "app_secret", "js_code", "grant_type"];
/// The session key of the example.
const SESSION_KEY: &str = "nnVhH0sHv0n5Rk3vYxQ2Zg==";

refusals! { Refusal:
    /// The code is unknown, used or expired, or it is another app's.
    js_code_invalid() => Refusal::new(
        Code::LoginCode,
        "js_code: expected a code of this app that was not used and has not expired; a new login gives one"
    );
}

/// GET with a query, or POST with a query, or a form, multipart or JSON body. A session key is given
/// and not kept.
///
/// # Errors
/// 100200100, 100200101, 100200102 for a suspended app, 10000305, 100200103.
pub async fn login(State(state): State<AppState>, request: Request) -> Result<Response, Refusal> {
    let (app, js_code) = app_secret::admit(&PARAMETERS, &state, Limited::Logins, request, parameters).await?;
    let player = state.store.log_in(&app, &js_code).await?;
    let player = player.ok_or_else(|| auth::with_strays(js_code_invalid(), &js_code))?;
    Ok(success(LoggedIn::new(player, random_session_key())))
}

/// The data beside success.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Session")]
struct LoggedIn {
    open_id: OpenId,
    /// 16 random bytes in base64. Minitill does not keep them.
    #[schemars(regex(pattern = "^[0-9A-Za-z+/]{22}==$"))]
    session_key: String,
    /// Only where the operator gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "UnionId")]
    union_id: Option<UnionId>,
}

impl LoggedIn {
    fn new(Player { open_id, union_id }: Player, session_key: String) -> Self {
        Self { open_id, session_key, union_id }
    }
}

fn parameters(input: &mut Input<'_>) -> Result<(Credentials, String), FieldError> {
    let credentials = app_secret::credentials(input)?;
    let words = "The login code. In a sandbox app also `sandbox-` and a name of 1 to 32 of 0-9A-Za-z.";
    let js_code = input.field("js_code", words);
    let js_code = js_code.required_as::<SomeText, _>(JS_CODE, app_secret::text)?;
    let grant = grant_type(input, GRANT_TYPE).example(GRANT_TYPE);
    grant.optional_as::<String, _>(exactly(GRANT_TYPE))?;
    Ok((credentials, js_code))
}

/// The text of the API's document about the request by query.
pub(super) fn describe_get(_: &Config) -> Operation<Refusal> {
    by_query(describe("Log a player in, by query"), Input::describe(parameters))
}

/// The text of the API's document about the request by body.
pub(super) fn describe_post(_: &Config) -> Operation<Refusal> {
    by_body(describe("Log a player in, by body"), Input::describe(parameters))
}

fn describe(summary: &'static str) -> Operation<Refusal> {
    let player = Player {
        open_id: OpenId::parse(OPEN_ID).expect("it is an id"),
        union_id: UnionId::parse(UNION_ID).ok(),
    };
    let logged_in = LoggedIn::new(player, SESSION_KEY.to_owned());
    Operation::new(
        summary,
        "An app exchanges a login code for its player, whom this registers. A code works once, for five \
         minutes. It comes from the operator's own login. A wrong secret does not use it up. A code whose answer \
         was lost is used up: log in again with a new one. Checks run in this order: parameters, app and secret, \
         suspension, rate limit, code.",
    )
    .answers(Success::json("logged_in", "The player.", &succeeded(logged_in)))
    .refuses([
        app_secret::parameter(),
        app_secret::content_coded(),
        auth::example::token_credentials(),
        example::js_code_invalid(),
    ])
}
