//! The database is away (contract 9.5.3): 503 in under 3 seconds, in the envelope, with nothing done.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use domain::clock::SystemClock;
use domain::console_user::Role;
use domain::operation::wallet::CreditsForAll;
use serde_json::Value;
use sqlx::Connection as _;
use store::{DatabaseAddress, Store, StoreError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::admin::Caller;
use crate::game::Game;
use crate::support::cluster::USER;
use crate::support::program::{Program, free_address};
use crate::support::{
    PATIENCE, Request, TestTill, committed, empty_database, fresh_database, operator, test_config, until,
};
use crate::topups;

#[tokio::test(flavor = "multi_thread")]
async fn every_endpoint_answers_503_quickly_and_recovers_by_itself() {
    let patient = TestTill::start().await;
    let till = TestTill::start_on(patient.database_url.clone(), |config| {
        // The defaults, which the other tests do without.
        config.database.acquire_timeout = Duration::from_millis(1500);
        config.exchange.deadline = Duration::from_secs(2);
    })
    .await;
    let app = patient.app("a1").await;
    patient.player(&app, "o1", 0, 100).await;
    let game = Game::new(&app, "o1", "b1", 10);
    assert_eq!(Game::balance(&app, "o1").send_until_served(&till).await.code(), 1);
    let name: String =
        sqlx::query_scalar("SELECT current_database()::text").fetch_one(&till.sql).await.unwrap();
    till.sql.close().await;
    // Nobody may connect, and every session is ended: what a database that is away looks like.
    let admin = sqlx::PgPool::connect(&till.database_url.replace(&name, "postgres")).await.unwrap();
    let close = format!(
        "ALTER DATABASE {name} ALLOW_CONNECTIONS false; \
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(close)).execute(&admin).await.unwrap();
    // Once with look-ups remembered, once with them forgotten.
    for _ in 0..2 {
        let query = format!("app_id=a1&access_token={}", app.token);
        let report = Request::post(&format!("/openapi/mp/developer/order/v1/report?{query}")).body(format!(
            r#"{{"out_biz_order_no":"order1","out_order_no":"order1","open_id":"o1","order_create_time":1700000000000,
                "order_status":1,"order_path":"pages/order/detail","product_cover_img_id":"{}"}}"#,
            "0".repeat(48)
        ));
        let token = Request::get(&format!(
            "/oauth2/access_token?app_id=a1&app_secret={}&grant_type=client_credentials",
            app.secret
        ));
        for request in [game.request(), report, token] {
            let answer = till.send(request).await;
            assert_eq!(
                (answer.status, answer.code(), answer.header("retry-after")),
                (503, 10_000_500, Some("1")),
                "{}",
                answer.body
            );
            assert_eq!(answer.message(), "the service is not available now, try again");
        }
        till.clock.advance(Duration::from_secs(5));
    }
    let health = Request::get("/healthz").send(till.operator_address).await;
    assert_eq!(health.status, 200);
    let open = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true");
    sqlx::raw_sql(sqlx::AssertSqlSafe(open)).execute(&admin).await.unwrap();
    assert_eq!(game.send_until_served(&till).await.code(), 1);
    assert_eq!(patient.purses(&app, "o1").await, (0, 90, 2));
    patient.assert_audit_clean().await;
}

