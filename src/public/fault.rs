//! Faults that a sandbox app has asked for, as they happen to its calls (contract 15.2).

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use domain::app::App;
use domain::endpoint::Endpoint;
use domain::sandbox::{FaultKind, FaultTarget, SandboxApp};
use domain::text;
use guarded_fetch::bulkhead::Permit;
use http_server::Peer;
use store::StoreError;
use tokio::time::{sleep, timeout};

use crate::http::refusal::{Code, Refusal};
use crate::state::AppState;

/// How long an answer waits to learn whether a fault happens to it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The turn of a sandbox app, in which it uses a session of payments.
pub(super) async fn turn(state: &AppState, app: &SandboxApp) -> Result<Permit, Refusal> {
    let turn = timeout(PATIENCE, state.sandbox_turns.acquire(app.id().as_str(), 1)).await;
    turn.map_err(|_| StoreError::Overloaded.into())
}

/// What a fault makes of an answer. The call was carried out.
pub(super) enum Spoilt {
    /// Nothing comes.
    Lost,
    /// This comes in its place.
    Refused(Refusal),
    /// It comes after a while, which is over.
    Late,
    /// It comes: no fault happens.
    Not,
}

/// Waits as the fault says that happens to the next answer of this endpoint to a sandbox app. Tells what becomes of the
/// answer.
pub(super) async fn spoil(
    state: &AppState,
    app: &SandboxApp,
    endpoint: Endpoint,
    peer: Option<&Peer>,
) -> Spoilt {
    let fault = due_fault(state, app, FaultTarget::Answers(endpoint)).await;
    match fault {
        Some((FaultKind::Lost, _)) => Spoilt::Lost,
        Some((FaultKind::Unavailable, _)) => {
            let text = text!("system error: a fault that this sandbox app asked for");
            Spoilt::Refused(Refusal::unavailable(text, "a fault of the sandbox"))
        }
        Some((_, delay)) => {
            let late = be_late(state, app, delay);
            match peer {
                None => late.await,
                Some(peer) => tokio::select! {
                    () = late => {}
                    () = peer.closed() => {}
                },
            }
            Spoilt::Late
        }
        None => Spoilt::Not,
    }
}

/// Refuses a call of a sandbox app that has asked for it, before it is carried out.
///
/// # Errors
/// The code that was asked for.
pub(super) async fn refuse(state: &AppState, app: &App, endpoint: Endpoint) -> Result<(), Refusal> {
    let Some(app) = SandboxApp::of(app).filter(|_| endpoint.has_faults()) else { return Ok(()) };
    let asking = async {
        let _turn = state.sandbox_turns.acquire(app.id().as_str(), 1).await;
        state.store.due_refusal(&app, endpoint).await
    };
    // A database that is away breaks nothing more.
    let due = timeout(PATIENCE, asking).await.ok().and_then(Result::ok).flatten();
    let text = text!("a fault that this sandbox app asked for");
    Err(match due {
        None => return Ok(()),
        Some(Code::SystemError) => Refusal::unavailable(text, "a fault of the sandbox"),
        Some(Code::RateLimited) => Refusal::rate_limited(text, Duration::from_secs(1)),
        Some(code) => Refusal::new(code, text),
    })
}

/// Waits for the delay of a late answer in a place of the app. It ends early where no place becomes free within a second, and
/// where others wait for the place (contract 15.2.7).
async fn be_late(state: &AppState, app: &SandboxApp, delay: Duration) {
    let late = sleep(delay);
    tokio::pin!(late);
    let place = tokio::select! {
        place = timeout(PATIENCE, state.late_answers.acquire(app.id().as_str(), 1)) => place,
        () = &mut late => return,
    };
    if let Ok(mut place) = place {
        // Asked back or not: then the answer comes.
        let _ = place.wait_for(late).await;
    }
}

/// Whether a repeat is answered as if its number were old.
pub(super) async fn makes_numbers_old(state: &AppState, app: Option<&SandboxApp>) -> bool {
    let Some(app) = app else { return false };
    due_fault(state, app, FaultTarget::Numbers).await.is_some()
}

/// A database that is away breaks nothing more.
async fn due_fault(state: &AppState, app: &SandboxApp, target: FaultTarget) -> Option<(FaultKind, Duration)> {
    let asking = async {
        let _turn = state.sandbox_turns.acquire(app.id().as_str(), 1).await;
        state.store.due_fault(app, target).await
    };
    let due = timeout(PATIENCE, asking).await;
    due.ok()?.ok()?.map(|fault| (fault.kind, fault.delay))
}

/// The answer that never comes: the server closes the connection before the first byte of it.
pub(super) fn lost() -> Response {
    let cut =
        futures_util::stream::once(async { Err::<Bytes, _>(std::io::Error::other("the answer is lost")) });
    Response::new(Body::from_stream(cut))
}
