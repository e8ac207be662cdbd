//! Blobs by their hash, and thumbnails.

use std::ops::Range;

use bytes::Bytes;
use domain::picture_store::Outside;
use pictures::{Format, Thumbnail};
use sqlx::PgConnection;

use super::blob_hash::{BlobHash, lost};
use super::outside::PictureObject;
use crate::objects::ObjectStoreError;
use crate::{Result, Store, StoreError};

/// Size of a part. Rows stay small, and a reader holds one part at a time.
const PART_BYTES: usize = 262_144;
/// How often a blob that is being moved is looked up.
const LOOKS_MAX: u32 = 3;

/// Cuts a part to the range that starts in it.
fn cut(part: &Bytes, range: Range<u64>) -> Result<Bytes> {
    let damaged = || StoreError::damaged("picture_parts");
    let skipped = range.start - range.start % PART_BYTES as u64;
    let from = usize::try_from(range.start - skipped).map_err(|_| damaged())?;
    let to = usize::try_from(range.end - skipped).map_err(|_| damaged())?.min(part.len());
    if from < to { Ok(part.slice(from..to)) } else { Err(damaged()) }
}

/// The error of the object store that holds a blob.
fn told(outside: Outside, contents: &BlobHash, fault: ObjectStoreError) -> StoreError {
    match fault {
        ObjectStoreError::Unavailable(cause) => {
            StoreError::PicturesUnavailable(format!("{}: {cause}", outside.as_str()))
        }
        ObjectStoreError::Missing | ObjectStoreError::Wrong(_) => {
            lost(contents, &format!("{}: {fault}", outside.as_str()))
        }
    }
}

/// True when a blob is stored, in the database or outside.
pub(super) async fn is_there(connection: &mut PgConnection, contents: &BlobHash) -> Result<bool> {
    Ok(sqlx::query_scalar!(
        "SELECT EXISTS (SELECT 1 FROM picture_parts WHERE content_sha256 = $1)
             OR EXISTS (SELECT 1 FROM picture_objects WHERE content_sha256 = $1 AND is_kept) AS \"is_there!\"",
        contents.as_bytes()
    )
    .fetch_one(connection)
    .await?)
}

/// Writes a blob into the database.
pub(super) async fn write(connection: &mut PgConnection, contents: &BlobHash, bytes: &[u8]) -> Result<()> {
    for (part, bytes) in (0_i32..).zip(bytes.chunks(PART_BYTES)) {
        // Another app may commit the same blob meanwhile.
        sqlx::query!(
            "INSERT INTO picture_parts (content_sha256, part, bytes) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            contents.as_bytes(),
            part,
            bytes
        )
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

impl Store {
    /// The piece of a blob at the start of `range`, cut to the range: at least one byte, at most a
    /// part.
    pub async fn contents_piece(&self, contents: &BlobHash, range: Range<u64>) -> Result<Bytes> {
        let mut gone = None;
        // A blob that is being moved is found at its new location.
        for _ in 0..LOOKS_MAX {
            let part = i32::try_from(range.start / PART_BYTES as u64).unwrap_or(i32::MAX);
            let row = sqlx::query!(
                r#"SELECT p.bytes AS "bytes?", o.name AS "name?", o.stored_in AS "stored_in?",
                          o.byte_length AS "byte_length?"
                   FROM (SELECT $1::bytea AS content_sha256) AS c
                   LEFT JOIN picture_parts p ON p.content_sha256 = c.content_sha256 AND p.part = $2
                   LEFT JOIN picture_objects o ON o.content_sha256 = c.content_sha256 AND o.is_kept"#,
                contents.as_bytes(),
                part
            );
            let row = row.fetch_one(&self.pool).await?;
            if let Some(bytes) = row.bytes {
                return cut(&bytes.into(), range);
            }
            let object = PictureObject::read(row.name, row.stored_in, row.byte_length.unwrap_or_default())?;
            let Some(object) = object else { return Err(lost(contents, "they are nowhere")) };
            let end = range.end.min(range.start + PART_BYTES as u64);
            match self.objects.piece(object.outside, &object.name, range.start..end, object.byte_length).await
            {
                Err(ObjectStoreError::Missing) => gone = Some(object.outside),
                outcome => return outcome.map_err(|fault| told(object.outside, contents, fault)),
            }
        }
        let store = gone.map_or("their store", Outside::as_str);
        Err(lost(contents, &format!("they are missing in {store}")))
    }

    /// All bytes of a blob.
    pub async fn contents(&self, contents: &BlobHash, byte_length: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(usize::try_from(byte_length).unwrap_or_default());
        let mut position = 0;
        while position < byte_length {
            let piece = self.contents_piece(contents, position..byte_length).await?;
            position += piece.len() as u64;
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    /// The thumbnail of this width, if it was made before.
    pub async fn thumbnail(&self, contents: &BlobHash, width: u32) -> Result<Option<Thumbnail>> {
        let row = sqlx::query!(
            "SELECT format, bytes FROM thumbnails WHERE content_sha256 = $1 AND width = $2",
            contents.as_bytes(),
            i32::try_from(width).unwrap_or(i32::MAX)
        );
        let Some(row) = row.fetch_optional(&self.pool).await? else { return Ok(None) };
        let format = Format::parse(&row.format).ok_or_else(|| StoreError::damaged("thumbnails.format"))?;
        Ok(Some(Thumbnail { format, bytes: row.bytes }))
    }

    /// Stores a thumbnail.
    pub async fn keep_thumbnail(&self, contents: &BlobHash, width: u32, thumbnail: &Thumbnail) -> Result<()> {
        sqlx::query!(
            "INSERT INTO thumbnails (content_sha256, width, format, bytes) VALUES ($1, $2, $3, $4)
             ON CONFLICT DO NOTHING",
            contents.as_bytes(),
            i32::try_from(width).unwrap_or(i32::MAX),
            thumbnail.format.as_str(),
            thumbnail.bytes
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}
