//! Objects outside the database, and their rows.
//!
//! The row of an object is committed before the first byte is written. Only the transaction that
//! writes the image puts the object into use, and only while the row exists. A name is used once.
//! So an object without a row may be removed at any time, and a late removal never hits another
//! object.

use bytes::Bytes;
use domain::picture_store::Outside;
use sqlx::{PgConnection, PgExecutor};

use super::blob_hash::BlobHash;
use crate::error::{Result, StoreError};
use crate::objects::ObjectName;
use crate::store::Store;

/// An object outside the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PictureObject {
    pub(super) outside: Outside,
    pub(super) name: ObjectName,
    pub(super) byte_length: u64,
}

impl PictureObject {
    /// An object that is not written yet.
    pub(super) fn new(outside: Outside, byte_length: usize) -> Self {
        Self { outside, name: ObjectName::random(), byte_length: byte_length as u64 }
    }

    /// Parses a row, if there is one.
    pub(super) fn read(
        name: Option<String>,
        stored_in: Option<String>,
        byte_length: i32,
    ) -> Result<Option<Self>> {
        let (Some(name), Some(stored_in)) = (name, stored_in) else { return Ok(None) };
        let damaged = StoreError::damaged;
        Ok(Some(Self {
            outside: Outside::parse(&stored_in).map_err(|_| damaged("picture_objects.stored_in"))?,
            name: ObjectName::parse(&name).ok_or_else(|| damaged("picture_objects.name"))?,
            byte_length: u64::try_from(byte_length).map_err(|_| damaged("picture_objects.byte_length"))?,
        }))
    }
}

/// Inserts the row of an object before the object is written.
pub(super) async fn announce(
    executor: impl PgExecutor<'_>,
    object: &PictureObject,
    contents: &BlobHash,
) -> Result<()> {
    sqlx::query!(
        "INSERT INTO picture_objects (name, stored_in, content_sha256, byte_length) VALUES ($1, $2, $3, $4)",
        object.name.as_str(),
        object.outside.as_str(),
        contents.as_bytes(),
        i32::try_from(object.byte_length).unwrap_or(i32::MAX)
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Puts an object into use that was written and read back. `false` when it was given up meanwhile.
pub(super) async fn keep(connection: &mut PgConnection, object: &PictureObject) -> Result<bool> {
    let kept = sqlx::query!(
        "UPDATE picture_objects SET is_kept = true WHERE name = $1 AND NOT is_kept",
        object.name.as_str()
    )
    .execute(connection)
    .await;
    match kept {
        Ok(kept) => Ok(kept.rows_affected() > 0),
        // Another object with the same blob was first, and counts.
        Err(error) if is_kept_already(&error) => Err(StoreError::Again),
        Err(error) => Err(error.into()),
    }
}

fn is_kept_already(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(sqlx::error::DatabaseError::constraint)
        == Some("picture_objects_kept_once")
}

impl Store {
    /// Writes a blob as an object, durably, and reads it back. It gives the object up when that
    /// fails.
    pub(super) async fn write_object(
        &self,
        object: &PictureObject,
        contents: &Bytes,
        sha256: &[u8; 32],
    ) -> Result<()> {
        let written = self.try_to_write(object, contents, sha256).await;
        if written.is_err() {
            self.discard_object(object).await;
        }
        written
    }

    async fn try_to_write(&self, object: &PictureObject, contents: &Bytes, sha256: &[u8; 32]) -> Result<()> {
        let PictureObject { outside, name, byte_length } = object;
        let away = |error| StoreError::of_object_store(*outside, &error);
        self.check_own_store(*outside).await?;
        self.objects.write(*outside, name, contents.clone()).await.map_err(away)?;
        self.objects.verify(*outside, name, *byte_length, sha256).await.map_err(away)
    }

    /// Gives up an unused object. When that fails, a sweep removes it later.
    pub(super) async fn discard_object(&self, object: &PictureObject) {
        if let Err(error) = self.try_to_discard(object).await {
            tracing::warn!(%error, "an unused object is left to `minitill image sweep`");
        }
    }

    async fn try_to_discard(&self, object: &PictureObject) -> Result<()> {
        // A transaction without an answer may have put it into use. Only the row shows that.
        let given_up =
            sqlx::query!("DELETE FROM picture_objects WHERE name = $1 AND NOT is_kept", object.name.as_str())
                .execute(&self.pool)
                .await?;
        if given_up.rows_affected() > 0 {
            self.remove_object(object).await?;
        }
        Ok(())
    }

    /// Removes an object that has no row.
    pub(super) async fn remove_object(&self, object: &PictureObject) -> Result<()> {
        let away = |error| StoreError::of_object_store(object.outside, &error);
        self.objects.remove(object.outside, &object.name).await.map_err(away)
    }
}