/// After a failover the old address may lead to a standby for a while, whose sessions last and take no
/// writes. They are not kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_takes_no_writes_is_left_for_one_that_does() {
    let patient = TestTill::start().await;
    let till = TestTill::start_on(patient.database_url.clone(), |config| {
        // A request waits this long for a session that takes writes.
        config.database.acquire_timeout = Duration::from_millis(500);
        config.exchange.deadline = Duration::from_millis(500);
    })
    .await;
    let app = patient.app("a1").await;
    patient.player(&app, "o1", 0, 100).await;
    let game = Game::new(&app, "o1", "b1", 10);
    let name: String =
        sqlx::query_scalar("SELECT current_database()::text").fetch_one(&till.sql).await.unwrap();
    let admin = sqlx::PgPool::connect(&till.database_url.replace(&name, "postgres")).await.unwrap();
    let read_only = format!(
        "ALTER DATABASE {name} SET default_transaction_read_only = on; \
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(read_only)).execute(&admin).await.unwrap();
    for _ in 0..3 {
        let answer = game.send(&till).await;
        assert_eq!((answer.status, answer.code()), (503, 10_000_500), "{}", answer.body);
    }
    let unready = r#"{"reason":"the database takes no writes","status":"not ready"}"#;
    assert_eq!(ready(&till).await, (503, unready.to_owned()));
    let writable = format!("ALTER DATABASE {name} RESET default_transaction_read_only");
    sqlx::raw_sql(sqlx::AssertSqlSafe(writable)).execute(&admin).await.unwrap();
    assert_eq!(game.send_until_served(&till).await.code(), 1);
    assert_eq!(ready(&till).await.0, 200);
    assert_eq!(patient.purses(&app, "o1").await, (0, 90, 2));
    patient.assert_audit_clean().await;
}

/// Status and body of `readyz`.
async fn ready(till: &TestTill) -> (u16, String) {
    let answer = Request::get("/readyz").send(till.operator_address).await;
    (answer.status, answer.body)
}

/// Rule 9.7.2: sessions that last do not hide that writers get no new one. Without any request the server is ready again.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_writers_get_no_session_is_not_ready_until_they_may() {
    let patient = TestTill::start().await;
    let app = patient.app("a1").await;
    patient.player(&app, "o1", 0, 100).await;
    // The limits of sessions do not hold for a superuser.
    let url = patient.url_of_role(&committed("deploy/rights.sql")).await;
    let role = url.split("//").nth(1).unwrap().split('@').next().unwrap().to_owned();
    let till = TestTill::start_on(url, |_| {}).await;
    assert_eq!(Game::new(&app, "o1", "b1", 10).send_until_served(&till).await.code(), 1);
    assert_eq!(ready(&till).await.0, 200);
    let writers_end = format!(
        "ALTER ROLE {role} CONNECTION LIMIT 0; \
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}' AND query LIKE '%entered AS (%'"
    );
    patient.execute(&writers_end).await;
    let writers = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = '{role}' AND query LIKE '%entered AS (%'"
    );
    until("the writer's session ends", async || patient.number(&writers).await == 0).await;
    let game = Game::new(&app, "o1", "b2", 10);
    assert_eq!(game.send(&till).await.status, 503);
    let unready = r#"{"reason":"the database gives no new session","status":"not ready"}"#.to_owned();
    assert_eq!(ready(&till).await, (503, unready.clone()));
    assert_eq!(ready(&till).await, (503, unready), "it lasts");
    patient.execute(&format!("ALTER ROLE {role} CONNECTION LIMIT -1")).await;
    assert_eq!(ready(&till).await, (200, r#"{"status":"ready"}"#.to_owned()));
    assert_eq!(game.send(&till).await.code(), 1);
    assert_eq!(patient.purses(&app, "o1").await, (0, 80, 3));
    patient.assert_audit_clean().await;
}

/// A host of the database: a port of this machine that leads to the test's PostgreSQL until it is cut off.
struct Host {
    serving: JoinSet<()>,
    silence: Arc<Notify>,
}

/// What a new session meets behind an address.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Meets {
    Primary,
    Standby,
    Nobody,
}

impl Host {
    async fn at(address: SocketAddr, database_url: &str) -> Self {
        Self::leading(address, database_url, |_| Meets::Primary).await
    }

