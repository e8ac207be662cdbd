//! `minitill receiver listen` takes the events of a sandbox app to a port of this machine (contract 12.7). It reads the feed
//! and sends from here, so no network is opened and no receiver is added.

use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::Args;
use domain::event::EventType;
use domain::ids::AppId;
use domain::moment;
use domain::receiver::{ReceiverFormat, ReceiverId};
use domain::sandbox::SandboxApp;
use domain::secret::Secret;
use guarded_fetch::FetchSettings;
use hyper::Uri;
use ipnet::IpNet;
use serde_json::json;
use store::secrets::random_bytes;
use store::{Event, LeasedReceiver, Store};
use tokio::time::sleep;

use super::{Context, unknown_app};
use crate::notify::NotificationSender;

/// How often it looks for new events.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often an event is sent that is not accepted, and the pause between two tries.
const TRIES_MAX: u32 = 5;
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct ListenArguments {
    /// Id of the sandbox app
    app_id: AppId,
    /// The URL of the game on this machine, such as `http://127.0.0.1:9000/till`
    #[arg(long, value_name = "URL")]
    forward_to: String,
    /// Type of events to send; without it all types
    #[arg(long = "event", value_name = "TYPE")]
    events: Vec<EventType>,
    /// The secret that signs, `whsec_` and base64 [default: a new one, which is printed]
    #[arg(long, value_name = "SECRET")]
    secret: Option<String>,
}

/// Sends what happens from now on, until it is stopped.
pub(super) async fn run(context: &Context, store: &Store, arguments: ListenArguments) -> Result<()> {
    let ListenArguments { app_id, forward_to, events, secret } = arguments;
    let app = store.find_app(&app_id).await?.ok_or_else(|| unknown_app(&app_id))?;
    let sandbox = SandboxApp::of(&app)
        .ok_or_else(|| anyhow!("{app_id} is no sandbox app: add a receiver with `minitill receiver add`"))?;
    ensure!(is_on_this_machine(&forward_to), "--forward-to: expected an http URL of localhost or 127.0.0.1");
    let sender = NotificationSender::new(to_this_machine(context), std::sync::Arc::clone(&context.clock));
    sender.read_url(&forward_to).map_err(|expected| anyhow!("--forward-to: {expected}"))?;
    let secret = secret.unwrap_or_else(|| format!("whsec_{}", BASE64_STANDARD.encode(random_bytes::<32>())));
    let receiver = LeasedReceiver {
        app_id: app_id.clone(),
        sandbox: Some(sandbox),
        id: ReceiverId::new(random_bytes()),
        url: forward_to.clone(),
        types: events,
        format: ReceiverFormat::Standard,
        secrets: vec![Secret::new(secret.clone())],
        app_secret: Secret::default(),
        through_no: 0,
        waiting: 0,
        is_away: false,
        has_just_failed: false,
    };
    let started = json!({ "app_id": app_id, "forward_to": forward_to, "secret": secret });
    let text = format!(
        "Events of {app_id} go to {forward_to} from now on, signed with {secret}. To stop, press Ctrl-C."
    );
    context.output.print(&started, text)?;
    let forwarder = Forwarder { context, store, sender, receiver };
    tokio::select! {
        ended = forwarder.forward() => ended,
        stopped = tokio::signal::ctrl_c() => Ok(stopped?),
    }
}

/// Only a host that names this machine: what an event tells is not for others.
fn is_on_this_machine(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
    uri.scheme_str() == Some("http") && (host == "localhost" || is_loopback)
}

fn to_this_machine(context: &Context) -> FetchSettings {
    let networks: [IpNet; 2] =
        ["127.0.0.0/8", "::1/128"].map(|network| network.parse().expect("the network is well-formed"));
    FetchSettings {
        ports: (1..=u16::MAX).collect(),
        allow_networks: networks.to_vec(),
        ..context.config.notify_fetch_settings()
    }
}

struct Forwarder<'a> {
    context: &'a Context,
    store: &'a Store,
    sender: NotificationSender,
    receiver: LeasedReceiver,
}

impl Forwarder<'_> {
    async fn forward(&self) -> Result<()> {
        let mut through = self.store.event_head().await?.last_no;
        loop {
            let LeasedReceiver { app_id, types, .. } = &self.receiver;
            let head = self.store.event_head().await?.last_no;
            // A sandbox server has begun anew.
            through = through.min(head);
            let (keys, looked_through, _) = self.store.events_after(app_id, through, types).await?;
            for event in self.store.tell(keys).await? {
                self.send(&event).await?;
            }
            if looked_through <= through {
                sleep(LOOK_EVERY).await;
            }
            through = looked_through;
        }
    }

    /// Sends an event until it is taken, a few times at most, and tells what came of it.
    async fn send(&self, event: &Event) -> Result<()> {
        for no in 1..=TRIES_MAX {
            let tried = self.sender.send_event(&self.receiver, event).await;
            let (status, error) = (tried.shown.status, tried.shown.error.as_deref());
            let at = moment::rfc3339(tried.shown.at);
            let (id, event_type) = (event.id.as_text(), event.event_type.as_str());
            let told =
                json!({ "at": at, "event_id": id, "type": event_type, "status": status, "error": error });
            let outcome = match (status, error) {
                (Some(status), None) => status.to_string(),
                (Some(status), Some(error)) => format!("{status} {error}"),
                (None, error) => error.unwrap_or_default().to_owned(),
            };
            self.context.output.print(&told, format!("{at}  {event_type}  {id}  {outcome}"))?;
            if tried.is_taken() {
                break;
            }
            if no < TRIES_MAX {
                sleep(TRY_AGAIN_AFTER).await;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_for_this_machine_alone() {
        for url in
            ["http://127.0.0.1:9000/till", "http://localhost:1/", "http://[::1]:9000", "http://127.9.9.9/"]
        {
            assert!(is_on_this_machine(url), "{url}");
        }
        for url in [
            "http://10.0.0.1/",
            "http://localhost.example/",
            "https://127.0.0.1/",
            "http://0.0.0.0/",
            "till",
            "",
        ] {
            assert!(!is_on_this_machine(url), "{url}");
        }
    }
}
