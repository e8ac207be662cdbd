//! Images (contract 5.6 and 5.8). The same bytes of an app are one image with one id. A blob is stored once,
//! whoever uploads it.

use std::sync::Arc;

use domain::ids::{AppId, ImgId};
use domain::picture_store::Outside;
use domain::quota::{ImageQuotas, QuotaExceeded};
use object_location::PictureObject;
use pictures::{Format, Kept, PerceptualHash};
use serde::Serialize;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::error::{Refusable, Result, StoreError};
use crate::secrets::random_img_id;
use crate::store::Store;

mod blob_hash;
mod block;
mod contents;
mod moving;
mod object_location;
mod search;
mod store_mark;
mod sweep;
mod unused;
mod usage;

pub use blob_hash::{BlobCheck, BlobHash};
pub use block::Block;
pub use contents::PART_BYTES;
pub use moving::{BlobLocation, MoveOutcome};
pub use search::{ImageCursor, ImageDetail, ImageFilter, ImageKey};
pub use sweep::Swept;
pub use unused::IMAGES_AT_ONCE;

/// How often an upload starts again after a sweep has removed its object.
const KEEP_ATTEMPTS_MAX: u32 = 3;

/// The result of an upload whose picture was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeepOutcome {
    /// The image is stored, now or earlier.
    Kept(ImgId),
    /// The operator has blocked the picture, or a near copy of it.
    Blocked,
    /// The app stores too much already. Nothing is stored.
    OverQuota(QuotaExceeded),
}

/// An image.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Image")]
pub struct StoredImage {
    /// The app that uploaded it.
    pub app_id: AppId,
    /// Its id.
    pub img_id: ImgId,
    /// Format, from the bytes.
    #[schemars(with = "String", extend("enum" = ["png", "jpeg"]))]
    pub format: Format,
    /// Width and height in pixels.
    pub side: u32,
    /// Number of bytes of the blob.
    #[serde(rename = "bytes")]
    pub byte_length: u64,
    /// SHA-256 of the blob.
    #[serde(rename = "picture")]
    pub contents: BlobHash,
    /// True when the operator has blocked it.
    #[serde(rename = "blocked")]
    pub is_blocked: bool,
    /// First upload, database time.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub uploaded_at: OffsetDateTime,
}

