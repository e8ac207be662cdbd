//! What both uploads end in: a picture is judged and kept.

use axum::body::Bytes;
use axum::response::Response;
use serde::Serialize;
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;

use super::illegal;
use crate::auth::Caller;
use crate::domain::ids::{AppId, ImgId};
use crate::domain::image::{self, Kept};
use crate::error::{Code, Refusal};
use crate::handlers::wire::success;
use crate::image_judge::{ImageJudge, Ruling};
use crate::pictures;
use crate::shares::Place;
use crate::store::KeepOutcome;
use crate::till::Till;

/// Judges a picture and keeps it. It is a task of its own, so that a caller that goes away does not
/// give `place` to others while its bytes are still in memory.
pub(super) async fn accept(
    till: Till,
    caller: Caller,
    bytes: Bytes,
    place: Place,
) -> Result<Response, Refusal> {
    let work = async move {
        let kept = judge_and_keep(&till, &caller.app().id, bytes).await;
        drop(place);
        kept
    };
    let work = tokio::spawn(work.in_current_span());
    let img_id = work.await.map_err(|fault| Refusal::internal(format!("keeping a picture: {fault}")))??;
    Ok(success(Uploaded { data: UploadedData { img_id } }))
}

async fn judge_and_keep(till: &Till, app_id: &AppId, bytes: Bytes) -> Result<ImgId, Refusal> {
    let kept = judge(till, bytes).await?;
    let Some(outside) = &till.image_judge else { return id_of(till.store.keep_image(app_id, kept).await?) };
    // What is settled without a verdict needs none: the app's picture is here, or it is blocked.
    if let Some(outcome) = till.store.settled_image(app_id, &kept).await? {
        return id_of(outcome);
    }
    // Neither a permit to decode nor a session of the database is held from here on.
    let ruling = ask(till, outside, app_id, &kept).await?;
    match ruling {
        Ruling::Allow | Ruling::AllowUnjudged => {}
        Ruling::Block => return Err(blocked()),
        Ruling::TryAgain { cause } => {
            return Err(Refusal::unavailable(
                "the picture cannot be judged now, try again",
                format!("image judge: {cause}"),
            ));
        }
    }
    let img_id = id_of(till.store.keep_image(app_id, kept).await?)?;
    if ruling == Ruling::AllowUnjudged {
        tracing::warn!(%img_id, "a picture was kept without a verdict of the image judge");
    }
    Ok(img_id)
}

/// By the rules of contract 5, on a thread that may block.
async fn judge(till: &Till, bytes: Bytes) -> Result<Kept, Refusal> {
    let turn = pictures::turn(till).await?;
    let started = Instant::now();
    let judging = tokio::task::spawn_blocking(move || {
        image::inspect(&bytes).and_then(|picture| image::keep(&bytes, &picture))
    });
    let judged = judging.await.map_err(|fault| Refusal::internal(format!("judging a picture: {fault}")))?;
    till.metrics.judged(started.elapsed(), judged.as_ref().err());
    drop(turn);
    judged.map_err(|reason| illegal(format!("file: {reason}")))
}

/// By the operator's judge; nobody waits for a place at it for ever.
async fn ask(till: &Till, outside: &ImageJudge, app_id: &AppId, kept: &Kept) -> Result<Ruling, Refusal> {
    let waiting = timeout(till.config.http.body_timeout, outside.place(app_id)).await;
    let place = waiting.map_err(|_| {
        Refusal::unavailable("the service is overloaded, try again", "no place at the image judge")
    })?;
    let ruling = outside.rule(app_id, kept, till.clock.unix_millis()).await;
    drop(place);
    Ok(ruling)
}

fn id_of(outcome: KeepOutcome) -> Result<ImgId, Refusal> {
    match outcome {
        KeepOutcome::Kept(img_id) => Ok(img_id),
        KeepOutcome::Blocked => Err(blocked()),
    }
}

fn blocked() -> Refusal {
    Refusal::new(Code::ImageBlocked, "file: the picture is blocked by risk control")
}

/// Spec 2.6.
#[derive(Serialize)]
struct Uploaded {
    data: UploadedData,
}

#[derive(Serialize)]
struct UploadedData {
    #[serde(rename = "imgId", serialize_with = "as_text")]
    img_id: ImgId,
}

fn as_text<S: serde::Serializer>(img_id: &ImgId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(img_id.as_str())
}
