//! The application state that every handler shares: settings, clock, store, limits and the fetcher.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use domain::clock::Clock;
use domain::ids::WEB_URL_BYTES_MAX;
use domain::moment;
use domain::wallet::Reading;
use guarded_fetch::bulkhead::Bulkhead;
use guarded_fetch::{FetchSettings, Fetcher, ServiceClient};
use http_server::{OpenConnections, ServerLimits};
use ipnet::IpNet;
use store::{Statement, Store, StoreSettings, UnusedReport};
use telemetry::traces::Tracer;
use time::OffsetDateTime;
use tokio::sync::{Semaphore, watch};

use crate::config::Config;
use crate::diagnosis::Diagnoses;
use crate::feed_watch::FeedWatch;
use crate::health::Health;
use crate::http::operator_places::Places;
use crate::http::outgoing::{USER_AGENT, start_tracer};
use crate::http::rate_limit::RateLimits;
use crate::http::refusal_log::RefusalLog;
use crate::http::request_log::RequestLog;
use crate::http::wrong_signatures::WrongSignatures;
use crate::images::disk_space::DiskSpace;
use crate::images::judge::JudgeClient;
use crate::images::small_copies::PictureWork;
use crate::metrics::{APPS_MAX, Metrics};
use crate::notify::NotificationSender;
use crate::sandbox_server::SandboxServer;
use crate::slow_reports::SlowReports;

/// The unit of [`Shared::upload_memory`].
pub const KIB: u32 = 1024;

/// Bytes of one request that a listener reads before it closes (contract 2.7.4). It is above the
/// largest body, so that a client which sends a whole upload before it reads gets its refusal.
const REQUEST_BYTES_MAX: u64 = 11_000_000;
/// The largest head of a request (contract 2.7.1). It is many times the longest that a client of ours
/// sends: a link of 2,048 bytes in the query, escaped, beside what proxies add.
const HEADER_BYTES_MAX: usize = 32 * 1024;
/// Time for the head of a request (contract 2.7.1). A head is a few packets, and whoever takes longer
/// holds one of `http.connections_max`.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Large pieces of served pictures in memory at once, 16 MiB together (contract 5.7.10). A further reader gets
/// the same picture in small ones.
const LARGE_PIECES_MAX: usize = 64;
/// How many sandbox apps use the database for faults and shipments at once: a few of the sessions that payments need too.
const SANDBOX_TURNS: u32 = 2;
/// Receivers that one instance sends to at once.
const RECEIVERS: u32 = 256;
/// Answers that come late at once: a few of the connections that players need too.
const LATE_ANSWERS: u32 = 256;
/// How many redirects a fetch follows (contract 5.3.8): a short link, its long form and https. A longer
/// chain is most likely a loop.
pub(crate) const REDIRECTS_MAX: usize = 3;

/// The state of a running server, as one listener has it. Cheap to clone.
#[derive(Clone)]
pub struct AppState(Arc<Face>);

/// The state of one listener, beside the state that all share.
pub struct Face {
    /// The store, with the database sessions of the listener.
    pub store: Store,
    shared: Arc<Shared>,
}

/// The parts that all clones of [`AppState`] share.
pub struct Shared {
    /// Settings.
    pub config: Config,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Rate limits, and this instance's share of them.
    pub rate_limits: RateLimits,
    /// The disks that take new pictures.
    pub disk_space: DiskSpace,
    /// Outbound fetches.
    pub fetcher: Fetcher,
    /// Sends notifications.
    pub notifier: NotificationSender,
    /// Places for receivers to which notifications are sent.
    pub receiver_places: Arc<Bulkhead>,
    /// The number of the newest event, told whenever it changes.
    pub event_heads: watch::Sender<i64>,
    /// Memory for the bytes of uploads by file, in KiB. Fetched ones are counted by the fetcher.
    pub upload_memory: Bulkhead,
    /// Places for served pictures that are read in large pieces, a place for each piece.
    pub large_pieces: Arc<Semaphore>,
    /// Pictures that are being decoded. Apps take turns.
    pub picture_work: PictureWork,
    /// The operator's judge of pictures, where there is one.
    pub image_judge: Option<JudgeClient>,
    /// Passwords of console users that are being hashed. Addresses take turns.
    pub password_checks: Bulkhead,
    /// Diagnoses of wrong signatures that apps send.
    pub diagnoses: Diagnoses,
    /// Diagnoses of signatures that operators ask for: a flood of an app's does not take their turns.
    pub operator_diagnoses: Diagnoses,
    /// Wrong signatures of each app, which wait over a rate.
    pub wrong_signatures: WrongSignatures,
    /// Turns of sandbox apps at their test worlds, one for each app at a time.
    pub sandbox_turns: Bulkhead,
    /// Places for answers that come late because a sandbox app has asked for it.
    pub late_answers: Bulkhead,
    /// Places for the requests of API keys and console users.
    pub operator_places: Places,
    /// Statements that pages wait for.
    pub statements: SlowReports<Statement>,
    /// Reports of unused coins that pages wait for.
    pub unused_reports: SlowReports<UnusedReport>,
    /// New events for all held polls of the feed.
    pub feed: FeedWatch,
    /// The log of refused and failed requests.
    pub refusal_log: RefusalLog,
    /// The last calls of sandbox apps.
    pub request_log: RequestLog,
    /// Connections of the public listener.
    pub connections: OpenConnections,
    /// Counters and measurements.
    pub metrics: Metrics,
    /// Health over time, of this instance and all others.
    pub health: Health,
    /// The additional state of a sandbox server.
    pub sandbox_server: Option<SandboxServer>,
    /// The collector of traces, where the settings name one.
    pub tracer: Option<Tracer>,
}

