//! No wrong clock makes an idempotency key deduct twice.
//!
//! Contract 3.3.3, 3.3.4 and 3.3.9: a number belongs to its app for ever and deducts at most once, ever. For 48 hours
//! its repeat is answered with the original data, then it is refused as expired.
//!
//! Three servers share one database: one has the right time, one is an hour ahead, one an hour behind. Numbers that
//! each of them has deducted are made as old as needed: the database's clock decides, so the rows are moved back. They
//! are repeated at all three, many at a time, with old, present and ancient `ts`, the same and other content.
//!
//! Seen to fail when records never grew old (48 h 01 was replayed), and when `ts` was judged before the number.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use domain::clock::{Clock, SystemClock};
use minitill::public::router;
use minitill::state::AppState;
use store::secrets::Keyring;
use store::{DatabaseAddress, Store};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::calls::{exchange, now, try_send};
use crate::service::{Answer, MASTER_KEY, TestApp, TestTill, test_config};
use crate::support::figures::Figures;
use crate::support::full_or_short;

const HOUR: i64 = 3_600_000;
const START: i64 = 1_000_000;
const AMOUNT: i64 = 7;
/// How old a number is, in minutes, and whether its repeats are still answered.
const AGES: [(i64, bool); 4] = [(0, true), (48 * 60 - 1, true), (48 * 60 + 1, false), (30 * 24 * 60, false)];

/// The machine's clock, wrong by some milliseconds.
#[derive(Debug)]
struct WrongClock {
    machine: SystemClock,
    off_by: i64,
}

impl Clock for WrongClock {
    fn unix_millis(&self) -> i64 {
        self.machine.unix_millis() + self.off_by
    }

    fn monotonic(&self) -> Duration {
        self.machine.monotonic()
    }
}

/// A server on a database that has others, with a clock of its own.
struct Server {
    address: SocketAddr,
    off_by: i64,
    _stop: watch::Sender<bool>,
}

impl Server {
    async fn start(database_url: &str, off_by: i64) -> Self {
        let config = test_config();
        let clock = Arc::new(WrongClock { machine: SystemClock::new(), off_by });
        let database = DatabaseAddress::from_url(database_url).unwrap();
        let store = Store::connect(&database, config.store_settings(), clock.clone()).await.unwrap();
        store.unlock(&Keyring::parse(MASTER_KEY, "proofs").unwrap()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let limits = config.server_limits();
        let (stop, stopped) = watch::channel(false);
        let till = AppState::new(config, clock, store);
        let open = till.connections.clone();
        tokio::spawn(http_server::serve(listener, None, router::public(till), limits, open, stopped));
        Self { address, off_by, _stop: stop }
    }

    /// What a game server with the same clock sends as `ts`.
    fn ts(&self) -> i64 {
        now() + self.off_by
    }
}

/// A number that was deducted once.
struct Deducted {
    biz_no: String,
    ts: i64,
    answer: Answer,
    is_replayed: bool,
}

struct Proof {
    till: TestTill,
    app: TestApp,
    servers: Vec<Server>,
    requests: u64,
}

pub(crate) async fn prove() -> Figures {
    let mut proof = Proof::start().await;
    proof.a_server_whose_clock_is_behind_refuses_and_takes_nothing().await;
    let numbers = proof.deduct_and_age().await;
    let before = proof.books().await;
    let repeats = full_or_short(20, 2);
    for number in &numbers {
        for server in 0..proof.servers.len() {
            proof.repeat(number, server, repeats).await;
        }
        assert_eq!(proof.books().await, before, "{}: nothing was written", number.biz_no);
    }
    let count = i64::try_from(numbers.len()).unwrap();
    assert_eq!(before, (count, START - AMOUNT * count));
    // The entries get their times again, which the hash chain covers.
    proof
        .till
        .execute("UPDATE ledger_entries e SET at = w.at FROM written w WHERE w.reference = e.reference")
        .await;
    proof.till.assert_audit_clean().await;
    let mut figures = Figures { numbers: numbers.len(), ..Figures::default() };
    figures.note(format!(
        "{} requests by servers an hour apart, with numbers up to 30 days old",
        proof.requests
    ));
    figures
}

impl Proof {
    async fn start() -> Self {
        let till = TestTill::start().await;
        let app = till.app("a1").await;
        till.player(&app, "o1", 0, START).await;
        let mut servers = Vec::new();
        for off_by in [0, HOUR, -HOUR] {
            servers.push(Server::start(&till.database_url, off_by).await);
        }
        Self { till, app, servers, requests: 0 }
    }

