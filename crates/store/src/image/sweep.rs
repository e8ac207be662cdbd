//! The sweep: it removes unused blobs, unfinished objects, and objects without a row.

use std::collections::HashSet;

use domain::picture_store::Outside;
use futures_util::{StreamExt as _, TryStreamExt as _};

use super::object_location::PictureObject;
use crate::error::{Result, StoreError};
use crate::objects::{ListedObject, ObjectName};
use crate::store::Store;

/// How many blobs are removed in one transaction. Uploads wait for it.
const CONTENTS_AT_ONCE: usize = 50;
/// How many blobs are searched at once.
const CONTENTS_FOUND_MAX: i64 = 1000;
/// How many objects are removed at the same time.
const REMOVALS_MAX: usize = 8;

/// The result of a sweep. A dry run only counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Swept {
    /// Blobs that no image uses, or that are in the database and outside.
    pub contents: u64,
    /// Uploads and moves that were given up at least an hour ago.
    pub unfinished: u64,
    /// Objects in the folder and in S3 without a row.
    pub objects: u64,
    /// Incomplete files in the folder.
    pub files: u64,
    /// Foreign objects and files. They stay.
    pub foreign: u64,
}

impl Store {
    /// Sweeps the database and every object store of the settings. With `dry_run` it only counts.
    /// It does not touch running uploads and moves.
    pub async fn sweep_pictures(&self, dry_run: bool) -> Result<Swept> {
        let stores: Vec<_> = Outside::ALL.into_iter().filter(|outside| self.objects.has(*outside)).collect();
        for outside in &stores {
            self.check_own_store(*outside).await?;
        }
        let mut swept = Swept { contents: self.sweep_contents(dry_run).await?, ..Swept::default() };
        for outside in stores {
            swept.unfinished += self.sweep_unfinished(outside, dry_run).await?;
            self.sweep_store(outside, dry_run, &mut swept).await?;
        }
        Ok(swept)
    }

