//! The operator's block list (contract 5): pictures that no app may use.

use std::sync::Arc;

use sqlx::PgConnection;

use super::contents::ContentHash;
use super::{Store, StoreError};
use crate::domain::ids::ImgId;

/// A blocked picture.
#[derive(Debug, Clone)]
pub struct Block {
    /// The blocked contents.
    pub contents: ContentHash,
    /// Why, for people.
    pub reason: String,
    /// Database time.
    pub blocked_at: time::OffsetDateTime,
    /// Images that fall under it.
    pub images: u64,
}

/// What a block has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockOutcome {
    /// Whether it was there before; its reason is the new one.
    pub was_blocked: bool,
    /// Images that fall under it.
    pub images: u64,
}

/// Waits for a block that is being made, and makes the next one wait for this transaction.
pub(super) async fn hold_off(connection: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::query!("LOCK TABLE picture_blocks IN ROW SHARE MODE").execute(connection).await?;
    Ok(())
}

/// Whether a picture is blocked.
pub(super) async fn is_blocked(
    connection: &mut PgConnection,
    contents: &ContentHash,
) -> Result<bool, StoreError> {
    let is_blocked = sqlx::query_scalar!(
        "SELECT EXISTS (SELECT 1 FROM picture_blocks WHERE content_sha256 = $1) AS \"is_blocked!\"",
        contents.as_bytes()
    )
    .fetch_one(connection)
    .await?;
    Ok(is_blocked)
}

impl Store {
    /// Blocks a picture. From now on it is not served, not accepted, and no order may use it.
    ///
    /// # Errors
    /// The database is away.
    pub async fn block_picture(
        &self,
        contents: ContentHash,
        reason: &str,
    ) -> Result<BlockOutcome, StoreError> {
        let reason: Arc<str> = reason.into();
        self.transaction(move |connection| {
            let reason = Arc::clone(&reason);
            Box::pin(async move {
                // Uploads under way are waited for, later ones see the block.
                sqlx::query!("LOCK TABLE picture_blocks IN EXCLUSIVE MODE").execute(&mut *connection).await?;
                let was_blocked = sqlx::query_scalar!(
                    "INSERT INTO picture_blocks (content_sha256, reason) VALUES ($1, $2)
                     ON CONFLICT (content_sha256) DO UPDATE SET reason = EXCLUDED.reason
                     RETURNING xmax <> 0 AS \"was_blocked!\"",
                    contents.as_bytes(),
                    &*reason
                )
                .fetch_one(&mut *connection)
                .await?;
                let images = sqlx::query!(
                    "UPDATE images SET blocked_by = $1 WHERE content_sha256 = $1",
                    contents.as_bytes()
                )
                .execute(connection)
                .await?;
                Ok(BlockOutcome { was_blocked, images: images.rows_affected() })
            })
        })
        .await
    }

    /// Ends the block of a picture; gives whether there was one.
    ///
    /// # Errors
    /// The database is away.
    pub async fn unblock_picture(&self, contents: ContentHash) -> Result<bool, StoreError> {
        self.transaction(move |connection| {
            Box::pin(async move {
                sqlx::query!("LOCK TABLE picture_blocks IN EXCLUSIVE MODE").execute(&mut *connection).await?;
                let ended =
                    sqlx::query!("DELETE FROM picture_blocks WHERE content_sha256 = $1", contents.as_bytes())
                        .execute(&mut *connection)
                        .await?;
                sqlx::query!(
                    "UPDATE images SET blocked_by = NULL WHERE blocked_by = $1",
                    contents.as_bytes()
                )
                .execute(connection)
                .await?;
                Ok(ended.rows_affected() > 0)
            })
        })
        .await
    }

    /// The block that an image falls under.
    ///
    /// # Errors
    /// The database is away.
    pub async fn block_of(&self, img_id: &ImgId) -> Result<Option<Block>, StoreError> {
        let all = self.blocks().await?;
        let under = sqlx::query_scalar!("SELECT blocked_by FROM images WHERE img_id = $1", img_id.as_str())
            .fetch_optional(&self.pool)
            .await?
            .flatten();
        Ok(under.and_then(|under| all.into_iter().find(|block| block.contents.as_bytes() == under)))
    }

    /// The block list, newest first.
    ///
    /// # Errors
    /// The database is away.
    pub async fn blocks(&self) -> Result<Vec<Block>, StoreError> {
        let rows = sqlx::query!(
            "SELECT b.content_sha256, b.reason, b.blocked_at,
                    (SELECT count(*) FROM images i WHERE i.blocked_by = b.content_sha256) AS \"images!\"
             FROM picture_blocks b ORDER BY b.blocked_at DESC, b.content_sha256"
        )
        .fetch_all(&self.pool)
        .await?;
        let blocks = rows.into_iter().map(|row| {
            Ok(Block {
                contents: ContentHash::from_column(&row.content_sha256)?,
                reason: row.reason,
                blocked_at: row.blocked_at,
                images: u64::try_from(row.images).unwrap_or_default(),
            })
        });
        blocks.collect()
    }
}
