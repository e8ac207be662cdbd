//! Search of images for operators, newest first, and the details of one image.

use domain::fields::Expected;
use domain::ids::{AppId, ImgId};
use domain::rights::Apps;
use pictures::{Format, NEAR_COPY_DISTANCE_MAX};
use serde::Serialize;
use sqlx::PgExecutor;
use time::OffsetDateTime;

use super::{BlobHash, Block, StoredImage};
use crate::error::{Result, StoreError};
use crate::paging::{CursorKey, ListPage, TimeCursor};
use crate::store::Store;

/// How many orders of an image are listed, in the order of their numbers.
const ORDERS_MAX: i64 = 20;
/// How many other images of a picture are listed.
const OTHERS_MAX: i64 = 24;

/// The key of a search for a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageKey {
    /// The image's id.
    ImgId(ImgId),
    /// SHA-256 of the picture as it was uploaded, or of its blob.
    Sha256([u8; 32]),
}

impl ImageKey {
    /// Parses an `imgId` or a SHA-256, both in hexadecimal.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        if let Ok(img_id) = ImgId::parse(text) {
            return Ok(Self::ImgId(img_id));
        }
        let mut sha256 = [0; 32];
        match hex::decode_to_slice(text, &mut sha256) {
            Ok(()) => Ok(Self::Sha256(sha256)),
            Err(_) => Err(Expected::new("an imgId (48 hexadecimal digits) or the SHA-256 of a picture (64)")),
        }
    }
}

/// A filter of images. The default lets all images through.
#[derive(Debug, Clone, Default)]
pub struct ImageFilter {
    /// Only of this app.
    pub app_id: Option<AppId>,
    /// Only of these apps.
    pub apps: Apps,
    /// Only this picture.
    pub key: Option<ImageKey>,
    /// Only blocked images, or only the others.
    pub blocked: Option<bool>,
    /// Uploaded at or after this time.
    pub uploaded_since: Option<OffsetDateTime>,
    /// Uploaded before this time.
    pub uploaded_until: Option<OffsetDateTime>,
    /// After this image of an earlier page.
    pub after: Option<ImageCursor>,
}

/// A position in a list of images, newest first.
pub type ImageCursor = TimeCursor<ImgId>;

impl CursorKey for ImgId {
    const EXPECTED: &'static str = "the place of an image in a list, as an earlier page gave it";
}

/// The details of an image, without its bytes.
#[derive(Debug, Clone, Serialize)]
pub struct ImageDetail {
    /// The image itself.
    #[serde(flatten)]
    pub image: StoredImage,
    /// SHA-256 of the picture as it was uploaded, in hexadecimal.
    pub sha256: String,
    /// The store of its blob: `database`, `folder` or `s3`.
    pub stored_in: String,
    /// The name of its object outside the database.
    pub object_name: Option<String>,
    /// The block of the image.
    pub block: Option<Block>,
    /// At most 20 orders with this cover.
    pub out_biz_order_nos: Vec<String>,
    /// At most 24 other images with the same blob, of any app, newest first.
    pub copies: Vec<StoredImage>,
    /// At most 24 near copies, newest first.
    pub near_copies: Vec<StoredImage>,
}

/// The query for the ids of images. `$found_by` decides which index it uses.
macro_rules! image_ids {
    ($found_by:tt, $filter:expr, $key:expr, $limit:expr) => {{
        let (filter, after) = ($filter, $filter.after.as_ref());
        sqlx::query_scalar!(
            "SELECT i.img_id FROM images i WHERE "
                + $found_by
                + " AND ($2::text IS NULL OR i.app_id = $2)
                    AND ($4::boolean IS NULL OR (i.blocked_by IS NOT NULL) = $4)
                    AND ($5::timestamptz IS NULL OR i.uploaded_at >= $5)
                    AND ($6::timestamptz IS NULL OR i.uploaded_at < $6)
                    AND ($7::timestamptz IS NULL
                         OR i.uploaded_at <= $7 AND (i.uploaded_at, i.img_id) < ($7, $8))
                    AND ($9::text[] IS NULL OR i.app_id = ANY ($9))
                ORDER BY i.uploaded_at DESC, i.img_id DESC LIMIT $3",
            $key,
            filter.app_id.as_ref().map(AppId::as_str),
            $limit,
            filter.blocked,
            filter.uploaded_since,
            filter.uploaded_until,
            after.map(|after| after.at),
            after.map(|after| after.key.as_str()),
            filter.apps.ids(),
        )
        // The best plan depends on the filters, so the query is planned each time.
        .persistent(false)
    }};
}

