//! Images: the same bytes of an app are one image with one id (contract 5). What is kept of a
//! picture, its contents, is kept once, whoever uploads it.

use std::sync::Arc;

use domain::ids::{AppId, ImgId};
use domain::picture_store::Outside;
use outside::PictureObject;
use pictures::{Format, Kept, PerceptualHash};
use serde::Serialize;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::{Store, StoreError};
use crate::secrets::random_img_id;

mod block;
mod contents;
mod moving;
mod outside;
mod own_store;
mod search;
mod sweep;

pub use block::{Block, BlockOutcome};
pub use contents::{ContentCheck, ContentHash};
pub use moving::{BlobLocation, MoveOutcome};
pub(super) use own_store::OwnStores;
pub use search::{ImageCursor, ImageDetail, ImageFilter, ImageKey, ImagePage};
pub use sweep::Swept;

/// How often an upload is begun again whose object was swept away under it.
const KEEP_ATTEMPTS_MAX: u32 = 3;

/// What becomes of an upload whose picture was judged good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeepOutcome {
    /// It is there now, or was already.
    Kept(ImgId),
    /// The operator has blocked it, or one that looks nearly the same.
    Blocked,
}

/// An image as it is served and shown.
#[derive(Debug, Clone, Serialize)]
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
    #[serde(rename = "bytes")]
    pub byte_length: u64,
    /// Its contents.
    #[serde(rename = "picture")]
    pub contents: ContentHash,
    /// Whether the operator has blocked it.
    #[serde(rename = "blocked")]
    pub is_blocked: bool,
    /// First upload, database time.
    #[serde(with = "time::serde::rfc3339")]
    pub uploaded_at: OffsetDateTime,
}

impl Store {
    /// Keeps a picture and gives its id: a new one, or the one that the same bytes have already. Its
    /// contents are durable and, outside the database, were read back before there is an id.
    pub async fn keep_image(&self, app_id: &AppId, kept: Kept) -> Result<KeepOutcome, StoreError> {
        let image = Arc::new(NewImage {
            app_id: app_id.clone(),
            img_id: random_img_id(),
            kept,
            outside: self.settings.picture_store.outside(),
        });
        for _ in 0..KEEP_ATTEMPTS_MAX {
            let object = match self.write_image(&image, None).await? {
                ImageWrite::Done { outcome, .. } => return Ok(outcome),
                ImageWrite::NeedsObject(object) => object,
                ImageWrite::Swept => continue,
            };
            let contents = &image.kept.contents;
            self.write_object(&object, contents, &image.kept.content_sha256).await?;
            match self.write_image(&image, Some(&object)).await? {
                ImageWrite::Done { outcome, uses_object: true } => return Ok(outcome),
                ImageWrite::Done { outcome, uses_object: false } => {
                    self.discard_object(&object).await;
                    return Ok(outcome);
                }
                ImageWrite::NeedsObject(_) | ImageWrite::Swept => {}
            }
        }
        Err(StoreError::PicturesUnavailable("what was written did not stay".to_owned()))
    }

    async fn write_image(
        &self,
        image: &Arc<NewImage>,
        object: Option<&PictureObject>,
    ) -> Result<ImageWrite, StoreError> {
        self.transaction((Arc::clone(image), object.cloned()), |connection, (image, object)| {
            Box::pin(image.write(connection, object.as_ref()))
        })
        .await
    }

    /// What [`keep_image`](Self::keep_image) would answer without keeping anything: the app has the
    /// picture, or the operator has blocked it. `None` for a picture that would be kept now.
    pub async fn settled_image(
        &self,
        app_id: &AppId,
        kept: &Kept,
    ) -> Result<Option<KeepOutcome>, StoreError> {
        let mut session = self.pool.acquire().await?;
        settled(&mut session, app_id, kept).await
    }

    /// The image of this id, whatever app it is of: the id is its own permission.
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
    /// Where its contents go if they are new; `None` is the database.
    outside: Option<Outside>,
}

/// What a transaction for a new image came to.
enum ImageWrite {
    /// There is an answer.
    Done {
        outcome: KeepOutcome,
        /// Whether the object that was written holds the contents now.
        uses_object: bool,
    },
    /// The contents are to be written outside first, as this object.
    NeedsObject(PictureObject),
    /// The object took so long that it was given up.
    Swept,
}

impl ImageWrite {
    const fn known(outcome: KeepOutcome) -> Self {
        Self::Done { outcome, uses_object: false }
    }
}

impl NewImage {
    /// Writes the image, whose contents were written as `object`; without one, contents that go
    /// outside only get their object's name.
    async fn write(
        &self,
        connection: &mut PgConnection,
        object: Option<&PictureObject>,
    ) -> Result<ImageWrite, StoreError> {
        // A block that is made at this moment is either seen here or sees this image.
        block::hold_off(connection).await?;
        if let Some(outcome) = settled(connection, &self.app_id, &self.kept).await? {
            return Ok(ImageWrite::known(outcome));
        }
        let contents = ContentHash::of_kept(&self.kept);
        let mut uses_object = false;
        if !contents::is_there(connection, &contents).await? {
            match (self.outside, object) {
                (None, _) => contents::write(connection, &contents, &self.kept.contents).await?,
                (Some(outside), None) => {
                    let object = PictureObject::new(outside, self.kept.contents.len());
                    outside::announce(connection, &object, &contents).await?;
                    return Ok(ImageWrite::NeedsObject(object));
                }
                (Some(_), Some(object)) if outside::keep(connection, object).await? => uses_object = true,
                (Some(_), Some(_)) => return Ok(ImageWrite::Swept),
            }
        }
        self.insert(connection, &contents).await?;
        Ok(ImageWrite::Done { outcome: KeepOutcome::Kept(self.img_id.clone()), uses_object })
    }

    async fn insert(&self, connection: &mut PgConnection, contents: &ContentHash) -> Result<(), StoreError> {
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
        if inserted.rows_affected() == 0 { Err(StoreError::Again) } else { Ok(()) }
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
