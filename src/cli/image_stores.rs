//! `minitill image move`, `verify` and `sweep` move, check and tidy the stored bytes of pictures.

use std::process::ExitCode;

use domain::picture_store::PictureStore;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use store::{BlobLocation, MoveOutcome, Store, StoreError};

use super::output::lines;
use super::{Context, Failure};

/// Blobs in work at the same time. Each takes up to 10 MiB of memory.
const CONCURRENCY: usize = 4;
/// Blobs in one look-up.
const LOOKED_UP: u32 = 200;

/// Parses the name of a store.
pub(super) fn picture_store(text: &str) -> Result<PictureStore, String> {
    let stores = [PictureStore::Database, PictureStore::Folder, PictureStore::S3];
    let known = stores.into_iter().find(|store| store.as_str() == text);
    known.ok_or_else(|| "expected database, folder or s3".to_owned())
}

/// A blob that is missing or wrong.
struct Damage {
    place: BlobLocation,
    reason: String,
}

/// The result of a walk over blobs.
#[derive(Default)]
struct Walked {
    done: u64,
    bytes: u64,
    damaged: Vec<Damage>,
}

/// Moves all blobs of other stores.
pub(super) async fn relocate(
    context: &Context,
    store: &Store,
    to: PictureStore,
) -> Result<ExitCode, Failure> {
    if let Some(outside) = to.outside() {
        store.open_picture_store(outside).await?.map_err(Failure)?;
    }
    let walked = walk(store, Some(to), async |place| match store.move_contents(place, to).await? {
        MoveOutcome::Moved | MoveOutcome::MovedByAnother => Ok(None),
        MoveOutcome::Damaged(reason) => Ok(Some(reason)),
    })
    .await?;
    let value = json!({
        "to": to.as_str(), "moved": walked.done, "bytes": walked.bytes, "damaged": damage(&walked),
    });
    context.output.print(&value, || {
        lines(&[
            ("to", to.as_str().to_owned()),
            ("moved", walked.done.to_string()),
            ("bytes", walked.bytes.to_string()),
            ("damaged", damage_text(&walked)),
        ])
    })?;
    Ok(code(&walked))
}

/// Compares all blobs with their hashes.
pub(super) async fn verify(context: &Context, store: &Store) -> Result<ExitCode, Failure> {
    let walked = walk(store, None, async |place| Ok(store.verify_contents(place).await?.err())).await?;
    let value = json!({ "whole": walked.done, "bytes": walked.bytes, "damaged": damage(&walked) });
    context.output.print(&value, || {
        lines(&[
            ("intact", walked.done.to_string()),
            ("bytes", walked.bytes.to_string()),
            ("damaged", damage_text(&walked)),
        ])
    })?;
    Ok(code(&walked))
}

/// Removes leftovers.
pub(super) async fn sweep(context: &Context, store: &Store, dry_run: bool) -> Result<(), Failure> {
    let swept = store.sweep_pictures(dry_run).await?;
    let mut value = serde_json::to_value(swept).map_err(|error| Failure(error.to_string()))?;
    value["dry_run"] = dry_run.into();
    context.output.print(&value, || {
        lines(&[
            (if dry_run { "found" } else { "removed" }, String::new()),
            ("  blobs without an image", swept.contents.to_string()),
            ("  blobs of unfinished uploads, older than an hour", swept.unfinished.to_string()),
            ("  objects that the database does not know", swept.objects.to_string()),
            ("  temporary files", swept.files.to_string()),
            ("foreign files and objects, kept", swept.foreign.to_string()),
        ])
    })
}

/// Calls `work` for all blobs, or for those outside a store. `work` returns the damage of a blob, if any. On
/// a terminal a bar shows the progress.
async fn walk(
    store: &Store,
    not_in: Option<PictureStore>,
    work: impl AsyncFn(&BlobLocation) -> Result<Option<String>, StoreError>,
) -> Result<Walked, Failure> {
    let bar = ProgressBar::new(store.count_contents(not_in).await?);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} pictures, {eta} left") {
        bar.set_style(style);
    }
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
                walked.damaged.push(Damage { place, reason });
            } else {
                walked.done += 1;
                walked.bytes += place.byte_length;
            }
        }
    }
    bar.finish_and_clear();
    Ok(walked)
}

fn damage(walked: &Walked) -> Vec<Value> {
    let value = |damage: &Damage| {
        json!({
            "picture": damage.place.contents.to_string(), "stored_in": damage.place.stored_in().as_str(),
            "images": damage.place.images, "reason": damage.reason,
        })
    };
    walked.damaged.iter().map(value).collect()
}

fn damage_text(walked: &Walked) -> String {
    let lines = walked
        .damaged
        .iter()
        .map(|damage| format!("\n  {} (images: {})", damage.reason, damage.place.images));
    format!("{}{}", walked.damaged.len(), lines.collect::<String>())
}

fn code(walked: &Walked) -> ExitCode {
    if walked.damaged.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
