//! Resolves a host to its addresses, and bounds look-ups that hang.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use url::Host;

use super::error::FetchError;
use crate::bulkhead::HolderPermit;

/// Look-ups under way at once. Each holds a thread of the runtime's blocking pool (512 by default) for as long as the
/// system's resolver hangs. The rest of the program needs that pool too. One holder cannot fill this: its own limit of
/// the bulkhead is smaller.
const LOOKUPS_MAX: usize = 256;

/// Resolves a name and a port to addresses. Tests replace it.
pub(super) type LookUp =
    Arc<dyn Fn(String, u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// The system's resolver, bounded.
pub(super) struct Resolver {
    look_up: LookUp,
    look_ups: Arc<Semaphore>,
}

impl Resolver {
    /// Asks the system (getaddrinfo).
    pub(super) fn system() -> Self {
        Self::asking(Arc::new(|name, port| {
            Box::pin(async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) })
        }))
    }

    /// Asks `look_up`.
    pub(super) fn asking(look_up: LookUp) -> Self {
        Self { look_up, look_ups: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }

    /// All addresses of a host, not checked yet. A host that is an address needs no look-up.
    ///
    /// The caller bounds the time. A look-up that outlives its caller keeps its own permit and the
    /// caller's `permit` until it ends, because its thread cannot be stopped.
    pub(super) async fn resolve(
        &self,
        host: &Host,
        port: u16,
        permit: &HolderPermit,
    ) -> Result<Vec<SocketAddr>, FetchError> {
        let name = match host {
            Host::Ipv4(address) => return Ok(vec![SocketAddr::from((*address, port))]),
            Host::Ipv6(address) => return Ok(vec![SocketAddr::from((*address, port))]),
            Host::Domain(name) => name.clone(),
        };
        let own = Arc::clone(&self.look_ups).acquire_owned().await.map_err(|_| FetchError::Busy)?;
        let (look_up, permit) = ((self.look_up)(name, port), permit.clone());
        let under_way = tokio::spawn(async move {
            let addresses = look_up.await;
            drop((own, permit));
            addresses
        });
        match under_way.await {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(_)) | Err(_) => Err(FetchError::NameNotFound),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::net::Ipv6Addr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::sync::Notify;
    use tokio::time::timeout;

    use super::*;
    use crate::bulkhead::Bulkhead;

    async fn permit() -> HolderPermit {
        Bulkhead::new(1, 1).holder_permit("app", 1).await
    }

    fn name() -> Host {
        Host::Domain("pictures.example".to_owned())
    }

    /// Rule: an address in the URL is never looked up, so nothing can answer for it.
    #[tokio::test]
    async fn an_address_is_its_own_answer() {
        let resolver = Resolver::asking(Arc::new(|_, _| Box::pin(pending())));
        let found = resolver.resolve(&Host::Ipv6(Ipv6Addr::LOCALHOST), 80, &permit().await).await;
        assert_eq!(found, Ok(vec!["[::1]:80".parse().unwrap()]));
    }

    /// Rule: names are the system's to answer, with the port that was asked for.
    #[tokio::test]
    async fn the_system_knows_localhost() {
        let localhost = Host::Domain("localhost".to_owned());
        let found = Resolver::system().resolve(&localhost, 81, &permit().await).await.unwrap();
        assert!(!found.is_empty());
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 81));
    }

    /// Rule: hanging look-ups never exceed their bound. They keep their permits after their callers
    /// gave up, and return them when they end.
    #[tokio::test]
    async fn hanging_look_ups_are_bounded_and_keep_their_permits() {
        let started = Arc::new(AtomicUsize::new(0));
        let release = Arc::new(Notify::new());
        let (count, gate) = (Arc::clone(&started), Arc::clone(&release));
        let resolver = Arc::new(Resolver::asking(Arc::new(move |_, _| {
            let gate = Arc::clone(&gate);
            count.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                gate.notified().await;
                Ok(vec![])
            })
        })));
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..LOOKUPS_MAX + 20 {
            let resolver = Arc::clone(&resolver);
            callers.spawn(async move {
                let permit = permit().await;
                timeout(Duration::from_millis(50), resolver.resolve(&name(), 80, &permit)).await.is_err()
            });
        }
        assert!(callers.join_all().await.into_iter().all(|gave_up| gave_up));
        assert_eq!(started.load(Ordering::SeqCst), LOOKUPS_MAX);
        assert_eq!(resolver.look_ups.available_permits(), 0);
        release.notify_waiters();
        let all = u32::try_from(LOOKUPS_MAX).unwrap();
        let freed = timeout(Duration::from_mins(1), resolver.look_ups.acquire_many(all)).await;
        assert!(freed.is_ok(), "a look-up that ended returns its permit");
    }
}
