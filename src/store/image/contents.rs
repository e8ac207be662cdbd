//! The contents of pictures, by their hash: whole ones in parts, and small copies of them.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;

use super::{Store, StoreError};
use crate::domain::image::{Format, Kept, Thumbnail};

/// Bytes of a part. Rows stay small, and a reader holds one part at a time.
const PART_BYTES: usize = 262_144;

/// SHA-256 of a picture's contents, the name they are kept under. It never leaves the house: an
/// image's id tells nothing about its bytes (contract 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The hash of these contents. It takes a while for large ones.
    #[must_use]
    pub fn of(contents: &[u8]) -> Self {
        Self(Sha256::digest(contents).into())
    }

    /// Of what is kept of a picture: it was hashed with it, off the async threads.
    pub(super) const fn of_kept(kept: &Kept) -> Self {
        Self(kept.content_sha256)
    }

    /// As it stands in a column.
    pub(super) fn from_column(bytes: &[u8]) -> Result<Self, StoreError> {
        bytes.try_into().map(Self).map_err(|_| StoreError::damaged("content_sha256"))
    }

    pub(super) const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// Writes contents that are not there yet.
pub(super) async fn write(
    connection: &mut PgConnection,
    contents: &ContentHash,
    bytes: &[u8],
) -> Result<(), StoreError> {
    let is_there = sqlx::query_scalar!(
        "SELECT EXISTS (SELECT 1 FROM picture_parts WHERE content_sha256 = $1) AS \"is_there!\"",
        contents.as_bytes()
    )
    .fetch_one(&mut *connection)
    .await?;
    if is_there {
        return Ok(());
    }
    for (part, bytes) in (0_i32..).zip(bytes.chunks(PART_BYTES)) {
        // Another app's upload of the same contents may commit meanwhile: then they are there.
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
    /// The piece of some contents that `range` begins in, cut to the range: at least one byte, at
    /// most a part. Whoever wants more asks again.
    ///
    /// # Errors
    /// The database is away, or the contents are not there.
    pub async fn contents_piece(
        &self,
        contents: &ContentHash,
        range: Range<u64>,
    ) -> Result<Bytes, StoreError> {
        let lost = || StoreError::damaged("picture_parts");
        let start = usize::try_from(range.start).map_err(|_| lost())?;
        let part = start / PART_BYTES;
        let row = sqlx::query_scalar!(
            "SELECT bytes FROM picture_parts WHERE content_sha256 = $1 AND part = $2",
            contents.as_bytes(),
            i32::try_from(part).map_err(|_| lost())?
        )
        .fetch_optional(&self.pool)
        .await?;
        let bytes = Bytes::from(row.ok_or_else(lost)?);
        let from = start - part * PART_BYTES;
        let to = usize::try_from(range.end).map_err(|_| lost())?.saturating_sub(part * PART_BYTES);
        let to = to.min(bytes.len());
        if from < to { Ok(bytes.slice(from..to)) } else { Err(lost()) }
    }

    /// All of some contents.
    ///
    /// # Errors
    /// The database is away, or the contents are not there.
    pub async fn contents(&self, contents: &ContentHash, byte_length: u64) -> Result<Vec<u8>, StoreError> {
        let mut bytes = Vec::with_capacity(usize::try_from(byte_length).unwrap_or_default());
        let mut position = 0;
        while position < byte_length {
            let piece = self.contents_piece(contents, position..byte_length).await?;
            position += piece.len() as u64;
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    /// The small copy of this width, if it was made before.
    ///
    /// # Errors
    /// The database is away.
    pub async fn thumbnail(
        &self,
        contents: &ContentHash,
        width: u32,
    ) -> Result<Option<Thumbnail>, StoreError> {
        let row = sqlx::query!(
            "SELECT format, bytes FROM thumbnails WHERE content_sha256 = $1 AND width = $2",
            contents.as_bytes(),
            i32::try_from(width).unwrap_or(i32::MAX)
        )
        .fetch_optional(&self.pool)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let format = Format::parse(&row.format).ok_or_else(|| StoreError::damaged("thumbnails.format"))?;
        Ok(Some(Thumbnail { format, bytes: row.bytes }))
    }

    /// Keeps a small copy.
    ///
    /// # Errors
    /// The database is away.
    pub async fn keep_thumbnail(
        &self,
        contents: &ContentHash,
        width: u32,
        thumbnail: &Thumbnail,
    ) -> Result<(), StoreError> {
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