impl Store {
    /// At most `limit` images that match `filter`, newest first.
    pub async fn images(
        &self,
        filter: &ImageFilter,
        limit: u32,
    ) -> Result<ListPage<StoredImage, ImageCursor>> {
        // One more row shows whether there is another page.
        let wanted = i64::from(limit) + 1;
        let ids = match (&filter.key, &filter.app_id) {
            (Some(ImageKey::ImgId(img_id)), _) => {
                image_ids!("i.img_id = $1", filter, img_id.as_str(), wanted).fetch_all(&self.pool).await?
            }
            (Some(ImageKey::Sha256(sha256)), _) => {
                image_ids!(
                    "i.img_id = ANY (ARRAY(
                         SELECT kept.img_id FROM images kept WHERE kept.content_sha256 = $1
                         UNION SELECT sent.img_id FROM apps a
                         JOIN images sent ON sent.app_id = a.app_id AND sent.sha256 = $1))",
                    filter,
                    sha256.as_slice(),
                    wanted
                )
                .fetch_all(&self.pool)
                .await?
            }
            (None, Some(app_id)) => {
                image_ids!("i.app_id = $1", filter, app_id.as_str(), wanted).fetch_all(&self.pool).await?
            }
            (None, None) => {
                image_ids!("$1::text IS NULL", filter, None::<&str>, wanted).fetch_all(&self.pool).await?
            }
        };
        let cursor = |last: &StoredImage| TimeCursor { at: last.uploaded_at, key: last.img_id.clone() };
        Ok(ListPage::cut(self.images_by_id(&self.pool, &ids).await?, limit, cursor))
    }

    /// The details of an image. `None` when there is no such image.
    pub async fn image_detail(&self, img_id: &ImgId) -> Result<Option<ImageDetail>> {
        let Some(image) = self.image(img_id).await? else { return Ok(None) };
        let row = sqlx::query!(
            r#"SELECT i.sha256, coalesce(o.stored_in, 'database') AS "stored_in!", o.name AS "object_name?",
                      ARRAY(SELECT out_biz_order_no FROM orders
                            WHERE orders.app_id = i.app_id AND orders.product_cover_img_id = i.img_id
                            ORDER BY out_biz_order_no LIMIT $2) AS "out_biz_order_nos!"
               FROM images i
               LEFT JOIN picture_objects o ON o.content_sha256 = i.content_sha256 AND o.is_kept
               WHERE i.img_id = $1"#,
            img_id.as_str(),
            ORDERS_MAX
        );
        let Some(row) = row.fetch_optional(&self.pool).await? else { return Ok(None) };
        Ok(Some(ImageDetail {
            sha256: hex::encode(row.sha256),
            stored_in: row.stored_in,
            object_name: row.object_name,
            block: self.block_of(img_id).await?,
            out_biz_order_nos: row.out_biz_order_nos,
            copies: self.copies(&image).await?,
            near_copies: self.near_copies(&image).await?,
            image,
        }))
    }

    async fn copies(&self, image: &StoredImage) -> Result<Vec<StoredImage>> {
        let ids = sqlx::query_scalar!(
            "SELECT img_id FROM images WHERE content_sha256 = $1 AND img_id <> $2
             ORDER BY uploaded_at DESC, img_id DESC LIMIT $3",
            image.contents.as_bytes(),
            image.img_id.as_str(),
            OTHERS_MAX
        );
        self.images_by_id(&self.pool, &ids.fetch_all(&self.pool).await?).await
    }

    /// Images whose perceptual hash is as near as a block accepts. A block also compares crops, so
    /// it may find more.
    async fn near_copies(&self, image: &StoredImage) -> Result<Vec<StoredImage>> {
        let ids = sqlx::query_scalar!(
            "SELECT i.img_id FROM images this JOIN images i
                 ON bit_count((i.perceptual_hash # this.perceptual_hash)::bit(64)) <= $2
             WHERE this.img_id = $1 AND i.content_sha256 <> this.content_sha256
             ORDER BY i.uploaded_at DESC, i.img_id DESC LIMIT $3",
            image.img_id.as_str(),
            i64::from(NEAR_COPY_DISTANCE_MAX),
            OTHERS_MAX
        );
        self.images_by_id(&self.pool, &ids.fetch_all(&self.pool).await?).await
    }

    /// The images with these ids, newest first.
    pub(super) async fn images_by_id(
        &self,
        executor: impl PgExecutor<'_>,
        ids: &[String],
    ) -> Result<Vec<StoredImage>> {
        let rows = sqlx::query!(
            r#"SELECT app_id, img_id, format, side, byte_length, content_sha256 AS "contents: BlobHash",
                      blocked_by IS NOT NULL AS "is_blocked!", uploaded_at
               FROM images WHERE img_id = ANY ($1) ORDER BY uploaded_at DESC, img_id DESC"#,
            ids
        )
        .map(|row| -> Result<StoredImage> {
            let damaged = StoreError::damaged;
            Ok(StoredImage {
                app_id: AppId::parse(&row.app_id).map_err(|_| damaged("images.app_id"))?,
                img_id: ImgId::parse(&row.img_id).map_err(|_| damaged("images.img_id"))?,
                format: Format::parse(&row.format).ok_or_else(|| damaged("images.format"))?,
                side: u32::try_from(row.side).map_err(|_| damaged("images.side"))?,
                byte_length: u64::try_from(row.byte_length).map_err(|_| damaged("images.byte_length"))?,
                contents: row.contents,
                is_blocked: row.is_blocked,
                uploaded_at: row.uploaded_at,
            })
        });
        rows.fetch_all(executor).await?.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_looked_for_by_its_id_or_its_hash() {
        let (id, hash) = ("0a".repeat(24), "0A".repeat(32));
        assert_eq!(ImageKey::parse(&id), Ok(ImageKey::ImgId(ImgId::parse(&id).unwrap())));
        assert_eq!(ImageKey::parse(&hash), Ok(ImageKey::Sha256([10; 32])));
        for text in ["", "0a", &hash[1..], &format!("{hash}0a"), &"g".repeat(64)] {
            assert!(ImageKey::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_place_in_a_list_reads_back_and_nothing_else_does() {
        let text = format!("1700000000000001.{}", "0a".repeat(24));
        assert_eq!(ImageCursor::parse(&text).unwrap().to_string(), text);
        for text in
            ["", "1", "1.0a", &format!("x.{}", "0a".repeat(24)), &format!("{}.{}", i64::MAX, "0a".repeat(24))]
        {
            assert!(ImageCursor::parse(text).is_err(), "{text}");
        }
    }
}
