//! The block list (contract 5.5): pictures that no app may use, and their near copies.

use std::collections::BTreeMap;

use domain::ids::ImgId;
use domain::operation::image::{ImageCommand, ImageReport, not_blocked};
use domain::operator::Operator;
use pictures::{NEAR_COPY_DISTANCE_MAX, PerceptualHash};
use serde::Serialize;
use serde_json::json;
use sqlx::PgConnection;

use super::blob_hash::BlobHash;
use crate::error::{OperationError, Result};
use crate::event::tell_of_images;
use crate::operator_log::{LogLine, OperatorAction};
use crate::store::Store;

/// A blocked picture.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[schemars(rename = "PictureBlock")]
pub struct Block {
    /// SHA-256 of the blocked blob.
    #[serde(rename = "picture")]
    pub contents: BlobHash,
    /// Reason, for people.
    pub reason: String,
    /// Database time.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub blocked_at: time::OffsetDateTime,
    /// Number of images under the block.
    #[schemars(with = "u64")]
    pub images: i64,
}

/// Waits for a concurrent block. A later block waits for this transaction.
pub(super) async fn hold_off(connection: &mut PgConnection) -> Result<()> {
    sqlx::query!("LOCK TABLE picture_blocks IN ROW SHARE MODE").execute(connection).await?;
    Ok(())
}

