//! Uploaded images, and the block list.

use domain::fields::FieldError;
use domain::ids::{AppId, ImgId, Reason};
use domain::operation::image::ImageCommand;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use store::{BlobHash, Block, ImageCursor, ImageFilter, ImageKey, StoredImage};

use super::call::Call;
use super::describe::{ListBody, MOMENT, after, answers, lists, moment};
use super::messages::{example, no_block, no_image};
use super::problem::Problem;
use super::routes::routes;
use crate::images::small_copies::block_command;
use crate::openapi::{APP_ID, IMG_ID, Input};
use crate::state::AppState;

routes! { "Images":
    /// List images
    ///
    /// Uploaded images of all apps, newest first.
    GET "/images", "listImages", Read(Read, OwnApps): list -> ListBody<StoredImage> =>
        lists("A page of images.", &image_example())
            .query(filter)
            .wrong("blocked", "expected true or false, got \"yes\"")
            .refuses([example::no_app()]);
    /// Show an image
    ///
    /// An uploaded image. `picture` is the SHA-256 of its kept bytes. It is the same for every app that has
    /// uploaded the picture.
    GET "/images/{img_id}", "getImage", Read(Read, OwnApps): get -> ImageShown =>
        answers("shown", "The image.", shown_example());
    /// Block a picture
    ///
    /// For every app, the picture of this image and pictures that look nearly the same are not accepted and
    /// not served, and no order may use them.
    PUT "/images/{img_id}/block", "blockImage", Replace(Administer): block -> Blocked =>
        answers("blocked", "How many images fall under the block.", json!({
            "picture": PICTURE, "reason": "gore", "images": 1, "finds_near_copies": true,
        }))
        .read(reason)
        .wrong("reason", "is missing");
    /// End a block
    ///
    /// Ends the block that the image falls under. Images that another block matches stay blocked.
    DELETE "/images/{img_id}/block", "unblockImage", Replace(Administer): unblock -> Unblocked =>
        answers("unblocked", "Whose block has ended.", json!({ "picture": PICTURE })).refuses([example::no_block()]);
}

async fn find(state: &AppState, call: &Call) -> Result<StoredImage, Problem> {
    let img_id = call.segment("img_id", "image", ImgId::parse)?;
    let image = state.store.image(&img_id).await?;
    let image = image.filter(|image| call.apps().has(image.app_id.as_str()));
    image.ok_or_else(|| no_image(&img_id))
}

async fn list(state: &AppState, call: &Call) -> Result<ListBody<StoredImage>, Problem> {
    let filter = ImageFilter { apps: call.apps().clone(), ..call.read(filter)? };
    let found = state.store.images(&filter, call.limit()?).await?;
    Ok(ListBody { items: found.items, next: found.next.map(|next| next.to_string()) })
}

fn filter(query: &mut Input<'_>) -> Result<ImageFilter, FieldError> {
    let picture = "An image's id, or the SHA-256 of a picture as it was sent or is kept.";
    Ok(ImageFilter {
        app_id: query.field("app_id", "Of this app alone.").example(APP_ID).optional(AppId::parse)?,
        key: query
            .field("picture", picture)
            .demand("pattern", "^([0-9a-f]{48}|[0-9A-Fa-f]{64})$")
            .optional_as::<String, _>(ImageKey::parse)?,
        blocked: query.field("blocked", "Blocked ones alone, or the others.").example(false).flag()?,
        uploaded_since: moment(query.field("uploaded_since", "Uploaded at or after this moment."))?,
        uploaded_until: moment(query.field("uploaded_until", "Uploaded before this moment."))?,
        after: after(query, ImageCursor::parse)?,
        ..ImageFilter::default()
    })
}

async fn get(state: &AppState, call: &Call) -> Result<ImageShown, Problem> {
    call.fields.only(&[])?;
    let image = find(state, call).await?;
    let blocked_by = state.store.block_of(&image.img_id).await?;
    Ok(ImageShown { image, blocked_by })
}

/// Blocks the picture of an image for every app, and whatever looks nearly the same.
async fn block(state: &AppState, call: &Call) -> Result<Blocked, Problem> {
    let reason = call.read(reason)?;
    let image = find(state, call).await?;
    let (contents, near_copies) = state.picture_work.block_hashes(&image).await?;
    let command = block_command(&contents, &near_copies, reason.to_string());
    let report = state.store.change_blocks(&call.operator(), command).await?;
    let finds_near_copies = !near_copies.is_empty();
    Ok(Blocked { picture: contents, reason, images: report.images, finds_near_copies })
}

fn reason(body: &mut Input<'_>) -> Result<Reason, FieldError> {
    body.field("reason", "Why, for people.").required("gore", Reason::parse)
}

/// Ends the block that an image falls under.
async fn unblock(state: &AppState, call: &Call) -> Result<Unblocked, Problem> {
    call.fields.only(&[])?;
    let image = find(state, call).await?;
    let block = state.store.block_of(&image.img_id).await?.ok_or_else(|| no_block(&image.img_id))?;
    let command =
        ImageCommand::Unblock { picture: *block.contents.as_array(), name: image.img_id.to_string() };
    state.store.change_blocks(&call.operator(), command).await?;
    Ok(Unblocked { picture: block.contents })
}

/// An image with the block that it falls under.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ImageWithBlock")]
struct ImageShown {
    #[serde(flatten)]
    image: StoredImage,
    /// The block that it falls under.
    blocked_by: Option<Block>,
}

/// A block that was made.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NewPictureBlock")]
struct Blocked {
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
struct Unblocked {
    picture: BlobHash,
}

/// SHA-256 of the contents of the picture of all examples.
const PICTURE: &str = "0f6dd32d6ad2a4b0c6f0c6b7d1f0a8f6f0d0c2d3f1b3ab5a7c4ee8f1d2c3b4a5";

fn image_example() -> Value {
    json!({
        "img_id": IMG_ID, "app_id": APP_ID, "format": "png", "side": 128, "bytes": 2310, "picture": PICTURE,
        "uploaded_at": MOMENT, "blocked": false,
    })
}

fn shown_example() -> Value {
    let mut example = image_example();
    example["blocked_by"] = Value::Null;
    example
}
