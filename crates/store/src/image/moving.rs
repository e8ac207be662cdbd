//! Verifies all blobs, and moves them from one store to another.

use bytes::Bytes;
use domain::picture_store::PictureStore;

use super::blob_hash::BlobHash;
use super::contents;
use super::object_location::{self, PictureObject};
use crate::error::{Result, StoreError};
use crate::store::Store;

/// A blob that images use, and its location.
#[derive(Debug, Clone)]
pub struct BlobLocation {
    /// SHA-256 of the blob.
    pub contents: BlobHash,
    /// Its length in bytes.
    pub byte_length: u64,
    /// Number of images that use it, of all apps.
    pub images: u64,
    object: Option<PictureObject>,
}

impl BlobLocation {
    /// The store that holds it.
    #[must_use]
    pub fn stored_in(&self) -> PictureStore {
        self.object.as_ref().map_or(PictureStore::Database, |object| object.outside.into())
    }
}

/// The result of a move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MoveOutcome {
    /// The blob is in the other store.
    Moved,
    /// Another process has moved it meanwhile.
    MovedByAnother,
    /// The blob is damaged, and stays at its location.
    Damaged(String),
}

impl Store {
    /// The number of blobs that images use. With `not_in`, only those outside this store.
    pub async fn count_contents(&self, not_in: Option<PictureStore>) -> Result<u64> {
        let count = sqlx::query_scalar!(
            "SELECT count(DISTINCT i.content_sha256) AS \"count!\" FROM images i
             LEFT JOIN picture_objects o ON o.content_sha256 = i.content_sha256 AND o.is_kept
             WHERE $1::text IS NULL OR coalesce(o.stored_in, 'database') <> $1",
            not_in.map(PictureStore::as_str)
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// The next blobs in the order of their hashes. With `not_in`, only those outside this store.
    pub async fn contents_after(
        &self,
        after: Option<BlobHash>,
        not_in: Option<PictureStore>,
        limit: u32,
    ) -> Result<Vec<BlobLocation>> {
        let rows = sqlx::query!(
            "SELECT i.content_sha256 AS \"contents: BlobHash\", max(i.byte_length) AS \"byte_length!\", count(*) AS \"images!\",
                    o.name AS \"name?\", o.stored_in AS \"stored_in?\"
             FROM images i
             LEFT JOIN picture_objects o ON o.content_sha256 = i.content_sha256 AND o.is_kept
             WHERE i.content_sha256 > $1 AND ($2::text IS NULL OR coalesce(o.stored_in, 'database') <> $2)
             GROUP BY i.content_sha256, o.name, o.stored_in ORDER BY i.content_sha256 LIMIT $3",
            after.as_ref().map_or(&[][..], |after| after.as_bytes()),
            not_in.map(PictureStore::as_str),
            i64::from(limit)
        );
        let places = rows.fetch_all(&self.pool).await?.into_iter().map(|row| {
            Ok(BlobLocation {
                contents: row.contents,
                byte_length: u64::try_from(row.byte_length)
                    .map_err(|_| StoreError::damaged("images.byte_length"))?,
                images: u64::try_from(row.images).unwrap_or_default(),
                object: PictureObject::read(row.name, row.stored_in, row.byte_length)?,
            })
        });
        places.collect()
    }

    /// Reads a blob and compares it with its hash. The inner error describes the damage.
    pub async fn verify_contents(&self, place: &BlobLocation) -> Result<Result<Bytes, String>> {
        let bytes = match self.contents(&place.contents, place.byte_length).await {
            Ok(bytes) => Bytes::from(bytes),
            Err(StoreError::Internal(reason)) => return Ok(Err(reason)),
            Err(error) => return Err(error),
        };
        let (hashed, found) = tokio::task::spawn_blocking(move || (BlobHash::of(&bytes), bytes))
            .await
            .map_err(|fault| StoreError::Internal(format!("hashing contents: {fault}")))?;
        if hashed == place.contents {
            Ok(Ok(found))
        } else {
            Ok(Err(format!("the contents {} of a picture: they are other bytes", place.contents)))
        }
    }

    /// Moves a blob. It verifies the blob, writes it to the other store, reads it back, changes the
    /// location in the database, and removes the old copy. After an interruption the blob is
    /// complete in one of the two stores, and the move may be repeated.
    pub async fn move_contents(&self, place: &BlobLocation, to: PictureStore) -> Result<MoveOutcome> {
        let bytes = match self.verify_contents(place).await? {
            Ok(bytes) => bytes,
            Err(reason) => return Ok(MoveOutcome::Damaged(reason)),
        };
        if let Some(object) = &place.object {
            self.check_own_store(object.outside).await?;
        }
        let target = match to.outside() {
            None => None,
            Some(outside) => {
                let object = PictureObject::new(outside, bytes.len());
                object_location::announce(&self.pool, &object, &place.contents).await?;
                self.write_object(&object, &bytes, place.contents.as_array()).await?;
                Some(object)
            }
        };
        let moved = self.switch(place, target.clone(), bytes).await;
        if !matches!(moved, Ok(true)) {
            if let Some(unused) = &target {
                self.discard_object(unused).await;
            }
        } else if let Some(old) = &place.object
            && let Err(error) = self.remove_object(old).await
        {
            tracing::warn!(%error, "an old copy is left to `minitill image sweep`");
        }
        Ok(if moved? { MoveOutcome::Moved } else { MoveOutcome::MovedByAnother })
    }

    /// Changes the location in the database, unless it has changed meanwhile.
    async fn switch(
        &self,
        place: &BlobLocation,
        target: Option<PictureObject>,
        bytes: Bytes,
    ) -> Result<bool> {
        self.transaction((place.clone(), target, bytes), |connection, (place, target, bytes)| {
            Box::pin(async move {
                let (old, contents) = (&place.object, place.contents.as_bytes());
                let leaving = match old.as_ref().map(|old| old.name.as_str()) {
                    Some(name) => {
                        sqlx::query!("DELETE FROM picture_objects WHERE name = $1 AND is_kept", name)
                    }
                    None => sqlx::query!("DELETE FROM picture_parts WHERE content_sha256 = $1", contents),
                };
                if leaving.execute(&mut *connection).await?.rows_affected() == 0 {
                    return Ok(false);
                }
                match target {
                    // A sweep has removed the object. The error rolls the deletion above back.
                    Some(object) if !object_location::keep(connection, object).await? => {
                        Err(StoreError::PicturesUnavailable("what was written did not stay".to_owned()))
                    }
                    Some(_) => Ok(true),
                    None => {
                        contents::write(connection, &place.contents, bytes).await?;
                        Ok(true)
                    }
                }
            })
        })
        .await
    }
}
