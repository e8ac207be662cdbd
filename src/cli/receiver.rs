//! `minitill receiver ...`: servers of an app that are told of events (contract 12.2).

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use domain::event::{EventId, EventType};
use domain::ids::AppId;
use domain::operation::receiver::{NewReceiver, ReceiverCommand, ReceiverReport, Resend, unknown_receiver};
use domain::receiver::{ReceiverFormat, ReceiverId, TimeBounds};
use serde::Serialize;
use serde_json::json;
use store::Store;

use super::app::{OneApp, require_app};
use super::output::{lines, members};
use super::span::SpanArguments;
use super::{Context, not_done, refused};
use crate::notify::NotificationSender;

/// The most failed events that one call lists.
const LISTED_MAX: u32 = 10_000;

#[derive(Debug, Subcommand)]
pub(super) enum ReceiverArguments {
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
    /// Take the events of a sandbox app to a port of this machine, until Ctrl-C
    ///
    /// It adds no receiver. Start the server before it.
    Listen(super::receiver_listen::ListenArguments),
    /// List the receivers of an app
    List(OneApp),
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
    #[command(group = clap::ArgGroup::new("which").args(["event_id", "day", "month", "since", "until"]).required(true).multiple(true))]
    Resend {
        #[command(flatten)]
        receiver: OneReceiver,
        /// The event to send again, whatever became of it
        #[arg(conflicts_with_all = ["day", "month", "since", "until"], value_parser = EventId::parse)]
        event_id: Option<EventId>,
        #[command(flatten)]
        span: SpanArguments,
    },
}

#[derive(Debug, Args)]
pub(super) struct OneReceiver {
    /// Id of the app
    app_id: AppId,
    /// Id of the receiver
    pub(super) receiver_id: ReceiverId,
}

pub(super) async fn run(context: &Context, store: &Store, arguments: ReceiverArguments) -> Result<()> {
    let (receiver, change): (OneReceiver, fn(ReceiverId) -> ReceiverCommand) = match arguments {
        ReceiverArguments::Add { app_id, url, events, format } => {
            let url = sender(context).read_url(&url).map_err(|expected| anyhow!("url: {expected}"))?;
            let change = ReceiverCommand::Add(NewReceiver { url, events, format });
            return carry_out(context, store, &app_id, change).await;
        }
        ReceiverArguments::Listen(arguments) => {
            return super::receiver_listen::run(context, store, arguments).await;
        }
        ReceiverArguments::List(OneApp { app_id }) => {
            require_app(store, &app_id).await?;
            let columns = "receiver_id state url events format taken last_taken_at last_error";
            let none = "The app has no receiver. To add one, run `minitill receiver add <app_id> <url>`.";
            return context.output.list("receivers", &store.receivers(&app_id).await?, columns, none);
        }
        ReceiverArguments::Show(receiver) => return show(context, store, &receiver).await,
        ReceiverArguments::Test(receiver) => return test(context, store, &receiver).await,
        ReceiverArguments::Failed { receiver, span } => {
            return failed(context, store, &receiver, &span).await;
        }
        ReceiverArguments::Pause(receiver) => (receiver, ReceiverCommand::Pause),
        ReceiverArguments::Resume(receiver) => (receiver, ReceiverCommand::Resume),
        ReceiverArguments::Remove(receiver) => (receiver, ReceiverCommand::Remove),
        ReceiverArguments::RotateSecret(receiver) => (receiver, ReceiverCommand::RotateSecret),
        ReceiverArguments::Resend { receiver, event_id, span } => {
            let [since, until] = span.ends(context)?;
            let which = event_id.map_or(Resend::Failed(TimeBounds { since, until }), Resend::One);
            let change = ReceiverCommand::Resend(receiver.receiver_id, which);
            return carry_out(context, store, &receiver.app_id, change).await;
        }
    };
    carry_out(context, store, &receiver.app_id, change(receiver.receiver_id)).await
}

pub(super) fn sender(context: &Context) -> NotificationSender {
    NotificationSender::new(context.config.notify_fetch_settings(), std::sync::Arc::clone(&context.clock))
}

async fn carry_out(context: &Context, store: &Store, app_id: &AppId, command: ReceiverCommand) -> Result<()> {
    let report = store.change_receivers(&context.operator, app_id, command, None).await;
    match report.map_err(not_done)? {
        ReceiverReport::Added(added) if added.secret.is_none() => context.output.print(&added, text(&added)?),
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
    Ok(lines(&shown))
}

fn unknown(app_id: &AppId, id: &ReceiverId) -> anyhow::Error {
    refused(unknown_receiver(app_id, id))
}

async fn show(context: &Context, store: &Store, receiver: &OneReceiver) -> Result<()> {
    let OneReceiver { app_id, receiver_id } = receiver;
    let detail = store.receiver(app_id, receiver_id).await?.ok_or_else(|| unknown(app_id, receiver_id))?;
    let mut text = text(&detail)?;
    if !detail.tries.is_empty() {
        let columns = "at event_id status elapsed_ms error body";
        text.push_str("\n\nNewest tries:\n");
        text.push_str(&context.output.object_table(columns, &detail.tries)?);
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
    let [since, until] = span.ends(context)?;
    let bounds = TimeBounds { since, until };
    let events = store.failed_events(app_id, receiver_id, bounds, 0, LISTED_MAX).await?;
    let events = events.ok_or_else(|| unknown(app_id, receiver_id))?;
    let columns = "event_id type tries last_at status error";
    span.output(context).list("failed", &events, columns, "No event has failed.")
}
