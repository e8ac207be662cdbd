//! Acceptance of a picture, in which both uploads end: it is judged and kept.

use std::time::Duration;

use axum::body::Bytes;
use axum::response::Response;
use domain::app::App;
use domain::caller::Caller;
use domain::ids::{AppId, ImgId};
use domain::quota::{ImageQuotas, ImageUsage, QuotaExceeded};
use domain::text;
use guarded_fetch::bulkhead::Permit;
use pictures::{self, Kept};
use schemars::JsonSchema;
use serde::Serialize;
use store::KeepOutcome;
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;

use super::unacceptable;
use crate::http::refusal::{Code, Refusal};
use crate::images::judge::{JudgeClient, Ruling};
use crate::openapi::{Example, refusals};
use crate::public::extract::success;
use crate::state::AppState;

/// A day in milliseconds.
const DAY_MILLIS: i64 = 86_400_000;

/// Judges a picture and keeps it. Its refusals name `field`, which it came in. It is a task of its own, so that a caller that goes away does not
/// return `permit` while its bytes are still in memory.
pub(super) async fn accept(
    state: AppState,
    caller: Caller,
    field: &'static str,
    bytes: Bytes,
    permit: Permit,
) -> Result<Response, Refusal> {
    let work = async move {
        let kept = judge_and_keep(&state, caller.app(), field, bytes).await;
        drop(permit);
        kept
    };
    let work = tokio::spawn(work.in_current_span());
    let img_id = work.await.map_err(|fault| Refusal::internal(format!("keeping a picture: {fault}")))??;
    Ok(success(Uploaded::new(img_id)))
}

async fn judge_and_keep(
    state: &AppState,
    app: &App,
    field: &'static str,
    bytes: Bytes,
) -> Result<ImgId, Refusal> {
    let id_of = |outcome| match outcome {
        KeepOutcome::Kept(img_id) => Ok(img_id),
        KeepOutcome::Blocked => Err(picture_blocked(field)),
        KeepOutcome::OverQuota(exceeded) => Err(over_quota(exceeded, state.clock.unix_millis())),
    };
    let (app_id, quotas) = (&app.id, state.config.limits.image_quotas().with_own(&app.limits));
    let kept = judge(state, app_id, field, bytes).await?;
    let Some(outside) = &state.image_judge else {
        return id_of(state.store.keep_image(app_id, kept, quotas).await?);
    };
    // What is settled without a verdict needs none: the app's picture is here, or it is blocked.
    if let Some(outcome) = state.store.settled_image(app_id, &kept, &quotas).await? {
        return id_of(outcome);
    }
    // Neither a permit to decode nor a session of the database is held from here on.
    let ruling = ask(state, outside, app_id, &kept).await?;
    match ruling {
        Ruling::Allow | Ruling::AllowUnjudged => {}
        Ruling::Block => return Err(picture_blocked(field)),
        Ruling::TryAgain { cause } => {
            return Err(Refusal::unavailable(
                "the picture cannot be judged now, try again",
                format!("image judge: {cause}"),
            ));
        }
    }
    let img_id = id_of(state.store.keep_image(app_id, kept, quotas).await?)?;
    if ruling == Ruling::AllowUnjudged {
        tracing::warn!(%img_id, "a picture was kept without a verdict of the image judge");
    }
    Ok(img_id)
}

/// By the rules of contract 5.4, on a thread that may block.
async fn judge(state: &AppState, app_id: &AppId, field: &'static str, bytes: Bytes) -> Result<Kept, Refusal> {
    let turn = state.picture_work.turn(app_id.as_str()).await?;
    let started = Instant::now();
    let judging = tokio::task::spawn_blocking(move || pictures::keep(&bytes));
    let judged = judging.await.map_err(|fault| Refusal::internal(format!("judging a picture: {fault}")))?;
    state.metrics.judged(started.elapsed(), judged.as_ref().err());
    drop(turn);
    judged.map_err(|reason| unacceptable(field, &reason))
}

/// By the operator's judge. The wait for a permit is bounded.
async fn ask(
    state: &AppState,
    outside: &JudgeClient,
    app_id: &AppId,
    kept: &Kept,
) -> Result<Ruling, Refusal> {
    let waiting = timeout(state.config.http.body_timeout, outside.permit(app_id)).await;
    let permit = waiting.map_err(|_| {
        Refusal::unavailable("the service is overloaded, try again", "no permit for the image judge")
    })?;
    let ruling = outside.rule(app_id, kept, state.clock.unix_millis()).await;
    drop(permit);
    Ok(ruling)
}

/// 10000305 with the quota. One of a day is free again at midnight (UTC).
fn over_quota(exceeded: QuotaExceeded, now_millis: i64) -> Refusal {
    let left = DAY_MILLIS - now_millis.rem_euclid(DAY_MILLIS);
    let wait = exceeded.is_of_day.then(|| Duration::from_millis(left.unsigned_abs()));
    Refusal { retry_after: wait, ..Refusal::new(Code::RateLimited, exceeded.text()) }
}

/// The example of an upload past a quota.
pub(super) fn quota_exceeded(quotas: ImageQuotas) -> Example<Refusal> {
    let after = ImageUsage { bytes_today: 0, bytes: 0, images_today: 0, images: i64::MAX };
    let exceeded = quotas.admit(&after).expect_err("no quota is as high");
    let words = "A quota of the app is used up; the text says which. One of a day has `Retry-After`.";
    Example::new("quota_exceeded", words, over_quota(exceeded, 0))
}

refusals! { Refusal:
    /// The operator has blocked this picture, or one that looks nearly the same.
    picture_blocked(field = "file") =>
        Refusal::new(Code::ImageBlocked, text!("{field}: the picture is blocked by risk control; use another one", field));
}

/// Contract 5.6.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Upload")]
pub(super) struct Uploaded {
    data: UploadedData,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct UploadedData {
    #[serde(rename = "imgId")]
    img_id: ImgId,
}

impl Uploaded {
    pub(super) fn new(img_id: ImgId) -> Self {
        Self { data: UploadedData { img_id } }
    }
}
