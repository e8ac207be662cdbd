//! Receivers of events (contract 12.2).

use domain::event::{EventId, EventType};
use domain::fields::FieldError;
use domain::ids::{AppId, WebUrl};
use domain::operation::receiver::{
    AddedReceiver, NewReceiver, NewReceiverSecret, ReceiverCommand, ReceiverReport, RemovedReceiver, Resend,
    Resent,
};
use domain::receiver::{Receiver, ReceiverFormat, ReceiverId, TimeBounds};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use store::{FailedEvent, ReceiverDetail};

use super::call::Call;
use super::describe::{ListBody, MOMENT, after, answers, in_order, lists, moment};
use super::messages::{example, no_app, no_receiver};
use super::page;
use super::problem::Problem;
use super::routes::routes;
use crate::openapi::{APP_ID, Field, Input};
use crate::state::AppState;

routes! { "Notifications":
    /// List an app's receivers
    ///
    /// All of them, oldest first: there are at most five.
    GET "/apps/{app_id}/receivers", "listReceivers", Read(Read): list -> ListBody<Receiver> =>
        lists("The receivers.", &receiver_example("active"));
    /// Add a receiver
    ///
    /// It gets the events of what happens from now on. Its secret signs them, and is shown once. One of the
    /// platform format has none: the app secret signs.
    POST "/apps/{app_id}/receivers", "addReceiver", Once(Develop): add -> AddedReceiver =>
        answers("added", "The receiver, with its secret.", with_secret(receiver_example("active")))
            .members([
                Field::required::<WebUrl>("url", URL, "Where events are sent: on a port of `notify.ports`."),
                Field::optional::<Vec<EventType>>("events", "The types that it is told of. Without any, all."),
                Field::optional::<ReceiverFormat>("format", "How notifications look and are signed; `standard` without it."),
            ])
            .wrong("url", "expected an absolute http or https URL with a host, at most 2048 bytes, without a user, on a port of notify.ports (80, 443), got \"ftp://game.example\"")
            .refuses([example::too_many_receivers()]);
    /// Show a receiver
    ///
    /// How it is, what waits for it, and its newest tries.
    GET "/apps/{app_id}/receivers/{receiver_id}", "getReceiver", Read(Read): get -> ReceiverDetail =>
        answers("shown", "The receiver.", detail_example());
    /// Remove a receiver
    ///
    /// What waits for it is never sent.
    DELETE "/apps/{app_id}/receivers/{receiver_id}", "removeReceiver", Replace(Develop): remove -> RemovedReceiver =>
        answers("done", "It is gone.", json!({ "app_id": APP_ID, "receiver_id": RECEIVER_ID, "removed": true }))
            .members([]);
    /// Pause a receiver
    ///
    /// Nothing is sent to it until it is resumed. What happens meanwhile waits.
    PUT "/apps/{app_id}/receivers/{receiver_id}/pause", "pauseReceiver", Replace(Develop): pause -> Receiver =>
        answers("done", "How it is now.", receiver_example("paused")).members([]);
    /// Resume a receiver
    ///
    /// What has waited is sent now.
    DELETE "/apps/{app_id}/receivers/{receiver_id}/pause", "resumeReceiver", Replace(Develop): resume -> Receiver =>
        answers("done", "How it is now.", receiver_example("active")).members([]);
    /// Make a new secret of a receiver
    ///
    /// Makes a new secret. For 24 hours the one before it signs too; an older one signs no more at once.
    POST "/apps/{app_id}/receivers/{receiver_id}/secrets", "rotateReceiverSecret", Once(Develop): rotate -> NewReceiverSecret =>
        answers("made", "The new one. It is shown once.", json!({
            "app_id": APP_ID, "receiver_id": RECEIVER_ID, "secret": SECRET,
        }))
        .members([])
        .refuses([example::no_own_secret()]);
    /// Test a receiver
    ///
    /// Sends an event that is marked as a test, once, and waits for the answer. The feed does not have it.
    POST "/apps/{app_id}/receivers/{receiver_id}/tests", "testReceiver", Check(Develop): test -> Tested =>
        answers("tested", "What came of it.", json!({
            "event_id": EVENT_ID, "taken": false, "status": null, "error": "not_reachable", "body": "",
        }))
        .members([]);
    /// List failed events
    ///
    /// Events that the receiver did not take at any try, oldest first.
    GET "/apps/{app_id}/receivers/{receiver_id}/failed", "listFailedEvents", Read(Read): failed -> ListBody<FailedEvent> =>
        lists("A page of events.", &json!({
            "event_id": EVENT_ID, "type": "exchange.succeeded", "tries": 11, "last_at": MOMENT, "status": 500,
            "error": "expected 2xx, got 500",
        }))
        .query(span_and_place)
        .wrong("since", "expected a date and time such as 2026-11-21 or 2026-11-21T08:00, got \"soon\"");
    /// Send events again
    ///
    /// Sends one event again, whatever became of it, or all failed events of changes in a span of time: of all times
    /// without `since` and `until`.
    POST "/apps/{app_id}/receivers/{receiver_id}/resends", "resendEvents", Once(Develop): resend -> Resent =>
        answers("resent", "How many are sent again.", json!({ "resent": 1 }))
            .read(to_resend)
            .wrong("since", "expected a date and time such as 2026-11-21 or 2026-11-21T08:00, got \"soon\"")
            .refuses([example::no_event()]);
}

