//! Detects whether a folder or an S3 store belongs to this database.
//!
//! An unmounted disk, a mistyped prefix, and the store of another Minitill look like an empty or a
//! foreign store. A write there would lose pictures later, and a sweep would remove another's
//! pictures.

use domain::picture_store::Outside;

use crate::error::{Result, StoreError};
use crate::objects::ObjectName;
use crate::store::Store;

impl Store {
    /// True when the settings name this object store.
    #[must_use]
    pub fn has_picture_store(&self, outside: Outside) -> bool {
        self.objects.has(outside)
    }

    /// Verifies that an object store answers, can be written, and belongs to this database. It
    /// takes a store without an owner. The inner error is the reason why the store must not be
    /// used.
    pub async fn open_picture_store(&self, outside: Outside) -> Result<Result<(), String>> {
        let away = |error| StoreError::of_object_store(outside, &error);
        // The object store first: an instance records the id in the database before it writes the
        // marker.
        let marked = self.objects.owner(outside).await.map_err(away)?;
        let known =
            sqlx::query_scalar!("SELECT id FROM picture_stores WHERE stored_in = $1", outside.as_str())
                .fetch_optional(&self.pool)
                .await?;
        let id = match (known, marked) {
            (Some(known), Some(marked)) if known == marked => known,
            (None | Some(_), Some(_)) => {
                return Ok(Err(misfit(outside, "belongs to another Minitill's database")));
            }
            (Some(known), None) if !self.has_objects(outside).await? => known,
            // Another upload or instance may have written the marker since. It does so before it
            // puts an object into use.
            (Some(known), None)
                if self.objects.owner(outside).await.map_err(away)?.as_ref() == Some(&known) =>
            {
                known
            }
            (Some(_), None) => return Ok(Err(misfit(outside, "does not hold this database's pictures"))),
            (None, None) => self.new_store_id(outside).await?,
        };
        self.objects.set_owner(outside, &id).await.map_err(away)?;
        if self.objects.owner(outside).await.map_err(away)?.as_ref() != Some(&id) {
            return Ok(Err(misfit(outside, "did not keep what was written into it")));
        }
        self.marks.of(outside).get_or_init(|| id);
        Ok(Ok(()))
    }

    /// Verifies before a write or a removal that the store belongs to this database. A folder is
    /// checked each time, because its disk can disappear.
    pub(super) async fn check_own_store(&self, outside: Outside) -> Result<()> {
        let refused = |text| StoreError::PicturesUnavailable(text);
        let Some(id) = self.marks.of(outside).get() else {
            return self.open_picture_store(outside).await?.map_err(refused);
        };
        match outside {
            Outside::S3 => Ok(()),
            Outside::Folder => match self.objects.owner(outside).await {
                Ok(Some(owner)) if owner == *id => Ok(()),
                Ok(_) => Err(refused(misfit(outside, "is no longer there"))),
                Err(error) => Err(StoreError::of_object_store(outside, &error)),
            },
        }
    }

    async fn has_objects(&self, outside: Outside) -> Result<bool> {
        Ok(sqlx::query_scalar!(
            "SELECT EXISTS (SELECT 1 FROM picture_objects WHERE stored_in = $1 AND is_kept) AS \"has_objects!\"",
            outside.as_str()
        )
        .fetch_one(&self.pool)
        .await?)
    }

    /// A new id, or the id of an instance that was first.
    async fn new_store_id(&self, outside: Outside) -> Result<String> {
        let fresh = ObjectName::random();
        sqlx::query!(
            "INSERT INTO picture_stores (stored_in, id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            outside.as_str(),
            fresh.as_str()
        )
        .execute(&self.pool)
        .await?;
        let id = sqlx::query_scalar!("SELECT id FROM picture_stores WHERE stored_in = $1", outside.as_str());
        Ok(id.fetch_one(&self.pool).await?)
    }
}

fn misfit(outside: Outside, what: &str) -> String {
    let (store, advice) = match outside {
        Outside::Folder => ("the folder of image.folder", "is its disk mounted, is it the right folder?"),
        Outside::S3 => ("the S3 store", "are s3.endpoint, s3.bucket and s3.prefix right?"),
    };
    format!("{store} {what}: {advice} (an object `minitill-store` there tells whose it is)")
}
