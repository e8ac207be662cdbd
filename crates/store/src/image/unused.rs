//! Sweeps images that nothing uses (contract 5.10). Nothing uses an image that no order report has ever
//! named, and that was not uploaded for a while.

use std::time::Duration;

use domain::ids::AppId;
use sqlx::PgConnection;

use crate::error::Result;
use crate::store::Store;

/// The most images of a piece. A run that removed so many may have left some.
pub const IMAGES_AT_ONCE: u32 = 20;

/// Makes the image one that was uploaded now. `false` when it has just been swept.
pub(super) async fn uploaded_again(
    connection: &mut PgConnection,
    app_id: &AppId,
    img_id: &str,
) -> Result<bool> {
    let touched = sqlx::query!(
        "UPDATE images SET last_uploaded_at = now() WHERE app_id = $1 AND img_id = $2",
        app_id.as_str(),
        img_id
    );
    Ok(touched.execute(connection).await?.rows_affected() > 0)
}

impl Store {
    /// Removes a piece of the images that nothing has used for `ttl`, and the blobs that no other image has. Instances
    /// that sweep at once take different images. Returns their number.
    pub async fn sweep_unused_images(&self, ttl: Duration) -> Result<u64> {
        let contents =
            self.transaction(ttl, |connection, ttl| Box::pin(remove_some_unused(connection, *ttl))).await?;
        let count = contents.len() as u64;
        if contents.is_empty() {
            return Ok(count);
        }
        for object in self.forget_contents(contents).await? {
            if let Err(error) = self.remove_object(&object).await {
                tracing::warn!(%error, "an unused object is left to `minitill image sweep`");
            }
        }
        Ok(count)
    }
}

/// Removes some of these images, and what they count in the quotas. A report or an upload that locks one
/// of them first keeps it; one that comes later finds no such image.
async fn remove_some_unused(connection: &mut PgConnection, ttl: Duration) -> Result<Vec<Vec<u8>>> {
    let removed = sqlx::query!(
        "WITH unused AS (
             SELECT app_id, img_id FROM images i
             WHERE NOT is_reported AND last_uploaded_at < now() - make_interval(secs => $1)
               AND NOT EXISTS (
                   SELECT 1 FROM orders o WHERE o.app_id = i.app_id AND o.product_cover_img_id = i.img_id)
             ORDER BY last_uploaded_at LIMIT $2 FOR UPDATE SKIP LOCKED
         )
         DELETE FROM images i USING unused u WHERE i.app_id = u.app_id AND i.img_id = u.img_id
         RETURNING i.app_id, i.byte_length, i.content_sha256",
        ttl.as_secs_f64(),
        i64::from(IMAGES_AT_ONCE)
    );
    let removed = removed.fetch_all(&mut *connection).await?;
    let apps: Vec<String> = removed.iter().map(|image| image.app_id.clone()).collect();
    let bytes: Vec<i32> = removed.iter().map(|image| image.byte_length).collect();
    sqlx::query!(
        "UPDATE image_usage u SET bytes = u.bytes - gone.bytes, images = u.images - gone.images
         FROM (SELECT app_id, sum(byte_length)::bigint AS bytes, count(*) AS images
               FROM unnest($1::text[], $2::integer[]) AS image (app_id, byte_length) GROUP BY app_id) AS gone
         WHERE u.app_id = gone.app_id",
        &apps,
        &bytes
    )
    .execute(connection)
    .await?;
    Ok(removed.into_iter().map(|image| image.content_sha256).collect())
}
