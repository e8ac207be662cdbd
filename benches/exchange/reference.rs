//! PostgreSQL by itself, measured by pgbench on the same server: the bar to beat.

use std::time::Duration;

use domain::clock::{Clock as _, SystemClock};

use crate::Fallible;
use crate::pgbench::{Pgbench, Transactions};
use crate::requests::{AMOUNT, APP_ID, CONSTANT_FIELDS, FIRST_OPEN_ID, FIRST_ORDER, IMG_ID, ORDER_PATH};
use crate::seed::FIRST_PAST_ORDER;
use crate::stage::Stage;

/// The tables that the scripts work on.
pub(crate) const TABLES: &str = include_str!("reference/tables.sql");
/// Order numbers of one run of pgbench. Each client takes every hundredth, in step with the others,
/// so the numbers ascend as those of our load generator do.
const ORDERS_PER_RUN: u64 = 100_000_000_000;

/// What is written in SQL, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Script {
    Classic,
    OneStatement,
    ReportNew,
    ReportChanged,
}

impl Script {
    fn text(self) -> &'static str {
        match self {
            Self::Classic => include_str!("reference/classic.sql"),
            Self::OneStatement => include_str!("reference/one_statement.sql"),
            Self::ReportNew => include_str!("reference/report_new.sql"),
            Self::ReportChanged => include_str!("reference/report_changed.sql"),
        }
    }
}

/// pgbench, and what it needs to know.
pub(crate) struct Reference {
    pgbench: Pgbench,
    wallets: u32,
    runs: u64,
}

impl Reference {
    pub(crate) fn on(stage: &mut Stage, wallets: u32) -> Fallible<Self> {
        Ok(Self { pgbench: Pgbench::on(stage)?, wallets, runs: 0 })
    }

    pub(crate) fn run(&mut self, script: Script, clients: u32, lasting: Duration) -> Fallible<Transactions> {
        let variables = self.variables();
        self.pgbench.run(script.text(), clients, lasting, &variables)
    }

    fn variables(&mut self) -> Vec<(&'static str, String)> {
        let first_order = FIRST_ORDER + self.runs * ORDERS_PER_RUN;
        self.runs += 1;
        let mut variables = vec![
            ("n", "0".to_owned()),
            ("first_order", first_order.to_string()),
            ("first_open_id", FIRST_OPEN_ID.to_string()),
            ("wallets", self.wallets.to_string()),
            ("app_id", APP_ID.to_owned()),
            ("amount", AMOUNT.to_string()),
            ("first_past_order", FIRST_PAST_ORDER.to_string()),
            ("img_id", IMG_ID.to_owned()),
            ("order_path", ORDER_PATH.to_owned()),
            ("ts", SystemClock::new().unix_millis().to_string()),
        ];
        variables.extend(CONSTANT_FIELDS.map(|(name, value)| (name, value.to_owned())));
        variables
    }
}
