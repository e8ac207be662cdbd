//! Support code of tests, proofs and benchmarks. It has a server with its own database and clock for each test, and the
//! program as a process. It has an HTTP client that sends exact bytes, and throw-away PostgreSQL.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the tables as an operator would, with plain SQL"
)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "nobody outside of the tests uses this"
)]

pub mod bench;
pub mod callback;
pub mod cluster;
pub mod console;
pub mod game;
mod http;
pub mod program;
pub mod receiver;
pub mod s3;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use domain::app::{AppSettings, Category, Scope};
use domain::clock::{Clock, SystemClock};
use domain::ids::{AppId, CreditRef, ImgId, OpenId, PackageVersion, PagePath};
use domain::language::Language;
use domain::operation::app::{AppCommand, AppReport, NewAppSecrets, NewPayKey};
use domain::operation::wallet::Credit;
use domain::operator::{Operator, OperatorKind};
use http_server::OpenConnections;
use minitill::config::Config;
use minitill::operator;
use minitill::public::router;
use minitill::public::routes::{ROUTES, Route};
use minitill::state::AppState;
use sqlx::PgPool;
use store::secrets::Keyring;
use store::{AuditOptions, AuditReport, DatabaseAddress, KeepOutcome, Store, StoreError, StoreSettings};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use http::{Answer, Request, raw};

/// The test clock stands still here until a test moves it.
pub const NOW: i64 = 1_800_000_000_000;
/// Master key of all tests.
pub const MASTER_KEY: &str = "11111111111111111111111111111111111111111111111111111111111111ff";
/// The page that test apps publish.
pub const PAGE: &str = "pages/order/detail";
/// A path of tests alone, whose handler panics.
pub const PANICKING_PATH: &str = "/panics";
/// How long a test waits for what must come. It ends a test that hangs, and nothing is judged by it.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// A picture that is accepted.
pub const PICTURE: &[u8] = include_bytes!("../../../src/operator/demo-cover.png");

/// A clock that moves when it is told to.
#[derive(Debug)]
pub struct ManualClock {
    unix_millis: AtomicI64,
    monotonic: Mutex<Duration>,
}

impl ManualClock {
    pub fn advance(&self, by: Duration) {
        self.unix_millis.fetch_add(by.as_millis().try_into().unwrap(), Ordering::SeqCst);
        *self.monotonic.lock().unwrap() += by;
    }
}

impl Clock for ManualClock {
    fn unix_millis(&self) -> i64 {
        self.unix_millis.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        *self.monotonic.lock().unwrap()
    }
}

/// A running server with everything a test wants to look at.
pub struct TestTill {
    pub address: SocketAddr,
    pub operator_address: SocketAddr,
    pub till: AppState,
    pub store: Store,
    pub clock: Arc<ManualClock>,
    pub sql: PgPool,
    pub database_url: String,
    /// Dropped with the till: then the servers stop.
    _stop: watch::Sender<bool>,
}

/// An app as its developer knows it.
#[derive(Debug, Clone)]
pub struct TestApp {
    pub id: AppId,
    pub secret: String,
    pub pay_key: String,
    pub token: String,
}

/// The properties of a test app; the default has every right.
pub struct AppKind {
    pub category: Category,
    pub scopes: &'static [Scope],
    pub sandbox: bool,
    pub preorder_check: bool,
    /// Whether it has published a package with [`PAGE`].
    pub publishes: bool,
    pub language: Language,
}

impl Default for AppKind {
    fn default() -> Self {
        Self {
            category: Category::General,
            scopes: &[Scope::Epay],
            sandbox: false,
            preorder_check: false,
            publishes: true,
            language: Language::En,
        }
    }
}

/// The settings of tests: the defaults, without rate limits and with more patience.
pub fn test_config() -> Config {
    let variables = [
        ("MINITILL_DATABASE__CONNECTIONS", "2"),
        // A machine that is busy with other tests is no reason to answer 503.
        ("MINITILL_DATABASE__ACQUIRE_TIMEOUT", "1m"),
        ("MINITILL_DATABASE__STATEMENT_TIMEOUT", "1m"),
        ("MINITILL_EXCHANGE__DEADLINE", "1m"),
        ("MINITILL_IMAGE__STORE_TIMEOUT", "1m"),
        ("MINITILL_FETCH__CONNECT_TIMEOUT", "1m"),
        ("MINITILL_FETCH__TIMEOUT", "1m"),
        // All clients of a test have one address.
        ("MINITILL_HTTP__CONNECTIONS_PER_ADDRESS_MAX", "10000"),
        // Nor is a machine whose disk is nearly full.
        ("MINITILL_IMAGE__DISK_FREE_MIN", "0"),
        ("MINITILL_LIMITS__REPORTS_PER_SECOND", "0"),
        ("MINITILL_LIMITS__UPLOADS_PER_SECOND", "0"),
        ("MINITILL_LIMITS__TOKENS_PER_SECOND", "0"),
        ("MINITILL_LIMITS__LOGINS_PER_SECOND", "0"),
    ];
    let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    Config::load(None, variables).unwrap()
}

