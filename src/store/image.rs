//! Images: the same bytes of an app are one image with one id (contract 5). What is kept of a
//! picture, its contents, is kept once, whoever uploads it.

use std::sync::Arc;

use sqlx::PgConnection;
use time::OffsetDateTime;

use super::{Store, StoreError};
use crate::domain::ids::{AppId, ImgId};
use crate::domain::image::{Format, Kept, PerceptualHash};
use crate::secrets::random_img_id;

mod block;
mod contents;

pub use block::{Block, BlockOutcome};
pub use contents::ContentHash;

/// What becomes of an upload whose picture was judged good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeepOutcome {
    /// It is there now, or was already.
    Kept(ImgId),
    /// The operator has blocked it, or one that looks nearly the same.
    Blocked,
}

/// An image as it is served and shown.
#[derive(Debug, Clone)]
pub struct StoredImage {
    /// The app that uploaded it.
    pub app_id: AppId,
    /// Its id.
    pub img_id: ImgId,
    /// By the bytes.
    pub format: Format,
    /// Width and height in pixels.
    pub side: u32,
    /// Bytes of its contents.
    pub byte_length: u64,
    /// Its contents.
    pub contents: ContentHash,
    /// Whether the operator has blocked it.
    pub is_blocked: bool,
    /// First upload, database time.
    pub uploaded_at: OffsetDateTime,
}

impl Store {
    /// Keeps a picture and gives its id: a new one, or the one that the same bytes have already.
    ///
    /// # Errors
    /// The database is away.
    pub async fn keep_image(&self, app_id: &AppId, kept: Kept) -> Result<KeepOutcome, StoreError> {
        let image = Arc::new(NewImage { app_id: app_id.clone(), img_id: random_img_id(), kept });
        self.transaction(move |connection| {
            let image = Arc::clone(&image);
            Box::pin(async move { image.write(connection).await })
        })
        .await
    }

    /// What [`keep_image`](Self::keep_image) would answer without keeping anything: the app has the
    /// picture, or the operator has blocked it. `None` for a picture that would be kept now.
    ///
    /// # Errors
    /// The database is away.
    pub async fn settled_image(
        &self,
        app_id: &AppId,
        kept: &Kept,
    ) -> Result<Option<KeepOutcome>, StoreError> {
        let mut session = self.pool.acquire().await?;
        settled(&mut session, app_id, kept).await
    }

    /// The image of this id, whatever app it is of: the id is its own permission.
    ///
    /// # Errors
    /// The database is away.
    pub async fn image(&self, img_id: &ImgId) -> Result<Option<StoredImage>, StoreError> {
        let row = sqlx::query_as!(
            ImageRow,
            "SELECT app_id, img_id, format, side, byte_length, content_sha256,
                    blocked_by IS NOT NULL AS \"is_blocked!\", uploaded_at
             FROM images WHERE img_id = $1",
            img_id.as_str()
        )
        .fetch_optional(&self.pool)
        .await?;
        row.map(ImageRow::read).transpose()
    }

    /// The newest images of all apps.
    ///
    /// # Errors
    /// The database is away.
    pub async fn newest_images(&self, limit: u32) -> Result<Vec<StoredImage>, StoreError> {
        let rows = sqlx::query_as!(
            ImageRow,
            "SELECT app_id, img_id, format, side, byte_length, content_sha256,
                    blocked_by IS NOT NULL AS \"is_blocked!\", uploaded_at
             FROM images ORDER BY uploaded_at DESC, img_id LIMIT $1",
            i64::from(limit)
        )
        .fetch_all(&self.pool)
        .await?;
        rows.into_iter().map(ImageRow::read).collect()
    }
}

/// A row of `images`.
struct ImageRow {
    app_id: String,
    img_id: String,
    format: String,
    side: i32,
    byte_length: i32,
    content_sha256: Vec<u8>,
    is_blocked: bool,
    uploaded_at: OffsetDateTime,
}

impl ImageRow {
    fn read(self) -> Result<StoredImage, StoreError> {
        let damaged = StoreError::damaged;
        Ok(StoredImage {
            app_id: AppId::parse(&self.app_id).map_err(|_| damaged("images.app_id"))?,
            img_id: ImgId::parse(&self.img_id).map_err(|_| damaged("images.img_id"))?,
            format: Format::parse(&self.format).ok_or_else(|| damaged("images.format"))?,
            side: u32::try_from(self.side).map_err(|_| damaged("images.side"))?,
            byte_length: u64::try_from(self.byte_length).map_err(|_| damaged("images.byte_length"))?,
            contents: ContentHash::from_column(&self.content_sha256)?,
            is_blocked: self.is_blocked,
            uploaded_at: self.uploaded_at,
        })
    }
}

/// A picture that was judged good, with the id it gets if it is new.
struct NewImage {
    app_id: AppId,
    img_id: ImgId,
    kept: Kept,
}

impl NewImage {
    async fn write(&self, connection: &mut PgConnection) -> Result<KeepOutcome, StoreError> {
        // A block that is made at this moment is either seen here or sees this image.
        block::hold_off(connection).await?;
        if let Some(outcome) = settled(connection, &self.app_id, &self.kept).await? {
            return Ok(outcome);
        }
        let contents = ContentHash::of_kept(&self.kept);
        contents::write(connection, &contents, &self.kept.contents).await?;
        let inserted = sqlx::query!(
            "INSERT INTO images (app_id, img_id, sha256, format, side, byte_length, content_sha256, perceptual_hash)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
            self.app_id.as_str(),
            self.img_id.as_str(),
            self.kept.sha256.as_slice(),
            self.kept.format.as_str(),
            i32::try_from(self.kept.side).unwrap_or(i32::MAX),
            i32::try_from(self.kept.contents.len()).unwrap_or(i32::MAX),
            contents.as_bytes(),
            self.kept.perceptual_hash.map(PerceptualHash::to_i64)
        )
        .execute(connection)
        .await?;
        // Somebody else was quicker with the same bytes: theirs is the id.
        if inserted.rows_affected() == 0 {
            Err(StoreError::Again)
        } else {
            Ok(KeepOutcome::Kept(self.img_id.clone()))
        }
    }
}

/// See [`Store::settled_image`].
async fn settled(
    connection: &mut PgConnection,
    app_id: &AppId,
    kept: &Kept,
) -> Result<Option<KeepOutcome>, StoreError> {
    let known = sqlx::query!(
        "SELECT img_id, blocked_by IS NOT NULL AS \"is_blocked!\" FROM images WHERE app_id = $1 AND sha256 = $2",
        app_id.as_str(),
        kept.sha256.as_slice()
    )
    .fetch_optional(&mut *connection)
    .await?;
    if let Some(known) = known {
        let img_id = ImgId::parse(&known.img_id).map_err(|_| StoreError::damaged("images.img_id"))?;
        return Ok(Some(if known.is_blocked { KeepOutcome::Blocked } else { KeepOutcome::Kept(img_id) }));
    }
    let is_blocked = block::is_blocked(connection, &ContentHash::of_kept(kept), kept.perceptual_hash).await?;
    Ok(is_blocked.then_some(KeepOutcome::Blocked))
}
