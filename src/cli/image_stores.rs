//! `minitill image move`, `verify` and `sweep` move, check and tidy the stored bytes of pictures.

use std::process::ExitCode;

use anyhow::{Error, Result};
use domain::picture_store::PictureStore;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use store::{BlobLocation, MoveOutcome, Store, StoreError};

use super::Context;
use super::output::{lines, members, progress_bar};

/// Blobs in work at the same time. Each takes up to 10 MiB of memory.
const CONCURRENCY: usize = 4;
/// Blobs in one look-up.
const LOOKED_UP: u32 = 200;

/// The result of a walk over blobs.
#[derive(Default)]
struct Walked {
    done: u64,
    bytes: u64,
    /// The blobs that are missing or wrong.
    damaged: Vec<Value>,
}

/// Moves all blobs of other stores.
pub(super) async fn relocate(context: &Context, store: &Store, to: PictureStore) -> Result<ExitCode> {
    if let Some(outside) = to.outside() {
        store.open_picture_store(outside).await?.map_err(Error::msg)?;
    }
    let walked = walk(store, Some(to), async |place| match store.move_contents(place, to).await? {
        MoveOutcome::Moved | MoveOutcome::MovedByAnother => Ok(None),
        MoveOutcome::Damaged(reason) => Ok(Some(reason)),
    })
    .await?;
    let value = json!({ "to": to, "moved": walked.done, "bytes": walked.bytes, "damaged": walked.damaged });
    finish(context, &walked, &value)
}

/// Compares all blobs with their hashes.
pub(super) async fn verify(context: &Context, store: &Store) -> Result<ExitCode> {
    let walked = walk(store, None, async |place| Ok(store.verify_contents(place).await?.err())).await?;
    let value = json!({ "whole": walked.done, "bytes": walked.bytes, "damaged": walked.damaged });
    finish(context, &walked, &value)
}

fn finish(context: &Context, walked: &Walked, value: &Value) -> Result<ExitCode> {
    context.output.show(value)?;
    Ok(if walked.damaged.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Removes leftovers.
pub(super) async fn sweep(context: &Context, store: &Store, dry_run: bool) -> Result<()> {
    let swept = store.sweep_pictures(dry_run).await?;
    let mut value = json!(swept);
    value["dry_run"] = dry_run.into();
    let counts = json!({
        "blobs without an image": swept.contents,
        "blobs of unfinished uploads, older than an hour": swept.unfinished,
        "objects that the database does not know": swept.objects,
        "temporary files": swept.files,
        "foreign files and objects, kept": swept.foreign,
    });
    let done = if dry_run { "Found:" } else { "Removed:" };
    context.output.print(&value, format!("{done}\n{}", lines(&members(&counts)?)))
}

/// Calls `work` for all blobs, or for those outside a store. `work` returns the damage of a blob, if any. On
/// a terminal a bar shows the progress.
async fn walk(
    store: &Store,
    not_in: Option<PictureStore>,
    work: impl AsyncFn(&BlobLocation) -> Result<Option<String>, StoreError>,
) -> Result<Walked> {
    let bar = progress_bar(store.count_contents(not_in).await?, "pictures");
    let (mut walked, mut after) = (Walked::default(), None);
    loop {
        let places = store.contents_after(after, not_in, LOOKED_UP).await?;
        let Some(last) = places.last() else { break };
        after = Some(last.contents);
        let mut outcomes = stream::iter(places)
            .map(|place| async { work(&place).await.map(|reason| (place, reason)) })
            .buffer_unordered(CONCURRENCY);
        while let Some((place, reason)) = outcomes.try_next().await? {
            bar.inc(1);
            if let Some(reason) = reason {
                walked.damaged.push(json!({
                    "picture": place.contents, "stored_in": place.stored_in(),
                    "images": place.images, "reason": reason,
                }));
            } else {
                walked.done += 1;
                walked.bytes += place.byte_length;
            }
        }
    }
    bar.finish_and_clear();
    Ok(walked)
}
