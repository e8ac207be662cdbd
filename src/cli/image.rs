//! `minitill image ...` shows images and keeps the block list.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use domain::ids::ImgId;
use domain::picture_store::PictureStore;
use pictures::PerceptualHash;
use serde_json::json;
use store::{BlobHash, Store};

use super::output::{lines, rfc3339, table, yes_no};
use super::{Context, Failure, image_stores};
use crate::small_copies::hashes_of;

#[derive(Debug, Subcommand)]
pub(super) enum ImageCommand {
    /// Block a picture and its near copies for every app: they are not accepted, not served, and no order
    /// may use them
    Block(BlockArguments),
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
        #[arg(long, value_name = "STORE", value_parser = image_stores::picture_store)]
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

#[derive(Debug, Args)]
pub(super) struct BlockArguments {
    /// A file, or the imgId of an image
    picture: String,
    /// Reason of the block, for people
    #[arg(long)]
    reason: String,
}

/// Runs the command. The exit code is 1 if pictures are damaged.
pub(super) async fn run(
    context: &Context,
    store: &Store,
    command: ImageCommand,
) -> Result<ExitCode, Failure> {
    match command {
        ImageCommand::Move { to } => return image_stores::relocate(context, store, to).await,
        ImageCommand::Verify => return image_stores::verify(context, store).await,
        ImageCommand::Sweep { dry_run } => image_stores::sweep(context, store, dry_run).await,
        ImageCommand::Block(arguments) => block(context, store, &arguments).await,
        ImageCommand::Unblock { picture } => unblock(context, store, &picture).await,
        ImageCommand::List { all: true, limit } => list_images(context, store, limit).await,
        ImageCommand::List { all: false, .. } => list_blocks(context, store).await,
        ImageCommand::Show { img_id } => show(context, store, &img_id).await,
    }
    .map(|()| ExitCode::SUCCESS)
}

async fn block(context: &Context, store: &Store, arguments: &BlockArguments) -> Result<(), Failure> {
    let (contents, near_copies) = picture(store, &arguments.picture).await?;
    let outcome = store.block_picture(&context.operator, contents, &near_copies, &arguments.reason).await?;
    let value = json!({
        "picture": contents.to_string(), "reason": arguments.reason, "was_blocked": outcome.was_blocked,
        "images": outcome.images, "finds_near_copies": !near_copies.is_empty(),
    });
    context.output.print(&value, || {
        let copies = if near_copies.is_empty() {
            "exact copies only, because the picture has too little detail to find near copies"
        } else {
            "exact and near copies"
        };
        format!("The picture is blocked: {copies}. Blocked images: {}.", outcome.images)
    })
}

async fn unblock(context: &Context, store: &Store, picture_name: &str) -> Result<(), Failure> {
    let under = match ImgId::parse(picture_name) {
        Ok(img_id) => store.block_of(&img_id).await?.map(|block| block.contents),
        Err(_) => Some(picture(store, picture_name).await?.0),
    };
    let not_blocked = || {
        Failure::new(format!(
            "{picture_name} is not blocked; to list all blocked pictures, run `minitill image list`"
        ))
    };
    let contents = under.ok_or_else(not_blocked)?;
    if !store.unblock_picture(&context.operator, contents).await? {
        return Err(not_blocked());
    }
    context
        .output
        .print(&json!({ "picture": contents.to_string() }), || "The picture is no longer blocked.".to_owned())
}

async fn list_blocks(context: &Context, store: &Store) -> Result<(), Failure> {
    let blocks = store.blocks().await?;
    context.output.print(&json!({ "blocks": blocks }), || {
        if blocks.is_empty() {
            return "No picture is blocked.".to_owned();
        }
        let rows = blocks.iter().map(|block| {
            vec![
                short(&block.contents),
                block.reason.clone(),
                block.images.to_string(),
                rfc3339(block.blocked_at),
            ]
        });
        table(&["picture", "reason", "images", "blocked at"], rows)
    })
}

async fn list_images(context: &Context, store: &Store, limit: u32) -> Result<(), Failure> {
    let images = store.newest_images(limit).await?;
    context.output.print(&json!({ "images": images }), || {
        let rows = images.iter().map(|image| {
            vec![
                image.img_id.to_string(),
                image.app_id.to_string(),
                image.format.as_str().to_owned(),
                image.side.to_string(),
                image.byte_length.to_string(),
                yes_no(image.is_blocked),
                rfc3339(image.uploaded_at),
            ]
        });
        table(&["imgId", "app", "format", "side", "bytes", "blocked", "uploaded at"], rows)
    })
}

async fn show(context: &Context, store: &Store, img_id: &ImgId) -> Result<(), Failure> {
    let image = store.image(img_id).await?.ok_or_else(|| unknown_image(img_id))?;
    let block = store.block_of(img_id).await?;
    let mut value = json!(image);
    value["blocked_by"] = json!(block);
    context.output.print(&value, || {
        lines(&[
            ("imgId", image.img_id.to_string()),
            ("app", image.app_id.to_string()),
            ("format", image.format.as_str().to_owned()),
            ("side", format!("{} pixels", image.side)),
            ("bytes", image.byte_length.to_string()),
            ("uploaded at", rfc3339(image.uploaded_at)),
            ("picture", short(&image.contents)),
            (
                "blocked",
                block.as_ref().map_or_else(|| "no".to_owned(), |block| format!("yes: {}", block.reason)),
            ),
        ])
    })
}

/// The first digits of a hash, enough to distinguish pictures.
fn short(contents: &BlobHash) -> String {
    contents.to_string().chars().take(16).collect()
}

fn unknown_image(img_id: &ImgId) -> Failure {
    Failure::new(format!(
        "there is no image {img_id}; to list the newest images, run `minitill image list --all`"
    ))
}

/// The content hash and the perceptual hashes of the picture that an argument names.
async fn picture(store: &Store, name: &str) -> Result<(BlobHash, Vec<PerceptualHash>), Failure> {
    // A file with the name of an imgId needs ./ before its name.
    let bytes = match ImgId::parse(name) {
        Ok(img_id) => {
            let image = store.image(&img_id).await?.ok_or_else(|| unknown_image(&img_id))?;
            store.contents(&image.contents, image.byte_length).await?
        }
        Err(_) => read(Path::new(name))?,
    };
    hashes_of(&bytes).map_err(|reason| Failure::new(format!("{name}: {reason}")))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| {
        Failure::new(format!("{}: {error}; expected a picture file or an imgId", path.display()))
    })
}
