//! The addresses of a running server, and what it says of itself. The server leaves its addresses in
//! its data folder, so that commands find it whatever its settings are.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use guarded_fetch::ServiceClient;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config::Config;

/// Name of the file in the data folder.
const FILE: &str = "server.json";
/// How long a server may take to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// Time for the answer of the server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Bytes of that answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Where a server listens, as this machine reaches it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Addresses {
    /// URL of the public listener.
    pub(super) public: String,
    /// URL of the operator's listener.
    pub(super) operator: String,
    /// Whether it is a sandbox server, whose commands reach this machine too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) sandbox: bool,
}

impl Addresses {
    /// Those of these settings.
    pub(super) fn of(config: &Config) -> Self {
        Self { public: config.public.base_url(), operator: config.ops.base_url(), sandbox: false }
    }

    /// Those of the server that runs on this data folder; else those of the settings.
    pub(super) async fn find(folder: &Path, config: &Config) -> Self {
        match Self::left_in(folder) {
            // A server that was killed leaves its file behind.
            Some(left) if left.is_answering().await => left,
            Some(_) | None => Self::of(config),
        }
    }

    /// Those that a server has left in its data folder. It may have been killed.
    pub(super) fn left_in(folder: &Path) -> Option<Self> {
        let left = fs::read(folder.join(FILE)).ok()?;
        serde_json::from_slice(&left).ok()
    }

    async fn is_answering(&self) -> bool {
        let authority = self.operator.split("://").nth(1).unwrap_or_default();
        matches!(timeout(CONNECT_WITHIN, TcpStream::connect(authority)).await, Ok(Ok(_)))
    }

    /// Leaves them in the data folder until the result is dropped. Without the file, commands use the
    /// settings.
    pub(super) fn leave_in(&self, folder: &Path) -> LeftAddresses {
        let path = folder.join(FILE);
        let written = serde_json::to_vec(self).map_err(std::io::Error::from).and_then(|json| {
            fs::create_dir_all(folder)?;
            fs::write(&path, json)
        });
        if let Err(error) = written {
            tracing::warn!(%error, path = %path.display(), "the addresses of the server could not be written");
        }
        LeftAddresses(path)
    }
}

/// The file of a running server.
pub(super) struct LeftAddresses(PathBuf);

impl Drop for LeftAddresses {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// What the operator's listener answers at `url`, with its JSON (null if it is none). The certificate is
/// not verified: it names the server as others call it, and neither question nor answer is a secret.
///
/// # Errors
/// Why there is no answer.
pub(super) async fn ask(url: &str) -> Result<Response<Value>, &'static str> {
    let asking = async {
        let nothing = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
        let request = Request::get(url).body(nothing).ok()?;
        let (head, body) = ServiceClient::unverified().stream(request).await.ok()?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.ok()?.to_bytes();
        Some(Response::from_parts(head, serde_json::from_slice(&body).unwrap_or_default()))
    };
    timeout(ANSWER_TIMEOUT, Box::pin(asking)).await.map_err(|_| "no answer")?.ok_or("not running")
}
