//! Holds a journal against the tables, with SQL and arithmetic of the proofs' own: nothing of the program is used.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;
use sqlx::{PgConnection, Row as _};

use super::caller::{Asked, Reply};
use super::figures::Figures;
use super::journal::{Journal, Line};

/// All that the journal knows of a number.
#[derive(Debug)]
struct Story {
    asked: Asked,
    /// Bodies of the answers that acknowledged it.
    acknowledged: BTreeSet<String>,
    /// The code of the last business answer.
    last_code: Option<u64>,
    replays: usize,
}

/// A row of the ledger, with the record that names it.
#[derive(Debug)]
struct Entry {
    open_id: String,
    seq: i64,
    kind: String,
    reference: String,
    change: (i64, i64),
    after: (i64, i64),
}

/// A row of the exchanges.
#[derive(Debug)]
struct Record {
    open_id: String,
    seq: i64,
    amount: i64,
    priority: i16,
}

/// What the tables hold.
struct Books {
    entries: Vec<Entry>,
    records: HashMap<String, Vec<Record>>,
    wallets: BTreeMap<String, (i64, i64, i64)>,
    credited: i128,
}

/// Compares; there must be one app, and nobody may be at work any more.
pub(crate) async fn check(journal: &Journal, sql: &mut PgConnection) -> Figures {
    let stories = stories(journal);
    let books = Books::read(sql).await;
    let mut figures = Figures { exchanges: stories.len(), ..Figures::default() };
    let mut entries: HashMap<&str, Vec<&Entry>> = HashMap::new();
    for entry in books.entries.iter().filter(|entry| entry.kind == "exchange") {
        entries.entry(&entry.reference).or_default().push(entry);
    }
    for (number, story) in &stories {
        let found = entries.get(number.as_str()).map_or(&[][..], Vec::as_slice);
        let records = books.records.get(number).map_or(&[][..], Vec::as_slice);
        judge(&mut figures, number, story, found, records);
    }
    for number in entries.keys().copied().chain(books.records.keys().map(String::as_str)) {
        figures.expect(stories.contains_key(number), || {
            format!("{number}: in the books, and nobody asked for it")
        });
    }
    books.check_wallets(&mut figures);
    figures.replays = stories.values().map(|story| story.replays).sum();
    figures
}

fn stories(journal: &Journal) -> BTreeMap<String, Story> {
    let mut stories: BTreeMap<String, Story> = BTreeMap::new();
    for line in journal.read() {
        match line {
            Line::Asking(asked) => {
                let new = || Story {
                    asked: asked.clone(),
                    acknowledged: BTreeSet::new(),
                    last_code: None,
                    replays: 0,
                };
                let story = stories.entry(asked.number.clone()).or_insert_with(new);
                assert_eq!(story.asked, asked, "a number is asked for with one content only");
            }
            Line::Told(number, reply) => {
                let story = stories.get_mut(&number).expect("the intent comes first");
                story.last_code = reply.code().or(story.last_code);
                if let Reply::Answer { replayed, body, .. } = &reply
                    && reply.is_success()
                {
                    story.acknowledged.insert(body.clone());
                    story.replays += usize::from(*replayed);
                }
            }
        }
    }
    stories
}

/// One number: what was told against what is written.
fn judge(figures: &mut Figures, number: &str, story: &Story, entries: &[&Entry], records: &[Record]) {
    if entries.len() > 1 || records.len() > 1 {
        figures.doubled += 1;
        figures.faults.push(format!("{number}: {} deductions, {} records", entries.len(), records.len()));
        return;
    }
    figures.expect(entries.len() == records.len(), || {
        format!("{number}: {} deductions, but {} records", entries.len(), records.len())
    });
    figures.expect(story.acknowledged.len() <= 1, || {
        format!("{number}: answered in different ways: {:?}", story.acknowledged)
    });
    let (entry, record) = (entries.first(), records.first());
    if let (Some(entry), Some(record)) = (entry, record) {
        let asked = &story.asked;
        let is_the_same = (record.open_id.as_str(), record.amount, record.priority)
            == (asked.open_id.as_str(), asked.amount, asked.priority)
            && (&entry.open_id, entry.seq) == (&record.open_id, record.seq);
        figures.expect(is_the_same, || format!("{number}: {asked:?} is recorded as {record:?}, {entry:?}"));
    }
    if let Some(body) = story.acknowledged.first() {
        let told = balances(body);
        let written = entry.map(|entry| entry.after);
        if told.is_none() || told != written {
            figures.lost += 1;
            figures.faults.push(format!("{number}: acknowledged with {body}, but written {entry:?}"));
        }
        figures.expect(story.last_code == Some(1), || format!("{number}: acknowledged, and refused later"));
    } else if story.last_code.is_some() {
        figures.expect(entry.is_none() && record.is_none(), || {
            format!("{number}: refused with {:?}, but written", story.last_code)
        });
    } else {
        figures.unresolved += 1;
    }
}

