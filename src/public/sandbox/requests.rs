//! `GET /sandbox/v1/requests`: the last calls of a sandbox app, for its developer (contract 18.3).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use domain::code::Code as CodeRow;
use domain::fields::{Expected, FieldError, shown};
use domain::moment;
use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;

use super::super::describe::{credentials, wrong_value};
use super::super::extract::{succeeded, success};
use super::super::wallet;
use super::read_query;
use crate::config::Config;
use crate::http::refusal::{Code, Envelope, Refusal};
use crate::http::request_log::{LoggedRequest, RequestFilter};
use crate::openapi::{Input, Operation, Place, Success, refusals};
use crate::state::AppState;

/// The code of a success.
const SUCCESS: &str = "1";
/// Bytes of a request id that is looked for.
const REQUEST_ID_BYTES_MAX: usize = 128;

refusals! { Refusal:
    /// A field is not acceptable; the text says which, what was expected and what came.
    illegal_code() => wrong_value(Code::IllegalParameter, "code", "2", parse_code);
}

/// Lists the last calls of the app, the newest first.
///
/// # Errors
/// The codes of contract 7.1 that are marked sandbox or all.
pub(in crate::public) async fn requests(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Refusal> {
    let (app, query, _) = read_query(&state, request).await?;
    let filter = read_filter(&mut Input::of(&query))?;
    Ok(success(LoggedRequests { requests: state.request_log.of(app.id(), &filter) }))
}

fn read_filter(query: &mut Input<'_>) -> Result<RequestFilter, FieldError> {
    let since = query.field("since", "Only calls from this time on, as RFC 3339 has it.");
    let since = since.optional_as::<String, OffsetDateTime>(moment::parse)?;
    let code = query.field("code", "Only calls with this code; 1 is success.");
    let code = code.optional_as::<u32, u32>(parse_code)?;
    let request_id = query.field("request_id", "Only the call with this `X-Request-Id`.");
    let request_id = request_id.optional_as::<String, String>(|text| {
        let fits = text.len() <= REQUEST_ID_BYTES_MAX;
        if fits { Ok(text.to_owned()) } else { Err(Expected::new("at most 128 bytes")) }
    })?;
    Ok(RequestFilter { since, code, request_id })
}

fn parse_code(text: &str) -> Result<u32, Expected> {
    if text == SUCCESS { Ok(1) } else { CodeRow::number_of(text) }
}

/// The data beside success.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LoggedRequests")]
struct LoggedRequests {
    /// The newest first, at most 1,000.
    requests: Vec<Arc<LoggedRequest>>,
}

/// The text of the API's document about it.
pub(in crate::public) fn describe_requests(_: &Config) -> Operation<Refusal> {
    let description = "The last 1,000 calls of a sandbox app on this server, the newest first: what came, what was answered, and \
        whether a fault happened. Only memory has them. A call with a wrong token is there too.";
    let refused = wallet::illegal_open_id(shown("nobody"));
    let example = LoggedRequest {
        at: OffsetDateTime::UNIX_EPOCH + std::time::Duration::from_secs(1_764_200_000),
        endpoint: "balance",
        fields: [("app_id", "demo"), ("access_token", "***"), ("open_id", "nobody")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter()
            .collect(),
        status: 200,
        answer: refused.body(Envelope::Exchange),
        code: refused.code.number(),
        request_id: "4f1d0e5a9b7c4d21".to_owned(),
        milliseconds: 1,
        fault: false,
    };
    let fields = [&credentials(true)[..], &Input::describe(read_filter)].concat();
    Operation::new("List the last calls", description)
        .with(Place::Query, fields)
        .answers(Success::json(
            "listed_calls",
            "One call, which was refused.",
            &succeeded(LoggedRequests { requests: vec![Arc::new(example)] }),
        ))
        .refuses([super::example::no_sandbox_app(), example::illegal_code()])
}
