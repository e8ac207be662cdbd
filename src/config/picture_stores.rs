//! Where pictures are kept: `image.store` and what it needs.

use std::time::Duration;

use domain::picture_store::PictureStore;
use domain::secret::Secret;
use serde::Deserialize;
use store::objects;
use url::Url;

use super::Config;

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
    #[serde(deserialize_with = "super::sections::secret")]
    pub secret_access_key: Secret,
    pub path_style: bool,
    pub allow_http: bool,
}

impl Config {
    /// The stores of pictures besides the database.
    ///
    /// # Errors
    /// A setting that does not fit, by its name.
    pub fn picture_stores(&self) -> Result<objects::ObjectStoreSettings, String> {
        let folder = &self.image.folder;
        Ok(objects::ObjectStoreSettings {
            folder: (!folder.as_os_str().is_empty()).then(|| folder.clone()),
            s3: self.s3.settings()?,
            timeout: self.image.store_timeout,
        })
    }

    pub(super) fn check_pictures(&self) -> Result<(), String> {
        if self.image.store_timeout < Duration::from_millis(100) {
            return Err("image.store_timeout: expected 100ms or more".to_owned());
        }
        let stores = self.picture_stores()?;
        match self.image.store {
            PictureStore::Folder if stores.folder.is_none() => {
                Err("image.folder: expected a folder, because image.store is \"folder\"".to_owned())
            }
            PictureStore::S3 if stores.s3.is_none() => {
                Err("s3.bucket: expected a bucket, because image.store is \"s3\"".to_owned())
            }
            PictureStore::Database | PictureStore::Folder | PictureStore::S3 => Ok(()),
        }
    }
}

impl S3 {
    /// The store that these settings name, where they name one.
    fn settings(&self) -> Result<Option<objects::S3Settings>, String> {
        if self.bucket.is_empty() {
            return Ok(None);
        }
        if self.access_key_id.is_empty() {
            return Err("s3.access_key_id: expected a key, because s3.bucket is set".to_owned());
        }
        if self.secret_access_key.get().is_none() {
            return Err("s3.secret_access_key: expected a secret, because s3.bucket is set".to_owned());
        }
        if self.region.is_empty() {
            return Err("s3.region: expected a region; us-east-1 fits most stores that have none".to_owned());
        }
        Ok(Some(objects::S3Settings {
            bucket: self.bucket.clone(),
            endpoint: self.endpoint()?,
            region: self.region.clone(),
            prefix: self.prefix.clone(),
            access_key_id: self.access_key_id.clone(),
            secret_access_key: self.secret_access_key.clone(),
            path_style: self.path_style,
        }))
    }

    fn endpoint(&self) -> Result<Option<Url>, String> {
        if self.endpoint.is_empty() {
            return Ok(None);
        }
        let parsed = Url::parse(&self.endpoint).ok().filter(|url| {
            url.has_host() && url.username().is_empty() && url.password().is_none() && url.query().is_none()
        });
        let misfit = "s3.endpoint: expected an address such as https://s3.example.com";
        let url = parsed.ok_or(misfit)?;
        match url.scheme() {
            "https" => Ok(Some(url)),
            "http" if self.allow_http => Ok(Some(url)),
            "http" => Err("s3.endpoint: expected https; s3.allow_http allows pictures and signatures to \
                           cross the network in the clear"
                .to_owned()),
            _ => Err(misfit.to_owned()),
        }
    }
}