impl Store {
    /// Stores a picture and returns its id: a new one, or the id that the same bytes have already.
    /// The blob is durable before there is an id. Outside the database it was read back, too. A picture
    /// that the app has costs nothing of `quotas`.
    pub async fn keep_image(&self, app_id: &AppId, kept: Kept, quotas: ImageQuotas) -> Result<KeepOutcome> {
        let image = Arc::new(NewImage {
            app_id: app_id.clone(),
            img_id: random_img_id(),
            kept,
            quotas,
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

    async fn write_image(&self, image: &Arc<NewImage>, object: Option<&PictureObject>) -> Result<ImageWrite> {
        let written = self
            .transaction((Arc::clone(image), object.cloned()), |connection, (image, object)| {
                Box::pin(image.write(connection, object.as_ref()))
            });
        match written.await {
            Ok(written) => Ok(written),
            Err(Refusable::Refused(exceeded)) => Ok(ImageWrite::known(KeepOutcome::OverQuota(exceeded))),
            Err(Refusable::Store(error)) => Err(error),
        }
    }

    /// The result of [`keep_image`](Self::keep_image) when the app has the picture already, the
    /// operator has blocked it, or it is past a quota. `None` for a new picture. It stores nothing.
    pub async fn settled_image(
        &self,
        app_id: &AppId,
        kept: &Kept,
        quotas: &ImageQuotas,
    ) -> Result<Option<KeepOutcome>> {
        let mut session = self.pool.acquire().await?;
        settled(&mut session, app_id, kept, quotas).await
    }

    /// The image with this id, of any app: the id is the permission.
    pub async fn image(&self, img_id: &ImgId) -> Result<Option<StoredImage>> {
        let ids = [img_id.to_string()];
        let found = async { self.images_by_id(&mut *self.guest_pool.session().await?, &ids).await };
        Ok(self.look_up(found).await?.pop())
    }

    /// The newest images of all apps.
    pub async fn newest_images(&self, limit: u32) -> Result<Vec<StoredImage>> {
        Ok(self.images(&ImageFilter::default(), limit).await?.items)
    }
}

/// An accepted picture, with the id that it gets when it is new.
struct NewImage {
    app_id: AppId,
    img_id: ImgId,
    kept: Kept,
    quotas: ImageQuotas,
    /// The object store for a new blob. `None` is the database.
    outside: Option<Outside>,
}

/// The result of the transaction of a new image.
enum ImageWrite {
    /// The upload is done.
    Done {
        outcome: KeepOutcome,
        /// True when images use the object that was written.
        uses_object: bool,
    },
    /// The blob must first be written as this object.
    NeedsObject(PictureObject),
    /// A sweep has removed the object, because its upload took too long.
    Swept,
}

impl ImageWrite {
    const fn known(outcome: KeepOutcome) -> Self {
        Self::Done { outcome, uses_object: false }
    }
}

impl NewImage {
    /// Writes the image whose blob was written as `object`. Without `object`, a blob that goes to
    /// an object store only gets a name. The error rolls all of it back.
    async fn write(
        &self,
        connection: &mut PgConnection,
        object: Option<&PictureObject>,
    ) -> Result<ImageWrite, Refusable<QuotaExceeded>> {
        // This transaction sees a concurrent block, or the block sees this image.
        block::hold_off(connection).await?;
        if let Some(outcome) = settled(connection, &self.app_id, &self.kept, &self.quotas).await? {
            return Ok(ImageWrite::known(outcome));
        }
        let contents = BlobHash::of_kept(&self.kept);
        let mut uses_object = false;
        if !contents::is_there(connection, &contents).await? {
            match (self.outside, object) {
                (None, _) => contents::write(connection, &contents, &self.kept.contents).await?,
                (Some(outside), None) => {
                    let object = PictureObject::new(outside, self.kept.contents.len());
                    object_location::announce(&mut *connection, &object, &contents).await?;
                    return Ok(ImageWrite::NeedsObject(object));
                }
                (Some(_), Some(object)) if object_location::keep(connection, object).await? => {
                    uses_object = true;
                }
                (Some(_), Some(_)) => return Ok(ImageWrite::Swept),
            }
        }
        self.insert(connection, &contents).await?;
        // Other uploads of the app wait from here on.
        let after = usage::count(connection, &self.app_id, bytes(&self.kept)).await?;
        self.quotas.admit(&after).map_err(Refusable::Refused)?;
        Ok(ImageWrite::Done { outcome: KeepOutcome::Kept(self.img_id.clone()), uses_object })
    }

    async fn insert(&self, connection: &mut PgConnection, contents: &BlobHash) -> Result<()> {
        let inserted = sqlx::query!(
            "INSERT INTO images (app_id, img_id, sha256, format, side, byte_length, content_sha256, perceptual_hash)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
            self.app_id.as_str(),
            self.img_id.as_str(),
            self.kept.sha256.as_slice(),
            self.kept.format.as_str(),
            i32::try_from(self.kept.side).unwrap_or(i32::MAX),
            bytes(&self.kept),
            contents.as_bytes(),
            self.kept.perceptual_hash.map(PerceptualHash::to_i64)
        )
        .execute(connection)
        .await?;
        // Another upload of the same bytes was first, and its id counts.
        if inserted.rows_affected() == 0 { Err(StoreError::Again) } else { Ok(()) }
    }
}

/// Length of the blob.
fn bytes(kept: &Kept) -> i32 {
    i32::try_from(kept.contents.len()).unwrap_or(i32::MAX)
}

/// See [`Store::settled_image`].
async fn settled(
    connection: &mut PgConnection,
    app_id: &AppId,
    kept: &Kept,
    quotas: &ImageQuotas,
) -> Result<Option<KeepOutcome>> {
    let known = sqlx::query!(
        "SELECT img_id, blocked_by IS NOT NULL AS \"is_blocked!\", is_reported FROM images
         WHERE app_id = $1 AND sha256 = $2",
        app_id.as_str(),
        kept.sha256.as_slice()
    );
    let known = known.fetch_optional(&mut *connection).await?;
    if let Some(known) = known
        && (known.is_reported || unused::uploaded_again(connection, app_id, &known.img_id).await?)
    {
        let img_id = ImgId::parse(&known.img_id).map_err(|_| StoreError::damaged("images.img_id"))?;
        return Ok(Some(if known.is_blocked { KeepOutcome::Blocked } else { KeepOutcome::Kept(img_id) }));
    }
    if block::is_blocked(&mut *connection, &BlobHash::of_kept(kept), kept.perceptual_hash).await? {
        return Ok(Some(KeepOutcome::Blocked));
    }
    // A picture past a quota costs no more work. What counts is the usage when the image is kept.
    let after = usage::after(connection, app_id, bytes(kept)).await?;
    Ok(quotas.admit(&after).err().map(KeepOutcome::OverQuota))
}