    /// Number of records, and what is left.
    async fn books(&self) -> (i64, i64) {
        let records = self.till.number("SELECT count(*) FROM ledger_entries WHERE kind = 'exchange'").await;
        let (free, charge, entries) = self.till.purses(&self.app, "o1").await;
        assert_eq!((free, entries), (0, records + 1), "one entry a record");
        (records, charge)
    }

    async fn send(&mut self, server: usize, biz_no: &str, amount: i64, ts: i64) -> Answer {
        self.requests += 1;
        let request = exchange(&self.app, "o1", biz_no, amount, ts);
        try_send(self.servers[server].address, &request).await.expect("a server that runs answers")
    }

    /// An honest client is an hour ahead of a server that is an hour behind.
    async fn a_server_whose_clock_is_behind_refuses_and_takes_nothing(&mut self) {
        let answer = self.send(2, "honest", AMOUNT, now()).await;
        assert_eq!(answer.code(), 10_000_604, "{}", answer.body);
        // To one that is ahead the client is an hour behind, which is within the window.
        let ancient = self.send(1, "honest", AMOUNT, now() - 47 * HOUR - HOUR / 2).await;
        assert_eq!(ancient.code(), 10_000_604, "{}", ancient.body);
        assert_eq!(self.books().await, (0, START));
    }

    /// One number for each server and age, deducted now, its record then moved back.
    async fn deduct_and_age(&mut self) -> Vec<Deducted> {
        let mut numbers = Vec::new();
        for server in 0..self.servers.len() {
            for (minutes, is_replayed) in AGES {
                let biz_no = format!("s{server}m{minutes}");
                let ts = self.servers[server].ts();
                let answer = self.send(server, &biz_no, AMOUNT, ts).await;
                assert_eq!(answer.code(), 1, "{}", answer.body);
                let aged = format!(
                    "CREATE TABLE IF NOT EXISTS written (reference text, at timestamptz); \
                     INSERT INTO written SELECT reference, at FROM ledger_entries WHERE reference = '{biz_no}'; \
                     UPDATE ledger_entries SET at = at - interval '{minutes} minutes' WHERE reference = '{biz_no}'"
                );
                self.till.execute(&aged).await;
                numbers.push(Deducted { biz_no, ts, answer, is_replayed });
            }
        }
        numbers
    }

    /// The same number again at one server, `repeats` at a time for each `ts` and content.
    async fn repeat(&mut self, number: &Deducted, server: usize, repeats: usize) {
        let present = self.servers[server].ts();
        for ts in [number.ts, present, present - 60 * 24 * HOUR, present + HOUR] {
            for amount in [AMOUNT, AMOUNT + 1] {
                let request = exchange(&self.app, "o1", &number.biz_no, amount, ts);
                let address = self.servers[server].address;
                let sent = (0..repeats).map(|_| try_send(address, &request));
                for answer in futures_util::future::join_all(sent).await {
                    self.requests += 1;
                    let answer = answer.expect("a server that runs answers");
                    let context = format!("{} at server {server}, ts {ts}: {}", number.biz_no, answer.body);
                    match (number.is_replayed, amount == AMOUNT) {
                        (true, true) => {
                            assert_eq!(answer.body, number.answer.body, "{context}");
                            assert_eq!(answer.header("idempotent-replayed"), Some("true"), "{context}");
                        }
                        (true, false) => assert_eq!(answer.code(), 10_000_602, "{context}"),
                        (false, true | false) => assert_eq!(answer.code(), 10_000_603, "{context}"),
                    }
                }
            }
        }
    }
}
