//! Receivers of notifications (contract 12.2): the list of an app, and the page of one with its failed events and its
//! newest tries. `receivers/changes.rs` answers the forms.

mod changes;

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use axum::extract::Path;
use axum::routing::{MethodRouter, get, post};
use domain::event::{EventId, EventType};
use domain::ids::AppId;
use domain::operation::receiver::{ReceiverCommand, unknown_receiver};
use domain::receiver::{RECEIVERS_MAX, Receiver, ReceiverFormat, ReceiverId, TimeBounds};
use domain::rights::Need;
use domain::text;
use store::{EventKey, EventOutcome, FailedEvent, ReceiverDetail, ReceiverTry};
use time::{Duration, OffsetDateTime};

use super::error::ConsoleError;
use super::i18n::{Moment as _, said, word};
use super::page::{Page, Section, Shown, render, render_search};
use super::request::{Answer, ConsoleRequest};
use super::route::{ConsoleRoute, routes};
use crate::notify::{NotificationSender, TRIES_SHOWN};
use crate::state::AppState;

/// A form that does this to the receiver of the path.
fn command(command: fn(ReceiverId) -> ReceiverCommand) -> MethodRouter<AppState> {
    post(move |path, request| changes::change(command, path, request))
}

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page("/console/apps/{app_id}/receivers") => get(list);
    // A receiver is told what players do, and has a key.
    proven(Need::Develop, "/console/apps/{app_id}/receivers") => post(changes::add);
    page("/console/apps/{app_id}/receivers/{receiver_id}") => get(receiver);
    change(Need::Develop, "/console/apps/{app_id}/receivers/{receiver_id}/pause") => command(ReceiverCommand::Pause);
    change(Need::Develop, "/console/apps/{app_id}/receivers/{receiver_id}/resume") => command(ReceiverCommand::Resume);
    change(Need::Develop, "/console/apps/{app_id}/receivers/{receiver_id}/test") => post(changes::test);
    change(Need::Develop, "/console/apps/{app_id}/receivers/{receiver_id}/resend") => post(changes::resend_one);
    change(Need::Develop, "/console/apps/{app_id}/receivers/{receiver_id}/resend-failed") =>
        post(changes::resend_failed);
    proven(Need::Develop, "/console/apps/{app_id}/receivers/{receiver_id}/rotate-secret") =>
        post(changes::rotate_secret);
    proven(Need::Develop, "/console/apps/{app_id}/receivers/{receiver_id}/remove") => command(ReceiverCommand::Remove);
};

/// Failed events on a page.
const FAILED: u32 = 20;
/// Characters of an error that a page shows.
const ERROR_CHARS_MAX: usize = 120;

/// The path of a receiver's page.
pub(super) fn receiver_path(app_id: &AppId, id: &ReceiverId) -> String {
    format!("{}/{id}", list_path(app_id))
}

fn list_path(app_id: &AppId) -> String {
    format!("/console/apps/{app_id}/receivers")
}

/// Why a try has failed: the beginning of the error, and the status of the answer, if there was one.
pub(super) fn failure(status: Option<i16>, error: Option<&str>) -> String {
    let error = error.unwrap_or_default();
    // A cause such as `connect_failed` becomes words.
    let is_cause = error.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let mut words = if is_cause { word(&error.replace('_', " ")) } else { error.to_owned() };
    if let Some((end, _)) = words.char_indices().nth(ERROR_CHARS_MAX) {
        words.truncate(end);
        words.push('\u{2026}');
    }
    said(&match status.map(|status| status.to_string()) {
        None => text!("no answer: {words}", words),
        // Most errors name the status.
        Some(status) if words.contains(&status) => return words,
        Some(status) => text!("status {status}: {words}", status, words),
    })
}

/// The length of an answer's beginning.
fn length(body: &str) -> String {
    said(&match body.len() as u64 {
        1 => text!("1 byte"),
        more => text!("{count} bytes", count = more.shown()),
    })
}

#[derive(Template)]
#[template(path = "receivers.html")]
struct ReceiverListPage<'a> {
    page: Page<'a>,
    app_id: &'a AppId,
    receivers: &'a [Receiver],
    /// The receivers as the page shows them: the form does nothing once they have changed.
    seen: String,
}