/// A database that holds the schema and nothing else.
pub async fn fresh_database() -> cluster::Database {
    cluster::create(async |url| {
        let address = DatabaseAddress::from_url(url).unwrap();
        let store = Store::connect(&address, test_config().store_settings(), Arc::new(SystemClock::new()))
            .await
            .unwrap();
        store.migrate(None).await.unwrap();
        store.close().await;
    })
    .await
}

/// The URL of a database without a schema. `name` is one test's own.
pub async fn empty_database(name: &str) -> String {
    cluster::create_empty(name).await.url
}

impl TestTill {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_on(fresh_database().await.url, change).await
    }

    /// A server on a database that may have others.
    pub async fn start_on(database_url: String, change: impl FnOnce(&mut Config)) -> Self {
        let address = database_url.clone();
        Self::start_by(&address, database_url, change).await
    }

    /// The same, where the server itself reaches the database by another address.
    pub async fn start_by(address: &str, database_url: String, change: impl FnOnce(&mut Config)) -> Self {
        // Both ends of every connection are this process's, and many systems let one have 1024 files.
        http_server::raise_open_files_limit().unwrap();
        let mut config = test_config();
        change(&mut config);
        let clock = Arc::new(ManualClock {
            unix_millis: AtomicI64::new(NOW),
            monotonic: Mutex::new(Duration::from_secs(1000)),
        });
        let address = DatabaseAddress::from_url(address).unwrap();
        // Each session is a process of PostgreSQL, which costs more than most tests.
        let settings = StoreSettings { connections_at_start: 1, ..config.store_settings() };
        let store = open(&address, &settings, &clock).await;
        let sql = PgPool::connect_lazy(&database_url).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let limits = config.server_limits();
        let till = AppState::new(config, clock.clone(), store.clone());
        let (stop, stopped) = watch::channel(false);
        let routes = with_panicking_route();
        tokio::spawn(http_server::serve(
            listener,
            None,
            router::with_routes(till.clone(), &routes),
            limits.clone(),
            till.connections.clone(),
            stopped.clone(),
        ));
        let operator = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let operator_address = operator.local_addr().unwrap();
        let (routes, open) = (operator::operator(&till, None), OpenConnections::default());
        tokio::spawn(http_server::serve(operator, None, routes, limits, open, stopped));
        Self { till, address, operator_address, store, clock, sql, database_url, _stop: stop }
    }

    /// An app with every right, a page and a token.
    pub async fn app(&self, id: &str) -> TestApp {
        self.app_like(id, AppKind::default()).await
    }

    pub async fn app_like(&self, id: &str, kind: AppKind) -> TestApp {
        let id = AppId::parse(id).unwrap();
        let settings = AppSettings {
            category: kind.category,
            scopes: kind.scopes.to_vec(),
            sandbox: kind.sandbox,
            preorder_check: kind.preorder_check,
            language: kind.language,
            ..AppSettings::default()
        };
        let made = self.store.carry_out(&operator(), &id, AppCommand::Create(settings)).await;
        let secrets = NewAppSecrets::try_from(made.expect("the id is new")).unwrap();
        let pages = vec![PagePath::parse(PAGE).unwrap()];
        let publish = AppCommand::Publish(PackageVersion::parse("1").unwrap(), pages);
        if kind.publishes {
            self.store.carry_out(&operator(), &id, publish).await.unwrap();
        }
        let (token, _) = self.store.issue_token(&id, Duration::from_hours(48)).await.unwrap().unwrap();
        TestApp { id, secret: secrets.app_secret, pay_key: secrets.pay_key, token }
    }

    /// Carries out a command on an app.
    pub async fn command(&self, app: &TestApp, command: AppCommand) -> AppReport {
        self.store.carry_out(&operator(), &app.id, command).await.unwrap()
    }

    /// Makes a new pay key of the app.
    pub async fn rotate_pay_key(&self, app: &TestApp) -> String {
        let rotated = self.command(app, AppCommand::RotatePayKey(None)).await;
        NewPayKey::try_from(rotated).unwrap().pay_key
    }

    /// Makes a player with this much in both purses.
    pub async fn player(&self, app: &TestApp, open_id: &str, free: i64, charge: i64) {
        let open_id = OpenId::parse(open_id).unwrap();
        let reference = CreditRef::parse(&format!("start-{open_id}")).unwrap();
        let credit = Credit { open_id, free, charge, reference, note: String::new(), create: true };
        self.store.change_wallet(&operator(), &app.id, credit).await.unwrap();
    }

    /// A picture of the app.
    pub async fn image(&self, app: &TestApp) -> ImgId {
        let kept = pictures::keep(PICTURE).unwrap();
        match self.store.keep_image(&app.id, kept, self.till.config.limits.image_quotas()).await.unwrap() {
            KeepOutcome::Kept(img_id) => img_id,
            other => panic!("the picture is not kept: {other:?}"),
        }
    }

    pub async fn purses(&self, app: &TestApp, open_id: &str) -> (i64, i64, i64) {
        let wallet = self.store.wallet(&app.id, &OpenId::parse(open_id).unwrap()).await.unwrap().unwrap();
        (wallet.free_balance, wallet.charge_balance, wallet.entries)
    }

    /// One number that a statement gives.
    pub async fn number(&self, statement: &str) -> i64 {
        sqlx::query_scalar(sqlx::AssertSqlSafe(statement)).fetch_one(&self.sql).await.unwrap()
    }

    /// Waits until this many sessions of the database wait for a lock.
    pub async fn until_locked_out(&self, sessions: i64) {
        let waiting = "SELECT count(*) FROM pg_stat_activity \
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        until(&format!("{sessions} sessions wait for a lock"), async || {
            self.number(waiting).await == sessions
        })
        .await;
    }

    /// Runs statements by hand, as an operator with psql would.
    pub async fn execute(&self, statements: &str) {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).execute(&self.sql).await.unwrap();
    }

    /// The URL of this database for a new role with these rights, in which ` minitill;` stands for the role. The roles of
    /// all databases of a cluster share their names, so the role has the name of its database.
    pub async fn url_of_role(&self, rights: &str) -> String {
        let role: String =
            sqlx::query_scalar("SELECT 'role_of_' || current_database()").fetch_one(&self.sql).await.unwrap();
        let rights = rights.replace(" minitill;", &format!(" {role};"));
        self.execute(&format!("DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN; {rights}")).await;
        let user = self.database_url.split("//").nth(1).unwrap().split('@').next().unwrap().to_owned();
        self.database_url.replacen(&user, &role, 1)
    }

    pub async fn send(&self, request: Request) -> Answer {
        request.send(self.address).await
    }

    /// Audits, and continues from a checkpoint if there is one.
    pub async fn audit(&self, since: Option<&Path>) -> AuditReport {
        let options = AuditOptions { since: since.map(Path::to_owned), checkpoint: None };
        self.store.audit(options, Box::new(|_, _| {})).await.unwrap()
    }

    /// Nothing in the books differs.
    pub async fn assert_audit_clean(&self) {
        let report = self.audit(None).await;
        assert!(report.clean, "{report:?}");
    }
}

