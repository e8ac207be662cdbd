//! `minitill receiver ...`: servers of an app that are told of events (contract 12.2).

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use domain::event::{EventId, EventType};
use domain::ids::AppId;
use domain::moment;
use domain::receiver::{
    NewReceiver, ReceiverCommand as Change, ReceiverFormat, ReceiverId, ReceiverRefusal, ReceiverReport,
    Resend, TimeSpan,
};
use serde::Serialize;
use serde_json::json;
use store::{ReceiverError, Store};
use time::OffsetDateTime;

use super::app::require_app;
use super::output::{lines, members, object_table};
use super::{Context, unknown_app};
use crate::notify::Sender;

/// The most failed events that one call lists.
const LISTED_MAX: u32 = 10_000;

#[derive(Debug, Subcommand)]
pub(super) enum ReceiverCommand {
    /// Add a receiver and print its secret once
    Add {
        /// Id of the app
        app_id: AppId,
        /// Where events are sent
        url: String,
        /// Type of events to send; without it all types
        #[arg(long = "event", value_name = "TYPE")]
        events: Vec<EventType>,
        /// Format of the notifications
        #[arg(long, value_name = "standard|platform", default_value = "standard")]
        format: ReceiverFormat,
    },
    /// List the receivers of an app
    List {
        /// Id of the app
        app_id: AppId,
    },
    /// Show a receiver, what waits for it, and its newest tries
    Show(OneReceiver),
    /// Send nothing to a receiver until it is resumed; what happens meanwhile waits
    Pause(OneReceiver),
    /// Send to a receiver again, and what has waited
    Resume(OneReceiver),
    /// Remove a receiver; what waits for it is never sent
    Remove(OneReceiver),
    /// Make a new secret and print it once; the one before it signs too for 24 hours
    RotateSecret(OneReceiver),
    /// Send an event that is marked as a test, once, and show what came of it
    Test(OneReceiver),
    /// List events that a receiver did not take at any try
    Failed {
        #[command(flatten)]
        receiver: OneReceiver,
        #[command(flatten)]
        span: SpanArguments,
    },
    /// Send one event again, or all failed events of changes in a span of time
    #[command(group = clap::ArgGroup::new("which").required(true).multiple(true))]
    Resend {
        #[command(flatten)]
        receiver: OneReceiver,
        /// The event to send again, whatever became of it
        #[arg(group = "which", conflicts_with_all = ["since", "until"], value_parser = parse_event_id)]
        event_id: Option<EventId>,
        /// Failed events of changes at or after this time, such as 2026-11-21T08:00
        #[arg(long, value_name = "TIME", group = "which", value_parser = parse_moment)]
        since: Option<OffsetDateTime>,
        /// Failed events of changes before this time
        #[arg(long, value_name = "TIME", group = "which", value_parser = parse_moment)]
        until: Option<OffsetDateTime>,
    },
}

#[derive(Debug, Args)]
pub(super) struct OneReceiver {
    /// Id of the app
    app_id: AppId,
    /// Id of the receiver
    pub(super) receiver_id: ReceiverId,
}

#[derive(Debug, Args)]
pub(super) struct SpanArguments {
    /// Of changes at or after this time, such as 2026-11-21T08:00
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    since: Option<OffsetDateTime>,
    /// Of changes before this time
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    until: Option<OffsetDateTime>,
}

fn parse_moment(text: &str) -> Result<OffsetDateTime, String> {
    moment::parse(text).map_err(|expected| expected.to_string())
}

fn parse_event_id(text: &str) -> Result<EventId, String> {
    EventId::parse(text).map_err(|expected| expected.to_string())
}

pub(super) async fn run(context: &Context, store: &Store, command: ReceiverCommand) -> Result<()> {
    let (receiver, change) = match command {
        ReceiverCommand::Add { app_id, url, events, format } => {
            let url = sender(context).read_url(&url).map_err(|expected| anyhow!("url: {expected}"))?;
            let change = Change::Add(NewReceiver { url, events, format });
            return carry_out(context, store, &app_id, change).await;
        }
        ReceiverCommand::List { app_id } => {
            require_app(store, &app_id).await?;
            let columns =
                ["receiver_id", "state", "url", "events", "format", "taken", "last_taken_at", "last_error"];
            let none = "The app has no receiver. To add one, run `minitill receiver add <app_id> <url>`.";
            return context.output.list("receivers", &store.receivers(&app_id).await?, &columns, none);
        }
        ReceiverCommand::Show(receiver) => return show(context, store, &receiver).await,
        ReceiverCommand::Test(receiver) => return test(context, store, &receiver).await,
        ReceiverCommand::Failed { receiver, span } => return failed(context, store, &receiver, &span).await,
        ReceiverCommand::Pause(receiver) => (receiver, Change::Pause as fn(ReceiverId) -> Change),
        ReceiverCommand::Resume(receiver) => (receiver, Change::Resume as fn(ReceiverId) -> Change),
        ReceiverCommand::Remove(receiver) => (receiver, Change::Remove as fn(ReceiverId) -> Change),
        ReceiverCommand::RotateSecret(receiver) => {
            (receiver, Change::RotateSecret as fn(ReceiverId) -> Change)
        }
        ReceiverCommand::Resend { receiver, event_id, since, until } => {
            let which = event_id.map_or(Resend::Failed(TimeSpan { since, until }), Resend::One);
            let change = Change::Resend(receiver.receiver_id, which);
            return carry_out(context, store, &receiver.app_id, change).await;
        }
    };
    carry_out(context, store, &receiver.app_id, change(receiver.receiver_id)).await
}