async fn list(Path(name): Path<String>, request: ConsoleRequest) -> Answer {
    let app_id = find_app(&request.state, &name).await?;
    // The mark comes first: a receiver that is added in between makes the form stale, not the page.
    let seen = request.state.store.receivers_mark(&app_id).await?;
    let receivers = request.state.store.receivers(&app_id).await?;
    let removed = "The receiver is removed. Nothing more is sent to it.";
    let page = request.page(Section::APPS, text!("Receivers of {app_id}", app_id));
    let page = Page { notice: request.notice([("remove", removed)]), ..page };
    render(&ReceiverListPage { page, app_id: &app_id, receivers: &receivers, seen })
}

/// The app of an address.
async fn find_app(state: &AppState, name: &str) -> Result<AppId, ConsoleError> {
    let none = || ConsoleError::no_such_app(name);
    let app_id = AppId::parse(name).map_err(|_| none())?;
    state.store.find_app(&app_id).await?.map(|_| app_id).ok_or_else(none)
}

/// The app and the receiver that an address names. They may not exist.
fn parse((app_id, id): &(String, String)) -> Result<(AppId, ReceiverId), ConsoleError> {
    let app = AppId::parse(app_id).map_err(|_| ConsoleError::no_such_app(app_id))?;
    let id = ReceiverId::parse(id).map_err(|_| no_such_receiver(&app, id))?;
    Ok((app, id))
}

fn no_such_receiver(app_id: &AppId, id: &str) -> ConsoleError {
    unknown_receiver(app_id, id).into()
}

#[derive(Template)]
#[template(path = "receiver.html")]
struct ReceiverPage<'a> {
    page: Page<'a>,
    path: String,
    detail: &'a ReceiverDetail,
    /// The types of the events that were tried, by their ids.
    types: BTreeMap<String, EventType>,
    receiver: &'a Receiver,
    /// The receivers of the app as the page shows them.
    seen: String,
    /// The test that led here, as it ended.
    test: Option<&'a ReceiverTry>,
    search: Search,
    pace: ReceiverPace,
    failed: Vec<FailedEvent>,
    /// The address of the page with the oldest failed events, unless this is the one.
    first: Option<String>,
    /// The address of the page with the next ones.
    more: Option<String>,
}

/// How often a receiver is told, and how fast it answers.
struct ReceiverPace {
    /// Tries of the last hour. A minute's, where the kept ones are of less than an hour.
    often: String,
    /// Milliseconds of the middle one and of the slowest of the newest tries. `None` where none was measured.
    answers: Option<(i64, i64)>,
}

/// What the form that looks for an event has found.
enum Search {
    /// Nothing was asked.
    Empty,
    None(EventId),
    Found(Box<FoundEvent>),
}

/// An event, and what became of it at the receiver.
struct FoundEvent {
    event: EventKey,
    outcome: EventOutcome,
    /// What is sent. `None` where the row that the event tells of is gone.
    body: Option<String>,
    /// Those of the newest tries that sent it.
    tries: Vec<ReceiverTry>,
}

async fn receiver(Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let ((app_id, id), store) = (parse(&names)?, &request.state.store);
    let none = || no_such_receiver(&app_id, id.as_str());
    let seen = store.receivers_mark(&app_id).await?;
    let detail = store.receiver(&app_id, &id).await?.ok_or_else(none)?;
    let mut filters = request.filters();
    let search = match filters.read("event_id", EventId::parse) {
        Some(event_id) => look_for(&request, &detail, event_id).await?,
        None => Search::Empty,
    };
    let wrong = filters.wrong;
    let after: Option<i64> = request.text("after").parse().ok();
    // One event more than the page shows: it tells whether there is another page.
    let failed = store.failed_events(&app_id, &id, TimeBounds::default(), after.unwrap_or(0), FAILED + 1);
    let mut failed = failed.await?.ok_or_else(none)?;
    let has_more = failed.len() > FAILED as usize;
    failed.truncate(FAILED as usize);
    let path = receiver_path(&app_id, &id);
    let page_after = |no: &str| format!("{path}?after={no}#failed");
    let page = request.page(Section::APPS, text!("Receiver {id}", id));
    let template = ReceiverPage {
        page: Page { notice: notice(&request, &detail.receiver), ..page.marking(&wrong) },
        test: detail.tries.iter().find(|tried| tried.event_id == request.text("tested")),
        receiver: &detail.receiver,
        detail: &detail,
        types: types_of(&request, &detail).await?,
        first: after.map(|_| format!("{path}#failed")),
        more: failed.last().filter(|_| has_more).map(|last| page_after(&last.no.to_string())),
        path: path.clone(),
        seen,
        search,
        pace: pace(&detail.tries, request.now()),
        failed,
    };
    render_search(&template, &wrong)
}