/// True when a picture falls under a block.
pub(super) async fn is_blocked(
    connection: &mut PgConnection,
    contents: &BlobHash,
    perceptual_hash: Option<PerceptualHash>,
) -> Result<bool> {
    Ok(sqlx::query_scalar!(
        "SELECT EXISTS (
             SELECT 1 FROM picture_blocks b
             WHERE b.content_sha256 = $1 OR EXISTS (
                 SELECT 1 FROM unnest(b.perceptual_hashes) AS h (bits)
                 WHERE bit_count((h.bits # $2)::bit(64)) <= $3)) AS \"is_blocked!\"",
        contents.as_bytes(),
        perceptual_hash.map(PerceptualHash::to_i64),
        i64::from(NEAR_COPY_DISTANCE_MAX)
    )
    .fetch_one(connection)
    .await?)
}

/// Waits for running uploads, makes later ones wait, and returns the reason of the present block. What follows looks at all
/// images, so it has no time limit.
async fn lock_block(connection: &mut PgConnection, contents: &BlobHash) -> Result<Option<String>> {
    sqlx::query!("LOCK TABLE picture_blocks IN EXCLUSIVE MODE").execute(&mut *connection).await?;
    sqlx::query!("SET LOCAL statement_timeout = 0").execute(&mut *connection).await?;
    let reason = sqlx::query_scalar!(
        "SELECT reason FROM picture_blocks WHERE content_sha256 = $1",
        contents.as_bytes()
    );
    Ok(reason.fetch_optional(connection).await?)
}

/// Writes a block and returns the number of images under it.
async fn write_block(
    connection: &mut PgConnection,
    contents: &BlobHash,
    perceptual_hashes: &[i64],
    reason: &str,
) -> Result<u64> {
    sqlx::query!(
        "INSERT INTO picture_blocks (content_sha256, perceptual_hashes, reason) VALUES ($1, $2, $3)
         ON CONFLICT (content_sha256) DO UPDATE
         SET perceptual_hashes = EXCLUDED.perceptual_hashes, reason = EXCLUDED.reason",
        contents.as_bytes(),
        perceptual_hashes,
        reason
    )
    .execute(&mut *connection)
    .await?;
    let blocked = sqlx::query!(
        "UPDATE images SET blocked_by = $1
         WHERE blocked_by IS NULL AND (content_sha256 = $1 OR EXISTS (
             SELECT 1 FROM unnest($2::bigint[]) AS h (bits)
             WHERE bit_count((h.bits # perceptual_hash)::bit(64)) <= $3))
         RETURNING app_id, img_id",
        contents.as_bytes(),
        perceptual_hashes,
        i64::from(NEAR_COPY_DISTANCE_MAX)
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut of_apps: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for image in blocked {
        of_apps.entry(image.app_id).or_default().push(image.img_id);
    }
    for (app_id, images) in of_apps {
        tell_of_images(connection, &app_id, images).await?;
    }
    let images = sqlx::query_scalar!(
        "SELECT count(*) AS \"images!\" FROM images WHERE blocked_by = $1",
        contents.as_bytes()
    )
    .fetch_one(connection)
    .await?;
    Ok(u64::try_from(images).unwrap_or_default())
}

impl Store {
    /// Changes the block list for an operator. A block holds from now on: the picture and its near copies are not served
    /// and not accepted, and no order may use them. Images that another block matches stay blocked after the end of one.
    ///
    /// # Errors
    /// The picture is not blocked, or the database is away.
    pub async fn change_blocks(
        &self,
        operator: &Operator,
        command: ImageCommand,
    ) -> Result<ImageReport, OperationError> {
        let context = (operator.clone(), command);
        let changed = self.long_transaction(context, |connection, (operator, command)| {
            Box::pin(async move {
                match command {
                    ImageCommand::Block { picture, near_copies, reason } => {
                        block(connection, operator, BlobHash::kept(*picture), (near_copies, reason)).await
                    }
                    ImageCommand::Unblock { picture, name } => {
                        unblock(connection, operator, BlobHash::kept(*picture), name).await
                    }
                }
            })
        });
        let changed = changed.await;
        self.events.notify_one();
        changed
    }

    /// The block of an image.
    pub async fn block_of(&self, img_id: &ImgId) -> Result<Option<Block>> {
        Ok(sqlx::query_as!(
            Block,
            r#"SELECT b.content_sha256 AS "contents: BlobHash", b.reason, b.blocked_at,
                      (SELECT count(*) FROM images i WHERE i.blocked_by = b.content_sha256) AS "images!"
               FROM picture_blocks b JOIN images i ON i.blocked_by = b.content_sha256 WHERE i.img_id = $1"#,
            img_id.as_str()
        )
        .fetch_optional(&self.pool)
        .await?)
    }

    /// The block list, newest first.
    pub async fn blocks(&self) -> Result<Vec<Block>> {
        Ok(sqlx::query_as!(
            Block,
            r#"SELECT b.content_sha256 AS "contents: BlobHash", b.reason, b.blocked_at,
                      (SELECT count(*) FROM images i WHERE i.blocked_by = b.content_sha256) AS "images!"
               FROM picture_blocks b ORDER BY b.blocked_at DESC, b.content_sha256"#
        )
        .fetch_all(&self.pool)
        .await?)
    }
}

async fn block(
    connection: &mut PgConnection,
    operator: &Operator,
    contents: BlobHash,
    (near_copies, reason): (&[i64], &str),
) -> Result<ImageReport, OperationError> {
    let former = lock_block(connection, &contents).await?;
    let images = write_block(connection, &contents, near_copies, reason).await?;
    let subject = contents.to_string();
    let line = LogLine::new(operator, OperatorAction::ImageBlock, &subject).note(reason);
    let line = line.before(former.as_ref().map(|reason| json!({ "reason": reason })));
    line.after(json!({ "reason": reason, "images": images })).record(connection).await?;
    Ok(ImageReport { was_blocked: former.is_some(), images })
}

async fn unblock(
    connection: &mut PgConnection,
    operator: &Operator,
    contents: BlobHash,
    name: &str,
) -> Result<ImageReport, OperationError> {
    let reason = lock_block(connection, &contents).await?.ok_or_else(|| not_blocked(name))?;
    sqlx::query!("DELETE FROM picture_blocks WHERE content_sha256 = $1", contents.as_bytes())
        .execute(&mut *connection)
        .await?;
    // Another block may match them.
    sqlx::query!(
        "UPDATE images i SET blocked_by = (
             SELECT b.content_sha256 FROM picture_blocks b
             WHERE b.content_sha256 = i.content_sha256 OR EXISTS (
                 SELECT 1 FROM unnest(b.perceptual_hashes) AS h (bits)
                 WHERE bit_count((h.bits # i.perceptual_hash)::bit(64)) <= $2)
             ORDER BY b.blocked_at, b.content_sha256 LIMIT 1)
         WHERE i.blocked_by = $1",
        contents.as_bytes(),
        i64::from(NEAR_COPY_DISTANCE_MAX)
    )
    .execute(&mut *connection)
    .await?;
    let subject = contents.to_string();
    let line = LogLine::new(operator, OperatorAction::ImageUnblock, &subject);
    line.before(json!({ "reason": reason })).record(connection).await?;
    Ok(ImageReport { was_blocked: true, images: 0 })
}
