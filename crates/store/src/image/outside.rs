//! Objects outside the database, and the rows that tell of them.
//!
//! The row of an object is committed before its first byte is written. Only the transaction that
//! writes the image makes the object the place of its contents, and only if the row is still there.
//! So whoever finds an object without a row may remove it, at any time and without asking the time:
//! nobody will ever refer to it, because names are never used twice. And a removal that a store
//! carries out late cannot hit what was written later.

use bytes::Bytes;
use domain::picture_store::Outside;
use sqlx::PgConnection;

use super::contents::ContentHash;
use super::{Store, StoreError};
use crate::objects::ObjectName;

/// An object outside the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PictureObject {
    pub(super) outside: Outside,
    pub(super) name: ObjectName,
    pub(super) byte_length: u64,
}

impl PictureObject {
    /// One that is not written yet.
    pub(super) fn new(outside: Outside, byte_length: usize) -> Self {
        Self { outside, name: ObjectName::random(), byte_length: byte_length as u64 }
    }

    /// As its row tells it.
    pub(super) fn read(name: &str, stored_in: &str, byte_length: i32) -> Result<Self, StoreError> {
        let damaged = StoreError::damaged;
        Ok(Self {
            outside: Outside::parse(stored_in).ok_or_else(|| damaged("picture_objects.stored_in"))?,
            name: ObjectName::parse(name).ok_or_else(|| damaged("picture_objects.name"))?,
            byte_length: u64::try_from(byte_length).map_err(|_| damaged("picture_objects.byte_length"))?,
        })
    }
}

/// Writes the row of an object that is about to be written.
pub(super) async fn announce(
    connection: &mut PgConnection,
    object: &PictureObject,
    contents: &ContentHash,
) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT INTO picture_objects (name, stored_in, content_sha256, byte_length) VALUES ($1, $2, $3, $4)",
        object.name.as_str(),
        object.outside.as_str(),
        contents.as_bytes(),
        i32::try_from(object.byte_length).unwrap_or(i32::MAX)
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Makes an object that was written and read back the place of its contents; `false` when it was
/// given up meanwhile.
pub(super) async fn keep(connection: &mut PgConnection, object: &PictureObject) -> Result<bool, StoreError> {
    let kept = sqlx::query!(
        "UPDATE picture_objects SET is_kept = true WHERE name = $1 AND NOT is_kept",
        object.name.as_str()
    )
    .execute(connection)
    .await;
    match kept {
        Ok(kept) => Ok(kept.rows_affected() > 0),
        // Somebody else was quicker with the same contents: theirs is the place.
        Err(error) if is_kept_already(&error) => Err(StoreError::Again),
        Err(error) => Err(error.into()),
    }
}

fn is_kept_already(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(sqlx::error::DatabaseError::constraint)
        == Some("picture_objects_kept_once")
}

impl Store {
    /// Writes contents as an object, durably, and reads them back. When that fails the object is
    /// given up.
    pub(super) async fn write_object(
        &self,
        object: &PictureObject,
        contents: &Bytes,
        sha256: &[u8; 32],
    ) -> Result<(), StoreError> {
        let written = self.try_to_write(object, contents, sha256).await;
        if written.is_err() {
            self.discard_object(object).await;
        }
        written
    }

    async fn try_to_write(
        &self,
        object: &PictureObject,
        contents: &Bytes,
        sha256: &[u8; 32],
    ) -> Result<(), StoreError> {
        let PictureObject { outside, name, byte_length } = object;
        let away = |error| StoreError::of_object_store(*outside, &error);
        self.check_own_store(*outside).await?;
        self.objects.write(*outside, name, contents.clone()).await.map_err(away)?;
        self.objects.verify(*outside, name, *byte_length, sha256).await.map_err(away)
    }

    /// Gives up an object that holds nothing. Where that does not work now, a sweep does it later.
    pub(super) async fn discard_object(&self, object: &PictureObject) {
        if let Err(error) = self.try_to_discard(object).await {
            tracing::warn!(%error, "an unused object is left to `minitill image sweep`");
        }
    }

    async fn try_to_discard(&self, object: &PictureObject) -> Result<(), StoreError> {
        // Whether a transaction whose end was not heard of has made it a place, the row alone tells.
        let given_up =
            sqlx::query!("DELETE FROM picture_objects WHERE name = $1 AND NOT is_kept", object.name.as_str())
                .execute(&self.pool)
                .await?;
        if given_up.rows_affected() > 0 {
            self.remove_object(object).await?;
        }
        Ok(())
    }

    /// Removes an object whose row is gone.
    pub(super) async fn remove_object(&self, object: &PictureObject) -> Result<(), StoreError> {
        let away = |error| StoreError::of_object_store(object.outside, &error);
        self.objects.remove(object.outside, &object.name).await.map_err(away)
    }
}
