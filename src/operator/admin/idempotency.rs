//! Idempotency keys of the admin API: writes take effect once, however often they are sent (contract 8.7.3).
//!
//! The change and its answer are one transaction (`crates/store/src/idempotency.rs`). So whatever was lost, an answer, a
//! connection or this process: a repeat finds either nothing, and is carried out, or the answer. Of tries
//! that run at once one commits; the others undo what they did and are given its answer. Refusals are not
//! kept: nothing was done, and the same request may succeed later.

use domain::idempotency::IdempotentRequest;
use store::EarlierAnswer;

use super::call::Call;
use super::problem::Problem;
use super::routes::AdminAnswer;
use super::{AdminRoute, messages};
use crate::state::AppState;

/// The answer of a request.
pub(super) struct IdempotentAnswer {
    pub(super) answer: AdminAnswer,
    /// Whether another try has made the change.
    pub(super) replayed: bool,
}

/// Carries out a request, unless it has taken effect before.
pub(super) async fn carry_out(
    route: &AdminRoute,
    state: &AppState,
    call: &Call,
) -> Result<IdempotentAnswer, Problem> {
    let now = |answer| IdempotentAnswer { answer, replayed: false };
    let Some(request) = &call.once else { return (route.handler)(state, call).await.map(now) };
    if let Some(earlier) = earlier(state, request).await? {
        return Ok(earlier);
    }
    let outcome = (route.handler)(state, call).await;
    // Whatever came out: another try may have been quicker, or this one's commit may have been answered by
    // nobody.
    if let Some(earlier) = earlier(state, request).await? {
        return Ok(earlier);
    }
    let answer = outcome?;
    // What takes effect once answers no file.
    if let AdminAnswer::Json(body) = &answer {
        state.store.store_answer_without_change(request, body).await?;
    }
    Ok(earlier(state, request).await?.unwrap_or_else(|| now(answer)))
}

async fn earlier(state: &AppState, request: &IdempotentRequest) -> Result<Option<IdempotentAnswer>, Problem> {
    match state.store.earlier_answer(request).await? {
        EarlierAnswer::None => Ok(None),
        EarlierAnswer::Answered { body, by_another_attempt } => {
            Ok(Some(IdempotentAnswer { answer: AdminAnswer::Json(body), replayed: by_another_attempt }))
        }
        EarlierAnswer::OtherContent => {
            Err(messages::idempotency_key_reused(request.idempotency_key.as_str()))
        }
    }
}
