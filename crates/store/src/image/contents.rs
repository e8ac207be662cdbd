//! Blobs by their hash, and thumbnails.

use std::ops::Range;

use bytes::Bytes;
use domain::picture_store::Outside;
use pictures::{Format, Thumbnail};
use sqlx::PgConnection;

use super::blob_hash::{BlobHash, lost};
use super::object_location::PictureObject;
use crate::error::{Result, StoreError};
use crate::objects::ObjectStoreError;
use crate::store::Store;

/// Size of a part. Rows stay small, and a reader holds one part at a time.
pub const PART_BYTES: usize = 262_144;
/// How often a blob that is being moved is looked up.
const LOOKS_MAX: u32 = 3;

/// Position of a piece from 1, and its length, as SQL counts.
fn in_sql(position: u64, length: u64) -> Result<(i32, i32)> {
    let fits = |number: u64| i32::try_from(number).map_err(|_| StoreError::damaged("a picture's length"));
    Ok((fits(position + 1)?, fits(length)?))
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
    /// The piece of a blob at the start of `range`, cut to the range. It has at least one byte, and
    /// goes at most up to the end of a part.
    pub async fn contents_piece(&self, contents: &BlobHash, range: Range<u64>) -> Result<Bytes> {
        let mut gone = None;
        let in_part = range.start % PART_BYTES as u64;
        let (from, length) = in_sql(in_part, (range.end - range.start).min(PART_BYTES as u64 - in_part))?;
        // A blob that is being moved is found at its new location.
        for _ in 0..LOOKS_MAX {
            let part = i32::try_from(range.start / PART_BYTES as u64).unwrap_or(i32::MAX);
            let row = sqlx::query!(
                r#"SELECT substring(p.bytes FROM $3 FOR $4) AS "bytes?", o.name AS "name?",
                          o.stored_in AS "stored_in?", o.byte_length AS "byte_length?"
                   FROM (SELECT $1::bytea AS content_sha256) AS c
                   LEFT JOIN picture_parts p ON p.content_sha256 = c.content_sha256 AND p.part = $2
                   LEFT JOIN picture_objects o ON o.content_sha256 = c.content_sha256 AND o.is_kept"#,
                contents.as_bytes(),
                part,
                from,
                length
            );
            let found = async { Ok(row.fetch_one(&mut *self.guest_pool.session().await?).await?) };
            let row = self.look_up(found).await?;
            if let Some(bytes) = row.bytes {
                let damaged = || StoreError::damaged("picture_parts");
                return if bytes.is_empty() { Err(damaged()) } else { Ok(bytes.into()) };
            }
            let object = PictureObject::read(row.name, row.stored_in, row.byte_length.unwrap_or_default())?;
            let Some(object) = object else { return Err(lost(contents, "they are nowhere")) };
            let end = range.end.min(range.start + PART_BYTES as u64);
            // In a box: a caller that waits for the database has no room for a request to a store.
            let piece =
                self.objects.piece(object.outside, &object.name, range.start..end, object.byte_length);
            match Box::pin(piece).await {
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
        let found = async { Ok(row.fetch_optional(&mut *self.guest_pool.session().await?).await?) };
        let Some(row) = self.look_up(found).await? else { return Ok(None) };
        let format = Format::parse(&row.format).ok_or_else(|| StoreError::damaged("thumbnails.format"))?;
        Ok(Some(Thumbnail { format, bytes: row.bytes }))
    }

    /// The bytes of a thumbnail that was made before, from `position` on, at most `bytes_max`.
    pub async fn thumbnail_piece(
        &self,
        contents: &BlobHash,
        width: u32,
        position: u64,
        bytes_max: u64,
    ) -> Result<Bytes> {
        let (from, length) = in_sql(position, bytes_max)?;
        let piece = sqlx::query_scalar!(
            r#"SELECT substring(bytes FROM $3 FOR $4) AS "piece!" FROM thumbnails
               WHERE content_sha256 = $1 AND width = $2"#,
            contents.as_bytes(),
            i32::try_from(width).unwrap_or(i32::MAX),
            from,
            length
        );
        let found = async { Ok(piece.fetch_optional(&mut *self.guest_pool.session().await?).await?) };
        let piece = self.look_up(found).await?.filter(|piece| !piece.is_empty());
        piece.map(Bytes::from).ok_or_else(|| StoreError::damaged("thumbnails"))
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
        .execute(&mut *self.guest_pool.session().await?)
        .await?;
        Ok(())
    }
}
