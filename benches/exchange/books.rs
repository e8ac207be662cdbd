//! The balance of the money after a run: what the wallets hold, what was acknowledged, and what there was.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::Fallible;
use crate::program::Program;
use crate::requests::{AMOUNT, Asked, CANCEL_AMOUNT, CREDIT_AMOUNT, PRESENT_AMOUNT, TOPUP_COINS};
use crate::seed::PURSE;
use crate::stage::Session;

/// What was done to the wallets, as the callers know it.
#[derive(Debug, Default)]
pub(crate) struct Books {
    /// Calls that were acknowledged, each with its own order number.
    acknowledged: BTreeMap<Asked, u64>,
    /// Credits by imports.
    credits: u64,
    /// Exchanges that the tables were filled with.
    filled: u64,
    /// Answers that were wrong, by what they said.
    wrong: BTreeMap<String, u64>,
}

/// The findings at the end of the run.
#[derive(Debug)]
pub(crate) struct Closing {
    start: i128,
    left: i128,
    acknowledged: BTreeMap<Asked, u64>,
    credits: u64,
    filled: u64,
    records: i64,
    /// Reports that changed an order.
    events: i64,
    wrong: BTreeMap<String, u64>,
    audit: Value,
}

impl Books {
    pub(crate) fn acknowledge(&mut self, made: &BTreeMap<Asked, u64>) {
        for (asked, count) in made {
            *self.acknowledged.entry(*asked).or_default() += count;
        }
    }

    /// How many calls were acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.values().sum()
    }

    pub(crate) fn fill(&mut self, exchanges: u64) {
        self.filled += exchanges;
    }

    pub(crate) fn credit(&mut self, credits: u32) {
        self.credits += u64::from(credits);
    }

    pub(crate) fn note_wrong(&mut self, wrong: BTreeMap<String, u64>) {
        for (what, count) in wrong {
            *self.wrong.entry(what).or_default() += count;
        }
    }

    /// Compares with the tables, and has the program audit itself.
    pub(crate) fn close(self, session: &mut Session, program: &Program, wallets: u32) -> Fallible<Closing> {
        let left =
            session.text("SELECT sum(free_balance::numeric + charge_balance)::text FROM public.wallets")?;
        let records = session.number("SELECT count(*) FROM public.ledger_entries WHERE kind <> 'credit'")?;
        let events = session.number("SELECT count(*) FROM public.order_events")?;
        let audit = program.json(&["audit"])?;
        Ok(Closing {
            start: i128::from(wallets) * 2 * i128::from(PURSE),
            left: left.parse()?,
            acknowledged: self.acknowledged,
            credits: self.credits,
            filled: self.filled,
            records,
            events,
            wrong: self.wrong,
            audit,
        })
    }
}

impl Closing {
    fn money_adds_up(&self) -> bool {
        self.start == self.left + self.spent()
    }

    fn records_add_up(&self) -> bool {
        i128::from(self.records) == self.acknowledged_changes() + i128::from(self.filled)
    }

    fn events_add_up(&self) -> bool {
        i128::from(self.events) == self.count(Asked::ReportNew) + self.count(Asked::ReportChanged)
    }

    fn count(&self, asked: Asked) -> i128 {
        self.acknowledged.get(&asked).copied().unwrap_or_default().into()
    }

    /// Exchanges, presents, cancels, orders of top-ups and payments.
    fn acknowledged_changes(&self) -> i128 {
        let changes = [Asked::Exchange, Asked::Present, Asked::Cancel, Asked::Order, Asked::Payment];
        changes.into_iter().map(|asked| self.count(asked)).sum()
    }

    /// What the exchanges have deducted, less what was given, given back and paid for.
    fn spent(&self) -> i128 {
        (self.count(Asked::Exchange) + i128::from(self.filled)) * i128::from(AMOUNT)
            - self.count(Asked::Present) * i128::from(PRESENT_AMOUNT)
            - self.count(Asked::Cancel) * i128::from(CANCEL_AMOUNT)
            - self.count(Asked::Payment) * i128::from(TOPUP_COINS.iter().sum::<u32>())
            - i128::from(self.credits) * i128::from(CREDIT_AMOUNT)
    }

    fn audit_is_clean(&self) -> bool {
        self.audit["clean"] == true
    }

    /// Whether nothing at all is wrong.
    pub(crate) fn is_right(&self) -> bool {
        let adds_up = self.money_adds_up() && self.records_add_up() && self.events_add_up();
        adds_up && self.wrong.is_empty() && self.audit_is_clean()
    }
}

impl fmt::Display for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let right = |is: bool| if is { "adds up" } else { "DOES NOT ADD UP" };
        writeln!(
            f,
            "money    {}: {} at the start = {} left + {} acknowledged",
            right(self.money_adds_up()),
            self.start,
            self.left,
            self.spent()
        )?;
        writeln!(
            f,
            "records  {}: {} rows = {} acknowledged + {} filled in",
            right(self.records_add_up()),
            self.records,
            self.acknowledged_changes(),
            self.filled
        )?;
        if self.events > 0 || !self.events_add_up() {
            writeln!(f, "orders   {}: {} changes by reports", right(self.events_add_up()), self.events)?;
        }
        let report = &self.audit;
        if self.audit_is_clean() {
            let (wallets, entries, exchanges) =
                (&report["wallets"], &report["entries"], &report["all"]["changes"]["exchange"]["entries"]);
            writeln!(
                f,
                "audit    clean: {wallets} wallets, {entries} ledger entries, {exchanges} exchanges"
            )?;
        } else {
            writeln!(f, "audit    NOT CLEAN: {report}")?;
        }
        if self.wrong.is_empty() {
            return write!(f, "answers  all right");
        }
        write!(f, "answers  WRONG:")?;
        self.wrong.iter().try_for_each(|(what, count)| write!(f, "\n  {count} times: {what}"))
    }
}