/// What came of a test.
#[derive(Serialize, JsonSchema)]
struct Tested {
    /// Id of the test.
    event_id: String,
    /// Whether the receiver took it.
    taken: bool,
    /// HTTP status. Null when there was no answer.
    status: Option<i16>,
    /// Why it was not taken. Null when it was.
    error: Option<String>,
    /// The beginning of the answer.
    body: String,
}

async fn list(state: &AppState, call: &Call) -> Result<ListBody<Receiver>, Problem> {
    call.fields.only(&[])?;
    let app_id = call.app_id()?;
    let items = state.store.receivers(&app_id).await?;
    if items.is_empty() {
        require_app(state, &app_id).await?;
    }
    Ok(ListBody { items, next: None })
}

async fn add(state: &AppState, call: &Call) -> Result<AddedReceiver, Problem> {
    let fields = call.fields.only(&["url", "events", "format"])?;
    let url = fields.required("url", |text| state.notifier.read_url(text))?;
    let events = fields.list("events", EventType::parse)?.unwrap_or_default();
    let format = fields.optional("format", ReceiverFormat::parse)?.unwrap_or(ReceiverFormat::Standard);
    match change(state, call, ReceiverCommand::Add(NewReceiver { url, events, format })).await? {
        ReceiverReport::Added(added) => Ok(*added),
        report => Err(other_report(&report)),
    }
}

async fn get(state: &AppState, call: &Call) -> Result<ReceiverDetail, Problem> {
    call.fields.only(&[])?;
    let (app_id, id) = (call.app_id()?, receiver_id(call)?);
    match state.store.receiver(&app_id, &id).await? {
        Some(receiver) => Ok(receiver),
        None => Err(missing(state, &app_id, &id).await),
    }
}

async fn remove(state: &AppState, call: &Call) -> Result<RemovedReceiver, Problem> {
    match change_one(state, call, ReceiverCommand::Remove).await? {
        ReceiverReport::Removed(removed) => Ok(removed),
        report => Err(other_report(&report)),
    }
}

async fn pause(state: &AppState, call: &Call) -> Result<Receiver, Problem> {
    changed(change_one(state, call, ReceiverCommand::Pause).await?)
}

async fn resume(state: &AppState, call: &Call) -> Result<Receiver, Problem> {
    changed(change_one(state, call, ReceiverCommand::Resume).await?)
}

fn changed(report: ReceiverReport) -> Result<Receiver, Problem> {
    match report {
        ReceiverReport::Changed(receiver) => Ok(*receiver),
        report => Err(other_report(&report)),
    }
}

async fn rotate(state: &AppState, call: &Call) -> Result<NewReceiverSecret, Problem> {
    match change_one(state, call, ReceiverCommand::RotateSecret).await? {
        ReceiverReport::Rotated(rotated) => Ok(rotated),
        report => Err(other_report(&report)),
    }
}

async fn test(state: &AppState, call: &Call) -> Result<Tested, Problem> {
    call.fields.only(&[])?;
    let (app_id, id) = (call.app_id()?, receiver_id(call)?);
    let Some(receiver) = state.store.receiver_to_test(&app_id, &id).await? else {
        return Err(missing(state, &app_id, &id).await);
    };
    let tried = state.notifier.send_test(&receiver).await;
    state.store.note_test(&app_id, &id, &tried).await?;
    let taken = tried.error.is_none();
    Ok(Tested { event_id: tried.event_id, taken, status: tried.status, error: tried.error, body: tried.body })
}

