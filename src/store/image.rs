//! Pictures: the same bytes of an app are one image with one id (contract 5).

use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;

use super::{Store, StoreError};
use crate::domain::ids::{AppId, ImgId};
use crate::domain::image::Picture;
use crate::secrets::random_img_id;

/// A picture that was judged good, cut to its own length, with what is stored beside it.
struct NewImage {
    app_id: AppId,
    img_id: ImgId,
    sha256: [u8; 32],
    format: &'static str,
    side: i32,
    bytes: Bytes,
}

impl Store {
    /// Keeps a picture and gives its id: a new one, or the one that the same bytes have already.
    ///
    /// # Errors
    /// The database is away.
    pub async fn keep_image(
        &self,
        app_id: &AppId,
        picture: Picture,
        bytes: Bytes,
    ) -> Result<ImgId, StoreError> {
        let bytes = bytes.slice(..picture.length.min(bytes.len()));
        let hashed = bytes.clone();
        let sha256 = tokio::task::spawn_blocking(move || Sha256::digest(&hashed).into())
            .await
            .map_err(|fault| StoreError::Internal(format!("hashing a picture: {fault}")))?;
        let image = Arc::new(NewImage {
            app_id: app_id.clone(),
            img_id: random_img_id(),
            sha256,
            format: picture.format.as_str(),
            side: i32::try_from(picture.side).unwrap_or(i32::MAX),
            bytes,
        });
        let img_id = self
            .transaction(move |connection| {
                let image = Arc::clone(&image);
                Box::pin(async move { write_image(connection, &image).await })
            })
            .await?;
        ImgId::parse(&img_id).map_err(|_| StoreError::damaged("images.img_id"))
    }
}

async fn write_image(connection: &mut PgConnection, image: &NewImage) -> Result<String, StoreError> {
    let inserted = sqlx::query!(
        "INSERT INTO images (app_id, img_id, sha256, format, side, byte_length)
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
        image.app_id.as_str(),
        image.img_id.as_str(),
        image.sha256.as_slice(),
        image.format,
        image.side,
        i32::try_from(image.bytes.len()).unwrap_or(i32::MAX)
    )
    .execute(&mut *connection)
    .await?;
    if inserted.rows_affected() == 0 {
        let known = sqlx::query_scalar!(
            "SELECT img_id FROM images WHERE app_id = $1 AND sha256 = $2",
            image.app_id.as_str(),
            image.sha256.as_slice()
        )
        .fetch_optional(connection)
        .await?;
        return known.ok_or(StoreError::Again);
    }
    sqlx::query!(
        "INSERT INTO image_bytes (app_id, img_id, bytes) VALUES ($1, $2, $3)",
        image.app_id.as_str(),
        image.img_id.as_str(),
        image.bytes.as_ref()
    )
    .execute(connection)
    .await?;
    Ok(image.img_id.to_string())
}
