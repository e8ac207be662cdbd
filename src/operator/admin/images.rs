//! Uploaded images, and the block list.

use domain::ids::{AppId, ImgId, Reason};
use domain::moment;
use serde_json::{Value, json};
use store::{ImageCursor, ImageFilter, ImageKey, StoredImage};

use super::call::Call;
use super::messages::{no_block, no_image};
use super::problem::Problem;
use crate::small_copies::block_hashes;
use crate::state::AppState;

async fn find(state: &AppState, call: &Call) -> Result<StoredImage, Problem> {
    let img_id = call.segment("img_id", "image", ImgId::parse)?;
    let image = state.store.image(&img_id).await?;
    image.ok_or_else(|| no_image(&img_id))
}

pub(super) async fn list(state: &AppState, call: &Call) -> Result<Value, Problem> {
    let names = ["app_id", "picture", "blocked", "uploaded_since", "uploaded_until", "limit", "after"];
    let query = call.query(&names)?;
    let filter = ImageFilter {
        app_id: query.optional("app_id", AppId::parse)?,
        key: query.optional("picture", ImageKey::parse)?,
        blocked: call.query_flag("blocked")?,
        uploaded_since: query.optional("uploaded_since", moment::parse)?,
        uploaded_until: query.optional("uploaded_until", moment::parse)?,
        after: query.optional("after", ImageCursor::parse)?,
    };
    let found = state.store.images(&filter, call.limit()?).await?;
    Ok(json!({ "items": found.images, "next": found.next.map(|next| next.to_string()) }))
}

pub(super) async fn get(state: &AppState, call: &Call) -> Result<Value, Problem> {
    call.query(&[])?;
    let image = find(state, call).await?;
    let block = state.store.block_of(&image.img_id).await?;
    let mut answer = json!(image);
    answer["blocked_by"] = json!(block);
    Ok(answer)
}

/// Blocks the picture of an image for every app, and whatever looks nearly the same.
pub(super) async fn block(state: &AppState, call: &Call) -> Result<Value, Problem> {
    let reason = call.input.only(&["reason"])?.required("reason", Reason::parse)?;
    let image = find(state, call).await?;
    let (contents, near_copies) = block_hashes(state, &image).await?;
    let operator = call.operator(&json!({}));
    let outcome = state.store.block_picture(&operator, contents, &near_copies, reason.as_str()).await?;
    Ok(json!({
        "picture": contents.to_string(),
        "reason": reason.as_str(),
        "images": outcome.images,
        "finds_near_copies": !near_copies.is_empty(),
    }))
}

/// Ends the block that an image falls under.
pub(super) async fn unblock(state: &AppState, call: &Call) -> Result<Value, Problem> {
    call.input.only(&[])?;
    let image = find(state, call).await?;
    let block = state.store.block_of(&image.img_id).await?.ok_or_else(|| no_block(&image.img_id))?;
    if !state.store.unblock_picture(&call.operator(&json!({})), block.contents).await? {
        return Err(no_block(&image.img_id));
    }
    Ok(json!({ "picture": block.contents.to_string() }))
}
