//! A dump that is restored elsewhere holds the same balances, records, keys and pictures.
//!
//! Contract 3.3.5 and 9.4.6.
//!
//! PostgreSQL's own `pg_dump` and `pg_restore` carry everything over. First at rest: every row of every table and the
//! schema are the same. A new server on the restored database replays old numbers byte for byte, and knows the old
//! tokens and keys. It adds no event for an identical report, serves the same pictures, makes new exchanges, and
//! refuses another master key. The same into the private PostgreSQL of a server that runs, as README.md says, which
//! must go on with what was restored under it. Then under load: what was acknowledged before the dump began is in it,
//! and its audit is clean.
//!
//! Seen to fail when any master key was taken for the right one.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::app::Scope;
use domain::ids::{OrderNo, PoiId};
use domain::operation::app::AppCommand;
use private_postgres::Programs;
use sqlx::PgPool;
use tokio::task::JoinSet;

use crate::calls::{exchange, now, picture, report, token, try_send, upload};
use crate::digests::digests;
use crate::private::{self, text};
use crate::service::cluster::USER;
use crate::service::game::Game;
use crate::service::program::Program;
use crate::service::{Answer, AppKind, PICTURE, Request, TestApp, TestTill, empty_database};
use crate::support::figures::Figures;
use crate::support::full_or_short;

const START: i64 = 1_000_000;
const PLAYERS: usize = 5;

/// A till with some history, and what was answered.
struct Proof {
    till: TestTill,
    app: TestApp,
    /// Each call that uses a number, and its answer.
    asked: Vec<(Game, Answer)>,
    images: Vec<String>,
    reports: Vec<Request>,
}

/// A folder that goes with the proof.
struct Folder(PathBuf);

impl Folder {
    /// One that PostgreSQL's user may enter.
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("minitill-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) async fn prove() -> Figures {
    let mut figures = Figures::default();
    if !Programs::find(None).is_ok_and(|programs| programs.path("pg_dump").exists()) {
        figures.note("SKIPPED: needs pg_dump and pg_restore beside PostgreSQL's programs");
        return figures;
    }
    let mut proof = Proof::with_history().await;
    proof.at_rest(&mut figures).await;
    proof.under_a_running_server(&mut figures).await;
    proof.under_load(&mut figures).await;
    figures.numbers = proof.asked.len();
    figures
}

impl Proof {
    async fn with_history() -> Self {
        let till = TestTill::start().await;
        let app = till.app_like("a1", AppKind { scopes: &Scope::ALL, ..AppKind::default() }).await;
        for player in 0..PLAYERS {
            till.player(&app, &format!("o{player}"), START, START).await;
        }
        till.command(&app, AppCommand::AddPois(vec![PoiId::parse("poi1").unwrap()])).await;
        till.command(&app, AppCommand::AddPreorders(vec![OrderNo::parse("preorder1").unwrap()])).await;
        till.rotate_pay_key(&app).await;
        let mut proof = Self { till, app, asked: Vec::new(), images: Vec::new(), reports: Vec::new() };
        for number in 0..full_or_short(2000, 200) {
            let game = proof.call(number);
            let answer = game.send(&proof.till).await;
            assert_eq!(answer.code(), 1, "{}", answer.body);
            proof.asked.push((game, answer));
        }
        for bytes in [picture(1), picture(2), PICTURE.to_vec()] {
            let uploaded = proof.till.send(upload(&proof.app, &bytes)).await;
            proof.images.push(uploaded.json()["data"]["imgId"].as_str().unwrap().to_owned());
        }
        // A small copy is kept as well.
        assert_eq!(
            proof.till.send(Request::get(&format!("/img/{}?w=120", proof.images[2]))).await.status,
            200
        );
        for (index, status) in [1, 2, 11].into_iter().enumerate() {
            let request = report(&proof.app, &format!("order-{index}"), "o1", &proof.images[index], status);
            assert_eq!(proof.till.send(request.clone()).await.code(), 1);
            proof.reports.push(request);
        }
        proof
    }

    /// Of ten calls seven are exchanges, one is a present, one cancels an exchange, and one closes its number.
    fn call(&self, number: usize) -> Game {
        let (biz_no, open_id) = (format!("b{number}"), format!("o{}", number % PLAYERS));
        let amount = 1 + i64::try_from(number % 9).unwrap();
        match number % 10 {
            2 => Game::present(&self.app, &open_id, &biz_no, amount),
            3 => Game::query(&self.app, &open_id, &biz_no).with("close", 1),
            4 if number > PLAYERS => {
                Game::cancel(&self.app, &open_id, &biz_no, &format!("b{}", number - PLAYERS), 1)
            }
            _ => Game::new(&self.app, &open_id, &biz_no, amount),
        }
    }