impl std::ops::Deref for AppState {
    type Target = Face;

    fn deref(&self) -> &Face {
        &self.0
    }
}

impl std::ops::Deref for Face {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl AppState {
    /// Builds the state on this store. Call it within a runtime if the settings name a collector of traces.
    #[must_use]
    pub fn new(config: Config, clock: Arc<dyn Clock>, store: Store) -> Self {
        Self::with(config, clock, store, None)
    }

    /// Builds the state of a sandbox server (contract 18).
    #[must_use]
    pub fn of_sandbox_server(config: Config, store: Store, sandbox: SandboxServer) -> Self {
        Self::with(config, Arc::clone(&sandbox.clock) as Arc<dyn Clock>, store, Some(sandbox))
    }

    fn with(config: Config, clock: Arc<dyn Clock>, store: Store, sandbox: Option<SandboxServer>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        // One core stays free for exchanges.
        let decodes = if config.image.decodes_max == 0 { cores - 1 } else { config.image.decodes_max };
        let decodes = u32::try_from(decodes.max(1)).unwrap_or(u32::MAX);
        // Each takes 19 MiB and a core.
        let password_checks = u32::try_from((cores / 2).max(1)).unwrap_or(u32::MAX);
        let notifier = NotificationSender::new(config.notify_fetch_settings(), Arc::clone(&clock));
        let fetcher = Fetcher::new(config.fetch_settings());
        let metrics = Metrics::new(store.exchange_metrics().clone(), clock.unix_millis());
        let services = ServiceClient::default();
        let shared = Shared {
            rate_limits: RateLimits::new(config.limits.clone()),
            disk_space: DiskSpace::new(&config),
            upload_memory: Bulkhead::new(
                config.image.memory_bytes_max / KIB,
                config.image.memory_per_app_bytes_max / KIB,
            ),
            large_pieces: Arc::new(Semaphore::new(LARGE_PIECES_MAX)),
            picture_work: PictureWork::new(store.clone(), decodes, config.http.body_timeout),
            // As with pictures: an address has as many before it as there are other addresses.
            password_checks: Bulkhead::new(password_checks, password_checks),
            diagnoses: Diagnoses::default(),
            operator_diagnoses: Diagnoses::default(),
            wrong_signatures: WrongSignatures::default(),
            sandbox_turns: Bulkhead::halved(SANDBOX_TURNS),
            // An app has five receivers at most, which is less than its half.
            receiver_places: Arc::new(Bulkhead::halved(RECEIVERS)),
            late_answers: Bulkhead::halved(LATE_ANSWERS),
            operator_places: Places::new(store.operator_connections(), &config.database),
            statements: SlowReports::default(),
            unused_reports: SlowReports::default(),
            feed: FeedWatch::default(),
            refusal_log: RefusalLog::default(),
            request_log: RequestLog::default(),
            image_judge: JudgeClient::new(&config.image_judge, services.clone()),
            connections: OpenConnections::default(),
            tracer: start_tracer(&config.tracing, services, metrics.traces().clone()),
            metrics,
            health: Health::new(config.public.listen.port(), config.console.time_zone.clone()),
            fetcher,
            notifier,
            sandbox_server: sandbox,
            event_heads: watch::Sender::new(0),
            config,
            clock,
        };
        Self(Arc::new(Face { store, shared: Arc::new(shared) }))
    }

    /// The same state for the operator's listener, whose sessions are not those of payments.
    #[must_use]
    pub fn for_operators(&self) -> Self {
        Self(Arc::new(Face { store: self.store.for_operators(), shared: Arc::clone(&self.0.shared) }))
    }