async fn failed(state: &AppState, call: &Call) -> Result<ListBody<FailedEvent>, Problem> {
    let ((span, after), limit) = (call.read(span_and_place)?, call.limit()?);
    let (app_id, id) = (call.app_id()?, receiver_id(call)?);
    let events = state.store.failed_events(&app_id, &id, span, after.unwrap_or(0), limit + 1).await?;
    let Some(events) = events else { return Err(missing(state, &app_id, &id).await) };
    Ok(page(events, limit, |event| event.no.to_string()))
}

async fn resend(state: &AppState, call: &Call) -> Result<Resent, Problem> {
    let which = call.read(to_resend)?;
    let id = receiver_id(call)?;
    match change(state, call, ReceiverCommand::Resend(id, which)).await? {
        ReceiverReport::Resent(resent) => Ok(resent),
        report => Err(other_report(&report)),
    }
}

fn span_and_place(query: &mut Input<'_>) -> Result<(TimeBounds, Option<i64>), FieldError> {
    Ok((span(query)?, after(query, parse_no)?))
}

fn parse_no(text: &str) -> Result<i64, domain::fields::Expected> {
    domain::fields::parse_integer(text, 0, i64::MAX, "a cursor that a page before gave")
}

fn span(input: &mut Input<'_>) -> Result<TimeBounds, FieldError> {
    let since = moment(input.field("since", "Of changes at or after this moment."))?;
    let until = moment(input.field("until", "Of changes before this moment."))?;
    in_order(since, until)?;
    Ok(TimeBounds { since, until })
}

fn to_resend(body: &mut Input<'_>) -> Result<Resend, FieldError> {
    let about = "The event to send again. Without it, failed events are sent again.";
    let event_id = body.field("event_id", about).optional_as::<String, _>(EventId::parse)?;
    let span = span(body)?;
    match event_id {
        None => Ok(Resend::Failed(span)),
        Some(event_id) if span.since.is_none() && span.until.is_none() => Ok(Resend::One(event_id)),
        Some(_) => Err(FieldError::malformed("event_id", "either event_id, or since and until", "")),
    }
}

async fn require_app(state: &AppState, app_id: &AppId) -> Result<(), Problem> {
    state.store.find_app(app_id).await?.map(drop).ok_or_else(|| no_app(app_id))
}

/// Why there is no such receiver.
async fn missing(state: &AppState, app_id: &AppId, id: &ReceiverId) -> Problem {
    require_app(state, app_id).await.err().unwrap_or_else(|| no_receiver(id, app_id))
}

fn receiver_id(call: &Call) -> Result<ReceiverId, Problem> {
    call.segment("receiver_id", "receiver", ReceiverId::parse)
}

/// Carries out a command without fields to the receiver of the path.
async fn change_one(
    state: &AppState,
    call: &Call,
    command: fn(ReceiverId) -> ReceiverCommand,
) -> Result<ReceiverReport, Problem> {
    call.fields.only(&[])?;
    let id = receiver_id(call)?;
    change(state, call, command(id)).await
}

async fn change(state: &AppState, call: &Call, command: ReceiverCommand) -> Result<ReceiverReport, Problem> {
    let app_id = call.app_id()?;
    let operator = call.operator();
    Ok(state.store.change_receivers(&operator, &app_id, command, None).await?)
}

fn other_report(report: &ReceiverReport) -> Problem {
    Problem::internal(format!("a command made a report of another type: {report:?}"))
}

/// Id of the receiver of all examples.
pub(super) const RECEIVER_ID: &str = "rcv_5f0c1a2b3c4d5e6f";
/// Id of the event of all examples.
pub(super) const EVENT_ID: &str = "evt_019ab4739e0000112233445566778899000a";
const URL: &str = "https://game.example/notify";
/// A secret of all examples. It is not valid.
const SECRET: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

fn receiver_example(state: &str) -> Value {
    json!({
        "receiver_id": RECEIVER_ID, "app_id": APP_ID, "url": URL, "events": [], "format": "standard",
        "state": state, "paused_by": (state == "paused").then_some("operator"), "paused_at": (state == "paused").then_some(MOMENT), "created_at": MOMENT, "taken": 0,
        "failing_since": null, "last_taken_at": null, "last_failed_at": null, "last_status": null,
        "last_error": null,
    })
}

fn with_secret(mut receiver: Value) -> Value {
    receiver["secret"] = SECRET.into();
    receiver
}

fn detail_example() -> Value {
    let mut detail = receiver_example("active");
    detail["waiting"] = 0.into();
    detail["oldest_waiting_at"] = Value::Null;
    detail["failed"] = 0.into();
    detail["tries"] = json!([]);
    detail
}
