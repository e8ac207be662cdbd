//! Uploaded images, and the block list.

use serde_json::{Value, json};

use super::call::Call;
use super::problem::Problem;
use super::said::{no_block, no_image};
use crate::domain::ids::{AppId, ImgId, Reason};
use crate::domain::moment;
use crate::pictures::marks;
use crate::store::{ImageCursor, ImageFilter, ImageKey, StoredImage};
use crate::till::Till;

async fn find(till: &Till, call: &Call) -> Result<StoredImage, Problem> {
    let img_id = call.segment("img_id", "image", ImgId::parse)?;
    let image = till.store.image(&img_id).await?;
    image.ok_or_else(|| no_image(&img_id))
}

pub(super) async fn list(till: &Till, call: &Call) -> Result<Value, Problem> {
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
    let found = till.store.images(&filter, call.limit()?).await?;
    Ok(json!({ "items": found.images, "next": found.next.map(|next| next.to_string()) }))
}

pub(super) async fn get(till: &Till, call: &Call) -> Result<Value, Problem> {
    call.query(&[])?;
    let image = find(till, call).await?;
    let block = till.store.block_of(&image.img_id).await?;
    let mut answer = json!(image);
    answer["blocked_by"] = json!(block);
    Ok(answer)
}

/// Blocks the picture of an image for every app, and whatever looks nearly the same.
pub(super) async fn block(till: &Till, call: &Call) -> Result<Value, Problem> {
    let reason = call.input.only(&["reason"])?.required("reason", Reason::parse)?;
    let image = find(till, call).await?;
    let (contents, looks) = marks(till, &image).await?;
    let operator = call.operator(&json!({}));
    let outcome = till.store.block_picture(&operator, contents, &looks, reason.as_str()).await?;
    Ok(json!({
        "picture": contents.to_string(),
        "reason": reason.as_str(),
        "images": outcome.images,
        "finds_near_copies": !looks.is_empty(),
    }))
}

/// Ends the block that an image falls under.
pub(super) async fn unblock(till: &Till, call: &Call) -> Result<Value, Problem> {
    call.input.only(&[])?;
    let image = find(till, call).await?;
    let block = till.store.block_of(&image.img_id).await?.ok_or_else(|| no_block(&image.img_id))?;
    if !till.store.unblock_picture(&call.operator(&json!({})), block.contents).await? {
        return Err(no_block(&image.img_id));
    }
    Ok(json!({ "picture": block.contents.to_string() }))
}
