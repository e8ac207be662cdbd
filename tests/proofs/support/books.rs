//! Holds a journal against the tables, with SQL and arithmetic of the proofs' own: nothing of the program is used.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;
use sqlx::{PgConnection, Row as _};

use super::caller::{Asked, Reply, Wish};
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

/// A row of the ledger. A closed number has no position.
#[derive(Debug)]
struct Entry {
    open_id: String,
    seq: Option<i64>,
    kind: String,
    reference: String,
    change: (i64, i64),
    after: (i64, i64),
    priority: Option<i16>,
    of: Option<String>,
    remaining: Option<i64>,
}

/// An exchange, as the cancels of it need it.
struct Paid {
    before: (i64, i64),
    amount: i64,
    priority: i16,
    given_back: i64,
}

/// What the tables hold.
struct Books {
    entries: Vec<Entry>,
    wallets: BTreeMap<String, (i64, i64, i64)>,
    credited: i128,
}

/// Compares; there must be one app, and nobody may be at work any more.
pub(crate) async fn check(journal: &Journal, sql: &mut PgConnection) -> Figures {
    let stories = stories(journal);
    let books = Books::read(sql).await;
    let mut figures = Figures { exchanges: stories.len(), ..Figures::default() };
    let mut entries: HashMap<&str, Vec<&Entry>> = HashMap::new();
    for entry in books.entries.iter().filter(|entry| entry.kind != "credit") {
        entries.entry(&entry.reference).or_default().push(entry);
    }
    for (number, story) in &stories {
        let found = entries.get(number.as_str()).map_or(&[][..], Vec::as_slice);
        judge(&mut figures, number, story, found);
    }
    for number in entries.keys().copied() {
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
fn judge(figures: &mut Figures, number: &str, story: &Story, entries: &[&Entry]) {
    if entries.len() > 1 {
        figures.doubled += 1;
        figures.faults.push(format!("{number}: {} changes", entries.len()));
        return;
    }
    figures.expect(story.acknowledged.len() <= 1, || {
        format!("{number}: answered in different ways: {:?}", story.acknowledged)
    });
    let entry = entries.first();
    if let Some(entry) = entry {
        let asked = &story.asked;
        figures.expect(entry.is_what(asked), || format!("{number}: {asked:?} is recorded as {entry:?}"));
    }
    if let Some(body) = story.acknowledged.first() {
        let is_told = match story.asked.wish {
            Wish::Close => entry.is_some() && body.contains(r#""status":"closed""#),
            Wish::Exchange(_) | Wish::Present | Wish::Cancel(_) => {
                let told = balances(body);
                told.is_some() && told == entry.map(|entry| entry.after)
            }
        };
        if !is_told {
            figures.lost += 1;
            figures.faults.push(format!("{number}: acknowledged with {body}, but written {entry:?}"));
        }
        figures.expect(story.last_code == Some(1), || format!("{number}: acknowledged, and refused later"));
    } else if story.last_code.is_some() {
        figures
            .expect(entry.is_none(), || format!("{number}: refused with {:?}, but written", story.last_code));
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
            "SELECT open_id, seq, kind, reference, free_change, charge_change, free_balance, charge_balance, \
             pay_priority, of_biz_no, remaining FROM ledger ORDER BY app_id, open_id, seq",
        );
        let rows = rows.fetch_all(&mut *sql).await.unwrap();
        let entries = rows.iter().map(|row| Entry {
            open_id: row.get(0),
            seq: row.get(1),
            kind: row.get(2),
            reference: row.get(3),
            change: (row.get(4), row.get(5)),
            after: (row.get(6), row.get(7)),
            priority: row.get(8),
            of: row.get(9),
            remaining: row.get(10),
        });
        let entries = entries.collect();
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
        Self { entries, wallets, credited: credited.parse().unwrap() }
    }

    /// Goes through every wallet's ledger, works out each row anew, and adds everything up.
    fn check_wallets(&self, figures: &mut Figures) {
        let mut purses: BTreeMap<&str, (i64, i64, i64)> = BTreeMap::new();
        let mut paid: HashMap<&str, Paid> = HashMap::new();
        for entry in &self.entries {
            let Some(seq) = entry.seq else {
                let is_nothing = (entry.change, entry.after) == ((0, 0), (0, 0)) && entry.kind == "closed";
                figures.expect(is_nothing, || format!("{entry:?}: a closed number changes nothing"));
                continue;
            };
            let (free, charge, count) = purses.get(entry.open_id.as_str()).copied().unwrap_or_default();
            let expected = entry.expected((free, charge), &mut paid);
            figures.expect(expected == Some(entry.change), || {
                format!("{entry:?}: with {free} gifted and {charge} charged before, the change must be {expected:?}")
            });
            let after = (free + entry.change.0, charge + entry.change.1);
            let follows = after == entry.after && after.0 >= 0 && after.1 >= 0 && seq == count + 1;
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
        let of_games = self.entries.iter().filter(|entry| entry.kind != "credit");
        let deducted: i128 = of_games.map(|entry| -i128::from(entry.change.0 + entry.change.1)).sum();
        figures.expect(held == self.credited - deducted, || {
            format!(
                "{} credited less {deducted} deducted is not the {held} that the wallets hold",
                self.credited
            )
        });
    }
}

impl Entry {
    fn amount(&self) -> i64 {
        (self.change.0 + self.change.1).abs()
    }

    /// Whether this is what somebody asked for.
    fn is_what(&self, asked: &Asked) -> bool {
        let (kind, priority, of) = match &asked.wish {
            Wish::Exchange(priority) => ("exchange", Some(*priority), None),
            Wish::Present => ("present", None, None),
            Wish::Cancel(of) => ("cancel", None, Some(of)),
            Wish::Close => ("closed", None, None),
        };
        (self.kind.as_str(), self.priority, self.of.as_ref()) == (kind, priority, of)
            && (self.open_id.as_str(), self.amount()) == (asked.open_id.as_str(), asked.amount)
    }

    /// What it must change, with these purses before it and these exchanges.
    fn expected<'a>(&'a self, before: (i64, i64), paid: &mut HashMap<&'a str, Paid>) -> Option<(i64, i64)> {
        let amount = self.amount();
        match self.kind.as_str() {
            "credit" => Some(self.change),
            "present" => Some((amount, 0)),
            "exchange" => {
                let priority = self.priority?;
                let (free, charge) = split(before.0, before.1, amount, priority)?;
                paid.insert(&self.reference, Paid { before, amount, priority, given_back: 0 });
                Some((-free, -charge))
            }
            "cancel" => {
                let exchange = paid.get_mut(self.of.as_deref()?)?;
                // As if the exchange had been for what is left of it.
                let as_if = |amount| split(exchange.before.0, exchange.before.1, amount, exchange.priority);
                let left = exchange.amount - exchange.given_back;
                let (less, more) = (as_if(left)?, as_if(left - amount)?);
                exchange.given_back += amount;
                let is_told = self.remaining == Some(left - amount) && left >= amount;
                is_told.then_some((less.0 - more.0, less.1 - more.1))
            }
            _ => None,
        }
    }
}
