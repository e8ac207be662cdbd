//! Requests under way of each client behind trusted proxies (contract 2.7.7). Without proxies the
//! listener counts connections, and nothing here runs.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use http_server::{AddressCounts, Peer};
use ipnet::IpNet;

use crate::config::Config;
use crate::http::client_address::client_address;
use crate::http::refusal::Refusal;

/// How many requests of each client are under way.
pub(super) struct RequestsUnderWay {
    trusted_proxies: Vec<IpNet>,
    per_client_max: usize,
    by_client: Mutex<AddressCounts>,
}

impl RequestsUnderWay {
    /// None are under way. `None` where no proxy is trusted.
    pub(super) fn behind_proxies(config: &Config) -> Option<Self> {
        let trusted_proxies = config.public.trusted_proxies.clone();
        (!trusted_proxies.is_empty()).then(|| Self {
            trusted_proxies,
            per_client_max: config.http.connections_per_address_max,
            by_client: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, AddressCounts> {
        self.by_client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request of this client until the result is dropped; `None` when it has as many as it may have.
    fn begin(self: &Arc<Self>, client: IpAddr) -> Option<UnderWay> {
        let client = self.lock().take(client, self.per_client_max)?;
        Some(UnderWay { requests: Arc::clone(self), client })
    }
}

/// A request that is counted.
struct UnderWay {
    requests: Arc<RequestsUnderWay>,
    client: IpAddr,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.requests.lock().give_back(self.client);
    }
}

/// Refuses a request over the limit of its client. A request ends with the last byte of its answer.
pub(super) async fn limit(
    State(requests): State<Arc<RequestsUnderWay>>,
    request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>().map(Peer::address);
    let client = peer.map(|peer| client_address(peer, request.headers(), &requests.trusted_proxies));
    // A peer that is no proxy is counted by its connections, and a proxy itself has no limit.
    let Some(client) = client.filter(|client| peer.is_some_and(|peer| peer.ip().to_canonical() != *client))
    else {
        return next.run(request).await;
    };
    let Some(under_way) = requests.begin(client) else {
        let cause = "too many requests of one client are under way";
        return Refusal::unavailable("the service is overloaded, try again", cause).into_response();
    };
    next.run(request).await.map(|body| {
        Body::new(body.inspect_frame(move |_| {
            let _ = &under_way;
        }))
    })
}
