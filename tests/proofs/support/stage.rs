//! The stage of every proof: a database, the program, an app with wallets, a journal.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use domain::ids::AppId;
use serde_json::Value;

use super::books;
use super::caller::{Caller, Meter};
use super::figures::Figures;
use super::journal::Journal;
use super::postgres::Postgres;
use crate::service::program::Program;
use crate::service::{PAGE, TestApp};

/// What the wallets hold at the start, and how many there are: `o0`, `o1` and so on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wallets {
    pub(crate) count: usize,
    pub(crate) free: i64,
    pub(crate) charge: i64,
}

/// An app on a database, and a journal of what is asked for it.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    /// The program on that database, with the default settings.
    pub(crate) program: Program,
    pub(crate) app: Arc<TestApp>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) wallets: Wallets,
}

impl Stage {
    /// On a durable PostgreSQL of its own.
    pub(crate) async fn set(wallets: Wallets) -> (Self, Postgres) {
        let postgres = Postgres::start().await;
        let program = with_defaults(Program::on(&postgres.url()));
        assert!(program.run(&["migrate"]).status.success());
        (Self::on(program, wallets), postgres)
    }

    /// On whatever database the program uses; its commands must reach it.
    pub(crate) fn on(program: Program, wallets: Wallets) -> Self {
        let text = |json: &Value, name: &str| json[name].as_str().unwrap().to_owned();
        let made = program
            .json(&["app", "create", "a1", "--scope", "epay", "--scope", "present", "--scope", "cancel"]);
        program.json(&["app", "publish", "a1", "--version", "1", "--path", PAGE]);
        let issued = program.json(&["token", "issue", "a1"]);
        let app = TestApp {
            id: AppId::parse("a1").unwrap(),
            secret: text(&made, "app_secret"),
            pay_key: text(&made, "pay_key"),
            token: text(&issued, "access_token"),
        };
        let journal = Journal::new();
        let file = journal.folder().join("wallets.csv");
        fs::write(&file, wallets.csv()).unwrap();
        program.json(&["wallet", "import", "a1", path_text(&file), "--create"]);
        Self { program, app: Arc::new(app), journal: Arc::new(journal), meter: Arc::default(), wallets }
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller::new(Arc::clone(&self.app), Arc::clone(&self.journal), Arc::clone(&self.meter))
    }

    /// Holds the journal against the tables behind that socket, and has the program audit itself.
    pub(crate) async fn close_books(&self, socket_dir: &Path) -> Figures {
        let mut sql = super::postgres::connect(socket_dir).await.unwrap();
        let mut figures = books::check(&self.journal, self.wallets, &mut sql).await;
        let audit = self.program.run(&["audit", "--json"]);
        let said = String::from_utf8_lossy(&audit.stdout).into_owned();
        let report: Value = serde_json::from_str(&said).unwrap_or_default();
        figures
            .expect(audit.status.success() && report["clean"] == true, || format!("the audit says {said}"));
        figures
    }
}

impl Wallets {
    fn csv(self) -> String {
        let mut csv = String::from("open_id,free,charge,ref\n");
        for index in 0..self.count {
            writeln!(csv, "o{index},{},{},start-o{index}", self.free, self.charge).unwrap();
        }
        csv
    }
}

/// The program as an operator has it, without the patience that other tests give it.
pub(crate) fn with_defaults(program: Program) -> Program {
    program
        .with("MINITILL_DATABASE__CONNECTIONS", "16")
        .with("MINITILL_DATABASE__ACQUIRE_TIMEOUT", "1500ms")
        .with("MINITILL_DATABASE__STATEMENT_TIMEOUT", "5s")
        .with("MINITILL_EXCHANGE__DEADLINE", "2s")
        .with("MINITILL_IMAGE__STORE_TIMEOUT", "10s")
        .with("MINITILL_FETCH__CONNECT_TIMEOUT", "2s")
        .with("MINITILL_FETCH__TIMEOUT", "10s")
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("the folder for temporary files has a name in plain text")
}
