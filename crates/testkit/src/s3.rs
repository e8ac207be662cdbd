//! A store that speaks as much S3 as Minitill needs, in the test's process. With
//! `MINITILL_TEST_S3_ENDPOINT` set, the tests use that real one in its place (its bucket, region and
//! keys from the variables beside it). `tests/proofs/picture_stores` runs them so.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// An S3 store for one test, or a prefix of its own in a real one.
pub struct S3 {
    pub variables: Vec<(String, String)>,
    /// The double; `None` with a real store.
    pub double: Option<Arc<Double>>,
}

/// The store in this process.
#[derive(Default)]
pub struct Double {
    objects: Mutex<BTreeMap<String, Bytes>>,
    /// Whether pictures that are written wait.
    holds: AtomicBool,
    held: Notify,
    released: Notify,
    /// Whether every request fails.
    fails: AtomicBool,
}

impl S3 {
    pub async fn start() -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("test-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let real = |name: &str| std::env::var(format!("MINITILL_TEST_S3_{name}")).ok();
        let (endpoint, double) = if let Some(endpoint) = real("ENDPOINT") {
            (endpoint, None)
        } else {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let double = Arc::new(Double::default());
            let router = Router::new().fallback(answer).with_state(Arc::clone(&double));
            tokio::spawn(async move { axum::serve(listener, router).await });
            (format!("http://{address}"), Some(double))
        };
        let or = |name: &str, default: &str| real(name).unwrap_or_else(|| default.to_owned());
        let variables = [
            ("ENDPOINT", endpoint),
            ("BUCKET", or("BUCKET", "pictures")),
            ("REGION", or("REGION", "us-east-1")),
            ("ACCESS_KEY_ID", or("ACCESS_KEY_ID", "test")),
            ("SECRET_ACCESS_KEY", or("SECRET_ACCESS_KEY", "test")),
            ("ALLOW_HTTP", "true".to_owned()),
            ("PREFIX", prefix),
        ];
        let variables = variables.map(|(name, value)| (format!("MINITILL_S3__{name}"), value)).to_vec();
        Self { variables, double }
    }
}

impl Double {
    pub fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.objects.lock().unwrap()
    }

    /// From now on every request fails, or none does.
    pub fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    /// The next picture that is written waits for [`Double::release`] behind its last byte.
    pub fn hold(&self) {
        self.holds.store(true, Ordering::SeqCst);
    }

    pub async fn held(&self) {
        self.held.notified().await;
    }

    pub fn release(&self) {
        self.released.notify_one();
    }
}

async fn answer(State(double): State<Arc<Double>>, request: Request) -> Response {
    if double.fails.load(Ordering::SeqCst) {
        return plain(StatusCode::SERVICE_UNAVAILABLE, Body::empty());
    }
    let (parts, body) = request.into_parts();
    let key = parts.uri.path().trim_start_matches('/').to_owned();
    let query = parts.uri.query().unwrap_or_default();
    if parts.method == Method::GET && query.contains("list-type=2") {
        return plain(StatusCode::OK, listing(&double, query).into());
    }
    if parts.method == Method::PUT {
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        double.objects().insert(key.clone(), bytes);
        if !key.ends_with("minitill-store") && double.holds.swap(false, Ordering::SeqCst) {
            double.held.notify_one();
            double.released.notified().await;
        }
        return plain(StatusCode::OK, Body::empty());
    }
    if parts.method == Method::DELETE {
        double.objects().remove(&key);
        return plain(StatusCode::NO_CONTENT, Body::empty());
    }
    let Some(bytes) = double.objects().get(&key).cloned() else {
        return plain(StatusCode::NOT_FOUND, Body::empty());
    };
    let range = parts.headers.get(header::RANGE).and_then(|range| range.to_str().ok());
    let Some((start, end)) = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-')) else {
        return plain(StatusCode::OK, bytes.into());
    };
    let (start, end): (usize, usize) = (start.parse().unwrap(), end.parse().unwrap());
    if start >= bytes.len() {
        return plain(StatusCode::RANGE_NOT_SATISFIABLE, Body::empty());
    }
    let end = (end + 1).min(bytes.len());
    let told = format!("bytes {start}-{}/{}", end - 1, bytes.len());
    let mut response = plain(StatusCode::PARTIAL_CONTENT, bytes.slice(start..end).into());
    response.headers_mut().insert(header::CONTENT_RANGE, told.parse().unwrap());
    response
}

/// All at once: no test makes more than a thousand.
fn listing(double: &Double, query: &str) -> String {
    let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).unwrap_or_default();
    let prefix = percent_encoding::percent_decode_str(prefix).decode_utf8_lossy().into_owned();
    let objects = double.objects();
    let found = objects.iter().filter_map(|(key, bytes)| {
        let (_, key) = key.split_once('/')?;
        key.starts_with(&prefix).then(|| {
            format!(
                "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
                 <ETag>\"e\"</ETag><Size>{}</Size></Contents>",
                bytes.len()
            )
        })
    });
    let found: String = found.collect();
    format!("<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>")
}

fn plain(status: StatusCode, body: Body) -> Response {
    let response = Response::builder().status(status).header(header::ETAG, "\"e\"");
    response.header(header::LAST_MODIFIED, "Thu, 01 Jan 2026 00:00:00 GMT").body(body).unwrap()
}