    /// A host that looks at the number of each new session.
    async fn leading(
        address: SocketAddr,
        database_url: &str,
        meets: impl Fn(usize) -> Meets + Send + 'static,
    ) -> Self {
        let (rest, query) = database_url.split_once('?').unwrap();
        let (_, folder) = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "host").unwrap();
        let socket = format!("{folder}/.s.PGSQL.5432");
        let name = rest.rsplit('/').next().unwrap().to_owned();
        // It may write whatever the database's own setting says at the moment.
        let options: sqlx::postgres::PgConnectOptions = database_url.parse().unwrap();
        let options = options.options([("default_transaction_read_only", "off")]);
        let admin = sqlx::PgPool::connect_lazy_with(options);
        let listener = TcpListener::bind(address).await.unwrap();
        let (mut serving, silence) = (JoinSet::new(), Arc::new(Notify::new()));
        let falls_silent = Arc::clone(&silence);
        serving.spawn(async move {
            let mut sessions = JoinSet::new();
            let mut before = Meets::Primary;
            for number in 0.. {
                let (mut client, _) = listener.accept().await.unwrap();
                let now = meets(number);
                if now == Meets::Nobody {
                    continue;
                }
                if now != before {
                    let is_standby = now == Meets::Standby;
                    let change =
                        format!("ALTER DATABASE {name} SET default_transaction_read_only = {is_standby}");
                    sqlx::raw_sql(sqlx::AssertSqlSafe(change)).execute(&admin).await.unwrap();
                    before = now;
                }
                let mut server = UnixStream::connect(&socket).await.unwrap();
                let falls_silent = Arc::clone(&falls_silent);
                sessions.spawn(async move {
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        () = falls_silent.notified() => std::future::pending().await,
                    }
                });
            }
        });
        Self { serving, silence }
    }

    /// From now on its present sessions stay open and answer nothing, as those of a host whose network is cut. New ones are
    /// served.
    fn fall_silent(&self) {
        self.silence.notify_waiters();
    }

    /// Ends all its sessions, and refuses new ones.
    async fn cut_off(mut self) {
        self.serving.shutdown().await;
    }
}

/// Rule: with several hosts in `database.url`, a server uses the one that takes writes, and follows it.
#[tokio::test(flavor = "multi_thread")]
async fn the_host_that_takes_writes_is_followed_from_one_to_the_other() {
    let database = fresh_database().await;
    let addresses = [free_address(), free_address()];
    let first = Host::at(addresses[0], &database.url).await;
    let hosts = addresses.map(|address| address.to_string()).join(",");
    let url = behind(hosts, &database.url) + "&target_session_attrs=read-write";
    let till = TestTill::start_by(&url, database.url.clone(), |config| {
        config.database.acquire_timeout = Duration::from_millis(1500);
        config.exchange.deadline = Duration::from_secs(2);
    })
    .await;
    let patient = TestTill::start_on(database.url.clone(), |_| {}).await;
    let app = patient.app("a1").await;
    patient.player(&app, "o1", 0, 100).await;
    assert_eq!(Game::new(&app, "o1", "b1", 10).send_until_served(&till).await.code(), 1);
    first.cut_off().await;
    let away = Game::new(&app, "o1", "b2", 10).send(&till).await;
    assert_eq!((away.status, away.code()), (503, 10_000_500), "{}", away.body);
    let second = Host::at(addresses[1], &database.url).await;
    // It follows by itself.
    assert_eq!(Game::new(&app, "o1", "b2", 10).send_until_served(&till).await.code(), 1);
    assert_eq!(patient.purses(&app, "o1").await, (0, 80, 3));
    // The audit reads through the pool.
    till.assert_audit_clean().await;
    let first = Host::at(addresses[0], &database.url).await;
    second.cut_off().await;
    // It goes back by itself.
    assert_eq!(Game::new(&app, "o1", "b3", 10).send_until_served(&till).await.code(), 1);
    till.assert_audit_clean().await;
    drop(first);
}

/// The address of a database by way of other hosts.
fn behind(hosts: impl Display, database_url: &str) -> String {
    let name = database_url.split(['/', '?']).nth(3).unwrap();
    format!("postgres://{USER}@{hosts}/{name}?sslmode=disable")
}

