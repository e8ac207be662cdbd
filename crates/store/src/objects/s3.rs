//! The S3 store: its settings, opening and listing.

use std::sync::Arc;
use std::time::Duration;

use domain::picture_store::Outside;
use domain::secret::Secret;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::aws::{AmazonS3Builder, Checksum};
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use super::https::Https;
use super::{ListedObject, MARKER, ObjectName, ObjectStoreError, Objects, error_of, not_set};

/// How many names are listed at a time.
const LISTED_AT_ONCE: usize = 1000;
/// How often a failed request is repeated.
const RETRIES_MAX: usize = 2;

/// Settings of an S3 store.
#[derive(Debug, Clone)]
pub struct S3Settings {
    /// Its bucket.
    pub bucket: String,
    /// Its address. `None` is Amazon's for the region.
    pub endpoint: Option<url::Url>,
    /// Its region.
    pub region: String,
    /// The prefix of all names.
    pub prefix: String,
    /// The id of the access key.
    pub access_key_id: String,
    /// The secret access key.
    pub secret_access_key: Secret,
    /// True when the bucket is part of the path, and not of the host.
    pub path_style: bool,
}

/// Opens the store. It sends nothing yet.
pub(super) fn open(settings: &S3Settings, timeout: Duration) -> Result<(Arc<dyn ObjectStore>, Path), String> {
    let prefix = Path::parse(&settings.prefix).map_err(|error| format!("s3.prefix: {error}"))?;
    let is_plain = settings.endpoint.as_ref().is_some_and(|endpoint| endpoint.scheme() == "http");
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&settings.bucket)
        .with_region(&settings.region)
        .with_access_key_id(&settings.access_key_id)
        .with_secret_access_key(settings.secret_access_key.get().unwrap_or_default())
        .with_virtual_hosted_style_request(!settings.path_style)
        // The store refuses bytes that changed on the way.
        .with_checksum_algorithm(Checksum::SHA256)
        .with_disable_bulk_delete(true)
        .with_client_options(ClientOptions::new().with_allow_http(is_plain))
        .with_retry(RetryConfig {
            max_retries: RETRIES_MAX,
            retry_timeout: timeout,
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: Duration::from_secs(1),
                base: 2.0,
            },
        })
        .with_http_connector(Https::new(timeout));
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_endpoint(endpoint_of(endpoint, settings)?);
    }
    let store = builder.build().map_err(|error| format!("s3: {error}"))?;
    Ok((Arc::new(store), prefix))
}

/// The address of requests: the bucket precedes the host, unless it is part of the path.
pub(super) fn endpoint_of(endpoint: &url::Url, settings: &S3Settings) -> Result<String, String> {
    let mut endpoint = endpoint.clone();
    if !settings.path_style {
        let host = format!("{}.{}", settings.bucket, endpoint.host_str().unwrap_or_default());
        let told = |_| "s3.endpoint: the bucket cannot stand before this host; set s3.path_style".to_owned();
        endpoint.set_host(Some(&host)).map_err(told)?;
    }
    Ok(endpoint.as_str().trim_end_matches('/').to_owned())
}

impl Objects {
    /// Lists the S3 store, a thousand objects at a time.
    pub(super) fn list_s3(&self) -> BoxStream<'_, Result<Vec<ListedObject>, ObjectStoreError>> {
        let Some((store, prefix)) = &self.0.s3 else {
            return stream::iter([Err(not_set(Outside::S3))]).boxed();
        };
        let lots = store.list(Some(prefix)).try_chunks(LISTED_AT_ONCE);
        stream::try_unfold(lots, move |mut lots| async move {
            let Some(lot) = self.in_time(async { Ok(lots.next().await) }).await? else { return Ok(None) };
            let lot = lot.map_err(|error| error_of(&error.1))?;
            let found = lot.into_iter().filter_map(|object| found(&object.location, prefix));
            Ok(Some((found.collect(), lots)))
        })
        .boxed()
    }
}

/// The kind of an object. `None` for the object that names the owner.
fn found(location: &Path, prefix: &Path) -> Option<ListedObject> {
    let below: Vec<_> = location.prefix_match(prefix)?.collect();
    let path = below.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join("/");
    (path != MARKER).then(|| ObjectName::of_path(&path).map_or(ListedObject::Foreign, ListedObject::Object))
}