    /// Learns what must be known before the first request: which apps have labels, and the share of the limits.
    /// The share is learned again every few seconds, so a failure of that part does not stop the start.
    ///
    /// # Errors
    /// The database is away.
    pub async fn prepare(&self) -> store::Result<()> {
        self.metrics.name_apps(&self.store.busiest_apps(APPS_MAX).await?);
        if let Err(error) = self.share_rate_limits().await {
            tracing::warn!(%error, "the share of the rate limits is not known yet");
        }
        Ok(())
    }

    /// Makes everything on a sandbox server as it was after the start. No call and no job may be under way.
    ///
    /// # Errors
    /// The database is away.
    pub async fn begin_anew(&self) -> store::Result<()> {
        self.store.restore_seed().await?;
        if let Some(sandbox) = &self.sandbox_server {
            sandbox.clock.set_ahead(Duration::ZERO);
        }
        self.rate_limits.forget();
        self.wrong_signatures.forget();
        self.statements.forget();
        self.unused_reports.forget();
        self.feed.forget();
        self.request_log.forget();
        Ok(())
    }

    /// Shares the rate limits among the servers of the database.
    ///
    /// # Errors
    /// The database is away. The last number holds.
    pub async fn share_rate_limits(&self) -> store::Result<()> {
        self.rate_limits.share_among(self.store.count_instances().await?);
        Ok(())
    }

    /// The time of the server.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        moment::of_millis(self.clock.unix_millis()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    /// How the fields of a call of the wallet that arrives now are read. An empty `pay_priority` is the default of the
    /// settings, and `ts` is compared with the clock of the server (contract 3.1 and 3.3.12).
    #[must_use]
    pub fn reading_now(&self) -> Reading {
        self.config.reading(self.clock.unix_millis())
    }
}

impl Config {
    /// How the fields of a call of the wallet that arrives at this moment are read (contract 3.1 and 3.3).
    #[must_use]
    pub fn reading(&self, now_millis: i64) -> Reading {
        Reading::new(self.exchange.pay_priority_default, now_millis)
    }

    /// How strangers' URLs are fetched (contract 5.2).
    #[must_use]
    pub fn fetch_settings(&self) -> FetchSettings {
        self.guarded(&self.fetch.ports, &self.fetch.allow_networks)
    }

    /// The networks that notifications may reach (contract 12.4.10).
    #[must_use]
    pub fn notify_fetch_settings(&self) -> FetchSettings {
        self.guarded(&self.notify.ports, &self.notify.allow_networks)
    }

    fn guarded(&self, ports: &[u16], allow_networks: &[IpNet]) -> FetchSettings {
        FetchSettings {
            user_agent: USER_AGENT,
            accept: "image/png, image/jpeg",
            ports: ports.to_vec(),
            connect_timeout: self.fetch.connect_timeout,
            timeout: self.fetch.timeout,
            redirects_max: REDIRECTS_MAX,
            bytes_max: pictures::BYTES_MAX,
            url_bytes_max: WEB_URL_BYTES_MAX,
            concurrent_max: self.fetch.concurrent_max,
            concurrent_per_holder_max: self.fetch.concurrent_per_app_max,
            allow_networks: allow_networks.to_vec(),
        }
    }

    /// The limits of both listeners (contract 2.7).
    #[must_use]
    pub fn server_limits(&self) -> ServerLimits {
        ServerLimits {
            header_bytes_max: HEADER_BYTES_MAX,
            header_timeout: HEADER_TIMEOUT,
            keep_alive_timeout: self.http.keep_alive_timeout,
            write_timeout: self.http.write_timeout,
            request_bytes_max: REQUEST_BYTES_MAX,
            connections_max: self.http.connections_max,
            connections_per_address_max: self.http.connections_per_address_max,
            unlimited_networks: self.public.trusted_proxies.clone(),
            drain_timeout: self.http.drain_timeout,
        }
    }

    /// The settings that the store needs.
    ///
    /// # Panics
    /// Settings of pictures that [`Config::load`] would have refused.
    #[must_use]
    pub fn store_settings(&self) -> StoreSettings {
        StoreSettings {
            connections: self.database.connections,
            connections_at_start: self.database.connections,
            acquire_timeout: self.database.acquire_timeout,
            statement_timeout: self.database.statement_timeout,
            must_write: true,
            exchange_writers: self.exchange.writers,
            exchange_queue_max: self.exchange.queue_max,
            tokens_per_app: self.limits.tokens_per_app,
            picture_store: self.image.store,
            picture_stores: self.picture_stores().expect("these settings were checked when they were loaded"),
        }
    }
}