fn balances(body: &str) -> Option<(i64, i64)> {
    let body: Value = serde_json::from_str(body).ok()?;
    Some((body["data"]["freeBalance"].as_i64()?, body["data"]["chargeBalance"].as_i64()?))
}

/// How much an amount takes from the gifted and the charged purse, `None` when they do not cover it.
/// This is the proofs' own reading of the rule, on purpose not the program's.
fn split(free: i64, charge: i64, amount: i64, priority: i16) -> Option<(i64, i64)> {
    if i128::from(free) + i128::from(charge) < i128::from(amount) {
        return None;
    }
    match priority {
        0 if charge >= amount => Some((0, amount)),
        0 => Some((amount - charge, charge)),
        1 if free >= amount => Some((amount, 0)),
        1 => Some((free, amount - free)),
        other => panic!("no proof asks with pay_priority {other}"),
    }
}

impl Books {
    async fn read(sql: &mut PgConnection) -> Self {
        let rows = sqlx::query(
            "SELECT open_id, seq, kind, reference, free_change, charge_change, free_balance, charge_balance \
             FROM ledger WHERE seq IS NOT NULL ORDER BY app_id, open_id, seq",
        );
        let rows = rows.fetch_all(&mut *sql).await.unwrap();
        let entries = rows.iter().map(|row| Entry {
            open_id: row.get(0),
            seq: row.get(1),
            kind: row.get(2),
            reference: row.get(3),
            change: (row.get(4), row.get(5)),
            after: (row.get(6), row.get(7)),
        });
        let entries = entries.collect();
        let mut records: HashMap<String, Vec<Record>> = HashMap::new();
        let rows = sqlx::query(
            "SELECT reference, open_id, seq, -(free_change + charge_change), pay_priority FROM ledger \
             WHERE kind = 'exchange'",
        );
        for row in rows.fetch_all(&mut *sql).await.unwrap() {
            let record =
                Record { open_id: row.get(1), seq: row.get(2), amount: row.get(3), priority: row.get(4) };
            records.entry(row.get(0)).or_default().push(record);
        }
        let rows = sqlx::query("SELECT open_id, free_balance, charge_balance, entry_count FROM wallets");
        let rows = rows.fetch_all(&mut *sql).await.unwrap();
        let wallets = rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2), row.get(3)))).collect();
        let credited: String = sqlx::query_scalar(
            "SELECT coalesce(sum(free_change::numeric + charge_change), 0)::text FROM ledger_entries \
             WHERE kind = 'credit'",
        )
        .fetch_one(sql)
        .await
        .unwrap();
        Self { entries, records, wallets, credited: credited.parse().unwrap() }
    }

    /// Goes through every wallet's ledger, works out each row anew, and adds everything up.
    fn check_wallets(&self, figures: &mut Figures) {
        let mut purses: BTreeMap<&str, (i64, i64, i64)> = BTreeMap::new();
        for entry in &self.entries {
            let (free, charge, count) = purses.get(entry.open_id.as_str()).copied().unwrap_or_default();
            let expected = match entry.kind.as_str() {
                "credit" => Some(entry.change),
                _ => self.deduction(entry, free, charge),
            };
            figures.expect(expected == Some(entry.change), || {
                format!("{entry:?}: with {free} gifted and {charge} charged before, the change must be {expected:?}")
            });
            let after = (free + entry.change.0, charge + entry.change.1);
            let follows = after == entry.after && after.0 >= 0 && after.1 >= 0 && entry.seq == count + 1;
            figures.expect(follows, || {
                format!("{entry:?}: expected entry {} with {after:?} after it", count + 1)
            });
            purses.insert(&entry.open_id, (after.0, after.1, count + 1));
        }
        for (open_id, held) in &self.wallets {
            let worked_out = purses.get(open_id.as_str()).copied().unwrap_or_default();
            figures.expect(*held == worked_out, || {
                format!("wallet {open_id} holds {held:?}, its ledger {worked_out:?}")
            });
        }
        figures.expect(purses.keys().all(|open_id| self.wallets.contains_key(*open_id)), || {
            "a ledger has no wallet".to_owned()
        });
        let held: i128 =
            self.wallets.values().map(|(free, charge, _)| i128::from(*free) + i128::from(*charge)).sum();
        let deducted: i128 = self.records.values().flatten().map(|record| i128::from(record.amount)).sum();
        figures.expect(held == self.credited - deducted, || {
            format!(
                "{} credited less {deducted} deducted is not the {held} that the wallets hold",
                self.credited
            )
        });
    }

    /// What an entry must change, by the record that it names.
    fn deduction(&self, entry: &Entry, free: i64, charge: i64) -> Option<(i64, i64)> {
        let record = self.records.get(&entry.reference)?.first()?;
        let (from_free, from_charge) = split(free, charge, record.amount, record.priority)?;
        Some((-from_free, -from_charge))
    }
}