    async fn at_rest(&mut self, figures: &mut Figures) {
        let restored = self.dump_and_restore("restored_at_rest").await;
        let there = PgPool::connect(&restored).await.unwrap();
        let (before, after) = (digests(&self.till.sql, None).await, digests(&there, None).await);
        for (table, rows) in &before {
            figures.expect(after.get(table) == Some(rows), || {
                format!("{table}: {rows:?} became {:?}", after.get(table))
            });
        }
        figures.expect(before.len() == after.len(), || "there are other tables".to_owned());
        let rows: i64 = before.values().map(|(count, _)| count).sum();
        figures.note(format!("{rows} rows of {} tables the same", before.len()));
        let schemas = (schema(&self.till.database_url), schema(&restored));
        figures.expect(schemas.0 == schemas.1, || "the schema differs".to_owned());
        let program = Program::on(&restored);
        assert!(program.run(&["audit"]).status.success(), "the restored books are clean");
        let other_key = program.clone().with("MINITILL_SECRETS__MASTER_KEY", &"2".repeat(64));
        let complaint = other_key.complaint(&["app", "list"]);
        figures.expect(complaint.contains("master key"), || complaint.clone());
        let server = program.serve(None).await;
        self.is_the_same_till(server.address, &there, figures).await;
        drop(server);
        assert!(program.run(&["audit"]).status.success(), "and clean after new exchanges");
    }

    /// Asks a server on the restored database what the first one was asked.
    async fn is_the_same_till(&self, address: SocketAddr, sql: &PgPool, figures: &mut Figures) {
        for (game, told) in &self.asked {
            let request = game.clone().with("ts", now()).request();
            let answer = try_send(address, &request).await.expect("an answer");
            // A query has no replay.
            let replayed = (!game.fields.contains_key("close")).then_some("true");
            let is_same = answer.body == told.body && answer.header("idempotent-replayed") == replayed;
            figures.expect(is_same, || format!("{} became {}", told.body, answer.body));
        }
        for img_id in &self.images {
            for suffix in ["", "?w=120"] {
                let request = Request::get(&format!("/img/{img_id}{suffix}"));
                let told = self.till.send(request.clone()).await;
                let answer = try_send(address, &request).await.expect("an answer");
                let same = (told.status, &told.bytes, told.header("etag"))
                    == (answer.status, &answer.bytes, answer.header("etag"));
                figures.expect(same && told.status == 200, || format!("{img_id}{suffix} differs"));
            }
        }
        for request in &self.reports {
            assert_eq!(try_send(address, request).await.expect("an answer").code(), 1);
        }
        let events: i64 =
            sqlx::query_scalar("SELECT count(*) FROM order_events").fetch_one(sql).await.unwrap();
        figures.expect(events == 3, || format!("identical reports made {events} events of 3"));
        assert_eq!(try_send(address, &token(&self.app)).await.expect("an answer").code(), 1);
        let (_, last) = self.asked.iter().rev().find(|(game, _)| game.fields["open_id"] == "o1").unwrap();
        let new = exchange(&self.app, "o1", "afterwards", 10, now());
        let new = try_send(address, &new).await.expect("an answer").json();
        let charge = last.json()["data"]["chargeBalance"].as_i64().unwrap();
        assert_eq!(new["data"]["chargeBalance"].as_i64(), Some(charge - 10), "money goes on where it was");
    }

