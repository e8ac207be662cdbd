//! Counts what an app stores (contract 7.3).

use domain::ids::AppId;
use domain::quota::ImageUsage;
use sqlx::PgConnection;

use crate::error::Result;

/// Counts a new image of this many bytes, and returns the usage with it. It locks the row of the app
/// until the transaction ends, so that no two uploads share the rest of a quota.
pub(super) async fn count(connection: &mut PgConnection, app_id: &AppId, bytes: i32) -> Result<ImageUsage> {
    Ok(sqlx::query_as!(
        ImageUsage,
        "INSERT INTO image_usage AS u (app_id, day, bytes_today, bytes, images_today, images)
         VALUES ($1, (now() AT TIME ZONE 'UTC')::date, $2, $2, 1, 1)
         ON CONFLICT (app_id) DO UPDATE SET day = greatest(u.day, excluded.day),
             bytes_today = excluded.bytes_today + CASE WHEN u.day >= excluded.day THEN u.bytes_today ELSE 0 END,
             images_today = excluded.images_today + CASE WHEN u.day >= excluded.day THEN u.images_today ELSE 0 END,
             bytes = u.bytes + excluded.bytes, images = u.images + excluded.images
         RETURNING bytes_today, bytes, images_today, images",
        app_id.as_str(),
        i64::from(bytes)
    )
    .fetch_one(connection)
    .await?)
}

/// The usage with one image more, which is not counted.
pub(super) async fn after(connection: &mut PgConnection, app_id: &AppId, bytes: i32) -> Result<ImageUsage> {
    Ok(sqlx::query_as!(
        ImageUsage,
        r#"SELECT $2 + coalesce(sum(bytes_today) FILTER (WHERE is_today), 0)::bigint AS "bytes_today!",
               1 + coalesce(sum(images_today) FILTER (WHERE is_today), 0)::bigint AS "images_today!",
               $2 + coalesce(sum(bytes), 0)::bigint AS "bytes!", 1 + coalesce(sum(images), 0)::bigint AS "images!"
           FROM (SELECT *, day >= (now() AT TIME ZONE 'UTC')::date AS is_today
                 FROM image_usage WHERE app_id = $1) AS u"#,
        app_id.as_str(),
        i64::from(bytes)
    )
    .fetch_one(connection)
    .await?)
}
