//! Settings of the stores of pictures: `image.store` and what it needs.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use domain::picture_store::PictureStore;
use domain::secret::Secret;
use serde::Deserialize;
use store::objects;
use url::Url;

use super::{Config, Image};

/// `[s3]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]
pub struct S3 {
    pub bucket: String,
    pub endpoint: String,
    pub region: String,
    pub prefix: String,
    pub access_key_id: String,
    pub secret_access_key: Secret,
    pub path_style: bool,
    pub allow_http: bool,
}

impl Config {
    /// The stores of pictures besides the database.
    ///
    /// # Errors
    /// A setting that does not fit, by its name.
    pub fn picture_stores(&self) -> Result<objects::ObjectStoreSettings> {
        let folder = &self.image.folder;
        Ok(objects::ObjectStoreSettings {
            folder: (!folder.as_os_str().is_empty()).then(|| folder.clone()),
            s3: self.s3.settings()?,
            timeout: self.image.store_timeout,
        })
    }

    pub(super) fn check_pictures(&self) -> Result<()> {
        let Image { store, store_timeout, .. } = self.image;
        ensure!(store_timeout >= Duration::from_millis(100), "image.store_timeout: expected 100ms or more");
        let stores = self.picture_stores()?;
        ensure!(
            store != PictureStore::Folder || stores.folder.is_some(),
            "image.folder: expected a folder, because image.store is \"folder\""
        );
        ensure!(
            store != PictureStore::S3 || stores.s3.is_some(),
            "s3.bucket: expected a bucket, because image.store is \"s3\""
        );
        Ok(())
    }
}

impl S3 {
    /// The store that these settings name, where they name one.
    fn settings(&self) -> Result<Option<objects::S3Settings>> {
        let Self { bucket, region, prefix, access_key_id, secret_access_key, path_style, .. } = self.clone();
        if bucket.is_empty() {
            return Ok(None);
        }
        let has_secret = secret_access_key.get().is_some();
        ensure!(!access_key_id.is_empty(), "s3.access_key_id: expected a key, because s3.bucket is set");
        ensure!(has_secret, "s3.secret_access_key: expected a secret, because s3.bucket is set");
        ensure!(
            !region.is_empty(),
            "s3.region: expected a region; us-east-1 fits most stores that have none"
        );
        let endpoint = self.endpoint()?;
        Ok(Some(objects::S3Settings {
            bucket,
            endpoint,
            region,
            prefix,
            access_key_id,
            secret_access_key,
            path_style,
        }))
    }

    fn endpoint(&self) -> Result<Option<Url>> {
        if self.endpoint.is_empty() {
            return Ok(None);
        }
        let parsed = Url::parse(&self.endpoint).ok().filter(|url| {
            url.has_host() && url.username().is_empty() && url.password().is_none() && url.query().is_none()
        });
        let known = parsed.filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = known.context("s3.endpoint: expected an address such as https://s3.example.com")?;
        ensure!(
            url.scheme() == "https" || self.allow_http,
            "s3.endpoint: expected https; s3.allow_http allows pictures and signatures to cross the network \
             in the clear"
        );
        Ok(Some(url))
    }
}
