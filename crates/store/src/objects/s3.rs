//! The S3 store: what it needs of the settings, and what lies in it.

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
use super::{Fault, Found, MARKER, ObjectName, Objects, fault_of, not_set};

/// Names that are listed at once.
const LISTED_AT_ONCE: usize = 1000;
/// A request that fails is sent again so often.
const RETRIES_MAX: usize = 2;

/// An S3 store.
#[derive(Debug, Clone)]
pub struct S3Settings {
    /// Its bucket.
    pub bucket: String,
    /// Its address; `None` is that of Amazon for the region.
    pub endpoint: Option<url::Url>,
    /// Its region.
    pub region: String,
    /// What all names begin with.
    pub prefix: String,
    /// Who we are.
    pub access_key_id: String,
    /// How we prove it.
    pub secret_access_key: Secret,
    /// Whether the bucket stands in the path and not in the host.
    pub path_style: bool,
}

/// Opens the store; nothing is sent yet.
pub(super) fn open(settings: &S3Settings, timeout: Duration) -> Result<(Arc<dyn ObjectStore>, Path), String> {
    let prefix = Path::parse(&settings.prefix).map_err(|error| format!("s3.prefix: {error}"))?;
    let is_plain = settings.endpoint.as_ref().is_some_and(|endpoint| endpoint.scheme() == "http");
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&settings.bucket)
        .with_region(&settings.region)
        .with_access_key_id(&settings.access_key_id)
        .with_secret_access_key(settings.secret_access_key.get().unwrap_or_default())
        .with_virtual_hosted_style_request(!settings.path_style)
        // The store refuses what did not arrive as it was sent.
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

/// The address that requests go to: the bucket stands in its host unless the path holds it.
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
    /// What lies in the S3 store, a thousand at once.
    pub(super) fn list_s3(&self) -> BoxStream<'_, Result<Vec<Found>, Fault>> {
        let Some((store, prefix)) = &self.0.s3 else {
            return stream::iter([Err(not_set(Outside::S3))]).boxed();
        };
        let lots = store.list(Some(prefix)).try_chunks(LISTED_AT_ONCE);
        stream::try_unfold(lots, move |mut lots| async move {
            let Some(lot) = self.in_time(async { Ok(lots.next().await) }).await? else { return Ok(None) };
            let lot = lot.map_err(|error| fault_of(&error.1))?;
            let found = lot.into_iter().filter_map(|object| found(&object.location, prefix));
            Ok(Some((found.collect(), lots)))
        })
        .boxed()
    }
}

/// What an object is; `None` for the one that tells whose store it is.
fn found(location: &Path, prefix: &Path) -> Option<Found> {
    let below: Vec<_> = location.prefix_match(prefix)?.collect();
    let path = below.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join("/");
    (path != MARKER).then(|| ObjectName::of_path(&path).map_or(Found::Foreign, Found::Object))
}