pub(super) fn sender(context: &Context) -> Sender {
    Sender::new(context.config.fetch_settings(), std::sync::Arc::clone(&context.clock))
}

async fn carry_out(context: &Context, store: &Store, app_id: &AppId, change: Change) -> Result<()> {
    let report = store.change_receivers(&context.operator, app_id, change).await;
    match report.map_err(|error| refused(error, app_id))? {
        report @ (ReceiverReport::Added(_) | ReceiverReport::Rotated(_)) => context
            .output
            .print(&report, format!("{}\nSave this now. It is not shown again.", text(&report)?)),
        report @ (ReceiverReport::Changed(_) | ReceiverReport::Removed(_) | ReceiverReport::Resent(_)) => {
            context.output.print(&report, text(&report)?)
        }
    }
}

/// What people read of a receiver or a report, without its tries.
fn text(value: &impl Serialize) -> Result<String> {
    let mut shown = members(value)?;
    shown.shift_remove("tries");
    if shown.get("events").is_some_and(|events| events.as_array().is_some_and(Vec::is_empty)) {
        shown.insert("events".to_owned(), "all".into());
    }
    Ok(lines(&shown))
}

fn refused(error: ReceiverError, app_id: &AppId) -> anyhow::Error {
    match error {
        ReceiverError::Store(error) => error.into(),
        ReceiverError::Refused(ReceiverRefusal::UnknownApp(app_id)) => unknown_app(&app_id),
        ReceiverError::Refused(ReceiverRefusal::Unknown(id)) => unknown(app_id, &id),
        ReceiverError::Refused(ReceiverRefusal::TooMany) => {
            anyhow!("the app {app_id} has 5 receivers, and may have no more; remove one first")
        }
        ReceiverError::Refused(ReceiverRefusal::UnknownEvent(id)) => {
            anyhow!("there is no event {id} for this receiver; events are kept for notify.keep")
        }
    }
}

fn unknown(app_id: &AppId, id: &ReceiverId) -> anyhow::Error {
    anyhow!("the app {app_id} has no receiver {id}; to list all, run `minitill receiver list {app_id}`")
}

async fn show(context: &Context, store: &Store, receiver: &OneReceiver) -> Result<()> {
    let OneReceiver { app_id, receiver_id } = receiver;
    let detail = store.receiver(app_id, receiver_id).await?.ok_or_else(|| unknown(app_id, receiver_id))?;
    let mut text = text(&detail)?;
    if !detail.tries.is_empty() {
        let columns = ["at", "event_id", "status", "error", "body"];
        text.push_str("\n\nNewest tries:\n");
        text.push_str(&object_table(&columns, &detail.tries)?);
    }
    context.output.print(&detail, text)
}

async fn test(context: &Context, store: &Store, receiver: &OneReceiver) -> Result<()> {
    let OneReceiver { app_id, receiver_id } = receiver;
    let found = store.receiver_to_test(app_id, receiver_id).await?;
    let found = found.ok_or_else(|| unknown(app_id, receiver_id))?;
    let tried = sender(context).send_test(&found).await;
    store.note_test(app_id, receiver_id, &tried).await?;
    context.output.show(&json!({
        "event_id": tried.event_id,
        "taken": tried.error.is_none(),
        "status": tried.status,
        "error": tried.error,
        "body": tried.body,
    }))
}

async fn failed(
    context: &Context,
    store: &Store,
    receiver: &OneReceiver,
    span: &SpanArguments,
) -> Result<()> {
    let OneReceiver { app_id, receiver_id } = receiver;
    let span = TimeSpan { since: span.since, until: span.until };
    let events = store.failed_events(app_id, receiver_id, span, 0, LISTED_MAX).await?;
    let events = events.ok_or_else(|| unknown(app_id, receiver_id))?;
    let columns = ["event_id", "type", "tries", "last_at", "status", "error"];
    context.output.list("failed", &events, &columns, "No event has failed.")
}
