//! The database takes half a second to answer, then locks each table for five seconds.
//!
//! The pool has four sessions, and there are 200 clients. Nobody waits past the deadline, health stays 200, a second
//! later all is as before, and nothing was acknowledged without a row.
//!
//! Seen to fail before the look-up of app and token counted into the deadline: an answer took 6.8 s. It failed before
//! all who wait for it shared it, too: 4.1 s passed until an exchange was made after the slow spell.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sqlx::Connection as _;
use tokio::task::JoinHandle;

use crate::service::Request;
use crate::service::program::ServerProcess;
use crate::support::caller::{Asked, Servers};
use crate::support::figures::Figures;
use crate::support::full_or_short;
use crate::support::load::{Kind, Load};
use crate::support::postgres::Postgres;
use crate::support::proxy::{Fault, Proxy};
use crate::support::stage::{Stage, Wallets};

const CLIENTS: usize = 200;
const SLOW: Duration = Duration::from_millis(500);
const LOCKED: Duration = Duration::from_secs(5);
/// The deadline of contract 9.5.1 is two seconds; the third is for the machine, as in "503 in under 3 seconds".
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
const NORMAL_WITHIN: Duration = Duration::from_secs(1);
const SETTLE_WITHIN: Duration = Duration::from_mins(1);

pub(crate) async fn prove() -> Figures {
    let (stage, postgres) = Stage::set(Wallets { count: 50, free: 1_000_000, charge: 1_000_000 }).await;
    let proxy = Proxy::start(postgres.socket_dir()).await;
    let program = stage.program.clone().with("DATABASE_URL", &proxy.url());
    let server = program.with("MINITILL_DATABASE__CONNECTIONS", "4").serve(None).await;
    let servers = Servers::new(&[server.address]);
    let load = Load::start(&stage, &servers, Kind { prefix: "slow", callers: CLIENTS, wallets: 50 });
    let health = Health::watch(server.operator_address);
    let mut figures = Figures::default();
    tokio::time::sleep(Duration::from_secs(1)).await;

    proxy.set(Fault::Delay(SLOW));
    tokio::time::sleep(Duration::from_secs(full_or_short(30, 8))).await;
    proxy.set(Fault::None);
    let mut recoveries = vec![("slow", normal_again(&stage, &server, "slow").await)];

    for table in ["wallets", "items", "ledger_entries", "apps", "access_tokens"] {
        tokio::time::sleep(Duration::from_secs(1)).await;
        lock(&postgres, table).await;
        recoveries.push((table, normal_again(&stage, &server, table).await));
    }

    load.stop().await;
    let worst = health.stop().await;
    figures.expect(worst < ANSWER_WITHIN, || format!("/healthz took {worst:?}"));
    // Health asks no database: what it takes is the machine's own delay, which is nobody's fault.
    for (what, took) in recoveries {
        figures.expect(took < NORMAL_WITHIN + worst, || format!("after {what}: normal after {took:?}"));
        figures.recovered_in(took);
    }
    let slowest = stage.meter.slowest();
    figures.expect(slowest < ANSWER_WITHIN + worst, || format!("an answer took {slowest:?}"));
    figures.expect(stage.meter.silent() == 0, || format!("{} got no answer", stage.meter.silent()));
    figures.note(format!(
        "{} acknowledged, {} answers were 503, the slowest took {slowest:?}, health {worst:?}",
        stage.meter.acknowledged(),
        stage.meter.unavailable()
    ));
    figures.add(stage.close_books(postgres.socket_dir()).await);
    figures
}

async fn lock(postgres: &Postgres, table: &str) {
    let mut sql = postgres.connect().await.unwrap();
    let statement = format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut sql).await.unwrap();
    tokio::time::sleep(LOCKED).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut sql).await.unwrap();
    sql.close().await.unwrap();
}

/// Until an exchange that is asked for now is made at the first try.
async fn normal_again(stage: &Stage, server: &ServerProcess, what: &str) -> Duration {
    let healed = Instant::now();
    let mut probe = stage.caller();
    for try_number in 0.. {
        let number = format!("after{}n{try_number}", what.replace('_', ""));
        let asked = Asked::exchange(number, "o0", 1, 0);
        if probe.ask(server.address, &asked).await.is_success() {
            break;
        }
        assert!(healed.elapsed() < SETTLE_WITHIN, "after {what}: nothing is made any more");
        probe.settle(&Servers::new(&[server.address]), &asked, SETTLE_WITHIN).await;
    }
    healed.elapsed()
}

/// Asks for `/healthz` all the time.
struct Health {
    stop: Arc<AtomicBool>,
    asking: JoinHandle<Duration>,
}

impl Health {
    fn watch(operator: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let asking = tokio::spawn(async move {
            let mut worst = Duration::ZERO;
            while !stopped.load(Ordering::SeqCst) {
                let started = Instant::now();
                let answer = Request::get("/healthz").send(operator).await;
                assert_eq!(answer.status, 200, "health stays good: {}", answer.body);
                worst = worst.max(started.elapsed());
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            worst
        });
        Self { stop, asking }
    }

    /// The longest that an answer took.
    async fn stop(self) -> Duration {
        self.stop.store(true, Ordering::SeqCst);
        self.asking.await.expect("health stayed good")
    }
}
