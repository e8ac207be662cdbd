//! The forms of receivers: each is a command, whose answer is the receiver's page, or the secret that was made.

use axum::extract::Path;
use domain::event::{EventId, EventType};
use domain::ids::AppId;
use domain::operation::receiver::{NewReceiver, ReceiverCommand, ReceiverReport, Resend};
use domain::receiver::{Receiver, ReceiverFormat, ReceiverId, ReceiverState, TimeBounds};

use super::super::error::ConsoleError;
use super::super::i18n::parse_moment;
use super::super::page::Section;
use super::super::request::{Answer, ConsoleRequest, lead_to};
use super::super::shown_once::ShownOnce;
use super::{find_app, list_path, no_such_receiver, parse, receiver_path};

pub(super) async fn add(Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    let app_id = find_app(&request.state, &name).await?;
    let url = request.fields.required("url", |text| request.state.notifier.read_url(text))?;
    let format = request.fields.required("format", ReceiverFormat::parse)?;
    let is_ticked = |event: &EventType| request.filled(&format!("events_{event}")).is_some();
    let events = EventType::ALL.into_iter().filter(is_ticked).collect();
    let command = ReceiverCommand::Add(NewReceiver { url, events, format });
    change_once(&request, &app_id, command).await
}

pub(super) async fn rotate_secret(Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let (app_id, id) = parse(&names)?;
    change_once(&request, &app_id, ReceiverCommand::RotateSecret(id)).await
}

/// Carries out a command that makes a secret. The page of the secret sends its form again when it is reloaded.
async fn change_once(request: &ConsoleRequest, app_id: &AppId, command: ReceiverCommand) -> Answer {
    let (store, seen) = (&request.state.store, request.text("seen"));
    let report = store.change_receivers(&request.operator()?, app_id, command, Some(seen)).await?;
    answer(request, &list_path(app_id), report)
}

/// Does something to the receiver of the path.
pub(super) async fn change(
    command: fn(ReceiverId) -> ReceiverCommand,
    Path(names): Path<(String, String)>,
    request: ConsoleRequest,
) -> Answer {
    carry_out(&names, &request, command).await
}

/// Sends one event again, whatever became of it.
pub(super) async fn resend_one(Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let event_id = request.fields.required("event_id", EventId::parse)?;
    carry_out(&names, &request, |id| ReceiverCommand::Resend(id, Resend::One(event_id))).await
}

/// Sends all failed events of a time span again.
pub(super) async fn resend_failed(Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let read = |name: &str, label| {
        let moment = request.fields.optional(name, parse_moment);
        moment.map_err(|error| ConsoleError::labelled(label, error))
    };
    let (since, until) = (read("from", "Changes from")?, read("to", "Changes before")?);
    let which = Resend::Failed(TimeBounds { since, until });
    carry_out(&names, &request, |id| ReceiverCommand::Resend(id, which)).await
}

async fn carry_out(
    names: &(String, String),
    request: &ConsoleRequest,
    command: impl FnOnce(ReceiverId) -> ReceiverCommand,
) -> Answer {
    let (app_id, id) = parse(names)?;
    let path = receiver_path(&app_id, &id);
    let report = request.state.store.change_receivers(&request.operator()?, &app_id, command(id), None).await;
    answer(request, &path, report?)
}

/// Sends an event that is marked as a test. The receiver's page shows how it ended.
pub(super) async fn test(Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let (app_id, id) = parse(&names)?;
    request.operator()?;
    let (state, none) = (&request.state, || no_such_receiver(&app_id, id.as_str()));
    let receiver = state.store.receiver_to_test(&app_id, &id).await?.ok_or_else(none)?;
    let tried = state.notifier.send_test(&receiver).await;
    if !state.store.note_test(&app_id, &id, &tried).await? {
        return Err(none());
    }
    lead_to(&format!("{}?tested={}", receiver_path(&app_id, &id), tried.event_id))
}

/// The answer after a command: `path`, which is the receiver's page, or the page of a new secret.
fn answer(request: &ConsoleRequest, path: &str, report: ReceiverReport) -> Answer {
    match report {
        ReceiverReport::Added(added) => {
            let Receiver { app_id, receiver_id: id, .. } = &added.receiver;
            let Some(secret) = added.secret else {
                return lead_to(&format!("{}?done=add", receiver_path(app_id, id)));
            };
            let next = [
                "Give it to the receiver now. It verifies every notification with it, as Standard Webhooks says.",
                "The receiver gets what happens from now on. Its page sends a test event.",
            ];
            show_secret(request, app_id, id, secret, &next)
        }
        ReceiverReport::Rotated(rotated) => {
            let next = [
                "Give it to the receiver now.",
                "The secret before it signs too for 24 hours. An older one no longer signs.",
            ];
            show_secret(request, &rotated.app_id, &rotated.receiver_id, rotated.secret, &next)
        }
        ReceiverReport::Changed(receiver) => match receiver.state {
            ReceiverState::Paused => lead_to(&format!("{path}?done=pause")),
            ReceiverState::Active | ReceiverState::Failing => lead_to(&format!("{path}?done=resume")),
        },
        ReceiverReport::Removed(removed) => lead_to(&format!("{}?done=remove", list_path(&removed.app_id))),
        ReceiverReport::Resent(resent) => lead_to(&format!("{path}?done=resend&resent={}", resent.resent)),
    }
}

fn show_secret(
    request: &ConsoleRequest,
    app_id: &AppId,
    id: &ReceiverId,
    secret: String,
    what_next: &[&str],
) -> Answer {
    let path = receiver_path(app_id, id);
    let (owner, secrets) = (("Receiver", id.as_str(), path.as_str()), [("Secret", secret)]);
    ShownOnce { owner, secrets: &secrets, what_next, rotation: None }.render(
        request,
        Section::APPS,
        "Secret of the receiver",
    )
}