/// A till whose sessions go by a host that can fall silent.
async fn till_behind_a_host(database_url: &str, statement_timeout: Duration) -> (Host, TestTill) {
    let address = free_address();
    let host = Host::at(address, database_url).await;
    let till = TestTill::start_by(&behind(address, database_url), database_url.to_owned(), |config| {
        config.database.acquire_timeout = Duration::from_millis(500);
        config.database.statement_timeout = statement_timeout;
    })
    .await;
    (host, till)
}

/// Rules 9.5.1 and 19.3.1: sessions that fall silent keep no payment waiting for longer than their statements may take.
#[tokio::test(flavor = "multi_thread")]
async fn payments_leave_a_session_that_falls_silent() {
    let database = fresh_database().await;
    let (host, till) = till_behind_a_host(&database.url, Duration::from_millis(300)).await;
    let app = topups::app(&till).await;
    let caller = Caller::new(&till, "payments", Role::Payments).await;
    topups::order(&till, &app, "t1").await;
    let until_told = async |told: Value, status: u16| {
        let telling = async {
            while topups::tell(&caller, &told).await.status != status {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, telling).await.expect("a new session is opened");
    };
    // One is credited on what was read, and one goes through the session that locks.
    until_told(topups::payment("pi_1", "t1"), 200).await;
    until_told(topups::payment("pi_2", "nobodys"), 202).await;
    host.fall_silent();
    // A payment for a player has no order to be read first, so it meets the session that locks.
    let mut direct = topups::payment("pi_3", "");
    direct.as_object_mut().unwrap().remove("biz_no");
    (direct["open_id"], direct["product_id"]) = ("o1".into(), "gems60".into());
    until_told(direct, 200).await;
    let patient = TestTill::start_on(database.url.clone(), |_| {}).await;
    assert_eq!(patient.purses(&app, "o1").await, (52, 220, 3));
    patient.assert_audit_clean().await;
}

/// Rules 8.3.15 and 9.5.12: a transaction whose session falls silent is given up, and a gift goes on in another session.
#[tokio::test(flavor = "multi_thread")]
async fn a_gift_leaves_a_session_that_falls_silent() {
    let database = fresh_database().await;
    let (host, till) = till_behind_a_host(&database.url, Duration::from_secs(1)).await;
    let patient = TestTill::start_on(database.url.clone(), |_| {}).await;
    let app = patient.app("a1").await;
    patient.player(&app, "o1", 1, 0).await;
    let (free, ref_prefix, note) = (Some(5), Some("fair".to_owned()), "outage".to_owned());
    let for_all = CreditsForAll { free, ref_prefix, note, ..CreditsForAll::default() };
    let gift = patient.store.draft_gift(&app.id, &for_all, b"o1").await.unwrap().unwrap();
    patient.store.start_gift(&operator(), &app.id, &gift.name).await.unwrap();
    let mut holder = sqlx::PgConnection::connect(&database.url).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT FROM wallets FOR UPDATE").execute(&mut holder).await.unwrap();
    let store = till.store.clone();
    let crediting = tokio::spawn(async move {
        while !matches!(store.credit_gift_lines().await, Ok(true)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    till.until_locked_out(1).await;
    host.fall_silent();
    // The database ends the statement, and nobody hears it.
    till.until_locked_out(0).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    tokio::time::timeout(PATIENCE, crediting).await.expect("a new session is opened").unwrap();
    assert_eq!(patient.purses(&app, "o1").await, (6, 0, 2));
    patient.assert_audit_clean().await;
}

/// Rule 9.5.12: a look-up whose session falls silent is given up, and the session leaves its place in the pool. Strangers
/// have one session here.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_up_leaves_a_session_that_falls_silent() {
    let database = fresh_database().await;
    let (host, till) = till_behind_a_host(&database.url, Duration::from_secs(1)).await;
    let patient = TestTill::start_on(database.url.clone(), |_| {}).await;
    let app = patient.app("a1").await;
    patient.player(&app, "o1", 0, 100).await;
    let mut holder = sqlx::PgConnection::connect(&database.url).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE apps").execute(&mut holder).await.unwrap();
    let game = Game::new(&app, "o1", "b1", 10);
    let asking = async { while game.send(&till).await.status == 503 {} };
    tokio::select! {
        () = asking => panic!("nobody can read the app"),
        () = patient.until_locked_out(1) => {}
    }
    host.fall_silent();
    // The database ends the statement, and nobody hears it.
    patient.until_locked_out(0).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    assert_eq!(game.send_until_served(&till).await.code(), 1);
    assert_eq!(patient.purses(&app, "o1").await, (0, 90, 2));
    patient.assert_audit_clean().await;
}

/// Contract 9.3.5: a start waits for an address that leads to a standby or to nobody, whichever of its sessions
/// meets them. `HAProxy` does so until it has asked all hosts.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_waits_for_an_address_that_does_not_lead_to_the_primary_yet() {
    let mut starts = JoinSet::new();
    for wrong in [Meets::Standby, Meets::Nobody] {
        starts.spawn(async move {
            for first in 0..8 {
                // It has to migrate, too.
                let database_url = empty_database(&format!("start_{wrong:?}_{first}").to_lowercase()).await;
                let address = free_address();
                let meets =
                    move |number| if (first..first + 2).contains(&number) { wrong } else { Meets::Primary };
                let host = Host::leading(address, &database_url, meets).await;
                Program::on(&behind(address, &database_url)).serve(None).await.terminate();
                drop(host);
            }
        });
    }
    starts.join_all().await;
}

/// Rule 9.3.5: while a start waits, the log says once for what, and where that is.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_waits_says_once_for_what_and_where() {
    let folder = std::env::temp_dir().join(format!("minitill-waits-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let log = folder.join("log");
    let program = Program::on("postgres://nobody:s3cret@127.0.0.1:1/none")
        .with("MINITILL_PUBLIC__LISTEN", "127.0.0.1:0")
        .with("MINITILL_OPS__LISTEN", "127.0.0.1:0");
    let file = std::fs::File::create(&log).unwrap();
    let mut waiting = program.command(&["serve"]).stderr(file).spawn().unwrap();
    let written = || std::fs::read_to_string(&log).unwrap();
    until("it waits", async || written().contains("waiting for the database")).await;
    // It tries again four times in this time.
    tokio::time::sleep(Duration::from_secs(1)).await;
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    let text = written();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(text.matches("waiting for the database").count(), 1, "{text}");
    assert!(text.contains("(127.0.0.1:1, database none)") && !text.contains("s3cret"), "{text}");
}

/// Rule 9.3.5: a start does not wait for a database that there is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_does_not_wait_for_a_database_that_does_not_exist() {
    let url = fresh_database().await.url;
    let name = url.split(['/', '?']).nth(3).unwrap();
    let program = Program::on(&url.replace(name, "nowhere"))
        .with("MINITILL_PUBLIC__LISTEN", "127.0.0.1:0")
        .with("MINITILL_OPS__LISTEN", "127.0.0.1:0");
    let complaint = program.complaint(&["serve"]);
    let start = "minitill: the database is not available: 3D000: database \"nowhere\" does not exist (";
    assert!(complaint.starts_with(start) && complaint.ends_with(", database nowhere)\n"), "{complaint}");
}

/// Rule: a server that starts does not wait for a database that lets it in and then falls silent.
#[tokio::test]
async fn a_database_that_falls_silent_after_the_greeting_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://minitill@{}/minitill?sslmode=disable", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut session, _) = listener.accept().await.unwrap();
        let _ = session.read(&mut [0; 1024]).await.unwrap();
        // It is let in, and may send statements.
        session.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await.unwrap();
        std::future::pending::<()>().await;
    });
    let mut settings = test_config().store_settings();
    settings.acquire_timeout = Duration::from_millis(300);
    let address = DatabaseAddress::from_url(&url).unwrap();
    let connecting = Store::connect(&address, settings, Arc::new(SystemClock::new()));
    let refused = tokio::time::timeout(PATIENCE, connecting).await.expect("it gives up").unwrap_err();
    assert!(matches!(&refused, StoreError::Unavailable(_, why) if why == "it does not answer"), "{refused}");
}