/// Opens the store, again and again if its limits are short and the machine is slow.
async fn open(address: &DatabaseAddress, settings: &StoreSettings, clock: &Arc<ManualClock>) -> Store {
    let keyring = Keyring::parse(MASTER_KEY, "tests").unwrap();
    let started = Instant::now();
    // A loop of its own: the proofs need a future that can be sent, and a waiting closure makes none.
    loop {
        match Store::connect(address, settings.clone(), clock.clone()).await {
            Ok(store) if store.unlock(&keyring).await.is_ok() => return store,
            Ok(_) | Err(StoreError::Unavailable(..)) => {}
            Err(fault) => panic!("{fault}"),
        }
        assert!(started.elapsed() < PATIENCE, "expected that the store opens");
    }
}

/// The route table, and one route more whose handler panics.
fn with_panicking_route() -> Vec<Route> {
    let mut routes = ROUTES.to_vec();
    routes.push(Route {
        path: PANICKING_PATH,
        handler: || {
            axum::routing::on(axum::routing::MethodFilter::POST, async || -> () { panic!("a secret detail") })
        },
        ..ROUTES[0]
    });
    routes
}

/// A file of the project, as text: its path from the top of the repository.
pub fn committed(path: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Waits until this holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < PATIENCE, "expected that {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Percent-encodes as a query or a form needs it.
pub fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The fields of a form, percent-encoded and joined.
pub fn form(fields: &[(&str, &str)]) -> String {
    fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&")
}

/// The command that blocks a picture without its near copies.
#[must_use]
pub fn block(contents: &store::BlobHash, reason: &str) -> domain::operation::image::ImageCommand {
    let (picture, reason) = (*contents.as_array(), reason.to_owned());
    domain::operation::image::ImageCommand::Block { picture, near_copies: Vec::new(), reason }
}

/// The operator of changes in tests.
pub fn operator() -> Operator {
    Operator::new(OperatorKind::CommandLine, "tests").unwrap()
}
