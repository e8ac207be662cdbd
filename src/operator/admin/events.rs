//! The feed of events (contract 12.5).

use std::time::Duration;

use domain::event::{EventData, EventType};
use domain::fields::FieldError;
use domain::ids::AppId;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use store::{Event, EventCursor, EventFilter, EventPage};
use tokio::time::Instant;

use super::call::Call;
use super::describe::{ListBody, MOMENT, after, answers};
use super::messages::{cursor_too_old, cursor_unknown, example};
use super::problem::Problem;
use super::receivers::EVENT_ID;
use super::routes::routes;
use crate::feed_watch::HeldPoll;
use crate::openapi::{APP_ID, Input, OPEN_ID};
use crate::state::AppState;

/// The longest wait, in seconds.
const WAIT_SECONDS_MAX: i64 = 30;

routes! { "Notifications":
    /// Read the feed of events
    ///
    /// What happened in all apps, or in one, in an order in which nothing is ever added before what was read. `next`
    /// is always a cursor: with it as `after` the feed goes on. With `wait` the answer comes as soon as there is an
    /// event.
    GET "/events", "listEvents", Read(Read, OwnApps): list -> ListBody<FeedItem> =>
        answers("read", "Events in their order, and where to go on.", json!({
            "items": [{
                "id": EVENT_ID, "type": "wallet.credited", "timestamp": MOMENT, "app_id": APP_ID,
                "data": {
                    "open_id": OPEN_ID, "seq": 1, "ref": "start-player-1", "free_change": 40, "charge_change": 100,
                    "free_balance": 40, "charge_balance": 100,
                },
            }],
            "next": "1.8899000a",
        }))
        .query(feed)
        .wrong("wait", "expected an integer from 0 to 30, got \"31\"")
        .refuses([example::no_app(), example::cursor_too_old(), example::cursor_unknown()]);
}

/// An event of the feed.
#[derive(Serialize, JsonSchema)]
struct FeedItem {
    /// Id of the event: `webhook-id` and `message_id` of its notifications.
    id: String,
    /// Its type.
    r#type: EventType,
    /// Time of the change.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    timestamp: time::OffsetDateTime,
    /// The app.
    app_id: AppId,
    /// What happened.
    data: EventData,
}

impl From<Event> for FeedItem {
    fn from(event: Event) -> Self {
        let Event { id, event_type, app_id, at, data, .. } = event;
        Self { id: id.as_text(), r#type: event_type, timestamp: at, app_id, data }
    }
}

/// A caller's request to the feed.
struct FeedQuery {
    filter: EventFilter,
    wait: Duration,
    after: Option<EventCursor>,
}

async fn list(state: &AppState, call: &Call) -> Result<ListBody<FeedItem>, Problem> {
    let (FeedQuery { filter, wait, after }, limit) = (call.read(feed)?, call.limit()?);
    let filter = EventFilter { apps: call.apps().clone(), ..filter };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut after = after.unwrap_or(EventCursor::START);
    let deadline = Instant::now() + wait;
    // It hears what comes after the first look.
    let mut listener = state.feed.listen(&state.store, &state.event_heads);
    let mut is_at_head = !wait.is_zero() && listener.knows(after);
    loop {
        if !is_at_head {
            call.take_place(state).await?;
            match state.store.event_page(after, &filter, limit).await? {
                EventPage::Removed => return Err(cursor_too_old()),
                EventPage::UnknownCursor => return Err(cursor_unknown()),
                EventPage::Events(events, next) => {
                    // It passed over as many others as one look may, so more is there.
                    let is_behind = next != after && next.no() < *state.event_heads.borrow();
                    after = next;
                    let is_over = Instant::now() >= deadline;
                    if !events.is_empty() || (is_over && !is_behind) {
                        return Ok(page(events, after));
                    }
                    if is_behind {
                        continue;
                    }
                    listener.note(after);
                }
            }
            // Who waits holds neither a session nor a place.
            if let Some(place) = call.leave_place() {
                place.give_back();
            }
        }
        let held = hold(state, &mut listener, &mut after, &filter, limit);
        match tokio::time::timeout_at(deadline, held).await {
            Err(_) => return Ok(page(Vec::new(), after)),
            Ok(events) => match events? {
                Some(events) => return Ok(page(events, after)),
                None => is_at_head = false,
            },
        }
    }
}

/// Waits for events that match. `None` where some may have been missed.
async fn hold(
    state: &AppState,
    listener: &mut HeldPoll,
    after: &mut EventCursor,
    filter: &EventFilter,
    limit: usize,
) -> Result<Option<Vec<Event>>, Problem> {
    loop {
        let Some(news) = listener.next(after.no()).await else { return Ok(None) };
        let (events, next) = news.for_one(&state.store, *after, filter, limit).await?;
        *after = next;
        if !events.is_empty() {
            return Ok(Some(events));
        }
    }
}

fn page(events: Vec<Event>, next: EventCursor) -> ListBody<FeedItem> {
    ListBody { items: events.into_iter().map(FeedItem::from).collect(), next: Some(next.to_string()) }
}

fn feed(query: &mut Input<'_>) -> Result<FeedQuery, FieldError> {
    let app_id = query.field("app_id", "Of this app alone.").example(APP_ID).optional(AppId::parse)?;
    let of =
        query.field("type", "Of this type alone.").example("wallet.credited").optional(EventType::parse)?;
    let about = "How many seconds to wait for an event, if there is none.";
    let wait = query.field("wait", about).integer(0, WAIT_SECONDS_MAX)?;
    Ok(FeedQuery {
        filter: EventFilter { app_id, types: of.into_iter().collect(), ..EventFilter::default() },
        wait: Duration::from_secs(wait.and_then(|wait| u64::try_from(wait).ok()).unwrap_or(0)),
        after: after(query, EventCursor::parse)?,
    })
}
