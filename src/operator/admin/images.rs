//! Uploaded images, and the block list.

use domain::ids::{AppId, ImgId, Reason};
use domain::moment;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use store::{BlobHash, Block, ImageCursor, ImageFilter, ImageKey, StoredImage};

use super::call::Call;
use super::describe::{self, Described, MOMENT, Page, describe, problem, wrong_field};
use super::messages::{no_block, no_image};
use super::problem::Problem;
use crate::openapi::{APP_ID, Example, Field, IMG_ID};
use crate::small_copies::block_hashes;
use crate::state::AppState;

async fn find(state: &AppState, call: &Call) -> Result<StoredImage, Problem> {
    let img_id = call.segment("img_id", "image", ImgId::parse)?;
    let image = state.store.image(&img_id).await?;
    image.ok_or_else(|| no_image(&img_id))
}

pub(super) async fn list(state: &AppState, call: &Call) -> Result<Page<StoredImage>, Problem> {
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
    Ok(Page { items: found.items, next: found.next.map(|next| next.to_string()) })
}

pub(super) async fn get(state: &AppState, call: &Call) -> Result<ImageShown, Problem> {
    call.query(&[])?;
    let image = find(state, call).await?;
    let blocked_by = state.store.block_of(&image.img_id).await?;
    Ok(ImageShown { image, blocked_by })
}

/// Blocks the picture of an image for every app, and whatever looks nearly the same.
pub(super) async fn block(state: &AppState, call: &Call) -> Result<Blocked, Problem> {
    let reason = call.input.only(&["reason"])?.required("reason", Reason::parse)?;
    let image = find(state, call).await?;
    let (contents, near_copies) = block_hashes(state, &image).await?;
    let operator = call.operator(&json!({}));
    let outcome = state.store.block_picture(&operator, contents, &near_copies, reason.as_str()).await?;
    let finds_near_copies = !near_copies.is_empty();
    Ok(Blocked { picture: contents, reason, images: outcome.images, finds_near_copies })
}

/// Ends the block that an image falls under.
pub(super) async fn unblock(state: &AppState, call: &Call) -> Result<Unblocked, Problem> {
    call.input.only(&[])?;
    let image = find(state, call).await?;
    let block = state.store.block_of(&image.img_id).await?.ok_or_else(|| no_block(&image.img_id))?;
    if !state.store.unblock_picture(&call.operator(&json!({})), block.contents).await? {
        return Err(no_block(&image.img_id));
    }
    Ok(Unblocked { picture: block.contents })
}

/// An image with the block that it falls under.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ImageWithBlock")]
pub(super) struct ImageShown {
    #[serde(flatten)]
    image: StoredImage,
    /// The block that it falls under.
    blocked_by: Option<Block>,
}

/// A block that was made.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NewPictureBlock")]
pub(super) struct Blocked {
    picture: BlobHash,
    reason: Reason,
    /// Images that fall under it.
    images: u64,
    /// Whether it finds pictures that look nearly the same.
    finds_near_copies: bool,
}

/// The picture whose block has ended.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EndedPictureBlock")]
pub(super) struct Unblocked {
    picture: BlobHash,
}

/// SHA-256 of the contents of the picture of all examples.
const PICTURE: &str = "0f6dd32d6ad2a4b0c6f0c6b7d1f0a8f6f0d0c2d3f1b3ab5a7c4ee8f1d2c3b4a5";

fn image_in_path() -> Field {
    Field::required::<ImgId>("img_id", IMG_ID, "The image.")
}

fn img_id() -> ImgId {
    ImgId::parse(IMG_ID).expect("the image of the examples has an id")
}

fn unknown_image() -> Example<Problem> {
    problem("no_image", "There is no such image.", no_image(&img_id()))
}

fn image_example() -> Value {
    json!({
        "img_id": IMG_ID, "app_id": APP_ID, "format": "png", "side": 128, "bytes": 2310, "picture": PICTURE,
        "uploaded_at": MOMENT, "blocked": false,
    })
}

pub(super) fn describe_list() -> Described<Page<StoredImage>> {
    let picture = "An image's id, or the SHA-256 of a picture as it was sent or is kept.";
    describe(
        "List images",
        "Uploaded images of all apps, newest first.",
        ("listed", "A page of images."),
        json!({ "items": [image_example()], "next": null }),
    )
    .query([
        Field::optional::<AppId>("app_id", "Of this app alone.").example(APP_ID),
        Field::optional::<String>("picture", picture).demand("pattern", "^([0-9a-f]{48}|[0-9A-Fa-f]{64})$"),
        Field::optional::<bool>("blocked", "Blocked ones alone, or the others.").example(false),
        describe::moment("uploaded_since", "Uploaded at or after this moment."),
        describe::moment("uploaded_until", "Uploaded before this moment."),
    ])
    .paged()
    .refuses([wrong_field("blocked", "expected true or false, got \"yes\"")])
}

pub(super) fn describe_get() -> Described<ImageShown> {
    let mut example = image_example();
    example["blocked_by"] = Value::Null;
    let words = "An uploaded image. `picture` is the SHA-256 of its kept bytes. It is the same for every app that has uploaded \
                 the picture.";
    describe("Show an image", words, ("shown", "The image."), example)
        .path([image_in_path()])
        .refuses([unknown_image()])
}

pub(super) fn describe_block() -> Described<Blocked> {
    describe(
        "Block a picture",
        "For every app, the picture of this image and pictures that look nearly the same are not accepted and not served, and \
         no order may use them.",
        ("blocked", "How many images fall under the block."),
        json!({ "picture": PICTURE, "reason": "gore", "images": 1, "finds_near_copies": true }),
    )
    .path([image_in_path()])
    .body([Field::required::<Reason>("reason", "gore", "Why, for people.")])
    .refuses([wrong_field("reason", "is missing"), unknown_image()])
}

pub(super) fn describe_unblock() -> Described<Unblocked> {
    describe(
        "End a block",
        "Ends the block that the image falls under. Images that another block matches stay blocked.",
        ("unblocked", "Whose block has ended."),
        json!({ "picture": PICTURE }),
    )
    .path([image_in_path()])
    .refuses([unknown_image(), problem("no_block", "The image is not blocked.", no_block(&img_id()))])
}
