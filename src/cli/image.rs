//! `minitill image ...` shows images and keeps the block list.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Subcommand;
use domain::ids::ImgId;
use domain::operation::image;
use domain::operation::image::{ImageCommand, not_blocked};
use domain::picture_store::PictureStore;
use pictures::PerceptualHash;
use serde_json::json;
use store::{BlobHash, Store};

use super::{Context, image_stores, not_done, refused};
use crate::images::small_copies::{block_command, hashes_of};

#[derive(Debug, Subcommand)]
pub(super) enum ImageArguments {
    /// Block a picture and its near copies for every app: they are not accepted, not served, and no order
    /// may use them
    Block {
        /// A file, or the imgId of an image
        picture: String,
        /// Reason of the block, for people
        #[arg(long)]
        reason: String,
    },
    /// Unblock a picture
    Unblock {
        /// A file, or the imgId of an image that is blocked
        picture: String,
    },
    /// List the blocked pictures, or with --all the newest images
    List {
        /// List the newest images of all apps, blocked or not
        #[arg(long)]
        all: bool,
        /// List at most this many images
        #[arg(long, value_name = "N", default_value_t = 50, requires = "all")]
        limit: u32,
    },
    /// Show one image
    Show {
        /// imgId of the image
        img_id: ImgId,
    },
    /// Move the bytes of all pictures to another store; if interrupted, run it again
    Move {
        /// New store: database, folder or s3
        #[arg(long, value_name = "STORE")]
        to: PictureStore,
    },
    /// Compare the bytes of all pictures with their hashes; exit code 1 if any are missing or wrong
    Verify,
    /// Remove leftovers of interrupted uploads and moves from the database, the folder and S3
    Sweep {
        /// Only count the leftovers
        #[arg(long)]
        dry_run: bool,
    },
}

/// Runs the command. The exit code is 1 if pictures are damaged.
pub(super) async fn run(context: &Context, store: &Store, arguments: ImageArguments) -> Result<ExitCode> {
    let output = &context.output;
    match arguments {
        ImageArguments::Move { to } => return image_stores::relocate(context, store, to).await,
        ImageArguments::Verify => return image_stores::verify(context, store).await,
        ImageArguments::Sweep { dry_run } => image_stores::sweep(context, store, dry_run).await,
        ImageArguments::Block { picture, reason } => block(context, store, &picture, reason).await,
        ImageArguments::Unblock { picture } => unblock(context, store, &picture).await,
        ImageArguments::List { all: true, limit } => {
            let columns = "img_id app_id format side bytes blocked uploaded_at";
            output.list("images", &store.newest_images(limit).await?, columns, "There are no images.")
        }
        ImageArguments::List { all: false, .. } => {
            let columns = "picture reason images blocked_at";
            output.list("blocks", &store.blocks().await?, columns, "No picture is blocked.")
        }
        ImageArguments::Show { img_id } => {
            let image = store.image(&img_id).await?.ok_or_else(|| unknown_image(&img_id))?;
            let mut shown = json!(image);
            shown["blocked_by"] = json!(store.block_of(&img_id).await?);
            output.show(&shown)
        }
    }
    .map(|()| ExitCode::SUCCESS)
}

async fn block(context: &Context, store: &Store, name: &str, reason: String) -> Result<()> {
    let (contents, near_copies) = picture(store, name).await?;
    let command = block_command(&contents, &near_copies, reason.clone());
    let report = store.change_blocks(&context.operator, command).await.map_err(not_done)?;
    let value = json!({
        "picture": contents, "reason": reason, "was_blocked": report.was_blocked,
        "images": report.images, "finds_near_copies": !near_copies.is_empty(),
    });
    let copies = if near_copies.is_empty() {
        "exact copies only, because the picture has too little detail to find near copies"
    } else {
        "exact and near copies"
    };
    let text = format!("The picture is blocked: {copies}. Blocked images: {}.", report.images);
    context.output.print(&value, text)
}

async fn unblock(context: &Context, store: &Store, name: &str) -> Result<()> {
    let under = match ImgId::parse(name) {
        Ok(img_id) => store.block_of(&img_id).await?.map(|block| block.contents),
        Err(_) => Some(picture(store, name).await?.0),
    };
    let contents = under.ok_or_else(|| refused(not_blocked(name)))?;
    let command = ImageCommand::Unblock { picture: *contents.as_array(), name: name.to_owned() };
    store.change_blocks(&context.operator, command).await.map_err(not_done)?;
    context.output.print(&json!({ "picture": contents }), "The picture is no longer blocked.")
}

fn unknown_image(img_id: &ImgId) -> anyhow::Error {
    refused(image::unknown_image(img_id))
}

/// The content hash and the perceptual hashes of the picture that an argument names.
async fn picture(store: &Store, name: &str) -> Result<(BlobHash, Vec<PerceptualHash>)> {
    // A file with the name of an imgId needs ./ before its name.
    let bytes = match ImgId::parse(name) {
        Ok(img_id) => {
            let image = store.image(&img_id).await?.ok_or_else(|| unknown_image(&img_id))?;
            store.contents(&image.contents, image.byte_length).await?
        }
        Err(_) => std::fs::read(name)
            .map_err(|error| anyhow!("{name}: {error}; expected a picture file or an imgId"))?,
    };
    hashes_of(&bytes).map_err(|reason| anyhow!("{name}: {reason}"))
}
