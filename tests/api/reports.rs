//! The books (contract 13): statements of periods, the bill, and the comparison with the books of others.

mod bill;
mod closed;
mod comparison;
mod reconcile;
mod statement;

use std::fs;
use std::path::PathBuf;

use domain::app::Scope;
use domain::ids::{CreditRef, OpenId};
use domain::operation::wallet::Credit;
use domain::operator::{Operator, OperatorKind};
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use crate::admin::Caller;
use crate::game::Game;
use crate::support::program::Program;
use crate::support::{AppKind, TestApp, TestTill};

/// A folder that is removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("minitill-reports-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        fs::write(self.0.join(name), text).unwrap();
        self.file(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn till() -> (TestTill, TestApp, Program) {
    // So many that one key's half of the operators' places is more than a report's own permits.
    let till = TestTill::start_with(|config| config.database.connections = 16).await;
    let app = till.app_like("a1", AppKind { scopes: &Scope::ALL, ..AppKind::default() }).await;
    let program = Program::on(&till.database_url);
    (till, app, program)
}

/// Gives the entry with this reference another time.
async fn date(till: &TestTill, reference: &str, at: &str) {
    let moved = format!("UPDATE ledger_entries SET at = '{at}' WHERE reference = '{reference}'");
    till.execute(&moved).await;
}

/// Lets sessions that open from now on take a function of this schema for one of PostgreSQL's own.
async fn replace_function(url: &str, function: &str) {
    let mut sql = PgConnection::connect(url).await.unwrap();
    let path = "DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database());
    END $$";
    for statement in [function, path] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned())).execute(&mut sql).await.unwrap();
    }
}

async fn play(till: &TestTill, game: Game) {
    let answer = game.send(till).await;
    assert_eq!(answer.code(), 1, "{}", answer.body);
}

/// An entry of each kind and source, each with gifted or charged currency of its own, in three months of Berlin.
/// March 2026 has an hour less there. It begins at 2026-02-28T23:00:00Z and ends at 2026-03-31T22:00:00Z.
async fn three_months(name: &str) -> (TestTill, TestApp, Program) {
    let (till, app, program) = till().await;
    let folder = Folder::new(name);
    let command = |open_id: &str, reference: &str, free: &str, charge: &str| {
        let words = ["wallet", "credit", "a1", open_id, "--create", "--ref", reference];
        program.json(&[&words[..], &["--free", free, "--charge", charge]].concat());
    };
    command("o1", "before", "1000", "2000");
    command("o1", "r1", "1", "10000");
    let lines = "open_id,free,charge,ref\no1,20,100,i1\no2,300,0,i2\n";
    program.json(&["wallet", "import", "a1", &folder.write("in.csv", lines), "--create"]);
    let caller = Caller::admin(&till).await;
    let one = json!({"free": 4000, "charge": 7, "ref": "p1"});
    assert_eq!(caller.post("/apps/a1/wallets/o1/credits", "k1", one).await.status, 200);
    let many = json!({"credits": [{"open_id": "o1", "free": 50000, "charge": 0, "ref": "p2"}]});
    assert_eq!(caller.send("POST", "/apps/a1/credits:batch", None, &many).await.status, 200);
    let console = Operator::new(OperatorKind::Console, "alice").unwrap();
    let credit = Credit {
        open_id: OpenId::parse("o3").unwrap(),
        free: 600_000,
        charge: 3,
        reference: CreditRef::parse("c1").unwrap(),
        note: String::new(),
        create: true,
    };
    till.store.change_wallet(&console, &app.id, credit).await.unwrap();
    play(&till, Game::present(&app, "o1", "g1", 7_000_000)).await;
    play(&till, Game::new(&app, "o1", "b1", 4_500).with("product_name", "=1+1;\"a\", b\n'c")).await;
    play(&till, Game::cancel(&app, "o1", "b1c", "b1", 500)).await;
    program.json(&["wallet", "cancel", "a1", "b1", "--amount", "30", "--ref", "give"]);
    program.json(&["wallet", "debit", "a1", "o1", "--free", "2", "--charge", "9", "--ref", "take"]);
    command("o1", "after", "5", "5");
    for reference in ["!r1", "!i1", "!i2", "!p1", "!p2", "!c1", "g1", "b1", "b1c", "!give", "!take"] {
        date(&till, reference, "2026-03-29T12:00:00.5Z").await;
    }
    // A player without entries, of the last moment of the month.
    program.json(&["user", "add", "a1", "o4"]);
    till.execute("UPDATE wallets SET created_at = '2026-03-31T21:59:59Z' WHERE open_id = 'o4'").await;
    // The last moment before, the first and the last moment of the month, and the first after it.
    date(&till, "!before", "2026-02-28T22:59:59.999999Z").await;
    date(&till, "!r1", "2026-02-28T23:00:00Z").await;
    date(&till, "!take", "2026-03-31T21:59:59.999999Z").await;
    date(&till, "!after", "2026-03-31T22:00:00Z").await;
    (till, app, program)
}