    /// As README.md says: into the private PostgreSQL of a server that runs, which goes on with it.
    async fn under_a_running_server(&self, figures: &mut Figures) {
        let folder = Folder::new("restored");
        let (data_dir, dump) = (folder.0.join("data"), folder.0.join("dump"));
        let statements = folder.0.join("statements.sql");
        let program = Program::on("").with("MINITILL_DATABASE__DATA_DIR", text(&data_dir));
        let server = program.serve(None).await;
        let asked = exchange(&self.app, "o1", "before", 1, now());
        assert_eq!(
            try_send(server.address, &asked).await.expect("an answer").code(),
            100_200_102,
            "it is empty"
        );
        let (from, socket_dir) = (self.till.database_url.clone(), private::socket_dir(&data_dir));
        let carrying = tokio::task::spawn_blocking(move || {
            tool("pg_dump", &["--format=custom", "--dbname", &from, "--file", text(&dump)]);
            let there = ["-h", text(&socket_dir), "-U", USER, "-d", "postgres"];
            tool("pg_restore", &["--no-owner", "--file", text(&statements), text(&dump)]);
            // A dump of an older version lacks tables that the server has made: none may stay. In one transaction,
            // so that nobody is told that what is still to come is not there.
            let how = ["--no-psqlrc", "--quiet", "--single-transaction", "--set", "ON_ERROR_STOP=1"];
            let what = [
                "-c",
                "DROP SCHEMA public CASCADE",
                "-c",
                "CREATE SCHEMA public",
                "--file",
                text(&statements),
            ];
            tool("psql", &[&there[..], &how, &what].concat());
        });
        carrying.await.unwrap();
        assert!(program.run(&["audit"]).status.success(), "the restored books are clean");
        let there = private::connect(&data_dir).await;
        self.is_the_same_till(server.address, &there, figures).await;
        there.close().await;
        figures.note("restored under a running server as well");
    }

    async fn under_load(&mut self, figures: &mut Figures) {
        let stop = Arc::new(AtomicBool::new(false));
        let mut callers = JoinSet::new();
        for caller in 0..4 {
            let (app, stop, address) = (self.app.clone(), Arc::clone(&stop), self.till.address);
            callers.spawn(async move {
                let open_id = format!("o{caller}");
                for count in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let number = format!("load{caller}n{count}");
                    let game = match count % 4 {
                        0 => Game::new(&app, &open_id, &number, 1),
                        1 => Game::present(&app, &open_id, &number, 1),
                        2 => Game::cancel(&app, &open_id, &number, &format!("load{caller}n{}", count - 2), 1),
                        _ => Game::query(&app, &open_id, &number).with("close", 1),
                    };
                    let answer = try_send(address, &game.request()).await.expect("an answer");
                    assert_eq!(answer.code(), 1, "{}", answer.body);
                }
            });
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let numbers = "SELECT count(*) FROM ledger_entries WHERE kind <> 'credit'";
        let before = self.till.number(numbers).await;
        let restored = self.dump_and_restore("restored_under_load").await;
        stop.store(true, Ordering::SeqCst);
        while let Some(ended) = callers.join_next().await {
            ended.unwrap();
        }
        let after = self.till.number(numbers).await;
        let there = PgPool::connect(&restored).await.unwrap();
        let kept: i64 = sqlx::query_scalar(numbers).fetch_one(&there).await.unwrap();
        figures.expect((before..after).contains(&kept), || {
            format!("{before} before, {after} after, {kept} kept")
        });
        assert!(before > i64::try_from(self.asked.len()).unwrap(), "there was load");
        assert!(Program::on(&restored).run(&["audit"]).status.success(), "a dump under load is one moment");
        figures.note(format!("a dump under load holds {kept} numbers, {before} of them from before it"));
    }

    /// The URL of a database that was restored from a dump of the till's.
    async fn dump_and_restore(&self, name: &str) -> String {
        let restored = empty_database(name).await;
        let folder = Folder::new(name);
        let path = folder.0.join("dump");
        let (from, to) = (self.till.database_url.clone(), restored.clone());
        let carrying = tokio::task::spawn_blocking(move || {
            tool("pg_dump", &["--format=custom", "--dbname", &from, "--file", text(&path)]);
            tool("pg_restore", &["--exit-on-error", "--no-owner", "--dbname", &to, text(&path)]);
        });
        carrying.await.unwrap();
        restored
    }
}

/// The schema as `pg_dump` writes it, without its comments and what differs in every dump.
fn schema(database_url: &str) -> String {
    let dump = tool("pg_dump", &["--schema-only", "--no-owner", "--dbname", database_url]);
    let lines = dump.lines().filter(|line| !line.starts_with("--") && !line.starts_with('\\'));
    lines.collect::<Vec<_>>().join("\n")
}

/// Runs one of PostgreSQL's programs to its end, and gives what it printed.
fn tool(name: &str, arguments: &[&str]) -> String {
    let program = Programs::find(None).expect("its server runs").path(name);
    let output = Command::new(program).args(arguments).env("PGCONNECT_TIMEOUT", "10").output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the schema is plain text")
}