/// The event with this id, what became of it here, and what is sent.
async fn look_for(
    request: &ConsoleRequest,
    detail: &ReceiverDetail,
    event_id: EventId,
) -> Result<Search, ConsoleError> {
    let receiver = &detail.receiver;
    let (store, app_id, id) = (&request.state.store, &receiver.app_id, &receiver.receiver_id);
    let Some(event) = store.event_key(app_id, event_id).await? else { return Ok(Search::None(event_id)) };
    let outcome = store.event_outcome(&event, id).await?;
    let outcome = outcome.ok_or_else(|| no_such_receiver(app_id, id.as_str()))?;
    let told = store.tell(vec![event.clone()]).await?.pop();
    let body = told.map(|told| NotificationSender::body_of(&told, receiver.format));
    let name = event.id.to_string();
    let tries = detail.tries.iter().filter(|tried| tried.event_id == name).cloned().collect();
    Ok(Search::Found(Box::new(FoundEvent { event, outcome, body, tries })))
}

/// The types of the events that were tried. Test events and those that are no longer kept have none.
async fn types_of(
    request: &ConsoleRequest,
    detail: &ReceiverDetail,
) -> Result<BTreeMap<String, EventType>, ConsoleError> {
    let tried: BTreeSet<&str> = detail.tries.iter().map(|tried| tried.event_id.as_str()).collect();
    let tried: Vec<EventId> = tried.into_iter().filter_map(|id| EventId::parse(id).ok()).collect();
    let mut types = BTreeMap::new();
    for id in tried {
        if let Some(event) = request.state.store.event_key(&detail.receiver.app_id, id).await? {
            types.insert(event.id.to_string(), event.event_type);
        }
    }
    Ok(types)
}

/// The type of the event of a try, or an empty text.
fn type_of(types: &BTreeMap<String, EventType>, tried: &ReceiverTry) -> &'static str {
    types.get(&tried.event_id).map_or("", |event_type| event_type.as_str())
}

/// How often the receiver is told, and how fast it answers.
fn pace(tries: &[ReceiverTry], now: OffsetDateTime) -> ReceiverPace {
    let in_hour: Vec<_> = tries.iter().filter(|tried| tried.at > now - Duration::HOUR).collect();
    let often = match in_hour.get(TRIES_SHOWN - 1) {
        None if in_hour.len() == 1 => text!("1 try in the last hour"),
        None => text!("{count} tries in the last hour", count = in_hour.len()),
        Some(oldest) => {
            let seconds = usize::try_from((now - oldest.at).whole_seconds().max(1)).unwrap_or(usize::MAX);
            match (in_hour.len() * 60).div_ceil(seconds) {
                1 => text!("1 try a minute"),
                count => text!("{count} tries a minute", count),
            }
        }
    };
    let mut elapsed: Vec<i64> = tries.iter().filter_map(|tried| tried.elapsed_ms).collect();
    elapsed.sort_unstable();
    ReceiverPace {
        often: said(&often),
        answers: elapsed.get(elapsed.len() / 2).copied().zip(elapsed.last().copied()),
    }
}

/// What the page tells after a change.
fn notice(request: &ConsoleRequest, receiver: &Receiver) -> Option<String> {
    if request.text("done") == "resend" {
        let waits = receiver.paused_by.is_some();
        return Some(said(&match (request.text("resent").parse::<i64>().ok()?, waits) {
            (0, _) => text!("No failed event lies in this time span, so nothing is sent again."),
            (1, false) => text!("1 event is sent again."),
            (1, true) => text!("1 event is sent again as soon as the receiver is resumed."),
            (more, false) => text!("{count} events are sent again.", count = more.shown()),
            (more, true) => {
                text!(
                    "{count} events are sent again as soon as the receiver is resumed.",
                    count = more.shown()
                )
            }
        }));
    }
    request.notice([
        (
            "add",
            "The receiver gets what happens from now on. The app secret signs: there is no other secret.",
        ),
        ("pause", "The receiver is paused. What happens from now on waits for it."),
        ("resume", "The receiver is active again. What has waited for it is sent now."),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_the_status_and_the_beginning_of_the_error() {
        assert_eq!(failure(Some(500), Some("expected 2xx, got 500")), "expected 2xx, got 500");
        assert_eq!(failure(None, Some("connect_failed")), "no answer: connect failed");
        let words = "expected {\"result\":1} with this message_id";
        assert_eq!(failure(Some(200), Some(words)), format!("status 200: {words}"));
        let long = failure(None, Some(&"\u{e9}".repeat(121)));
        assert_eq!(long, format!("no answer: {}\u{2026}", "\u{e9}".repeat(120)));
    }
}