    /// Removes blobs that no image uses. A blob that is in the database and outside stays in the
    /// database.
    async fn sweep_contents(&self, dry_run: bool) -> Result<u64> {
        let (mut count, mut after) = (0, Vec::new());
        loop {
            let found = sqlx::query_scalar!(
                "SELECT c.content_sha256 AS \"content_sha256!\" FROM (
                     SELECT content_sha256 FROM picture_parts WHERE part = 0
                     UNION SELECT content_sha256 FROM picture_objects WHERE is_kept
                     UNION SELECT content_sha256 FROM thumbnails) AS c
                 WHERE c.content_sha256 > $1 AND (
                     NOT EXISTS (SELECT 1 FROM images i WHERE i.content_sha256 = c.content_sha256)
                     OR EXISTS (
                         SELECT 1 FROM picture_objects o JOIN picture_parts p USING (content_sha256)
                         WHERE o.content_sha256 = c.content_sha256 AND o.is_kept))
                 ORDER BY 1 LIMIT $2",
                after,
                CONTENTS_FOUND_MAX
            )
            .fetch_all(&self.pool)
            .await?;
            let Some(last) = found.last() else { return Ok(count) };
            after.clone_from(last);
            count += found.len() as u64;
            if !dry_run {
                for some in found.chunks(CONTENTS_AT_ONCE) {
                    self.forget_contents(some.to_vec()).await?;
                }
            }
        }
    }

    /// Removes those of some blobs that are still unused. An object loses only its row here. It is
    /// returned, and the sweep of its store also finds it.
    pub(super) async fn forget_contents(&self, some: Vec<Vec<u8>>) -> Result<Vec<PictureObject>> {
        self.transaction(some, |connection, some| {
            Box::pin(async move {
                // An upload that has found a blob writes its image before this lock, or looks up
                // the blob after it.
                sqlx::query!("LOCK TABLE picture_blocks IN EXCLUSIVE MODE").execute(&mut *connection).await?;
                let objects = sqlx::query!(
                    "DELETE FROM picture_objects o WHERE o.is_kept AND o.content_sha256 = ANY($1) AND (
                         NOT EXISTS (SELECT 1 FROM images i WHERE i.content_sha256 = o.content_sha256)
                         OR EXISTS (SELECT 1 FROM picture_parts p WHERE p.content_sha256 = o.content_sha256))
                     RETURNING name, stored_in, byte_length",
                    some
                )
                .fetch_all(&mut *connection)
                .await?;
                sqlx::query!(
                    "DELETE FROM picture_parts p WHERE p.content_sha256 = ANY($1)
                     AND NOT EXISTS (SELECT 1 FROM images i WHERE i.content_sha256 = p.content_sha256)",
                    some
                )
                .execute(&mut *connection)
                .await?;
                sqlx::query!(
                    "DELETE FROM thumbnails t WHERE t.content_sha256 = ANY($1)
                     AND NOT EXISTS (SELECT 1 FROM images i WHERE i.content_sha256 = t.content_sha256)",
                    some
                )
                .execute(connection)
                .await?;
                let objects = objects.into_iter().map(|object| {
                    PictureObject::read(Some(object.name), Some(object.stored_in), object.byte_length)
                });
                objects.filter_map(Result::transpose).collect()
            })
        })
        .await
    }

    /// Removes the rows of objects that are unfinished after an hour. An upload whose row is gone
    /// starts again.
    async fn sweep_unfinished(&self, outside: Outside, dry_run: bool) -> Result<u64> {
        let store = outside.as_str();
        let count = if dry_run {
            sqlx::query_scalar!(
                "SELECT count(*) AS \"count!\" FROM picture_objects
                 WHERE stored_in = $1 AND NOT is_kept AND created_at < now() - interval '1 hour'",
                store
            )
            .fetch_one(&self.pool)
            .await
            .map(|count| u64::try_from(count).unwrap_or_default())?
        } else {
            sqlx::query!(
                "DELETE FROM picture_objects
                 WHERE stored_in = $1 AND NOT is_kept AND created_at < now() - interval '1 hour'",
                store
            )
            .execute(&self.pool)
            .await?
            .rows_affected()
        };
        Ok(count)
    }

    /// Removes objects and files without a row.
    async fn sweep_store(&self, outside: Outside, dry_run: bool, swept: &mut Swept) -> Result<()> {
        let away = |error| StoreError::of_object_store(outside, &error);
        let mut lots = self.objects.list(outside);
        while let Some(lot) = lots.try_next().await.map_err(away)? {
            // This must be after the listing: an object has its row before it is written.
            let known = self.known_objects(outside, &lot).await?;
            let (mut objects, mut files) = (Vec::new(), Vec::new());
            for found in lot {
                match found {
                    ListedObject::Foreign => swept.foreign += 1,
                    ListedObject::Object(name) | ListedObject::Unfinished(name, _)
                        if known.contains(name.as_str()) => {}
                    ListedObject::Object(name) => objects.push(name),
                    ListedObject::Unfinished(_, file) => files.push(file),
                }
            }
            swept.objects += objects.len() as u64;
            swept.files += files.len() as u64;
            if !dry_run {
                self.remove_unknown(outside, objects).await?;
                for file in files {
                    self.objects.remove_unfinished(file).await.map_err(away)?;
                }
            }
        }
        Ok(())
    }

    async fn remove_unknown(&self, outside: Outside, names: Vec<ObjectName>) -> Result<()> {
        futures_util::stream::iter(names)
            .map(|name| async move { self.remove_object(&PictureObject { outside, name, byte_length: 0 }).await })
            .buffer_unordered(REMOVALS_MAX)
            .try_collect()
            .await
    }

    /// The names that have a row, without the rows that a sweep removes.
    async fn known_objects(&self, outside: Outside, lot: &[ListedObject]) -> Result<HashSet<String>> {
        let names: Vec<String> = lot
            .iter()
            .filter_map(|found| match found {
                ListedObject::Object(name) | ListedObject::Unfinished(name, _) => {
                    Some(name.as_str().to_owned())
                }
                ListedObject::Foreign => None,
            })
            .collect();
        let known = sqlx::query_scalar!(
            "SELECT name FROM picture_objects WHERE name = ANY($1) AND stored_in = $2
             AND (is_kept OR created_at >= now() - interval '1 hour')",
            &names,
            outside.as_str()
        );
        Ok(known.fetch_all(&self.pool).await?.into_iter().collect())
    }
}
